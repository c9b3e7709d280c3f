# SPDX-License-Identifier: Apache-2.0
"""Functions of tensors as methods: `x.exp()`, `x.softmax("C")`, `x.dot(w)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from inspect import unwrap
from typing import Any

from ..tensor import Tensor


class Methods(Mapping[str, Callable[[Tensor], Any]]):
    """Those functions of a family whose first argument is a tensor `x`."""

    def __init__(self, family: Any):
        self.family = family

    def __getitem__(self, name: str) -> Callable[[Tensor], Any]:
        found: Any = getattr(self.family, name, None) if name in self.family.__all__ else None
        code = getattr(unwrap(found), "__code__", None) if callable(found) else None
        if code is None or not code.co_argcount or code.co_varnames[0] != "x":
            raise KeyError(name)
        return partial(partial, found)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self.family.__all__ if name in self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
