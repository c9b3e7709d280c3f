# SPDX-License-Identifier: Apache-2.0
"""Codes of floats: rounded, limited by constants, moved by a zero point, and narrowed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_text import agree, host_with_vectors, planned

from ngmlir.codegen import cpu
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.words import from_text

#: Numbers at ties, at limits, beyond an i32, and those that are none; more than registers have lanes.
NEAR = [-0.5, 0.5, 1.5, 2.5, 127.5, 128.5, -128.5, 254.5, 255.5, 2147483520, 2147483648, 3e9, 1e38]
VALUES = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, *NEAR, *[-x for x in NEAR]]

#: Target -> zero points, with the limits that leave codes all of its numbers, or fewer.
CASES = [
    ("ui8", 0, 0, 255),
    ("ui8", 0, 3, 200),
    ("ui8", 104, -104, 151),
    ("ui8", 255, -255, 0),
    ("i8", 0, -128, 127),
    ("i8", -5, -123, 132),
    ("i8", -128, 0, 255),
    ("i8", 127, -255, 0),
    ("i8", 10, -20, 20),
    ("ui16", 1, -1, 65534),
    ("i16", 0, -32768, 32767),
    ("i16", -32768, 0, 65535),
    ("i32", 0, -128, 127),
    ("i32", 0, 0, 255),
    ("i32", 7, -7, 248),  # the sum is not limited: only the cast gives codes
    ("i8", 100, -128, 127),  # beyond the range: they wrap around
    ("ui8", 0, 20, 10),  # the limit that comes last
]


def program(
    target: str,
    zero: int,
    low: int,
    high: int,
    size: int,
    *,
    is_lower_last: bool = False,
    step: str = "round",
) -> str:
    floats, words, made = f"vector<{size}xf32>", f"vector<{size}xi32>", f"vector<{size}x{target}>"
    limits = [f"ng.maximum %{{}}, %l : {floats}", f"ng.minimum %{{}}, %h : {floats}"]
    first, last = reversed(limits) if is_lower_last else limits
    narrowed = f"%q = ng.cast %s : ({words}) -> {made}" if target != "i32" else f"%q = ng.add %s, %n : {made}"
    body = f"""
      %l = ng.constant dense<{float(low)}> : {floats}
      %h = ng.constant dense<{float(high)}> : {floats}
      %z = ng.constant dense<{zero}> : {words}
      %n = ng.constant dense<0> : {words}
      %v = tile.load %x[%c0] : memref<{size}xf32>, {floats}
      %r = ng.{step} %v : {floats}
      %a = {first.format("r")}
      %b = {last.format("a")}
      %i = ng.cast %b : ({floats}) -> {words}
      %s = ng.add %z, %i : {words}
      {narrowed}
      tile.store %q, %o[%c0] : {made}, memref<{size}x{target}>
      tile.store %r, %p[%c0] : {floats}, memref<{size}xf32>"""
    return planned(
        {"x": f"memref<{size}xf32>"}, {"o": f"memref<{size}x{target}>", "p": f"memref<{size}xf32>"}, body
    )


@pytest.mark.parametrize("bytes", [16, 32, 64])
@pytest.mark.parametrize("target, zero, low, high", CASES)
def test_codes(target: str, zero: int, low: int, high: int, bytes: int) -> None:
    machine = host_with_vectors(bytes)
    for size in (len(VALUES), 5, 1):
        for at in range(0, len(VALUES), size):
            x = np.resize(np.array(VALUES[at:], np.float32), size)
            for is_lower_last in (False, True):
                agree(program(target, zero, low, high, size, is_lower_last=is_lower_last), x, target=machine)


def test_codes_that_are_not_rounded() -> None:
    for step in ("floor", "negative"):
        agree(program("ui8", 3, -3, 252, len(VALUES), step=step), np.array(VALUES, np.float32))


def test_one_conversion_rounds_and_limits() -> None:
    """Where the machine has it; others round, limit and convert."""
    module = from_text(program("ui8", 0, 0, 255, 16))
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        text = str(cpu.emit(module, cpu_target(name)).llvm)
        assert "cvtps2dq" in text.replace(".", "") or "cvt.ps2dq" in text, name
    arm = cpu_target("aarch64")
    assert "llvm.x86" not in str(cpu.emit(module, replace(arm)).llvm)
