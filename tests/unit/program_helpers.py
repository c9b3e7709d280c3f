# SPDX-License-Identifier: Apache-2.0
"""What tests of programs share: a program for each test, and an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid

X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(autouse=True)
def program() -> Any:
    """The program that layers are appended to, with names and a scope of its own."""
    made = fluid.Program()
    with (
        fluid.program_guard(made, fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield made
