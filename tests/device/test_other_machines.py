# SPDX-License-Identifier: Apache-2.0
"""Random programs for machines that nothing here can run: LLVM takes the code, and calls no library for it."""

from __future__ import annotations

import re

import pytest
from generators import modules
from hypothesis import given

from ngmlir.compiler import emit, lower
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import assembly, cpu_target

#: What LLVM may leave to the C library, and the program to the runtime.
CALLED = {"memcpy", "memset", "memmove", "ngmlir_parallel"}


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v4", "riscv64"])
@given(of=modules())
def test_random_programs_assemble(name: str, of: Module) -> None:
    target = cpu_target(name)
    code = assembly(emit(lower(of, target), target).llvm, target)
    own = set(re.findall(r"^\"?([A-Za-z_][\w.]*)\"?:", code, re.M))
    called = set(re.findall(r"\b(?:callq?|jmp|tail|call)\s+\"?([A-Za-z_][\w.]*)", code))
    assert {found.removesuffix("@PLT") for found in called} - own <= CALLED
