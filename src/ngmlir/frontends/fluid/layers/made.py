# SPDX-License-Identifier: Apache-2.0
"""Layers that are one operator: made of its entry, signature and documentation too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ....decl.operator_pages import kind_of
from ....decl.operator_text import OperatorEntry, Slot
from ....programs.catalogue import REGISTRY
from ....programs.definition import python_name
from ....support.diagnostics import UserError
from ..framework import Variable
from ..layer_helper import LayerHelper
from ..lists import listed

#: The operators that are layers as they stand.
NAMES = (
    "mean", "mul", "scale", "sigmoid_cross_entropy_with_logits", "elementwise_add", "elementwise_sub", "elementwise_mul",
    "elementwise_div", "elementwise_max", "elementwise_min", "elementwise_pow", "clip", "clip_by_norm", "logical_and", "logical_or",
    "logical_xor", "logical_not", "uniform_random_batch_size_like", "gaussian_random", "gaussian_random_batch_size_like", "scatter",
    "sum", "slice", "shape", "maxout", "uniform_random", "hard_shrink", "cumsum", "thresholded_relu",
    "sigmoid", "logsigmoid", "exp", "tanh", "tanh_shrink", "softshrink", "sqrt", "rsqrt", "abs", "ceil", "floor", "cos", "sin", "round",
    "reciprocal", "square", "softplus", "softsign", "brelu", "leaky_relu", "soft_relu", "elu", "gelu", "relu6", "pow", "stanh", "hard_sigmoid",
    "swish", "relu", "log", "sign", "isfinite",
)  # fmt: skip


def layer_of(type: str) -> Callable[..., Any]:
    """The layer of an operator: its input slots in lower case, then its attributes, `name`, `act` where it may end in one, and `out`, a
    variable that its one result is written to."""
    entry = REGISTRY.get(type).entry
    slots = {slot.name.lower(): slot for slot in entry.inputs}
    fields = {a.name: python_name(a.name) for a in entry.attributes if a.type != "block"}
    keywords = [name for name, parameter in fields.items() if name != parameter]

    def layer(*args: Any, **kwargs: Any) -> Any:
        for name in keywords:  # `lambda` can only be given as **{"lambda": 0.5}
            if name in kwargs:
                kwargs[fields[name]] = kwargs.pop(name)
        given = dict(zip(parameters, args, strict=False), **kwargs) if len(args) <= len(parameters) else {}
        if len(given) != len(args) + len(kwargs) or not required <= given.keys() <= known:
            given = signature.bind(*args, **kwargs).arguments  # tells what is wrong
        helper = LayerHelper(type, name=given.get("name"), act=given.get("act"))
        inputs = {slot.name: given[name] for name, slot in slots.items() if given.get(name) is not None}
        attributes = {name: given[parameter] for name, parameter in fields.items() if parameter in given}
        variables = [v for value in inputs.values() for v in listed(value)]
        wrong = next((v for v in variables if not isinstance(v, Variable)), None)
        if wrong is not None:
            raise UserError(
                f"layer {type} takes variables, not {wrong!r}",
                hint="layers.assign(array) makes one of an array",
            )
        dtype = variables[0].dtype if variables else attributes.get("dtype", "float32")
        out = _written(type, given.get("out"))
        outputs = {
            slot.name: [out if out is not None and slot is result else helper.create_tmp_variable(dtype)]
            for slot in entry.outputs
        }
        helper.append_op(type=type, inputs=inputs, outputs=outputs, attrs=attributes)
        shown = [
            helper.append_activation(made)
            for slot in entry.outputs
            for made in outputs[slot.name]
            if not slot.intermediate
        ]
        return shown[0] if len(shown) == 1 else tuple(shown)

    result = _result(entry)
    signature = _signature(entry, list(slots))
    parameters = tuple(signature.parameters)
    known = signature.parameters.keys()
    required = {p.name for p in signature.parameters.values() if p.default is p.empty}
    layer.__name__ = layer.__qualname__ = type
    layer.__doc__ = documentation(entry)
    layer.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return layer


def _result(entry: OperatorEntry) -> Slot | None:
    """The result that a variable may be given for: the only one."""
    shown = [slot for slot in entry.outputs if not slot.intermediate]
    names = {slot.name.lower() for slot in entry.inputs} | {python_name(a.name) for a in entry.attributes}
    return shown[0] if len(shown) == 1 and "out" not in names else None


def _written(type: str, out: Any) -> Variable | None:
    """The variable that a result is written to, if one is given, alone or in a list."""
    given = None if out is None else listed(out)
    if given is None:
        return None
    if len(given) != 1 or not isinstance(given[0], Variable):
        raise UserError(
            f"layer {type} writes its result to a variable, not {out!r}",
            hint="out= takes a variable; without it the result is a new one",
        )
    return given[0]


def _signature(entry: OperatorEntry, slots: Sequence[str]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    required = [
        inspect.Parameter(name, kind)
        for name, slot in zip(slots, entry.inputs, strict=True)
        if not slot.optional
    ]
    optional = [
        inspect.Parameter(name, kind, default=None)
        for name, slot in zip(slots, entry.inputs, strict=True)
        if slot.optional
    ]
    fields = [
        inspect.Parameter(python_name(a.name), kind, default=a.default)
        for a in entry.attributes
        if not a.required and a.type != "block"
    ]
    needed = [
        inspect.Parameter(python_name(a.name), kind)
        for a in entry.attributes
        if a.required and a.type != "block"
    ]
    others = ("name", "act") if _result(entry) is None else ("name", "act", "out")
    rest = [inspect.Parameter(name, kind, default=None) for name in others]
    return inspect.Signature([*required, *needed, *optional, *fields, *rest])


def documentation(entry: OperatorEntry) -> str:
    """The docstring of a layer: what the operator is, what it takes and gives, and what is asked of attributes."""
    lines = [entry.doc, "", *_titled("Parameters")]
    for slot in entry.inputs:
        kind = "list of Variable" if slot.many else "Variable"
        lines += [f"{slot.name.lower()} : {kind}{', optional' if slot.optional else ''}", f"    {slot.doc}"]
    for field in entry.attributes:
        if field.type != "block":
            lines += [f"{python_name(field.name)} : {kind_of(field)}", f"    {field.doc}"]
    lines += ["act : str, optional", "    The type of an operator that the result is given to."]
    lines += ["name : str, optional", "    What names of results begin with."]
    if _result(entry) is not None:
        lines += ["out : Variable, optional", "    What the result is written to; without it a new variable."]
    lines += ["", *_titled("Returns")]
    for slot in entry.outputs:
        if not slot.intermediate:
            lines += [f"{slot.name} : Variable", f"    {slot.doc}"]
    raised = "    For what is no variable, for an attribute of another type or out of its range, and for shapes that do not fit."
    return "\n".join([*lines, "", *_titled("Raises"), "UserError", raised])


def _titled(title: str) -> list[str]:
    return [title, "-" * len(title)]


@cache
def layer(name: str) -> Callable[..., Any]:
    """The layer of one of NAMES."""
    return layer_of(name)


def is_of_user(type: str) -> bool:
    """Whether a user, or a package that is installed, registered an operator of this type."""
    definition = None if type.startswith("_") else REGISTRY.find(type)
    return definition is not None and not definition.is_builtin
