# SPDX-License-Identifier: Apache-2.0
"""Functions whose arguments have open lengths: one program for all, where rows are computed apart, else one for each."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..ir.core import Module, module
from ..op_graph.source import user_location
from ..support.diagnostics import Diagnostic
from ..support.rows import Length

if TYPE_CHECKING:
    from ..runtime.executable import Prepare
    from ..runtime.rows import CpuRows, GpuRows
    from .host_steps import Bind, Run, Storage
V = TypeVar("V")


class Kept(Generic[V]):
    """The values used last, by key. Threads that ask for one that is there never wait for one that is being made."""

    def __init__(self, most: int):
        self.most = most
        self.values: OrderedDict[Any, V] = OrderedDict()
        self.made = 0
        #: Held while the table is looked at, and while a value is made.
        self._table, self._making = Lock(), RLock()

    def find(self, key: Any) -> V | None:
        with self._table:
            found = self.values.get(key)
            if found is not None:
                self.values.move_to_end(key)
            return found

    def add(self, key: Any, value: V) -> V:
        with self._table:
            self.values[key] = value
            if len(self.values) > self.most:
                self.values.popitem(last=False)
            return value

    def get(self, key: Any, make: Callable[[], V]) -> V:
        """The value of a key, made by the first thread that asks for it."""
        found = self.find(key)
        if found is None:
            with self._making:
                found = self.find(key)
                if found is None:
                    found = self.add(key, make())
        return found


class Families:
    """Programs for any number of rows, each for all lengths that the same blocks serve."""

    def __init__(self, target: str, most: int):
        self.target = target
        self.kept: Kept[CpuRows | GpuRows] = Kept(most)
        #: By the name of a length: why each needs a program of its own.
        self.why: dict[str, Diagnostic] = {}

    def find(self, made: Module, lengths: Iterable[Length]) -> CpuRows | GpuRows | None:
        """What runs a module of one function, of which these lengths are each one of many, for any number of rows along the
        first of them that allows it; None where none does (`why` says the reason)."""
        if self.target == "numpy" or len(made.ops) != 1:
            return None
        # The compiler is loaded with the first program.
        from ..compiler import compile_blocks, resolve
        from ..ir.structure import fingerprint
        from ..passes.sizes import decision

        for length in lengths:
            found = decision(made.ops[0], length, resolve(self.target))
            found.tell()
            if found.blocks is None:
                self.why[length.name] = found.why
                continue
            key = found.blocks.signature, fingerprint(module(found.blocks.functions))
            known = self.kept.find(key)
            if known is None:
                self.kept.made += 1
                known = self.kept.add(key, compile_blocks(found.blocks, self.target))
            return known
        return None

    def reasons(self) -> str:
        """Why programs are made for each length, as part of a warning."""
        return "".join(f"; along {name} {why.message} ({why.location})" for name, why in self.why.items())


def bound_to(found: CpuRows | GpuRows) -> Bind:
    """What binds a program for any number of rows to state, which it does not change."""
    from ..runtime.rows import CpuRows

    def bind(
        entry: str,
        state: Mapping[int, Storage],
        tied: Sequence[tuple[int, int]],
        prepare: Prepare,
    ) -> Run:
        if isinstance(found, CpuRows):
            return found.bind({i: s.host for i, s in state.items()}, prepare)
        return found.bind({i: s.on(found.device) for i, s in state.items()}, prepare)

    return bind


def warn_of_many(what: str, kept: int, reasons: str) -> None:
    """Once, where programs are made and thrown away again."""
    place = user_location()
    warnings.warn_explicit(
        f"{what}, and only {kept} programs are kept; "
        f"pad batches to a few lengths, so that programs are reused{reasons}",
        UserWarning,
        place.file or "<unknown>",
        place.line,
    )
