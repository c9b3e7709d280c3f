# SPDX-License-Identifier: Apache-2.0
"""What a person says of a kernel's cut is not lost in the passes that rewrite the op which says it."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module, resolve
from ngmlir.decl.pipeline_text import named_pipelines
from ngmlir.ir.core import Module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import element_type, shape_of
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.stated_schedules import given_by
from ngmlir.ops.words import from_text
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.support.diagnostics import UserError

SCHEDULE = "{ng.schedule = {SAID}}"

#: A product of which the transpose is wanted.
EXCHANGED = """func.func @main(%a: tensor<64x30xf32>, %b: tensor<64x96xf32>) -> tensor<96x30xf32> {
  %p = ng.dot %a, %b contract [0] x [0] {ng.schedule = {SAID}} : (tensor<64x30xf32>, tensor<64x96xf32>) -> tensor<30x96xf32>
  %t = ng.transpose %p perm [1, 0] : (tensor<30x96xf32>) -> tensor<96x30xf32>
  return %t : tensor<96x30xf32>
}"""

#: The same behind an elementwise op, which takes the transpose over.
BEHIND = EXCHANGED.replace(
    "%t = ng.transpose %p", "%e = ng.tanh %p : tensor<30x96xf32>\n  %t = ng.transpose %e"
)

#: One whose samples are to lie last.
PLACED = """func.func @main(%v: tensor<5x3xf32, #ng.axes<_1, _0>>, %w: tensor<4x3xf32, #ng.axes<_0, _1>>, %x: tensor<8x4xf32, #ng.axes<N, _0>>) -> tensor<5x8xf32, #ng.axes<_1, N>> {
  %p = ng.dot %x, %w contract [1] x [0] {ng.schedule = {SAID}} : (tensor<8x4xf32, #ng.axes<N, _0>>, tensor<4x3xf32, #ng.axes<_0, _1>>) -> tensor<8x3xf32, #ng.axes<N, _1>>
  %q = ng.dot %v, %p contract [1] x [1] : (tensor<5x3xf32, #ng.axes<_1, _0>>, tensor<8x3xf32, #ng.axes<N, _1>>) -> tensor<5x8xf32, #ng.axes<_1, N>>
  return %q : tensor<5x8xf32, #ng.axes<_1, N>>
}"""

#: Windows that a product makes, summed: the gradient of a convolution.
WINDOWS = """func.func @main(%g: tensor<38x8xf32>, %w: tensor<3x6x8xf32>) -> tensor<40x6xf32> {
  %p = ng.dot %w, %g contract [2] x [1] {ng.schedule = {SAID}} : (tensor<3x6x8xf32>, tensor<38x8xf32>) -> tensor<3x6x38xf32>
  %t = ng.transpose %p perm [0, 2, 1] : (tensor<3x6x38xf32>) -> tensor<3x38x6xf32>
  %o = ng.overlap_add %t axes [0] steps [1] dilations [1] : (tensor<3x38x6xf32>) -> tensor<40x6xf32>
  return %o : tensor<40x6xf32>
}"""

#: Windows that no product makes, summed.
SUMMED = """func.func @main(%g: tensor<38x6xf32>, %w: tensor<3x6xf32>) -> tensor<40x6xf32> {
  %0 = ng.broadcast %g dims [1, 2] : (tensor<38x6xf32>) -> tensor<3x38x6xf32>
  %1 = ng.broadcast %w dims [0, 2] : (tensor<3x6xf32>) -> tensor<3x38x6xf32>
  %2 = ng.multiply %0, %1 {ng.schedule = {SAID}} : tensor<3x38x6xf32>
  %o = ng.overlap_add %2 axes [0] steps [1] dilations [1] : (tensor<3x38x6xf32>) -> tensor<40x6xf32>
  return %o : tensor<40x6xf32>
}"""

#: A sum that one program takes long for.
SPLIT = """func.func @main(%x: tensor<1024x2048xf32>) -> tensor<f32> {
  %s = ng.sum %x axes [0, 1] {ng.schedule = {SAID}} : (tensor<1024x2048xf32>) -> tensor<f32>
  return %s : tensor<f32>
}"""

#: Slices padded and added up.
JOINED = """func.func @main(%x: tensor<4x8xf32>) -> tensor<12x8xf32> {
  %a = ng.pad %x low [0, 0] high [8, 0] : (tensor<4x8xf32>) -> tensor<12x8xf32>
  %b = ng.pad %x low [4, 0] high [4, 0] : (tensor<4x8xf32>) -> tensor<12x8xf32>
  %c = ng.pad %x low [8, 0] high [0, 0] ATPAD : (tensor<4x8xf32>) -> tensor<12x8xf32>
  %d = ng.add %a, %b : tensor<12x8xf32>
  %e = ng.add %d, %c ATADD : tensor<12x8xf32>
  return %e : tensor<12x8xf32>
}"""
OF_ADD = JOINED.replace("ATADD", SCHEDULE).replace("ATPAD", "")
OF_PAD = JOINED.replace("ATPAD", SCHEDULE).replace("ATADD", "")

#: What is turned round with what it is computed of.
REPEATED = """func.func @main(%x: tensor<64xf32>, %y: tensor<48x64xf32>) -> tensor<48x64xf32> {
  %b = ng.broadcast %x dims [0] {ng.schedule = {SAID}} : (tensor<64xf32>) -> tensor<64x48xf32>
  %e = ng.exp %b : tensor<64x48xf32>
  %t = ng.transpose %e perm [1, 0] : (tensor<64x48xf32>) -> tensor<48x64xf32>
  %r = ng.add %t, %y : tensor<48x64xf32>
  return %r : tensor<48x64xf32>
}"""

COUNTED = REPEATED.replace("%x: tensor<64xf32>, ", "").replace(
    "ng.broadcast %x dims [0] {ng.schedule = {SAID}} : (tensor<64xf32>) -> tensor<64x48xf32>",
    "ng.iota {dimension = 0 : i64, ng.schedule = {SAID}} : tensor<64x48xf32>",
)

#: Of what is repeated, only a part is wanted.
PART = """func.func @main(%x: tensor<64xf32>) -> tensor<16x64xf32> {
  %b = ng.broadcast %x dims [1] {ng.schedule = {SAID}} : (tensor<64xf32>) -> tensor<48x64xf32>
  %s = ng.slice %b from [8, 0] to [24, 64] step [1, 1] : (tensor<48x64xf32>) -> tensor<16x64xf32>
  %e = ng.exp %s : tensor<16x64xf32>
  return %e : tensor<16x64xf32>
}"""

#: Elements that no machine has.
NARROW = """func.func @main(%x: tensor<100xui4>) -> tensor<100xf32> {
  %c = ng.cast %x {ng.schedule = {SAID}} : (tensor<100xui4>) -> tensor<100xf32>
  return %c : tensor<100xf32>
}"""

#: A product whose rows a reduction reads, so many that they would go through both in strips.
CHAIN = """func.func @main(%x: tensor<8192x64xf32>, %w: tensor<64x256xf32>) -> tensor<8192xf32> {
  %p = ng.dot %x, %w contract [1] x [0] {ng.schedule = {SAID}} : (tensor<8192x64xf32>, tensor<64x256xf32>) -> tensor<8192x256xf32>
  %r = ng.max %p axes [1] : (tensor<8192x256xf32>) -> tensor<8192xf32>
  return %r : tensor<8192xf32>
}"""

PROGRAMS = {
    "exchanged": (EXCHANGED, {"tile": (3, 16), "block": (30, 32)}),
    "behind": (BEHIND, {"tile": (3, 16), "depth": 32}),
    "windows": (WINDOWS, {"tile": (3, 8), "depth": 4}),
    "summed": (SUMMED, {"tile": 4, "part": 3}),
    "split": (SPLIT, {"tile": 128, "rows": 1}),
    "of add": (OF_ADD, {"tile": 4, "part": 3}),
    "of pad": (OF_PAD, {"tile": 4, "part": 3}),
    "repeated": (REPEATED, {"tile": 4, "part": 3}),
    "counted": (COUNTED, {"tile": 4, "part": 3}),
    "part": (PART, {"tile": 4, "part": 3}),
    "narrow": (NARROW, {"tile": 24, "part": 2}),
    "chain": (CHAIN, {"tile": (4, 32), "depth": 32}),
}


def text_of(name: str) -> str:
    text, said = PROGRAMS[name]
    written = ", ".join(f"{knob} = {list(s) if isinstance(s, tuple) else s}" for knob, s in said.items())
    return text.replace("SAID", written)


def fused(text: str, target: str = "x86-64-v3") -> Module:
    steps = parse_pipeline(
        named_pipelines().expanded("canonical, split-reductions, fuse, chain, schedule"), PASSES
    )
    return steps.from_stage_of(of := from_text(text)).run(of, resolve(target), verify=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_said_is_obeyed(name: str) -> None:
    said = PROGRAMS[name][1].items()
    found = [given_by(op) for op in fused(text_of(name)).walk() if op.name == "ng.fusion"]
    assert any(said <= given.items() for given in found), found


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_result_changes(name: str) -> None:
    text = text_of(name)
    random = np.random.default_rng(0)
    values: list[np.ndarray] = []
    for argument in from_text(text).ops[0].block.args:
        shape, dtype = shape_of(argument.type), dtype_of(element_type(argument.type))
        values.append(np.abs(random.normal(size=shape)).astype(dtype))
    (got,), (wanted,) = compile_module(from_text(text), "cpu")(*values), interpret(from_text(text), *values)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_sides_change_places_for_samples_only_without_a_schedule() -> None:
    steps = parse_pipeline("place-samples{samples=last}", PASSES)
    for said, shape in (("{ng.schedule = {tile = [3, 8]}} ", (8, 3)), ("", (3, 8))):
        of = from_text(PLACED.replace("{ng.schedule = {SAID}} ", said))
        dot = next(
            op for op in steps.run(of, resolve("x86-64-v3"), verify=True).walk() if op.name == "ng.dot"
        )
        assert shape_of(dot.result.type) == shape
        assert given_by(dot) == ({"tile": (3, 8)} if said else {})


def test_what_two_ops_say_of_one_must_agree() -> None:
    """What is computed of transposes takes the place of the transpose of it."""
    own = "tanh %p {ng.schedule = {depth = 32}} :"
    text = BEHIND.replace("{ng.schedule = {SAID}} ", "").replace("tanh %p :", own)
    text = text.replace("perm [1, 0] :", "perm [1, 0] {ng.schedule = {SAID}} :")
    found = [
        given_by(op) for op in fused(text.replace("SAID", "unroll = 2")).walk() if op.name == "ng.fusion"
    ]
    assert any({"depth": 32, "unroll": 2}.items() <= given.items() for given in found), found
    with pytest.raises(UserError, match="'ng.transpose' is fused with an op whose schedule says otherwise"):
        fused(text.replace("SAID", "depth = 16"))
    with pytest.raises(UserError, match="no kind of kernel has all of the settings"):
        fused(text.replace("SAID", "keep = true"))
