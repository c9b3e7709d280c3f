# SPDX-License-Identifier: Apache-2.0
"""Layout: removes transposes and slices that need not be computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ...ir.attributes import Attribute, IntegerAttr, integers
from ...ir.core import Block, Module, Op, Value, count_uses
from ...ir.literals import item_bytes
from ...ir.types import TensorType, Type, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64, get_i64s
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.lengths import is_same, usual
from ...support.target import Target
from ..analysis.access import MOVES
from ..analysis.group import splat, with_type
from ..analysis.views import before
from .dead_code import without_dead
from .sliced import Part, cut, leads_to_windows
from .sunk_transposes import absorbed, in_place, is_shortening, order_of, permuted, source_of, sunk
from .window_codes import channels_of_bytes, with_channels_innermost
from .window_products import as_windows
from .window_sums import as_sum_over_windows, product_as_sum


@contract(needs=("named", "plain"), anchor="function")
def layout(module: Module, target: Target) -> Module:
    """Chooses one order of dimensions for the producers and consumers of a transposed tensor, so that no data is
    moved.

    A matrix product or a reduction reads operands in any order. Values computed from constants, iota and broadcasts are computed
    in the order that is wanted. Ops on transposes are applied to the operands of the transposes and the result is transposed, if
    a product or a reduction follows, which then reads it in any order, or a cast to fewer bytes; else a transpose moves to the
    operands of an elementwise op if only one of them has to be transposed. Elementwise ops that only a slice reads are computed on
    slices: on fewer elements, and in the kernel that reads them. The overlap_add of windows that a product makes becomes a product
    of windows. A product of windows by few columns for each group of channels becomes a sum of multiplied windows, which is not
    packed. The sides of a product of windows that has too few columns for the vector registers of a CPU are exchanged, if its result
    is wanted in that order; and a product whose result is wanted with some rows outside its columns becomes, on a CPU, a product for
    each of these, with the same matrix of columns. Windows of bytes that dot instructions multiply get their channels innermost in
    memory. A product with a schedule is not changed.

    Before:
        func.func @main(%x: tensor<4x3xf32>, %w: tensor<5x3xf32>) -> tensor<4x5xf32> {
          %0 = ng.transpose %w perm [1, 0] : (tensor<5x3xf32>) -> tensor<3x5xf32>
          %1 = ng.dot %x, %0 contract [1] x [0] : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
          return %1 : tensor<4x5xf32>
        }
    After:
        func.func @main(%x: tensor<4x3xf32>, %w: tensor<5x3xf32>) -> tensor<4x5xf32> {
          %0 = ng.dot %x, %w contract [1] x [1] : (tensor<4x3xf32>, tensor<5x3xf32>) -> tensor<4x5xf32>
          func.return %0 : tensor<4x5xf32>
        }
    """
    return module.with_ops([_function(op, target) if op.name == "func.func" else op for op in module.ops])


def _function(function: Op, target: Target) -> Op:
    if not function.regions[0].blocks:
        return function
    # On CPUs, where the other rules leave the sides of products decides which dimensions of these are to be columns.
    for settled in (False,) if target.has_thread_blocks else (False, True):
        # Values that a rule adds between its operands and its result have no count of uses before the next round.
        for _ in range(_ROUNDS):
            rules = _Layout(function, target, settled)
            changed = sweep_op(function, rules.rule, follow=rules.follow)
            if changed is function:
                break
            function = without_dead(changed)  # unused transposes must not count as uses of their operands
    return with_channels_innermost(function, target)


_ROUNDS = 4

#: Least ratio of the elements of a transposed tensor to those that a gather reads of it, from which on they are read in place: one by
#: one, which takes about so much longer than a copy (measured on Zen 5).
_FEW = 4

#: Least number of rows inside the columns of a product of batches: on Zen 4 products of 49 positions of images take up to 1.14 of the time
#: of one product and a transpose, those of 64 take 0.9 to 0.97.
_INNER = 64


class _Layout:
    def __init__(self, function: Op, target: Target, settled: bool):
        self.target = target
        self.settled = settled  # whether the sides of products stay where they are
        self.uses = count_uses(function.regions[0].blocks[0])
        #: The block of each op: nothing may be moved into a loop.
        self.block: dict[Op, Block] = {
            op: block
            for top in (function, *function.walk())
            for region in top.regions
            for block in region.blocks
            for op in block.ops
        }
        self.moved: dict[tuple[Block, Value, tuple[int, ...]], Value] = {}
        self.taken = {value for block in {*self.block.values()} for value in absorbed(block.ops)}

    def follow(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        """Adds the uses of each replaced value to those of its replacement, so that the rest of this round sees them, however
        many transposes follow each other."""
        for former, after in zip(old, new, strict=True):
            self.uses[after] = self.uses.get(after, 0) + self.uses.get(former, 0)
            if former in self.taken:
                self.taken.add(after)
            if isinstance(former.owner, Op) and isinstance(after.owner, Op):
                self.block.setdefault(after.owner, self.block[former.owner])

    def rule(self, op: Op, b: Builder) -> Sequence[Value] | None:
        match op.name:
            case "ng.transpose":
                return self.transpose(op, b)
            case "ng.dot":
                return self.dot(op, b) or product_as_sum(op, b)
            case "ng.slice":
                return self.slice(op, b) or self.sink(op, b)
            case "ng.gather" if _FEW * usual(prod(shape_of(op.result.type))) <= usual(
                prod(shape_of(op.operands[0].type))
            ):
                made = sunk(op, self.free, b)  # fewer elements are moved
                return None if made is None else [made]
            case "ng.pad" if all(is_same(n, 0) for n in (*get_i64s(op, "low"), *get_i64s(op, "high"))):
                return op.operands
            case "ng.overlap_add":
                alone = self.uses.get(op.operands[0], 2) == 1
                made = alone and (as_windows(op, self.uses, b) or as_sum_over_windows(op, self.uses, b))
                return made or None
            case _:
                return self.sink(op, b)

    def sink(self, op: Op, b: Builder) -> Sequence[Value] | None:
        """The op applied to the operands of its transposes, if a later op takes the transpose of the result in or moves fewer bytes."""
        if "reduction" not in op.traits and not is_shortening(op) and self.taken.isdisjoint(op.results):
            return None
        found = sunk(op, self.free, b)
        return None if found is None else [found]

    def free(self, value: Value, order: Sequence[int], b: Builder) -> Value | None:
        return self.move(value, order, b) if self.vanishes(value, order) else None

    # -- slices ------------------------------------------------------------------------------------------

    def slice(self, op: Op, b: Builder) -> Sequence[Value] | None:
        source = op.operands[0]
        owner = source.owner
        lengths, steps = shape_of(source.type), get_i64s(op, "steps")
        # A dimension of one element may have any step, also a negative one.
        if op.results[0].type is source.type and all(1 in pair for pair in zip(steps, lengths, strict=True)):
            return [source]
        if isinstance(owner, Op) and owner.name == "ng.slice":
            return [b.slice(owner.operands[0], **_composed(owner, op))]
        if isinstance(owner, Op) and owner.name == "ng.transpose" and self.uses.get(source, 2) == 1:
            made = sunk(op, self.free, b)  # fewer elements are moved
            return None if made is None else [made]
        if not isinstance(owner, Op):
            return None

        def alone(value: Value) -> bool:
            by = value.owner
            return (
                isinstance(by, Op)
                and self.uses.get(value, 2) == 1
                and self.block.get(by) is self.block.get(op)
                and SCHEDULE not in by.attributes
            )

        computed = alone(source) and ("elementwise" in owner.traits or leads_to_windows(source, alone))
        if owner.name not in ("ng.broadcast", "ng.windows") and not computed:
            return None
        made = cut(source, Part.of(op), op.results[0].type, alone, b)
        return None if isinstance(made.owner, Op) and made.owner.operands[:1] == (source,) else [made]

    # -- transposes --------------------------------------------------------------------------------------

    def transpose(self, op: Op, b: Builder) -> Sequence[Value] | None:
        source = op.operands[0]
        order = get_i64s(op, "permutation")
        if not self.vanishes(source, order) and op.results[0] in self.taken:
            return None  # `sink` moves it to its users
        if self.runs_along_rows(source, order):
            assert isinstance(source.owner, Op)
            turned = _swapped_order(source.owner)
            product = _swapped(source.owner, permuted(source.type, turned), b)
            return [b.transpose(product, permutation=[turned.index(d) for d in order])]
        inner = order_of(source)
        if inner is not None and not self.vanishes(source, order):
            return [b.transpose(source_of(source), permutation=[inner[d] for d in order])]
        if not (
            self.vanishes(source, order)
            or self.one_moves(source, order)
            or (self.absorbs(source, order) and _lies_across(source.owner))
        ):
            return None
        return [self.move(source, order, b)]

    def runs_along_rows(self, value: Value, order: Sequence[int]) -> bool:
        """Whether to exchange the sides of a product of windows on a CPU that becomes no product of batches: it has fewer columns than
        rows, their number is no multiple of two vector registers, and `order` has the rows that are contiguous in the windows innermost."""
        dot = value.owner
        if not isinstance(dot, Op) or dot.name != "ng.dot" or SCHEDULE in dot.attributes:
            return False
        # Transposes that move nothing are removed before the sides of products are settled.
        now = self.settled or in_place(order, shape_of(value.type))
        if self.target.has_thread_blocks or not now:
            return False
        if self.uses.get(value, 2) != 1 or not _is_contiguous_in_rows(dot):
            return False
        windows = before(dot.operands[0], ("ng.reshape", "ng.pad"))
        if not (isinstance(windows.owner, Op) and windows.owner.name == "ng.windows") or self.outer_rows(
            dot, order
        ):
            return False
        shape, rows = shape_of(value.type), _rows(dot)
        lying, wanted = ([d for d in dims if shape[d] != 1] for dims in (rows, order))
        pair = 2 * self.target.lanes(item_bytes(element_type(value.type)))
        across, along = (usual(prod(sizes)) for sizes in (shape[rows.start : rows.stop], shape[rows.stop :]))
        return bool(lying) and wanted[-1] == lying[-1] and along % pair != 0 and across > along

    def vanishes(self, value: Value, order: Sequence[int], depth: int = 8) -> bool:
        """Whether a value can be computed in another order without moving data."""
        owner = value.owner
        if in_place(order, shape_of(value.type)):
            return True
        if not isinstance(owner, Op) or depth == 0:
            return False
        if owner.name == "ng.constant":
            return splat(owner)
        if owner.name in ("ng.iota", "ng.extent"):
            return True
        if owner.name == "ng.transpose":
            inner = get_i64s(owner, "permutation")
            return self.vanishes(owner.operands[0], [inner[d] for d in order], depth - 1)
        if owner.name == "ng.broadcast":
            return self.vanishes(owner.operands[0], _repeated_in(owner, order)[0], depth - 1)
        if "elementwise" in owner.traits or owner.name == "ng.cast_axes":
            return all(self.vanishes(o, order, depth - 1) for o in owner.operands)
        return False

    def one_moves(self, value: Value, order: Sequence[int]) -> bool:
        """Whether an elementwise op, read only here, passes the transpose on to a single operand of equal size."""
        owner = value.owner
        if not isinstance(owner, Op) or self.uses.get(value, 2) != 1:
            return False
        if not ("elementwise" in owner.traits or owner.name == "ng.cast_axes"):
            return False
        moving = [o for o in owner.operands if not self.vanishes(o, order)]
        # Worth it only if the transpose then cancels another one, or a product takes it in.
        return len(moving) == 1 and (self.one_moves(moving[0], order) or self.absorbs(moving[0], order))

    def absorbs(self, value: Value, order: Sequence[int]) -> bool:
        owner = value.owner
        return (
            isinstance(owner, Op)
            and owner.name == "ng.dot"
            and (_swaps(owner, order) or self.outer_rows(owner, order) > 0)
            and self.uses.get(value, 2) == 1
            and SCHEDULE not in owner.attributes
            and not channels_of_bytes(owner, self.target)
        )

    def outer_rows(self, dot: Op, order: Sequence[int]) -> int:
        """The number of dimensions that are rows of a product and outside its columns in `order`, if many other rows are inside them and
        contiguous in the left side: then a CPU computes the transpose as a product for each element of a batch. 0 otherwise."""
        rows, shape = _rows(dot), shape_of(dot.results[0].type)
        count = next((i for i, d in enumerate(order) if d not in rows), 0)
        inner = [d for d in rows if d not in order[:count]]
        fits = rows.start == 0 and [*order[count:]] == [*range(rows.stop, len(order)), *inner]
        if (
            not (self.settled and fits)
            or in_place(order, shape)
            or usual(prod([shape[d] for d in inner])) < _INNER
        ):
            return 0
        # What is cut out or flipped is not read in place: it would be repeated in memory.
        columns = before(dot.operands[1], ("ng.reshape", "ng.transpose"))
        moved = isinstance(columns.owner, Op) and columns.owner.name in MOVES
        return count if not moved and _is_contiguous_in_rows(dot) else 0

    def move(self, value: Value, order: Sequence[int], b: Builder) -> Value:
        """The value in another order."""
        order = tuple(order)
        if order == tuple(range(len(order))):
            return value
        if in_place(order, shape_of(value.type)):
            return b.reshape(value, type=permuted(value.type, order))
        key = (b.block, value, order)
        if key not in self.moved:
            self.moved[key] = self.made(value, order, b)
        return self.moved[key]

    def made(self, value: Value, order: tuple[int, ...], b: Builder) -> Value:
        owner, wanted = value.owner, permuted(value.type, order)
        if isinstance(owner, Op) and (self.vanishes(value, order) or self.one_moves(value, order)):
            match owner.name:
                case "ng.constant":
                    return with_type(owner, wanted, b)
                case "ng.iota":
                    place = IntegerAttr(order.index(get_i64(owner, "dimension")))
                    return _changed(owner, [], wanted, {"dimension": place}, b)
                case "ng.extent":
                    return _changed(owner, [], wanted, {}, b)
                case "ng.transpose":
                    inner = get_i64s(owner, "permutation")
                    return self.move(owner.operands[0], [inner[d] for d in order], b)
                case "ng.broadcast":
                    inner, places = _repeated_in(owner, order)
                    own = self.move(owner.operands[0], inner, b)
                    return _changed(owner, [own], wanted, {"dimensions": integers(places)}, b)
                case _:
                    return _changed(owner, [self.move(o, order, b) for o in owner.operands], wanted, {}, b)
        assert isinstance(owner, Op) and self.absorbs(value, order)
        if _swaps(owner, order):
            return _swapped(owner, wanted, b)
        return _batched(owner, order[: self.outer_rows(owner, order)], wanted, b)

    # -- readers -----------------------------------------------------------------------------------------

    def dot(self, op: Op, b: Builder) -> Sequence[Value] | None:
        """A product that reads the operands of transposes: its attributes name contracted and batch dimensions by index, so it
        reads any order of them."""
        operands = list(op.operands)
        attributes = dict(op.attributes)
        changed = False
        for i, side in enumerate(("lhs", "rhs")):
            order = order_of(operands[i])
            if order is None:
                continue
            contract, batch = get_i64s(op, f"{side}_contract"), get_i64s(op, f"{side}_batch")
            free = [order[d] for d in range(len(order)) if d not in contract and d not in batch]
            if free != sorted(free):
                continue
            operands[i] = source_of(operands[i])
            attributes[f"{side}_contract"] = integers(order[d] for d in contract)
            attributes[f"{side}_batch"] = integers(order[d] for d in batch)
            changed = True
        if not changed:
            return None
        new = op.rebuilt(operands, attributes=attributes)
        b.add_op(new)
        return new.results


def _composed(inner: Op, outer: Op) -> dict[str, list[int]]:
    """Starts, limits and steps of the one slice that equals a slice of a slice."""
    made: dict[str, list[int]] = {"starts": [], "limits": [], "steps": []}
    first, second = ([get_i64s(op, name) for name in ("starts", "steps")] for op in (inner, outer))
    for start, step, begin, by, size in zip(*first, *second, shape_of(outer.results[0].type), strict=True):
        start, step = (start + begin * step, step * by) if size else (0, 1)
        made["starts"].append(start)
        made["limits"].append(start + (size - 1) * step + (1 if step > 0 else -1) if size else 0)
        made["steps"].append(step)
    return made


def _swaps(dot: Op, order: Sequence[int]) -> bool:
    """Whether the order exchanges the rows and the columns of a product, each as a group; dimensions of size 1 may be
    anywhere."""
    shape = shape_of(dot.results[0].type)
    return [d for d in order if shape[d] != 1] == [d for d in _swapped_order(dot) if shape[d] != 1]


def _swapped_order(dot: Op) -> list[int]:
    """The order of a product's dimensions with its columns before its rows."""
    rows, rank = _rows(dot), len(shape_of(dot.results[0].type))
    return [*range(rows.start), *range(rows.stop, rank), *rows]


def _rows(dot: Op) -> range:
    """The dimensions of a product that are rows."""
    batch = len(get_i64s(dot, "lhs_batch"))
    return range(batch, len(shape_of(dot.operands[0].type)) - len(get_i64s(dot, "lhs_contract")))


def _repeated_in(broadcast: Op, order: Sequence[int]) -> tuple[list[int], list[int]]:
    """The order of the dimensions of the operand of a broadcast whose result has an order, and where these are in the result."""
    places = [list(order).index(d) for d in get_i64s(broadcast, "dimensions")]
    return sorted(range(len(places)), key=places.__getitem__), sorted(places)


def _changed(
    op: Op, operands: Sequence[Value], type: Type, changed: Mapping[str, Attribute], b: Builder
) -> Value:
    """The result of a copy of an op with other operands, another result type and the attributes `changed`."""
    new = op.rebuilt(operands, types=[type], attributes={**op.attributes, **changed})
    return b.add_op(new).result


def _lies_across(dot: object) -> bool:
    """Whether the innermost dimension of the left side of a product is not contracted: as columns its elements would be read
    contiguously."""
    assert isinstance(dot, Op)
    shape = shape_of(dot.operands[0].type)
    long = [d for d, size in enumerate(shape) if size != 1]
    return bool(long) and long[-1] not in get_i64s(dot, "lhs_contract")


def _is_contiguous_in_rows(dot: Op) -> bool:
    """The same where the left side is windows or a part of a transposed tensor."""
    stored = order_of(before(dot.operands[0], ("ng.reshape", "ng.windows", "ng.pad")))
    return _lies_across(dot) and not (stored and stored[-1] != len(stored) - 1)


def _swapped(dot: Op, wanted: Type, b: Builder) -> Value:
    """The product with its sides exchanged, which is its transpose."""
    sides = {
        f"{new}_{kind}": get_i64s(dot, f"{old}_{kind}")
        for new, old in (("lhs", "rhs"), ("rhs", "lhs"))
        for kind in ("contract", "batch")
    }
    made = permuted(dot.results[0].type, _swapped_order(dot))
    product = b.dot(dot.operands[1], dot.operands[0], **sides, type=made)
    return product if made is wanted else b.reshape(product, type=wanted)  # dimensions of size 1 differ


def _batched(dot: Op, outer: Sequence[int], wanted: Type, b: Builder) -> Value:
    """A product without a batch as one of batches, the dimensions `outer` of its rows, with its sides exchanged: the left side is
    the same matrix for all of them."""
    rows, columns = dot.operands
    contract = get_i64s(dot, "lhs_contract")
    free = [d for d in range(len(shape_of(rows.type))) if d not in contract]
    batch, count = [free[d] for d in outer], len(outer)
    shape = (*(shape_of(rows.type)[d] for d in batch), *shape_of(columns.type))
    inner = range(count, len(shape))
    return b.dot(
        b.broadcast(columns, type=TensorType(shape, element_type(columns.type)), dimensions=inner),
        rows,
        lhs_contract=[inner[d] for d in get_i64s(dot, "rhs_contract")],
        rhs_contract=contract,
        lhs_batch=range(count),
        rhs_batch=batch,
        type=wanted,
    )
