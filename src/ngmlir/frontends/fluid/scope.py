# SPDX-License-Identifier: Apache-2.0
"""Run-time values: scopes of variables, and the tensors that these hold."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...op_graph.source import user_location
from ...ops.offsets import OFFSETS_HINT, wrong_offsets
from ...programs import names
from ...support.diagnostics import Diagnostic, UserError
from ...support.spelling import did_you_mean

Array = np.ndarray[Any, Any]


class _Moves:
    """Counts what makes a program look for its state again: tensors in other memory, scopes with other variables."""

    count = 0


class LoDTensor:
    """A tensor at run time: rows, and for each ragged level the offsets of its sequences (`lod`).

    `np.array(tensor)` gives a copy. The memory stays where it is while shape and elements stay, so that a program that was
    compiled for it goes on.
    """

    def __init__(self, array: Any = None):
        self._host: Array | None = None
        self._device: Any = None
        self._lod: list[list[int]] = []
        if array is not None:
            self.set(array)

    # ---- contents

    def set(self, array: Any, place: Any = None) -> None:
        """Copies an array into the tensor; offsets are unchanged."""
        given: Array = np.asarray(array)
        if self._host is not None and self._host.shape == given.shape and self._host.dtype == given.dtype:
            self._host[...] = given
            return
        self.hold(np.array(given, order="C"))

    def hold(self, array: Array) -> None:
        """Has an array itself as contents."""
        # No program runs on what was not there: results become tensors after each run.
        _Moves.count += self.is_initialized
        self._host, self._device = array, None

    def become(self, other: LoDTensor) -> None:
        """Has what another tensor has, in the same memory; offsets stay."""
        self._host, self._device = other._host, other._device
        _Moves.count += 1

    @property
    def is_initialized(self) -> bool:
        """Whether it has a value."""
        return self._host is not None or self._device is not None

    @property
    def host(self) -> Array:
        """The array itself; programs for CPUs write to it in place."""
        if self._host is None:
            self.hold(self.get())
        assert self._host is not None
        return self._host

    def on(self, device: Any) -> Any:
        """The contents on a GPU, where they stay."""
        if self._device is None:
            from ...ir.literals import type_of_dtype
            from ...runtime.gpu_device import to_device
            from ...support.diagnostics import UNKNOWN

            host = self.host
            self._device = to_device(device, host, type_of_dtype(host.dtype).text, "tensor", UNKNOWN)
            self._host = None
        return self._device

    def get(self) -> Array:
        """A copy of the contents; UserError where there are none."""
        if self._device is not None:
            return self._device.numpy()
        if self._host is None:
            raise UserError(
                "this tensor has no value",
                hint="tensor.set(array, place), or run the program that computes it",
            )
        return self._host.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.get()
        return array if dtype is None else array.astype(dtype)

    def shape(self) -> list[int]:
        """Its lengths."""
        return list(self._form[0])

    def is_of(self, shape: tuple[int, ...], dtype: Any) -> bool:
        """Whether it has this shape and element type."""
        return self._form == (shape, dtype)

    def _dtype(self) -> Any:
        from ...programs.vartypes import vartype

        return vartype(self._form[1])

    @property
    def _form(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Lengths and element type; of contents on a GPU without a copy of them."""
        if self._device is not None:
            from ...runtime.buffers import DTYPES

            return tuple(self._device.shape), DTYPES[self._device.dtype]
        seen = self._host if self._host is not None else self.get()
        return seen.shape, seen.dtype

    # ---- elements

    def _set_dims(self, dims: Sequence[int]) -> None:
        element = np.float32 if self._host is None else self._host.dtype
        self.hold(np.zeros(tuple(dims), element))

    def _alloc_float(self, place: Any = None) -> None:
        self.hold(np.zeros(self.host.shape, np.float32))

    def _alloc_int(self, place: Any = None) -> None:
        self.hold(np.zeros(self.host.shape, np.int32))

    def _get_float_element(self, index: int) -> float:
        return float(self.get().reshape(-1)[index])

    def _set_float_element(self, index: int, value: float) -> None:
        self.host.reshape(-1)[index] = value

    _get_double_element, _set_double_element = _get_float_element, _set_float_element

    # ---- raggedness

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Gives it offsets, one list for each level, outermost first. UserError where they begin not with 0, or fall."""
        made = [[int(n) for n in level] for level in lod]
        for number, level in enumerate(made):
            if wrong := wrong_offsets(np.array(level)):
                message = f"the offsets of level {number} {wrong}"
                raise UserError(Diagnostic(message, user_location(), hint=OFFSETS_HINT))
        self._lod = made

    def lod(self) -> list[list[int]]:
        """The offsets, outermost level first."""
        return [list(level) for level in self._lod]

    def set_recursive_sequence_lengths(self, lengths: Sequence[Sequence[int]]) -> None:
        """As `set_lod`, by the lengths of sequences; a level may have none."""
        self.set_lod([[0, *np.cumsum(level, dtype=np.int64).tolist()] for level in lengths])

    def hold_offsets(self, levels: Sequence[Array]) -> None:
        """Has these offsets, which are right, one vector a level."""
        self._lod = [level.tolist() for level in levels]

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """The lengths of the sequences of each level."""
        return [np.diff(level).tolist() for level in self._lod]

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the offsets of each level fit those of the next, and the last the number of rows."""
        counts = [*[len(level) - 1 for level in self._lod[1:]], self.shape()[0] if self._lod else 0]
        return all(level[-1] == count for level, count in zip(self._lod, counts, strict=True))

    def __repr__(self) -> str:
        lod = f", lod={self._lod}" if self._lod else ""
        return f"LoDTensor({self.get()!r}{lod})" if self.is_initialized else "LoDTensor()"


Tensor = LoDTensor


class RuntimeVariable:
    """What a scope has under a name: a tensor, or another value."""

    def __init__(self) -> None:
        self.value: Any = None

    def get_tensor(self) -> LoDTensor:
        """The tensor; made now if there is none."""
        if self.value is None:
            self.value = LoDTensor()
            _Moves.count += 1
        if not isinstance(self.value, LoDTensor):
            raise UserError(f"this variable holds {type(self.value).__name__}, and no tensor")
        return self.value

    def is_int(self) -> bool:
        return isinstance(self.value, int)

    def is_float(self) -> bool:
        return isinstance(self.value, float)

    def set_int(self, value: int) -> None:
        self.value = int(value)

    def set_float(self, value: float) -> None:
        self.value = float(value)

    def get_int(self) -> int:
        return int(self.value)

    def get_float(self) -> float:
        return float(self.value)


class Scope:
    """Names of variables with their values. A name is looked up here, then in the scope around it."""

    def __init__(self, parent: Scope | None = None):
        self.parent = parent
        self.variables: dict[str, RuntimeVariable] = {}
        self.kids: list[Scope] = []

    def var(self, name: str | bytes) -> RuntimeVariable:
        """The variable of that name in this scope; made now if there is none."""
        name = names.text(name)
        found = self.variables.get(name)
        if found is None:
            found = self.variables[name] = RuntimeVariable()
            _Moves.count += 1
        return found

    def find_var(self, name: str | bytes) -> RuntimeVariable | None:
        """The variable of that name here or in a scope around this one; None where there is none."""
        name = names.text(name)
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return None

    def tensor(self, name: str) -> LoDTensor:
        """The tensor of a variable that has a value. UserError where there is none."""
        found = self.find_var(name)
        if found is None or not isinstance(found.value, LoDTensor) or not found.value.is_initialized:
            near = did_you_mean(name, self.variables)
            raise UserError(
                f"the scope has no value for '{name}'", hint=near or "run the start-up program first"
            )
        return found.value

    def new_scope(self) -> Scope:
        """A scope whose names are looked up here where it does not have them."""
        made = Scope(self)
        self.kids.append(made)
        return made

    def drop_kids(self) -> None:
        """Drops the scopes below this one."""
        self.kids.clear()
        _Moves.count += 1

    def local_var_names(self) -> list[str]:
        """The names that it has itself."""
        return list(self.variables)

    def erase(self, given: Sequence[str]) -> None:
        """Removes variables."""
        for name in given:
            self.variables.pop(name, None)
        _Moves.count += 1


def moves() -> int:
    """A number that changes whenever the memory of a tensor or the variables of a scope change."""
    return _Moves.count


_global = Scope()


def global_scope() -> Scope:
    """The scope that programs run in, where no other is given."""
    return _global


@contextmanager
def scope_guard(scope: Scope) -> Generator[None]:
    """Makes another scope the global one inside."""
    global _global
    outer, _global = _global, scope
    try:
        yield
    finally:
        _global = outer
