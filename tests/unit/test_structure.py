# SPDX-License-Identifier: Apache-2.0
"""Equal structure, equal code: names and places of values change nothing, everything else does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import compile_artifact, compile_module, emit, lower
from ngmlir.ir.attributes import DictAttr, UnitAttr
from ngmlir.ir.core import Module
from ngmlir.ir.structure import fingerprint, structure
from ngmlir.llvm.machine import assembly, cpu_target, nvptx_target
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.graph.common_subexpressions import common_subexpressions
from ngmlir.runtime.cache import Cache
from ngmlir.runtime.cpu import CpuExecutable

PROGRAM = """
func.func @main(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>) {
  %0 = ng.subtract %x, %y : tensor<4x3xf32>
  %1 = ng.sum %0 axes [0] : (tensor<4x3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<3xf32>
}
"""


def digest(text: str) -> str:
    return fingerprint(from_text(text))[0]


def test_names_of_axes_are_not_in_a_digest() -> None:
    named = PROGRAM.replace("4x3xf32>", "4x3xf32, #ng.axes<N, C>>").replace("<3xf32>", "<3xf32, #ng.axes<C>>")
    assert digest(named) == digest(named.replace("C>", "Axis_17>"))
    assert digest(named) != digest(PROGRAM)


@pytest.mark.parametrize(
    "old, new",
    [("%x", "%left"), ("%0", "%difference"), ("\n", "\n// a comment\n"), ("%y: tensor<4x3xf32>", '%y: tensor<4x3xf32> {ng.name = "b"}')],
)  # fmt: skip
def test_names_and_places_are_no_structure(old: str, new: str) -> None:
    assert digest(PROGRAM.replace(old, new)) == digest(PROGRAM)


@pytest.mark.parametrize(
    "old, new",
    [
        ("subtract %x, %y", "subtract %y, %x"),
        ("subtract %x, %y", "subtract %x, %x"),
        ("subtract", "add"),
        ("return %0, %1", "return %x, %1"),
        ("f32", "f64"),
        ("@main", "@other"),
        ("axes [0] : (tensor<4x3xf32>)", "axes [0] {precise = true} : (tensor<4x3xf32>)"),
    ],
)
def test_everything_else_is(old: str, new: str) -> None:
    text = PROGRAM.replace(old, new)
    assert text != PROGRAM
    made = from_text(text, verify=False)
    assert fingerprint(made)[0] != digest(PROGRAM)
    if old != "@main":  # the symbol of what is compared is left out
        assert structure(made.ops[0]) != structure(from_text(PROGRAM).ops[0])


BATCHED = """
!q = tensor<4x8x16xf32>
func.func @main(%q: !q, %k: !q) -> (tensor<4x8x8xf32>, tensor<4x8x8xf32>) {
  %a = ng.dot %q, %k contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (!q, !q) -> tensor<4x8x8xf32>
  %b = ng.dot %q, %k contract [2] x [2] {rhs_batch = array<i64: 0>, lhs_batch = array<i64: 0>} : (!q, !q) -> tensor<4x8x8xf32>
  return %a, %b : tensor<4x8x8xf32>, tensor<4x8x8xf32>
}
"""


def test_the_order_of_attributes_is_no_structure() -> None:
    module = from_text(BATCHED)
    a, b, end = module.ops[0].block.ops
    assert a.kind is b.kind and list(a.attributes) == list(b.attributes) == sorted(a.attributes)
    turned = a.rebuilt(attributes=dict(reversed(a.attributes.items())))
    assert turned.kind is a.kind
    dictionaries = [DictAttr(items) for items in ((("a", UnitAttr()), ("b", UnitAttr())), (("b", UnitAttr()), ("a", UnitAttr())))]  # fmt: skip
    assert dictionaries[0] is dictionaries[1]
    merged = common_subexpressions(module, cpu_target("x86-64-v3")).ops[0].block.ops
    assert [op.name for op in merged] == ["ng.dot", "func.return"]
    assert len(set(merged[1].operands)) == 1 and end.operands[0] is not end.operands[1]


def test_printed_kernels_are_those_that_were_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running the text of lowered kernels compiles none of them again."""
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path))

    def kernels() -> list[str]:
        store = Cache(tmp_path)
        entries = [store.read(path.stem) for path in sorted(tmp_path.glob("*.entry"))]
        return [
            each.header["name"] for each in entries if each is not None and each.header["kind"] == "kernel"
        ]

    module = from_text(BATCHED)
    arrays = [np.ones((4, 8, 16), np.float32)] * 2
    first = compile_module(module, "cpu")(*arrays)
    compiled = kernels()
    assert compiled
    printed = to_text(lower(module, "cpu"))
    second = compile_module(from_text(printed), "cpu")(*arrays)
    assert kernels() == compiled
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_nesting_is_structure() -> None:
    def text(inside: str, outside: str) -> str:
        return f"""
        func.func @main(%c: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {{
          %r = ng.if %c -> tensor<f32> {{
            {inside}
            ng.yield %x : tensor<f32>
          }} else {{
            ng.yield %x : tensor<f32>
          }}
          {outside}
          return %r : tensor<f32>
        }}"""

    op = "%d = ng.exp %x : tensor<f32>"
    assert digest(text(op, "")) != digest(text("", op))


def layers(count: int, named: bool) -> Module:
    n, h = ng.make_axis(8, "N"), ng.make_axis(16, "H")
    g = ng.make_axis(16, "G")
    x = ng.placeholder([n, h])
    value = x
    for i in range(count):
        w = ng.variable([g, h], initial_value=0.1)
        made = ng.cast_axes(ng.tanh(ng.dot(value, w)), [n, h])
        if named:
            w, made = w.named(f"weights_{i}_{named}"), made.named(f"layer_{i}")
        value = made + value
        if named:
            value = value.named(f"sum_{i}")
    return ng.lift([value], [x]).module


@pytest.mark.parametrize("target", [cpu_target("x86-64-v3"), nvptx_target("sm_90a")], ids=["cpu", "gpu"])
def test_equal_layers_are_the_same_kernels_whatever_their_names(target: object) -> None:
    plain, named = (lower(layers(30, named), target) for named in (False, True))  # type: ignore[arg-type]
    kernels = [sum(op.name == "tile.kernel" for op in m.ops) for m in (plain, named)]
    assert kernels[0] == kernels[1] <= 4
    # LLVM IR has the names, what is made of it has not.
    first, second = (assembly(emit(each, target).llvm, target) for each in (plain, named))  # type: ignore[arg-type]
    assert first == second


def test_programs_that_differ_in_a_large_constant_share_their_code(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NGMLIR_CACHE", "1")

    def program(weights: np.ndarray, bias: np.ndarray) -> CpuExecutable:
        x = ng.placeholder([ng.make_axis(len(weights), "N")], name="x")
        total = x * ng.constant(weights, axes=x.axes) + ng.constant(bias, axes=x.axes)
        made = compile_module(ng.lift([total], [x]).module)
        assert isinstance(made, CpuExecutable)
        return made

    rng = np.random.default_rng(0)
    ones = np.ones(5000, np.float32)
    a, b, c = (rng.normal(size=5000).astype(np.float32) for _ in range(3))
    np.testing.assert_allclose(program(a, b)(ones)[0], a + b, rtol=1e-6)
    stored = len(list(tmp_path.iterdir()))
    for weights, bias in ((b, c), (c, a)):
        np.testing.assert_allclose(program(weights, bias)(ones)[0], weights + bias, rtol=1e-6)
    assert len(list(tmp_path.iterdir())) == stored
    # The same constant twice is another program: it may be kept once, and its kernel is not promised two.
    np.testing.assert_allclose(program(a, a)(ones)[0], 2 * a, rtol=1e-6)
    assert len(list(tmp_path.iterdir())) == stored + 2
    with pytest.raises(ng.UserError, match="argument 'x"):
        program(c, b)(np.ones(3))


def test_every_public_function_is_an_entry() -> None:
    text = """
    func.func @scale(%x: tensor<2000xf32>) -> tensor<2000xf32> {
      %c = ng.constant dense<2.0> : tensor<2000xf32>
      %0 = ng.multiply %x, %c : tensor<2000xf32>
      return %0 : tensor<2000xf32>
    }
    func.func private @help(%x: tensor<2000xf32>) -> tensor<2000xf32> {
      %0 = ng.exp %x : tensor<2000xf32>
      return %0 : tensor<2000xf32>
    }
    func.func @"strange name"(%x: tensor<2000xf32>, %y: tensor<2000xf32>) -> (tensor<2000xf32>, tensor<2000xf32>) {
      %0 = func.call @help(%x) : (tensor<2000xf32>) -> tensor<2000xf32>
      %1 = func.call @scale(%y) : (tensor<2000xf32>) -> tensor<2000xf32>
      return %0, %1 : tensor<2000xf32>, tensor<2000xf32>
    }
    func.func @memcpy() -> tensor<3xi32> {
      %0 = ng.constant dense<[1, 2, 3]> : tensor<3xi32>
      return %0 : tensor<3xi32>
    }"""
    module = from_text(text)
    x = np.linspace(0, 1, 2000, dtype=np.float32)
    assert [e.signature.name for e in compile_artifact(module, "cpu").entries] == [
        "scale",
        "strange name",
        "memcpy",
    ]
    for target in ("cpu", "cuda-sim"):
        with pytest.raises(ng.UserError, match="no entry @main"):
            compile_module(module, target)
        program = compile_module(module, target, entry="scale")
        np.testing.assert_array_equal(program(x)[0], 2 * x)
        other = program.entry("strange name")
        np.testing.assert_allclose(other(x, x)[0], np.exp(x), rtol=1e-6)
        np.testing.assert_array_equal(other(x, x)[1], 2 * x)
        assert program.entry("memcpy")()[0].tolist() == [1, 2, 3]


def test_what_is_lowered_already_is_compiled_as_it_is() -> None:
    from ngmlir.ir.printer import to_text

    module = from_text(PROGRAM)
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((4, 3), np.float32)
    for target in ("cpu", "cuda-sim"):
        from ngmlir.compiler import resolve

        lowered = from_text(to_text(lower(module, resolve(target))))
        np.testing.assert_array_equal(compile_module(lowered, target)(x, y)[0], x - y)


def test_large_constants_are_used_where_they_lie(tmp_path) -> None:  # type: ignore[no-untyped-def]
    values = np.random.default_rng(0).normal(size=(300, 100)).astype(np.float32)
    np.save(tmp_path / "weights.npy", values)
    mapped = np.load(tmp_path / "weights.npy", mmap_mode="r")
    changeable = values.copy()
    view = changeable[:]
    view.flags.writeable = False  # but its base can be written to
    frozen = values.copy()
    frozen.flags.writeable = False
    for given, kept in ((mapped, True), (frozen, True), (changeable, False), (view, False)):
        x = ng.placeholder([ng.make_axis(300, "N"), ng.make_axis(100, "C")])
        total = ng.constant(given, axes=x.axes) * x
        made = compile_module(ng.lift([total], [x]).module)
        assert isinstance(made, CpuExecutable)
        used = made.program.code.constants_in_memory.values()
        assert [np.shares_memory(given, each) for each in used] == [kept]
        changeable[:] = 0
        np.testing.assert_array_equal(made(np.ones((300, 100)))[0], values)
        changeable[:] = values
