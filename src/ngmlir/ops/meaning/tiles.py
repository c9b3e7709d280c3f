# SPDX-License-Identifier: Apache-2.0
"""What kernels and the ops on buffers mean. A buffer is a NumPy view of the memory that it stands for.

Programs run one after the other, so barriers have nothing to do. What must not be read (fresh memory, the
target of a copy in flight) holds poison, and an access outside a buffer is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...ir.attributes import IntegerAttr, StringAttr
from ...ir.core import Op, callee
from ...ir.literals import dtype_of
from ...ir.types import DYNAMIC, MemRefType, Type, bf16, i8, i16, shape_of, ui8
from ...support.diagnostics import UserError
from ..fields import find_i64s, find_unit, get_i64, get_i64s, get_str
from ..hosts import op_of_kernel
from ..tile_rules import BYTE_TABLE
from .control import Runner
from .indexing import COMBINE
from .numbers import Array, fma, is_float
from .shape import literal_array


def fill_with_poison(memory: Array) -> None:
    """NaN for floats, a conspicuous pattern for the rest; bytes are set so that floats laid over them are NaN."""
    if is_float(memory.dtype):
        memory[...] = np.nan
    elif memory.dtype == np.bool_:
        memory[...] = True
    else:
        pattern = b"\xff" if memory.itemsize == 1 else b"\xaa" * memory.itemsize
        memory[...] = np.frombuffer(pattern, memory.dtype)[0]


def fresh(type: Type) -> Array:
    """Uninitialised memory for a value of `type`."""
    memory = np.empty(shape_of(type), dtype_of(type))
    fill_with_poison(memory)
    return memory


def launch(runner: Runner, kernel: Op, buffers: Sequence[Array]) -> None:
    """Runs all programs of a kernel."""
    written = len(buffers) - get_i64(kernel, "outputs")
    given = [_read_only(b) if i < written else b for i, b in enumerate(buffers)]
    points = list(product(*map(range, get_i64s(kernel, "grid"))))
    if runner.order is not None:
        np.random.default_rng(runner.order).shuffle(points)
    for point in points:
        runner.isolated(kernel.regions[0].block, [*given, *(np.asarray(i, np.int64) for i in point)])


def _read_only(buffer: Array) -> Array:
    view = buffer.view()
    view.flags.writeable = False
    return view


def _write(op: Op, buffer: Array, place: Any, value: Any) -> None:
    if not buffer.flags.writeable:
        raise UserError(f"{op.name} writes to an input of the kernel", op.location)
    buffer[place] = value


def launch_op(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    launch(runner, runner.symbol(op, callee(op)), operands)
    return ()


def call_op(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    kernel = runner.symbol(op, callee(op))
    made = op_of_kernel(kernel)
    reference = None if made is None else made.reference_of(kernel)
    if reference is not None:
        return reference(operands, [r.type for r in op.results], op.location)
    results = [fresh(r.type) for r in op.results]
    launch(runner, kernel, [*operands, *results])
    return results


# ---- buffers -----------------------------------------------------------------------------------------------


def view(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    type, start = op.result.type, get_i64(op, "offset")
    assert isinstance(type, MemRefType)
    dtype = dtype_of(type)
    stop = start + type.size * dtype.itemsize
    (buffer,) = operands
    if not buffer.flags.c_contiguous:
        raise UserError("tile.view of a buffer that is not contiguous", op.location)
    if not 0 <= start <= stop <= buffer.nbytes:
        raise UserError(
            f"tile.view takes bytes {start} to {stop} of a buffer of {buffer.nbytes}", op.location
        )
    return [buffer.reshape(-1).view(np.uint8)[start:stop].view(dtype).reshape(type.shape)]


def alloc(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    return [fresh(op.result.type)]


def subview(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    buffer, starts, shape = operands[0], [int(i) for i in operands[1:]], shape_of(op.result.type)
    sizes = [1] * (buffer.ndim - len(shape)) + list(shape)
    if find_unit(op, "masked"):
        return [_partly(buffer, starts, sizes).reshape(shape)]
    window: list[slice] = []
    for d, (start, size, whole) in enumerate(zip(starts, sizes, buffer.shape, strict=True)):
        stop = max(start, whole) if size == DYNAMIC else start + size
        _require_inside(op, start, stop - 1 if stop > start else start, d, whole, empty=stop == start)
        window.append(slice(start, stop))
    # Only dimensions of one element go away, so this is a view and no copy.
    found = buffer[tuple(window)]
    return [found.reshape(found.shape[buffer.ndim - len(shape) :])]


def _partly(buffer: Array, starts: Sequence[int], sizes: Sequence[int]) -> Array:
    """The elements of a window, 0 for those that the buffer lacks."""
    found = np.zeros(sizes, buffer.dtype)
    bounds = list(zip(starts, sizes, buffer.shape, strict=True))
    inside = [slice(max(start, 0), max(start + size, 0)) for start, size, _ in bounds]
    there = [slice(max(-start, 0), max(whole - start, 0)) for start, _, whole in bounds]
    found[tuple(there)] = buffer[tuple(inside)]
    return found


def _require_inside(op: Op, first: int, last: int, dimension: int, size: int, *, empty: bool = False) -> None:
    if 0 <= first and (last < size or (empty and first <= size)):
        return
    outside = first if first < 0 else last
    raise UserError(
        f"{op.name} accesses index {outside} of dimension {dimension}, which has {size} elements",
        op.location,
        hint="mask the access, or keep it inside the buffer",
    )


class _Place:
    """The location of a tile in a buffer: as a window of slices where that can be said, else index by index."""

    def __init__(self, op: Op, buffer: Array, starts: Sequence[Any], shape: tuple[int, ...]):
        dims, steps = find_i64s(op, "dims"), find_i64s(op, "steps")
        own = dims if dims is not None else tuple(range(buffer.ndim - len(shape), buffer.ndim))
        sizes = [1] * buffer.ndim
        for size, d in zip(shape, own, strict=True):
            sizes[d] = size
        corner = [int(s) for s in starts]
        self.shape = shape
        self.order = (*own, *(d for d in range(buffer.ndim) if d not in own))
        self.window: tuple[slice, ...] | None = None
        ends = [s + n for s, n in zip(corner, sizes, strict=True)]
        if steps is None and all(
            0 <= s and e <= n for s, e, n in zip(corner, ends, buffer.shape, strict=True)
        ):
            self.window = tuple(map(slice, corner, ends))
            return
        self.rows = [s + np.arange(n) for s, n in zip(corner, sizes, strict=True)]
        if steps is not None:
            for d, distance in zip(own, steps, strict=True):
                self.rows[d] = corner[d] + distance * np.arange(sizes[d])
        self.inside = [(r >= 0) & (r < n) for r, n in zip(self.rows, buffer.shape, strict=True)]
        if "masked" not in op.attributes:
            for d, (row, size) in enumerate(zip(self.rows, buffer.shape, strict=True)):
                _require_inside(op, int(row.min()), int(row.max()), d, size)

    def kept(self) -> tuple[Any, Any]:
        """Index of the elements inside the buffer: in the buffer, and in the tile laid out like the buffer."""
        rows = [r[i] for r, i in zip(self.rows, self.inside, strict=True)]
        return np.ix_(*rows), np.ix_(*self.inside)

    def laid_out(self, tile: Array) -> Array:
        """The tile with the buffer's dimensions."""
        whole = tile.reshape((*self.shape, *[1] * (len(self.order) - len(self.shape))))
        return whole.transpose(np.argsort(self.order)) if self.order else whole

    def taken_up(self, found: Array) -> Array:
        """The tile out of what lay in the buffer."""
        return found.transpose(self.order).reshape(self.shape)


def load(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    buffer, starts = operands[0], operands[1:]
    place = _Place(op, buffer, starts, shape_of(op.result.type))
    if place.window is not None:
        return [place.taken_up(np.array(buffer[place.window]))]
    pad = op.attributes.get("pad")
    found = np.full([len(r) for r in place.rows], literal_array(pad) if pad is not None else 0, buffer.dtype)
    there, here = place.kept()
    found[here] = buffer[there]
    return [place.taken_up(found)]


def store(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    value, buffer, starts = operands[0], operands[1], operands[2:]
    place = _Place(op, buffer, starts, value.shape)
    if place.window is not None:
        _write(op, buffer, place.window, place.laid_out(value))
        return ()
    there, here = place.kept()
    _write(op, buffer, there, place.laid_out(value)[here])
    return ()


def _positions(
    op: Op, buffer: Array, indices: Sequence[Array], shape: tuple[int, ...], used: Array
) -> tuple[Array, ...]:
    """The index of each element in each dimension; only those `used` must be inside."""
    found = [np.broadcast_to(i, shape).astype(np.int64)[used] for i in indices]
    for d, (index, size) in enumerate(zip(found, buffer.shape, strict=True)):
        if index.size:
            _require_inside(op, int(index.min()), int(index.max()), d, size)
    return tuple(found)


def gather(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    buffer, shape = operands[0], shape_of(op.result.type)
    found = buffer[_positions(op, buffer, operands[1:], shape, np.ones(shape, bool))]
    return [np.asarray(found).reshape(shape)]


def lookup_table(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    table, indices = operands
    if table.shape == (BYTE_TABLE,):
        return [table[indices]]
    if table.dtype == np.uint8:  # of each byte of a word
        bytes_ = np.ascontiguousarray(indices).view(np.uint8)
        return [np.take_along_axis(table, bytes_.astype(np.int64) % table.shape[-1], -1).view(np.int32)]
    return [np.take_along_axis(table, indices.astype(np.int64) % table.shape[-1], -1)]


def scatter(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    value, mask, buffer = operands[:3]
    combine = COMBINE[get_str(op, "combine")]
    places = _positions(op, buffer, operands[3:], value.shape, mask)
    for place, one in zip(zip(*places, strict=True), value[mask], strict=False) if places else ():
        _write(op, buffer, place, combine(buffer[place], one))
    if not places and mask:
        _write(op, buffer, (), combine(buffer[()], value))
    return ()


def copy(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    source, target = operands
    _write(op, target, ..., source)
    return ()


def copy_async(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    # The copy happens as late as it may: reading the target too early, or writing the source, shows.
    _, target = operands
    fill_with_poison(target)
    return [(op, tuple(operands))]


def wait(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    for started, buffers in operands:
        copy(runner, started, buffers)
    return ()


def prefetch(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    return ()


def barrier(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    return ()


# ---- computing ---------------------------------------------------------------------------------------------


def dot(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    lhs, rhs, total = operands
    if words := op.attributes.get("words"):
        assert isinstance(words, StringAttr)
        left, right = (_parts(x, e) for x, e in zip((lhs, rhs), words.value.split("_"), strict=True))
        return [sum((a @ b for a, b in zip(left, right, strict=True)), total)]
    lhs, rhs = lhs.astype(total.dtype), rhs.astype(total.dtype)
    if not runner.exact or not is_float(total.dtype):
        return [(total + lhs @ rhs).astype(total.dtype)]
    for k in range(lhs.shape[1]):
        total = fma(lhs[:, k, None], rhs[None, k, :], total)
    return [total]


def _parts(words: Any, element: str) -> list[Any]:
    """The neighbours that words hold, as i32 or f32: the first of each word, then the second ..."""
    if words.dtype.itemsize == 2:  # half words
        element = "ui8" if words.dtype.kind == "u" else "i8"
    stored = {"ui4": ui8, "ui6": ui8}.get(element) or next(
        t for t in (i8, ui8, i16, bf16) if t.text == element
    )
    wide = np.float32 if stored is bf16 else np.int32
    parts = np.ascontiguousarray(words).view(dtype_of(stored)).reshape(*words.shape, -1)
    return [parts[..., i].astype(wide) for i in range(parts.shape[-1])]


def for_(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    given = iter(operands)
    known = [op.attributes.get(name) for name in ("lower", "upper", "step")]
    lower, upper, step = (k.value if isinstance(k, IntegerAttr) else int(next(given)) for k in known)
    carried = tuple(given)
    if step <= 0:
        raise UserError(f"the step of tile.for is {step}; it must be positive", op.location)
    for i in range(lower, upper, step):
        carried = runner.block(op.regions[0].block, [np.asarray(i, np.int64), *carried])
    return carried


TILES: dict[str, Callable[..., Sequence[Any]]] = {
    "tile.call": call_op,
    "tile.launch": launch_op,
    "tile.view": view,
    "tile.alloc": alloc,
    "tile.subview": subview,
    "tile.load": load,
    "tile.store": store,
    "tile.gather": gather,
    "tile.scatter": scatter,
    "tile.lookup_table": lookup_table,
    "tile.dot": dot,
    "tile.for": for_,
    "tile.prefetch": prefetch,
    "tile.copy": copy,
    "tile.copy_async": copy_async,
    "tile.wait": wait,
    "tile.barrier": barrier,
}
