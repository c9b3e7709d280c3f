# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: state that is kept between calls as `{name: array}`, and back, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..op_graph.errors import AxisLengthError, UserError, fail
from ..op_graph.state import AssignableTensorOp
from ..op_graph.values import numbers
from ..ops.lengths import reading
from ..support.spelling import did_you_mean
from .storage import DeviceBufferStorage

State = dict[str, np.ndarray[Any, Any]]


def saved(
    storages: Mapping[str, AssignableTensorOp],
    storage_of: Callable[[AssignableTensorOp], DeviceBufferStorage],
) -> State:
    """Copies of the contents of the storages; storage without a value is omitted."""
    out: State = {}
    for name, op in storages.items():
        storage = storage_of(op)
        if storage.shape is None and None not in op.axes.lengths:
            storage.allocate()
        if storage.shape is not None and storage.initialized:
            out[name] = storage.get()
    return out


def load(
    state: Mapping[str, Any],
    storages: Mapping[str, AssignableTensorOp],
    storage_of: Callable[[AssignableTensorOp], DeviceBufferStorage],
    strict: bool,
) -> None:
    """Writes arrays to the storages of their names; either all of them, or none if one does not fit."""
    if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"a state must be a dictionary from names to arrays, not {state!r}")
    there = ", ".join(storages) or "none"
    unknown = [name for name in state if name not in storages]
    missing = [name for name, op in storages.items() if name not in state and op.initial_value is not None]
    if strict and unknown:
        hint = did_you_mean(str(unknown[0]), storages, "strict=False ignores unknown names")
        fail(UserError, f"there is no state called {unknown[0]!r}; the names are {there}", hint)
    if strict and missing:
        fail(
            UserError,
            f"the state has no value for {', '.join(missing)}",
            "strict=False keeps the current values of missing names",
        )
    ready: list[tuple[DeviceBufferStorage, np.ndarray[Any, Any]]] = []
    for name, op in storages.items():
        if name in state:
            array = numbers(state[name], f"the state of {name}")
            ready.append((_fitting(name, op, array, storage_of(op)), array))
    for storage, array in ready:
        storage.write(array)


def _fitting(
    name: str, op: AssignableTensorOp, array: np.ndarray[Any, Any], storage: DeviceBufferStorage
) -> DeviceBufferStorage:
    """The storage, allocated with the array's shape; an error if its axes, lengths or elements differ."""
    if array.dtype != op.dtype:
        fail(
            UserError,
            f"{name} holds {op.element}, the state {array.dtype}",
            f"values are not converted: use state[{name!r}].astype({str(op.dtype)!r}) to convert",
        )
    if storage.shape is None and array.ndim == len(op.axes):
        given = {id(a): n for a, n in zip(op.axes, array.shape, strict=True) if a.length is None}
        with reading(given):
            if op.axes.known_shape == array.shape:
                storage.allocate()
    shape = storage.shape if storage.shape is not None else op.axes.shape
    if shape != array.shape:
        axes = ", ".join(f"{a.name}: {'?' if n < 0 else n}" for a, n in zip(op.axes, shape, strict=True))
        fail(AxisLengthError, f"{name} has axes ({axes}), the state an array of shape {array.shape}")
    return storage
