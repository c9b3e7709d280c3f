# SPDX-License-Identifier: Apache-2.0
"""The sizes of matrix products, and what their epilogues hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import (
    FloatType,
    IntegerType,
    Type,
    bf16,
    element_type,
    f32,
    i8,
    i16,
    i32,
    shape_of,
    ui8,
    ui16,
)
from ...ops.fields import get_i64s
from ...ops.library import in_library
from ...support.lengths import is_open, is_same, usual
from ...support.machines import WORD_BITS, DotAtom, MatrixAtom
from ...support.target import Target
from .loop_nest import LoopNest
from .sides import Implicit, Side, Strided

#: The most bytes of a row of a result that is computed transposed. 300 x 300 by 2 to 6 columns of f32 take 0.3 to 0.96 times the time with
#: AVX2 and AVX-512, by 7 up to 1.2 times; f64 by 3 columns 0.6 to 0.9 times.
FEW_BYTES = 24
#: The same if the elements of a column, and of a row, are strided in memory along the depth: f32 by 2 to 4 columns 0.5 to 0.9 times, by 5 1.3 to
#: 2.2 times; f64 by 2 columns 0.6 to 0.7 times, by 3 up to 1.1 times.
FEW_STRIDED_BYTES = 16

#: With more rows, bytes are packed as the 16 bits that a dot instruction multiplies, else widened after each load. On a Zen 4 with AVX2, from
#: memory, 1 row by 1024 x 1024 bytes takes 0.72 times the time so, 16 rows 0.9, 32 rows 1.05; 16 rows by 4096 x 4096 0.59. From the L2 cache 16 rows
#: take 1.07 times the time, 128 rows 1.14.
MOST_ROWS_WIDENING = 16


@dataclass(frozen=True)
class EpilogueCost:
    """What the epilogue of a product's kernel holds for each element: `words` registers of 4 bytes, and `item` bytes of shared
    memory for conversion to another layout."""

    words: int
    item: int


@dataclass(frozen=True)
class Product:
    """The sizes and the layout of one product: `lhs_depth_first` = stored as depth x rows, and so on."""

    batch: int  # 0 = no batch dimension
    rows: int
    columns: int
    depth: int
    lhs_depth_first: bool
    rhs_depth_first: bool
    lhs_element: Type
    rhs_element: Type
    result: Type
    lhs: Side | None = None  # how the sides are read, if through an access
    rhs: Side | None = None
    words: str = (
        ""  # if the depth is counted in words of adjacent elements: the element types, as in `tile.dot`
    )
    steps: int = 0  # the depth in elements, if it is counted in words
    tf32: bool = False  # whether both sides are f32 but exact in tf32: found by the pass `short-floats`
    kept: bool = False  # whether the right side is the same in many runs: the time to pack it does not count
    end: EpilogueCost | None = None  # what the epilogue holds, if that is more than the result
    turned: bool = False  # whether the transposed product is computed, and its tiles are stored transposed

    @property
    def accumulator(self) -> Type:
        """f16 and bf16 are summed in f32."""
        narrow = isinstance(self.result, FloatType) and self.result.width < 32
        return f32 if narrow else self.result

    @property
    def multiplied(self) -> tuple[str, str]:
        """The element types as which matrix instructions read both sides."""
        return ("tf32", "tf32") if self.tf32 else (self.lhs_element.text, self.rhs_element.text)

    @property
    def packed_element(self) -> Type:
        """The element type of a packed side: i32 for words of adjacent elements, else that of the sum."""
        return i32 if self.words else self.accumulator

    @property
    def packed_right(self) -> Type:
        """That of a packed right side: i16 or ui16 for words of two bytes, which `tile.dot` widens, if few rows read them."""
        element, few = self.rhs_element, usual(self.rows) <= MOST_ROWS_WIDENING
        if (
            few
            and isinstance(element, IntegerType)
            and self.words
            and 2 * element.width <= word_bits(self.words)
        ):
            return ui16 if element.unsigned else i16
        return self.packed_element

    def atom(self, target: Target) -> MatrixAtom | None:
        """The matrix instruction of a target for this product; None if it has none."""
        return target.gpu.atom(*self.multiplied, self.accumulator.text)

    def dot_atom(self, target: Target) -> DotAtom | None:
        """The vector dot instruction of a target for this product: the first whose element types hold those of both sides."""
        mine = (self.lhs_element, self.rhs_element)
        for atom in target.dots:
            for sides in (atom.sides, atom.sides[::-1]):
                fits = all(fits_into(e, text) for e, text in zip(mine, sides, strict=True))
                if self.accumulator.text == atom.sum and fits:
                    return atom
        return None

    @property
    def group(self) -> int:
        """Elements in one step of the depth: those of a word, or 1."""
        return WORD_BITS // word_bits(self.words) if self.words else 1

    @property
    def elements(self) -> int:
        """The depth in elements."""
        return self.steps or self.depth

    @property
    def widens(self) -> bool:
        """Whether elements are converted before they are multiplied."""
        return not self.lhs_element is self.rhs_element is self.accumulator

    @property
    def row_lengths(self) -> tuple[int, int]:
        """Elements of a row of each side in memory."""
        left = self.rows if self.lhs_depth_first else self.depth
        return left, self.columns if self.rhs_depth_first else self.depth

    @property
    def implicit(self) -> tuple[bool, bool]:
        """Which sides are windows, which the kernel packs part by part."""
        return isinstance(self.lhs, Implicit), isinstance(self.rhs, Implicit)

    @property
    def usual(self) -> Product:
        """The product for the lengths that the program is compiled with: what its schedule is chosen for."""
        sizes = (self.batch, self.rows, self.columns, self.depth, self.steps)
        if not is_open(sizes):
            return self
        batch, rows, columns, depth, steps = usual(sizes)
        return replace(self, batch=batch, rows=rows, columns=columns, depth=depth, steps=steps)

    @property
    def transposed(self) -> Product:
        """The transposed product: its sides are exchanged."""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            lhs_depth_first=self.rhs_depth_first,
            rhs_depth_first=self.lhs_depth_first,
            lhs_element=self.rhs_element,
            rhs_element=self.lhs_element,
            lhs=self.rhs,
            rhs=self.lhs,
        )


def product_of(dot: Op, sides: Mapping[Value, Side]) -> Product:
    """Reads a product in [batch,] matrix form, as the pass `shape` makes it; `sides` has operands that are read through accesses."""
    left, right = (sides.get(operand) for operand in dot.operands)
    lhs, rhs = shape_of(dot.operands[0].type), shape_of(dot.operands[1].type)
    batched = len(lhs) == 3
    lhs_contract = get_i64s(dot, "lhs_contract")[0]
    rhs_contract = get_i64s(dot, "rhs_contract")[0]
    first = int(batched)
    return Product(
        batch=lhs[0] if batched else 0,
        rows=lhs[2 * first + 1 - lhs_contract] if batched else lhs[1 - lhs_contract],
        columns=rhs[2 * first + 1 - rhs_contract] if batched else rhs[1 - rhs_contract],
        depth=lhs[lhs_contract],
        lhs_depth_first=_depth_first(left, lhs_contract == first),
        rhs_depth_first=_depth_first(right, rhs_contract == first),
        lhs_element=element_type(dot.operands[0].type),
        rhs_element=element_type(dot.operands[1].type),
        result=element_type(dot.results[0].type),
        lhs=left,
        rhs=right,
        tf32=TF32 in dot.attributes,
    )


def epilogue_cost(nest: LoopNest, dot: Op) -> EpilogueCost:
    """The `EpilogueCost` of a product with this nest. All outputs are computed before the first one is stored; values computed from the product
    alone are converted to another layout before they are combined with operands that are read elementwise."""
    loops = nest.loops[dot.results[0]]
    items = {v: item_bytes(element_type(v.type)) for v, own in nest.loops.items() if own == loops}
    inputs = [v for v in nest.inputs if v in items]
    read, made, meeting = {*inputs}, {dot.results[0]}, set[Value]()
    for op in nest.ops:
        if op is not dot and any(v in read for v in op.operands):
            read.update(op.results)
            meeting.update(v for v in op.operands if v in made)
        elif any(v in made for v in op.operands):
            made.update(op.results)
    # Operands are held until the last value that they are combined with; if library functions take long, they are loaded early.
    if len(meeting) > 1 or any(in_library(op) for op in nest.ops):
        meeting.update(inputs)
    given = dict.fromkeys(v for v in nest.outputs if v in items)
    words = max(sum(-(-items.get(v, 4) // 4) for v in held) for held in (given, meeting))
    return EpilogueCost(words, max(items.values() if read else [items[v] for v in given], default=0))


def _depth_first(side: Side | None, depth_first: bool) -> bool:
    """Whether a side is read as depth x rows (or columns); for windows, whether they are packed so."""
    if isinstance(side, Implicit):
        return not side.along_depth
    return depth_first != (isinstance(side, Strided) and side.is_transposed)


def part_of(words: str) -> Type:
    """The element type of a word of the left side."""
    return {type.text: type for type in (i8, ui8, i16, bf16)}[words.partition("_")[0]]


def word_bits(words: str) -> int:
    """The bits of each element of a word."""
    return int(words.partition("_")[0].lstrip("uibf"))


def fits_into(element: Type, word: str) -> bool:
    """Whether an element of a word, such as `ui8`, holds every number of an element type."""
    if element.text == word or not isinstance(element, IntegerType) or word.startswith("bf"):
        return element.text == word
    unsigned, width = word.startswith("u"), int(word.lstrip("ui"))
    return element.width + (element.unsigned and not unsigned) <= width and (element.unsigned or not unsigned)


def in_words(product: Product, target: Target, packed: Collection[str]) -> Product:
    """The product with its depth counted in words of adjacent elements, which a dot instruction multiplies at once. The product itself
    where the target has no such instruction, or a side is neither `packed` nor stored in words."""
    atom = product.dot_atom(target)
    if product.words or atom is None or "right" not in packed or isinstance(product.rhs, Implicit):
        return product
    lhs = product.lhs
    if isinstance(lhs, Implicit):
        # Elements of a word are packed together, unless each is copied separately; floats only in whole words.
        if not lhs.contiguous_depth or (atom.sum == "f32" and product.depth % atom.group):
            return product
        product = replace(product, lhs=replace(lhs, forced_along_depth=True), lhs_depth_first=False)
    elif "left" not in packed and not lies_in_words(product, atom):
        return product
    words = atom.words
    if not fits_into(product.lhs_element, atom.sides[0]) or not fits_into(product.rhs_element, atom.sides[1]):
        words = "_".join(atom.sides[::-1])
    return replace(product, depth=-(-product.depth // atom.group), words=words, steps=product.depth)


def lies_in_words(product: Product, atom: DotAtom) -> bool:
    """Whether the left side in memory is rows of whole words."""
    bits = product.lhs_element.width if isinstance(product.lhs_element, IntegerType | FloatType) else 0
    whole = product.lhs is None and not product.lhs_depth_first and product.depth % atom.group == 0
    return whole and bits == atom.element_bits


def oriented(product: Product, target: Target) -> tuple[Product, tuple[int, int]]:
    """A product as it is computed, and the operand of each of its sides. On CPUs a product of few columns is computed transposed: kernels
    vectorize the columns, or the depth of products of few rows. The result of a product of one column has the same elements in the
    same order; other results are transposed tile by tile."""
    if target.has_thread_blocks or isinstance(product.lhs, Implicit):
        return product, (0, 1)
    if is_same(product.columns, 1):
        return product.transposed, (1, 0)
    if _too_few_columns(product, target):
        return replace(product.transposed, turned=True), (1, 0)
    return product, (0, 1)


def _too_few_columns(product: Product, target: Target) -> bool:
    """Whether the columns fill so little of a vector that the transposed product, whose columns are the many rows, is faster."""
    item, fits = item_bytes(product.accumulator), product.lhs_depth_first or not product.rhs_depth_first
    # For an open number of rows sums have the order that they have for the fewest.
    if is_open((product.rows, product.columns)) or product.rows < target.lanes(item):
        return False
    few = product.columns * item <= (FEW_BYTES if fits else FEW_STRIDED_BYTES)
    return few and not product.widens and not any(product.implicit)


def split(total: int, most: int) -> list[tuple[int, int]]:
    """(how many, of what size): the fewest parts of at most `most`, whose sizes differ by at most one."""
    parts = -(-total // most)
    small, larger = divmod(total, parts)
    out = [(larger, small + 1), (parts - larger, small)]
    return [(count, size) for count, size in out if count]


#: Attribute of products whose sides are f32 numbers that are exact in tf32: fraction bits after the tenth are zero.
TF32 = "ng.tf32"
