# SPDX-License-Identifier: Apache-2.0
"""Iteration spaces: which dimensions of different values are the same loop.

Each value's elements are indexed by a sequence of atoms, outermost first. An atom is one loop of some size.
Relating two values through an op unifies their atoms; where sizes differ but divide, an atom is split into an
outer and an inner one. So reshapes need no copy: `24` and `2x12` have the same loops as soon as 24 is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...ir.core import Op, Value
from ...ir.types import shape_of
from ...ops.fields import get_i64, get_i64s
from ...support.lengths import is_same, quotient

Atoms = tuple[int, ...]


class IterationSpace:
    """All atoms of one function, with a trail by which changes can be undone."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.same: list[int] = []  # union-find: the atom that this one was unified with
        self.parts: list[Atoms] = []  # for a split atom: its outer and inner atoms
        self.trail: list[tuple[int, int, Atoms]] = []

    def atom(self, size: int) -> int:
        self.sizes.append(size)
        self.same.append(len(self.same))
        self.parts.append(())
        return len(self.sizes) - 1

    def atoms(self, shape: Iterable[int]) -> Atoms:
        """New atoms for a shape, one per dimension (also for dimensions of one element)."""
        return tuple([self.atom(size) for size in shape])

    def mark(self) -> int:
        return len(self.trail)

    def undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            atom, same, parts = self.trail.pop()
            self.same[atom], self.parts[atom] = same, parts

    def resolve(self, atoms: Sequence[int]) -> Atoms:
        """The current form of atoms: unified, split, and without loops of one iteration."""
        same, parts, sizes = self.same, self.parts, self.sizes
        for atom in atoms:
            if same[atom] != atom or parts[atom] or is_same(sizes[atom], 1):
                break
        else:
            return tuple(atoms)  # unchanged: the usual case
        out: list[int] = []
        stack = list(reversed(atoms))
        while stack:
            atom = stack.pop()
            while same[atom] != atom:
                atom = same[atom]
            if parts[atom]:
                stack += reversed(parts[atom])
            elif not is_same(sizes[atom], 1):
                out.append(atom)
        return tuple(out)

    def unify(self, a: Sequence[int], b: Sequence[int]) -> bool:
        """Makes two sequences the same loops; False (the caller must undo) if their sizes do not allow it."""
        if a == b:
            return True
        left, right = list(self.resolve(a)), list(self.resolve(b))
        while left and right:
            x, y = left.pop(), right.pop()
            if x == y:
                continue
            size_x, size_y = self.sizes[x], self.sizes[y]
            if is_same(size_x, size_y):
                self.trail.append((x, self.same[x], self.parts[x]))
                self.same[x] = y
                # x may occur in the rest of both sequences
                left, right = list(self.resolve(left)), list(self.resolve(right))
                continue
            times = quotient(size_x, size_y)
            if times is None:
                times = quotient(size_y, size_x)
                x, y, size_y = y, x, size_x
                left, right = right, left
            if times is None:
                return False
            outer, inner = self.atom(times), self.atom(size_y)
            self.trail.append((x, self.same[x], self.parts[x]))
            self.parts[x] = (outer, inner)
            left = [*self.resolve([*left, outer]), *self.resolve([inner])]
            right = [*self.resolve(right), y]
        return not left and not right

    def size(self, atoms: Sequence[int]) -> int:
        product = 1
        for atom in self.resolve(atoms):
            product *= self.sizes[atom]
        return product


def relate(space: IterationSpace, op: Op, known: Mapping[Value, Atoms]) -> dict[Value, Atoms] | None:
    """Atoms for those of an op's result and operands that are not `known` yet, related as the op relates their elements;
    None for an op that relates no elements, or where known atoms contradict it."""
    related = _related(space, op, known)
    if related is None:
        return None
    atoms, sources = related
    made: dict[Value, Atoms] = {}
    for value, own in ((op.results[0], atoms), *zip(op.operands, sources, strict=True)):
        if own is None:
            continue
        found = known.get(value)
        if not space.unify(made.setdefault(value, own) if found is None else found, own):
            return None
    return made


def _related(
    space: IterationSpace, op: Op, known: Mapping[Value, Atoms]
) -> tuple[Atoms, Sequence[Atoms | None]] | None:
    """The atoms of the result and of the operands: those of a known value, else new ones; None for an operand that is indexed."""

    def atoms_of(value: Value) -> Atoms:
        found = known.get(value)
        return space.atoms(shape_of(value.type)) if found is None else found

    result = op.results[0]
    traits = op.traits
    if "elementwise" in traits or op.name in ("ng.constant", "ng.iota", "ng.extent"):
        atoms = atoms_of(next((value for value in (result, *op.operands) if value in known), result))
        return atoms, [atoms] * len(op.operands)
    if op.name == "ng.reshape":
        atoms, source = atoms_of(result), atoms_of(op.operands[0])
        return (atoms, [source]) if space.unify(atoms, source) else None
    if op.name == "ng.broadcast":
        atoms = atoms_of(result)
        return atoms, [tuple([atoms[d] for d in get_i64s(op, "dimensions")])]
    if op.name == "ng.gather":
        atoms, axis = atoms_of(result), get_i64(op, "axis")
        return atoms, [None, atoms[axis : axis + len(shape_of(op.operands[1].type))]]
    if op.name == "ng.gather_elements":
        atoms = atoms_of(result)
        return atoms, [None, atoms]
    if "reduction" in traits:
        source = atoms_of(op.operands[0])
        axes = get_i64s(op, "axes")
        return tuple([a for d, a in enumerate(source) if d not in axes]), [source]
    return None


def label(space: IterationSpace, ops: Sequence[Op], known: dict[Value, Atoms]) -> bool:
    """Gives atoms to all values of related ops, starting from `known`; False if the ops contradict each other."""
    for op in ops:
        related = relate(space, op, known)
        if related is None:
            return False
        known.update(related)
    return True
