# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of storage, at their place in the order."""

from __future__ import annotations

from typing import Any
from weakref import ref

from .errors import NotAssignable, UserError, fail
from .node import WATCHING, Op
from .ordered import OrderedSet
from .regions import within
from .tensor import Tensor, as_tensor


class ReadOp(Tensor):
    """The value of a tensor at this place in the order: a snapshot."""

    def __init__(self, tensor: Tensor):
        super().__init__([tensor], None, tensor.axes, tensor.element)


class AssignOp(Op):
    """Writes `args[1]` to the place that `args[0]` (a storage, or a view of one) describes."""

    def __init__(self, target: Tensor, value: Tensor):
        storage = _written(target)
        super().__init__([target, value])
        self._follow_args()
        _keep_what_was_read(storage)

    def _follow_args(self) -> None:
        target = self.args[0]
        self.replaced = target.user_deps
        self.pending = ref(WATCHING.pending[-1])
        target.user_deps = OrderedSet([self])
        if self.region is not None:
            self.region.writes.append(self)

    @property
    def target(self) -> Tensor:
        """What is written to, forwarding followed."""
        return as_tensor(self.args[0].forwarded)

    @property
    def written(self) -> Op:
        """The storage that is written to; an error where a replacement of it cannot be."""
        return _written(self.args[0])

    def _no_value(self, *_: Any) -> Any:
        fail(
            UserError,
            f"this is the assignment to {self.written.called}, which has no value",
            "after `w -= g` the name w refers to the assignment: use ng.assign(w, w - g), which leaves w as it is",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_value
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __neg__ = __abs__ = __getitem__ = __iter__ = _no_value
    __lt__ = __le__ = __gt__ = __ge__ = __iadd__ = __isub__ = __imul__ = __itruediv__ = _no_value

    def withdraw(self) -> None:
        """Takes this write out of the creation order; the writes before it are pending again."""
        if self.withdrawn:
            return
        self.withdrawn = True
        pending = self.pending()
        if pending is not None and self in (waiting := pending.writes(self.written)):
            pending.replace(self.written, [*(w for w in waiting if w is not self), *self.replaced])


def _written(target: Op) -> Op:
    storage = target.storage_now
    if storage is None:
        now = target.forwarded
        kind = "a constant" if isinstance(now, Tensor) and now.is_constant else "computed"
        fail(
            NotAssignable,
            f"{now.called} is {kind} and cannot be assigned to",
            "assign to a variable, a persistent tensor or a placeholder"
            if now is target
            else f"it replaces {target.called}",
        )
    return storage


# ---- replacing what is computed by storage ---------------------------------------------------------------------


def replace_by(op: Op, replacement: Op) -> None:
    """Makes `replacement` stand for `op`, which has the same value, and had it at its place in the order.

    Storage (or a view of it) keeps that value until something writes to it. So where a write is there already, a read
    at the place of the op stands for it; and where none is, one will when the first is made.
    """
    storage = replacement.storage_now
    if storage is not None and storage.has_writes:
        replacement = read_in_place_of(op, as_tensor(replacement.forwarded))
    elif storage is not None and replacement.forward is None:
        storage.stands_for.append(op)
    op.replace_self(replacement)


def read_in_place_of(op: Op, tensor: Tensor) -> Tensor:
    """The value that a storage, or a view of one, has at the place of an op."""
    with Op.saved_user_deps(), Op.all_ops(isolate=True):
        made = ReadOp(tensor)
    made.take_place_of(op)
    return made


def read_by(op: Op, tensor: Tensor) -> Tensor:
    """The read of a storage, or of a view of one, at the time of an op, for ops that are built later. Other tensors are returned unchanged.

    The read runs with the op: before what is written after it, whether the order of creation or a sequence says so.
    """
    if op.storage is not None or tensor.storage_now is None:
        return tensor
    found = op.reads.get(tensor)
    if found is None:
        found = read_in_place_of(op, tensor)
        found.place = op.place - 0.5  # before the op itself
        op.add_control_dep(found)
        op.reads = {**op.reads, tensor: found}
    return as_tensor(found)


def _keep_what_was_read(storage: Op) -> None:
    """Before the first write: ops that the storage stands for keep what they read."""
    storage.has_writes = True
    for op, args in reversed(storage.shown_to):
        op.args = args
    for op in storage.stands_for:
        if isinstance(op.forward, Op) and op.storage_now is storage:
            op.forward = read_in_place_of(op, as_tensor(op.forwarded))
    for op, _ in storage.shown_to:
        op.update_forwards()
    storage.stands_for, storage.shown_to = [], []


# ---- initial values --------------------------------------------------------------------------------------------


class InitTensorOp(AssignOp):
    """Gives a storage its initial value, once, before anything runs.

    It has no position in the order of creation and is not recorded. For a constant it does nothing: programs hold
    the value.
    """

    def __init__(self, tensor: Tensor, value: Tensor):
        with Op.saved_user_deps(), Op.all_ops(isolate=True), within(None):
            if tensor.is_constant:
                Op.__init__(self, [tensor])
                return
            super().__init__(tensor, value)
        storage = _written(tensor)
        storage.has_writes = False

    @property
    def value(self) -> Tensor:
        """The op that gives the initial value."""
        return as_tensor(self.args[-1].forwarded)
