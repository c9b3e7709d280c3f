# SPDX-License-Identifier: Apache-2.0
"""Which loops a fusion has: what its ops that only move data say becomes indexing maps of what it reads and writes, and each
dimension of its values is some of the loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...ir.core import Block, Op, Region, Value
from ...ir.types import TensorType, shape_of
from ...ops.fields import get_i64
from ...support.diagnostics import Diagnostic, Limit
from ...support.target import Target
from ..analysis.access import MOVES, Access, access_of
from ..analysis.group import kind
from ..analysis.sides import Side, depths, side_of
from ..analysis.space import Atoms, Space, label


@dataclass(frozen=True)
class Found:
    """A fusion with its loops. Its block holds no op that only moves an operand: arguments stand for what is read through maps.
    The terms of `accesses` and `written` are loops."""

    fusion: Op
    sizes: tuple[int, ...]
    loops: Mapping[Value, tuple[int, ...]]  # those of the dimensions of a value, in order
    counted: Mapping[Op, tuple[int, ...]]  # of an iota: the loops of the counted dimension
    accesses: Mapping[Value, tuple[Value, Access]]  # arguments that are read from others
    sides: Mapping[Value, tuple[Value, Side]]  # operands of a product that are
    written: Mapping[Value, Access]  # results that are written moved


def loops_of(fusion: Op, target: Target) -> Found:
    """The loops of a fusion; Limit where its ops have none in common.

    Threads may have tiles of several rows. These run along two dimensions of what is read through a map: on GPUs it keeps all
    that it has, if no loop is shorter for that."""
    found = _found(fusion, whole=False)
    if target.shares_tiles and found.accesses and kind(fusion) != "dot":
        separate = _found(fusion, whole=True)
        return separate if separate.sizes == found.sizes else found
    return found


def _found(fusion: Op, whole: bool) -> Found:
    """The same; `whole` as for `access_of`. A product relates nothing: its kernel tiles each dimension in its own way."""
    space = Space()
    known: dict[Value, Atoms] = {}
    without = _unmoved(fusion, whole=whole or kind(fusion) in ("dot", "attention"))
    fusion, accesses = without.fusion, without.accesses
    body = fusion.block
    products = [op for op in body.ops if op.name == "ng.dot"]
    for value in (*accesses, *(op.results[0] for op in products)):
        known[value] = space.atoms(shape_of(value.type))
    related = label(space, [op for op in body.ops[:-1] if op.name != "ng.dot"], known)
    related = related and all(isinstance(v.type, TensorType) for v in (*fusion.operands, *fusion.results))
    if not related or not _over_the_same_loops(space, body, known):
        raise Limit(Diagnostic("the loops of the ops of this fusion do not match", fusion.location))
    for value in body.ops[-1].operands:  # an argument may be handed through without any op
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
    # Results side by side run over the same loops, even where no op relates them.
    for v in body.ops[-1].operands:
        if resolved[v] and set(resolved[v]).isdisjoint(domain) and space.unify(known[v], domain):
            resolved = {v: space.resolve(a) for v, a in known.items()}
            domain = space.resolve(domain)
    if not all(set(atoms) <= set(domain) for atoms in resolved.values()):
        raise Limit(Diagnostic("the values of this fusion have no common loops", fusion.location))
    if len(set(domain)) < len(domain):  # what runs along both of two loops says that they are one
        raise Limit(Diagnostic("a value of this fusion uses one dimension for two loops", fusion.location))
    # The dimensions of a product stay apart, and so do those of what is read through a map, but for runs.
    separate = [(a,) for op in products for a in resolved[op.results[0]]]
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
        runs.sort(key=lambda run: run[0] not in kept)  # a row is all that is reduced, wherever it lies
    number = {run[0]: i for i, run in enumerate(runs)}
    sizes = tuple(space.size(run) for run in runs)

    def numbers(atoms: Atoms) -> tuple[int, ...]:
        return tuple(number[a] for a in atoms if a in number)

    def over(value: Value, access: Access) -> Access:
        return access.over([numbers(atoms) for atoms in strides[value]], sizes)

    return Found(
        fusion,
        sizes,
        {v: numbers(atoms) for v, atoms in resolved.items()},
        {op: numbers(atoms) for op, atoms in counted.items()},
        {v: (source, over(v, access)) for v, (source, access) in accesses.items()},
        without.sides,
        {v: over(v, access) for v, (access, _) in moved.items()},
    )


def _over_the_same_loops(space: Space, body: Block, known: dict[Value, Atoms]) -> bool:
    """Reductions side by side run over the same loops, even where no op relates what they reduce."""
    sources = [known[op.operands[0]] for op in body.ops if "reduction" in op.traits]
    return all(space.unify(sources[0], other) for other in sources[1:])


def _runs(domain: Atoms, sequences: Sequence[Atoms]) -> list[Atoms]:
    """Splits the domain where some value has one of two neighbouring atoms without the other beside it."""
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
    """The fusion; which arguments are read from others, by the loops or as sides of a product; and which values are
    written moved: to a buffer in which each lies as `results` says its move reads it."""

    fusion: Op
    accesses: Mapping[Value, tuple[Value, Access]]
    sides: Mapping[Value, tuple[Value, Side]]
    results: Mapping[Value, Access]


def _unmoved(fusion: Op, whole: bool) -> _Unmoved:
    """A fusion whose arguments are also what it moves of them (`whole` as for `access_of`)."""
    body = fusion.block
    made = {result: op for op in body.ops for result in op.results}

    def through(value: Value) -> Op | None:
        op = made.get(value)
        return op if op is not None and (op.name in MOVES or op.name == "ng.reshape") else None

    end = body.ops[-1]
    found = {op.results[0]: access_of(op, through, whole) for op in body.ops if op.name in MOVES}
    read = {v: each for v, each in found.items() if each is not None and each[0] not in made}
    heads = kind(fusion) == "attention"  # what rows are split into may lie side by side
    multiplied = {
        v: side_of(v, depth, through, heads)
        for op in body.ops
        if op.name == "ng.dot"
        for v, depth in zip(op.operands, depths(op), strict=True)
    }
    sides = {v: each for v, each in multiplied.items() if each is not None and each[0] not in made}
    written = {v: each for v in end.operands if (each := _written(v, made, through, whole)) is not None}
    # A value that is given back twice, moved and as it is, has no one place.
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
    """What an output that only permutes what the fusion computes is made of, and how; None for any other."""
    op = made.get(value)
    found = access_of(op, lambda _: None, whole) if op is not None and op.name in MOVES else None
    if found is None or not found[1].permutes:
        return None
    source, access = found
    while (inner := through(source)) is not None and inner.name == "ng.reshape":
        (source,) = inner.operands
    return (source, access) if source in made and through(source) is None else None
