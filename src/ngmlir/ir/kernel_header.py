# SPDX-License-Identifier: Apache-2.0
"""The header of a kernel after its name: `ins(%x: T) outs(%r: T) grid(%i < 7) in_place(%x -> %r) threads(128)`, where
empty clauses are omitted. It represents the kernel's arguments and the attributes `CLAUSES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .attribute_parser import AttributeParser
from .attributes import Attribute, DenseArrayAttr, IntegerAttr, integers
from .core import Op
from .types import FunctionType, Type, i64, index

CLAUSES = frozenset({"grid", "outputs", "in_place", "threads"})


def clauses_text(op: Op, type: FunctionType, arguments: Sequence[str]) -> list[str] | None:
    """`ins(%x: T) outs(%r: T) grid(%i < 7) in_place(%x -> %r) threads(128)` of a kernel; None if the clauses cannot represent
    it, which happens only for invalid kernels."""
    grid, outputs, pairs, threads = (op.attributes.get(k) for k in ("grid", "outputs", "in_place", "threads"))
    if not isinstance(grid, DenseArrayAttr) or not isinstance(outputs, IntegerAttr) or type.results:
        return None
    if not isinstance(pairs, DenseArrayAttr) or not isinstance(threads, IntegerAttr | None):
        return None
    buffers = len(arguments) - len(grid.values)
    first, names = buffers - outputs.value, [argument.partition(":")[0] for argument in arguments]
    if not 0 <= first <= buffers or any(t is not index for t in type.inputs[buffers:]):
        return None
    if len(pairs.values) % 2 or not all(0 <= i < buffers for i in pairs.values):
        return None
    said: list[str] = []
    for word, part in (("ins", arguments[:first]), ("outs", arguments[first:buffers])):
        if part:
            said.append(f"{word}({', '.join(part)})")
    if grid.values:
        programs = zip(names[buffers:], grid.values, strict=True)
        said.append(f"grid({', '.join(f'{i} < {size}' for i, size in programs)})")
    if pairs.values:
        both = zip(pairs.values[::2], pairs.values[1::2], strict=True)
        said.append(f"in_place({', '.join(f'{names[i]} -> {names[o]}' for i, o in both)})")
    if threads is not None:
        said.append(f"threads({threads.value})")
    return said


def read_clauses(
    parser: AttributeParser, read_arguments: Callable[[], None], arguments: list[tuple[str, Type, int]]
) -> dict[str, Attribute]:
    """The attributes that the clauses state. `read_arguments` reads `(%x: T, ...)` into `arguments`, to which program
    indices are appended."""
    given: dict[str, Attribute] = {}
    grid: list[int] = []
    pairs: list[int] = []
    outputs = 0
    if parser.accept_word("ins"):
        read_arguments()
    if parser.accept_word("outs"):
        read = len(arguments)
        read_arguments()
        outputs = len(arguments) - read
    places = {name: i for i, (name, _, _) in enumerate(arguments)}
    if parser.accept_word("grid"):
        parser.expect("(")
        while parser.kind == "value":
            token = parser.take("value")
            arguments.append((token.text, index, token.start))
            parser.expect("<", f"expected '<' and the number of programs that {token.text} counts")
            grid.append(parser.integer_or_length())
            if not parser.accept(","):
                break
        parser.expect(")")
    if parser.accept_word("in_place"):
        parser.expect("(")
        while parser.kind == "value":
            pairs.append(_buffer_number(parser, places))
            parser.expect("->")
            pairs.append(_buffer_number(parser, places))
            if not parser.accept(","):
                break
        parser.expect(")")
    if parser.accept_word("threads"):
        parser.expect("(")
        given["threads"] = IntegerAttr(parser.integer(), i64)
        parser.expect(")")
    said = {"grid": integers(grid), "outputs": IntegerAttr(outputs, i64), "in_place": integers(pairs)}
    return {**given, **said}


def _buffer_number(parser: AttributeParser, places: Mapping[str, int]) -> int:
    token = parser.take("value", "a buffer of the kernel")
    if token.text not in places:
        hint = parser.hints.did_you_mean(token.text, places)
        raise parser.error_at(f"{token.text} is no buffer of the kernel", token.start, hint)
    return places[token.text]
