# SPDX-License-Identifier: Apache-2.0
"""Ops that a kernel computes which a user wrote: on every target, in loops, in text and back, with gradients, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import lower
from ngmlir.ir.printer import to_text
from ngmlir.ir.types import TensorType
from ngmlir.op_graph.serde.serde import deserialize_graph, serialize_graph
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

N, C = ng.make_axis(3, "N"), ng.make_axis(5, "C")

BOTH = """
tile.kernel @both ins(%x: memref<3x5xf64>, %y: memref<3x5xf64>) outs(%s: memref<3x5xf64>, %d: memref<5x3xf64>) grid(%i < 3) {
  %0 = ng.constant 0 : index
  %a = tile.load %x[%i, %0] : memref<3x5xf64>, vector<5xf64>
  %b = tile.load %y[%i, %0] : memref<3x5xf64>, vector<5xf64>
  %c = ng.multiply %a, %b : vector<5xf64>
  %e = ng.exp %a : vector<5xf64>
  tile.store %c, %s[%i, %0] : vector<5xf64>, memref<3x5xf64>
  tile.store %e, %d[%0, %i] {dims = array<i64: 0>} : vector<5xf64>, memref<5x3xf64>
  tile.return
}
"""


def cubing(x: TensorType) -> str:
    """A kernel that cubes the elements of a buffer of any shape."""
    dims = "".join(f"{n}x" for n in x.shape)
    buffer, tile = f"memref<{dims}{x.element}>", f"vector<{dims}{x.element}>" if x.shape else str(x.element)
    at = ", ".join(["%0"] * len(x.shape))
    return f"""
    tile.kernel @cube ins(%x: {buffer}) outs(%y: {buffer}) {{
      %0 = ng.constant 0 : index
      %1 = tile.load %x[{at}] : {buffer}, {tile}
      %2 = ng.multiply %1, %1 : {tile}
      %3 = ng.multiply %2, %1 : {tile}
      tile.store %3, %y[{at}] : {tile}, {buffer}
      tile.return
    }}"""


def cube_gradient(delta: Any, y: Any, x: Any) -> Any:
    return delta * x * x * 3


cubed = ng.tile_op("cubed", cubing, gradient=cube_gradient)
product_and_power = ng.tile_op(
    "product_and_power",
    BOTH,
    shape_rule=lambda x, y: (x.axes, [x.axes[1], x.axes[0]]),
    gradient=lambda deltas, results, x, y: (
        deltas[0] * y + deltas[1] * results[1],
        deltas[0] * x,
    ),
)


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def machine(request: pytest.FixtureRequest) -> Iterator[Any]:
    with closing(ng.transformers.make_transformer(request.param)) as made:
        yield made


@pytest.mark.parametrize("shape", [(), (1,), (7,), (13,), (2, 3), (1, 1, 5)])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "f16", "bf16", "ui8"])
def test_a_text_is_made_for_each_shape_and_element(machine: Any, shape: tuple[int, ...], dtype: str) -> None:
    x = ng.placeholder([ng.make_axis(n, f"a{i}") for i, n in enumerate(shape)], dtype=dtype)
    values = np.arange(int(np.prod(shape))).reshape(shape) % 5
    y = cubed(x)
    assert y.axes == x.axes and y.dtype == x.dtype
    given = machine.computation(y, x)(values)
    np.testing.assert_array_equal(np.asarray(given, np.float64), values.astype(np.float64) ** 3)


def test_values_that_are_not_finite_go_through(machine: Any) -> None:
    x = ng.placeholder([ng.make_axis(6, "a")])
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-20, 3e38], np.float32)
    with np.errstate(all="ignore"):
        expected = values * values * values
    given = machine.computation(cubed(x), x)(values)
    np.testing.assert_array_equal(given, expected)
    np.testing.assert_array_equal(np.signbit(given), np.signbit(expected))


def test_several_results_are_of_one_call(machine: Any) -> None:
    x, y = ng.placeholder([N, C], dtype="f64"), ng.placeholder([N, C], dtype="f64")
    product, power = product_and_power(x, y)
    assert power.axes.names == ("C", "N")
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 3, 5))
    given = machine.computation([product, power, product + ng.axes_with_order(power, [N, C])], x, y)(a, b)
    for got, expected in zip(given, (a * b, np.exp(a).T, a * b + np.exp(a)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
    module = ng.lift([product, power], [x, y]).module
    assert to_text(module).count("tile.call") == 1
    assert to_text(ng.lift([power], [x, y]).module).count("tile.call") == 1


def test_gradients_are_those_of_differences(machine: Any) -> None:
    x, y = ng.placeholder([N, C], dtype="f64"), ng.placeholder([N, C], dtype="f64")
    product, power = product_and_power(x, y)
    loss = ng.sum(cubed(product) + 2 * ng.axes_with_order(power, [N, C]), out_axes=())
    first = [ng.deriv(loss, v) for v in (x, y)]
    second = ng.deriv(ng.sum(first[0] * y, out_axes=()), x)
    computed = machine.computation([loss, *first, second], x, y)
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 3, 5))
    value, *slopes, twice = computed(a, b)
    step = 1e-6
    for at in [(0, 0), (2, 4), (1, 2)]:
        for which, slope in enumerate(slopes):
            moved = [a.copy(), b.copy()]
            moved[which][at] += step
            up = computed(*moved)[0]
            moved[which][at] -= 2 * step
            assert slope[at] == pytest.approx((up - computed(*moved)[0]) / (2 * step), rel=1e-6, abs=1e-7)
        moved_a = a.copy()
        moved_a[at] += step
        up = (computed(moved_a, b)[1] * b).sum()
        moved_a[at] -= 2 * step
        down = (computed(moved_a, b)[1] * b).sum()
        assert twice[at] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5)


def test_the_length_of_the_batch_may_change(machine: Any) -> None:
    batch = ng.make_axis(4, "N")
    x = ng.placeholder([batch])
    computed = machine.computation(cubed(x) + 1, x)
    assert computed([1, 2, 3, 4]).tolist() == [2, 9, 28, 65]
    assert computed([1, 2]).tolist() == [2, 9]


def test_it_stands_in_bodies_of_loops_and_between_host_ops(machine: Any) -> None:
    x = ng.placeholder([C])

    @ng.host_op
    def a_step_on_the_host(values: Any) -> Any:
        return values + 1

    looped = ng.while_loop(lambda n, s: ng.less(n, 2), lambda n, s: (n + 1, cubed(s)), (ng.constant(0), x))[1]
    between = cubed(a_step_on_the_host(cubed(x)))
    values = np.array([0, 1, 2, -1, 0.5], np.float32)
    given = machine.computation([looped, between], x)(values)
    np.testing.assert_allclose(given[0], values**9, rtol=1e-6)
    np.testing.assert_allclose(given[1], (values**3 + 1) ** 3, rtol=1e-6)


def test_steps_and_checked_programs_and_changed_operands(machine: Any) -> None:
    x = ng.placeholder([C])
    y = cubed(x + 1)
    stepper = machine.stepped(ng.computation([y, y * 2], x))
    stepper.start([0, 1, 2, 3, 4])
    assert stepper.finish()[0].tolist() == [1, 8, 27, 64, 125]
    other = y.copy_with_args([x])
    assert machine.computation(other, x)([0, 1, 2, 3, 4]).tolist() == [0, 1, 8, 27, 64]
    assert machine.computation(ng.deriv(ng.sum(other, out_axes=()), x), x)([0, 1, 2, 3, 4]).tolist() == [
        0,
        3,
        12,
        27,
        48,
    ]


def test_the_reference_says_what_it_is_on_numpy_and_only_there() -> None:
    seen: list[tuple[int, ...]] = []

    def of_arrays(x: Any) -> Any:
        seen.append(x.shape)
        return x**3

    referred = ng.tile_op("referred", cubing, reference=of_arrays)
    x = ng.placeholder([C])
    for target in ("cpu", "numpy"):
        with closing(ng.transformers.make_transformer(target)) as made:
            assert made.computation(referred(x), x)([0, 1, 2, 3, 4]).tolist() == [0, 1, 8, 27, 64]
    assert seen == [(5,)]
    with_number = ng.tile_op(
        "referred_with_a_number",
        lambda x, *, by: cubing(x).replace("%2, %1", "%2, %2") if by == 4 else cubing(x),
        reference=lambda x, *, by: x**by,
    )
    with closing(ng.transformers.make_transformer("numpy")) as made:
        given = made.computation([with_number(x, by=3), with_number(x, by=4)], x)([0, 1, 2, 3, 4])
    assert [each.tolist() for each in given] == [[0, 1, 8, 27, 64], [0, 1, 16, 81, 256]]
    # A kernel of another process that is called the same has another meaning.
    text = to_text(ng.lift([referred(ng.placeholder([C], name="x"))]).module)
    other = from_text(text.replace("%1, %0 :", "%1, %1 :"))
    assert run(other, np.array([0, 1, 2, 3, 4], np.float32))[0].tolist() == [0, 1, 16, 81, 256]
    assert len(seen) == 1
    wrong = ng.tile_op("referred_wrongly", cubing, reference=lambda x: x[:2])
    with (
        closing(ng.transformers.make_transformer("numpy")) as made,
        pytest.raises(
            ng.UserError, match=r"the reference of the tile op referred_wrongly gave float32 of shape \(2,\)"
        ),
    ):
        made.computation(wrong(x), x)([0, 1, 2, 3, 4])


# ---- text


def test_text_holds_the_kernel_and_comes_back_as_a_graph(tmp_path: Path) -> None:
    x, y = ng.placeholder([N, C], dtype="f64", name="x"), ng.placeholder([N, C], dtype="f64", name="y")
    product, power = product_and_power(x, y)
    module = ng.lift([cubed(product), power], [x, y]).module
    text = to_text(module)
    assert to_text(from_text(text)) == text
    raised = ng.raise_(module)
    assert to_text(ng.lift(raised).module) == text
    for place in ("cpu", "sm_90a"):
        assert "tile.launch @product_and_power" in to_text(lower(from_text(text), place))
    a, b = np.random.default_rng(2).normal(size=(2, 3, 5))
    np.testing.assert_allclose(run(module, a, b)[0], (a * b) ** 3, rtol=1e-14)
    # What is raised has the gradients that this process knows.
    total = ng.sum(raised.returns[0], out_axes=())
    slope = ng.deriv(total, raised.parameters[1])
    with closing(ng.transformers.make_transformer("cpu")) as made:
        np.testing.assert_allclose(
            made.computation(slope, *raised.parameters)(a, b), 3 * (a * b) ** 2 * a, rtol=1e-12
        )
    ng.save(
        tmp_path / "m.ngir",
        {
            "main": ng.computation([product, cubed(power)], x, y),
            "other": ng.computation(cubed(product + 1), x, y),
        },
    )
    loaded = ng.load(tmp_path / "m.ngir")
    np.testing.assert_allclose(ng.compile(loaded["main"])(a, b)[1], np.exp(a).T ** 3, rtol=1e-14)
    np.testing.assert_allclose(ng.compile(loaded["other"])(a, b), (a * b + 1) ** 3, rtol=1e-14)
    (again,) = deserialize_graph(serialize_graph(cubed(x), only_return_handle_ops=True))
    assert type(again).__name__ == "CubedOp"


def test_a_kernel_that_this_process_does_not_know_stands_in_a_graph() -> None:
    text = to_text(ng.lift([cubed(ng.placeholder([C], name="x"))]).module)
    strange = text.replace("cubed", "strange").replace("%1, %0 :", "%1, %1 :")
    raised = ng.raise_(from_text(strange))
    assert to_text(ng.lift(raised).module) == strange
    assert ng.compile(raised)(np.array([0, 1, 2, 3, 4], np.float32))[0].tolist() == [0, 1, 16, 81, 256]
    with pytest.raises(ng.NotDifferentiable, match="the tile op strange has no gradient"):
        ng.deriv(ng.sum(raised.returns[0], out_axes=()), raised.parameters[0])


def test_kernels_of_one_name_stand_in_one_program(tmp_path: Path) -> None:
    first = to_text(ng.lift([cubed(ng.placeholder([C], name="x"))]).module).replace("cubed", "same")
    second = first.replace("%1, %0 :", "%1, %1 :")
    a, b = (ng.raise_(from_text(t)) for t in (first, second))
    module = ng.lift([ng.add(a.returns[0], b.returns[0])], [*a.parameters, *b.parameters]).module
    assert [op.symbol for op in module.ops] == ["main", "same", "same_1"]
    ng.save(tmp_path / "m.ngir", {"a": a, "b": b})
    x = np.array([0, 1, 2, 3, 4], np.float32)
    for name, power in (("a", 3), ("b", 4)):
        assert ng.compile(ng.load(tmp_path / "m.ngir")[name])(x)[0].tolist() == (x**power).tolist()


def test_a_file_of_several_kernels(tmp_path: Path) -> None:
    file = tmp_path / "cubes.ngir"
    file.write_text(
        "\n".join(cubing(ng.placeholder([ng.make_axis(n, "a")]).type) for n in (2, 3)).replace(
            "@cube", "@a", 1
        )
    )
    made = ng.tile_op("cubes_of_a_file", file)
    for n in (2, 3):
        x = ng.placeholder([ng.make_axis(n, "a")])
        assert ng.compile(made(x), [x])(np.ones(n, np.float32)).tolist() == [1] * n
    with pytest.raises(
        ng.UserError,
        match=r"no kernel of the tile op cubes_of_a_file takes \(tensor<5xf32>\): there is \(memref<2xf32>\) or \(memref<3xf32>\)",
    ):
        made(ng.placeholder([C]))


# ---- what is refused


def here(error: pytest.ExceptionInfo[ng.NgmlirError]) -> None:
    assert Path(error.value.diagnostics[0].location.file).name == Path(__file__).name


def test_operands_that_do_not_fit_are_refused_where_it_is_called() -> None:
    x = ng.placeholder([N, C], dtype="f32")
    with pytest.raises(
        ng.UserError,
        match=r"no kernel of the tile op product_and_power takes \(tensor<3x5xf32>, tensor<3x5xf32>\)",
    ) as error:
        product_and_power(x, x)
    here(error)
    assert "ng.cast" in error.value.diagnostics[0].hint
    with pytest.raises(ng.UserError, match="takes operands by position only, not axis"):
        product_and_power(x, x, axis=1)
    with pytest.raises(ng.AxisLengthError, match="takes operands of known shape") as error:
        cubed(ng.placeholder([ng.make_axis(None, "open")]))
    here(error)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("tile.kernel @k ins(%x: memref<4xf32>) outs(%y: memref<4xf32>) {\n  tile.nothing\n  tile.return\n}", "nothing", 2),
        ("tile.kernel @k ins(%x: memref<4xf32>) outs(%y: memref<4xf32>) {\n  %0 = ng.constant 0 : index\n  tile.store %x, %y[%0] : memref<4xf32>, memref<4xf32>\n  tile.return\n}", "memref", 3),
        ("func.func @f() {\n  func.return\n}", "has a 'func.func'", 1),
        ("tile.kernel @k ins(%x: memref<4xf32>) {\n  tile.return\n}", "writes no buffer", 1),
        ("tile.kernel @k ins(%x: memref<?xf32>) outs(%y: memref<4xf32>) {\n  tile.return\n}", "operands of an op are of known shape", 1),
        ("// nothing", "holds no kernel", 0),
    ],
)  # fmt: skip
def test_texts_that_are_not_valid_are_refused_at_their_line(text: str, message: str, place: int) -> None:
    with pytest.raises(ng.NgmlirError, match=message) as error:
        ng.tile_op("refused", text)
    found = error.value.diagnostics[0]
    if place:
        assert (found.location.file, found.location.line) == ("<refused>", place)
    else:
        here(error)


def test_other_arguments_that_are_refused(tmp_path: Path) -> None:
    x = ng.placeholder([C])
    for arguments, message in [
        (("two words", BOTH), "is no name for an op"),
        (("k", 3), "the kernel of k is 3"),
        (("k", tmp_path / "none.ngir"), "cannot be read"),
    ]:
        with pytest.raises(ng.UserError, match=message):
            ng.tile_op(*arguments)
    with pytest.raises(ng.UserError, match="the reference of k is 3"):
        ng.tile_op("k", BOTH, reference=3)  # type: ignore[arg-type]
    with pytest.raises(ng.UserError, match="the function of the tile op of_nothing gives None"):
        ng.tile_op("of_nothing", lambda x: None)(x)  # type: ignore[arg-type,return-value]
    with pytest.raises(
        ng.AxisLengthError,
        match=r"the shape rule of misruled gives \[3\], and its kernel writes memref<5xf32>",
    ):
        ng.tile_op("misruled", cubing, shape_rule=lambda x: [N])(x)
    with pytest.raises(ng.UserError, match="and its kernel 2 results"):
        a = ng.placeholder([N, C], dtype="f64")
        ng.tile_op("misruled_twice", BOTH, shape_rule=lambda x, y: x.axes)(a, a)
    lengths = ng.tile_op("ruled_by_lengths", cubing, shape_rule=lambda x: (5,))(x)
    assert lengths.axes.lengths == (5,) and ng.numpy.exp(lengths).shape == (5,)
    with pytest.raises(ng.NotDifferentiable, match="the tile op without_gradient has no gradient"):
        ng.deriv(ng.sum(ng.tile_op("without_gradient", cubing)(x), out_axes=()), x)


def test_a_gradient_may_be_stated_afterwards() -> None:
    stated = ng.tile_op("stated_later", cubing)
    stated.gradient(cube_gradient)
    x = ng.placeholder([C])
    slope = ng.deriv(ng.sum(stated(x), out_axes=()), x)
    assert ng.compile(slope, [x])(np.array([0, 1, 2, 3, 4], np.float32)).tolist() == [0, 3, 12, 27, 48]
