# SPDX-License-Identifier: Apache-2.0
"""How many cores there are, and how many processes may compile on them."""

from __future__ import annotations

import os

from ..support.diagnostics import UserError

#: The most processes: each takes some 100 MB, and more than these seldom have work to do.
_MOST = 8


def available_cores() -> int:
    """The cores that this process may run on; in a container they are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compile_processes() -> int:
    """How many processes may compile for this one: NGMLIR_COMPILE_PROCESSES, else one per core."""
    own = os.environ.get("NGMLIR_COMPILE_PROCESSES", "").strip()
    if not own:
        return min(available_cores(), _MOST)
    if own.isdigit():
        return int(own)
    raise UserError(
        f"NGMLIR_COMPILE_PROCESSES is '{own}'", hint="set it to an integer; 0 compiles in this process"
    )
