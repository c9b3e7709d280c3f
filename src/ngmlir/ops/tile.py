# SPDX-License-Identifier: Apache-2.0
# Generated from dialects/tile.ngd by `python -m ngmlir.decl.generate`; do not edit.
"""The tile dialect. Kernels: programs over tiles, between buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from ..ir.attributes import Attribute
from ..ir.core import Op, Region, Value
from ..ir.definition import AttributeField, Constraint, Domain, OpDefinition, Operand
from ..ir.types import Type
from . import fields, tile_rules

V = TypeVar("V")


class KernelOp(Op):
    """A kernel. Its arguments are buffers (the last `outputs` of them are written), then one program index per grid dimension. `in_place` lists pairs (input, output) that may be one buffer."""

    __slots__ = ()
    name = "tile.kernel"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        attributes=(
            AttributeField("sym_name", "str", None, False),
            AttributeField("function_type", "type", None, False),
            AttributeField("grid", "i64s", None, False),
            AttributeField("outputs", "i64", fields.default("i64", '1'), False),
            AttributeField("in_place", "i64s", fields.default("i64s", '[]'), False),
            AttributeField("threads", "i64", None, True),
        ),
        regions=('body',),
        traits=frozenset(['function', 'isolated', 'symbol']),
        rule=tile_rules.kernel,
        form=('ins', 'outs', 'grid', 'in_place', 'threads'),
        doc='A kernel. Its arguments are buffers (the last `outputs` of them are written), then one program index per grid dimension. `in_place` lists pairs (input, output) that may be one buffer.',
        example='tile.kernel @double ins(%x: memref<128xf32>) outs(%y: memref<128xf32>) grid(%i < 2) in_place(%x -> %y) {\n  %c64 = ng.constant 64 : index\n  %at = ng.multiply %i, %c64 : index\n  %v = tile.load %x[%at] : memref<128xf32>, vector<64xf32>\n  %w = ng.add %v, %v : vector<64xf32>\n  tile.store %w, %y[%at] : vector<64xf32>, memref<128xf32>\n  tile.return\n}',
    )

    @property
    def sym_name(self) -> str:
        return fields.get_str(self, "sym_name")

    @property
    def function_type(self) -> Type:
        return fields.get_type(self, "function_type")

    @property
    def grid(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "grid")

    @property
    def outputs(self) -> int:
        return fields.get_i64(self, "outputs")

    @property
    def in_place(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "in_place")

    @property
    def threads(self) -> int | None:
        return fields.find_i64(self, "threads")

    @property
    def body(self) -> Region:
        return self.regions[0]


class ReturnOp(Op):
    """Ends a kernel."""

    __slots__ = ()
    name = "tile.return"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        traits=frozenset(['terminator']),
        form=(),
        doc='Ends a kernel.',
        example='tile.return',
    )


class CallOp(Op):
    """Runs a kernel on values: the inputs are its read buffers, the results its written ones."""

    __slots__ = ()
    name = "tile.call"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inputs", Constraint("tensor(element)", "tensor", "element"), "", True),
        ),
        results=(
            Operand("results", Constraint("tensor(element)", "tensor", "element"), "", True),
        ),
        attributes=(
            AttributeField("callee", "symbol", None, False),
        ),
        traits=frozenset(['pure', 'stated']),
        form=('$callee', 'ins', '(', '$inputs', ')', 'attr-dict', '->', 'type($results)'),
        doc='Runs a kernel on values: the inputs are its read buffers, the results its written ones.',
        given='%a: tensor<4xf32>',
        example='%r = tile.call @k ins(%a) -> tensor<4xf32>',
    )

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands[0:]

    @property
    def callee(self) -> str:
        return fields.get_symbol(self, "callee")


class LaunchOp(Op):
    """Runs a kernel on buffers: it reads the sources and writes the targets. Made by the memory plan."""

    __slots__ = ()
    name = "tile.launch"
    definition = OpDefinition(
        name,
        operands=(
            Operand("sources", Constraint("memref(element)", "memref", "element"), "", True),
            Operand("targets", Constraint("memref(element)", "memref", "element"), "", True, counted="outputs"),
        ),
        results=(),
        attributes=(
            AttributeField("callee", "symbol", None, False),
            AttributeField("outputs", "i64", fields.default("i64", '1'), False),
        ),
        traits=frozenset([]),
        form=('$callee', 'ins', '(', '$sources', ')', 'outs', '(', '$targets', ')', 'attr-dict'),
        doc='Runs a kernel on buffers: it reads the sources and writes the targets. Made by the memory plan.',
        given='%a: memref<4xf32>, %b: memref<4xf32>',
        example='tile.launch @k ins(%a) outs(%b)',
    )

    @property
    def sources(self) -> tuple[Value, ...]:
        return fields.group(self, "sources")

    @property
    def targets(self) -> tuple[Value, ...]:
        return fields.group(self, "targets")

    @property
    def callee(self) -> str:
        return fields.get_symbol(self, "callee")

    @property
    def outputs(self) -> int:
        return fields.get_i64(self, "outputs")


class ViewOp(Op):
    """Another buffer over the same bytes: `offset` bytes from the start of a contiguous one, of any shape and element type. Made by the memory plan."""

    __slots__ = ()
    name = "tile.view"
    definition = OpDefinition(
        name,
        operands=(
            Operand("arena", Constraint("memref(element)", "memref", "element")),
        ),
        results=(
            Operand("result", Constraint("memref(element)", "memref", "element")),
        ),
        attributes=(
            AttributeField("offset", "i64", None, False),
        ),
        traits=frozenset(['pure', 'stated']),
        form=('$arena', 'at', '$offset', 'attr-dict', ':', 'type($result)'),
        doc='Another buffer over the same bytes: `offset` bytes from the start of a contiguous one, of any shape and element type. Made by the memory plan.',
        given='%a: memref<1024xi8>',
        example='%b = tile.view %a at 256 : memref<4xf32>',
    )

    @property
    def arena(self) -> Value:
        return self.operands[0]

    @property
    def offset(self) -> int:
        return fields.get_i64(self, "offset")


class AllocOp(Op):
    """Temporary memory of one program, uninitialised; memory space 3 is shared by the threads of a block."""

    __slots__ = ()
    name = "tile.alloc"
    definition = OpDefinition(
        name,
        operands=(),
        results=(
            Operand("result", Constraint("memref(element)", "memref", "element")),
        ),
        traits=frozenset(['stated']),
        form=(),
        doc='Temporary memory of one program, uninitialised; memory space 3 is shared by the threads of a block.',
        example='%s = tile.alloc : memref<32x64xf32, 3>',
    )


class SubviewOp(Op):
    """A view of a part of a buffer, starting at the indices; leading dimensions that the result does not have are fixed. With `masked` it may extend beyond the buffer: then only copies may read it, and elements outside the buffer are copied as 0."""

    __slots__ = ()
    name = "tile.subview"
    definition = OpDefinition(
        name,
        operands=(
            Operand("buffer", Constraint("memref(element)", "memref", "element")),
            Operand("indices", Constraint("scalar(index)", "scalar", "index"), "", True),
        ),
        results=(
            Operand("result", Constraint("memref(element)", "memref", "element")),
        ),
        attributes=(
            AttributeField("masked", "unit", None, True),
        ),
        traits=frozenset(['pure', 'stated']),
        rule=tile_rules.subview,
        form=('$buffer', '[', '$indices', ']', 'attr-dict', ':', 'type($buffer)', ',', 'type($result)'),
        doc='A view of a part of a buffer, starting at the indices; leading dimensions that the result does not have are fixed. With `masked` it may extend beyond the buffer: then only copies may read it, and elements outside the buffer are copied as 0.',
        given='%a: memref<8x64xf32>, %i: index, %j: index',
        example='%s = tile.subview %a[%i, %j] : memref<8x64xf32>, memref<64xf32, strided<[1], offset: ?>>',
    )

    @property
    def buffer(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.operands[1:]

    @property
    def masked(self) -> bool | None:
        return fields.find_unit(self, "masked")


class LoadOp(Op):
    """A tile from a buffer: element (p, q) is buffer[i + p, j + q]. `dims` is the buffer dimension of each tile dimension (default: the last ones), `steps` the stride (default 1). With `masked`, elements outside the buffer read as `pad` (default 0); otherwise all must be inside."""

    __slots__ = ()
    name = "tile.load"
    definition = OpDefinition(
        name,
        operands=(
            Operand("buffer", Constraint("memref(element)", "memref", "element")),
            Operand("indices", Constraint("scalar(index)", "scalar", "index"), "", True),
        ),
        results=(
            Operand("result", Constraint("tile(element)", "tile", "element")),
        ),
        attributes=(
            AttributeField("dims", "i64s", None, True),
            AttributeField("steps", "i64s", None, True),
            AttributeField("masked", "unit", None, True),
            AttributeField("pad", "number", None, True),
        ),
        traits=frozenset(['stated']),
        rule=tile_rules.load,
        form=('$buffer', '[', '$indices', ']', 'attr-dict', ':', 'type($buffer)', ',', 'type($result)'),
        doc='A tile from a buffer: element (p, q) is buffer[i + p, j + q]. `dims` is the buffer dimension of each tile dimension (default: the last ones), `steps` the stride (default 1). With `masked`, elements outside the buffer read as `pad` (default 0); otherwise all must be inside.',
        given='%a: memref<8x100xf32>, %i: index, %j: index',
        example='%v = tile.load %a[%i, %j] {masked} : memref<8x100xf32>, vector<4x64xf32>',
    )

    @property
    def buffer(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.operands[1:]

    @property
    def dims(self) -> tuple[int, ...] | None:
        return fields.find_i64s(self, "dims")

    @property
    def steps(self) -> tuple[int, ...] | None:
        return fields.find_i64s(self, "steps")

    @property
    def masked(self) -> bool | None:
        return fields.find_unit(self, "masked")

    @property
    def pad(self) -> Attribute | None:
        return fields.find_number(self, "pad")


class StoreOp(Op):
    """Writes a tile into a buffer, placed as by load. With `masked`, elements outside the buffer are dropped."""

    __slots__ = ()
    name = "tile.store"
    definition = OpDefinition(
        name,
        operands=(
            Operand("value", Constraint("tile(element)", "tile", "element")),
            Operand("buffer", Constraint("memref(element)", "memref", "element")),
            Operand("indices", Constraint("scalar(index)", "scalar", "index"), "", True),
        ),
        results=(),
        attributes=(
            AttributeField("dims", "i64s", None, True),
            AttributeField("steps", "i64s", None, True),
            AttributeField("masked", "unit", None, True),
        ),
        traits=frozenset([]),
        rule=tile_rules.store,
        form=('$value', ',', '$buffer', '[', '$indices', ']', 'attr-dict', ':', 'type($value)', ',', 'type($buffer)'),
        doc='Writes a tile into a buffer, placed as by load. With `masked`, elements outside the buffer are dropped.',
        given='%v: vector<4x64xf32>, %a: memref<8x100xf32>, %i: index, %j: index',
        example='tile.store %v, %a[%i, %j] {masked} : vector<4x64xf32>, memref<8x100xf32>',
    )

    @property
    def value(self) -> Value:
        return self.operands[0]

    @property
    def buffer(self) -> Value:
        return self.operands[1]

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.operands[2:]

    @property
    def dims(self) -> tuple[int, ...] | None:
        return fields.find_i64s(self, "dims")

    @property
    def steps(self) -> tuple[int, ...] | None:
        return fields.find_i64s(self, "steps")

    @property
    def masked(self) -> bool | None:
        return fields.find_unit(self, "masked")


class GatherOp(Op):
    """One element for each position of the index tiles (scalars apply to every position). All indices must be inside the buffer."""

    __slots__ = ()
    name = "tile.gather"
    definition = OpDefinition(
        name,
        operands=(
            Operand("buffer", Constraint("memref(element)", "memref", "element")),
            Operand("indices", Constraint("tile(integer)", "tile", "integer"), "", True),
        ),
        results=(
            Operand("result", Constraint("tile(element)", "tile", "element")),
        ),
        traits=frozenset(['stated']),
        rule=tile_rules.gather_tile,
        form=('$buffer', '[', '$indices', ']', 'attr-dict', ':', 'type($buffer)', ',', 'type($result)'),
        doc='One element for each position of the index tiles (scalars apply to every position). All indices must be inside the buffer.',
        given='%a: memref<8x100xf32>, %i: index, %j: vector<64xi32>',
        example='%v = tile.gather %a[%i, %j] : memref<8x100xf32>, vector<64xf32>',
    )

    @property
    def buffer(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.operands[1:]


class ScatterOp(Op):
    """Combines one element for each position where the mask is true, in row-major order of the tile."""

    __slots__ = ()
    name = "tile.scatter"
    definition = OpDefinition(
        name,
        operands=(
            Operand("value", Constraint("tile(element)", "tile", "element")),
            Operand("mask", Constraint("tile(bool)", "tile", "bool")),
            Operand("buffer", Constraint("memref(element)", "memref", "element")),
            Operand("indices", Constraint("tile(integer)", "tile", "integer"), "", True),
        ),
        results=(),
        attributes=(
            AttributeField("combine", "enum(set|add|max|min)", fields.default("enum(set|add|max|min)", 'set'), False),
        ),
        traits=frozenset([]),
        rule=tile_rules.scatter_tile,
        form=('$value', ',', '$mask', ',', '$buffer', '[', '$indices', ']', 'attr-dict', ':', 'type($value)', ',', 'type($buffer)'),
        doc='Combines one element for each position where the mask is true, in row-major order of the tile.',
        given='%v: vector<64xf32>, %m: vector<64xi1>, %a: memref<100xf32>, %i: vector<64xi32>',
        example='tile.scatter %v, %m, %a[%i] : vector<64xf32>, memref<100xf32>',
    )

    @property
    def value(self) -> Value:
        return self.operands[0]

    @property
    def mask(self) -> Value:
        return self.operands[1]

    @property
    def buffer(self) -> Value:
        return self.operands[2]

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.operands[3:]

    @property
    def combine(self) -> Literal["set", "add", "max", "min"]:
        return fields.get_enum(self, "combine")  # pyright: ignore


class DotOp(Op):
    """accumulator + lhs @ rhs on tiles M x K, K x N, M x N. Floats are accumulated in the accumulator's type, in order of k, by fma (by multiplication and addition on machines without it). With `words` each i32 of lhs and rhs holds adjacent elements along k, the first in the lowest bits: two of 16 bits or four of 8, of the types that `words` names for lhs and rhs (`ui4` and `ui6`: bytes below 16 and 64); products of bf16 are added to f32 in any order, and denormal operands and results may count as zero. Of `i16_i16` rhs may have half words, which hold two bytes: signed ones in i16, unsigned ones in ui16. With `tf32` elements of f32 are known to be tf32 numbers (their low 13 bits are zero), and the order of the sum is unspecified."""

    __slots__ = ()
    name = "tile.dot"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("vector(numeric)", "vector", "numeric")),
            Operand("rhs", Constraint("vector(numeric)", "vector", "numeric")),
            Operand("accumulator", Constraint("vector(numeric)", "vector", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("vector(numeric)", "vector", "numeric"), "T"),
        ),
        attributes=(
            AttributeField("words", "enum(i16_i16|ui8_i8|i8_ui8|i8_i8|ui8_ui8|ui4_i8|i8_ui4|ui6_i8|i8_ui6|bf16_bf16)", None, True),
            AttributeField("tf32", "unit", None, True),
        ),
        traits=frozenset(['pure']),
        rule=tile_rules.dot_tile,
        form=('$lhs', ',', '$rhs', ',', '$accumulator', 'attr-dict', ':', 'type($result)'),
        doc="accumulator + lhs @ rhs on tiles M x K, K x N, M x N. Floats are accumulated in the accumulator's type, in order of k, by fma (by multiplication and addition on machines without it). With `words` each i32 of lhs and rhs holds adjacent elements along k, the first in the lowest bits: two of 16 bits or four of 8, of the types that `words` names for lhs and rhs (`ui4` and `ui6`: bytes below 16 and 64); products of bf16 are added to f32 in any order, and denormal operands and results may count as zero. Of `i16_i16` rhs may have half words, which hold two bytes: signed ones in i16, unsigned ones in ui16. With `tf32` elements of f32 are known to be tf32 numbers (their low 13 bits are zero), and the order of the sum is unspecified.",
        given='%a: vector<6x4xf32>, %b: vector<4x64xf32>, %acc: vector<6x64xf32>',
        example='%c = tile.dot %a, %b, %acc : vector<6x64xf32>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]

    @property
    def accumulator(self) -> Value:
        return self.operands[2]

    @property
    def words(self) -> Literal["i16_i16", "ui8_i8", "i8_ui8", "i8_i8", "ui8_ui8", "ui4_i8", "i8_ui4", "ui6_i8", "i8_ui6", "bf16_bf16"] | None:
        return fields.find_enum(self, "words")  # pyright: ignore

    @property
    def tf32(self) -> bool | None:
        return fields.find_unit(self, "tf32")


class LookupTableOp(Op):
    """For each index the element of its row of the table: element (..., i) is table[..., indices[..., i] mod n]. A row has n = 16 elements. If they are ui8, an index is an i32 whose bytes are looked up each by itself, and the result has their elements as its bytes. Or the table is one row of n = 256 bytes, for all indices, which are ui8."""

    __slots__ = ()
    name = "tile.lookup_table"
    definition = OpDefinition(
        name,
        operands=(
            Operand("table", Constraint("vector(numeric)", "vector", "numeric")),
            Operand("indices", Constraint("vector(integer)", "vector", "integer")),
        ),
        results=(
            Operand("result", Constraint("vector(numeric)", "vector", "numeric")),
        ),
        traits=frozenset(['pure']),
        rule=tile_rules.lookup_table,
        form=('$table', '[', '$indices', ']'),
        doc='For each index the element of its row of the table: element (..., i) is table[..., indices[..., i] mod n]. A row has n = 16 elements. If they are ui8, an index is an i32 whose bytes are looked up each by itself, and the result has their elements as its bytes. Or the table is one row of n = 256 bytes, for all indices, which are ui8.',
        given='%a: vector<4x16xf32>, %i: vector<4x32xi32>',
        example='%v = tile.lookup_table %a[%i] : (vector<4x16xf32>, vector<4x32xi32>) -> vector<4x32xf32>',
    )

    @property
    def table(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> Value:
        return self.operands[1]


class ForOp(Op):
    """Runs the body for lower, lower + step, ... below upper; its arguments are the index and the carried values; it yields their next values. With `stages` the tiles of that many iterations are in flight, where possible; the pass `overlap` pipelines the loop."""

    __slots__ = ()
    name = "tile.for"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lower", Constraint("scalar(index)", "scalar", "index"), static=True),
            Operand("upper", Constraint("scalar(index)", "scalar", "index"), static=True),
            Operand("step", Constraint("scalar(index)", "scalar", "index"), static=True, default=1),
            Operand("inits", Constraint("any", "any", ""), "", True),
        ),
        results=(
            Operand("results", Constraint("any", "any", ""), "", True),
        ),
        attributes=(
            AttributeField("stages", "i64", None, True),
            AttributeField("lower", "i64", None, True),
            AttributeField("upper", "i64", None, True),
            AttributeField("step", "i64", None, True),
        ),
        regions=('body',),
        traits=frozenset(['control', 'stated']),
        rule=tile_rules.for_loop,
        form=('%position', '=', '$lower', 'to', '$upper', '{', 'step', '$step', '}', '{', 'iter', '(', '%carried=$inits', ')', '}', 'attr-dict', '{', '->', 'type($results)', '}'),
        doc='Runs the body for lower, lower + step, ... below upper; its arguments are the index and the carried values; it yields their next values. With `stages` the tiles of that many iterations are in flight, where possible; the pass `overlap` pipelines the loop.',
        given='%n: index, %init: vector<64xf32>',
        example='%r = tile.for %i = 0 to %n step 4 iter(%acc = %init) -> vector<64xf32> {\n  %next = ng.add %acc, %acc : vector<64xf32>\n  ng.yield %next : vector<64xf32>\n}',
    )

    @property
    def lower(self) -> int | Value:
        return fields.static(self, "lower")

    @property
    def upper(self) -> int | Value:
        return fields.static(self, "upper")

    @property
    def step(self) -> int | Value:
        return fields.static(self, "step")

    @property
    def inits(self) -> tuple[Value, ...]:
        return fields.group(self, "inits")

    @property
    def stages(self) -> int | None:
        return fields.find_i64(self, "stages")

    @property
    def body(self) -> Region:
        return self.regions[0]


class PrefetchOp(Op):
    """Prefetches the cache line of the element at the indices. A hint: the indices may be outside the buffer, and a target without such an instruction does nothing."""

    __slots__ = ()
    name = "tile.prefetch"
    definition = OpDefinition(
        name,
        operands=(
            Operand("buffer", Constraint("memref(element)", "memref", "element")),
            Operand("indices", Constraint("scalar(index)", "scalar", "index"), "", True),
        ),
        results=(),
        traits=frozenset([]),
        rule=tile_rules.prefetch,
        form=('$buffer', '[', '$indices', ']', 'attr-dict', ':', 'type($buffer)'),
        doc='Prefetches the cache line of the element at the indices. A hint: the indices may be outside the buffer, and a target without such an instruction does nothing.',
        given='%a: memref<8x64xf32>, %i: index, %j: index',
        example='tile.prefetch %a[%i, %j] : memref<8x64xf32>',
    )

    @property
    def buffer(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.operands[1:]


class CopyOp(Op):
    """Copies all elements; shapes and element types must be equal, strides may differ. The source and the target may be the same elements, as in a kernel that works in place: then nothing is done. Else they do not overlap."""

    __slots__ = ()
    name = "tile.copy"
    definition = OpDefinition(
        name,
        operands=(
            Operand("source", Constraint("memref(element)", "memref", "element")),
            Operand("target", Constraint("memref(element)", "memref", "element")),
        ),
        results=(),
        traits=frozenset([]),
        rule=tile_rules.copy,
        form=('$source', ',', '$target', 'attr-dict', ':', 'type($source)', ',', 'type($target)'),
        doc='Copies all elements; shapes and element types must be equal, strides may differ. The source and the target may be the same elements, as in a kernel that works in place: then nothing is done. Else they do not overlap.',
        given='%a: memref<4xf32>, %b: memref<4xf32>',
        example='tile.copy %a, %b : memref<4xf32>, memref<4xf32>',
    )

    @property
    def source(self) -> Value:
        return self.operands[0]

    @property
    def target(self) -> Value:
        return self.operands[1]


class CopyAsyncOp(Op):
    """Starts a copy; the target must not be read, nor the source written, before the token is waited for."""

    __slots__ = ()
    name = "tile.copy_async"
    definition = OpDefinition(
        name,
        operands=(
            Operand("source", Constraint("memref(element)", "memref", "element")),
            Operand("target", Constraint("memref(element)", "memref", "element")),
        ),
        results=(
            Operand("result", Constraint("any(token)", "any", "token")),
        ),
        traits=frozenset(['stated']),
        rule=tile_rules.copy_async,
        form=('$source', ',', '$target', 'attr-dict', ':', 'type($source)', ',', 'type($target)'),
        doc='Starts a copy; the target must not be read, nor the source written, before the token is waited for.',
        given='%a: memref<4xf32>, %b: memref<4xf32, 3>',
        example='%t = tile.copy_async %a, %b : memref<4xf32>, memref<4xf32, 3>',
    )

    @property
    def source(self) -> Value:
        return self.operands[0]

    @property
    def target(self) -> Value:
        return self.operands[1]


class WaitOp(Op):
    """Waits until the copies of these tokens are done and visible to the whole block."""

    __slots__ = ()
    name = "tile.wait"
    definition = OpDefinition(
        name,
        operands=(
            Operand("tokens", Constraint("any(token)", "any", "token"), "", True),
        ),
        results=(),
        traits=frozenset([]),
        form=('$tokens',),
        doc='Waits until the copies of these tokens are done and visible to the whole block.',
        example='tile.wait %t : !tile.token',
    )

    @property
    def tokens(self) -> tuple[Value, ...]:
        return self.operands[0:]


class BarrierOp(Op):
    """Waits for all threads of the block; their stores to shared memory are then visible."""

    __slots__ = ()
    name = "tile.barrier"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        traits=frozenset([]),
        form=(),
        doc='Waits for all threads of the block; their stores to shared memory are then visible.',
        example='tile.barrier',
    )


#: Op name -> class.
OPS: dict[str, type[Op]] = {
    "tile.kernel": KernelOp,
    "tile.return": ReturnOp,
    "tile.call": CallOp,
    "tile.launch": LaunchOp,
    "tile.view": ViewOp,
    "tile.alloc": AllocOp,
    "tile.subview": SubviewOp,
    "tile.load": LoadOp,
    "tile.store": StoreOp,
    "tile.gather": GatherOp,
    "tile.scatter": ScatterOp,
    "tile.dot": DotOp,
    "tile.lookup_table": LookupTableOp,
    "tile.for": ForOp,
    "tile.prefetch": PrefetchOp,
    "tile.copy": CopyOp,
    "tile.copy_async": CopyAsyncOp,
    "tile.wait": WaitOp,
    "tile.barrier": BarrierOp,
}


class TileVerbs(fields.Verbs[V], Generic[V]):
    """One method per tile op. What `V` is (an IR value, a graph node, an array) is up to `build`."""

    def call(self, inputs: Sequence[V], *, types: Sequence[Type], callee: str) -> Sequence[V]:
        """Runs a kernel on values: the inputs are its read buffers, the results its written ones."""
        return self.build(CallOp, [*inputs], {"callee": callee}, types=types)

    def launch(self, sources: Sequence[V], targets: Sequence[V], *, callee: str) -> Sequence[V]:
        """Runs a kernel on buffers: it reads the sources and writes the targets. Made by the memory plan."""
        return self.build(LaunchOp, [*sources, *targets], {"callee": callee, "outputs": len(targets)})

    def view(self, arena: V, *, type: Type, offset: int) -> V:
        """Another buffer over the same bytes: `offset` bytes from the start of a contiguous one, of any shape and element type. Made by the memory plan."""
        return self.build(ViewOp, [arena], {"offset": offset}, types=[type])[0]

    def alloc(self, *, type: Type) -> V:
        """Temporary memory of one program, uninitialised; memory space 3 is shared by the threads of a block."""
        return self.build(AllocOp, [], {}, types=[type])[0]

    def subview(self, buffer: V, indices: Sequence[V], *, type: Type, masked: bool | None = None) -> V:
        """A view of a part of a buffer, starting at the indices; leading dimensions that the result does not have are fixed. With `masked` it may extend beyond the buffer: then only copies may read it, and elements outside the buffer are copied as 0."""
        return self.build(SubviewOp, [buffer, *indices], {"masked": masked}, types=[type])[0]

    def load(self, buffer: V, indices: Sequence[V], *, type: Type, dims: Sequence[int] | None = None, steps: Sequence[int] | None = None, masked: bool | None = None, pad: Attribute | None = None) -> V:
        """A tile from a buffer: element (p, q) is buffer[i + p, j + q]. `dims` is the buffer dimension of each tile dimension (default: the last ones), `steps` the stride (default 1). With `masked`, elements outside the buffer read as `pad` (default 0); otherwise all must be inside."""
        return self.build(LoadOp, [buffer, *indices], {"dims": dims, "steps": steps, "masked": masked, "pad": pad}, types=[type])[0]

    def store(self, value: V, buffer: V, indices: Sequence[V], *, dims: Sequence[int] | None = None, steps: Sequence[int] | None = None, masked: bool | None = None) -> Sequence[V]:
        """Writes a tile into a buffer, placed as by load. With `masked`, elements outside the buffer are dropped."""
        return self.build(StoreOp, [value, buffer, *indices], {"dims": dims, "steps": steps, "masked": masked})

    def gather(self, buffer: V, indices: Sequence[V], *, type: Type) -> V:
        """One element for each position of the index tiles (scalars apply to every position). All indices must be inside the buffer."""
        return self.build(GatherOp, [buffer, *indices], {}, types=[type])[0]

    def scatter(self, value: V, mask: V, buffer: V, indices: Sequence[V], *, combine: Literal["set", "add", "max", "min"] | None = None) -> Sequence[V]:
        """Combines one element for each position where the mask is true, in row-major order of the tile."""
        return self.build(ScatterOp, [value, mask, buffer, *indices], {"combine": combine})

    def dot(self, lhs: V, rhs: V, accumulator: V, *, words: Literal["i16_i16", "ui8_i8", "i8_ui8", "i8_i8", "ui8_ui8", "ui4_i8", "i8_ui4", "ui6_i8", "i8_ui6", "bf16_bf16"] | None = None, tf32: bool | None = None) -> V:
        """accumulator + lhs @ rhs on tiles M x K, K x N, M x N. Floats are accumulated in the accumulator's type, in order of k, by fma (by multiplication and addition on machines without it). With `words` each i32 of lhs and rhs holds adjacent elements along k, the first in the lowest bits: two of 16 bits or four of 8, of the types that `words` names for lhs and rhs (`ui4` and `ui6`: bytes below 16 and 64); products of bf16 are added to f32 in any order, and denormal operands and results may count as zero. Of `i16_i16` rhs may have half words, which hold two bytes: signed ones in i16, unsigned ones in ui16. With `tf32` elements of f32 are known to be tf32 numbers (their low 13 bits are zero), and the order of the sum is unspecified."""
        return self.build(DotOp, [lhs, rhs, accumulator], {"words": words, "tf32": tf32})[0]

    def lookup_table(self, table: V, indices: V) -> V:
        """For each index the element of its row of the table: element (..., i) is table[..., indices[..., i] mod n]. A row has n = 16 elements. If they are ui8, an index is an i32 whose bytes are looked up each by itself, and the result has their elements as its bytes. Or the table is one row of n = 256 bytes, for all indices, which are ui8."""
        return self.build(LookupTableOp, [table, indices], {})[0]

    def for_(self, lower: V | int, upper: V | int, step: V | int, inits: Sequence[V], *, types: Sequence[Type], stages: int | None = None, regions: Sequence[Region]) -> Sequence[V]:
        """Runs the body for lower, lower + step, ... below upper; its arguments are the index and the carried values; it yields their next values. With `stages` the tiles of that many iterations are in flight, where possible; the pass `overlap` pipelines the loop."""
        return self.build(ForOp, [*fields.unknown(lower), *fields.unknown(upper), *fields.unknown(step), *inits], {"stages": stages, "lower": fields.known(lower), "upper": fields.known(upper), "step": fields.known(step)}, types=types, regions=regions)

    def prefetch(self, buffer: V, indices: Sequence[V]) -> Sequence[V]:
        """Prefetches the cache line of the element at the indices. A hint: the indices may be outside the buffer, and a target without such an instruction does nothing."""
        return self.build(PrefetchOp, [buffer, *indices], {})

    def copy(self, source: V, target: V) -> Sequence[V]:
        """Copies all elements; shapes and element types must be equal, strides may differ. The source and the target may be the same elements, as in a kernel that works in place: then nothing is done. Else they do not overlap."""
        return self.build(CopyOp, [source, target], {})

    def copy_async(self, source: V, target: V, *, type: Type) -> V:
        """Starts a copy; the target must not be read, nor the source written, before the token is waited for."""
        return self.build(CopyAsyncOp, [source, target], {}, types=[type])[0]

    def wait(self, tokens: Sequence[V]) -> Sequence[V]:
        """Waits until the copies of these tokens are done and visible to the whole block."""
        return self.build(WaitOp, [*tokens], {})

    def barrier(self) -> Sequence[V]:
        """Waits for all threads of the block; their stores to shared memory are then visible."""
        return self.build(BarrierOp, [], {})
