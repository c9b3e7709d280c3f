# SPDX-License-Identifier: Apache-2.0
"""Drawings of modules: what values go from op to op, bodies inside of their ops, kernels as boxes that are called."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.attributes import IntegerAttr
from ..ir.core import Block, Module, Op, Value, callee, op_name
from ..ir.elements import ElementsAttr
from ..ir.types import DYNAMIC, MemRefType, ShapedType, TensorType, Type
from ..support.diagnostics import Location
from .drawing import Box, Drawing


def type_line(type: Type) -> str:
    """A type in few letters: `N:32 K:8 f32`."""
    if not isinstance(type, ShapedType):
        return str(type)
    lengths = ["?" if n == DYNAMIC else str(n) for n in type.shape]
    names = type.axes if isinstance(type, TensorType) else None
    if names is not None:
        parts = [f"{_short(name)}:{length}" for name, length in zip(names, lengths, strict=True)]
        return " ".join([*parts, str(type.element)])
    return " ".join(["\u00d7".join(lengths), str(type.element)]).strip()


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:5]}\u2026{name[-5:]}"


def kind_of(traits: Collection[str], views: bool = False) -> str:
    """The kind of box of an op, by the traits that its entry says."""
    for trait, kind in (
        ("control", "control"),
        ("constant", "constant"),
        ("reduction", "reduction"),
        ("view", "view"),
        ("elementwise", "elementwise"),
    ):
        if trait in traits:
            return kind
    return "view" if views else "op"


def drawing_of(module: Module) -> Drawing:
    """A module: its function, or a box for each that it has. Kernels are shown where they are called."""
    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    if len(functions) == 1:
        return function_drawing(functions[0])
    made = Drawing()
    for function in functions or [op for op in module.ops if op.regions]:
        made.add(Box((f"@{function.symbol}",), "control", function.location, function_drawing(function)))
    return made


def function_drawing(function: Op) -> Drawing:
    """What a function computes."""
    block = function.regions[0].blocks[0]
    count = function.attributes.get("ng.arguments")
    writer = _Writer(set(_tied(function)), count.value if isinstance(count, IntegerAttr) else None)
    return writer.body(block, "result", function.location)


def _tied(function: Op) -> tuple[int, ...]:
    values: tuple[int, ...] = getattr(function.attributes.get("ng.tied"), "values", ())
    return values[1::2]


class _Writer:
    """Makes the boxes of a block; `state` are the numbers of the arguments that are written back. A `planned` function
    has that many arguments before the places for its results, its constants and its arena; a place is known by what wrote
    there last."""

    def __init__(self, state: Collection[int] = (), planned: int | None = None):
        self.state = state
        self.planned = planned
        self.drawing = Drawing()
        self.boxes: dict[Value, int | None] = {}  # None: said in the boxes that use it
        self.said: dict[Value, str] = {}
        self.written: set[Value] = set()

    def body(self, block: Block, end: str, place: Location) -> Drawing:
        for value in block.args[: self.planned]:
            kind = "state" if value.index in self.state else "input"
            lines = (value.name or f"argument {value.index}", type_line(value.type))
            self.boxes[value] = self.drawing.add(Box(lines, kind, place))
        for op in block.ops:
            if "terminator" not in op.traits:
                self.op(op)
            elif op.operands:
                self.drawing.add(Box((end,), "result", op.location), [self.box(v) for v in op.operands])
        for value in block.args[self.planned :] if self.planned else ():
            if value in self.written:
                lines = (value.name or "result", type_line(value.type))
                self.drawing.add(Box(lines, "result", place), [self.boxes[value]])
        return self.drawing

    def box(self, value: Value) -> int | None:
        """The box of a value; of one from around the block, a box that says so."""
        if value not in self.boxes:
            lines = (value.name or "outer value", type_line(value.type))
            self.boxes[value] = self.drawing.add(Box(lines, "input"))
        return self.boxes[value]

    def op(self, op: Op) -> None:
        literal = op.attributes.get("value")
        if not op.operands and isinstance(literal, ElementsAttr) and literal.splat:
            self.boxes[op.results[0]] = None
            self.said[op.results[0]] = literal.literal.removeprefix("dense<").removesuffix(">")
            return
        if not op.operands and len(op.results) == 1 and "constant" in op.traits and literal is not None:
            if not isinstance(literal, ElementsAttr):
                self.boxes[op.results[0]] = None
                self.said[op.results[0]] = literal.text.partition(" : ")[0]
                return
        if op.results and op.operands and isinstance(op.operands[0].type, MemRefType) and not op.regions:
            for result in op.results:  # another view of a buffer, or a number in it
                self.boxes[result] = self.boxes.get(op.operands[0])
            return
        used = list(op.operands)
        for region in op.regions:
            used += _captured(region.blocks[0]) if region.blocks else []
        targets: Sequence[Value] = () if op.results else getattr(op, "targets", ())
        used = [v for v in used if not any(v is t for t in targets) or v in self.written]
        sources = [self.box(v) for v in used]
        names = [r.name for r in op.results if r.name]
        symbol = callee(op)
        head = f"@{symbol}" if symbol else op_name(op).rpartition(".")[2]
        said = [self.said[v] for v in op.operands if v in self.said]
        lines = [" ".join([head, *said]), *[type_line(r.type) for r in op.results[:3]]]
        if names:
            lines.insert(1, ", ".join(names))
        kind = "kernel" if symbol else kind_of(op.traits)
        number = self.drawing.add(Box(tuple(lines), kind, op.location, self.inside(op)), sources)
        for result in op.results:
            self.boxes[result] = number
        for value in targets:
            self.boxes[value] = number
            self.written.add(value)

    def inside(self, op: Op) -> Drawing | None:
        """What the bodies of an op compute: of one the drawing itself, of several a box for each."""
        drawings: list[Drawing] = []
        for region in op.regions:
            if region.blocks:
                drawings.append(_Writer().body(region.blocks[0], "yield", op.location))
        if len(drawings) <= 1:
            return drawings[0] if drawings else None
        names = op.definition.regions if op.definition is not None else ()
        made = Drawing()
        for i, drawing in enumerate(drawings):
            made.add(Box((names[i] if i < len(names) else f"body {i}",), "control", op.location, drawing))
        return made


def _captured(block: Block) -> list[Value]:
    """The values from around a block that it uses."""
    own: set[Value] = set()
    used: dict[Value, None] = {}
    stack = [block]
    while stack:
        at = stack.pop()
        own.update(at.args)
        for op in at.ops:
            own.update(op.results)
            used.update(dict.fromkeys(op.operands))
            stack += [b for region in op.regions for b in region.blocks]
    return [v for v in used if v not in own]
