# SPDX-License-Identifier: Apache-2.0
"""Batch normalization folded into the operator before it: in a program for inference it is linear, as a convolution is.

    norm(conv(x, w) + b) = conv(x, w * f) + (b - mean) * f + shift    where f = scale / sqrt(variance + epsilon)

Filters and biases of the right side are computed by operators of the program, from parameters alone. `without_folded` takes
these operators out into a program of their own, which needs to run only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..decl.operator_text import Linear
from .attributes import completed, values_of
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program, Variable
from .names import EMPTY
from .prune import pruned


@dataclass(frozen=True)
class Folded:
    """A program without the batch normalizations that could be folded, and the names of the filters and biases that its first
    operators compute."""

    program: Program
    parameters: Sequence[str]


def folded(program: Program) -> Folded:
    """A copy of a program in which batch normalizations of the global block are folded into what they follow.

    One is folded where it uses stored means and variances (`is_test`), and follows a convolution or a product with a matrix,
    perhaps with a bias, whose result nothing else reads. Filters that others use too stay as they are: what is folded has its
    own.
    """
    folding = _Folding(program.copy())
    before = _used(folding.program)
    for norm in list(folding.block.operators):
        if norm.type == "batch_norm" and (found := folding.find(norm)) is not None:
            folding.fold(found)
    _drop(folding.block, before)
    return Folded(folding.program, folding.parameters)


def without_folded(made: Folded) -> tuple[Program, Program]:
    """The program that computes the filters and biases, which it keeps; and the program that uses them, as parameters."""
    if not made.parameters:
        return Program(), made.program
    once, rest = pruned(made.program, made.parameters), made.program.copy()
    before = _used(rest)
    for each in (once, rest):
        for name in made.parameters:
            each.top.visible(name).set_flag("persistable", True)
    computed = {name for operator in once.top.operators for name in operator.writes}
    for operator in list(rest.top.operators):
        if operator.writes and computed.issuperset(operator.writes):
            rest.top.remove_operators(operator.index, operator.index + 1)
    _drop(rest.top, before)
    return once, rest


@dataclass(frozen=True)
class _Found:
    """A batch normalization, the linear operator that it follows, and the addition of a bias between both."""

    linear: Operator
    how: Linear
    bias: Operator | None
    norm: Operator

    @property
    def filters(self) -> str:
        return self.linear.inputs[self.how.filters][0]


@dataclass
class _Folding:
    program: Program
    parameters: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.block: BlockView = self.program.top
        operators = list(self.program.walk())
        self.reads = Counter(name for operator in operators for name in operator.reads)
        #: Who writes a variable; passing on what it has does not count.
        self.writers: dict[str, list[Operator]] = {}
        for operator in operators:
            passed = _passed_on(operator)
            for name in operator.writes:
                if name not in passed:
                    self.writers.setdefault(name, []).append(operator)
        #: Where the operators begin that compute filters and biases.
        self.at = next((i for i, o in enumerate(self.block.operators) if o.type != "feed"), 0)

    # ---- what can be folded

    def find(self, norm: Operator) -> _Found | None:
        if not _value(norm, "is_test") or not self._only_result(norm):
            return None
        before = self._only_writer(norm.inputs["X"][0])
        bias = before if before is not None and before.type == "elementwise_add" else None
        linear = before if bias is None else self._only_writer(bias.inputs["X"][0])
        how = None if linear is None else REGISTRY.get(linear.type).entry.linear
        if linear is None or how is None:
            return None
        found = _Found(linear, how, bias, norm)
        scale = self.block.visible(norm.inputs["Scale"][0])
        channel = self._channel(found)
        if channel is None or (bias is not None and not self._is_bias(bias, scale, channel)):
            return None
        given = [found.filters, *[norm.inputs[slot][0] for slot in ("Scale", "Bias", "Mean", "Variance")]]
        if not all(self._is_fixed(name, scale) for name in given):
            return None
        return found if self.block.visible(found.filters).shape[found.how.along] == scale.shape[0] else None

    def _only_writer(self, name: str) -> Operator | None:
        """The operator that computes what nothing else computes, and only one operator of this block reads."""
        writers = self.writers.get(name, [])
        variable = self.block.variables.get(name)
        if variable is None or variable.persistable or len(writers) != 1 or self.reads[name] != 1:
            return None
        return writers[0] if writers[0].block is self.block else None

    def _only_result(self, norm: Operator) -> bool:
        """Whether nothing but the normalized values is used of what it gives."""
        passed = _passed_on(norm)
        others = [n for n in norm.writes if n not in passed and n not in (EMPTY, *norm.outputs["Y"])]
        return not any(self.reads[n] or self.block.visible(n).persistable for n in others)

    def _is_fixed(self, name: str, like: Variable) -> bool:
        """Whether it is a parameter that nothing writes, of known shape and of the element type of another."""
        found = self.block.visible(name)
        return (
            found.persistable
            and name not in self.writers
            and found.type.static
            and bool(found.shape)
            and found.element is like.element
        )

    def _is_bias(self, bias: Operator, scale: Variable, channel: int) -> bool:
        """Whether an addition adds a number to each channel."""
        (name,) = bias.inputs["Y"]
        axis = _value(bias, "axis")
        rank = len(self.block.visible(bias.inputs["X"][0]).shape)
        first = rank - 1 if axis == -1 else axis
        return (
            self._is_fixed(name, scale) and self.block.visible(name).shape == scale.shape and first == channel
        )

    def _channel(self, found: _Found) -> int | None:
        """The dimension of the result that has the channels, where it is that along which they are normalized."""
        linear = found.linear
        rank = len(self.block.visible(found.filters).shape)
        channel = 1
        if linear.type == "mul":
            if rank != 2 or _value(linear, "y_num_col_dims") != 1:
                return None
            channel = _value(linear, "x_num_col_dims")
            rank = channel + 1
        elif found.how.along == 1 and _value(linear, "groups") != 1:
            return None
        normalized = rank - 1 if _value(found.norm, "data_layout") == "NHWC" or rank == 2 else 1
        return channel if channel == normalized else None

    # ---- folding

    def fold(self, found: _Found) -> None:
        linear, how, norm, block = found.linear, found.how, found.norm, self.block
        (result,) = linear.outputs[how.result]
        scale, shift, mean, variance = (norm.inputs[s][0] for s in ("Scale", "Bias", "Mean", "Variance"))
        raised = self._compute(norm, "variance", "increment", [variance], step=_value(norm, "epsilon"))
        deviation = self._compute(norm, "deviation", "sqrt", [raised])
        factor = self._compute(norm, "factor", "elementwise_div", [scale, deviation])
        filters = self._compute(norm, "filter", "elementwise_mul", [found.filters, factor], axis=how.along)
        if found.bias is None:
            moved = self._compute(norm, "mean", "elementwise_mul", [mean, factor])
            bias = self._compute(norm, "bias", "elementwise_sub", [shift, moved])
        else:
            centred = self._compute(norm, "mean", "elementwise_sub", [found.bias.inputs["Y"][0], mean])
            moved = self._compute(norm, "moved", "elementwise_mul", [centred, factor])
            bias = self._compute(norm, "bias", "elementwise_add", [moved, shift])
        self.parameters += [filters, bias]
        (made,) = norm.outputs["Y"]
        inner = self._declare(f"{made}@linear", block.visible(result))
        linear.set_slot("inputs", how.filters, [filters])
        linear.set_slot("outputs", how.result, [inner])
        # The addition of the new bias comes to where the normalization was.
        at, channel, is_relu = norm.index, self._channel(found), _value(norm, "fuse_with_relu")
        block.remove_operators(at, at + 1)
        added = self._declare(f"{made}@sum", block.visible(made)) if is_relu else made
        self._insert(at, "elementwise_add", [inner, bias], added, norm, axis=channel)
        if is_relu:
            self._insert(at + 1, "relu", [added], made, norm)
        if found.bias is not None:
            block.remove_operators(found.bias.index, found.bias.index + 1)

    def _compute(
        self, norm: Operator, name: str, type: str, operands: Sequence[str], **attributes: Any
    ) -> str:
        """A new operator among the first, which computes from parameters; gives the name of the result."""
        made = self._declare(f"{norm.outputs['Y'][0]}@{name}", self.block.visible(operands[0]))
        self._insert(self.at, type, operands, made, norm, **attributes)
        self.at += 1
        return made

    def _declare(self, name: str, like: Variable) -> str:
        """A new variable of the type of another; gives its name."""
        number = 1
        whole = name
        while self.block.find(whole) is not None:
            number += 1
            whole = f"{name}{number}"
        return self.block.declare(whole, like.type, location=like.location).name

    def _insert(
        self, at: int, type: str, operands: Sequence[str], made: str, origin: Operator, **attributes: Any
    ) -> None:
        inputs = {slot: [name] for slot, name in zip(("X", "Y"), operands, strict=False)}
        fields = completed(REGISTRY.get(type).entry, attributes)
        self.block.insert(at, type, inputs, {"Out": [made]}, fields, origin.location)


def _passed_on(operator: Operator) -> set[str]:
    """What a normalization in use writes as it has read it: the stored means and variances."""
    if operator.type != "batch_norm" or not _value(operator, "is_test"):
        return set()
    pairs = (("Mean", "MeanOut"), ("Variance", "VarianceOut"))
    return {n for a, b in pairs for n in operator.outputs.get(b, ()) if n in operator.inputs[a]}


def _used(program: Program) -> set[str]:
    """The names that operators read and write."""
    return {name for operator in program.walk() for name in (*operator.reads, *operator.writes)}


def _drop(block: BlockView, before: set[str]) -> None:
    """Removes variables that operators used before, and none uses now."""
    for name in before - _used(block.program):
        if name in block.variables:
            block.remove_variable(name)


def _value(operator: Operator, name: str) -> Any:
    """An attribute of an operator, or its default."""
    return values_of(REGISTRY.get(operator.type).entry, operator.dictionary)[name]
