# SPDX-License-Identifier: Apache-2.0
"""Counts what is compiled."""

from __future__ import annotations

from typing import Any

from ngmlir import compiler


def compilations() -> list[str]:
    """What is compiled from now on: programs for lengths `alone`, and code for `all`."""
    seen: list[str] = []

    def counting(name: str, kind: str) -> None:
        real = getattr(compiler, name)

        def counted(*given: Any, **named: Any) -> Any:
            seen.append(kind)
            return real(*given, **named)

        setattr(compiler, name, counted)

    counting("assemble", "alone")
    counting("compile_open", "all")
    return seen
