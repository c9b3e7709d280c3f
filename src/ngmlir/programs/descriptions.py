# SPDX-License-Identifier: Apache-2.0
"""Views of a program, which is a module: blocks, operators and variables that can be edited in place.

A block is a list of ops of the dialect `program`: its declarations, its operators, and the blocks below it that no
operator runs yet, in this order. A view stands for one of these ops and holds no more than it; an edit replaces the op. The
list of a block is put together from its views when the module is asked for (`Program.module`), so that an edit costs the
same in a long block as in a short one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..ir import core
from ..ir.attributes import Attribute, DictAttr, IntegerAttr, StringAttr, TypeAttr
from ..ir.core import Block, Module, Region
from ..ir.types import TensorType, f32, i64
from ..op_graph.source import user_location
from ..ops import program as dialect
from ..support.diagnostics import Location, UserError
from ..support.undo import Undo, changed
from .attributes import from_attribute
from .declarations import UNIT, Declaration
from .lookup import Names
from .slots import names_in_slots, slot_attribute, with_attributes

#: The version of programs that this release writes and reads.
VERSION = 1
_VERSION, _SEED = "program.version", "program.random_seed"
#: The type of a variable of which nothing is known yet.
UNKNOWN_TYPE = TensorType((), f32)
_NO_ATTRIBUTES = DictAttr(())
# The most frequent declarations. Uniqued attributes live as long as they are referenced: these are not rebuilt for each variable.
_TENSOR, _FLAT, _UNKNOWN = StringAttr("tensor"), IntegerAttr(0, i64), TypeAttr(UNKNOWN_TYPE)


class Variable(Declaration):
    """A declaration of a block."""

    __slots__ = ("block",)

    def __init__(self, block: BlockView, op: core.Op):
        super().__init__(op)
        self.block = block

    def set(self, **changes: Attribute | None) -> None:
        self.block.replace_variable(self, with_attributes(self.op, changes))


class Operator:
    """An operator of a block."""

    __slots__ = ("_at", "_inputs", "_outputs", "block", "op", "type")

    def __init__(self, block: BlockView, op: core.Op, at: int):
        self.block, self._at = block, at
        self._hold(op)

    def _hold(self, op: core.Op) -> None:
        attribute = op.attributes["type"]
        self.op, self.type = op, attribute.value if isinstance(attribute, StringAttr) else ""
        self._inputs: dict[str, list[str]] | None = None
        self._outputs: dict[str, list[str]] | None = None

    @property
    def location(self) -> Location:
        return self.op.location

    @property
    def index(self) -> int:
        """Its place among the operators of its block."""
        operators = self.block.operators
        if not (self._at < len(operators) and operators[self._at] is self):
            self._at = operators.index(self)
        return self._at

    @property
    def inputs(self) -> Mapping[str, list[str]]:
        """Slot -> names of variables."""
        if self._inputs is None:
            self._inputs = names_in_slots(self.op.attributes["inputs"])
        return self._inputs

    @property
    def outputs(self) -> Mapping[str, list[str]]:
        if self._outputs is None:
            self._outputs = names_in_slots(self.op.attributes["outputs"])
        return self._outputs

    @property
    def reads(self) -> list[str]:
        """The names of all inputs."""
        return [name for names in self.inputs.values() for name in names]

    @property
    def writes(self) -> list[str]:
        """The names of all outputs."""
        return [name for names in self.outputs.values() for name in names]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes by name, as values of Python; the sub-block is not among them."""
        return {name: from_attribute(value) for name, value in self._dictionary().items}

    def attribute(self, name: str) -> Any:
        """The value of an attribute; None where it has none of that name."""
        return next((from_attribute(value) for key, value in self._dictionary().items if key == name), None)

    def _dictionary(self) -> DictAttr:
        attribute = self.op.attributes.get("attrs")
        return attribute if isinstance(attribute, DictAttr) else _NO_ATTRIBUTES

    @property
    def dictionary(self) -> DictAttr:
        """The attributes as the IR holds them."""
        return self._dictionary()

    @property
    def sub_block(self) -> BlockView | None:
        """The block that the operator runs."""
        index = self.op.attributes.get("index")
        return self.block.program.block(index.value) if isinstance(index, IntegerAttr) else None

    def set(self, **changes: Attribute | None) -> None:
        """Replaces attributes of the op: `type`, `inputs`, `outputs`, `attrs`."""
        self._become(with_attributes(self.op, changes))

    def set_attributes(self, items: DictAttr) -> None:
        self.set(attrs=items if items.items else None)

    def set_attribute(self, name: str, value: Attribute) -> None:
        """Gives one attribute of the operator a value."""
        items = dict(self._dictionary().items)
        items[name] = value
        self.set_attributes(DictAttr(tuple(items.items())))

    def set_slot(self, side: str, slot: str, names: Sequence[str]) -> None:
        """Gives a slot of `inputs` or `outputs` its variables."""
        slots = {**getattr(self, side), slot: list(names)}
        self.set(**{side: slot_attribute(slots)})

    def rename(self, side: str, old: str, new: str) -> None:
        """Has the operator read (or write) another variable wherever it read one."""
        slots = {s: [new if n == old else n for n in names] for s, names in getattr(self, side).items()}
        self.set(**{side: slot_attribute(slots)})

    def attach(self, block: BlockView) -> None:
        """Makes a block, which no operator runs yet, that of this operator."""
        self.block.detach(block)
        fields = {**self.op.attributes, "index": IntegerAttr(block.index, i64)}
        op = dialect.BlockOpOp((), (), fields, [Region(block.body)], self.op.location)
        self._become(op)

    def _become(self, op: core.Op) -> None:
        before = self.op
        self._hold(op)
        self.block.touched(lambda: self._become(before))

    def __str__(self) -> str:
        """Its text, that of its sub-block included."""
        _ = self.block.program.module
        return str(self.op)

    def __repr__(self) -> str:
        return f"<operator {self.type} {dict(self.inputs)} -> {dict(self.outputs)}>"


class BlockView(Names[Variable]):
    """A block: variables by name, operators in order. `parent` is where names are looked up that it does not declare."""

    def __init__(self, program: Program, body: Block, index: int, parent: BlockView | None):
        super().__init__(index, parent)
        self.program, self.parent, self._body = program, parent, body
        self.operators: list[Operator] = []
        #: The blocks below it that no operator runs, and their ops.
        self._waiting: dict[int, core.Op] = {}
        self._is_dirty = False
        for op in body.ops:
            if isinstance(op, dialect.VarOp):
                self.variables[op.symbol] = Variable(self, op)
            elif isinstance(op, (dialect.OpOp, dialect.BlockOpOp)):
                self.operators.append(Operator(self, op, len(self.operators)))
            elif isinstance(op, dialect.BlockOp):
                self._waiting[op.index] = op
        program.add(self)
        for op in body.ops:
            if isinstance(op, (dialect.BlockOpOp, dialect.BlockOp)):
                BlockView(program, op.block, op.index, self)

    @property
    def body(self) -> Block:
        """The block of the IR, as the views say now; those below it are not looked at."""
        if self._is_dirty:
            declared = [v.op for v in self.variables.values()]
            self._body.ops[:] = [*declared, *[o.op for o in self.operators], *self._waiting.values()]
            self._is_dirty = False
        return self._body

    def touched(self, undo: Undo) -> None:
        """Something changed, which `undo` takes back."""
        self._is_dirty = True
        self.program.touched(undo)

    def all_blocks(self) -> Iterable[BlockView]:
        return self.program.blocks

    def around(self) -> Iterator[BlockView]:
        """This block, the one around it, and so on."""
        block: BlockView | None = self
        while block is not None:
            yield block
            block = block.parent

    def declare(
        self,
        name: str,
        type: TensorType = UNKNOWN_TYPE,
        *,
        holds: str = "tensor",
        ragged: int = 0,
        flags: Iterable[str] = (),
        parameter: DictAttr | None = None,
        location: Location | None = None,
    ) -> Variable:
        """Declares a variable. UserError for a name that the block declares already."""
        self._refuse_again(name)
        # In the order of the names, which the op needs not sort then.
        fields: dict[str, Attribute] = {
            "holds": _TENSOR if holds == "tensor" else StringAttr(holds),
            "ragged": IntegerAttr(ragged, i64) if ragged else _FLAT,
            "sym_name": StringAttr(name),
            "type": _UNKNOWN if type is UNKNOWN_TYPE else TypeAttr(type),
        }
        for flag in flags:
            fields[flag] = UNIT
        if parameter is not None:
            fields["parameter"] = parameter
        return self._add(Variable(self, dialect.VarOp((), (), fields, (), location or user_location())))

    def _add(self, variable: Variable) -> Variable:
        self.variables[variable.name] = variable
        self.touched(lambda: self.remove_variable(variable.name))
        return variable

    def replace_variable(self, variable: Variable, op: core.Op) -> None:
        """The declaration of a variable becomes another one, which may have another name."""
        name, before = op.symbol, variable.op
        is_renamed = name != variable.name
        if is_renamed:
            self._refuse_again(name)
        variable.op, variable.name = op, name
        if is_renamed:
            self.variables = {each.name: each for each in self.variables.values()}
        self.touched(lambda: self.replace_variable(variable, before))

    def _refuse_again(self, name: str) -> None:
        if name in self.variables:
            raise UserError(f"block {self.index} declares the variable '{name}' already", user_location())

    def rename(self, old: str, new: str) -> None:
        """Gives a variable another name, in every operator of the block too. UserError for a name that is declared already."""
        self._refuse_again(new)
        self.visible(old).set(sym_name=StringAttr(new))
        for operator in self.operators:
            if old in operator.reads:
                operator.rename("inputs", old, new)
            if old in operator.writes:
                operator.rename("outputs", old, new)

    def remove_variable(self, name: str) -> None:
        variable = self.variables.pop(name)
        self.touched(lambda: self._add(variable))

    # ---- operators

    def insert(
        self,
        at: int,
        type: str,
        inputs: Mapping[str, Sequence[str]] | None = None,
        outputs: Mapping[str, Sequence[str]] | None = None,
        attributes: DictAttr = _NO_ATTRIBUTES,
        location: Location | None = None,
    ) -> Operator:
        """A new operator at a place among the operators, unchecked."""
        fields: dict[str, Attribute] = {"attrs": attributes} if attributes.items else {}
        fields["inputs"] = slot_attribute(inputs or {})
        fields["outputs"] = slot_attribute(outputs or {})
        fields["type"] = StringAttr(type)
        return self.insert_op(at, dialect.OpOp((), (), fields, (), location or user_location()))

    def insert_op(self, at: int, op: core.Op) -> Operator:
        """An op of the dialect at a place among the operators."""
        made = Operator(self, op, at)
        self.operators.insert(at, made)
        if isinstance(op, dialect.BlockOpOp):
            BlockView(self.program, op.block, op.index, self)
        self.touched(lambda: self.remove_operators(made.index, made.index + 1))
        return made

    def remove_operators(self, start: int, stop: int) -> None:
        """Removes operators, and the blocks that they run."""
        self._keep([*self.operators[:start], *self.operators[stop:]], self.operators[start:stop])

    def keep_operators(self, kept: Collection[int]) -> None:
        """Removes all operators but those at some places, and the blocks that they run."""
        removed = [o for at, o in enumerate(self.operators) if at not in kept]
        self._keep([o for at, o in enumerate(self.operators) if at in kept], removed)

    def _keep(self, kept: Sequence[Operator], removed: Iterable[Operator]) -> None:
        for operator in removed:
            if operator.sub_block is not None:
                self.program.forget(operator.sub_block)
        before = list(self.operators)
        self.operators[:] = kept
        self.touched(lambda: self._keep(before, ()))

    # ---- blocks below

    def append_block(self) -> BlockView:
        """A new block below this one, which no operator runs yet."""
        index = self.program.next_index
        body = Block()
        fields = {"index": IntegerAttr(index, i64)}
        self._waiting[index] = dialect.BlockOp((), (), fields, [Region(body)], user_location())
        made = BlockView(self.program, body, index, self)
        self.touched(lambda: (self.detach(made), self.program.forget(made)))
        return made

    def detach(self, block: BlockView) -> None:
        """Takes a block out of the list of those that no operator runs."""
        op = self._waiting.pop(block.index, None) if block.parent is self else None
        if op is not None:
            self.touched(lambda: self._waiting.setdefault(block.index, op))
            return
        raise UserError(
            f"block {block.index} is run by another operator, or lies below another block than {self.index}",
            user_location(),
            hint="program.create_block() makes one below the current block",
        )

    def __repr__(self) -> str:
        return f"<block {self.index}: {len(self.variables)} variables, {len(self.operators)} operators>"


class Program:
    """A program: its module, seen as blocks. `edits` counts the changes."""

    def __init__(self, module: Module | None = None):
        """A view of a module, whose lists of ops it edits; without one, an empty program."""
        if module is None:
            module = core.module(location=user_location())
            module = module.rebuilt(attributes={_VERSION: IntegerAttr(VERSION, i64)})
        self._module = module
        self.edits = self._seen = 0
        self._blocks: dict[int, BlockView] = {}
        self._next = 0
        BlockView(self, module.block, 0, None)

    @property
    def module(self) -> Module:
        """The module, as the views say now. It goes on to be the program's: ask again after an edit."""
        if self._seen != self.edits:
            for block in self._blocks.values():
                _ = block.body
            self._seen = self.edits
        return self._module

    @property
    def location(self) -> Location:
        return self._module.location

    @property
    def blocks(self) -> list[BlockView]:
        return list(self._blocks.values())

    @property
    def next_index(self) -> int:
        """The number of the next block: none is given twice."""
        return self._next

    def add(self, block: BlockView) -> None:
        if block.index in self._blocks:
            raise UserError(f"the program has two blocks {block.index}", self.location)
        self._blocks[block.index] = block
        self._next = max(self._next, block.index + 1)

    def forget(self, block: BlockView) -> None:
        """Removes a block and those below it."""
        for other in self.blocks:
            if other.parent is block:
                self.forget(other)
        del self._blocks[block.index]
        changed(lambda: self.add(block))

    def block(self, index: int) -> BlockView:
        """UserError where there is none of that number."""
        found = self._blocks.get(index)
        if found is None:
            raise UserError(f"the program has no block {index}", hint=f"its blocks are {[*self._blocks]}")
        return found

    @property
    def top(self) -> BlockView:
        """Block 0, which is around all others."""
        return self._blocks[0]

    @property
    def random_seed(self) -> int:
        """The seed of operators without a seed; 0 for fresh numbers at each run."""
        attribute = self._module.attributes.get(_SEED)
        return attribute.value if isinstance(attribute, IntegerAttr) else 0

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        self.set_attribute(_SEED, IntegerAttr(seed, i64) if seed else None)

    def set_attribute(self, name: str, value: Attribute | None) -> None:
        """Gives the module an attribute; None removes it."""
        before = self._module.attributes.get(name)
        self._module = with_attributes(self._module, {name: value})
        self.touched(lambda: self.set_attribute(name, before))

    def touched(self, undo: Undo) -> None:
        """Something changed, which `undo` takes back."""
        self.edits += 1
        changed(undo)

    def copy(self) -> Program:
        """An equal program, which is edited by itself."""
        return Program(_copied(self.module))

    def walk(self) -> Iterator[Operator]:
        """All operators, those of sub-blocks behind the one that runs them."""
        yield from _walk(self.top)


def _walk(block: BlockView) -> Iterator[Operator]:
    for operator in block.operators:
        yield operator
        if operator.sub_block is not None:
            yield from _walk(operator.sub_block)


def _copied(op: core.Op) -> Any:
    """A copy of an op whose blocks are new lists; ops without regions are shared."""
    if not op.regions:
        return op
    return op.rebuilt(regions=[Region(Block(ops=[_copied(o) for o in op.regions[0].block.ops]))])
