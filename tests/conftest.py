# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a cache folder of their own, and random examples that are the same on every run."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Set before anything reads it, and kept for processes that tests start.
_CACHE = tempfile.TemporaryDirectory(prefix="ngmlir-test-cache-", ignore_cleanup_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    os.environ["NGMLIR_CACHE_DIR"] = _CACHE.name
    settings.register_profile(
        "ngmlir",
        max_examples=int(os.environ.get("NGMLIR_TEST_EXAMPLES", "20")),
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )
    settings.load_profile("ngmlir")


@pytest.fixture
def programs() -> Iterator[None]:
    """Has a test build programs of its own, with names that count from 0 and a scope of its own."""
    from ngmlir.frontends import fluid

    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield


@pytest.fixture
def open_compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has an element for each program for all lengths that a test compiles."""
    from ngmlir import compiler

    seen: list[str] = []
    every = compiler.compile_open

    def noting(*given: Any, **named: Any) -> Any:
        seen.append("all")
        return every(*given, **named)

    monkeypatch.setattr(compiler, "compile_open", noting)
    return seen


def pytest_collection_finish() -> None:
    # Half a million objects, which stay to the end: no collection of garbage needs to look through them.
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    _CACHE.cleanup()
