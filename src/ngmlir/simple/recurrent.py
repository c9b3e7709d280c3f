# SPDX-License-Identifier: Apache-2.0
"""Recurrence along the axis of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ..op_graph import functions as ng_functions
from ..op_graph.errors import IncompatibleAxesError, fail
from ..op_graph.tensor import Tensor
from ..ops.roles import STEPS
from .operands import as_simple, named, renamed, shape, simple_each


def _named(given: Any) -> Any:
    """One or several tensors as functions of names take them; what is no tensor (writes, None) stays."""
    if isinstance(given, (tuple, list)):
        return tuple(_named(each) for each in cast("Sequence[Any]", given))
    return named(given) if isinstance(given, (Tensor, int, float)) else given


def scan(body: Callable[..., Any], initial: Any, sequences: Any, reverse: bool = False) -> tuple[Any, Any]:
    """Runs `body(carried, now) -> (carried, outputs)` once for each step of the sequences, which have the axis of steps.

    As `ng.scan`; what is carried has no axis of steps, what comes out has it. A carried value that is to have samples
    must have them from the beginning on.
    """

    def step(carried: Any, now: Any) -> Any:
        made = body(simple_each(carried), simple_each(now))
        if not isinstance(made, (tuple, list)):
            return made  # `ng.scan` says what is wrong with it
        return tuple(_named(each) for each in cast("Sequence[Any]", made))

    last, outputs = ng_functions.scan(step, _named(initial), _named(sequences), STEPS, reverse)
    return simple_each(last), simple_each(outputs)


def _cell(function: Callable[..., Any], gates: int) -> Callable[..., Any]:
    def made(x: Any, w_input: Any, w_recurrent: Any, bias: Any = None, **options: Any) -> Any:
        gate = ["_gate"] if gates else []
        for weights, names in ((w_input, "features, hidden"), (w_recurrent, "hidden, hidden")):
            have = shape(as_simple(weights))
            if len(have) != 2 + len(gate) or (gates and have[0] != gates):
                first = f"{gates}, " if gates else ""
                fail(
                    IncompatibleAxesError,
                    f"weights of a recurrence have the shape ({first}{names}), not {have}",
                )
        for word in ("initial", "cell"):
            if options.get(word) is not None:
                options[word] = renamed(options[word], "_hidden")
        for word in ("bias", "recurrent_bias"):
            given = bias if word == "bias" else options.get(word)
            if given is not None:
                options[word] = renamed(given, *gate, "_hidden")
        if gates:
            options["gates"] = "_gate"
        result = function(
            renamed(x, "_feature"),
            renamed(w_input, *gate, "_feature", "_hidden"),
            renamed(w_recurrent, *gate, "_before", "_hidden"),
            **options,
        )
        return simple_each(result)

    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = (
        f"As `ng.{function.__name__}`, along the axis of steps: x has one feature, w_input "
        f"{'(gates, ' if gates else '('}features, hidden), w_recurrent {'(gates, ' if gates else '('}hidden, hidden) "
        "and the biases those that are left."
    )
    return made


rnn, lstm, gru = _cell(ng_functions.rnn, 0), _cell(ng_functions.lstm, 4), _cell(ng_functions.gru, 3)
