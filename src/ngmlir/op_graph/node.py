# SPDX-License-Identifier: Apache-2.0
"""A node of the op graph: what it computes from, what must run before it, who made it and where.

Three kinds of edges lead to what runs earlier: `args` (data), `other_deps` (order only) and `initializers`
(once, before anything). Equality is identity, so ops can be members of sets and keys of dictionaries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from ..ir import core
from ..pictures.drawing import Drawing
from ..pictures.shown import Shown
from ..support.spelling import counted
from .boxes import drawing_of
from .building import BUILDING, Scope
from .digraph import Digraph
from .errors import InvalidOp, UserError, fail
from .facts import Facts
from .names import NameableValue
from .nodes import DebugInfo
from .ordered import OrderedSet

O = TypeVar("O", bound="Op")


class _Invalid:
    def __repr__(self) -> str:
        return "Invalid"


#: Where an op forwards to when a pass removed its value.
Invalid = _Invalid()


class Pending:
    """Of each storage, the writes to it that later readers must wait for.

    The writes are stored in their storage (`Op.waiting`), so that a graph without references can be collected.
    """

    def writes(self, storage: Op) -> OrderedSet[Op]:
        """The pending writes to a storage."""
        found = storage.waiting.get(self) if storage.waiting is not None else None
        return OrderedSet() if found is None else found

    def replace(self, storage: Op, writes: Iterable[Op]) -> None:
        """Makes these the pending writes to a storage."""
        if storage.waiting is None:
            storage.waiting = WeakKeyDictionary()
        storage.waiting[self] = OrderedSet(writes)


class Watching(threading.local):
    """Of each thread: the writes that its next ops may have to wait for, and the lists that they are entered in."""

    def __init__(self) -> None:
        self.pending: list[Pending] = [Pending()]
        self.recorders: list[list[Op]] = []


WATCHING = Watching()


class Op(NameableValue, DebugInfo, Facts, Shown):
    """One node. Subclasses with an `operation` are one op of the `ng` dialect each."""

    operation: ClassVar[type[core.Op] | None] = None
    is_view = False  # a view is not executed: its readers read the storage below it
    is_tensor_op = is_trainable = is_placeholder = False
    drawn_as = ""  # what pictures call it, where not as its class
    lacks_value = False  # a group in place of a tensor
    #: What storage, and views of it, that this op uses held when it ran, for its derivatives (`writes.read_by`).
    reads: Mapping[Op, Op] = MappingProxyType({})

    def __init__(
        self,
        args: Sequence[Op] = (),
        attributes: dict[str, Any] | None = None,
        *,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ):
        NameableValue.__init__(self, name)
        DebugInfo.__init__(self)
        # In the order of creation: that of the op whose place it took, or its own.
        self.place: float = self.serial
        self.args: tuple[Op, ...] = tuple(args)
        self.attributes: dict[str, Any] = attributes if attributes is not None else {}
        self.metadata: dict[str, Any] = {**BUILDING.metadata, **(metadata or {})}
        self.region: Scope | None = BUILDING.region
        self.schemas: list[Any] = []
        self.storage: Op | None = None  # the storage that this is, or is a view of
        self.waiting: WeakKeyDictionary[Pending, OrderedSet[Op]] | None = None  # of a storage: see Pending
        self.has_writes = False  # of a storage: whether there is a write to it
        # Of a storage without writes: what was replaced by it or by a view of it, and who used that, with which arguments.
        self.stands_for: list[Op] = []
        self.shown_to: list[tuple[Op, tuple[Op, ...]]] = []
        self.withdrawn = False  # a write that a sequence has taken over
        self.replaced: Iterable[Op] = ()  # the writes that were pending before this one
        self._forward: Op | _Invalid | None = None
        self._automatic: list[Op] = []
        self._explicit: list[Op] = []
        for arg in self.args:
            if arg.lacks_value:
                arg.refuse_use()
            if arg.storage is not None or arg._forward is not None:
                self.wait_for_pending(arg.storage_now)
        for recorder in WATCHING.recorders:
            recorder.append(self)

    # ---- who and where

    def copy_with_args(self: O, args: Sequence[Op]) -> O:
        """The same op, made now from other arguments; it keeps its place in the program, name and metadata.

        Raises UserError for another number of arguments.
        """
        args = tuple(args)
        if len(args) != len(self.args):
            fail(
                UserError,
                f"{self.called} is computed from {counted(len(self.args), 'argument')}, not {len(args)}",
            )
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for derived in ("_adjoints", "reads", "one"):
            made.__dict__.pop(derived, None)
        Op.__init__(made, args, dict(self.attributes))
        made.location, made.given_name, made.metadata = self.location, self.given_name, dict(self.metadata)
        made._follow_args()
        return made

    copy_with_new_args = copy_with_args

    def _follow_args(self) -> None:
        """Sets what follows from the arguments, in an op that is being made from them."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.name}):{self.serial}{self.shown_type}>"

    @property
    def shown_type(self) -> str:
        """What a repr says of the value; of what has none, nothing."""
        return ""

    def _drawing_(self, others: Sequence[Shown] = ()) -> Drawing:
        return drawing_of([self, *others])

    def refuse_use(self) -> NoReturn:
        """The error for what has no value, but is used as if it had one."""
        fail(
            UserError,
            f"{self.called} has no value: its last member is an assignment or a group",
            f"put the result at the end of the list; it was created at {self.location}",
        )

    # ---- order

    @property
    def other_deps(self) -> OrderedSet[Op]:
        """Ops that must run before this one without being data; add to them with `add_control_dep`."""
        return OrderedSet([*self._explicit, *standing(self._automatic)])

    def wait_for_pending(self, storage: Op | None) -> None:
        """Makes the writes that are pending on a storage run before this op."""
        if storage is not None and storage.waiting is not None:
            self._automatic += WATCHING.pending[-1].writes(storage)

    control_deps = other_deps

    @property
    def all_deps(self) -> OrderedSet[Op]:
        return OrderedSet([*self.args, *self.other_deps])

    def add_control_dep(self, op: Op) -> None:
        """Makes `op` run before this one, in every computation that contains this one."""
        if not isinstance(op, Op):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"{op!r} is not an op, so no op can depend on it")
        self._explicit.append(op)

    @property
    def user_deps(self) -> OrderedSet[Op]:
        """The pending writes that an op made now from this one would wait for."""
        storage = self.storage_now
        return OrderedSet() if storage is None else OrderedSet(WATCHING.pending[-1].writes(storage))

    @user_deps.setter
    def user_deps(self, deps: Iterable[Op]) -> None:
        storage = self.storage_now
        if storage is not None:
            WATCHING.pending[-1].replace(storage, deps)

    @property
    def initializers(self) -> OrderedSet[Op]:
        """What runs once, before any computation."""
        return OrderedSet()

    @property
    def members(self) -> tuple[Op, ...]:
        """Ops that this one runs as a group."""
        return ()

    # ---- forwarding

    @property
    def forward(self) -> Op | _Invalid | None:
        """The op that replaced this one, `Invalid` if its value is gone, None if it stands."""
        return self._forward

    @forward.setter
    def forward(self, op: Op | _Invalid | None) -> None:
        at = op
        while isinstance(at, Op):
            if at is self:
                fail(InvalidOp, f"{self.called} cannot be replaced by something that forwards to it")
            at = at._forward
        if isinstance(op, Op):
            self.check_replacement(op.forwarded)
            if self.storage is self and (storage := op.storage_now) is not None:
                # Who reads the replacement waits for the writes to what it replaces.
                pending = WATCHING.pending[-1]
                pending.replace(storage, [*pending.writes(storage), *pending.writes(self)])
        self._forward = op

    def check_replacement(self, op: Op) -> None:
        """UserError where `op` cannot replace this one."""

    @property
    def storage_now(self) -> Op | None:
        """The storage that this is, or is a view of, forwarding followed at every step."""
        op = self.forwarded
        while op.is_view and op.args:
            op = op.args[0].forwarded
        return op.storage

    @property
    def forwarded(self) -> Op:
        """The op at the end of the forwarding; this op itself if that end is invalid."""
        at: Op = self
        while at._forward is not None:
            if isinstance(at._forward, _Invalid):
                return self
            at = at._forward
        return at

    def snap(self) -> Op:
        """The same as `forwarded`."""
        return self.forwarded

    @property
    def is_invalid(self) -> bool:
        at: Op = self
        while isinstance(at._forward, Op):
            at = at._forward
        return at._forward is not None

    def replace_self(self, replacement: Op) -> None:
        """Replaces this op by `replacement` in all its users, present and future."""
        self.forward = replacement

    def update_forwards(self) -> None:
        """Updates the arguments of this op to their replacements."""
        for arg in self.args:
            if (
                arg._forward is not None
                and (storage := arg.storage_now) is not None
                and not storage.has_writes
            ):
                storage.shown_to.append((self, self.args))
        self.args = tuple([arg.forwarded for arg in self.args])
        self._explicit = [op.forwarded for op in self._explicit]
        self._automatic = [op.forwarded for op in self._automatic]

    def take_place_of(self, op: Op) -> None:
        """Makes this op, new and in no order yet, run when `op` would: after the same writes, in the same body."""
        own = set(op.reads.values())
        self.place, self.region, self.location = op.place, op.region, op.location
        self.metadata = {**op.metadata, **self.metadata}
        self._automatic += op._automatic
        self._explicit += [each for each in op._explicit if each not in own]

    # ---- traversal

    def variables(self) -> Sequence[Op]:
        """The trainable variables that this op is computed from, in order of creation."""
        return [op for op in Op.ordered_ops([self]) if op.is_trainable]

    def placeholders(self) -> Sequence[Op]:
        """The placeholders that this op is computed from, in order of creation."""
        return [op for op in Op.ordered_ops([self]) if op.is_placeholder]

    @staticmethod
    def ordered_ops(roots: Iterable[Op]) -> list[Op]:
        """All ops that the roots need, in order of creation."""
        return sorted(closure(roots), key=lambda op: (op.place, op.serial))

    @staticmethod
    def visit_input_closure(roots: Iterable[Op], visit: Callable[[Op], Any]) -> None:
        """Calls `visit` once on each op that the roots need, in order of creation."""
        for op in Op.ordered_ops(roots):
            visit(op)

    @staticmethod
    def all_op_references(roots: Iterable[Op]) -> OrderedSet[Op]:
        """All ops that the roots need, by data or by order, the roots among them."""
        return OrderedSet(Op.ordered_ops(roots))

    @staticmethod
    def get_all_ops() -> list[Op] | None:
        """What the innermost `with Op.all_ops()` has collected so far; None outside."""
        return WATCHING.recorders[-1] if WATCHING.recorders else None

    @staticmethod
    @contextmanager
    def saved_user_deps(pending: Pending | None = None) -> Generator[Pending]:
        """A guard: writes made inside are not waited for outside, and the other way round."""
        stack = WATCHING.pending
        stack.append(Pending() if pending is None else pending)
        try:
            yield stack[-1]
        finally:
            stack.pop()

    @staticmethod
    @contextmanager
    def all_ops(isolate: bool = False) -> Generator[list[Op]]:
        """Collects the ops made inside the `with`; `isolate` hides them from those who collect outside."""
        outer = WATCHING.recorders
        ops: list[Op] = []
        WATCHING.recorders = [ops] if isolate else [*outer, ops]
        try:
            yield ops
        finally:
            WATCHING.recorders = outer


def standing(writers: Iterable[Op]) -> Iterator[Op]:
    """The writes themselves, or, of a withdrawn one, those that stood before it."""
    for writer in writers:
        if writer.withdrawn:
            yield from standing(writer.replaced)
        else:
            yield writer


def needs(op: Op) -> Iterator[Op]:
    """What must be in a computation because `op` is, forwarding followed."""
    for needed in (*op.args, *op.members, *op.other_deps):
        yield needed.forwarded


def closure(roots: Iterable[Op], of: Callable[[Op], Iterable[Op]] = needs) -> OrderedSet[Op]:
    """All ops that the roots need."""
    seen: OrderedSet[Op] = OrderedSet()
    stack = [root.forwarded for root in roots]
    while stack:
        op = stack.pop()
        if op not in seen:
            seen.add(op)
            stack.extend(of(op))
    return seen


def sources_first(roots: Iterable[Op], of: Callable[[Op], Iterable[Op]] = needs) -> list[Op]:
    """All ops that the roots need, each after those that it needs itself."""
    return Digraph(of).ordered([root.forwarded for root in roots])
