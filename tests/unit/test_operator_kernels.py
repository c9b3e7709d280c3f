# SPDX-License-Identifier: Apache-2.0
"""Operators of users, and the kernels of operators: which one is chosen and why, what is put around it, and what it gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir.compiler import resolve
from ngmlir.frontends.fluid.feeding import with_io
from ngmlir.ir.types import TensorType
from ngmlir.programs.choosing import choose
from ngmlir.programs.custom import (
    AttributeEntry,
    GradientOp,
    Limit,
    OperatorEntry,
    Slot,
    gradient_maker,
    gradient_of,
    kernel,
    new_operator,
)
from ngmlir.programs.descriptions import Program
from ngmlir.programs.passes import PROGRAM_PASSES
from ngmlir.programs.select_kernels import select_kernels
from ngmlir.programs.text import program_text, read_program
from ngmlir.rewrite.remarks import listening
from ngmlir.support.diagnostics import UNKNOWN, Diagnostic, UserError

nn = ng.numpy
TARGETS = ["numpy", "cpu", "cuda-sim"]

# ---- operators


@new_operator(
    """
    operator cube_of_tests
      in X: The tensor.
      out Out: The result.
      attr by: float = 2.0 above 0: The factor.
      doc The cube of X, times a number.
    """
)
def cube_of_tests(x: Any, *, by: float) -> Any:
    return nn.multiply(nn.multiply(x, x), nn.multiply(x, by))


#: The same, with no kernel of its own.
plain_cube = OperatorEntry(
    "plain_cube_of_tests",
    UNKNOWN,
    [Slot("X", "The tensor.")],
    [Slot("Out", "The result.")],
    [AttributeEntry("by", "float", "The factor.", 2.0, (Limit("above", 0),))],
    None,
    "The cube of X, times a number.",
)
new_operator(plain_cube)(cube_of_tests)


@new_operator(
    """
    operator only_by_kernels
      in X: The tensor.
      out Out: The result.
      doc X plus 1.
    """,
    shape_only=True,
)
def only_by_kernels(x: Any) -> Any:
    return x


@gradient_maker("only_by_kernels")
def _of_only_by_kernels(op: Any) -> Sequence[GradientOp]:
    return [
        GradientOp("assign", {"X": [f"{op.outputs['Out'][0]}@GRAD"]}, {"Out": [f"{op.inputs['X'][0]}@GRAD"]})
    ]


@new_operator(
    """
    operator image_of_tests
      in X: Images.
      in Other?: Others.
      out Out: The result.
      out Means: The mean of each image.
      doc Twice the images, plus others, and their means.
    """
)
def image_of_tests(x: Any, other: Any) -> Any:
    made = nn.multiply(x, 2)
    return (made if other is None else nn.add(made, other)), nn.mean(x, axis=(1, 2, 3))


# ---- kernels


@kernel("cube_of_tests", place="cpu", dtype="float32", numpy=True)
def cube_on_the_host(x: Any, *, by: float) -> Any:
    CALLED.append("cpu/f32")
    return (x**3 * by).astype(x.dtype)


@kernel("cube_of_tests", place="numpy")
def cube_of_ops(x: Any, *, by: float) -> Any:
    CALLED.append("numpy")
    return nn.multiply(nn.power(x, 3), by)


@kernel("cube_of_tests", dtype="float64", library="exact")
def cube_in_64_bits(x: Any, *, by: float) -> Any:
    assert x.dtype == np.float64
    return nn.multiply(nn.power(x, 3), by)


@kernel("cube_of_tests", place="cpu", library="host", numpy=True)
def cube_of_a_library(x: Any, *, by: float) -> Any:
    CALLED.append("host")
    return (x**3 * by).astype(x.dtype)


def cube_text(x: TensorType, *, by: float) -> str:
    dims = "".join(f"{n}x" for n in x.shape)
    buffer, tile = f"memref<{dims}{x.element}>", f"vector<{dims}{x.element}>"
    at = ", ".join(["%0"] * len(x.shape))
    return f"""
    tile.kernel @cube ins(%x: {buffer}) outs(%y: {buffer}) {{
      %0 = ng.constant 0 : index
      %1 = tile.load %x[{at}] : {buffer}, {tile}
      %2 = ng.multiply %1, %1 : {tile}
      %3 = ng.multiply %2, %1 : {tile}
      %4 = ng.constant dense<{by!r}> : {tile}
      %5 = ng.multiply %3, %4 : {tile}
      tile.store %5, %y[{at}] : {tile}, {buffer}
      tile.return
    }}"""


kernel("cube_of_tests", library="tiles")(ng.tile_op("cube_of_tiles", cube_text))


@kernel("only_by_kernels", place="numpy", dtype="float64")
def one_more(x: Any) -> Any:
    return nn.add(x, 1)


@kernel("image_of_tests", layout="NHWC", library="rows", slots=["X", "Other", "Out"])
def image_by_rows(x: Any, other: Any) -> Any:
    assert x.shape[-1] == 3 and (other is None or other.shape == x.shape)
    made = nn.multiply(x, 2)
    return (made if other is None else nn.add(made, other)), nn.mean(x, axis=(1, 2, 3))


CALLED: list[str] = []


def a_program(
    type: str, shape: Sequence[int], dtype: str = "float32", times: int = 1, **attributes: Any
) -> Any:
    """x -> type -> ... -> type, and the gradient of the sum of all by x."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = made = fluid.layers.data("x", list(shape), dtype=dtype, append_batch_size=False)
        x.stop_gradient = False
        for _ in range(times):
            given, made = (
                made,
                main.global_block().create_var(name=fluid.unique_name.generate("y"), dtype=dtype),
            )
            main.global_block().append_op(
                type=type, inputs={"X": given}, outputs={"Out": made}, attrs=attributes
            )
        fluid.layers.reduce_sum(made)
    return main, made


def run(main: Any, target: str, feed: Any, *fetches: Any) -> Any:
    return fluid.Executor(fluid.Place(target)).run(main, feed=feed, fetch_list=list(fetches))


def kinds(program: Program) -> list[str]:
    return [operator.type for operator in program.top.operators]


def with_fetch(main: Any, name: str) -> Program:
    view = main.view.copy()
    view.top.declare("fetch", holds="fetch_list", flags=["persistable"])
    from ngmlir.ir.attributes import DictAttr, IntegerAttr
    from ngmlir.ir.types import i32

    attributes = DictAttr((("col", IntegerAttr(0, i32)),))
    view.top.insert(len(view.top.operators), "fetch", {"X": [name]}, {"Out": ["fetch"]}, attributes)
    return view


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("library", ["", "exact", "host", "tiles"])
def test_each_kernel_gives_what_the_operator_is(target: str, library: str) -> None:
    values = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    asked = {"library": library} if library else {}
    main, made = a_program("cube_of_tests", (3, 5), by=3.0, **asked)
    CALLED.clear()
    (found,) = run(main, target, {"x": values}, made)
    np.testing.assert_allclose(found, values**3 * 3, rtol=2e-6)
    ran = {("cpu", ""): ["cpu/f32"], ("numpy", ""): ["numpy"]}.get((target, library), [])
    assert CALLED == (["host"] if library == "host" else ran)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("library", ["", "exact", "tiles"])
def test_gradients_are_those_of_differences(target: str, library: str) -> None:
    asked = {"library": library} if library else {}
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [2, 3], dtype="float64", append_batch_size=False)
        x.stop_gradient = False
        made = main.global_block().create_var(name="made", dtype="float64")
        main.global_block().append_op(
            type="cube_of_tests", inputs={"X": x}, outputs={"Out": made}, attrs={"by": 1.5, **asked}
        )
        loss = fluid.layers.mean(made)
        slope = fluid.calc_gradient(loss, x)
    values = np.random.default_rng(1).normal(size=(2, 3))
    (found,) = run(main, target, {"x": values}, slope)
    for at in np.ndindex(2, 3):
        moved = [values.copy(), values.copy()]
        moved[0][at] += 1e-6
        moved[1][at] -= 1e-6
        up, down = (run(main, target, {"x": m}, loss)[0].item() for m in moved)
        assert found[at] == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-8)


def test_steps_run_the_kernels_too() -> None:
    main, made = a_program("cube_of_tests", (3, 5), by=3.0)
    CALLED.clear()
    steps: list[str] = []
    (found,) = fluid.Executor().run(
        main,
        feed={"x": np.full((3, 5), 2, np.float32)},
        fetch_list=[made],
        stepped=lambda step: steps.append(step.type),
    )
    assert found[0, 0] == 24 and CALLED == ["cpu/f32"] and steps[0] == "cube_of_tests"


def test_an_operator_of_a_user_is_a_layer_with_attributes_that_are_checked() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data("x", [3])
        fluid.layers.plain_cube_of_tests(x, by=4.0)
        with pytest.raises(UserError, match="attribute 'by' of operator plain_cube_of_tests must be above 0"):
            fluid.layers.plain_cube_of_tests(x, by=-1.0)
    assert main.global_block().ops[0].attr("by") == 4.0
    assert "cube of X" in str(fluid.layers.plain_cube_of_tests.__doc__)
    assert read_program(program_text(main.view)).top.operators[0].type == "plain_cube_of_tests"
    with pytest.raises(AttributeError):
        _ = fluid.layers.no_such_layer_of_tests


def test_a_gradient_may_be_another_function_or_other_operators() -> None:
    entry = "operator {}\n  in X: The tensor.\n  out Out: The result.\n  doc Twice X."

    @new_operator(entry.format("twice_of_tests"))
    def twice(x: Any) -> Any:
        return nn.multiply(x, 2)

    @gradient_of("twice_of_tests")
    def of_twice(inputs: Any, outputs: Any, errors: Any) -> Any:
        return {"X": [nn.multiply(errors["Out"][0], 7)]}

    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data("x", [1])
        x.stop_gradient = False
        one = fluid.calc_gradient(fluid.layers.mean(fluid.layers.twice_of_tests(x)), x)
    second = fluid.Program()
    with fluid.program_guard(second, fluid.Program()):
        x = fluid.layers.data("x", [1])
        x.stop_gradient = False
        two = fluid.layers.only_by_kernels(x)
        other = fluid.calc_gradient(fluid.layers.mean(two), x)
    for target in TARGETS:
        feed = {"x": np.ones((1, 1), np.float32)}
        found = [*run(main, target, feed, one), *run(second, target, feed, two, other)]
        assert [v.item() for v in found] == [7, 2, 1]


def test_a_gradient_has_kernels_as_any_operator() -> None:
    entry = "operator thrice_of_tests\n  in X: The tensor.\n  out Out: The result.\n  doc Three times X."
    new_operator(entry)(lambda x: nn.multiply(x, 3))

    @kernel("thrice_of_tests_grad", place="cpu")
    def of_thrice(x: Any, out: Any, error: Any) -> Any:
        return nn.multiply(error, 30)

    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data("x", [1])
        x.stop_gradient = False
        slope = fluid.calc_gradient(fluid.layers.mean(fluid.layers.thrice_of_tests(x)), x)
    for target, expected in zip(TARGETS, (3, 30, 3), strict=True):
        assert run(main, target, {"x": np.ones((1, 1), np.float32)}, slope)[0].item() == expected


# ---- the choice


def choice(target: str, type: str = "cube_of_tests", dtype: str = "float32", **attributes: Any) -> Any:
    main, _ = a_program(type, (3, 5), dtype, **attributes)
    found = choose(main.view.top.operators[0], target)
    return found.kernel.label if found.kernel is not None else None, found.reason


@pytest.mark.parametrize(
    ("target", "arguments", "label", "reason"),
    [
        ("cpu", {}, "cpu/f32/any/plain", "it is for cpu, f32; kernels of users come before"),
        ("numpy", {}, "numpy/any/any/plain", "it is for numpy"),
        ("cuda-sim", {}, None, "cpu/f32/any/plain is not taken: the program runs at cuda-sim"),
        ("cuda:1", {}, None, "numpy/any/any/plain is not taken: the program runs at cuda:1"),
        ("cpu", {"dtype": "float64"}, None, "cpu/f32/any/plain is not taken: the elements are f64"),
        (
            "cpu",
            {"dtype": "float64", "library": "exact"},
            "any/f64/any/exact",
            "the library exact is asked for",
        ),
        ("cpu", {"type": "plain_cube_of_tests"}, None, "no kernel is registered for it"),
    ],
)
def test_the_most_exact_kernel_is_chosen(target: str, arguments: Any, label: str | None, reason: str) -> None:
    given = dict(arguments)
    assert choice(target, **given)[0] == label
    assert reason in choice(target, **given)[1]


def test_the_text_says_which_kernel_and_a_second_pass_changes_nothing() -> None:
    main, made = a_program("cube_of_tests", (3, 5), times=2, library="exact")
    once = select_kernels(main.view, "cpu")
    text = program_text(once)
    assert text.count('kernel = "any/f64/any/exact"') == 2 and "kernel =" not in program_text(main.view)
    assert program_text(select_kernels(once, "cpu")) == text == program_text(read_program(text))
    (found,) = fluid.Executor().run(
        fluid.Program.parse_from_string(text),
        feed={"x": np.full((3, 5), 2, np.float32)},
        fetch_list=[made.name],
    )
    assert found[0, 0] == 2 * 16**3


def test_a_remark_tells_the_choice_and_the_reason_at_the_line() -> None:
    main, _ = a_program("cube_of_tests", (3, 5))
    told: list[Diagnostic] = []
    with listening(["program-kernels"], told.append):
        PROGRAM_PASSES["program-kernels"](main.view.module, resolve("cpu"), place="cpu")
    assert [d.message for d in told] == [
        "operator cube_of_tests runs the kernel cpu/f32/any/plain: it is for cpu, f32; kernels of users come before the operator's own function",
        "operator reduce_sum runs its own function: no kernel is registered for it",
    ]
    assert told[0].location.file == __file__ and told[0].severity == "remark"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"library": "blas"}, "operator cube_of_tests has no kernel of library 'blas' for cpu, f32"),
        ({"place": "cuda"}, "operator cube_of_tests has no kernel at place 'cuda' for cpu, f32"),
        ({"kernel": "cpu/f64/any/plain"}, "operator cube_of_tests has no kernel cpu/f64/any/plain"),
    ],
)
def test_what_is_asked_for_and_not_there_is_an_error_with_what_there_is(
    attributes: Any, message: str
) -> None:
    main, made = a_program("cube_of_tests", (3, 5), **attributes)
    with pytest.raises(UserError, match=re.escape(message)) as error:
        run(main, "cpu", {"x": np.ones((3, 5), np.float32)}, made)
    (found,) = error.value.diagnostics
    assert found.location.file == __file__
    assert "any/f64/any/exact" in found.hint or "cpu/f32/any/plain" in found.hint


def test_an_attribute_of_a_library_prefers_it_where_it_fits() -> None:
    @new_operator(
        """
        operator preferring_of_tests
          in X: The tensor.
          out Out: The result.
          attr use_fast: bool = false: Whether a kernel of the library fast is preferred.
          doc X.
        """
    )
    def preferring(x: Any, *, use_fast: bool) -> Any:
        return nn.add(x, 0)

    kernel("preferring_of_tests", dtype="float32", library="fast")(lambda x: nn.subtract(x, 0))
    kernel("preferring_of_tests")(lambda x: nn.multiply(x, 1))
    type = "preferring_of_tests"
    assert choice("cpu", type, use_fast=True) == ("any/f32/any/fast", "the library fast is asked for")
    assert choice("cpu", type, library="fast")[0] == "any/f32/any/fast"
    for given in [{"use_fast": False}, {"use_fast": True, "dtype": "float64"}]:
        assert choice("cpu", type, **given)[0] == "any/any/any/plain"
    main, _ = a_program(type, (3,))
    assert choose(main.view.top.operators[0], "cpu", "fast").reason == "the library fast is asked for"


def test_integers_do_not_reach_a_kernel_for_floats() -> None:
    main, _ = a_program("only_by_kernels", (3,), "int32")
    with pytest.raises(UserError, match="operator only_by_kernels has no kernel for cpu, i32") as error:
        select_kernels(main.view, "cpu")
    assert "there are: numpy/f64/any/plain" in error.value.diagnostics[0].hint
    fed = with_io(main.view, {"x": np.ones(3, np.int32)}, ["y_0"])
    with pytest.raises(UserError, match="no function of its own, and no kernel was chosen"):
        PROGRAM_PASSES["program-to-values"](fed.module, resolve("cpu"))


# ---- what is put around kernels


@pytest.mark.parametrize("target", TARGETS)
def test_another_place_and_type_are_reached_by_operators_that_cancel(target: str) -> None:
    main, made = a_program("only_by_kernels", (3,), times=3)
    chosen = select_kernels(with_fetch(main, made.name), target)
    copies = ["copy"] * (target != "numpy")
    # Rounding to 32 bits and back is kept; two copies between neighbours would cancel if nothing stood between them.
    begin, end = ["cast", *copies, "only_by_kernels"], [*copies, "cast"]
    assert kinds(chosen)[: len(begin)] == begin
    assert kinds(chosen).count("copy") == (0 if target == "numpy" else 6)
    assert kinds(chosen).count("cast") == 6 and end
    (found,) = run(main, target, {"x": np.array([1, 2, 3], np.float32)}, made)
    assert found.tolist() == [4, 5, 6]


def test_copies_between_neighbours_cancel() -> None:
    main, made = a_program("cube_of_tests", (3, 5), times=3, place="numpy")
    chosen = select_kernels(with_fetch(main, made.name), "cpu")
    assert kinds(chosen) == ["copy", *["cube_of_tests"] * 3, "copy", "fetch"] or kinds(chosen)[:5] == [
        "copy", *["cube_of_tests"] * 3, "copy",
    ]  # fmt: skip
    CALLED.clear()
    (found,) = run(main, "cpu", {"x": np.full((3, 5), 0.5, np.float32)}, made)
    assert found[0, 0] == 2 * (2 * (2 * 0.5**3) ** 3) ** 3 and CALLED == ["numpy"] * 3


def test_casts_to_more_bits_and_back_cancel_and_rounding_stays() -> None:
    main, made = a_program("cube_of_tests", (3, 5), "float16", times=2, library="exact")
    chosen = select_kernels(with_fetch(main, made.name), "cpu")
    assert kinds(chosen)[:6] == ["cast", "cube_of_tests", "cast", "cast", "cube_of_tests", "cast"]
    text = """
module attributes {program.version = 1 : i64} {
  program.var @fetch : tensor<f32> {holds = "fetch_list", persistable}
  program.var @x : tensor<4xf32> {data}
  program.var @a : tensor<4xf64>
  program.var @b : tensor<4xf32>
  program.var @c : tensor<4xf32>
  program.op cast {X = [@x]} -> {Out = [@a]} with {in_dtype = 5 : i32, out_dtype = 6 : i32}
  program.op cast {X = [@a]} -> {Out = [@b]} with {in_dtype = 6 : i32, out_dtype = 5 : i32}
  program.op relu {X = [@b]} -> {Out = [@c]}
  program.op fetch {X = [@c]} -> {Out = [@fetch]} with {col = 0 : i32}
}
"""
    assert kinds(select_kernels(read_program(text), "cpu")) == ["relu", "fetch"]
    # Without `fetch` operators nobody knows what is looked at.
    open_ = "\n".join(line for line in text.splitlines() if "fetch" not in line)
    assert kinds(select_kernels(read_program(open_), "cpu")) == ["cast", "cast", "relu"]
    # What is written again in between is not what it was.
    again = text.replace(
        "  program.op cast {X = [@a]}",
        "  program.op tanh {X = [@c]} -> {Out = [@x]}\n  program.op cast {X = [@a]}",
    )
    again = again.replace(
        "  program.op cast {X = [@x]}",
        "  program.op exp {X = [@x]} -> {Out = [@c]}\n  program.op cast {X = [@x]}",
    )
    assert kinds(select_kernels(read_program(again), "cpu")) == [
        "exp",
        "cast",
        "tanh",
        "cast",
        "relu",
        "fetch",
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_layouts_are_changed_once_in_and_once_out(target: str) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = made = fluid.layers.data("x", [2, 3, 4, 5], append_batch_size=False)
        other = fluid.layers.data("other", [2, 3, 4, 5], append_batch_size=False)
        for number in range(3):
            given = made
            made = main.global_block().create_var(name=f"y{number}")
            means = main.global_block().create_var(name=f"m{number}")
            main.global_block().append_op(
                type="image_of_tests", inputs={"X": given, **({"Other": other} if number else {})},
                outputs={"Out": made, "Means": means}, attrs={"library": "rows"},
            )  # fmt: skip
    chosen = select_kernels(with_fetch(main, made.name), target)
    # One for each of the two that are read, one for the result that is fetched.
    assert kinds(chosen).count("layout") == 3
    a, b = np.random.default_rng(3).normal(size=(2, 2, 3, 4, 5)).astype(np.float32)
    found, means = run(main, target, {"x": a, "other": b}, made, means)
    np.testing.assert_allclose(found, 8 * a + 3 * b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(means, (4 * a + b).mean((1, 2, 3)), rtol=1e-5, atol=1e-5)
    assert x.shape == (2, 3, 4, 5)


# ---- what is refused


def test_kernels_that_give_something_else_are_refused_at_the_operator() -> None:
    for number, (function, message) in enumerate(
        [
            (lambda x: nn.sum(x), r"gives tensor<f32> as Out"),
            (lambda x: nn.astype(x, np.float64), r"gives tensor<3x5xf64> as Out"),
            (lambda x: (x, x), "gives 2 results"),
        ]
    ):
        kernel("plain_cube_of_tests", library=f"wrong{number}")(function)
        main, made = a_program("plain_cube_of_tests", (3, 5), library=f"wrong{number}")
        with pytest.raises(UserError, match=message) as error:
            run(main, "cpu", {"x": np.ones((3, 5), np.float32)}, made)
        assert error.value.diagnostics[0].location.file == __file__
    kernel("plain_cube_of_tests", library="short", numpy=True)(lambda x: x[:2])
    main, made = a_program("plain_cube_of_tests", (3, 5), library="short")
    with pytest.raises(UserError, match=r"gave float32 of shape \(2, 5\), not float32 of shape \(3, 5\)"):
        run(main, "cpu", {"x": np.ones((3, 5), np.float32)}, made)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": "no_such"}, "there is no operator 'no_such'"),
        ({"place": "moon"}, "'moon' is no place of kernels"),
        ({"place": "gpu", "numpy": True}, "runs at no place gpu"),
        ({"slots": ["Y"]}, "operator plain_cube_of_tests has no slot 'Y'"),
        ({"dtype": "float99"}, "float99"),
    ],
)
def test_registrations_that_say_nothing_possible_are_refused(arguments: Any, message: str) -> None:
    given = {"type": "plain_cube_of_tests", **arguments}
    with pytest.raises(UserError, match=message) as error:
        kernel(**given)(lambda x: x)
    assert error.value.diagnostics[0].location.file == __file__


def test_a_second_registration_is_refused_with_the_first_place() -> None:
    def again(x: Any, *, by: float = 1.0) -> Any:
        return x

    for register, what in [
        (kernel("cube_of_tests", place="numpy"), "a kernel numpy/any/any/plain of operator cube_of_tests"),
        (
            new_operator("operator cube_of_tests\n  in X: A.\n  out Out: B.\n  doc C."),
            "an operator cube_of_tests",
        ),
        (gradient_maker("only_by_kernels"), "a gradient maker of operator only_by_kernels"),
    ]:
        with pytest.raises(UserError, match=f"there is {what} already") as error:
            register(again)
        assert re.search(r"test_operator_kernels\.py:\d+; give", error.value.diagnostics[0].hint)
    with pytest.raises(UserError, match="3 is no kernel"):
        kernel("cube_of_tests", library="three")(3)  # type: ignore[type-var]
    for text, message in [
        ("operator a\n  in X: A.\n  out Out: B.\n  doc C.\noperator b\n  doc D.", "the text has 2 operators"),
        ("operator a\n  in X: A.", "operator a has no doc"),
        ("operator a\n  nonsense", "expected 'in', 'out'"),
        ("operator a\n  in X: A.\n  numbers X of rows", "expected: numbers INPUT: THING of NAME"),
        ("operator a\n  in X: A.\n  numbers X: row of W\n  doc D.", "operator a has no input 'W'"),
        ("operator a\n  in X: A.\n  same X", "expected: same OUTPUT as INPUT"),
        ("operator a\n  in X: A.\n  same Out as X\n  doc D.", "operator a has no output 'Out'"),
        ("operator a\n  in X: A.\n  checked Out\n  doc D.", "operator a has no output 'Out'"),
    ]:
        with pytest.raises(UserError, match=message):
            new_operator(text)


def test_an_operator_that_is_registered_again_by_the_same_line_takes_its_place() -> None:
    for factor in (2, 3):

        @new_operator(
            "operator renewed_of_tests\n  in X: The tensor.\n  out Out: The result.\n  doc A multiple of X."
        )
        def renewed(x: Any, by: int = factor) -> Any:
            return nn.sum(nn.multiply(x, by)) if by == 3 else nn.multiply(x, by)

        main, made = a_program("renewed_of_tests", (3,))
        slope = None
        with fluid.program_guard(main, fluid.Program()):
            slope = fluid.calc_gradient(fluid.layers.mean(made), main.global_block().var("x"))
        found, slopes = run(main, "cpu", {"x": np.ones(3, np.float32)}, made, slope)
        assert found.shape == ((3,) if factor == 2 else ())
        np.testing.assert_allclose(slopes, factor / 3 if factor == 2 else factor)
