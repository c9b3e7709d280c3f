# SPDX-License-Identifier: Apache-2.0
"""Groups of ops that run over the same loops and become one kernel. Loops are the atoms of `analysis.space`; `sources` defines free
ops and moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.core import Block, Op, Value, count_uses
from ...ir.types import shape_of
from ...support.diagnostics import Bug
from ...support.lengths import usual
from ...support.target import Target
from ..analysis.access import MOVES, Access, access_of
from ..analysis.group import MAX_OPS, Group, fusible, indexed, precede, reads, takes_rows
from ..analysis.sides import depths, side_of
from ..analysis.space import Atoms, IterationSpace, relate
from .align_sides import is_aligned
from .refusals import ALONE, BACK, LOOPS, SIDES, TOO_MANY, WHOLE, Refusals, own_kernel
from .sources import Sources


class Groups(Sources):
    """The groups of one block."""

    def __init__(self, block: Block, target: Target):
        super().__init__(block, target)
        self.space = IterationSpace()
        self.by_number: list[Group | None] = []  # None: merged into another
        self.uses = count_uses(block)
        self.gathers = {op for op in block.ops if "gathers" in op.traits}
        self.sides: set[Value] = set()  # operands of products that are read through moves
        self.refusals = Refusals(self.space, self.group_by_op, self.order)
        for op in block.ops:
            if self.write_moved(op):
                continue
            self.look(op)
            if not self.free(op) and fusible(op):
                self.assign(op)
            elif not self.free(op):
                self.open_alone(op)
        self.materialise(block.ops)

    def live(self) -> list[Group]:
        """All groups that were not merged into another, in order of creation."""
        return [group for group in self.by_number if group is not None]

    def write_moved(self, op: Op) -> bool:
        """Lets a product write its result permuted, if a transpose is its only reader; whether it does."""
        if op.name not in MOVES:
            return False
        chain = [op]
        while self.uses[chain[-1].operands[0]] == 1:
            free = self.free_op(chain[-1].operands[0])
            if free is None or free.name != "ng.reshape":
                break
            chain.append(free)
        source = chain[-1].operands[0]
        group = self.group_of(source)
        if group is None or group.kind != "dot" or self.uses[source] != 1 or source not in group.atoms:
            return False  # a value without atoms is written permuted already
        found = access_of(op, lambda _: None, whole=True)
        if found is None or not found[1].permutes or not self.split_batch(group, source, found[1]):
            return False
        group.ops.update(dict.fromkeys(chain))
        group.behind.update(chain)
        self.group_by_op[op] = group
        return True

    def split_batch(self, group: Group, source: Value, access: Access) -> bool:
        """Whether a product can run over the loops of a permuted result: its batch may be several loops, rows and columns one."""
        mark, space = self.space.mark(), self.space
        dot = next(op for op in group.ops if op.name == "ng.dot").results[0]
        if space.unify(group.atoms[source], space.atoms(access.shape)):
            domain, matrix = space.resolve(group.domain or ()), group.atoms[dot][-2:]
            if all(len(space.resolve([atom])) <= 1 for atom in matrix):
                group.rank = len(domain)
                return True
        space.undo(mark)
        return False

    # -- choosing ----------------------------------------------------------------------------------------

    def assign(self, op: Op) -> None:
        """Puts an op into the group of one of its operands, or into a new one; then merges groups of other operands into it."""
        self.assign_across(self.windows_of_bytes(op) if op.name == "ng.dot" else op.operands)
        feeders = self.feeders(op)
        if op.name != "ng.dot":
            ranked = sorted(
                feeders, key=lambda k: (-usual(self.space.size(k.domain or ())), k.kind == "map", -k.number)
            )
            for group in ranked:
                if self.join(op, group, feeders):
                    for other in ranked:
                        if other is not group and not self.merge(group, other):
                            self.refusals.join(op, other)
                    return
                self.refusals.join(op, group)
        self.open(op)

    def assign_across(self, values: Sequence[Value]) -> None:
        """Gives kernels of their own to the moves in `across` that readers of values would read."""
        stack = list(values)
        while stack:
            free = self.free_op(stack.pop())
            if free in self.across:
                self.open_alone(free)
            elif free is not None:
                stack += free.operands

    def open(self, op: Op) -> None:
        if op.name != "ng.dot":
            self.open_group(op)
            return
        group = self.new("dot")
        group.atoms[op.results[0]] = group.domain = self.space.atoms(shape_of(op.results[0].type))
        group.rank = len(self.space.resolve(group.domain))
        group.ops[op] = None
        for side, depth in zip(op.operands, depths(op), strict=True):
            found = side_of(side, depth, self.through_side)
            made = self.target.has_thread_blocks and found is not None and is_aligned(side, depth, found[1])
            if found is not None and not made and not self.free_op(found[0]):
                self.sides.add(side)
                self.add_sources(side, group, [])
        if self.refusals.enabled:
            self.refusals.sources(op, self.sources(reads(op)), SIDES)
        self.record(op, group)

    def open_group(self, op: Op) -> None:
        """Opens a group with this op and the free ops that it reads."""
        group = self.new("map")
        if not self.add(op, group):
            # The loops of the op contradict those of its free operands (a broadcast across uneven reshapes): these get groups.
            for value in op.operands:
                free = self.free_op(value)
                if free is not None:
                    self.assign_free(free)
                    self.follow_late(free)
            if not self.add(op, group):
                raise Bug(f"{op.name} cannot stand in a group of its own", op.location)
        self.record(op, group)

    def assign_free(self, op: Op) -> None:
        """Opens a group for an op that readers usually repeat; a reshape or constant stays an op, a move becomes a kernel."""
        if op.name in ("ng.reshape", "ng.constant") or op in self.moves:
            self.open_alone(op)
        else:
            self.open_group(op)

    def follow_late(self, op: Op) -> None:
        """Orders the groups that read a free op after the group that the op has only now."""
        made = self.group_by_op[op]
        for group in self.live():
            if group is not made and any(made in self.feeders(reader, group) for reader in group.ops):
                group.follow([made])

    def new(self, kind: str) -> Group:
        group = Group(len(self.by_number), kind)
        self.by_number.append(group)
        return group

    def open_alone(self, op: Op) -> None:
        """Opens a group of kind `alone` for one op, which is not fused; its operands must be in memory."""
        group = self.new("alone")
        group.ops[op] = None
        if self.refusals.enabled and "terminator" not in op.traits:
            self.refusals.sources(op, self.sources(reads(op)), own_kernel(op))
        self.record(op, group)

    def record(self, op: Op, group: Group) -> None:
        self.group_by_op[op] = group
        group.follow(self.feeders(op))

    def feeders(self, op: Op, inside: Group | None = None) -> set[Group]:
        """The groups that compute an op's operands.

        Free ops that are repeated in the group `inside` are computed there and do not count; but the sides of a product
        come from memory, as does what is gathered.
        """
        own, whole = inside.ops if inside is not None else {}, indexed(op)
        sources = self.sources(v for v in reads(op) if v.owner not in own or v in whole)
        return {home for v in sources if (home := self.group_of(v)) is not None}

    # -- joining -----------------------------------------------------------------------------------------

    def join(self, op: Op, group: Group, feeders: Iterable[Group]) -> bool:
        if group.kind == "alone":
            return self.refusals.refuse(ALONE)
        if len(group.ops) >= MAX_OPS:
            return self.refusals.refuse(TOO_MANY)
        if any(feeder is not group and feeder.before & group.mark for feeder in feeders):
            return self.refusals.refuse(BACK)
        if any(self.group_of(v) is group for v in self.moved(op)):
            return self.refusals.refuse(WHOLE)
        if not self.add(op, group):
            return False
        self.group_by_op[op] = group
        group.follow(feeders)
        return True

    def add(self, op: Op, group: Group) -> bool:
        """Adds an op with its free operands if the loops agree; else changes nothing.

        The loops of a product cannot be split: where the shape of a value in memory that the op reads would split them, the
        group reads a reshape of the value in the shape that the op needs, which is a view."""
        if self.added(op, group):
            return True
        if group.kind != "dot":
            return False
        views: list[Op] = []
        if not self.added(op, group, views):
            return False
        group.views.update(dict.fromkeys(views))
        return True

    def added(self, op: Op, group: Group, views: list[Op] | None = None) -> bool:
        """Adds an op; with `views`, reshapes of values in memory are added to that list instead of the group."""
        mark = self.space.mark()
        before_domain, before_kind, before_reduced = group.domain, group.kind, group.reduced
        before_behind = set(group.behind)
        added_ops: list[Op] = []
        added_values: list[Value] = []
        before = None if group.domain is None else self.space.resolve(group.domain)
        self.refusals.refuse(LOOPS)
        if self.relate(op, group, added_ops, added_values, views):
            # If the group's loops did not change, neither did those of its old values.
            same = before is not None and self.space.resolve(group.domain or ()) == before
            if self.allowed(op, group, added_values if same else list(group.atoms)) and self.readable(group):
                return True
        self.space.undo(mark)
        for value in added_values:
            del group.atoms[value]
        for added in added_ops:
            del group.ops[added]
        group.domain, group.kind, group.reduced = before_domain, before_kind, before_reduced
        group.behind = before_behind
        return False

    def relate(
        self, op: Op, group: Group, ops: list[Op], values: list[Value], views: list[Op] | None
    ) -> bool:
        """Labels the op, and the free ops that it reads, with the group's loops; False where they contradict each other."""
        pending = [op]
        while pending:
            current = pending.pop()
            if current in group.ops and current not in group.behind:
                continue
            if (
                views is not None
                and current.name == "ng.reshape"
                and self.in_memory(current.operands[0], group)
            ):
                views.append(current)
                continue
            related = self.related(current, group)
            if related is None:
                return False
            if current in group.behind:
                group.behind.remove(current)
            else:
                group.ops[current] = None
                ops.append(current)
            group.atoms.update(related)
            values += related
            if current in self.moves:
                self.add_sources(current.operands[0], group, ops)
                continue
            free = [self.free_op(v) for v in current.operands if v not in indexed(current)]
            pending += [op for op in free if op is not None]
        return True

    def in_memory(self, value: Value, group: Group) -> bool:
        """Whether the kernel of a group would read a value from memory."""
        return self.free_op(value) is None and self.group_of(value) is not group

    def related(self, op: Op, group: Group) -> dict[Value, Atoms] | None:
        """Atoms for the values of an op that have none yet; None where its loops contradict those of the group."""
        if op not in self.moves:
            return relate(self.space, op, group.atoms)
        (result,) = op.results
        return {} if result in group.atoms else {result: self.space.atoms(shape_of(result.type))}

    def add_sources(self, value: Value, group: Group, ops: list[Op]) -> None:
        """Adds the free ops from which the operand of a move is computed; they are labelled with no loops."""
        stack = [value]
        while stack:
            free = self.free_op(stack.pop())
            if free is not None and free not in group.ops:
                group.ops[free] = None
                group.behind.add(free)
                ops.append(free)
                stack += free.operands

    def allowed(self, op: Op, group: Group, values: Iterable[Value]) -> bool:
        """Whether an op, already labelled, suits the group's kind; may turn a map into rows or columns. `values` are
        those that may have loops that the group lacks."""
        space = self.space
        result = space.resolve(group.atoms[op.results[0]])
        reduction = "reduction" in op.traits
        extent = space.resolve(group.atoms[op.operands[0]]) if reduction else result
        if group.domain is None:
            group.domain = extent
        domain = space.resolve(group.domain)
        if len(set(domain)) != len(domain):
            return False  # two different loops were unified: a diagonal of the iteration space
        if group.kind == "dot" and len(domain) != group.rank:
            return self.refusals.refuse("the loops of a matrix product can neither be split nor joined")
        inside = set(domain)
        if any(not inside.issuperset(space.resolve(group.atoms[v])) for v in values):
            return False
        group.reduced = frozenset(space.resolve(tuple(group.reduced)))
        kept = tuple(a for a in domain if a not in group.reduced)
        after = any(v in group.dependent for v in self.sources(op.operands))
        if after and op in self.gathers:  # nothing would be saved: the indices are few
            return self.refusals.refuse("its indices are complete only when the reduction is")
        gone = frozenset(extent) - frozenset(result)
        if gone:
            return extent == domain and self.reduces(op, group, gone, after)
        match group.kind:
            case "rows":
                good = result in (domain, kept)
            case "columns":
                good = result == (kept if after else domain)
                if after and result == domain:
                    self.refusals.refuse("a column reduction is complete only when its kernel ends")
            case _:
                good = result == domain
        if good and after:
            group.dependent.add(op.results[0])
        return good

    def readable(self, group: Group, into: Group | None = None) -> bool:
        """Whether the kernel of a group, as part of another one if that is given, can read through all of its moves and by index."""
        whole = into or group
        if whole.kind == "map" or not (self.moves or self.gathers):
            return True
        gathers = self.gathers.intersection(group.ops)
        if gathers and not (self.gathers_in_order(whole) and all(map(takes_rows, gathers))):
            return self.refusals.refuse("a reduction gathers contiguous elements, in the order of its loops")
        moves = [op for op in group.ops if op in self.moves and op not in group.behind]
        by_tiles = whole.kind != "dot" or all(self.by_tiles(op, group) for op in moves)
        if by_tiles and self.parts.isdisjoint(moves):
            return True
        return self.refusals.refuse("its kernel cannot read moved elements where they lie")

    def gathers_in_order(self, group: Group) -> bool:
        """Whether gathers can be in a group: its kernel is no product, and its loops have the order of the dimensions."""
        reduced, domain = group.reduced, self.space.resolve(group.domain or ())
        last = domain[len(domain) - len(reduced) :]
        return group.kind == "columns" or (group.kind == "rows" and reduced.issuperset(last))

    def by_tiles(self, move: Op, group: Group) -> bool:
        """Whether tiles of several loops can be read through a move: each dimension of the buffer depends on one loop at most."""
        access, atoms = self.moves[move], group.atoms[move.results[0]]
        runs = [len(self.space.resolve([atoms[d] for d in run])) for run in access.runs]
        return all(sum(runs[t] for t in place.terms) <= 1 for place in access.places)

    def reduces(self, op: Op, group: Group, gone: frozenset[int], after: bool) -> bool:
        """Whether a reduction over the loops `gone` suits the group; the first reduction turns a map into rows or columns."""
        domain = self.space.resolve(group.domain or ())
        if group.kind == "map":
            group.kind = "rows" if domain[-1] in gone else "columns"
            group.reduced = gone
        elif gone != group.reduced or (group.kind == "columns" and after):
            return self.refusals.refuse("a kernel reduces over the same loops everywhere")
        group.dependent.add(op.results[0])
        return True

    def merge(self, group: Group, other: Group) -> bool:
        """Merges `other` into `group` if its ops could be in it: a map, or rows into rows, with no third group between; whether it
        did."""
        both_rows = group.kind == other.kind == "rows"
        if not (other.kind == "map" or both_rows) or group.kind == "alone":
            return self.refusals.refuse(ALONE)
        if len(group.ops) + len(other.ops) > MAX_OPS:
            return self.refusals.refuse(TOO_MANY)
        if self.between(group, other) or self.between(other, group):
            return self.refusals.refuse(BACK)
        if self.needs_whole(group, other) or self.needs_whole(other, group):
            return self.refusals.refuse(WHOLE)
        self.refusals.refuse(LOOPS)
        mark = self.space.mark()
        domain = self.space.resolve(group.domain or ())
        reduced = frozenset(self.space.resolve(tuple(group.reduced)))
        kept = tuple(a for a in domain if a not in reduced)
        # A group with reductions may also take in a map over the loops that remain after the reduction.
        small = self.space.size(other.domain or ()) != self.space.size(domain)
        good = self.space.unify(kept if small else domain, other.domain or ())
        good = good and all(
            self.space.unify(group.atoms[v], atoms) for v, atoms in other.atoms.items() if v in group.atoms
        )
        domain = self.space.resolve(group.domain or ())
        whole = group.kind != "dot" or len(domain) == group.rank
        good = good and self.readable(group) and self.readable(other, group)
        if both_rows:
            mine, theirs = (frozenset(self.space.resolve(tuple(k.reduced))) for k in (group, other))
            whole = mine == theirs
        if not good or not whole or len(set(domain)) != len(domain):
            self.space.undo(mark)
            return False
        self.absorb(group, other)
        return True

    def absorb(self, group: Group, other: Group) -> None:
        """Moves ops, atoms and ordering of `other` to `group`."""
        hidden = group.behind | other.behind
        group.behind = {op for op in hidden if all(op in k.behind for k in (group, other) if op in k.ops)}
        group.ops.update(other.ops)
        group.dependent |= other.dependent
        for value, atoms in other.atoms.items():
            group.atoms.setdefault(value, atoms)
        for op in other.ops:
            if self.group_by_op.get(op) is other:
                self.group_by_op[op] = group
        self.by_number[other.number] = None
        other.successor = group
        group.mark |= other.mark
        group.before = (group.before | other.before) & ~group.mark
        group.after.update(other.after)
        precede(group.before | group.mark, group.after)  # successors of either group follow both
        group.follow([f for op in other.ops for f in self.feeders(op, group)])

    def between(self, first: Group, last: Group) -> bool:
        """Whether a third group comes after `first` and before `last`."""
        if not last.before & first.mark:
            return False
        own = (first, last)
        return any(f not in own and f.before & first.mark for op in last.ops for f in self.feeders(op, last))

    def needs_whole(self, group: Group, other: Group) -> bool:
        """Whether `group` multiplies or moves values of `other`, which must be complete before its kernel starts."""
        read = [v for op in group.ops for v in (op.operands if op in self.moves else indexed(op))]
        return any(self.group_of(v) is other for v in self.sources(read))

    def materialise(self, ops: Sequence[Op]) -> None:
        """Opens groups for free ops whose results unfused ops, products and gathers read (reshapes stay views)."""
        for op in reversed(ops):
            group = self.group_by_op.get(op)
            if group is None:
                continue
            pending = (
                [*reads(op)] if group.kind == "alone" else [v for v in indexed(op) if v not in self.sides]
            )
            while pending:
                free = self.free_op(pending.pop())
                if free is not None:
                    self.assign_free(free)
                    if free.name == "ng.reshape" or free in self.moves:
                        pending += free.operands
