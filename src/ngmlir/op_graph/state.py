# SPDX-License-Identifier: Apache-2.0
"""Storage, writes to it, and their order.

Outside `sequential`, order is that of creation: an op waits for the writes that were pending on the storage it
reads when it was made, and pulls them into every computation that contains it. Inside `sequential` the list
decides: the writes handed to it are taken out of the creation order, as if they had not been made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from ..ir.types import Type
from .axes import Axes, AxesLike, make_axes
from .building import BUILDING
from .calls import listed
from .errors import NotAssignable, UserError, fail
from .forms import FunctionForm
from .initial_values import initial_value as given_initial_value
from .node import Op, closure, needs
from .ordered import OrderedSet
from .regions import within
from .source import assigned_name
from .stating import stating
from .tensor import Index, Tensor, as_tensor
from .values import as_op, element_of, numbers
from .verbs import VERBS
from .writes import AssignOp, InitTensorOp, ReadOp


class Role(Enum):
    """What a storage is for."""

    PLACEHOLDER = "placeholder"
    VARIABLE = "variable"
    PERSISTENT = "persistent"
    TEMPORARY = "temporary"


class AssignableTensorOp(Tensor):
    """A place that keeps a value from run to run. Each transformer has its own contents for it."""

    def __init__(self, axes: Axes, element: Type, role: Role, initial_value: Any = None):
        super().__init__((), None, axes, element)
        self.role = role
        self.automatic_name = ""  # what it is for, where a function made it for itself
        self.storage = self
        self._initializer: InitTensorOp | None = None
        if initial_value is not None:
            with Op.saved_user_deps(), Op.all_ops(isolate=True):
                value = given_initial_value(self, initial_value, lambda: self.called)
            self._initializer = InitTensorOp(self, value)

    def copy_with_args(self, args: Sequence[Op]) -> AssignableTensorOp:
        """The storage itself: it is computed from nothing, and there is one of it."""
        if [*args]:
            fail(UserError, f"{self.called} is storage and has no arguments")
        return self

    copy_with_new_args = copy_with_args

    @property
    def called(self) -> str:
        """What messages call it: its name, or what it was assigned to where it was made."""
        return self.given_name or self.automatic_name or assigned_name(self.location) or self.name

    @property
    def initializers(self) -> OrderedSet[Op]:
        return OrderedSet(() if self._initializer is None else (self._initializer,))

    @property
    def initial_value(self) -> Tensor | None:
        """The op that gives the initial value, if there is one."""
        return None if self._initializer is None else self._initializer.value

    def begin_with(self, value: Tensor) -> None:
        """Makes the value of an op, with the axes and elements of this storage, the initial one."""
        self._initializer = InitTensorOp(self, value)

    @property
    def is_placeholder(self) -> bool:
        return self.role is Role.PLACEHOLDER

    @property
    def is_variable(self) -> bool:
        """Whether it was made to be trained, also where it is frozen."""
        return self.role is Role.VARIABLE

    @property
    def is_trainable(self) -> bool:
        """Whether it is a variable that is not frozen: one is frozen by `metadata["trainable"] = False`."""
        return self.is_variable and bool(self.metadata.get("trainable", True))

    @property
    def is_persistent(self) -> bool:
        return self.role in (Role.VARIABLE, Role.PERSISTENT)

    @property
    def is_input(self) -> bool:
        return self.role is not Role.TEMPORARY

    def __iadd__(self, other: Any) -> Any:
        return assign(self, self + other)

    def __isub__(self, other: Any) -> Any:
        return assign(self, self - other)

    def __imul__(self, other: Any) -> Any:
        return assign(self, self * other)

    def __itruediv__(self, other: Any) -> Any:
        return assign(self, self / other)


def make_storage(
    axes: AxesLike, dtype: Any, role: Role, initial_value: Any, name: str | None
) -> AssignableTensorOp:
    element = BUILDING.float if dtype is None else element_of(dtype)
    with within(None):  # it outlives the loop or branch that it may be made in
        made = AssignableTensorOp(make_axes(axes), element, role, initial_value)
    return made if name is None else made.named(name)


@stating
def placeholder(
    axes: AxesLike, dtype: Any = None, initial_value: Any = None, *, name: str | None = None
) -> Tensor:
    """An input of a computation. One with an initial value may be left out of the computation's arguments."""
    return make_storage(axes, dtype, Role.PLACEHOLDER, initial_value, name)


@stating
def variable(
    axes: AxesLike, dtype: Any = None, initial_value: Any = None, *, name: str | None = None
) -> Tensor:
    """Trainable state that is kept between runs. `metadata={"trainable": False}` freezes it: optimizers do not change it."""
    return make_storage(axes, dtype, Role.VARIABLE, initial_value, name)


@stating
def persistent_tensor(
    axes: AxesLike, dtype: Any = None, initial_value: Any = None, *, name: str | None = None
) -> Tensor:
    """State that is kept between runs and is not trained."""
    return make_storage(axes, dtype, Role.PERSISTENT, initial_value, name)


@stating
def temporary(axes: AxesLike, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """Storage that can be assigned to but not passed as an argument."""
    return make_storage(axes, dtype, Role.TEMPORARY, None, name)


# ---- reads and writes -----------------------------------------------------------------------------------------


@stating
def assign(lvalue: Tensor, rvalue: Any) -> AssignOp:
    """Assigns `rvalue`, broadcast to the axes of `lvalue`, when it runs; returns the assignment."""
    if not isinstance(lvalue, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(NotAssignable, f"{lvalue!r} is not a tensor and cannot be assigned to")
    family = lvalue.family
    if not isinstance(rvalue, Tensor):
        rank = numbers(rvalue).ndim
        rvalue = family.constant(
            rvalue, axes=lvalue.axes if rank in (0, len(lvalue.axes)) else None, dtype=lvalue.element
        )
    value = family.broadcast(family.cast(rvalue, lvalue.element), lvalue.axes)
    for condition in BUILDING.conditions:
        value = VERBS.select(family.broadcast(condition, lvalue.axes), value, lvalue)
    return AssignOp(lvalue, value)


@stating
def set_item(tensor: Tensor, item: Index | tuple[Index, ...], value: Any) -> AssignOp:
    """Writes to the part of a storage that `tensor[item]` reads."""
    parts = item if isinstance(item, tuple) else (item,)
    if any(isinstance(p, slice) and p.step is not None and p.step <= 0 for p in parts):
        fail(UserError, "an assignment goes forward: the step of a slice must be positive")
    return assign(tensor[item], value)


@stating
def SetItem(tensor: Tensor, item: Any, *value: Any) -> AssignOp:
    """`SetItem(x, value)` writes all of x, `SetItem(x, item, value)` a part of it."""
    return set_item(tensor, item, *value) if value else assign(tensor, item)


@stating
def fill(x: Tensor, scalar: Any) -> AssignOp:
    """Assigns one number to every element of `x`."""
    return assign(x, scalar)


@stating
def value_of(tensor: Any) -> Tensor:
    """A copy of the value of the tensor at this place in the order of assignments."""
    return ReadOp(as_op(tensor))


# ---- storage as values: what bodies of loops and branches are made of ------------------------------------------


def followed(value: Tensor, writes: Sequence[Op]) -> Tensor:
    """A value that brings writes along into every computation."""
    if not writes:
        return value
    made = ReadOp(value)
    for write in writes:
        made.add_control_dep(write)
    return made


class HeldOp(Tensor):
    """What a storage holds at a place in a body: a value there, but of derivatives the storage.

    So nothing flows along an assignment, in bodies as elsewhere.
    """

    is_alias = True

    def __init__(self, storage: Tensor, value: Tensor):
        super().__init__([value, storage], None, storage.axes, storage.element)

    @property
    def held(self) -> Op:
        return self.args[1]


class WrittenOp(Tensor):
    """The contents `args[0]` of a storage after `args[1]` was written to a view of it."""

    def __init__(self, target: Tensor, whole: Tensor, value: Tensor):
        super().__init__([whole, value], None, whole.axes, whole.element)
        self.target = target


# ---- groups ---------------------------------------------------------------------------------------------------


def _pull(op: Op, members: Iterable[Op]) -> None:
    """A group also runs what is pending on the storage that it is given."""
    for member in members:
        op.wait_for_pending(member.storage_now)


class ParallelOp(Op):
    """A group: all members run, in the order of their creation; no value."""

    drawn_as = "doall"

    def __init__(self, members: Sequence[Op]):
        super().__init__()
        self._members = tuple(members)
        _pull(self, members)

    @property
    def members(self) -> tuple[Op, ...]:
        return self._members


class SequentialOp(Tensor):
    """Runs its members in order, each once; the value is that of the last one."""

    def __init__(self, members: Sequence[Op]):
        last = members[-1]
        self._members = tuple(members)
        self.has_value = last.is_tensor_op
        axes, element = (last.axes, last.element) if isinstance(last, Tensor) else (Axes(), BUILDING.float)
        super().__init__((), None, axes, element)
        self.is_tensor_op = self.has_value
        self.lacks_value = not self.has_value
        self.order = list(_order(members))

    @property
    def members(self) -> tuple[Op, ...]:
        return self._members

    @property
    def last(self) -> Op:
        return self._members[-1]


class ComputationOp(Op):
    """What a computation returns, from which parameters; made when the computation is."""

    #: How its function is written, where that is known.
    form: FunctionForm | None = None

    def __init__(self, returns: Sequence[Op], parameters: Sequence[Tensor]):
        super().__init__()
        self.returns = tuple(returns)
        self._parameters = tuple(parameters)
        _pull(self, returns)

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """What is fed, forwarding followed."""
        return tuple([as_tensor(p.forwarded) for p in self._parameters])

    @property
    def members(self) -> tuple[Op, ...]:
        return self.returns


@stating
def doall(ops: Iterable[Any]) -> Op:
    """A group of ops without a value and without an order among them."""
    return ParallelOp(_members(ops))


@stating
def sequential(ops: Iterable[Any]) -> Tensor:
    """Runs ops one after the other, each once per computation; the value is the last one's.

    List an op again at the end to return a value that was computed earlier.
    """
    given = _members(ops)
    if not given:
        fail(UserError, "an empty sequence has no value", "pass at least one op")
    for op in given:
        for write in _writes(op):
            write.withdraw()
    # Storage is not executed; in a sequence it is read at its place.
    return SequentialOp([ReadOp(o) if isinstance(o, Tensor) and o.storage is not None else o for o in given])


def _members(ops: Iterable[Any]) -> list[Op]:
    return [o if isinstance(o, Op) else as_op(o) for o in listed(ops, "ops")]


def _writes(op: Op) -> Iterator[AssignOp]:
    if isinstance(op, AssignOp):
        yield op
    elif isinstance(op, (ParallelOp, SequentialOp)):
        for member in op.members:
            yield from _writes(member)


def _order(members: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
    """Pairs (earlier, later) that the members' order asks for: of ops below different members, those that use
    one storage which either of them writes."""
    done: set[Op] = set()
    readers: dict[Op, list[Op]] = {}
    writers: dict[Op, list[Op]] = {}
    for member in members:
        below = [op for op in closure([member], _below(done)) if op not in done]
        for op in below:
            for storage in reads(op):
                for earlier in writers.get(storage, ()):
                    yield earlier, op
            if isinstance(op, AssignOp):
                for earlier in (*readers.get(op.written, ()), *writers.get(op.written, ())):
                    yield earlier, op
        for op in below:
            for storage in reads(op):
                readers.setdefault(storage, []).append(op)
            if isinstance(op, AssignOp):
                writers.setdefault(op.written, []).append(op)
        done.update(below)


def _below(done: set[Op]) -> Callable[[Op], Iterable[Op]]:
    return lambda op: () if op in done else needs(op)


def is_executed(op: Op) -> bool:
    """Whether the op is executed. Storage and views of storage are not."""
    return op.storage is None


def reads(op: Op) -> OrderedSet[Op]:
    """The storages that an op reads when it runs."""
    if not is_executed(op):
        return OrderedSet()
    args = op.args[1:] if isinstance(op, AssignOp) else op.args
    return OrderedSet(storage for arg in args if (storage := arg.storage_now) is not None)
