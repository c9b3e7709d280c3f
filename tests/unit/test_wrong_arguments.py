# SPDX-License-Identifier: Apache-2.0
"""Every public function called with what it cannot take: an error that says where, what and what to write."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

#: What makes the nodes of graphs by the thousand, and records that hold what they are given, ask nothing.
PLAIN = {
    "Op", "Tensor", "Axis", "Axes", "AxesMap", "FlattenedAxis", "RaggedAxis", "TensorDescription", "Schema", "Step", "NonFinite",
    "CallbackPhase",
}  # fmt: skip
#: What families have for operators, and what is to fail, as an assertion of a test.
INSIDE = {"shape_of", "iterate", "assert_allclose"}
ROOMS = [
    f"ngmlir{room}" for room in ("", ".numpy", ".simple", ".frontends.neon", ".transformers", ".testing")
]


def functions(room: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    module = importlib.import_module(room)
    for name in module.__all__:
        value = getattr(module, name)
        made_here = getattr(value, "__module__", "").startswith("ngmlir")
        asks = isinstance(value, FunctionType) or (
            isinstance(value, type)
            and not issubclass(value, BaseException)
            and isinstance(getattr(value, "__init__", None), FunctionType)
        )
        if made_here and asks and name not in PLAIN | INSIDE:
            yield name, value


def wrong() -> list[Any]:
    w = ng.variable([ng.make_axis(3, "C")], initial_value=0)
    array = ng.numpy.placeholder((3, 4))
    return [
        None,
        "hello",
        object(),
        {"a": 1},
        -7,
        0.5,
        [1, "a"],
        np.ones((2, 2)),
        1j,
        w,
        array,
        w.axes[0],
        len,
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_wrong_arguments_are_answered_at_the_users_line(room: str) -> None:
    said = 0
    for name, function in functions(room):
        parameters = inspect.signature(function).parameters.values()
        needed = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), {}), ((), {"bogus": 1}), ((1,) * 12, {})]
        for value in wrong():
            calls += [((value,) * max(needed, 1), {}), ((wrong()[-3], value), {}), ((wrong()[-4], value), {})]
        for args, named in calls:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*args, **named)
            except (ng.UserError, ng.Limit) as error:
                assert error.diagnostics[0].location.known, (name, args, named, str(error))
                assert error.diagnostics[0].hint or not isinstance(error, TypeError), (name, args, named)
                said += 1
            except Exception as error:
                raise AssertionError(f"{room}.{name} of {args} {named}: {error!r}") from error
    assert said > 50


def test_an_answer_says_what_was_given_why_that_cannot_be_and_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"make_axis: too many positional") as info:
        ng.make_axis(1, "a", "b", "c")  # pyright: ignore[reportCallIssue]
    assert "hint: ng.make_axis(length=None, name=None, docstring=None)" in str(info.value)
    with pytest.raises(
        ng.UserError, match="reshape cannot take a = .*, shape = 'a': 'str' object cannot"
    ) as info:
        ng.numpy.reshape(ng.numpy.zeros(3), "a")  # pyright: ignore[reportArgumentType]
    assert "hint: ng.numpy.reshape(a, shape, order='C')" in str(info.value)
    assert info.value.diagnostics[0].location.file == __file__
    assert isinstance(info.value.__cause__, TypeError)


def test_what_the_users_own_functions_raise_is_theirs() -> None:
    def body(*values: Any) -> Any:
        raise KeyError("mine")

    x = ng.placeholder([ng.make_axis(3, "T")])
    for call in (
        lambda: ng.scan(body, 0.0, x, "T"),
        lambda: ng.cond(ng.constant(1), body, body),
        lambda: ng.composite_op(body)(x),
        lambda: ng.variable(x.axes, initial_value=body),
    ):
        try:
            ng.compile(call())()
        except Exception as error:
            assert type(error) is KeyError
        else:
            raise AssertionError
