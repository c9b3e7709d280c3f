# SPDX-License-Identifier: Apache-2.0
"""Values, ops, blocks, regions, modules: MLIR's model, as immutable nodes.

An op never changes once it is in a block: a pass makes new ops where something differs and shares the
rest. So nothing points to its parent, an op may be in two modules at once, and what the verifier found out
about an op stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from ..support.diagnostics import UNKNOWN, Diagnostic, Location, UserError
from ..support.lengths import Guard
from .attributes import NO_ATTRIBUTES, Attribute, DictAttr, StringAttr, SymbolRefAttr, sorted_attributes
from .context import CONTEXT
from .definition import OpDefinition
from .types import FunctionType, Type

O = TypeVar("O", bound="Op")


class Value:
    """Result `index` of an op, or argument `index` of a block. Compared by identity; `name` is its name in text."""

    __slots__ = ("index", "name", "owner", "type")

    def __init__(self, type: Type, owner: Op | Block | None = None, index: int = 0, name: str = ""):
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name

    def __repr__(self) -> str:
        return f"<%{self.name or '_'} : {self.type}>"


class Kind:
    """What ops that differ only in their operands have in common: the name, the types of operands and results, the attributes.

    All ops of a kind share one object, which caches what follows from the kind alone; it lives as long as they do.
    """

    __slots__ = ("__weakref__", "complaints", "name", "operands", "results")

    def __init__(self, name: str, operands: tuple[Type, ...], results: tuple[Type, ...]):
        self.name, self.operands, self.results = name, operands, results
        #: The verifier's errors for this kind (without locations), and what they assume of lengths; None until it was verified.
        self.complaints: tuple[tuple[Diagnostic, ...], tuple[Guard, ...]] | None = None


class Op:
    """One operation. Subclasses (one per defined op) add names for operands and attributes, nothing else."""

    __slots__ = (
        "_kind",
        "attributes",
        "location",
        "operands",
        "regions",
        "results",
        "successors",
        "verified",
    )

    name: ClassVar[str] = ""
    definition: ClassVar[OpDefinition | None] = None

    def __init__(
        self,
        operands: Sequence[Value] = (),
        types: Sequence[Type] = (),
        attributes: Mapping[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        location: Location = UNKNOWN,
        successors: Sequence[Block] = (),
        names: Sequence[str] = (),
    ):
        self.operands: tuple[Value, ...] = tuple(operands)
        self.attributes: Mapping[str, Attribute] = (
            sorted_attributes(attributes) if attributes else NO_ATTRIBUTES
        )
        self.regions: tuple[Region, ...] = tuple(regions)
        self.successors: tuple[Block, ...] = tuple(successors)
        self.location = location
        self._kind: Kind | None = None
        self.verified = False  # set by the verifier: its checks of this op alone remain valid
        if not types:
            self.results: tuple[Value, ...] = ()
        elif len(types) == 1:
            self.results = (Value(types[0], self, 0, names[0] if names else ""),)
        else:
            self.results = tuple(
                Value(t, self, i, names[i] if i < len(names) else "") for i, t in enumerate(types)
            )

    @property
    def result(self) -> Value:
        """The one result of an op that has one."""
        (result,) = self.results
        return result

    @property
    def kind(self) -> Kind:
        """The kind of the op: what it shares with all ops that differ from it only in their operands (and names)."""
        if self._kind is None:
            key = kind_key(
                op_name(self), tuple([o.type for o in self.operands]), tuple([r.type for r in self.results]),
                described(self),
            )  # fmt: skip
            found: Kind | None = CONTEXT.kinds.find(key)
            self._kind = found or CONTEXT.kinds.add(key, Kind(*key[:3]))
        assert self._kind is not None
        return self._kind

    def _kind_for(self, operands: Sequence[Value]) -> Kind | None:
        """The kind of the op, if it is known and remains the same with other operands."""
        kind = self._kind
        if kind is None or [o.type for o in operands] != list(kind.operands):
            return None
        return kind

    @property
    def traits(self) -> frozenset[str]:
        """Properties of all ops of this name (`pure`, `elementwise`, `terminator` ...)."""
        return self.definition.traits if self.definition is not None else frozenset()

    @property
    def block(self) -> Block:
        """The one block of the one region."""
        return self.regions[0].blocks[0]

    @property
    def symbol(self) -> str:
        """The symbol that this op defines, or ''."""
        attribute = self.attributes.get("sym_name")
        return attribute.value if isinstance(attribute, StringAttr) else ""

    def rebuilt(
        self: O,
        operands: Sequence[Value] | None = None,
        regions: Sequence[Region] | None = None,
        *,
        attributes: Mapping[str, Attribute] | None = None,
        types: Sequence[Type] | None = None,
        successors: Sequence[Block] | None = None,
    ) -> O:
        """A copy with some parts replaced; its results are new values."""
        op = object.__new__(self.__class__)
        op.operands = self.operands if operands is None else tuple(operands)
        op.attributes = self.attributes if attributes is None else sorted_attributes(attributes)
        op.regions = self.regions if regions is None else tuple(regions)
        op.successors = self.successors if successors is None else tuple(successors)
        op.location = self.location
        op.verified = False
        op._kind = self._kind_for(op.operands) if attributes is None and types is None else None
        old = self.results
        if types is None:
            if len(old) == 1:
                op.results = (Value(old[0].type, op, 0, old[0].name),)
            else:
                op.results = tuple([Value(v.type, op, v.index, v.name) for v in old])
        else:
            names = [v.name for v in old]
            op.results = tuple(
                Value(t, op, i, names[i] if i < len(names) else "") for i, t in enumerate(types)
            )
        if isinstance(self, UnregisteredOp) and isinstance(op, UnregisteredOp):
            op.full_name, op.properties = self.full_name, self.properties
        return op

    def with_blocks(self: O, rebuild: Callable[[Block], Block]) -> O:
        """The op with each block of its regions rebuilt; itself if no block changes."""
        regions = [Region(*[rebuild(b) for b in r.blocks]) for r in self.regions]
        if all(new.blocks == old.blocks for new, old in zip(regions, self.regions, strict=True)):
            return self
        return self.rebuilt(regions=regions)

    def walk(self) -> Iterator[Op]:
        """This op and all ops in its regions, in text order."""
        yield self
        for region in self.regions:
            for block in region.blocks:
                for op in block.ops:
                    if op.regions:
                        yield from op.walk()
                    else:
                        yield op

    def __repr__(self) -> str:
        return f"<{op_name(self)} at {self.location}>"

    #: Prints an op; set by the printer, which this layer cannot import.
    spelled: ClassVar[Callable[[Op], str]] = repr

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        what = f"'{op_name(self)}' is an op of a program, and cannot be copied or pickled by itself"
        raise UserError(what, self.location, hint="to_text(module) writes a program, from_text reads it")

    def __str__(self) -> str:
        return Op.spelled(self)


def described(op: Op) -> Mapping[str, Attribute]:
    """The attributes of an op and, under the empty name, the properties of an unregistered one."""
    properties = op.properties if isinstance(op, UnregisteredOp) else None
    return op.attributes if properties is None else {**op.attributes, "": properties}


def kind_key(
    name: str, operands: tuple[Type, ...], results: tuple[Type, ...], attributes: Mapping[str, Attribute]
) -> tuple[str, tuple[Type, ...], tuple[Type, ...], tuple[tuple[str, Attribute], ...]]:
    """The key of a kind in the context."""
    return name, operands, results, tuple(attributes.items()) if attributes else ()


class UnregisteredOp(Op):
    """An op of a dialect that is not loaded: kept and printed, but not interpreted. Its `properties`, `<{...}>` in text, have
    separate names: the same ones may be among its attributes."""

    __slots__ = ("full_name", "properties")
    full_name: str
    properties: DictAttr | None

    def __init__(self, *parts: Any, **named: Any):
        super().__init__(*parts, **named)
        self.properties = None


def op_name(op: Op) -> str:
    """`dialect.name`, also for unregistered ops."""
    return op.full_name if isinstance(op, UnregisteredOp) else op.name


class Block:
    """Arguments and ops. Filled once, by its creator."""

    __slots__ = ("args", "label", "ops")

    def __init__(self, types: Iterable[Type] = (), names: Sequence[str] = (), ops: Iterable[Op] = ()):
        self.args: tuple[Value, ...] = tuple(
            Value(t, self, i, names[i] if i < len(names) else "") for i, t in enumerate(types)
        )
        self.ops: list[Op] = list(ops)
        self.label = ""

    def emptied(self) -> Block:
        """A new empty block with the same argument values, so nothing outside its ops has to be renamed."""
        block = Block()
        block.args, block.label = self.args, self.label
        return block

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and "terminator" in self.ops[-1].traits else None


class Region:
    """One or more blocks; the first is the entry block."""

    __slots__ = ("blocks",)

    def __init__(self, *blocks: Block):
        self.blocks: tuple[Block, ...] = blocks

    @property
    def block(self) -> Block:
        """The one block of a structured region."""
        (block,) = self.blocks
        return block


class ModuleOp(Op):
    """`module { ... }`: the whole program. A pass takes one and returns one."""

    __slots__ = ()
    name = "builtin.module"
    definition = OpDefinition(
        "builtin.module", traits=frozenset({"isolated", "symbol_table", "single_block"}), regions=("body",)
    )

    #: Draws a module; set by the folder `pictures`, which this layer cannot import.
    drawn: ClassVar[Callable[[ModuleOp], str] | None] = None

    def _repr_svg_(self) -> str | None:
        return None if ModuleOp.drawn is None else ModuleOp.drawn(self)

    _repr_html_ = _repr_svg_

    @property
    def ops(self) -> list[Op]:
        return self.block.ops

    def lookup(self, symbol: str) -> Op | None:
        """The op that defines `symbol` at the top level."""
        for op in self.ops:
            if op.symbol == symbol:
                return op
        return None

    def with_ops(self, ops: Sequence[Op]) -> ModuleOp:
        """The same module with other top-level ops; itself if nothing changed."""
        old = self.ops
        if len(ops) == len(old) and all(a is b for a, b in zip(ops, old, strict=True)):
            return self
        return self.rebuilt(regions=(Region(Block(ops=ops)),))


Module = ModuleOp


def module(ops: Iterable[Op] = (), name: str = "", location: Location = UNKNOWN) -> ModuleOp:
    """A module of top-level ops."""
    attributes: dict[str, Attribute] = {"sym_name": StringAttr(name)} if name else {}
    return ModuleOp((), (), attributes, (Region(Block(ops=ops)),), location)


def callee(op: Op) -> str:
    """The symbol named by a call-like op's `callee` attribute, or ''."""
    attribute = op.attributes.get("callee")
    return attribute.name if isinstance(attribute, SymbolRefAttr) else ""


def count_uses(block: Block) -> dict[Value, int]:
    """How often each value is used in a block and the regions below it."""
    uses: dict[Value, int] = {}
    for top in block.ops:
        for op in top.walk():
            for value in op.operands:
                uses[value] = uses.get(value, 0) + 1
    return uses


def function_type(block: Block, results: Sequence[Type]) -> FunctionType:
    return FunctionType(tuple(a.type for a in block.args), tuple(results))
