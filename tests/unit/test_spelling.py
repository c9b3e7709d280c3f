# SPDX-License-Identifier: Apache-2.0
"""What a name that is not there was meant to be: whatever it names, in bounded time."""

from __future__ import annotations

import time

import pytest

from ngmlir.compiler import compile_module, resolve
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import NgmlirError
from ngmlir.support.spelling import nearest
from ngmlir.transformers import make_transformer

TEXT = """
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @backward(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
"""


def program() -> Module:
    return from_text(TEXT)


MISSPELLED = {
    "function": (lambda: from_text(TEXT.replace("return %x", "%y = func.call @bakward(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %y", 1)), "@backward"),
    "kernel": (lambda: from_text("tile.kernel @copy() attributes {grid = array<i64>} {\n  tile.return\n}\nfunc.func @f() {\n  tile.launch @coppy ins() outs()\n  return\n}"), "@copy"),
    "value": (lambda: from_text("func.func @f(%alpha: f32) {\n  return %alpa : f32\n}"), "%alpha"),
    "block": (lambda: from_text('func.func @f() {\n  "my.jump"()[^neXt] : () -> ()\n^next:\n  return\n}', unregistered=True), "^next"),
    "attribute": (lambda: from_text("func.func @f(%x: tensor<2xf32>) -> tensor<f32> {\n  %0 = ng.sum %x axes [0] {axess = 1 : i64} : (tensor<2xf32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}"), "axes"),
    "attribute alias": (lambda: from_text("#layout = [1]\nfunc.func private @f() attributes {my.a = #layuot}"), "#layout"),
    "type alias": (lambda: from_text("!row = tensor<2xf32>\nfunc.func private @f(!rov)"), "!row"),
    "type of a dialect": (lambda: from_text("func.func private @f(!tile.tokn)"), "!tile.token"),
    "attribute of a dialect": (lambda: from_text("func.func private @f(tensor<2xf32, #ng.axis<N>>)"), "#ng.axes"),
    "resource": (lambda: from_text('%0 = ng.constant dense_resource<weihgts> : tensor<1xf32>\n{-# dialect_resources: { builtin: { weights: "0x040000000000803F" } } #-}'), "weights"),
    "op": (lambda: from_text("%0 = ng.maximun %x : f32"), "ng.maximum"),
    "entry": (lambda: compile_module(program(), entry="forwrd"), "@forward"),
    "entry of the reference": (lambda: run(program(), entry="forwrd"), "@forward"),
    "target": (lambda: resolve("cdua"), "cuda"),
    "machine": (lambda: resolve("x86_64-v3"), "x86-64-v3"),
    "device": (lambda: compile_module(program(), "cuda-sin", entry="forward"), "cuda-sim"),
    "transformer": (lambda: make_transformer("nunpy"), "numpy"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISSPELLED)
def test_every_kind_of_name_gets_a_hint(what: str) -> None:
    act, meant = MISSPELLED[what]
    with pytest.raises(NgmlirError, match="did you mean") as caught:
        act()
    assert f"did you mean {meant}?" in str(caught.value)


def test_hints_are_bounded() -> None:
    started = time.perf_counter()
    assert nearest("a" * 10**6, ("b" * 10**6 for _ in range(10**6))) == ""
    assert nearest("name", (f"name{i}" for i in range(10**9))) != ""
    assert time.perf_counter() - started < 5
