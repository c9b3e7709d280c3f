# SPDX-License-Identifier: Apache-2.0
"""What is fed to a program and fetched from it: checked, and as operators of the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple, cast

import numpy as np

from ...ir.attributes import DictAttr, IntegerAttr
from ...ir.literals import type_of_dtype
from ...ir.types import DYNAMIC, TensorType, i32
from ...programs.descriptions import Program as ProgramView
from ...programs.fitting import check_fed
from ...programs.names import LEVEL, offsets_names
from ...programs.ragged import check_offsets
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean
from .framework import Program
from .scope import LoDTensor

Array = np.ndarray[Any, Any]
_OFFSETS = TensorType((DYNAMIC,), i32)


def fed(program: Program, feed: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays that are fed, by name, with the offsets of what is ragged under names of theirs.

    UserError for a name that the program does not declare, for what is no array, and for offsets that are not those of its rows.
    """
    if not isinstance(feed, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"feed is a dictionary of arrays by name, not a {type(feed).__name__}", hint='feed={"x": array}'
        )
    arrays = {name: _array(program, name, value) for name, value in feed.items()}
    variables = program.view.top.variables
    for name, value in feed.items():
        offsets = [np.array(level, np.int32) for level in value.lod()] if isinstance(value, LoDTensor) else []
        variable = variables.get(name)
        if variable is not None and (offsets or variable.ragged):
            check_offsets(variable, offsets, arrays[name].shape[0] if arrays[name].ndim else 0)
            arrays.update(zip(offsets_names(name, len(offsets)), offsets, strict=True))
    return arrays


def _array(program: Program, name: str, value: Any) -> Array:
    if type(value) is np.ndarray:
        return cast("Array", value)
    if isinstance(value, LoDTensor):
        return value.host
    variable = program.view.top.find(name)
    if isinstance(value, (Number, np.generic)):
        dtype = program.global_block().var(name).np_dtype if variable is not None else None
        return np.full((1,) if variable is None or variable.type.shape else (), value, dtype)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise UserError(
        f"'{name}' is fed a {type(value).__name__}, which says neither shape nor element type",
        hint="np.array(values, dtype='float32'), or fluid.create_lod_tensor(values, lengths, place) for sequences",
    )


def fits(program: Program, name: str, array: Array) -> None:
    """UserError where an array is not of the variable that it is fed to."""
    if LEVEL in name:
        return  # offsets were checked with the rows
    variable = program.view.top.find(name)
    if variable is None:
        hint = did_you_mean(name, program.view.top.variables, "layers.data(name, shape) declares what is fed")
        raise UserError(f"the program has no variable '{name}' to feed", hint=hint)
    check_fed(variable, array)


class Shaped(NamedTuple):
    """An array that is not there yet."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def with_io(
    program: ProgramView, arrays: Mapping[str, Array | Shaped | None], fetches: Sequence[str]
) -> ProgramView:
    """A copy of a program with `feed` operators for the arrays, in their shapes, and `fetch` operators for `fetches`. Fetches of the
    program itself come after these. Offsets of ragged variables are separate variables."""
    made = program.copy()
    top = made.top
    for name in (*arrays, *fetches):
        if LEVEL in name and name not in top.variables:
            top.declare(name, _OFFSETS)
    for name in fetches:
        top.visible(name)
    for holds, side in (("feed_list", "feed"), ("fetch_list", "fetch")):
        if side not in top.variables:
            top.declare(side, holds=holds, flags=["persistable"])
    own = {o.writes[0] for o in top.operators if o.type == "feed"}
    for at, operator in enumerate((o for o in top.operators if o.type == "fetch"), len(fetches)):
        operator.set_attribute("col", IntegerAttr(at, i32))
    for name, array in arrays.items():
        if array is not None:
            top.visible(name).type = TensorType(array.shape, type_of_dtype(array.dtype))
    for at, name in enumerate(name for name in arrays if name not in own):
        top.insert(at, "feed", {"X": ["feed"]}, {"Out": [name]}, column(at))
    for at, name in enumerate(fetches):
        top.insert(len(top.operators), "fetch", {"X": [name]}, {"Out": ["fetch"]}, column(at))
    return made


def offsets_of(program: ProgramView, names: Iterable[str]) -> list[str]:
    """What the offsets of variables are called, of all levels of all that are ragged."""
    found = {name: program.top.find(name) for name in names}
    return [o for name, v in found.items() if v is not None for o in offsets_names(name, v.ragged)]


def column(number: int) -> DictAttr:
    """The attributes of a `feed` or `fetch` at that place."""
    return DictAttr((("col", IntegerAttr(number, i32)),))
