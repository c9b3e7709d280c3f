# SPDX-License-Identifier: Apache-2.0
"""Preparing: values that depend only on constants are computed once, when a program is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf

from ...ir.attributes import StringAttr, SymbolRefAttr
from ...ir.core import Block, Module, Op, Value, callee
from ...ir.elements import ElementsAttr
from ...ir.lengths import lengths_of
from ...ir.literals import item_bytes
from ...ir.types import TensorType
from ...ops import func
from ...ops.builder import Builder, function
from ...ops.fields import get_str
from ...rewrite.contracts import contract
from ...rewrite.remarks import remark
from ...support.target import Target
from ..analysis.group import kind
from ..graph.dead_code import without, without_dead
from ..graph.inline import copied
from ..graph.invariants import Invariants, reads
from .decoding.fusions import DECODED

#: Greatest ratio of the bytes of a prepared value to those of its constants: that of f64 to 4-bit codes.
GROWTH = 16


@contract(needs=("named", "plain", "kernels"))
def prepare(
    module: Module, target: Target, *, spare: int = 64 * 1024 * 1024, together: int = 1024 * 1024
) -> Module:
    """Moves ops that depend only on constants into a function without arguments, which is called once.

    A program calls it when it is loaded, and keeps its results (see `plan-memory`): each value that takes no more than 16
    times the bytes of the constants that it is computed from, as do decoded or packed weights, without limit; and
    `spare` bytes of others. Values beyond that are computed in each call, and reported by a remark; so are values that only the
    return reads, without a remark: there may be one call only. Constants that only this function reads are freed
    after its call; where they are more than `together` bytes, several functions are made that each read some,
    so that they are not all in memory at once. After `to-kernels`, kernels that pack a constant side of a product are
    prepared too.

    Before:
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
          %0 = ng.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]> : tensor<3x3xf32>
          %1 = ng.tanh %0 : tensor<3x3xf32>
          %2 = ng.dot %x, %1 contract [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
          return %2 : tensor<2x3xf32>
        }
    After:
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
          %0 = func.call @main.prepare() : () -> tensor<3x3xf32>
          %1 = ng.dot %x, %0 contract [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
          func.return %1 : tensor<2x3xf32>
        }
        func.func private @main.prepare() -> tensor<3x3xf32> {
          %0 = ng.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]> : tensor<3x3xf32>
          %1 = ng.tanh %0 : tensor<3x3xf32>
          func.return %1 : tensor<3x3xf32>
        }
    """
    known = {op.symbol: op for op in module.ops if op.symbol}
    calls = Counter(callee(op) for each in module.ops for op in each.walk())
    made: dict[str, list[Op]] = {}
    for op in module.ops:
        if op.name == "func.func" and op.regions[0].blocks and get_str(op, "sym_visibility") != "private":
            made[op.symbol] = _prepared(op, known, calls, spare, together)
    replaced = {op.symbol for _, *others in made.values() for op in others}
    ops: list[Op] = []
    for op in module.ops:
        if op.symbol not in replaced:
            ops += made.get(op.symbol, [op])
    called = {callee(op) for each in ops for op in each.walk()}
    return module.with_ops([op for op in ops if not _serves(op) or op.symbol in called])


def _serves(op: Op | None) -> bool:
    """Whether a function is one that this pass could have made: private, without arguments."""
    return (
        op is not None
        and op.name == "func.func"
        and get_str(op, "sym_visibility") == "private"
        and bool(op.regions[0].blocks)
        and not op.block.args
    )


def _prepared(
    main: Op, known: Mapping[str, Op], calls: Mapping[str, int], spare: int, together: int
) -> list[Op]:
    """A function, followed by those that prepare values for it; the function alone if there is nothing to prepare."""
    before = {name for op in main.block.ops if _serves(known.get(name := callee(op)))}
    whole = _whole(main, {name: known[name] for name in before})
    ops = whole.block.ops[:-1]
    invariants = Invariants(ops, [*whole.block.args, *_of_lengths(whole, known)])
    names = _names(main.symbol, {n for n in known if not (n in before and calls[n] == 1)})
    made: list[Op] = []
    called: list[Op] = []
    results: dict[Value, Value] = {}
    kept = _kept(ops, invariants, spare)
    for part in _parts(kept, invariants, together):
        name, values = next(names), [v for op in part for v in op.results]
        block = Block()
        b = Builder(block, main.location)
        copies = invariants.copies(part, b)
        b.end(func.ReturnOp, *(copies[v] for v in values))
        made.append(function(name, block, {"sym_visibility": StringAttr("private")}, location=main.location))
        types, labels = [v.type for v in values], [v.name for v in values]
        call = func.CallOp((), types, {"callee": SymbolRefAttr(name)}, (), main.location, names=labels)
        called.append(call)
        results.update(zip(values, call.results, strict=True))
    if not kept:
        return [main]
    rest = without(whole, set(kept), results)
    return [without_dead(rest.with_blocks(lambda block: _after(called, block))), *made]


def _of_lengths(function: Op, known: Mapping[str, Op]) -> list[Value]:
    """Results that depend on the lengths of a call, through an op or in a kernel: they vary from call to call."""

    def follows(op: Op) -> bool:
        kernel = known.get(callee(op))
        return bool(lengths_of(op) or (kernel is not None and lengths_of(kernel)))

    return [result for op in function.block.ops if follows(op) for result in op.results]


def _names(symbol: str, taken: Container[str]) -> Iterator[str]:
    """The names of functions that prepare values for a function."""
    name = f"{symbol}.prepare"
    while name in taken:
        name += "d"
    yield name
    yield from (found for i in count(1) if (found := f"{name}_{i}") not in taken)


def _parts(kept: Sequence[Op], invariants: Invariants, together: int) -> Iterator[list[Op]]:
    """The ops that each function prepares: groups that share computations stay together, and groups are joined while they read no
    more than `together` bytes of constants."""
    part: list[Op] = []
    size = 0
    for group in _groups(kept, invariants):
        more = sum(map(_constant_bytes, group.constants))
        if part and size + more > together:
            yield part
            part, size = [], 0
        part, size = part + group.kept, size + more
    if part:
        yield part


@dataclass(eq=False)
class _Group:
    """Ops whose results are kept, all ops that compute them, and the constants that these read."""

    kept: list[Op]
    computed: set[Op]
    constants: set[Op]


def _groups(kept: Sequence[Op], invariants: Invariants) -> Iterable[_Group]:
    """Kept ops in groups that share no computation; in order."""
    found: dict[Op, _Group] = {}
    for op in kept:
        own = _Group([op], set(), set())
        waiting = [op]
        while waiting:
            below = waiting.pop()
            if below.name == "ng.constant":
                own.constants.add(below)
            elif below not in own.computed:
                own.computed.add(below)
                waiting += [invariants.values[v] for v in reads(below)]
        for met in dict.fromkeys(found[each] for each in own.computed if each in found):
            own.kept = met.kept + own.kept
            own.computed |= met.computed
            own.constants |= met.constants
        found.update(dict.fromkeys(own.computed, own))
    return dict.fromkeys(found.values())


def _after(calls: Sequence[Op], block: Block) -> Block:
    """A block with some calls in front."""
    out = block.emptied()
    out.ops = [*calls, *block.ops]
    return out


def _whole(main: Op, taken: Mapping[str, Op]) -> Op:
    """A function with the bodies of functions inlined that an earlier run of this pass made for it."""
    if not taken:
        return main
    out = main.block.emptied()
    mapping: dict[Value, Value] = {}
    for op in main.block.ops:
        if callee(op) in taken:
            *body, end = taken[callee(op)].block.ops
            inner: dict[Value, Value] = {}
            out.ops += [copied(each, inner) for each in body]
            mapping.update(zip(op.results, [inner[v] for v in end.operands], strict=True))
        else:
            out.ops.append(op)
    return without(main.with_blocks(lambda _: out), set(), mapping)


def _kept(ops: Sequence[Op], invariants: Invariants, spare: int) -> list[Op]:
    """The ops to prepare: worthwhile ones whose results are read by ops that depend on arguments, within the limits of memory."""
    room: float = spare
    kept: list[Op] = []
    seen: set[Op] = set()
    for op in ops:
        if any(r in invariants.values for r in op.results):
            continue
        waiting = list(reads(op))
        # Operands of decoding kernels are prepared in any case, in the order in which the kernel reads them.
        ordered = set(waiting) if op.name == "ng.fusion" and kind(op) == DECODED else set[Value]()
        while waiting:
            value = waiting.pop()
            below = invariants.values.get(value)
            if below is None or below in seen:
                continue
            seen.add(below)
            if not (invariants.worthwhile(below) or (value in ordered and below.name != "ng.constant")):
                waiting += reads(below)
                continue
            size = sum(map(_bytes, below.results))
            beyond = 0 if size <= GROWTH * _made_of(below, invariants) else size
            if beyond <= room:
                room -= beyond
                kept.append(below)
            else:
                remark("prepare", _refusal(below, size, room), below.location)
                waiting += reads(below)
    return kept


def _made_of(op: Op, invariants: Invariants) -> int:
    """The bytes of the constants that an op's results are computed from."""
    waiting, seen = [op], {op}
    while waiting:
        for value in reads(waiting.pop()):
            below = invariants.values.get(value)
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
    return sum(map(_constant_bytes, seen))


def _refusal(op: Op, size: float, room: float) -> str:
    named = op.results[0].name
    what = f"%{named}, which {op.name} gives," if named else f"the result of {op.name}"
    return (
        f"{what} depends on constants alone, but is computed in each call: it takes {size:,} bytes, more than {GROWTH} "
        f"times its constants and than the {room:,} bytes that are left for such values"
    )


def _bytes(value: Value) -> float:
    type = value.type
    return type.size * item_bytes(type.element) if isinstance(type, TensorType) and type.static else inf


def _constant_bytes(op: Op) -> int:
    literal = op.attributes.get("value") if op.name == "ng.constant" else None
    return len(literal.data) if isinstance(literal, ElementsAttr) else 0
