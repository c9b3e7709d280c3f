# SPDX-License-Identifier: Apache-2.0
"""What kernels ask of a GPU, as people are told."""

from __future__ import annotations

from math import prod

import pytest

import ngmlir as ng
from ngmlir.compiler import compile_artifact, resolve
from ngmlir.ops.words import from_text
from ngmlir.runtime.counted import Counted, counted


def of(rows: int, columns: int) -> list[Counted]:
    x = ng.placeholder([ng.make_axis(rows, "N"), ng.make_axis(columns, "C")])
    y = ng.exp(x)
    module = ng.lift([y / ng.sum(y, reduction_axes=[x.axes[1]])], [x]).module
    return counted(compile_artifact(module, "sm_90a"), "sm_90a")


def test_a_kernel_tells_what_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGMLIR_PTXAS", "/nowhere")
    gpu = resolve("sm_90a").gpu
    (kernel,) = of(64, 256)
    assert kernel.registers is None and kernel.counters.blocks == 32
    text = "\n".join(kernel.lines(gpu))
    assert "32 blocks of 128 threads, unknown registers (no ptxas)" in text
    assert "global sectors 1.00 times the minimum" in text
    assert "predicted: " in text and "not timed on a device" in text
    assert kernel.occupancy(gpu) == 1.0


def test_registers_bound_the_occupancy() -> None:
    gpu = resolve("sm_90a").gpu
    (kernel,) = of(2, 256)
    many = Counted(kernel.counters, 255, 8)
    assert many.blocks_at_once(gpu) == 65536 // (256 * 128)
    assert many.occupancy(gpu) == pytest.approx(2 * 128 / gpu.threads)
    assert "255 registers, 8 spilled bytes" in "\n".join(many.lines(gpu))
    if kernel.registers is not None:
        assert 0 < kernel.registers < 255 and kernel.spills == 0


def test_programs_with_no_kernels_tell_nothing() -> None:
    x = ng.placeholder([ng.make_axis(0, "N")])
    assert counted(compile_artifact(ng.lift([ng.exp(x)], [x]).module, "sm_90a"), "sm_90a") == []


ELEMENTS = 1 << 24
LARGE = f"tensor<{ELEMENTS}xf32>"
SQUARE = "tensor<4096x4096xf32>"


def of_text(text: str, arch: str, sample: int | None) -> list[Counted]:
    return counted(compile_artifact(from_text(text), arch), arch, sample)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("takes", "gives", "body"),
    [
        (LARGE, LARGE, f"ng.tanh %x : {LARGE}"),
        (SQUARE, "tensor<4096xf32>", f"ng.sum %x axes [1] : ({SQUARE}) -> tensor<4096xf32>"),
        (SQUARE, "tensor<4096xf32>", f"ng.sum %x axes [0] : ({SQUARE}) -> tensor<4096xf32>"),
        (
            "tensor<1048576x17xf32>",
            "tensor<17xf32>",
            "ng.max %x axes [0] : (tensor<1048576x17xf32>) -> tensor<17xf32>",
        ),
        (
            "tensor<479349x35xf32>",
            "tensor<479349xf32>",
            "ng.max %x axes [1] : (tensor<479349x35xf32>) -> tensor<479349xf32>",
        ),
        (
            "tensor<5x3355453xbf16>",
            "tensor<5x3355453xbf16>",
            "ng.exp %x : tensor<5x3355453xbf16>",
        ),
    ],
    ids=["elementwise", "rows", "columns", "narrow columns", "narrow rows", "odd narrow elements"],
)
def test_sixteen_million_elements_are_bound_by_memory(arch: str, takes: str, gives: str, body: str) -> None:
    """All launches together, against the copying of what a program takes and gives: at least 0.85 of that bandwidth."""
    text = f"func.func @main(%x: {takes}) -> {gives} {{\n %y = {body}\n func.return %y : {gives}\n}}"
    gpu = resolve(arch).gpu
    moved = sum(type_bytes(each) for each in (takes, gives))
    seconds = sum(each.seconds(gpu) for each in of_text(text, arch, 8))
    assert moved / (1e9 * gpu.bandwidth) >= 0.85 * seconds


def type_bytes(text: str) -> int:
    *sizes, element = text.removeprefix("tensor<").removesuffix(">").split("x")
    return prod(map(int, sizes)) * (2 if element == "bf16" else 4)
