# SPDX-License-Identifier: Apache-2.0
"""What users of NumPy and PyTorch write first works as they expect, or says what to write instead."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

N, C = ng.make_axis(4, "N"), ng.make_axis(3, "C")
GIVEN = np.arange(12.0, dtype=np.float32).reshape(4, 3) / 7


def value(tensor: ng.Tensor, target: str = "numpy") -> Any:
    return ng.compile(tensor, target=target)()


@pytest.fixture
def x() -> ng.Tensor:
    return ng.variable([N, C], initial_value=GIVEN)


def test_methods_and_axis(x: ng.Tensor) -> None:
    for made, want in (
        (x.sum(axis=0), GIVEN.sum(0)),
        (ng.sum(x, axis=0), GIVEN.sum(0)),
        (ng.sum(x, axis=(0, -1)), GIVEN.sum()),
        (x.mean(axis="C"), GIVEN.mean(1)),
        (ng.variance(x, axis=N), GIVEN.var(0)),
        (x.max(axis=-1), GIVEN.max(1)),
        (x.min(axis=[N, "C"]), GIVEN.min()),
        (ng.prod(x, axis=1), GIVEN.prod(1)),
        (ng.argmax(x, axis=1), GIVEN.argmax(1)),
        (ng.argmax(x, "C"), GIVEN.argmax(1)),
        (ng.argmin(x, N), GIVEN.argmin(0)),
        (ng.argmax(ng.cast_role(x, ["B", "H"]), "H"), GIVEN.argmax(1)),  # NumPy's short name of uint16
        (ng.all(x > 0, axis=1), (GIVEN > 0).all(1)),
        (x.T, GIVEN.T),
        (ng.clip(x, 0.3, 1), GIVEN.clip(0.3, 1)),
        (ng.softmax(x, axis=0), np.exp(GIVEN) / np.exp(GIVEN).sum(0)),
        (ng.log_softmax(x, axis=-1), GIVEN - np.log(np.exp(GIVEN).sum(1, keepdims=True))),
    ):
        np.testing.assert_allclose(value(made), want, rtol=1e-5)
    with pytest.raises(ng.AxisNotFound, match="no axis number 2"):
        ng.sum(x, axis=2)
    with pytest.raises(ng.UserError, match="passed twice"):
        ng.sum(x, reduction_axes=[C], axis=0)


def test_functions_of_numpy_make_graph(x: ng.Tensor) -> None:
    for made, want in (
        (np.exp(x), np.exp(GIVEN)),
        (np.maximum(x, 0.5), np.maximum(GIVEN, 0.5)),
        (np.add(x, x), GIVEN * 2),
        (np.less(0.5, x), GIVEN > 0.5),
        (np.arctan(x), np.arctan(GIVEN)),
        (np.float32(2) * x, GIVEN * 2),
        (np.array(3.0) - x, 3 - GIVEN),
    ):
        assert isinstance(made, ng.Tensor)
        np.testing.assert_allclose(value(made), want, rtol=1e-5)


def test_what_needs_elements_says_so(x: ng.Tensor) -> None:
    for wrong, hint in (
        (lambda: np.asarray(x), "ng.compile"),
        (lambda: np.array([x, x]), "ng.compile"),
        (lambda: float(x), "ng.compile"),
        (lambda: int(x), "ng.compile"),
        (lambda: np.sum(x), "ng.sum"),
        (lambda: np.concatenate([x, x]), "ng.concat_along_axis"),
        (lambda: np.add(x, x, out=np.ones((4, 3))), "ng.add"),
        (lambda: np.linalg.norm(x), "ng.L2_norm"),
        (lambda: np.linalg.det(x), "ng.compile"),
    ):
        with pytest.raises(ng.UserError, match=rf"(?s)test_newcomers.py:\d+.*hint: .*{hint}"):
            wrong()


def test_sameness_is_no_tensor(x: ng.Tensor) -> None:
    y = x + 1
    assert x == x and x != y and not x == y and x in {x, y} and [y, x].index(x) == 1
    wrongs: tuple[Callable[[], Any], ...] = (
        lambda: ng.sum(x == y),
        lambda: ng.where(x != y, 1, 0),
        lambda: ng.cond(x == 3, lambda: x, lambda: y),
        lambda: x * (x == y),
        lambda: np.ones(3) == x,
        # What would be a number, or take the element 0.
        lambda: ng.where((x == 1) | (x == 2), 1, 0),
        lambda: (x == 1) & (x == 2),
        lambda: (x > 0) ^ (x == 2),
        lambda: x[x == 1],
        lambda: x[0, x == 1],
        lambda: np.where(x == 1, 1, 2),
        lambda: float(x == 1),
        lambda: abs(x == 1),
        lambda: (x == 1) // 2,
        lambda: (x == 1) < 1,
        lambda: (x == 1)[0],
    )
    for wrong in wrongs:
        with pytest.raises(ng.UserError, match=r"(?s)the same node.*hint: .*ng.equal"):
            wrong()


@pytest.mark.parametrize("target", ["cpu", "numpy"])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_cannot_be_copied_says_so(target: str, how: Callable[[Any], Any], x: ng.Tensor) -> None:
    transformer = ng.transformers.make_transformer(target)
    compiled = transformer.computation(x + 1, x)
    for thing, hint in (
        (compiled, "ng.save"),
        (transformer, "load_state"),
        (compiled.module, "to_text"),
        (x, "ng.save"),
    ):
        with pytest.raises(ng.UserError, match=rf"(?s)cannot be copied or pickled.*hint: .*{hint}"):
            how(thing)


def test_after_an_assignment_in_place() -> None:
    w = ng.variable([C], initial_value=1)
    kept = w
    w -= 1
    assert isinstance(w, ng.Op) and not w.is_tensor_op
    wrongs: tuple[Callable[[Any], Any], ...] = (
        lambda w: w * 2,
        lambda w: 2 - w,
        lambda w: w[0],
        lambda w: -w,
        ng.sum,
        lambda w: ng.dot(kept, w),
        lambda w: ng.deriv(ng.sum(kept, out_axes=()), w),
    )
    for wrong in wrongs:
        with pytest.raises(ng.UserError, match=r"(?s)no value.*hint: .*ng.assign"):
            wrong(w)
    assert value(kept).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("matmul", r"ng\.dot"), ("grad", r"ng\.deriv"), ("einsum", r"ng\.dot"), ("concatenate", "concat_along_axis"),
        ("softmx", "did you mean softmax"), ("ones", r"constant\(1"), ("nn", r"frontends\.neon"), ("optim", r"frontends\.neon"),
        ("manual_seed", "seed="), ("load_state_dict", "load_state"), ("cross_entropy", "cross_entropy_multi"), ("gelu", r"ng\.erf"),
        ("cuda", "make_transformer"), ("cumsum", "cumulative_sum"),
    ],
)  # fmt: skip
def test_names_from_elsewhere(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint):
        getattr(ng, name)


def test_methods_from_elsewhere(x: ng.Tensor) -> None:
    for name, hint in (
        ("reshape", r"ng\.flatten"),
        ("numpy", r"ng\.compile"),
        ("backward", r"ng\.deriv"),
        ("requires_grad", r"ng\.variable"),
        ("masked_fill", r"ng\.where"),
        ("chunk", r"ng\.slice_along_axis"),
    ):
        with pytest.raises(AttributeError, match=hint):
            getattr(x, name)
    assert not hasattr(x, "reshape")


def test_storage_is_called_by_what_it_was_assigned_to() -> None:
    class Model: ...

    model: Any = Model()
    model.weights = ng.variable([C])
    one, (two, three) = (
        ng.placeholder([C]),
        (ng.placeholder([C], dtype="i32"), ng.variable([C], name="given")),
    )
    for wrong, called in (
        (lambda: value(model.weights + 1), "model.weights is read before"),
        (lambda: ng.computation(one), "the placeholder one "),
        (lambda: ng.deriv(ng.sum(one, out_axes=()), two), "two holds i32"),
        (lambda: value(three + 1), "given is read before"),
        (lambda: ng.compile(one, [one])(np.ones(5)), "one has axes"),
    ):
        with pytest.raises(ng.UserError, match=called):
            wrong()


# ---- derivatives of what, by what


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
def test_the_derivative_of_one_number_for_each_sample(target: str) -> None:
    # The example of the first documents: the batch axis is left on the loss, and its sum is meant.
    x = ng.placeholder([C, N])
    y0, w = ng.placeholder([N]), ng.variable([C], initial_value=[1, 2, 3])
    error = ng.dot(w, x) - y0
    loss = ng.squared_L2(error)
    assert loss.axes.names == ("N",)
    given, y = GIVEN.T.copy(), np.ones(4)
    made = ng.compile(ng.deriv(loss, w), [x, y0], target=target)(given, y)
    np.testing.assert_allclose(made, 2 * given @ (np.array([1, 2, 3]) @ given - y), rtol=1e-5)
    with pytest.raises(ng.NotDifferentiable, match="error="):
        ng.deriv(x * x, x)


def test_by_what_has_no_derivative() -> None:
    w, i = ng.variable([C], initial_value=1), ng.variable([C], dtype="i32", initial_value=1)
    y = ng.sum(w * i, out_axes=())
    for by in (i, w > 0, 3.0, ng.constant(2), np.ones(3)):
        with pytest.raises(ng.NotDifferentiable):
            ng.deriv(y, by)
    T, held = ng.make_axis(3, "T"), list[ng.Tensor]()

    def body(c: ng.Tensor, s: ng.Tensor) -> Any:
        held.append(c * s)
        return held[0], ()

    last, _ = ng.scan(body, ng.constant(1.0), ng.constant([1, 2, 3], [T]), T)
    with pytest.raises(ng.OutsideRegion, match="inside the body"):
        ng.deriv(last, held[0])


def test_by_what_nothing_trainable_reaches() -> None:
    w = ng.variable([C], initial_value=[1.5, 2.5, 3.5])
    for by in (ng.floor(w), ng.stop_gradient(w), ng.uniform(w), ng.constant([1, 2, 3], [C]) * 2.0):
        square, given = value_of_two(ng.deriv(ng.sum(by * by, out_axes=()), by), by)
        np.testing.assert_allclose(square, 2 * given)


def value_of_two(*tensors: ng.Tensor) -> Any:
    return ng.transformers.make_transformer("numpy").computation(list(tensors))()


def test_a_map_of_names_is_not_a_list_of_them(x: ng.Tensor) -> None:
    with pytest.raises(ng.UserError, match=r"one name for each axis, in order\n(?s:.*)map_roles"):
        ng.cast_role(x, {C: ng.make_axis(3, "D")})
    assert ng.cast_role(x, {"A": 4, "D": 3}).axes.names == ("A", "D")


# ---- arguments and habits from elsewhere


def test_functions_of_a_tensor_are_methods_too(x: ng.Tensor) -> None:
    w = ng.variable(x.axes, initial_value=GIVEN + 1)
    same = [
        (w.exp(), ng.exp(w)),
        (w.softmax(axis=0), ng.softmax(w, axis=0)),
        (w.dot(w), ng.dot(w, w)),
        (w.flatten(), ng.flatten(w)),
        (w.clip(2, 4), ng.clip(w, 2, 4)),
        (round(w / 3, 1), ng.round(w / 3 * 10) / 10),
        (pow(w, 2, 4), (w * w) % 4),
    ]
    found = ng.compile([op for pair in same for op in pair])()
    for one, other in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert "exp" in dir(w) and w.named("w").exp().axes == w.axes


def test_axes_under_other_words(x: ng.Tensor) -> None:
    first = x.axes[0].name
    for made in (ng.sum(x, dim=0), x.sum(dim=0), ng.sum(x, axis=0, keepdims=False), ng.max(x, dim=first)):
        assert made.axes == x.axes[1:]
    assert ng.softmax(x, dim=1).axes == x.axes and ng.L2_norm(x, axis=first).axes == x.axes[1:]


@pytest.mark.parametrize(
    "wrong, hint",
    [
        (lambda x: ng.sum(x, axis=0, keepdims=True), "matched by the names"),
        (lambda x: x.max(dim=0, keepdim=True), "matched by the names"),
        (lambda x: ng.exp(x, out=x), r"ng\.assign\(out, ng\.exp"),
        (lambda x: ng.exp(x, dtype="f64"), r"ng\.cast\(x, dtype\)"),
        (lambda x: ng.exp(x, x), r"ng\.exp\(x\)"),
        (lambda x: ng.clip(x, 0), r"ng\.clip\(x, low, high"),
        (lambda x: ng.softmax(x, normalisation_axes="C"), "did you mean normalization_axes"),
        (lambda x: ng.placeholder(shape=(3, 4)), r"ng\.make_axis"),
        (lambda x: ng.dropout(x, p=0.5), "keep=1 - p"),
        (lambda x: ng.sequential([x], x), r"ng\.sequential\(ops\)"),
        (lambda x: ng.exp(x, out=x, name="y"), r"ng\.assign"),
        (lambda x: ng.exp(name="y"), r"ng\.exp\(x\)"),
    ],
)
def test_arguments_from_elsewhere(x: ng.Tensor, wrong: Any, hint: str) -> None:
    with pytest.raises(ng.UserError, match=rf"test_newcomers.py:\d+[\s\S]*hint:.*{hint}") as raised:
        wrong(x)
    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize(
    "wrong, hint",
    [
        (lambda x: len(x), r"len\(x\.axes\)"),
        (lambda x: x in x, r"ng\.any"),
        (lambda x: x[x > 0], r"ng\.where\(mask"),
        (lambda x: x[[True, False]], r"ng\.where\(mask"),
        (lambda x: x[[0, 1]], r"ng\.gather"),
        (lambda x: x[None], r"ng\.expand_dims"),
        (lambda x: x["C"], r"ng\.slice_along_axis"),
        (lambda x: f"{x:.2f}", r"ng\.compile"),
        (lambda x: copy.deepcopy(x), r"ng\.save"),
        (lambda x: pickle.dumps([x]), r"ng\.save"),
        (lambda x: ng.max(x, x), r"ng\.maximum"),
        (lambda x: ng.sum(x, 1), r"axis=1"),
        (lambda x: ng.deriv(ng.sum(x, out_axes=()), [x]), "for x in"),
        (lambda x: ng.uniform((3, 4)), r"ng\.constant"),
        (lambda x: ng.normal(x, 0, (3,)), r"ng\.constant"),
        (lambda x: x.add_(1), r"ng\.assign"),
        (lambda x: x.float(), r"ng\.cast"),
        (lambda x: ng.save(x, "model.ngir"), r"ng\.save\(\"model.ngir\""),
    ],
)
def test_habits_from_elsewhere(x: ng.Tensor, wrong: Any, hint: str) -> None:
    with pytest.raises(ng.UserError, match=rf"\.py:\d+[\s\S]*hint:.*{hint}"):
        wrong(x)


def test_numbers_count_as_truths(x: ng.Tensor) -> None:
    w = ng.constant([[0, 0], [1, 0]], [ng.make_axis(2, "C"), ng.make_axis(2, "H")])
    assert ng.compile(ng.any(w, axis="H"))().tolist() == [False, True]
    assert ng.compile(ng.all(w, axis="C"))().tolist() == [False, False]


def test_arrays_have_a_length() -> None:
    array = ng.numpy.ones((3, 4))
    assert len(array) == 3 and len(array[0]) == 4
    with pytest.raises(ng.UserError, match="no first axis"):
        len(array[0, 0])


def test_functions_of_the_users_own_raise_what_python_raises() -> None:
    @ng.with_op_metadata
    def own(x: Any) -> Any:
        return x + 1

    @ng.composite_op
    def composed(x: Any) -> Any:
        return x + 1

    for function in (own, composed):
        with pytest.raises(TypeError) as raised:
            function(1, dim=2)
        assert not isinstance(raised.value, ng.UserError)
