# SPDX-License-Identifier: Apache-2.0
"""Layers that reduce, move and choose elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....support.diagnostics import UserError
from ..framework import Variable
from ..layer_helper import LayerHelper, one_op
from ..lists import listed

__all__ = [
    "argmax", "argmin", "argsort", "crop", "expand", "flatten", "gather", "multiplex", "one_hot", "pad", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_prod", "reduce_sum", "reshape", "reverse", "split", "squeeze", "topk", "transpose", "unsqueeze",
]  # fmt: skip


def _reduced(type: str, input: Variable, dim: Any, keep_dim: bool, name: str | None) -> Variable:
    fields = {"dim": [0] if dim is None else listed(dim), "keep_dim": keep_dim, "reduce_all": dim is None}
    return one_op(type, {"X": input}, {"Out": input.dtype}, fields, name)


def reduce_sum(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The sum over dimensions (a number or a list); over all, [1], without any."""
    return _reduced("reduce_sum", input, dim, keep_dim, name)


def reduce_mean(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """The mean over dimensions (a number or a list); over all, [1], without any."""
    return _reduced("reduce_mean", input, dim, keep_dim, name)


def reduce_max(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The greatest element over dimensions (a number or a list); over all, [1], without any."""
    return _reduced("reduce_max", input, dim, keep_dim, name)


def reduce_min(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The least element over dimensions (a number or a list); over all, [1], without any."""
    return _reduced("reduce_min", input, dim, keep_dim, name)


def reduce_prod(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """The product over dimensions (a number or a list); over all, [1], without any."""
    return _reduced("reduce_prod", input, dim, keep_dim, name)


def argmax(x: Variable, axis: int = 0) -> Variable:
    """The position, int64, of the greatest element along a dimension."""
    return one_op("arg_max", {"X": x}, {"Out": "int64"}, {"axis": axis})


def argmin(x: Variable, axis: int = 0) -> Variable:
    """The position, int64, of the least element along a dimension."""
    return one_op("arg_min", {"X": x}, {"Out": "int64"}, {"axis": axis})


def argsort(
    input: Variable, axis: int = -1, name: str | None = None, descending: bool = False
) -> tuple[Variable, Variable]:
    """The elements in rising or falling order along a dimension, and their positions, int64."""
    attrs = {"axis": axis, "descending": descending}
    return one_op("argsort", {"X": input}, {"Out": input.dtype, "Indices": "int64"}, attrs, name)


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """The k greatest elements along the last dimension, the greatest first, and their positions, int64. No gradient flows through."""
    values, places = one_op("top_k", {"X": input}, {"Out": input.dtype, "Indices": "int64"}, {"k": k}, name)
    values.stop_gradient = places.stop_gradient = True
    return values, places


def split(
    input: Variable, num_or_sections: int | Sequence[int], dim: int = -1, name: str | None = None
) -> list[Variable]:
    """So many equal parts along a dimension, or parts of these lengths."""
    helper = LayerHelper("split", name=name)
    if not -len(input.shape) <= dim < len(input.shape):
        raise UserError(
            f"there is no dimension {dim} of '{input.name}', whose shape is {list(input.shape)}",
            hint="dim= counts from 0, or from -1 for the last one",
        )
    axis = dim % len(input.shape)
    if isinstance(num_or_sections, int):
        fields: dict[str, Any] = {"num": num_or_sections, "axis": axis}
        count = num_or_sections
    else:
        fields, count = {"sections": list(num_or_sections), "axis": axis}, len(num_or_sections)
    if count < 1:
        raise UserError(f"a variable is split into one part or more, not {count}")
    made = [helper.create_tmp_variable(input.dtype) for _ in range(count)]
    helper.append_op(type="split", inputs={"X": [input]}, outputs={"Out": made}, attrs=fields)
    return made


def reshape(
    x: Variable,
    shape: Sequence[int],
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = True,
    name: str | None = None,
) -> Variable:
    """The elements in another shape: 0 stands for the length of x, one -1 for what is left."""
    return one_op(
        "reshape", {"X": x, "Shape": actual_shape}, {"Out": x.dtype}, {"shape": list(shape)}, name, act
    )


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """The dimensions in another order: where each one of the result is in x."""
    if sorted(perm) != list(range(len(x.shape))):
        raise UserError(f"{list(perm)} is no order of the dimensions of '{x.name}', {list(x.shape)}")
    return one_op("transpose", {"X": x}, {"Out": x.dtype}, {"axis": list(perm)}, name)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix whose rows are the first `axis` dimensions."""
    if not 0 <= axis <= len(x.shape):
        raise UserError(f"{axis} is no number of dimensions of '{x.name}', {list(x.shape)}")
    return one_op("flatten", {"X": x}, {"Out": x.dtype}, {"axis": axis}, name)


def squeeze(input: Variable, axes: Sequence[int] = (), name: str | None = None) -> Variable:
    """Without dimensions of length 1: those named, or all."""
    return one_op("squeeze", {"X": input}, {"Out": input.dtype}, {"axes": list(axes)}, name)


def unsqueeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """With new dimensions of length 1, at these places of the result."""
    return one_op("unsqueeze", {"X": input}, {"Out": input.dtype}, {"axes": list(axes)}, name)


def expand(x: Variable, expand_times: Sequence[int], name: str | None = None) -> Variable:
    """Repeated so often along each dimension."""
    return one_op("expand", {"X": x}, {"Out": x.dtype}, {"expand_times": list(expand_times)}, name)


def reverse(x: Variable, axis: Any) -> Variable:
    """Reverses the order along some dimensions."""
    return one_op("reverse", {"X": x}, {"Out": x.dtype}, {"axis": listed(axis)})


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """With elements around: so many before and after, dimension by dimension."""
    fields = {"paddings": list(paddings), "pad_value": float(pad_value)}
    return one_op("pad", {"X": x}, {"Out": x.dtype}, fields, name)


def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """A part of x: of a shape, or that of a variable, at offsets (numbers or a variable)."""
    fields: dict[str, Any] = {}
    if not isinstance(shape, Variable):
        fields["shape"] = list(shape)
    if offsets is None:
        fields["offsets"] = [0] * len(x.shape)
    elif not isinstance(offsets, Variable):
        fields["offsets"] = list(offsets)
    inputs = {
        "X": x,
        "Y": shape if isinstance(shape, Variable) else None,
        "Offsets": offsets if isinstance(offsets, Variable) else None,
    }
    return one_op("crop", inputs, {"Out": x.dtype}, fields, name)


def gather(input: Variable, index: Variable) -> Variable:
    """Rows by number."""
    return one_op("gather", {"X": input, "Index": index}, {"Out": input.dtype})


def multiplex(inputs: Sequence[Variable], index: Variable) -> Variable:
    """Row i of candidate index[i], int32 [rows, 1]."""
    if len(inputs) < 2:
        raise UserError("multiplex takes two candidates or more")
    return one_op("multiplex", {"X": list(inputs), "Ids": index}, {"Out": inputs[0].dtype})


def one_hot(input: Variable, depth: int) -> Variable:
    """Classes, int64 with a last dimension of 1, as rows with one 1."""
    return one_op("one_hot", {"X": input}, {"Out": "float32"}, {"depth": depth})
