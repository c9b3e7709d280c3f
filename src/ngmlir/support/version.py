# SPDX-License-Identifier: Apache-2.0
"""The version of ngmlir. Its one home is pyproject.toml."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def version() -> str:
    """The version of the checkout that contains this file, else that of the installed package."""
    # The readers take longer to import than the rest of a tool's start; few commands ask for the version.
    import tomllib
    from importlib import metadata

    project = Path(__file__).parents[3] / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version("ngmlir")
