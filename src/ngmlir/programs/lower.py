# SPDX-License-Identifier: Apache-2.0
"""From names to values: a walk over the blocks of a program with an environment, which builds an op graph and lifts it.

An operator's variables are looked up, its function builds it, and what it writes are the new values of names. A variable that
is fed is an argument, one that is fetched a result. A persistable variable is state: an argument, and where the program writes
it also a result that is tied to it.

The offsets of a ragged variable are values too, under separate names (`names.offsets_name`): they are fed with it, and variables
of the same raggedness share them. A length that depends on values is known from a run that computes just it (`Lowered.measures`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .. import numpy as np
from ..decl.operator_text import OperatorEntry
from ..ir.types import FloatType, TensorType, ui64
from ..op_graph.building import BUILDING
from ..op_graph.computation import Computation
from ..op_graph.functions.composed import stop_gradient
from ..op_graph.known import depends_on_parameters, outside
from ..op_graph.lift import lift
from ..op_graph.node import Op, closure
from ..op_graph.positions import Positions
from ..op_graph.raising import FixedAxis
from ..op_graph.recomputing import mark
from ..op_graph.regions import within
from ..op_graph.state import AssignableTensorOp, Role, doall
from ..op_graph.tensor import Tensor
from ..op_graph.writes import AssignOp, ReadOp
from ..support.diagnostics import Diagnostic, UserError
from ..support.lengths import are_same
from . import random_keys, segments
from .array_operators import ARRAY_OPERATORS, of_arrays
from .attributes import values_of
from .block_values import Held, Ran, called
from .blocks import lowering_of
from .catalogue import REGISTRY
from .definition import Levels, Names, T
from .descriptions import BlockView, Operator, Program
from .infer import rows_of
from .interface import Interface
from .kernel_values import kernel_values
from .kernels import KERNELS
from .lowered import Lowered, Written
from .names import EMPTY, GRADIENT, LEVEL, RANDOM, forward_type, offsets_names
from .places import at
from .prune import reads_of
from .ragged import shared
from .rank_operators import RANK_OPERATORS
from .sparse_rows import SparseRows, all_dense, dense, has_rows
from .undefined import Undefined


class _Unknown(Exception):
    """Lengths that depend on values are not known."""

    def __init__(self, count: Tensor):
        super().__init__()
        self.count = count


def lower(program: Program, *, every: bool = False, sizes: Sequence[int] | int | None = None) -> Lowered:
    """A program as a function of what its `feed` operators take and its state; what its `fetch` operators give are results, and with
    `every` then all that operators write.

    `sizes` are the lengths that depend on values, in the order in which they are asked for, or one number for all of them. Where one
    more is needed, the result computes that one.

    Raises UserError, at the operator's line, where an operator reads what nothing gave a value, where shapes do not fit, and
    where the length of something that is fed is not known, or without `sizes` depends on values.
    """
    with Op.saved_user_deps():
        lowering = _Lowering(program, sizes)
        try:
            lowering.run(program.top)
            lowering.check_kept()
        except _Unknown as unknown:
            return lowering.measured(unknown.count)
        return lowering.finished(every)


@dataclass
class _Lowering:
    """The context that operators are built in."""

    program: Program
    sizes: Sequence[int] | int | None = None
    values: dict[str, Held] = field(default_factory=dict[str, Held])
    feeds: dict[str, AssignableTensorOp] = field(default_factory=dict[str, AssignableTensorOp])
    states: dict[str, AssignableTensorOp] = field(default_factory=dict[str, AssignableTensorOp])
    fetches: dict[int, tuple[str, Tensor]] = field(default_factory=dict[int, tuple[str, Tensor]])
    written: list[tuple[Operator, str, Tensor | SparseRows]] = field(
        default_factory=list[tuple[Operator, str, Tensor | SparseRows]]
    )
    ran: dict[tuple[str, ...], list[Ran]] = field(default_factory=dict[tuple[str, ...], list[Ran]])
    bounds: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    drawn: int = 0
    #: The operator that is built now, and the raggedness that it stated of its results.
    operator: Operator | None = None
    stated: dict[tuple[str, int], Levels] = field(default_factory=dict[tuple[str, int], Levels])
    #: Lengths by what they were asked for: a gradient asks for those of its operator again.
    known: dict[Any, Sequence[int]] = field(default_factory=dict[Any, Sequence[int]])
    asked: int = 0
    #: Pairs of fed offsets that must be equal.
    agreed: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    #: What operators share, by keys and blocks.
    made: dict[object, Any] = field(default_factory=dict[object, Any])
    #: Inside of blocks that run: their numbers of the iteration or step, the outermost first.
    turns: tuple[Tensor | None, ...] = ()
    undefined: Undefined = field(default_factory=Undefined)
    is_trial: bool = False

    def run(self, block: BlockView) -> None:
        """Builds the operators of a block, one after the other."""
        for operator in block.operators:
            with at(operator.location):
                match operator.type:
                    case "feed":
                        self.feed(operator)
                    case "fetch":
                        (name,) = operator.inputs["X"]
                        value = ReadOp(dense(self.tensor(operator, name)))
                        self.fetches[operator.attribute("col")] = name, value
                    case "delete_var":
                        pass  # memory is planned when the program is compiled
                    case "recompute":
                        self.recompute(operator)
                    case _:
                        self.build(operator)

    def recompute(self, operator: Operator) -> None:
        """Has what is computed between tensors computed again where it is needed later."""
        kept, before = (
            [v for n in operator.inputs.get(slot, ()) if isinstance(v := self.read(operator, n), Tensor)]
            for slot in ("X", "Kept")
        )
        mark(kept, before, operator.location)

    def build(self, operator: Operator) -> None:
        self.operator, self.stated, self.asked = operator, {}, 0
        type = operator.type
        special = lowering_of(type) or ARRAY_OPERATORS.get(type) or RANK_OPERATORS.get(type)
        if special is not None:
            special(self, operator)
            return
        if of_arrays(self, operator):
            return
        definition = REGISTRY.get(operator.type)
        inputs = {
            slot: [None if self._is_missing(operator, slot, n) else self.tensor(operator, n) for n in names]
            for slot, names in operator.inputs.items()
        }
        attributes = values_of(definition.entry, operator.dictionary)
        if label := attributes.get("kernel"):
            kernel = KERNELS.get(operator.type, label, operator.location)
            made = kernel_values(kernel, self, all_dense(inputs), attributes, operator.dictionary)
        elif definition.needs_kernel:
            hint = "the pass program-kernels chooses one; ngmlir.programs.custom.kernel registers one"
            message = f"operator {operator.type} has no function of its own, and no kernel was chosen for it"
            raise UserError(Diagnostic(message, operator.location, hint=hint))
        elif definition.takes_context and definition.has_gradient and not has_rows(inputs):
            made = definition.built(self, inputs, attributes).outputs
        else:
            made = definition.values(self, inputs, attributes)
            self.undefined.note(operator, inputs, made)
        for slot, names in operator.outputs.items():
            for i, (name, value) in enumerate(zip(names, made.get(slot, ()), strict=False)):
                if name != EMPTY and value is not None:
                    self.write(operator, name, value, self._levels_of(slot, i, name, value, inputs))

    def _is_missing(self, operator: Operator, slot: str, name: str) -> bool:
        """Whether there is nothing in a slot; in one of a gradient also where the operator does not compute what exists for it."""
        if name == EMPTY:
            return True
        if name in self.values or not operator.type.endswith("_grad"):
            return False
        forward = REGISTRY.find(forward_type(operator.type))
        made = None if forward is None else forward.entry.outputs_by_name.get(slot)
        return made is not None and made.intermediate

    @property
    def current(self) -> Operator:
        """The operator that is built now."""
        assert self.operator is not None
        return self.operator

    # ---- raggedness

    def levels(self, slot: str, at: int = 0) -> Levels:
        operator = self.current
        names = operator.inputs.get(slot, ())
        return self.levels_of(operator, names[at]) if at < len(names) and names[at] != EMPTY else ()

    def levels_of(self, operator: Operator, name: str) -> Levels:
        """The offsets that a variable has now."""
        count = operator.block.visible(name, operator.location).ragged
        return tuple([dense(self.tensor(operator, each)) for each in offsets_names(name, count)])

    def give_levels(self, slot: str, levels: Levels, at: int = 0) -> None:
        self.stated[slot, at] = levels

    def _levels_of(
        self,
        slot: str,
        at: int,
        name: str,
        value: Tensor | SparseRows,
        inputs: Mapping[str, Sequence[Any]],
    ) -> Levels:
        """The raggedness of a result: what the operator stated, that of what it is the gradient of, or that of an input."""
        if (slot, at) in self.stated:
            return self.stated[slot, at]
        operator = self.current
        count = operator.block.visible(name, operator.location).ragged
        if not count:
            return ()
        if slot.endswith(GRADIENT):
            forward = slot.removesuffix(GRADIENT)
            name = operator.inputs[forward][at]
            # A gradient of a gradient that was given has the raggedness that this was given with.
            is_known = all(each in self.values for each in offsets_names(name, count))
            return self.levels(forward, at) if is_known else ()
        visible = operator.block.visible
        rows = {
            slot: [
                (rows_of(v), 0 if n == EMPTY else visible(n, operator.location).ragged)
                for n, v in zip(operator.inputs[slot], values, strict=True)
            ]
            for slot, values in inputs.items()
        }
        source = shared(rows_of(value), rows, count)
        return () if source is None else self.levels(*source)

    def size(self, count: Tensor, most: Callable[[], int] | None = None) -> int:
        operator = self.current
        if most is not None and (depends_on_parameters(count) or self._is_only_fetched(operator)):
            return most()
        return self.lengths(self._asked_again(), [count])[0]

    def _asked_again(self) -> tuple[Any, ...]:
        """A key of what an operator asks for: the same when its gradient asks, another one for each time that it does."""
        operator = self.current
        entry = REGISTRY.get(forward_type(operator.type)).entry
        names = [n for s in entry.inputs for n in operator.inputs.get(s.name, ()) if n != EMPTY]
        read = [self.read(operator, n) for n in names]
        tensors = [n for n, value in zip(names, read, strict=True) if isinstance(value, Tensor)]
        offsets = [o for n in tensors for o in self.levels_of(operator, n)]
        settings = [repr(operator.attribute(a.name)) for a in entry.attributes]
        self.asked += 1
        return entry.type, *read, *offsets, *settings, self.asked

    def longest(self, offsets: Tensor) -> int:
        known = self.bounds.get(offsets)
        return self.lengths(offsets, [segments.longest(offsets)])[0] if known is None else known

    def require(self, holds: Tensor, message: str, hint: str = "") -> None:
        # Without a run, and for the values of one iteration, there is nothing to look at.
        if isinstance(self.sizes, Sequence) and not depends_on_parameters(holds):
            wrong = np.astype(np.any(np.logical_not(holds)), "int64")
            if self.lengths(self._asked_again(), [wrong])[0]:
                raise UserError(message, hint=hint)

    def agree(self, offsets: Tensor, others: Tensor) -> None:
        names: dict[Tensor, str] = {fed: name for name, fed in self.feeds.items()}
        if offsets is not others and offsets in names and others in names:
            self.agreed.setdefault((names[offsets], names[others]))

    def outputs(self, entry: OperatorEntry) -> Names:
        operator = self.current
        held = operator.outputs if operator.type == entry.type else operator.inputs
        return {s.name: each for s in entry.outputs if (each := held.get(s.name, ())) and EMPTY not in each}

    def shared(self, key: object, make: Callable[[], T]) -> T:
        place = key, BUILDING.region
        if place not in self.made:
            self.made[place] = make()
        return self.made[place]

    def lengths(self, key: object, counts: Sequence[Tensor]) -> Sequence[int]:
        if key not in self.known:
            operator, at = self.current, sum(map(len, self.known.values()))
            if self.sizes is None:
                message = f"a length of what operator {operator.type} gives depends on values"
                hint = "executor.run(...) finds it out; a program of its own does not"
                raise UserError(Diagnostic(message, operator.location, hint=hint))
            if isinstance(self.sizes, int):
                self.known[key] = [self.sizes] * len(counts)
            elif len(self.sizes) == at:
                raise _Unknown(np.concatenate([np.reshape(np.astype(c, "int64"), [1]) for c in counts]))
            else:
                self.known[key] = self.sizes[at : at + len(counts)]
        return self.known[key]

    def _is_only_fetched(self, operator: Operator) -> bool:
        """Whether nothing but the caller uses what an operator gives: who fetches it leaves out what is behind its offsets."""
        written = set(operator.writes)
        return not REGISTRY.get(operator.type).has_gradient and not any(
            written.intersection(reads_of(other))
            for other in self.program.top.operators
            if other.type != "fetch"
        )

    # ---- variables

    def feed(self, operator: Operator) -> None:
        (name,) = operator.outputs["Out"]
        variable = operator.block.visible(name, operator.location)
        if not variable.type.static:
            message = f"the shape of '{name}', which is fed, is not known: {variable.type}"
            raise UserError(
                Diagnostic(message, variable.location, hint="declare it with the lengths of what is fed")
            )
        self.feeds[name] = self.values[name] = _storage(name, variable.type, Role.PLACEHOLDER)

    @contextmanager
    def inside(self, block: BlockView, known: Mapping[str, Held], turn: Tensor | None) -> Generator[None]:
        """Has what is built inside see these values of names from around a block, and be built for one iteration of it."""
        outer, building = (self.values, self.written, self.turns), (self.operator, self.asked)
        hidden = {n: v for n, v in self.values.items() if n not in block.variables}
        self.values, self.written, self.turns = {**hidden, **known}, [], (*self.turns, turn)
        try:
            yield
        finally:
            self.values, self.written, self.turns = outer
            self.operator, self.asked = building

    def tensor(self, operator: Operator, name: str) -> Tensor | SparseRows:
        """The value of a variable that holds a tensor, or rows of one."""
        held = self.read(operator, name)
        if not isinstance(held, (Tensor, SparseRows)):
            raise UserError(
                f"operator {operator.type} takes a tensor, and '{name}' is {called(held)}",
                hint="layers.array_read(array, i) gives an element of an array",
            )
        return held

    def read(self, operator: Operator, name: str) -> Held:
        """The value that a variable has now."""
        found = self.values.get(name)
        if found is not None:
            return found
        if LEVEL in name:
            message = f"operator {operator.type} reads the raggedness of '{name.partition(LEVEL)[0]}', which has none"
            hint = "what is ragged is fed with lod_level=1; layers.lod_reset gives offsets to other rows"
            raise UserError(Diagnostic(message, operator.location, hint=hint))
        variable = operator.block.visible(name, operator.location)
        if variable.persistable:
            return self.state(name, variable.type)
        if variable.flag("data"):
            hint = f'feed={{"{name}": array}} gives it one'
        else:
            hint = "an operator before this one has to write it"
        message = f"operator {operator.type} reads '{name}', which has no value yet"
        raise UserError(Diagnostic(message, operator.location, hint=hint))

    def write(self, operator: Operator, name: str, value: Held, levels: Levels = ()) -> None:
        self.values.update(zip(offsets_names(name, len(levels)), levels, strict=True))
        variable = operator.block.visible(name, operator.location)
        if not isinstance(value, (Tensor, SparseRows)):
            self.values[name] = value
            return
        if self.turns and variable.flag("stop_gradient"):
            value = dense(value)
            value = stop_gradient(value) if isinstance(value.element, FloatType) else value
        if variable.persistable:
            value = new = dense(value)
            held = self.state(name, variable.type, new)
            if not are_same(held.type.shape, new.type.shape) or held.element is not new.element:
                message = f"'{name}' keeps {held.type} from run to run, and cannot become {new.type}"
                raise UserError(Diagnostic(message, operator.location))
        self.values[name] = value
        self.written.append((operator, name, value))

    def state(self, name: str, type: TensorType, value: Tensor | None = None) -> AssignableTensorOp:
        """The storage of a persistable variable, which begins as what the scope holds."""
        if name not in self.states:
            if value is not None:
                type = TensorType(value.type.shape, value.element)
            if not type.static:
                raise UserError(
                    Diagnostic(f"'{name}' is kept from run to run, so its shape must be known: {type}")
                )
            with within(None):  # it is of the whole program, in whatever block it is used first
                self.states[name] = _storage(name, type, Role.PERSISTENT)
            self.values.setdefault(name, self.states[name])
        return self.states[name]

    # ---- random numbers

    def random_key(self, seed: int) -> Tensor:
        if seed:
            return random_keys.of_seed(seed)
        key = self.state(RANDOM, TensorType((2,), ui64))
        self.drawn += 1
        return random_keys.of_operator(key, self.drawn, self.turns)

    # ---- the end

    def measured(self, count: Tensor) -> Lowered:
        """The part that computes lengths."""
        count = outside(count)
        needed = closure([count])
        states = {name: storage for name, storage in self.states.items() if storage in needed}
        made = Computation([ReadOp(count)], [*self.feeds.values(), *states.values()], tuple)
        made.location = self.program.location
        lifted = lift(made)
        interface = Interface.of(lifted.module, [*self.feeds], [*states], lifted.tied)
        return Lowered(lifted.module, interface, ("",), (), lifted.trace, measures=True)

    def check_kept(self) -> None:
        """UserError where a variable would keep the mean of nothing."""
        kept = [(n, v) for n in self.states if isinstance(v := self.values.get(n), Op)]
        known = isinstance(self.sizes, Sequence)
        self.undefined.check(kept, lambda c: known and bool(self.lengths((c,), [np.astype(c, "int64")])[0]))

    def finished(self, every: bool) -> Lowered:
        if RANDOM in self.states:
            # The next run draws other numbers.
            self.values[RANDOM] = random_keys.moved(self.states[RANDOM], 1, 0)
        now = {name: self.values.get(name, storage) for name, storage in self.states.items()}
        changed = [name for name, storage in self.states.items() if now[name] is not storage]
        new = [
            ReadOp(dense(value)) for name in changed if isinstance(value := now[name], (Tensor, SparseRows))
        ]
        writes = [AssignOp(self.states[name], value) for name, value in zip(changed, new, strict=True)]
        fetched = [self.fetches[column] for column in sorted(self.fetches)]
        shown = [(operator, name, dense(value)) for operator, name, value in self.written] if every else []
        returns: list[Op] = [*[value for _, value in fetched], *[value for _, _, value in shown]]
        group = [doall(writes)] if writes else []
        parameters: Sequence[Any] = [*self.feeds.values(), *self.states.values()]
        made = Computation([*returns, *group], parameters, tuple)
        made.location = self.program.location
        lifted = lift(made)
        interface = Interface.of(lifted.module, [*self.feeds], [*self.states], lifted.tied, [*self.agreed])
        written = [Written(operator, name, at) for at, (operator, name, _) in enumerate(shown, len(fetched))]
        names = tuple([name for name, _ in fetched])
        return Lowered(lifted.module, interface, names, tuple(written), lifted.trace)


def _storage(name: str, type: TensorType, role: Role) -> AssignableTensorOp:
    axes = Positions([FixedAxis(n) for n in type.shape])
    made = AssignableTensorOp(axes, type.element, role)
    made.given_name = name
    return made
