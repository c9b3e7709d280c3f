# SPDX-License-Identifier: Apache-2.0
"""Arrays of any length: one program for all, or the reason why there is none."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import compiler
from ngmlir import transformers as ngt
from ngmlir.compiler import compile_module
from ngmlir.ir.core import Module, module
from ngmlir.ir.types import shape_of
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.open_lengths import open_lengths
from ngmlir.ops.words import from_text
from ngmlir.passes.graph.known_lengths import with_lengths
from ngmlir.runtime.open_cpu import OpenCpu
from ngmlir.support.diagnostics import Limit
from ngmlir.support.lengths import Length

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 3, 7, 64, 65, 1000)

LAYER = """func.func @main(%x: tensor<?x5xf32>, %w: tensor<5x3xf32>, %b: tensor<3xf32>) -> (tensor<?x3xf32>, tensor<3xf32>) {
  %0 = ng.dot %x, %w contract [1] x [0] : (tensor<?x5xf32>, tensor<5x3xf32>) -> tensor<?x3xf32>
  %1 = ng.broadcast %b dims [1] : (tensor<3xf32>) -> tensor<?x3xf32>
  %2 = ng.add %0, %1 : tensor<?x3xf32>
  %3 = ng.exp %b : tensor<3xf32>
  return %2, %3 : tensor<?x3xf32>, tensor<3xf32> }"""

#: Where the rows are not the first dimension, they are copied.
STEPS = """func.func @main(%x: tensor<4x?x3xf32>, %w: tensor<3x3xf32>) -> (tensor<?x3xf32>, tensor<4x?x3xf32>) {
  %z = ng.constant dense<0.0> : tensor<f32>
  %h0 = ng.broadcast %z dims [] : (tensor<f32>) -> tensor<?x3xf32>
  %h, %hs = ng.scan iter(%c = %h0) over(%t: tensor<?x3xf32> = %x) -> (tensor<?x3xf32>, tensor<4x?x3xf32>) {
    %a = ng.dot %c, %w contract [1] x [0] : (tensor<?x3xf32>, tensor<3x3xf32>) -> tensor<?x3xf32>
    %b = ng.add %a, %t : tensor<?x3xf32>
    %d = ng.tanh %b : tensor<?x3xf32>
    ng.yield %d, %d : tensor<?x3xf32>, tensor<?x3xf32>
  }
  return %h, %hs : tensor<?x3xf32>, tensor<4x?x3xf32> }"""

#: What is given has several elements for each row; exact types.
LOOKUP = """func.func @main(%t: tensor<9x2xi32>, %i: tensor<?x3xi32>) -> tensor<?xi32> {
  %0 = ng.lookup %t[%i] : (tensor<9x2xi32>, tensor<?x3xi32>) -> tensor<?x3x2xi32>
  %1 = ng.multiply %0, %0 : tensor<?x3x2xi32>
  %2 = ng.reshape %1 : (tensor<?x3x2xi32>) -> tensor<?xi32>
  return %2 : tensor<?xi32> }"""

#: Sizes that follow from a length by its name.
NAMED = """func.func @main(%x: tensor<[N]x3xf32>, %y: tensor<[2*N + 1]xf32>) -> tensor<[2*N]xf32> {
  %0 = ng.slice %y from [1] to [[2*N + 1]] step [1] : (tensor<[2*N + 1]xf32>) -> tensor<[2*N]xf32>
  %1 = ng.sum %x axes [1] : (tensor<[N]x3xf32>) -> tensor<[N]xf32>
  %2 = ng.concatenate %1, %1 axis 0 : (tensor<[N]xf32>, tensor<[N]xf32>) -> tensor<[2*N]xf32>
  %3 = ng.add %0, %2 : tensor<[2*N]xf32>
  return %3 : tensor<[2*N]xf32> }"""

CENTRED = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = ng.mean %x axes [0] : (tensor<?x4xf32>) -> tensor<4xf32>
  %1 = ng.broadcast %0 dims [1] : (tensor<4xf32>) -> tensor<?x4xf32>
  %2 = ng.subtract %x, %1 : tensor<?x4xf32>
  return %2 : tensor<?x4xf32> }"""


#: Odd lengths have no halves.
SEVENTHS = """func.func @main(%x: tensor<?xf32>) -> tensor<7xf32> {
  %0 = ng.reshape %x : (tensor<?xf32>) -> tensor<7x?xf32>
  %1 = ng.sum %0 axes [1] : (tensor<7x?xf32>) -> tensor<7xf32>
  return %1 : tensor<7xf32> }"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Module]]:
    """What is compiled."""
    made: list[Module] = []
    real = compiler.compile_artifact

    def noted(of: Module, *rest: Any, **more: Any) -> Any:
        made.append(of)
        return real(of, *rest, **more)

    monkeypatch.setattr(compiler, "compile_artifact", noted)
    yield made


def given(of: Module, length: int) -> list[Array]:
    """Arrays for the arguments of @main."""
    random = np.random.default_rng(length)
    arrays: list[Array] = []
    for value in of.ops[0].block.args:
        shape = [
            n.expression.value({"N": length}) if isinstance(n, Length) else length if n < 0 else n
            for n in shape_of(value.type)
        ]
        if "i32" in str(value.type):
            arrays.append(random.integers(0, 9, shape).astype(np.int32))
        else:
            arrays.append(random.normal(size=shape).astype(np.float32))
    return arrays


def meant(of: Module, arrays: list[Array]) -> tuple[Array, ...]:
    """What the function means for these arrays, by NumPy."""
    main = of.ops[0]
    shapes = [array.shape for array in arrays]
    known = {place: place.length(shapes) for each in open_lengths(main) for place in each.places}
    return interpret(module([with_lengths(main, known)]), *arrays)


def agree(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", [LAYER, STEPS, LOOKUP, NAMED], ids=["layer", "steps", "lookup", "named"])
def test_one_program_serves_every_length(text: str, compiled: list[Module]) -> None:
    of = from_text(text)
    run = compile_module(of)
    for length in SIZES:
        arrays = given(of, length)
        before = [array.copy() for array in arrays]
        agree(run(*arrays), meant(of, arrays))
        assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    assert len(compiled) == 2, "no rows and one are compiled by themselves"


@pytest.mark.parametrize("text", [LAYER, STEPS, NAMED], ids=["layer", "steps", "named"])
def test_gpus_have_a_program_for_each_length(text: str, compiled: list[Module], tmp_path: Path) -> None:
    of = from_text(text)
    with pytest.raises(Limit, match=r"@main needs a program for each length: code for a GPU[\s\S]*ng\.load"):
        compile_module(of, "cuda-sim")
    (tmp_path / "f.ngir").write_text(text)
    run = ng.compile(ng.load(tmp_path / "f.ngir"), target="cuda-sim")
    for length in (0, 1, 5, 5, 1):
        arrays = given(of, length)
        agree(run(*arrays), meant(of, arrays))
    assert len(compiled) == 3


def test_memory_is_told_before_a_call() -> None:
    run = compile_module(from_text(STEPS))
    assert isinstance(run, OpenCpu)
    (name,) = run.names
    peaks = [run.peak({name: n}) for n in range(2, 2000)]
    assert peaks == sorted(peaks) and len(set(peaks)) < 100, "lengths near each other use the same memory"
    assert all(peak <= 9 / 8 * 24 * n + 1024 for n, peak in enumerate(peaks, 2)), "two values of each row"


def test_arrays_that_do_not_fit_are_refused() -> None:
    run = compile_module(from_text(LAYER))
    x, w, b = np.ones((6, 5), "f"), np.ones((5, 3), "f"), np.ones(3, "f")
    assert run(x.tolist(), w, b)[0].shape == (6, 3)
    np.testing.assert_array_equal(run(x[::2], w, b)[0], np.full((3, 3), 6, "f"))
    for wrong, why in (((x[:, :4], w, b), "shape"), ((x[0], w, b), "shape"), ((x, w), "takes 3 arguments")):
        with pytest.raises(ng.UserError, match=why):
            run(*wrong)
    run = compile_module(
        from_text("""func.func @main(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xf32> {
      %0 = ng.add %x, %y : tensor<?x2xf32>
      return %0 : tensor<?x2xf32> }""")
    )
    with pytest.raises(ng.UserError, match=r"'y' must be float32 of shape \(3, 2\)"):
        run(np.ones((3, 2), "f"), np.ones((4, 2), "f"))


def test_what_computes_across_rows_is_compiled_once(tmp_path: Path, compiled: list[Module]) -> None:
    of = from_text(CENTRED)
    path = tmp_path / "f.ngir"
    path.write_text(CENTRED)
    for run in (compile_module(of), ng.compile(ng.load(path))):
        compiled.clear()
        for length in range(1, 40):
            arrays = given(of, length)
            agree(run(*arrays), meant(of, arrays))
        assert len(compiled) == 1, "one row, which is broadcast"


def test_what_has_no_code_for_all_lengths_says_so(tmp_path: Path, compiled: list[Module]) -> None:
    of = from_text(SEVENTHS)
    with pytest.raises(Limit, match=r"@main needs a program for each length: [\s\S]*ng\.load"):
        compile_module(of)
    path = tmp_path / "f.ngir"
    path.write_text(SEVENTHS)
    run = ng.compile(ng.load(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for length in range(7, 133, 7):
            arrays = given(of, length)
            agree(run(*arrays), meant(of, arrays))
    assert len(compiled) == 18
    (warning,) = caught
    assert "for 17 lengths of dimension_0" in str(warning.message)
    assert "there is none for all, because of " in str(warning.message)
    run(*given(of, 126))
    assert len(compiled) == 18, "programs are kept"


def test_halves_have_one_code_for_all_even_lengths(compiled: list[Module]) -> None:
    run = compile_module(from_text(SEVENTHS.replace("7x", "2x")))
    for length in (2, 4, 6, 38, 130, 1202):
        x = np.random.default_rng(length).normal(size=length).astype(np.float32)
        np.testing.assert_allclose(run(x)[0], x.reshape(2, -1).sum(1), rtol=1e-5, atol=1e-5)
    assert len(compiled) <= 1, "2 has one of its own"


def test_one_of_two_lengths_is_open(tmp_path: Path, compiled: list[Module]) -> None:
    path = tmp_path / "f.ngir"
    path.write_text(
        """func.func @main(%x: tensor<?x?xf32, #ng.axes<N, T>>) -> tensor<?xf32, #ng.axes<N>> {
  %0 = ng.sum %x axes [1] : (tensor<?x?xf32, #ng.axes<N, T>>) -> tensor<?xf32, #ng.axes<N>>
  return %0 : tensor<?xf32, #ng.axes<N>> }"""
    )
    run = ng.compile(ng.load(path))
    for shape in ((2, 3), (3, 3), (2, 4), (65, 4), (1, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_allclose(run(x)[0], x.sum(1))
    assert not compiled, "code for one row takes any T"
    with pytest.raises(ng.UserError, match="is tensor"):
        run(np.ones(3, "f"))


# ---- graphs

Build = Callable[[Any, Any, Any], Any]


def network(x: Any, n: Any, c: Any) -> Any:
    k = ng.make_axis(6, "K")
    w = ng.variable([c, k], initial_value=np.linspace(-1, 1, 30).reshape(5, 6).astype(np.float32))
    b = ng.variable([k], initial_value=0.5)
    return ng.softmax(ng.maximum(ng.dot(x, w) + b, 0), normalization_axes=[k])


GRAPHS: dict[str, Build] = {
    "network": network,
    "elementwise": lambda x, n, c: ng.exp(x) * 2 - 1,
    "rows": lambda x, n, c: x - ng.mean(x, reduction_axes=[c]),
    "flat": lambda x, n, c: ng.flatten(x) * 2,
    "last": lambda x, n, c: ng.axes_with_order(x * 3, [c, n]),
    "joined": lambda x, n, c: ng.concat_along_axis([x, x + 1], c),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("target", ["cpu"])
def test_graphs_are_compiled_once_for_all_lengths(name: str, target: str, compiled: list[Module]) -> None:
    n, c = ng.make_axis(name="N"), ng.make_axis(5, "C")
    x = ng.placeholder([n, c])
    y = GRAPHS[name](x, n, c)
    with ngt.make_transformer(target) as transformer, ngt.make_transformer("numpy") as reference:
        run, other = transformer.computation(y, x), reference.computation(y, x)
        begun = False
        for length in SIZES if target == "cpu" else (1, 5, 70):
            value = np.random.default_rng(length).normal(size=(length, 5)).astype(np.float32)
            found = run(value)
            if not begun and length:
                begun, count = True, len(compiled)
            agree([found], [other(value)])
        assert len(compiled) == count


def test_graphs_that_compute_across_rows_are_compiled_once() -> None:
    n, c = ng.make_axis(name="N"), ng.make_axis(5, "C")
    x = ng.placeholder([n, c])
    for y in (x[::-1], x * ng.cast(ng.iota([n], n), "f32")):
        run, other = ng.compile(y, [x]), ng.compile(y, [x], target="numpy")
        for length in (1, 2, 3, 9):
            value = np.random.default_rng(length).normal(size=(length, 5)).astype(np.float32)
            agree([run(value)], [other(value)])
    run = ng.compile(x - ng.mean(x, reduction_axes=[n]), [x])
    for length in range(1, 40):
        np.testing.assert_allclose(run(np.ones((length, 5))), np.zeros((length, 5)), atol=1e-6)
    assert not run.programs.refused


def test_state_that_changes_changes_once_a_call() -> None:
    n = ng.make_axis(name="N")
    x, count = ng.placeholder([n]), ng.persistent_tensor([], initial_value=0)
    run = ng.compile(ng.sequential([ng.assign(count, count + 1), x * count]), [x])
    for i, length in enumerate((3, 70, 1, 200)):
        assert run(np.ones(length, "f")).tolist() == [i + 1] * length


def test_a_length_that_was_set_has_a_program_of_its_own(compiled: list[Module]) -> None:
    n = ng.make_axis(32, "N")
    x = ng.placeholder([n])
    run = ng.compile(x + 1, [x])
    run(np.zeros(32, "f"))
    assert [shape_of(m.ops[0].block.args[0].type) for m in compiled] == [(32,)]
    for length in (3, 33, 1):
        assert run(np.zeros(length, "f")).tolist() == [1] * length
    assert len(compiled) == 2


@pytest.mark.parametrize("kind", ["text", "computation"])
def test_known_lengths_do_not_wait_for_a_compilation(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sevenths.ngir").write_text(SEVENTHS)
    n = ng.make_axis(name="rows")
    x = ng.placeholder([n])
    run: Any = (
        ng.compile(ng.load(tmp_path / "sevenths.ngir"))
        if kind == "text"
        else ngt.make_transformer("cpu").computation(ng.sum(x[:30], out_axes=[]), x)
    )

    def check(length: int) -> None:
        given = np.random.default_rng(length).normal(size=length).astype(np.float32)
        (found,) = run(given) if kind == "text" else (run(given),)
        wanted = given.reshape(7, -1).sum(1) if kind == "text" else given[:30].sum()
        np.testing.assert_allclose(found, wanted, atol=1e-5)

    check(7)
    check(14)
    started, go_on, lower = threading.Event(), threading.Event(), compiler.lower

    def slow(*given: Any, **more: Any) -> Module:
        started.set()
        assert go_on.wait(60)
        return lower(*given, **more)

    monkeypatch.setattr(compiler, "lower", slow)
    thread = threading.Thread(target=check, args=[1204])
    thread.start()
    assert started.wait(60)
    for length in (7, 14, 7):
        check(length)
    assert thread.is_alive()
    go_on.set()
    thread.join(60)
