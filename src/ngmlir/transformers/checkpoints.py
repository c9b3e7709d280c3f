# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what is kept from call to call as `{name: array}`, and back, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..op_graph.errors import AxisLengthError, UserError, fail
from ..op_graph.node import Op, closure
from ..op_graph.source import assigned_name
from ..op_graph.state import AssignableTensorOp
from ..op_graph.values import numbers
from ..op_graph.writes import AssignOp, InitTensorOp
from ..ops.lengths import reading
from ..support.spelling import did_you_mean
from .storage import DeviceBufferStorage

State = dict[str, np.ndarray[Any, Any]]


def kept(roots: Iterable[Op]) -> list[AssignableTensorOp]:
    """The storages below some ops that keep something from call to call, in order of creation."""
    ops = closure(roots)
    written = {op.written for op in ops if isinstance(op, AssignOp)}
    found = [
        op
        for op in ops
        if isinstance(op, AssignableTensorOp)
        and (op.is_persistent or op.initial_value is not None or op in written)
    ]
    return sorted(found, key=lambda op: op.serial)


def initializers(ops: Iterable[Op]) -> list[InitTensorOp]:
    """The initializers of the storage among some ops, and of what these read, in the order in which they run."""
    found: dict[InitTensorOp, None] = {}
    waiting = [op.forwarded for op in ops]
    while waiting:
        op = waiting.pop()
        if isinstance(op, AssignableTensorOp):
            for init in op.initializers:
                if isinstance(init, InitTensorOp) and init not in found:
                    found[init] = None
                    waiting += closure([init])
    return sorted(found, key=lambda op: op.serial)


def named(storages: Iterable[AssignableTensorOp]) -> dict[str, AssignableTensorOp]:
    """The storages by name: that which was given, or else the one that the program assigned them to, or their role.

    Names that nobody gave are numbered where there are several. UserError where a name was given twice.
    """
    made: dict[str, AssignableTensorOp] = {}
    storages = list(storages)
    for op in storages:
        if not op.given_name:
            continue
        if op.given_name in made:
            first = made[op.given_name]
            fail(
                UserError,
                f"two storages have the name {op.given_name}: those made at {first.location} and at {op.location}",
                'give each its own, or build them in scopes: with ng.name_scope("encoder"):',
            )
        made[op.given_name] = op
    taken: Counter[str] = Counter()
    for op in storages:
        if op.given_name:
            continue
        name = op.automatic_name or assigned_name(op.location) or op.role.value
        name = f"{op.scope}/{name}" if op.scope else name
        while (numbered := f"{name}_{taken[name]}" if taken[name] else name) in made:
            taken[name] += 1
        taken[name] += 1
        made[numbered] = op
    return made


def saved(
    storages: Mapping[str, AssignableTensorOp],
    storage_of: Callable[[AssignableTensorOp], DeviceBufferStorage],
) -> State:
    """Copies of what the storages hold; one that holds nothing yet is left out."""
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
    """Writes arrays to the storages of their names; all of them, or none where one does not fit."""
    if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"a state is a dictionary from names to arrays, not {state!r}")
    there = ", ".join(storages) or "none"
    unknown = [name for name in state if name not in storages]
    missing = [name for name, op in storages.items() if name not in state and op.initial_value is not None]
    if strict and unknown:
        hint = did_you_mean(str(unknown[0]), storages, "strict=False leaves out what is not there")
        fail(UserError, f"nothing is called {unknown[0]!r} here; the names are {there}", hint)
    if strict and missing:
        fail(
            UserError,
            f"the state has nothing for {', '.join(missing)}",
            "strict=False leaves what it lacks as it is",
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
    """The storage, with memory of the array's shape; an error where it has other axes, lengths or elements."""
    if array.dtype != op.dtype:
        fail(
            UserError,
            f"{name} holds {op.element}, the state {array.dtype}",
            f"nothing is rounded on the way: state[{name!r}].astype({str(op.dtype)!r}) if that is meant",
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
