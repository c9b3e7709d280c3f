# SPDX-License-Identifier: Apache-2.0
"""Where each rank has a part of some parameters: which part of every variable it has, and where ranks have to communicate.

Parameters say along which dimension they are divided (`sharded` of what is said of a parameter; tables that are `is_distributed`
are by rows). In the order of the operators, each takes what its inputs are, and says what its outputs are: whole, divided along a
dimension, or a part of a sum over ranks. Where it can take its inputs in several ways, the one that moves the fewest bytes is
taken. What the updates of a parameter keep is divided as the parameter is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ..ir.attributes import DictAttr
from ..ir.literals import item_bytes
from ..ir.types import DYNAMIC, TensorType
from ..support.diagnostics import Diagnostic, UserError
from .attributes import OpRole
from .catalogue import REGISTRY
from .descriptions import Operator, Program, Variable
from .infer import Types, raggedness_of, types_of
from .names import EMPTY
from .splits import SCALE, Held, Split, State, lengthened, places_in, same_shape, scaled, shortened, unchanged
from .spreads import Place, Spread, read_places, same_on_parts, spreads, sums_kept
from .tables import distributed_tables, divided, looks_up


@dataclass
class Step:
    """An operator of the program, and what ranks do before it: sums of variables that they have parts of, and others in another
    form, under the name that the operator reads instead."""

    operator: Operator
    summed: list[str] = field(default_factory=list[str])
    gathered: list[str] = field(default_factory=list[str])
    sliced: dict[str, Split] = field(default_factory=dict[str, Split])
    #: The attributes of each rank's operator, where lengths in them are those of parts.
    attributes: Sequence[DictAttr] | None = None
    #: How the table is divided that it looks up rows of.
    table: Split | None = None


@dataclass(frozen=True)
class _Way:
    """A way to run an operator: what has to be done first, what its outputs are then, and the bytes that move."""

    step: Step
    given: Mapping[str, State]
    adopted: Mapping[str, State]
    moved: int


class Sharding:
    """A program, of whose parameters some are divided among `ranks`: `states` says what a rank has of each variable at the end, `steps`
    what it does.

    Raises UserError, at the operator's line, where an operator needs all of a parameter, and for a parameter that cannot be divided.
    """

    def __init__(self, program: Program, ranks: int):
        if ranks < 1:
            raise UserError(f"there is at least one rank, not {ranks}")
        self.program, self.ranks = program, ranks
        self.states: dict[str, State] = {}
        self._is_updating = False
        for variable in program.top.variables.values():
            if (dimension := sharded_along(variable)) is not None:
                self.states[variable.name] = self._divided(variable, dimension)
        for table in distributed_tables(program):
            if table not in self.states:
                self.states[table] = self._divided(program.top.visible(table), 0)
        if not self.states:
            hint = "fluid.ParamAttr(sharded=1) divides a weight by columns, sharded=0 by rows; embedding(is_distributed=True) a table"
            raise UserError(
                Diagnostic("no parameter of the program is divided among ranks", program.location, hint=hint)
            )
        self.steps = [self._step(operator) for operator in program.top.operators]

    def state(self, name: str) -> State:
        """What a rank has of a variable at the end."""
        return self.states.get(name, Held.WHOLE)

    def _divided(self, variable: Variable, dimension: int) -> Split:
        return Split(dimension, divided(variable, dimension, self.ranks))

    # ---- one operator

    def _step(self, operator: Operator) -> Step:
        settled = self._settled(operator)
        ways = [*self._ways(operator)]
        if not ways:
            self._refuse(operator)
        best = min(ways, key=lambda way: way.moved)
        for name in operator.reads:
            self.states.setdefault(name, Held.WHOLE)
        self.states.update(best.adopted)
        self.states.update(dict.fromkeys(best.step.summed, Held.WHOLE))
        self.states.update(best.given)
        best.step.summed[:0] = settled
        return best.step

    def _settled(self, operator: Operator) -> list[str]:
        """The gradients that are added up before the first update, all together."""
        is_update = bool((operator.attribute("op_role") or 0) & OpRole.Optimize)
        if self._is_updating or not is_update:
            return []
        self._is_updating = True
        later = {name for o in self.program.top.operators[operator.index :] for name in o.reads}
        settled = [n for n, state in self.states.items() if state is Held.SUM and n in later]
        self.states.update(dict.fromkeys(settled, Held.WHOLE))
        return settled

    def _ways(self, operator: Operator) -> Iterable[_Way]:
        """The ways to run an operator; the first one is taken where others are no better."""
        have = {place: self.state(name) for place, name in places_in(operator.inputs)}
        if (table := self._table(operator)) is not None:
            yield table
            return
        if all(state is Held.WHOLE for state in have.values()):
            # Nothing is known of a variable that is read first here: it may be divided with others, which are not here.
            given: dict[str, State] = dict.fromkeys(_written(operator), Held.WHOLE)
            if self._fits(given):
                yield _Way(Step(operator), given, {}, 0)
            return
        if (kept := self._with_sums(operator, have)) is not None:
            yield kept
        if operator.sub_block is None:
            for spread in spreads(*self._signature(operator)):
                if (way := self._divided_by(operator, spread)) is not None:
                    yield way
        if (whole := self._whole(operator)) is not None:
            yield whole

    def _signature(self, operator: Operator) -> tuple[str, Types, DictAttr, frozenset[Place], object]:
        wanted = frozenset(p for p, _ in places_in(operator.outputs))
        # Without roles, by which operators that are otherwise equal differ.
        own = {a.name for a in REGISTRY.get(operator.type).entry.attributes}
        attributes = DictAttr(tuple([item for item in operator.dictionary.items if item[0] in own]))
        return operator.type, types_of(operator), attributes, wanted, raggedness_of(operator)

    def _with_sums(self, operator: Operator, have: Mapping[Place, State]) -> _Way | None:
        """Several sums become one through what is linear, so that one is made instead of several."""
        sums = frozenset(place for place, state in have.items() if state is Held.SUM)
        if (
            len(sums) < 2
            or operator.sub_block is not None
            or any(isinstance(s, Split) for s in have.values())
        ):
            return None
        kept = sums_kept(*self._signature(operator), sums)
        if kept is None:
            return None
        given = {n: Held.SUM if p in kept else Held.WHOLE for p, n in places_in(operator.outputs)}
        return _Way(Step(operator), given, {}, 0) if self._fits(given) else None

    def _divided_by(self, operator: Operator, spread: Spread) -> _Way | None:
        """The operator where each rank takes some steps of one of its loops."""
        inputs, outputs = dict(places_in(operator.inputs)), dict(places_in(operator.outputs))
        lengths = [
            self._type(names[p]).shape[d]
            for names, places in ((inputs, spread.inputs), (outputs, spread.outputs))
            for p, d in places.items()
        ]
        if DYNAMIC in lengths:
            return None
        driver = next((p for p, d in spread.inputs.items() if _along(self.state(inputs[p]), d)), None)
        if driver is None:
            return None
        state = self.state(inputs[driver])
        assert isinstance(state, Split)
        inner = sum(state.sections) // spread.units
        if any(s % inner for s in state.sections):
            return None
        counts = [s // inner for s in state.sections]

        def split(name: str, dimension: int) -> Split:
            length = self._type(name).shape[dimension]
            return Split(dimension, tuple([n * (length // spread.units) for n in counts]))

        read = read_places(*self._signature(operator))
        step, adopted, moved = Step(operator), dict[str, State](), 0
        for place, name in inputs.items():
            has = self.state(name)
            wanted = split(name, spread.inputs[place]) if place in spread.inputs else Held.WHOLE
            if has == wanted or place not in read:
                continue
            if has is Held.SUM:
                step.summed.append(name)
                moved += 2 * self._bytes(name)
                has = Held.WHOLE
            if isinstance(has, Split):
                if self.program.top.visible(name).persistable or isinstance(wanted, Split):
                    return None
                step.gathered.append(name)
                moved += self._bytes(name)
            elif isinstance(wanted, Split):
                if name not in self.states and self.program.top.visible(name).persistable:
                    adopted[name] = wanted
                else:
                    step.sliced[name] = wanted
        given: dict[str, State] = {}
        for place, name in outputs.items():
            given[name] = Held.SUM if place in spread.sums else Held.WHOLE
            if place in spread.outputs:
                given[name] = split(name, spread.outputs[place])
        moved += sum(2 * self._bytes(n) for n, s in given.items() if s is Held.SUM)
        way = _Way(step, given, adopted, moved)
        return self._checked(operator, way) if self._fits(given, adopted) else None

    def _checked(self, operator: Operator, way: _Way) -> _Way | None:
        """The way, where the operator computes on parts what it does on the whole; with lengths in its attributes as those of parts."""
        type, types, attributes, wanted, ragged = self._signature(operator)
        before = {
            **self.states,
            **way.adopted,
            **dict.fromkeys(way.step.gathered, Held.WHOLE),
            **way.step.sliced,
        }
        states = {**before, **way.given}
        for localised in (unchanged, shortened):
            whole = localised(operator, attributes, states, None, SCALE)
            for rank in range(self.ranks):
                try:
                    made = same_on_parts(
                        type,
                        scaled(operator, types, before, None),
                        whole,
                        scaled(operator, types, before, rank),
                        localised(operator, attributes, states, rank, SCALE),
                        wanted,
                        ragged,
                    )
                except UserError:
                    break
                shapes = {
                    p: lengthened(self._type(n), way.given[n], rank, SCALE).shape
                    for p, n in places_in(operator.outputs)
                }
                if made is None or not all(same_shape(made[p], shapes[p]) for p in made):
                    break
            else:
                every = operator.dictionary
                found = [localised(operator, every, states, rank, 1) for rank in range(self.ranks)]
                step = way.step if localised is unchanged else replace(way.step, attributes=found)
                return replace(way, step=step)
        return None

    def _whole(self, operator: Operator) -> _Way | None:
        """The operator on whole variables."""
        step, moved = Step(operator), 0
        read = {name for _, name in self._read(operator)}
        for name in dict.fromkeys(operator.reads):
            state = self.state(name)
            if name == EMPTY or name not in read or state is Held.WHOLE:
                continue
            if isinstance(state, Split):
                if self.program.top.visible(name).persistable:
                    return None
                step.gathered.append(name)
                moved += self._bytes(name)
            else:
                step.summed.append(name)
                moved += 2 * self._bytes(name)
        given: dict[str, State] = dict.fromkeys(_written(operator), Held.WHOLE)
        return _Way(step, given, {}, moved) if self._fits(given) else None

    def _read(self, operator: Operator) -> Iterable[tuple[Place, str]]:
        """The inputs whose values an operator depends on."""
        every = [*places_in(operator.inputs)]
        if operator.sub_block is not None:
            return every
        signature = self._signature(operator)
        # One whose shape alone matters has to have that of the whole.
        shapes = {p for p, n in every if isinstance(self.state(n), Split)}
        read = read_places(*signature) | shapes
        return [(p, n) for p, n in every if p in read]

    def _table(self, operator: Operator) -> _Way | None:
        """Rows of a table that is divided by rows: each rank looks among its own, and gives zeros for those of others."""
        if not looks_up(operator):
            return None
        (table,) = operator.inputs["W"]
        state = self.state(table)
        if not _along(state, 0):
            return None
        assert isinstance(state, Split)
        step, moved = Step(operator, table=state), 0
        for slot in ("Ids", "Out@GRAD"):
            for name in operator.inputs.get(slot, ()):
                if isinstance(self.state(name), Split):
                    step.gathered.append(name)
                elif self.state(name) is Held.SUM:
                    step.summed.append(name)
                moved += self._bytes(name)
        made: State = Held.SUM if operator.type == "lookup_table" else state
        return _Way(step, dict.fromkeys(_written(operator), made), {}, moved)

    # ---- what is known

    def _fits(self, given: Mapping[str, State], adopted: Mapping[str, State] | None = None) -> bool:
        """Whether what is kept from run to run stays divided as it is."""
        visible = self.program.top.visible
        return all(
            state == (adopted or {}).get(name, self.state(name))
            for name, state in given.items()
            if visible(name).persistable
        )

    def _type(self, name: str) -> TensorType:
        return self.program.top.visible(name).type

    def _bytes(self, name: str) -> int:
        """Those of a variable; a length that is not known counts as 1."""
        type = self._type(name)
        return prod(1 if n == DYNAMIC else n for n in type.shape) * item_bytes(type.element)

    def _refuse(self, operator: Operator) -> None:
        visible = self.program.top.visible
        names = [*operator.reads, *_written(operator)]
        found = next(
            n for n in names if n != EMPTY and isinstance(self.state(n), Split) and visible(n).persistable
        )
        state = self.state(found)
        assert isinstance(state, Split)
        message = (
            f"operator {operator.type} needs all of '{found}', and each of {self.ranks} ranks has a part of its"
            f" dimension {state.dimension}"
        )
        hint = "divide another dimension, or leave it whole: sharded=None"
        if "Grad" in operator.inputs and "ParamOut" in operator.outputs:
            hint = "use an optimizer that updates each element by itself, such as SGD, Momentum or Adam"
        raise UserError(Diagnostic(message, operator.location, hint=hint))


def sharded_along(variable: Variable) -> int | None:
    """The dimension along which a parameter is to be divided among ranks; None for one that each has."""
    said = variable.parameter
    return None if said is None else said.get("sharded")


def _along(state: State, dimension: int) -> bool:
    return isinstance(state, Split) and state.dimension == dimension


def _written(operator: Operator) -> list[str]:
    return [name for name in operator.writes if name != EMPTY]
