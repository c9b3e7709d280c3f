# SPDX-License-Identifier: Apache-2.0
"""Arguments that are one value or a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast


def listed(given: Any) -> list[Any]:
    """A list or tuple as a list; anything else as a list of one."""
    return list(cast("Sequence[Any]", given)) if isinstance(given, (list, tuple)) else [given]
