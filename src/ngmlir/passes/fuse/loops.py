# SPDX-License-Identifier: Apache-2.0
"""The loops of a fusion: ops in it that only move data become indexing maps of its operands and results, and each dimension of its
values is mapped to loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...ir.core import Block, Op, Region, Value
from ...ir.types import TensorType, shape_of
from ...ops.fields import get_i64
from ...support.diagnostics import Diagnostic, Limit
from ...support.target import Target
from ..analysis.access import MAPPED_MOVES, Access, access_of
from ..analysis.group import indexed, kind
from ..analysis.sides import Side, depths, side_of
from ..analysis.space import Atoms, IterationSpace, label


@dataclass(frozen=True)
class FusionLoops:
    """A fusion with its loops. Its block has no ops that only move an operand: it has further arguments for operands that are read
    through indexing maps. The terms of `accesses` and `written` are loops."""

    fusion: Op
    sizes: tuple[int, ...]
    loops: Mapping[Value, tuple[int, ...]]  # the loops of the dimensions of a value, in order
    counted: Mapping[Op, tuple[int, ...]]  # for an iota: the loops of the counted dimension
    accesses: Mapping[Value, tuple[Value, Access]]  # argument -> the one that it is read from, and the map
    sides: Mapping[Value, tuple[Value, Side]]  # the same for operands of products
    written: Mapping[Value, Access]  # results that are written through a permutation
    gathers: Mapping[
        Op, tuple[tuple[int, ...], tuple[int, ...]]
    ]  # the loops before and after the axis of a gather


def loops_of(fusion: Op, target: Target) -> FusionLoops:
    """The loops of a fusion. Raises Limit where its ops have no common loops.

    Tiles of GPU threads may have several rows, and then run along two dimensions of an operand that is read through a map: there
    the dimensions of the operand are not merged, if that does not shorten any loop."""
    found = _found(fusion, whole=False)
    if target.has_thread_blocks and found.accesses and kind(fusion) != "dot":
        separate = _found(fusion, whole=True)
        return separate if separate.sizes == found.sizes else found
    return found


def _found(fusion: Op, whole: bool) -> FusionLoops:
    """The same; `whole` as for `access_of`. A product does not relate the loops of its operands: its kernel tiles each dimension."""
    space = IterationSpace()
    known: dict[Value, Atoms] = {}
    without = _unmoved(fusion, whole=whole or kind(fusion) in ("dot", "attention"))
    fusion, accesses = without.fusion, without.accesses
    body = fusion.block
    products = [op for op in body.ops if op.name == "ng.dot"]
    for value in (*accesses, *(op.results[0] for op in products)):
        known[value] = space.atoms(shape_of(value.type))
    related = label(space, [op for op in body.ops[:-1] if op.name != "ng.dot"], known)
    related = related and all(
        v in body.args for op in body.ops if "gathers" in op.traits for v in indexed(op)
    )
    related = related and all(isinstance(v.type, TensorType) for v in (*fusion.operands, *fusion.results))
    if not related or not _over_the_same_loops(space, body, known):
        raise Limit(Diagnostic("the loops of the ops of this fusion do not match", fusion.location))
    for value in body.ops[-1].operands:  # an argument may be yielded without any op
        known.setdefault(value, space.atoms(shape_of(value.type)))
    moved = {v: (access.inverse(), space.atoms(access.shape)) for v, access in without.results.items()}
    if not all(space.unify(known[v], atoms) for v, (_, atoms) in moved.items()):
        raise Limit(Diagnostic("the loops of the layout ops of this fusion do not match", fusion.location))
    resolved = {v: space.resolve(a) for v, a in known.items()}
    counted: dict[Op, Atoms] = {}
    for op in body.ops:
        if op.name == "ng.iota" and shape_of(op.results[0].type):
            counted[op] = space.resolve([known[op.results[0]][get_i64(op, "dimension")]])
    domain = max(resolved.values(), key=len, default=())
    # All results run over the same loops, even where no op relates them.
    for v in body.ops[-1].operands:
        if resolved[v] and set(resolved[v]).isdisjoint(domain) and space.unify(known[v], domain):
            resolved = {v: space.resolve(a) for v, a in known.items()}
            domain = space.resolve(domain)
    if not all(set(atoms) <= set(domain) for atoms in resolved.values()):
        raise Limit(Diagnostic("the values of this fusion have no common loops", fusion.location))
    if len(set(domain)) < len(domain):  # two loops were unified
        raise Limit(Diagnostic("a value of this fusion uses one dimension for two loops", fusion.location))
    # Dimensions of a product are not merged, nor are those of values read through a map, except within a run of its access.
    separate = [(a,) for op in products for a in resolved[op.results[0]]]
    # Nor are those before and after the axis of a gather: between them is the dimension that is indexed.
    around = {
        op: [space.resolve(atoms) for atoms in _around(op, known[op.results[0]])]
        for op in body.ops
        if "gathers" in op.traits
    }
    separate += [atoms for both in around.values() for atoms in both]
    strides = {
        v: [space.resolve([known[v][d] for d in run]) for run in access.runs]
        for v, (_, access) in accesses.items()
    }
    for v, (_, atoms) in moved.items():
        strides[v] = [space.resolve([atom]) for atom in atoms]
    separate += [atoms for own in strides.values() for atoms in own]
    runs = _runs(domain, [*resolved.values(), *counted.values(), *separate])
    if kind(fusion) == "rows":
        first = next(op for op in body.ops if "reduction" in op.traits)
        kept = set(resolved[first.results[0]])
        runs.sort(key=lambda run: run[0] not in kept)  # reduced loops are innermost: they are the row
    number = {run[0]: i for i, run in enumerate(runs)}
    sizes = tuple(space.size(run) for run in runs)

    def numbers(atoms: Atoms) -> tuple[int, ...]:
        return tuple(number[a] for a in atoms if a in number)

    def over(value: Value, access: Access) -> Access:
        return access.over([numbers(atoms) for atoms in strides[value]], sizes)

    return FusionLoops(
        fusion,
        sizes,
        {v: numbers(atoms) for v, atoms in resolved.items()},
        {op: numbers(atoms) for op, atoms in counted.items()},
        {v: (source, over(v, access)) for v, (source, access) in accesses.items()},
        without.sides,
        {v: over(v, access) for v, (access, _) in moved.items()},
        {op: (numbers(before), numbers(after)) for op, (before, after) in around.items()},
    )


def _around(op: Op, atoms: Atoms) -> tuple[Atoms, Atoms]:
    """The atoms of the dimensions that a gather keeps: before its axis, and after it."""
    axis, rank = get_i64(op, "axis"), len(shape_of(op.operands[1].type))
    return atoms[:axis], atoms[axis + (rank if op.name == "ng.gather" else 1) :]


def _over_the_same_loops(space: IterationSpace, body: Block, known: dict[Value, Atoms]) -> bool:
    """Unifies the loops of all reductions, even where no op relates their operands; False where that fails."""
    sources = [known[op.operands[0]] for op in body.ops if "reduction" in op.traits]
    return all(space.unify(sources[0], other) for other in sources[1:])


def _runs(domain: Atoms, sequences: Sequence[Atoms]) -> list[Atoms]:
    """Merges adjacent atoms of the domain into runs, split where some value has one of two adjacent atoms without the other next
    to it."""
    if not domain:
        return []
    together = set(pairwise(domain))
    for atoms in sequences:
        following = dict(pairwise(atoms))
        has = set(atoms)
        together = {(a, b) for a, b in together if (a not in has and b not in has) or following.get(a) == b}
    runs: list[Atoms] = [(domain[0],)]
    for a, b in pairwise(domain):
        if (a, b) in together:
            runs[-1] = (*runs[-1], b)
        else:
            runs.append((b,))
    return runs


@dataclass(frozen=True)
class _Unmoved:
    """A fusion without moves; arguments that are read from others through maps, by loops or as sides of a product; and values that
    are written permuted: `results` has the access by which the transpose would read them."""

    fusion: Op
    accesses: Mapping[Value, tuple[Value, Access]]
    sides: Mapping[Value, tuple[Value, Side]]
    results: Mapping[Value, Access]


def _unmoved(fusion: Op, whole: bool) -> _Unmoved:
    """A fusion in which moved operands are arguments instead of results of moves (`whole` as for `access_of`)."""
    body = fusion.block
    made = {result: op for op in body.ops for result in op.results}

    def through(value: Value) -> Op | None:
        op = made.get(value)
        return op if op is not None and (op.name in MAPPED_MOVES or op.name == "ng.reshape") else None

    def through_side(value: Value) -> Op | None:
        op = made.get(value)
        return op if op is not None and op.name == "ng.broadcast" else through(value)

    end = body.ops[-1]
    found = {op.results[0]: access_of(op, through, whole) for op in body.ops if op.name in MAPPED_MOVES}
    read = {
        v: (each[0], each[1] if whole else each[1].with_long_runs())
        for v, each in found.items()
        if each is not None and each[0] not in made
    }
    heads = kind(fusion) == "attention"  # a row may be split into heads that are adjacent in memory
    multiplied = {
        v: side_of(v, depth, through_side, heads)
        for op in body.ops
        if op.name == "ng.dot"
        for v, depth in zip(op.operands, depths(op), strict=True)
    }
    sides = {v: each for v, each in multiplied.items() if each is not None and each[0] not in made}
    written = {v: each for v in end.operands if (each := _written(v, made, through, whole)) is not None}
    # A value that is yielded twice, permuted and not, would need two layouts.
    sources = [written[v][0] if v in written else v for v in end.operands]
    if len(set(sources)) < len(sources):
        written = {}
    if not (read or sides or written):
        return _Unmoved(fusion, {}, {}, {})
    needed: dict[Op, None] = {}
    stack = [end]
    while stack:
        op = stack.pop()
        if op not in needed:
            needed[op] = None
            there: Mapping[Value, object] = sides if op.name == "ng.dot" else read
            sources = [written[v][0] if op is end and v in written else v for v in op.operands]
            stack += [made[v] for v in sources if v in made and v not in there]
    moved = [v for v in read if any(v in op.operands for op in needed if op.name != "ng.dot")]
    old = [*body.args, *moved, *sides]
    block = Block([v.type for v in old], [v.name for v in old])
    mapping = dict(zip([*body.args, *moved], block.args, strict=False))
    own = dict(zip(sides, block.args[len(mapping) :], strict=True))
    for op in body.ops:
        if op in needed:
            known = {**mapping, **own} if op.name == "ng.dot" else mapping
            sources = [written[v][0] if op is end and v in written else v for v in op.operands]
            new = op.rebuilt([known[v] for v in sources])
            mapping.update(zip(op.results, new.results, strict=True))
            block.ops.append(new)
    return _Unmoved(
        fusion.rebuilt(regions=[Region(block)]),
        {mapping[v]: (mapping[read[v][0]], read[v][1]) for v in moved},
        {own[v]: (mapping[source], side) for v, (source, side) in sides.items()},
        {mapping[source]: access for source, access in written.values()},
    )


def _written(
    value: Value, made: Mapping[Value, Op], through: Callable[[Value], Op | None], whole: bool
) -> tuple[Value, Access] | None:
    """The value that an output only permutes, and how; None for any other output."""
    op = made.get(value)
    found = access_of(op, lambda _: None, whole) if op is not None and op.name in MAPPED_MOVES else None
    if found is None or not found[1].permutes:
        return None
    source, access = found
    while (inner := through(source)) is not None and inner.name == "ng.reshape":
        (source,) = inner.operands
    return (source, access) if source in made and through(source) is None else None
