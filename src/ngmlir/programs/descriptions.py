# SPDX-License-Identifier: Apache-2.0
"""Views of a program, which is a module: blocks, operators and variables that can be edited in place.

A block is a list of ops of the dialect `program`: its declarations, its operators, and the blocks below it that no
operator runs yet, in this order. A view reads and replaces entries of that list and holds nothing of its own, so the
module is at every moment what the views say, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..ir import core
from ..ir.attributes import (
    ArrayAttr,
    Attribute,
    DictAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from ..ir.core import Block, Module, Region
from ..ir.types import TensorType, Type, f32, i64
from ..op_graph.source import user_location
from ..ops import program as dialect
from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.spelling import did_you_mean
from .attributes import from_attribute
from .names import text

#: The version of programs that this release writes and reads.
VERSION = 1
_VERSION, _SEED = "program.version", "program.random_seed"
_UNIT = UnitAttr()
#: The type of a variable of which nothing is known yet.
UNKNOWN_TYPE = TensorType((), f32)
_NO_ATTRIBUTES = DictAttr(())


class Variable:
    """A declaration of a block."""

    __slots__ = ("at", "block", "op")

    def __init__(self, block: BlockView, op: core.Op, at: int):
        #: Where it stands among the declarations of its block, unless one before it was removed since.
        self.block, self.op, self.at = block, op, at

    @property
    def name(self) -> str:
        return self.op.symbol

    @property
    def location(self) -> Location:
        return self.op.location

    @property
    def type(self) -> TensorType:
        """Shape and elements; of rank 0 while the shape is not known."""
        attribute = self.op.attributes["type"]
        assert isinstance(attribute, TypeAttr) and isinstance(attribute.type, TensorType)
        return attribute.type

    @type.setter
    def type(self, type: TensorType) -> None:
        if type is not self.type:
            self.set(type=TypeAttr(type))

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths; -1 for one that is known when the program runs."""
        return self.type.shape

    @property
    def element(self) -> Type:
        return self.type.element

    @property
    def holds(self) -> str:
        """`tensor`, or what else it holds."""
        attribute = self.op.attributes["holds"]
        return attribute.value if isinstance(attribute, StringAttr) else ""

    @property
    def ragged(self) -> int:
        """The number of ragged levels."""
        attribute = self.op.attributes["ragged"]
        return attribute.value if isinstance(attribute, IntegerAttr) else 0

    def flag(self, name: str) -> bool:
        """`persistable`, `data`, `stop_gradient`."""
        return name in self.op.attributes

    def set_flag(self, name: str, value: bool) -> None:
        if value != self.flag(name):
            self.set(**{name: _UNIT if value else None})

    @property
    def persistable(self) -> bool:
        return self.flag("persistable")

    @property
    def parameter(self) -> Mapping[str, Any] | None:
        """What is said of a parameter (`trainable`, `learning_rate` ...); None of another variable."""
        attribute = self.op.attributes.get("parameter")
        return None if attribute is None else from_attribute(attribute)

    @property
    def is_parameter(self) -> bool:
        return "parameter" in self.op.attributes

    def set(self, **changes: Attribute | None) -> None:
        """Replaces attributes of the declaration; None removes one."""
        self.block.replace_variable(self, _changed(self.op, changes))

    def __repr__(self) -> str:
        return f"<variable {self.name}: {self.type}>"


class Operator:
    """An operator of a block."""

    __slots__ = ("_at", "_inputs", "_outputs", "block", "op")

    def __init__(self, block: BlockView, op: core.Op, at: int):
        self.block, self.op, self._at = block, op, at
        self._inputs: dict[str, list[str]] | None = None
        self._outputs: dict[str, list[str]] | None = None

    @property
    def type(self) -> str:
        attribute = self.op.attributes["type"]
        return attribute.value if isinstance(attribute, StringAttr) else ""

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
            self._inputs = _slots(self.op.attributes["inputs"])
        return self._inputs

    @property
    def outputs(self) -> Mapping[str, list[str]]:
        if self._outputs is None:
            self._outputs = _slots(self.op.attributes["outputs"])
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
        self._become(_changed(self.op, changes))

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
        self.block.replace_operator(self, op)
        self._inputs = self._outputs = None

    def __repr__(self) -> str:
        return f"<operator {self.type} {dict(self.inputs)} -> {dict(self.outputs)}>"


class BlockView:
    """A block: variables by name, operators in order. `parent` is where names are looked up that it does not declare."""

    def __init__(self, program: Program, body: Block, index: int, parent: BlockView | None):
        self.program, self.body, self.index, self.parent = program, body, index, parent
        self.variables: dict[str, Variable] = {}
        self.operators: list[Operator] = []
        for op in body.ops:
            if isinstance(op, dialect.VarOp):
                self.variables[op.symbol] = Variable(self, op, len(self.variables))
            elif isinstance(op, (dialect.OpOp, dialect.BlockOpOp)):
                self.operators.append(Operator(self, op, len(self.operators)))
        program.add(self)
        for op in body.ops:
            if isinstance(op, (dialect.BlockOpOp, dialect.BlockOp)):
                BlockView(program, op.block, op.index, self)

    # ---- names

    def find(self, name: str) -> Variable | None:
        """The variable of a name: declared here, or in a block around this one."""
        block: BlockView | None = self
        while block is not None:
            found = block.variables.get(name)
            if found is not None:
                return found
            block = block.parent
        return None

    def visible(self, name: str, location: Location | None = None) -> Variable:
        """As `find`; UserError with the nearest name where there is none."""
        found = self.find(name)
        if found is None:
            raise self.unknown(name, location)
        return found

    def unknown(self, name: str, location: Location | None = None) -> UserError:
        """What is said of a name that no visible block declares."""
        elsewhere = next((b for b in self.program.blocks if name in b.variables), None)
        if elsewhere is not None:
            hint = f"a block sees its own variables and those of the blocks around it: declare {name} in one of them"
            message = (
                f"the variable '{name}' is of block {elsewhere.index}, which block {self.index} does not see"
            )
        else:
            names = (n for block in self.around() for n in block.variables)
            hint = did_you_mean(
                name, names, "declare it first: block.create_var(name=...), or a layer that makes it"
            )
            message = f"there is no variable '{name}' in block {self.index}, nor in those around it"
        return UserError(Diagnostic(message, location or user_location(), hint=hint))

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
        place = location or user_location()
        if name in self.variables:
            raise UserError(f"block {self.index} declares the variable '{name}' already", place)
        fields: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "type": TypeAttr(type),
            "holds": StringAttr(holds),
            "ragged": IntegerAttr(ragged, i64),
        }
        for flag in flags:
            fields[flag] = _UNIT
        if parameter is not None:
            fields["parameter"] = parameter
        made = dialect.VarOp((), (), fields, (), place)
        at = len(self.variables)
        self.body.ops.insert(at, made)
        found = self.variables[name] = Variable(self, made, at)
        self.program.touched()
        return found

    def replace_variable(self, variable: Variable, op: core.Op) -> None:
        """The declaration of a variable becomes another one, which may have another name."""
        old, ops = variable.name, self.body.ops
        if not (variable.at < len(ops) and ops[variable.at] is variable.op):
            variable.at = ops.index(variable.op)
        ops[variable.at] = variable.op = op
        if op.symbol != old:
            self.variables = {
                op.symbol if name == old else name: each for name, each in self.variables.items()
            }
        self.program.touched()

    def rename(self, old: str, new: str) -> None:
        """Gives a variable another name, in every operator of the block too. UserError for a name that is declared already."""
        if new in self.variables:
            raise UserError(f"block {self.index} declares the variable '{new}' already", user_location())
        self.visible(old).set(sym_name=StringAttr(new))
        for operator in self.operators:
            if old in operator.reads:
                operator.rename("inputs", old, new)
            if old in operator.writes:
                operator.rename("outputs", old, new)

    def remove_variable(self, name: str) -> None:
        self.body.ops.remove(self.variables.pop(name).op)
        self.program.touched()

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
        fields: dict[str, Attribute] = {
            "type": StringAttr(type),
            "inputs": slot_attribute(inputs or {}),
            "outputs": slot_attribute(outputs or {}),
        }
        if attributes.items:
            fields["attrs"] = attributes
        return self.insert_op(at, dialect.OpOp((), (), fields, (), location or user_location()))

    def insert_op(self, at: int, op: core.Op) -> Operator:
        """An op of the dialect at a place among the operators."""
        self.body.ops.insert(len(self.variables) + at, op)
        made = Operator(self, op, at)
        self.operators.insert(at, made)
        if isinstance(op, dialect.BlockOpOp):
            BlockView(self.program, op.block, op.index, self)
        self.program.touched()
        return made

    def replace_operator(self, operator: Operator, op: core.Op) -> None:
        at = len(self.variables) + operator.index
        assert self.body.ops[at] is operator.op
        self.body.ops[at] = operator.op = op
        self.program.touched()

    def remove_operators(self, start: int, stop: int) -> None:
        """Removes operators, and the blocks that they run."""
        for operator in self.operators[start:stop]:
            if operator.sub_block is not None:
                self.program.forget(operator.sub_block)
        first = len(self.variables)
        del self.body.ops[first + start : first + stop]
        del self.operators[start:stop]
        self.program.touched()

    # ---- blocks below

    def append_block(self) -> BlockView:
        """A new block below this one, which no operator runs yet."""
        index = self.program.next_index
        body = Block()
        fields = {"index": IntegerAttr(index, i64)}
        self.body.ops.append(dialect.BlockOp((), (), fields, [Region(body)], user_location()))
        self.program.touched()
        return BlockView(self.program, body, index, self)

    def detach(self, block: BlockView) -> None:
        """Takes a block out of the list of those that no operator runs."""
        first = len(self.variables) + len(self.operators)
        for at in range(first, len(self.body.ops)):
            op = self.body.ops[at]
            if op.regions[0].block is block.body:
                del self.body.ops[at]
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
        self.module = module
        self.edits = 0
        self._blocks: dict[int, BlockView] = {}
        self._next = 0
        BlockView(self, module.block, 0, None)

    @property
    def blocks(self) -> list[BlockView]:
        return list(self._blocks.values())

    @property
    def next_index(self) -> int:
        """The number of the next block: none is given twice."""
        return self._next

    def add(self, block: BlockView) -> None:
        if block.index in self._blocks:
            raise UserError(f"the program has two blocks {block.index}", self.module.location)
        self._blocks[block.index] = block
        self._next = max(self._next, block.index + 1)

    def forget(self, block: BlockView) -> None:
        """Removes a block and those below it."""
        for other in self.blocks:
            if other.parent is block:
                self.forget(other)
        self._blocks.pop(block.index, None)

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
        """The seed of operators that have none of their own; 0 for fresh numbers at each run."""
        attribute = self.module.attributes.get(_SEED)
        return attribute.value if isinstance(attribute, IntegerAttr) else 0

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        changed = _changed(self.module, {_SEED: IntegerAttr(seed, i64) if seed else None})
        assert isinstance(changed, core.ModuleOp)
        self.module = changed
        self.touched()

    def touched(self) -> None:
        """Something changed."""
        self.edits += 1

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
    """An op whose blocks are lists of their own; ops without regions are shared."""
    if not op.regions:
        return op
    return op.rebuilt(regions=[Region(Block(ops=[_copied(o) for o in op.regions[0].block.ops]))])


def _changed(op: core.Op, changes: Mapping[str, Attribute | None]) -> core.Op:
    fields = {**op.attributes, **changes}
    return op.rebuilt(attributes={name: value for name, value in fields.items() if value is not None})


def _slots(attribute: Attribute) -> dict[str, list[str]]:
    assert isinstance(attribute, DictAttr)
    return {
        name: [ref.name for ref in refs.items if isinstance(ref, SymbolRefAttr)]
        for name, refs in attribute.items
        if isinstance(refs, ArrayAttr)
    }


def slot_attribute(slots: Mapping[str, Sequence[str]]) -> DictAttr:
    """Slots and the names of their variables, as an operator of the IR holds them."""
    return DictAttr(
        tuple([(s, ArrayAttr(tuple([SymbolRefAttr(text(n)) for n in names]))) for s, names in slots.items()])
    )
