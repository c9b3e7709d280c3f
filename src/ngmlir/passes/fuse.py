# SPDX-License-Identifier: Apache-2.0
"""Fusion: which ops become one kernel."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from ..ir.attributes import Attribute, ElementsAttr, StringAttr
from ..ir.core import Block, Module, Op, Region, Value
from ..ir.types import TensorType, shape_of
from ..ops import ng
from ..support.diagnostics import Bug
from ..support.target import Target
from .space import Atoms, Space, relate

#: Longer kernels gain nothing and compile slowly.
MAX_OPS = 96
#: Ops that cost no memory traffic of their own: repeated inside each kernel that reads them.
FREE = frozenset({"ng.reshape", "ng.broadcast", "ng.constant", "ng.iota"})


def fuse(module: Module, target: Target) -> Module:
    """Groups ops into `ng.fusion`s, each of which will be one kernel.

    Kinds: `map` (elementwise over one space), `rows` (reductions over the innermost loop, perhaps with others,
    and what comes before and after: softmax and normalisations are one kernel), `columns` (reductions over
    outer loops only, with prologue and epilogue), `dot` (a matrix product with its epilogue). An op joins the kernel of an operand
    when it runs over the same loops and no value would have to leave the kernel and come back.

    Before:
        func.func @main(%x: tensor<8x4xf32>) -> tensor<8xf32> {
          %0 = ng.exp %x : tensor<8x4xf32>
          %1 = ng.sum %0 axes [1] : (tensor<8x4xf32>) -> tensor<8xf32>
          %2 = ng.log %1 : tensor<8xf32>
          return %2 : tensor<8xf32>
        }
    After:
        func.func @main(%x: tensor<8x4xf32>) -> tensor<8xf32> {
          %0 = ng.fusion %x {kind = "rows"} : (tensor<8x4xf32>) -> tensor<8xf32> {
          ^bb0(%1: tensor<8x4xf32>):
            %2 = ng.exp %1 : tensor<8x4xf32>
            %3 = ng.sum %2 axes [1] : (tensor<8x4xf32>) -> tensor<8xf32>
            %4 = ng.log %3 : tensor<8xf32>
            ng.yield %4 : (tensor<8xf32>) -> ()
          }
          func.return %0 : tensor<8xf32>
        }
    """
    return module.with_ops([_nested(op) if op.name == "func.func" else op for op in module.ops])


def _nested(op: Op) -> Op:
    """An op with the blocks of its regions fused."""
    if not op.regions or op.name == "ng.fusion":
        return op
    return op.with_blocks(lambda block: _Fusion(block).block())


class _Kernel:
    """Ops that will be one kernel."""

    __slots__ = ("atoms", "before", "dependent", "domain", "kind", "number", "ops", "rank", "reduced")

    def __init__(self, number: int, kind: str):
        self.number = number
        self.kind = kind
        self.domain: Atoms | None = None  # the loops of the whole kernel; its first op decides them
        self.reduced: frozenset[int] = frozenset()  # resolved atoms, of rows and columns
        self.ops: dict[Op, None] = {}
        self.atoms: dict[Value, Atoms] = {}
        self.rank = 0  # of a dot: how many loops its result has
        self.before = 0  # bit set: the kernels that must have run
        self.dependent: set[Value] = set()  # values computed from a reduction of this kernel


class _Fusion:
    def __init__(self, block: Block):
        self.source = block
        self.space = Space()
        self.kernels: list[_Kernel | None] = []
        self.followed = 0  # bit set: the kernels that some other comes after
        self.home: dict[Op, _Kernel] = {}
        self.order = {op: i for i, op in enumerate(block.ops)}

    def block(self) -> Block:
        ops = self.source.ops
        for op in ops:
            if not self.free(op) and _fusible(op):
                self.place(op)
            elif not self.free(op):
                self.alone(op)
        self.materialise(ops)
        return self.emit(ops)

    def free(self, op: Op) -> bool:
        return op.name in FREE and (op.name != "ng.constant" or _splat(op))

    # -- choosing ----------------------------------------------------------------------------------------

    def sources(self, values: Iterable[Value]) -> list[Value]:
        """The values that must exist in memory, or in the same kernel, before these can be computed."""
        out: dict[Value, None] = {}
        stack = list(values)
        while stack:
            value = stack.pop()
            free = self.unplaced(value)
            if free is not None:
                stack += free.operands
            else:
                out[value] = None
        return list(out)

    def unplaced(self, value: Value) -> Op | None:
        """The free op that makes a value, if it has no kernel of its own."""
        owner = value.owner
        if isinstance(owner, Op) and owner in self.order and owner not in self.home and self.free(owner):
            return owner
        return None

    def home_of(self, value: Value) -> _Kernel | None:
        """The kernel that computes a value; None for what comes from outside the block."""
        return self.home.get(value.owner) if isinstance(value.owner, Op) else None

    def place(self, op: Op) -> None:
        """Puts an op into the kernel of one of its operands, or into a new one; then merges what now fits."""
        if op.name != "ng.dot":
            producers = self.feeders(op)
            ranked = sorted(
                producers, key=lambda k: (-self.space.size(k.domain or ()), k.kind == "map", -k.number)
            )
            for kernel in ranked:
                if self.join(op, kernel):
                    for other in ranked:
                        if other is not kernel:
                            self.merge(kernel, other)
                    return
        self.open(op)

    def open(self, op: Op) -> None:
        if op.name != "ng.dot":
            self.open_kernel(op)
            return
        kernel = self.new("dot")
        kernel.atoms[op.results[0]] = kernel.domain = self.space.atoms(shape_of(op.results[0].type))
        kernel.rank = len(self.space.resolve(kernel.domain))
        kernel.ops[op] = None
        self.settle(op, kernel)

    def open_kernel(self, op: Op) -> None:
        """A kernel that begins with this op and the free ops that it reads."""
        kernel = self.new("map")
        if not self.add(op, kernel):
            # The op contradicts its own free operands (a broadcast across uneven reshapes): these get kernels.
            for value in op.operands:
                free = self.unplaced(value)
                if free is not None:
                    self.place_free(free)
            if not self.add(op, kernel):
                raise Bug(f"{op.name} cannot stand in a kernel of its own", op.location)
        self.settle(op, kernel)

    def place_free(self, op: Op) -> None:
        """A kernel for an op that is normally repeated by its readers; a reshape stays a view."""
        if op.name in ("ng.reshape", "ng.constant"):
            self.alone(op)
        else:
            self.open_kernel(op)

    def new(self, kind: str) -> _Kernel:
        kernel = _Kernel(len(self.kernels), kind)
        self.kernels.append(kernel)
        return kernel

    def alone(self, op: Op) -> None:
        """An op that is no kernel of the kinds above: it stays as it is, and its operands must be in memory."""
        kernel = self.new("alone")
        kernel.ops[op] = None
        self.settle(op, kernel)

    def settle(self, op: Op, kernel: _Kernel) -> None:
        self.home[op] = kernel
        self.follow(kernel, self.feeders(op))

    def feeders(self, op: Op, inside: _Kernel | None = None) -> set[_Kernel]:
        """The kernels that an op's operands come from.

        What stands in `inside` (a free op repeated there) is computed there, wherever else it stands; but the
        sides of a product come from memory.
        """
        own = inside.ops if inside is not None and op.name != "ng.dot" else {}
        sources = self.sources(v for v in _reads(op) if v.owner not in own)
        return {home for v in sources if (home := self.home_of(v)) is not None}

    def follow(self, kernel: _Kernel, feeders: Iterable[_Kernel]) -> None:
        """`kernel` now comes after `feeders` and all that comes before them; so does everything after it."""
        bits = 0
        for feeder in feeders:
            bits |= feeder.before | (1 << feeder.number)
        mark = 1 << kernel.number
        bits &= ~mark
        if not bits & ~kernel.before:
            return
        kernel.before |= bits
        self.followed |= bits
        if not self.followed & mark:
            return
        for other in self.kernels:
            if other is not None and other.before & mark:
                other.before |= bits

    # -- joining -----------------------------------------------------------------------------------------

    def join(self, op: Op, kernel: _Kernel) -> bool:
        if kernel.kind == "alone" or len(kernel.ops) >= MAX_OPS:
            return False
        mark = 1 << kernel.number
        if any(feeder is not kernel and feeder.before & mark for feeder in self.feeders(op)):
            return False  # a value would leave the kernel and come back
        if not self.add(op, kernel):
            return False
        self.settle(op, kernel)
        return True

    def add(self, op: Op, kernel: _Kernel) -> bool:
        """Adds an op with its free operands if the loops agree; leaves no trace if not."""
        mark = self.space.mark()
        before_domain, before_kind, before_reduced = kernel.domain, kernel.kind, kernel.reduced
        added_ops: list[Op] = []
        added_values: list[Value] = []
        good = self.relate(op, kernel, added_ops, added_values) and self.allowed(op, kernel)
        if good:
            return True
        self.space.undo(mark)
        for value in added_values:
            del kernel.atoms[value]
        for added in added_ops:
            del kernel.ops[added]
        kernel.domain, kernel.kind, kernel.reduced = before_domain, before_kind, before_reduced
        return False

    def relate(self, op: Op, kernel: _Kernel, ops: list[Op], values: list[Value]) -> bool:
        """Labels the op, and the free ops it reads, with the kernel's loops."""
        pending = [op]
        while pending:
            current = pending.pop()
            if current in kernel.ops:
                continue
            related = relate(self.space, current)
            if related is None:
                return False
            kernel.ops[current] = None
            ops.append(current)
            result, sources = related
            for value, atoms in ((current.results[0], result), *zip(current.operands, sources, strict=True)):
                known = kernel.atoms.get(value)
                if known is None:
                    kernel.atoms[value] = atoms
                    values.append(value)
                elif not self.space.unify(known, atoms):
                    return False
            pending += [free for v in current.operands if (free := self.unplaced(v)) is not None]
        return True

    def allowed(self, op: Op, kernel: _Kernel) -> bool:
        """Whether an op, already labelled, suits the kernel's kind; may turn a map into rows or columns."""
        space = self.space
        result = space.resolve(kernel.atoms[op.results[0]])
        reduction = "reduction" in op.traits
        extent = space.resolve(kernel.atoms[op.operands[0]]) if reduction else result
        if kernel.domain is None:
            kernel.domain = extent
        domain = space.resolve(kernel.domain)
        if len(set(domain)) != len(domain):
            return False  # two different loops were found to be one: a diagonal, not this space
        if kernel.kind == "dot" and len(domain) != kernel.rank:
            return False  # the product's own loops must stay whole
        inside = set(domain)
        if any(not inside.issuperset(space.resolve(a)) for a in kernel.atoms.values()):
            return False
        kernel.reduced = frozenset(space.resolve(tuple(kernel.reduced)))
        kept = tuple(a for a in domain if a not in kernel.reduced)
        after = any(v in kernel.dependent for v in self.sources(op.operands))
        gone = frozenset(extent) - frozenset(result)
        if gone:
            return extent == domain and self.reduces(op, kernel, gone, after)
        match kernel.kind:
            case "rows":
                good = result in (domain, kept)
            case "columns":
                good = result == (kept if after else domain)
            case _:
                good = result == domain
        if good and after:
            kernel.dependent.add(op.results[0])
        return good

    def reduces(self, op: Op, kernel: _Kernel, gone: frozenset[int], after: bool) -> bool:
        """Whether a reduction over the loops `gone` suits the kernel, which a first one turns into rows or columns."""
        domain = self.space.resolve(kernel.domain or ())
        if kernel.kind == "map":
            kernel.kind = "rows" if domain[-1] in gone else "columns"
            kernel.reduced = gone
        elif gone != kernel.reduced or (kernel.kind == "columns" and after):
            return False
        kernel.dependent.add(op.results[0])
        return True

    def merge(self, kernel: _Kernel, other: _Kernel) -> bool:
        """Takes over a kernel whose ops could stand here: a map, or rows beside rows; nothing may stand between."""
        both_rows = kernel.kind == other.kind == "rows"
        if not (other.kind == "map" or both_rows) or kernel.kind == "alone":
            return False
        if len(kernel.ops) + len(other.ops) > MAX_OPS:
            return False
        if self.between(kernel, other) or self.between(other, kernel) or self.multiplies(kernel, other):
            return False
        mark = self.space.mark()
        domain = self.space.resolve(kernel.domain or ())
        reduced = frozenset(self.space.resolve(tuple(kernel.reduced)))
        kept = tuple(a for a in domain if a not in reduced)
        # Beside reductions, values of whole rows (or columns) are as welcome as those of every element.
        small = self.space.size(other.domain or ()) != self.space.size(domain)
        good = self.space.unify(kept if small else domain, other.domain or ())
        good = good and all(
            self.space.unify(kernel.atoms[v], atoms) for v, atoms in other.atoms.items() if v in kernel.atoms
        )
        domain = self.space.resolve(kernel.domain or ())
        whole = kernel.kind != "dot" or len(domain) == kernel.rank
        if both_rows:
            mine, theirs = (frozenset(self.space.resolve(tuple(k.reduced))) for k in (kernel, other))
            whole = mine == theirs
        if not good or not whole or len(set(domain)) != len(domain):
            self.space.undo(mark)
            return False
        kernel.ops.update(other.ops)
        kernel.dependent |= other.dependent
        for value, atoms in other.atoms.items():
            kernel.atoms.setdefault(value, atoms)
        for op in other.ops:
            if self.home.get(op) is other:
                self.home[op] = kernel
        self.kernels[other.number] = None
        gone = 1 << other.number
        for third in self.kernels:
            if third is not None and third.before & gone:
                third.before = (third.before & ~gone) | (1 << kernel.number)
        if self.followed & gone:
            self.followed = (self.followed & ~gone) | (1 << kernel.number)
        kernel.before &= ~(1 << kernel.number)
        self.follow(kernel, [f for op in other.ops for f in self.feeders(op, kernel) if f is not kernel])
        return True

    def between(self, first: _Kernel, last: _Kernel) -> bool:
        """Whether a third kernel comes after `first` and before `last`."""
        mark = 1 << first.number
        if not last.before & mark:
            return False
        own = (first, last)
        return any(f not in own and f.before & mark for op in last.ops for f in self.feeders(op, last))

    def multiplies(self, kernel: _Kernel, other: _Kernel) -> bool:
        """Whether `kernel` is a product of values of `other`, which must be whole before it starts."""
        sides = self.sources(v for op in kernel.ops if op.name == "ng.dot" for v in op.operands)
        return any(isinstance(v.owner, Op) and self.home.get(v.owner) is other for v in sides)

    # -- writing the new block ---------------------------------------------------------------------------

    def materialise(self, ops: Sequence[Op]) -> None:
        """Free ops whose results are read outside kernels get kernels (or stay views)."""
        for op in reversed(ops):
            kernel = self.home.get(op)
            if kernel is None or not (kernel.kind == "alone" or op.name == "ng.dot"):
                continue
            pending = _reads(op)
            while pending:
                free = self.unplaced(pending.pop())
                if free is not None:
                    self.place_free(free)
                    if free.name == "ng.reshape":
                        pending += free.operands
        for kernel in self.kernels:
            if kernel is not None:
                for op in list(kernel.ops):
                    self.follow(kernel, self.feeders(op, kernel))

    def emit(self, ops: Sequence[Op]) -> Block:
        out = self.source.emptied()
        used_outside = self.used_outside(ops)
        mapping: dict[Value, Value] = {}
        for kernel in self.scheduled():
            if kernel.kind == "alone":
                (op,) = kernel.ops
                new = _nested(_renamed(op, mapping))
                for a, b in zip(op.results, new.results, strict=True):
                    mapping[a] = b
                out.ops.append(new)
            else:
                out.ops.append(self.fusion(kernel, used_outside, mapping))
        return out

    def used_outside(self, ops: Sequence[Op]) -> set[Value]:
        """Values that some op of another kernel reads."""
        used: set[Value] = set()
        for kernel in self.kernels:
            if kernel is None:
                continue
            for op in kernel.ops:
                for value in _reads(op):
                    if (
                        not isinstance(value.owner, Op)
                        or value.owner not in kernel.ops
                        or self.home.get(value.owner) is not kernel
                    ):
                        used.add(value)
        return used

    def scheduled(self) -> list[_Kernel]:
        """Kernels in an order that respects their needs, otherwise that of the text."""
        live = [k for k in self.kernels if k is not None]
        first = {k.number: max(self.order[op] for op in k.ops if self.home.get(op) is k) for k in live}
        waiting: dict[int, int] = {}
        after: dict[int, list[_Kernel]] = {}
        for k in live:
            feeders = {f for op in k.ops for f in self.feeders(op, k)} - {k}
            waiting[k.number] = len(feeders)
            for feeder in feeders:
                after.setdefault(feeder.number, []).append(k)
        ready = [(first[n], n) for n, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        done: list[_Kernel] = []
        while ready:
            _, number = heapq.heappop(ready)
            kernel = self.kernels[number]
            assert kernel is not None
            done.append(kernel)
            for later in after.get(number, ()):
                waiting[later.number] -= 1
                if waiting[later.number] == 0:
                    heapq.heappush(ready, (first[later.number], later.number))
        assert len(done) == len(live), "kernels wait for each other"
        return done

    def fusion(self, kernel: _Kernel, used_outside: set[Value], mapping: dict[Value, Value]) -> Op:
        ops = sorted(kernel.ops, key=self.order.__getitem__)
        inside = {r for op in ops for r in op.results}
        # The sides of a product come from memory, also where the epilogue repeats the op that gives one.
        reads = [v for op in ops for v in op.operands if op.name == "ng.dot" or v not in inside]
        inputs = list(dict.fromkeys(reads))
        outputs = [r for op in ops if self.home.get(op) is kernel for r in op.results if r in used_outside]
        body = Block([v.type for v in inputs], [v.name for v in inputs])
        given: dict[Value, Value] = dict(zip(inputs, body.args, strict=True))
        inner = dict(given)
        for op in ops:
            known = given if op.name == "ng.dot" else inner
            new = op.rebuilt([known[v] for v in op.operands])
            inner.update(zip(op.results, new.results, strict=True))
            body.ops.append(new)
        body.ops.append(ng.YieldOp([inner[v] for v in outputs], (), {}, (), ops[-1].location))
        attributes: dict[str, Attribute] = {"kind": StringAttr(kernel.kind)}
        made = ng.FusionOp(
            [mapping.get(v, v) for v in inputs],
            [v.type for v in outputs],
            attributes,
            [Region(body)],
            ops[-1].location,
            names=[v.name for v in outputs],
        )
        mapping.update(zip(outputs, made.results, strict=True))
        return made


def _fusible(op: Op) -> bool:
    """Ops that a kernel of the four kinds can hold: static tensors, at least one element."""
    if op.name == "ng.dot":
        return all(_some(v) for v in (*op.operands, *op.results))
    traits = op.traits
    if not ("elementwise" in traits or "reduction" in traits):
        return False
    return len(op.results) == 1 and all(_some(v) for v in (*op.operands, *op.results))


def _some(value: Value) -> bool:
    type = value.type
    return isinstance(type, TensorType) and type.static and type.size > 0


def _splat(op: Op) -> bool:
    value = op.attributes["value"]
    return not isinstance(value, ElementsAttr) or value.type.size == 1 or value.splat


def _reads(op: Op) -> list[Value]:
    """All values that an op reads, also inside its regions."""
    if not op.regions:
        return list(op.operands)
    return [*op.operands, *(v for inner in op.walk() for v in inner.operands)]


def _renamed(op: Op, mapping: dict[Value, Value]) -> Op:
    """The op with operands, also those read inside its regions, replaced."""
    if not any(v in mapping for v in _reads(op)):
        return op

    def rebuild(block: Block) -> Block:
        made = block.emptied()
        for inner in block.ops:
            new = _renamed(inner, mapping)
            if new is not inner:
                mapping.update(zip(inner.results, new.results, strict=True))
            made.ops.append(new)
        return made

    return op.with_blocks(rebuild).rebuilt([mapping.get(v, v) for v in op.operands])
