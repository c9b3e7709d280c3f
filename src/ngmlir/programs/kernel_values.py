# SPDX-License-Identifier: Apache-2.0
"""Operators as their kernels compute them: the values of the output slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..decl.operator_text import OperatorEntry, Slot
from ..ir.attributes import DictAttr
from ..ir.types import TensorType
from ..op_graph.host_ops import HostDefinition
from ..op_graph.lift import lift
from ..op_graph.node import Op
from ..op_graph.positions import Positions
from ..op_graph.state import AssignableTensorOp, Role
from ..op_graph.tensor import Tensor
from ..op_graph.user_ops import Definition as OpDefinition
from ..op_graph.values import as_op, element_of
from ..ops.interpreter import run
from ..support.diagnostics import UserError
from .catalogue import REGISTRY
from .definition import Context, Values
from .infer import outputs
from .kernels import ANY, Kernel
from .sparse_rows import whole_type

#: The layout of what has four dimensions, where an operator does not say another.
NATIVE = "NCHW"

Given = Mapping[str, Sequence[Any]]


def native_layout(attributes: Mapping[str, Any]) -> str:
    """The layout of an operator's tensors: what its attribute says that is about it."""
    return next((str(attributes[n]) for n in ("data_layout", "data_format") if n in attributes), NATIVE)


def permuted(type: TensorType, source: str, target: str) -> TensorType:
    """The type of a tensor in another layout."""
    return TensorType(tuple([type.shape[source.index(letter)] for letter in target]), type.element)


def kernel_values(
    kernel: Kernel, context: Context, inputs: Values, attributes: Mapping[str, Any], dictionary: DictAttr
) -> dict[str, list[Any]]:
    """What a kernel gives in each output slot, for inputs as it takes them.

    UserError where that is not of the shapes and elements that the operator's own function gives.
    """
    entry = REGISTRY.get(kernel.type).entry
    wanted = _wanted(kernel, inputs, attributes, dictionary)
    given = [_argument(slot, inputs.get(slot.name, ())) for slot in entry.inputs]
    named = kernel.arguments(entry, {**attributes, "context": context})
    if kernel.is_numpy:
        made = _of_arrays(kernel, lambda *arrays: kernel.function(*arrays, **named), given, entry, wanted)
    elif attributes.get("place") and not kernel.is_numpy:
        made = _of_arrays(kernel, lambda *arrays: _interpreted(kernel, arrays, named), given, entry, wanted)
    else:
        if isinstance(kernel.function, OpDefinition):
            given = [each for each in given if each is not None]
        made = kernel.function(*given, **named)
    found = _by_slot(kernel, entry, made)
    for slot in entry.outputs:
        for value, type in zip(found[slot.name], wanted.get(slot.name, ()), strict=False):
            if isinstance(value, Tensor) and type is not None and not _same(value.type, type):
                message = (
                    f"the kernel {kernel.label} of operator {kernel.type} gives {value.type} as {slot.name}"
                )
                raise UserError(
                    message, hint=f"the operator gives {type}; the kernel is at {kernel.location}"
                )
    return found


def _same(made: TensorType, wanted: TensorType) -> bool:
    return made.shape == wanted.shape and made.element is wanted.element


def _wanted(
    kernel: Kernel, inputs: Values, attributes: Mapping[str, Any], dictionary: DictAttr
) -> dict[str, list[TensorType | None]]:
    """The types that the operator's own function gives, in the kernel's layout."""
    own = native_layout(attributes)
    layout = own if kernel.layout == ANY else kernel.layout

    def turned(slot: str, type: TensorType | None, source: str, target: str) -> TensorType | None:
        moves = (
            type is not None and slot in kernel.slots and len(type.shape) == len(layout) and source != target
        )
        return permuted(type, source, target) if moves and type is not None else type

    types = tuple(
        [
            (
                slot,
                tuple(
                    [
                        turned(slot, TensorType(v.type.shape, v.element), layout, own)
                        if isinstance(v, Tensor)
                        else None
                        for v in values
                    ]
                ),
            )
            for slot, values in inputs.items()
        ]
    )
    found = outputs(kernel.type, types, dictionary).types
    return {slot: [turned(slot, whole_type(t), own, layout) for t in each] for slot, each in found.items()}


def _by_slot(kernel: Kernel, entry: OperatorEntry, made: Any) -> dict[str, list[Any]]:
    results: Sequence[Any] = cast("Sequence[Any]", made) if isinstance(made, tuple) else [made]
    if len(results) != len(entry.outputs):
        message = f"the kernel {kernel.label} of operator {kernel.type} gives {len(results)} results"
        raise UserError(
            message, hint=f"the operator gives {', '.join(s.name for s in entry.outputs)}, in this order"
        )
    return {
        slot.name: [each if each is None else as_op(each) for each in (result if slot.many else [result])]
        for slot, result in zip(entry.outputs, results, strict=True)
    }


def _argument(slot: Slot, values: Sequence[Any]) -> Any:
    return list(values) if slot.many else values[0] if values else None


# ---- on the host


def _of_arrays(
    kernel: Kernel,
    function: Callable[..., Any],
    given: Sequence[Any],
    entry: OperatorEntry,
    wanted: Mapping[str, Sequence[TensorType | None]],
) -> Any:
    """What a function of arrays gives: an op of the host."""
    types = [t for slot in entry.outputs for t in wanted[slot.name] if t is not None]
    axes, elements = [Positions.of(t.shape) for t in types], [t.element for t in types]

    def called(*arrays: Any) -> Any:
        made = function(*arrays)
        several: Any = made if isinstance(made, tuple) else (made,)
        flat = [each for part in several for each in (part if isinstance(part, list) else [part])]
        return tuple(flat) if len(types) > 1 else flat[0]

    called.__name__ = getattr(kernel.function, "__name__", kernel.type)
    if len(types) == 1:
        made: Any = HostDefinition(called, axes[0], elements[0])(*given)
        flat = [made]
    else:
        flat = list(HostDefinition(called, axes, elements, len(types))(*given))
    rest = iter(flat)
    made = [
        [next(rest) for _ in wanted[s.name]] if s.many else None if wanted[s.name][0] is None else next(rest)
        for s in entry.outputs
    ]
    return tuple(made)


def _interpreted(kernel: Kernel, arrays: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a composition of ops gives of arrays, op by op in NumPy."""
    with Op.saved_user_deps(), Op.all_ops(isolate=True):
        inputs: list[AssignableTensorOp] = []

        def stands_for(array: Any) -> Any:
            if isinstance(array, list):
                return [stands_for(each) for each in cast("list[Any]", array)]
            if array is None:
                return None
            made = AssignableTensorOp(Positions.of(array.shape), element_of(array.dtype), Role.PLACEHOLDER)
            inputs.append(made)
            return made

        given = [stands_for(array) for array in arrays]
        if isinstance(kernel.function, OpDefinition):
            given = [each for each in given if each is not None]
        made = kernel.function(*given, **named)
        several: Sequence[Any] = cast("Sequence[Any]", made) if isinstance(made, tuple) else [made]
        results = [r for each in several for r in (each if isinstance(each, list) else [each])]
        module = lift([as_op(r) for r in results if r is not None], inputs).module
    flat = [a for array in arrays for a in (array if isinstance(array, list) else [array]) if a is not None]
    return run(module, *flat)
