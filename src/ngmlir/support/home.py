# SPDX-License-Identifier: Apache-2.0
"""The location of `dialects/` and `lowering/`: next to `src/` in a checkout, inside the package in a wheel."""

from __future__ import annotations

from pathlib import Path

from .diagnostics import UserError


def folder(name: str) -> Path:
    """The folder `dialects` or `lowering`; the shipped one if there is one."""
    package = Path(__file__).parents[1]
    for candidate in (package / name, package.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise UserError(
        f"the folder '{name}' of ngmlir is missing",
        hint="reinstall ngmlir, or run it from a complete checkout",
    )
