# SPDX-License-Identifier: Apache-2.0
"""What an op says of itself when it is asked: what it is, and which state it reads and writes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID, uuid4

from .ordered import OrderedSet

if TYPE_CHECKING:
    from ..ir import core


class Facts:
    """Properties that follow from the class and arguments of an op."""

    operation: ClassVar[type[core.Op] | None]
    is_view: bool
    is_tensor_op: bool
    args: tuple[Any, ...]
    storage: Any

    @cached_property
    def uuid(self) -> UUID:
        """An identifier of the op that is unique among all programs."""
        return uuid4()

    @property
    def is_commutative(self) -> bool:
        """Whether it gives the same for its operands in the other order."""
        definition = None if self.operation is None else self.operation.definition
        return definition is not None and "commutative" in definition.traits

    @property
    def is_state_op(self) -> bool:
        """Whether it is storage."""
        return self.storage is self

    @property
    def is_device_op(self) -> bool:
        """Whether a device computes it. Storage and views of storage are read in place."""
        return not self.is_state_op and not (self.is_view and self.storage is not None)

    @property
    def states_written(self) -> OrderedSet[Any]:
        """The storage that it writes."""
        written = getattr(self, "written", None)
        return OrderedSet() if written is None or self.is_tensor_op else OrderedSet([written])

    @property
    def states_read(self) -> OrderedSet[Any]:
        """The storage that its operands are, or are views of."""
        read = [arg.storage_now for arg in self.args]
        return OrderedSet([s for s in read if s is not None and s not in self.states_written])

    @property
    def has_side_effects(self) -> bool:
        """Whether it writes storage."""
        return bool(self.states_written)
