# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification (Graves et al. 2006): the cost of labels whose places in time are not known."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

from ...ir.types import i32
from ...ops.lengths import Length
from ..axes import Axes, AxesOrNames, Axis, DerivedAxis
from ..errors import IncompatibleAxesError, fail
from ..ragged import refuse_ragged
from ..tensor import Tensor
from ..user_ops import one_op
from ..values import as_op, constant, size_op
from .coerce import broadcast, check_lengths, floating
from .composed import stop_gradient, where
from .elementwise import add, equal, exp, greater, less, log, maximum, multiply, negative, subtract
from .index import gather, gather_elements, indices_of, iota
from .network import log_softmax
from .reductions import cumulative_sum, max
from .scans import scan
from .shape import axes_with_order, pad, slice_along_axis, tensor_slice
from .sliding import whole_number

#: The logarithm of what cannot be: finite, so that differences of such logarithms are numbers.
_NEVER = -1e30


@one_op("CTCOp")
def ctc(
    activations: Any,
    labels: Any,
    activation_lens: Any,
    label_lens: Any,
    axes: AxesOrNames | None = None,
    *,
    percent: bool = True,
    longest: int | None = None,
) -> Tensor:
    """The CTC cost of each sample: -log of the probability that activations stand for labels, in whatever rhythm.

    `activations` (REC, N, classes; in any order) are what a softmax would be taken of; class 0 is the blank, which stands
    between labels. `labels`: the labels of all samples, one after the other, along one axis; `label_lens` (N) says how many
    each sample has. `activation_lens` (N): how much of REC belongs to each sample, in percent, rounded down; with
    `percent=False` in steps. `longest`: no sample has more labels than this, which saves work; else as many as there are are
    allowed for. The result has axis N, or `axes`.

    Labels that do not fit in the steps cost infinity, and have no gradient. Computed in logarithms, so that long sequences
    lose nothing; the gradient, also the second one, is that of these computations. Elements: float32, or f64 if the
    activations have it.

    Raises IncompatibleAxesError for axes that are not these.
    """
    activations, labels = floating(activations), indices_of(labels)
    along, batch = activations.axes.recurrent_axis(), activations.axes.batch_axis()
    refuse_ragged(
        activations.axes,
        "ng.ctc cannot go along",
        "activations have axes REC and N; activation_lens says where each sample ends",
    )
    if len(activations.axes) != 3 or along is None or batch is None:
        fail(
            IncompatibleAxesError,
            f"activations have axes REC, N and one of classes, not ({', '.join(activations.axes.names)})",
        )
    if len(labels.axes) != 1:
        fail(
            IncompatibleAxesError,
            f"the labels of all samples stand along one axis, not ({', '.join(labels.axes.names)})",
            "label_lens says how many each sample has",
        )
    (classes,) = activations.axes - Axes((along, batch))
    element = activations.element
    steps = _lengths(activation_lens, batch, "activation_lens")
    if percent:
        # Percentages are rounded numbers: one that is short of a step by no more than rounding counts as that step.
        hundredth = multiply(size_op(Axes((along,)), Axes(), element), 0.01, element)
        steps = add(multiply(steps, hundredth, element), 1e-3, element)
    steps, counts = indices_of(steps), indices_of(_lengths(label_lens, batch, "label_lens"))

    # `places` has a position for each label of a sample, and one for the blank after the last label.
    if longest is None:
        places: Axis = DerivedAxis(classes.name, Length(_room, labels.axes[0], along))
    else:
        places = Axis(whole_number(longest, "number of labels", 0) + 1, classes.name)
    grid = Axes((batch, places))
    place = iota(grid, places)
    starts = cumulative_sum(counts, batch, exclusive=True, dtype=i32)
    own = gather(pad(labels, [(0, 1)]), add(broadcast(starts, grid), place, i32), labels.axes[0])
    repeated = equal(own, _moved(own, places, -1))

    scores = axes_with_order(log_softmax(activations, [classes]), Axes((along, batch, classes)))
    emitted = gather_elements(scores, broadcast(own, Axes((along, *grid))), classes)
    silent = slice_along_axis(scores, classes, 0)

    def step(state: tuple[Tensor, ...], now: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[()]]:
        (blank, label), (quiet, loud, time) = state, now
        before = _moved(label, places, _NEVER)
        goes_on = less(broadcast(time, Axes((batch,))), steps)
        new_blank = add(_summed(blank, before), broadcast(quiet, grid), element)
        new_label = add(_summed(label, blank, where(repeated, _NEVER, before, element)), loud, element)
        return (where(goes_on, new_blank, blank, element), where(goes_on, new_label, label, element)), ()

    at_first = where(equal(place, 0), 0, _NEVER, element)
    never = broadcast(constant(_NEVER, dtype=element), grid)
    (blank, label), _ = scan(step, (at_first, never), (silent, emitted, iota(Axes((along,)), along)), along)
    last = equal(place, counts)
    ends = (
        max(where(last, each, _NEVER, element), places) for each in (blank, _moved(label, places, _NEVER))
    )
    total = _summed(*ends)
    cost = where(greater(total, _NEVER / 2), negative(total), float("inf"), element)
    return cost if axes is None else broadcast(cost, axes)


def _room(labels: int, steps: int) -> int:
    """Places for the labels of a sample: more than there are steps cannot be told anyway."""
    return min(labels, steps) + 1


def _lengths(given: Any, batch: Axis, what: str) -> Tensor:
    """One number for each sample."""
    made = as_op(given) if isinstance(given, Tensor) else floating(given)
    axes = Axes((batch,))
    if not made.axes.is_sub_set(axes):
        fail(IncompatibleAxesError, f"{what} has axes ({', '.join(made.axes.names)}), not ({batch.name})")
    check_lengths(axes, made.axes)
    return broadcast(made, axes)


def _moved(x: Tensor, axis: Axis, first: float) -> Tensor:
    """Each element one place further along the axis, the last one lost."""
    longer = pad(x, [(1, 0) if a == axis else 0 for a in x.axes], value=first)
    return tensor_slice(longer, [slice(None, -1) if a == axis else slice(None) for a in x.axes])


def _summed(*logarithms: Tensor) -> Tensor:
    """The logarithm of the sum of what these are the logarithms of."""
    element = logarithms[0].element
    # It is subtracted and added again, so it has no gradient.
    most = stop_gradient(reduce(partial(maximum, dtype=element), logarithms))
    powers = [exp(subtract(x, most, element)) for x in logarithms]
    return add(log(reduce(partial(add, dtype=element), powers)), most, element)
