# SPDX-License-Identifier: Apache-2.0
"""Whether a module obeys the rules. All violations are found, not only the first.

Structure   an op has the operands, results, attributes and regions that its definition asks for; a block of a
            structured region ends with one terminator and has none before its end; module-level ops only
            where a symbol table is.
Types       operands and results satisfy their constraints; shared type variables agree; the result types are
            those that the op's rule gives (shapes, axes, element types).
Dominance   an operand is defined before its use: earlier in its block, in an enclosing block before the op,
            or in a block that dominates; nothing is seen through an isolated op.
Symbols     names in a symbol table are unique; called functions and kernels exist and their types fit.
Functions   the body takes and returns what the function's type says.
Yields      what a region yields fits the op around it (part of the op's rule, or of its function type).

Attributes  an op has those that its definition names; others are anybody's, and carry the prefix of a dialect.

Not yet checked: ops of unregistered dialects (structure only).

What depends only on an op's own types and attributes is checked once per distinct (op, types, attributes);
what depends on an isolated op alone is checked once per op. So verifying after every pass costs what changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..support.diagnostics import Diagnostic, UserError
from ..support.spelling import Hints, did_you_mean
from .attributes import (
    ArrayAttr,
    Attribute,
    AxesAttr,
    DenseArrayAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from .core import Block, ModuleOp, Op, Region, UnregisteredOp, Value, callee, op_name
from .definition import (
    ATTRIBUTE_RULES,
    ELEMENTS,
    AttributeField,
    OpDefinition,
    Operand,
    Typing,
    is_narrow,
)
from .dominance import reachable_dominators
from .elements import ElementsAttr
from .types import FloatType, FunctionType, IntegerType, MemRefType, Type, element_type, i1, i64, shape_of


def verify(module: Op) -> tuple[Diagnostic, ...]:
    """All violations in source order; () for a good module."""
    checker = _Verifier()
    checker.isolated(module)
    return tuple(checker.found)


def check(module: Op, after: str = "") -> None:
    """Raises UserError with all violations; `after` names the pass that made the module."""
    found = verify(module)
    if found:
        if after:
            found = (Diagnostic(f"the module is not valid after {after}", severity="error"), *found)
        raise UserError(found)


_VISIBILITIES = (StringAttr("public"), StringAttr("private"), StringAttr("nested"))


class _Verifier:
    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.symbols: list[dict[str, Op]] = []
        self.hints = Hints()

    def say(self, op: Op, message: str, hint: str = "") -> None:
        self.found.append(Diagnostic(f"'{op_name(op)}' {message}", op.location, hint=hint))

    def isolated(self, op: Op) -> None:
        """An op that sees nothing of its surroundings, with all that is below it."""
        if op.verified:
            return
        before = len(self.found)
        is_table = "symbol_table" in op.traits
        if is_table:
            self.symbols.append(self.table(op))
        self.alone(op)
        if "function" in op.traits:
            self.function(op)
        for region in op.regions:
            self.region(op, region, set())
        if is_table:
            self.symbols.pop()
        # Calls look outside, so only ops without any keep the verdict when they move to another module.
        if len(self.found) == before and not is_table and not _looks_outside(op):
            op.verified = True

    def table(self, op: Op) -> dict[str, Op]:
        names: dict[str, Op] = {}
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    name = inner.symbol
                    if name and name in names:
                        self.say(
                            inner, f"defines @{name}, which is already defined at {names[name].location}"
                        )
                    elif name:
                        names[name] = inner
        return names

    def alone(self, op: Op) -> None:
        for complaint in _judge(op):
            self.say(op, complaint.message, complaint.hint)

    def region(self, op: Op, region: Region, visible: set[Value]) -> None:
        """`visible` is as before afterwards: what a region defines is not seen outside."""
        if len(region.blocks) > 1:
            self.graph_of_blocks(op, region, visible)
        else:
            for block in region.blocks:
                visible.difference_update(self.block(op, block, visible))

    def graph_of_blocks(self, op: Op, region: Region, visible: set[Value]) -> None:
        if "single_block" in op.traits:
            self.say(op, "takes one block in its region")
        below: dict[Block | None, list[Block]] = {}
        for block, parent in reachable_dominators(region):
            below.setdefault(parent, []).append(block)
        for blocks in below.values():
            blocks.reverse()
        # Down and up the tree of dominators: what a block defines is visible below it and nowhere else.
        stack: list[tuple[Block | None, list[Value]]] = [(None, [])]
        while stack:
            block, defined = stack[-1]
            if below.get(block):
                inner = below[block].pop()
                stack.append((inner, self.block(op, inner, visible)))
            else:
                visible.difference_update(defined)
                stack.pop()

    def block(self, parent: Op, block: Block, visible: set[Value]) -> list[Value]:
        """Checks the ops of one block. Adds what it defines to `visible`, and gives it."""
        defined = list(block.args)
        visible.update(defined)
        last = len(block.ops) - 1
        for at, op in enumerate(block.ops):
            for i, operand in enumerate(op.operands):
                if operand not in visible:
                    self.undominated(op, i, operand)
            if op.regions:
                self.with_regions(op, visible)
            elif not op.verified:
                before = len(self.found)
                self.alone(op)
                op.verified = len(self.found) == before
            if at != last and "terminator" in op.traits:
                self.say(op, "ends its block but is not the last op in it")
            if "callee" in op.attributes:
                self.call(op)
            visible.update(op.results)
            defined += op.results
        self.terminator(parent, block)
        return defined

    def undominated(self, op: Op, i: int, operand: Value) -> None:
        name = f"%{operand.name}" if operand.name else f"#{i}"
        notes: tuple[Diagnostic, ...] = ()
        owner = operand.owner
        if isinstance(owner, Op) and owner is not op and owner.location.known:
            notes = (Diagnostic(f"{name} is defined here", owner.location, "note"),)
        message = f"'{op_name(op)}' uses operand {name} which does not dominate this use"
        self.found.append(Diagnostic(message, op.location, notes=notes))

    def with_regions(self, op: Op, visible: set[Value]) -> None:
        if "isolated" in op.traits:
            self.isolated(op)
            return
        self.alone(op)
        for region in op.regions:
            if not region.blocks and op.definition is not None:
                self.say(op, "has a region without a block")
            self.region(op, region, visible)

    def terminator(self, parent: Op, block: Block) -> None:
        traits = parent.traits
        if parent.definition is None or "symbol_table" in traits:
            return
        end = block.ops[-1] if block.ops else None
        if end is None or (end.definition is not None and "terminator" not in end.traits):
            at = end or parent
            self.found.append(
                Diagnostic(f"a block of '{op_name(parent)}' does not end with a terminator", at.location)
            )
        elif "function" in traits:
            self.returned(parent, end)

    def function(self, function: Op) -> None:
        """The type of a function is that of its body."""
        seen = function.attributes.get("sym_visibility", _VISIBILITIES[0])
        if seen not in _VISIBILITIES:
            near = self.hints.did_you_mean(str(seen), map(str, _VISIBILITIES))
            self.say(function, f"is 'public', 'private' or 'nested', not {seen}", near)
        attribute = function.attributes.get("function_type")
        if not isinstance(attribute, TypeAttr) or not isinstance(attribute.type, FunctionType):
            self.say(function, "needs a function type")
            return
        blocks = function.regions[0].blocks if function.regions else ()
        taken = tuple(a.type for a in blocks[0].args) if blocks else attribute.type.inputs
        if taken != attribute.type.inputs:
            self.say(function, f"takes ({_list(taken)}), but its type says ({_list(attribute.type.inputs)})")

    def returned(self, function: Op, end: Op) -> None:
        attribute = function.attributes.get("function_type")
        if (
            end.successors
            or not isinstance(attribute, TypeAttr)
            or not isinstance(attribute.type, FunctionType)
        ):
            return
        given = tuple(o.type for o in end.operands)
        if given != attribute.type.results:
            self.say(
                end,
                f"returns ({_list(given)}), but @{function.symbol} gives ({_list(attribute.type.results)})",
            )

    def call(self, op: Op) -> None:
        name = callee(op)
        target = next((t[name] for t in reversed(self.symbols) if name in t), None)
        if not self.symbols:
            return
        if target is None:
            known = (f"@{n}" for t in reversed(self.symbols) for n in t)
            near = self.hints.did_you_mean(f"@{name}", known)
            self.say(op, f"calls @{name}, which is not defined in this module", near)
            return
        if op_name(op).partition(".")[0] != op_name(target).partition(".")[0]:
            self.say(op, f"calls @{name}, which is a {op_name(target)}")
            return
        attribute = target.attributes.get("function_type")
        if not isinstance(attribute, TypeAttr) or not isinstance(attribute.type, FunctionType):
            return
        function = attribute.type
        inputs = tuple(o.type for o in op.operands)
        results = tuple(r.type for r in op.results)
        if op.name != "func.call":
            self.buffers(
                op, name, [*inputs, *results], [t for t in function.inputs if isinstance(t, MemRefType)]
            )
            self.written(op, name, target)
        elif (inputs, results) != (function.inputs, function.results):
            self.say(op, f"calls @{name} as {FunctionType(inputs, results)}, but it is {function}")

    def buffers(self, op: Op, name: str, given: Sequence[Type], wanted: Sequence[Type]) -> None:
        """The operands and results of a call to a kernel are its buffers, as values or in memory."""
        if [(shape_of(t), element_type(t)) for t in given] != [
            (shape_of(t), element_type(t)) for t in wanted
        ]:
            self.say(op, f"gives @{name} the buffers ({_list(given)}), but it takes ({_list(wanted)})")

    def written(self, op: Op, name: str, kernel: Op) -> None:
        """A kernel writes as many buffers as its call says."""
        given, wanted = op.attributes.get("outputs", len(op.results)), kernel.attributes.get("outputs")
        counts = [n.value if isinstance(n, IntegerAttr) else n for n in (given, wanted)]
        if counts[0] != counts[1] and isinstance(counts[1], int):
            self.say(op, f"has @{name} write {counts[0]} of the buffers, but it writes {counts[1]}")


def _looks_outside(op: Op) -> bool:
    return any("callee" in inner.attributes for inner in op.walk())


def _judge(op: Op) -> Sequence[Diagnostic]:
    """What is wrong with an op's own operands, attributes and result types (not where it stands)."""
    definition = op.definition
    if definition is None or isinstance(op, UnregisteredOp):
        return ()
    if op.regions or definition.regions:
        return _violations(op, definition, tuple([_yielded(r) for r in op.regions]))
    kind = op.kind
    if kind.complaints is None:
        kind.complaints = tuple(_violations(op, definition, ()))
    return kind.complaints


def _yielded(region: Region) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """Types of a region's arguments and of what its last block yields."""
    if not region.blocks:
        return (), ()
    first, last = region.blocks[0], region.blocks[-1]
    end = last.ops[-1] if last.ops else None
    return tuple(a.type for a in first.args), tuple(o.type for o in end.operands) if end else ()


def _violations(
    op: Op, definition: OpDefinition, yields: tuple[tuple[tuple[Type, ...], tuple[Type, ...]], ...]
) -> Sequence[Diagnostic]:
    unknown = _unknown_attributes(op, definition)
    for name in op.attributes.keys() & ATTRIBUTE_RULES.keys():
        unknown += ATTRIBUTE_RULES[name](op_name(op), op.attributes)
    if isinstance(op, ModuleOp):
        return unknown
    bad = _signature_violations(op, definition)
    if bad or unknown or definition.rule is None:
        return [*unknown, *[Diagnostic(message) for message in bad]]
    stated = tuple(r.type for r in op.results)
    try:
        expected = tuple(
            definition.rule(Typing(tuple(o.type for o in op.operands), op.attributes, stated, yields))
        )
    except UserError as error:
        return error.diagnostics
    if expected != stated:
        return [Diagnostic(f"gives ({_list(expected)}), but ({_list(stated)}) is stated")]
    return ()


def _unknown_attributes(op: Op, definition: OpDefinition) -> list[Diagnostic]:
    """Attributes without a dialect's prefix belong to the op, so it must name them."""
    own = [field.name for field in definition.attributes]
    if "function" in definition.traits:
        own += _FUNCTION_ATTRIBUTES
    if "symbol_table" in definition.traits:
        own += _TABLE_ATTRIBUTES
    bad = [
        Diagnostic(
            f"has no attribute '{name}'",
            hint=did_you_mean(
                name, own, f"its attributes: {', '.join(own) or 'none'}; others need a prefix, x.{name}"
            ),
        )
        for name in op.attributes
        if "." not in name and name not in own
    ]
    for which in _FUNCTION_ATTRIBUTES[1:]:
        for name in _names_in(op.attributes.get(which)):
            if "." not in name:
                of = "an argument" if which == "arg_attrs" else "a result"
                bad.append(
                    Diagnostic(f"has the attribute '{name}' on {of}", hint=f"it needs a prefix, x.{name}")
                )
    return bad


def _names_in(attribute: Attribute | None) -> list[str]:
    if not isinstance(attribute, ArrayAttr):
        return []
    return [name for item in attribute.items if isinstance(item, DictAttr) for name, _ in item.items]


#: What every op that is a function may have beside its own.
_FUNCTION_ATTRIBUTES = ("sym_visibility", "arg_attrs", "res_attrs")
#: What every op that holds symbols may have: it may be one itself.
_TABLE_ATTRIBUTES = ("sym_name", "sym_visibility")


def _signature_violations(op: Op, definition: OpDefinition) -> list[str]:
    """What is wrong with the number of operands, results and regions, and with the kind of each."""
    bad: list[str] = []
    types = [o.type for o in op.operands]
    if definition.regions and len(op.regions) != len(definition.regions):
        bad.append(f"takes {len(definition.regions)} regions, not {len(op.regions)}")
    if not definition.regions and op.regions:
        bad.append("takes no regions")
    groups = definition.operand_groups(len(types), op.attributes)
    if groups is None:
        counted = [f"{o.counted} = {op.attributes.get(o.counted)}" for o in definition.operands if o.counted]
        told = f" with {', '.join(counted)}" if counted else ""
        return [*bad, f"takes {len(definition.operands)} operands{told}, not {len(types)}"]
    bound: dict[str, Type] = {}
    for operand, start, stop in groups:
        for type in types[start:stop]:
            bad += _constrained(operand, type, bound, "operand")
    bad += _attributes(op, definition)
    if bad or "function" in definition.traits:
        return bad
    results = [r.type for r in op.results]
    variadic = any(r.variadic for r in definition.results)
    if not variadic and len(results) != len(definition.results):
        return [f"gives {len(definition.results)} results, not {len(results)}"]
    if not variadic:
        for result, type in zip(definition.results, results, strict=True):
            bad += _constrained(result, type, bound, "result")
    return bad


def _constrained(operand: Operand, type: Type, bound: dict[str, Type], what: str) -> list[str]:
    if not operand.constraint.accepts(type):
        known = element_type(type)
        foreign = isinstance(known, (FloatType, IntegerType)) and not ELEMENTS["element"](known)
        note = f"; nothing here computes with {known}" if foreign else ""
        if is_narrow(known) and operand.constraint.element not in ("", "stored"):
            note = f"; {known} is stored and moved only, ng.cast makes numbers of it"
        return [f"{what} '{operand.name}' must be {operand.constraint.words}, not {type}{note}"]
    if operand.variable:
        known = bound.setdefault(operand.variable, type)
        if known is not type:
            return [f"{what} '{operand.name}' must be {known}, not {type}"]
    return []


def _attributes(op: Op, definition: OpDefinition) -> list[str]:
    bad: list[str] = []
    for field in definition.attributes:
        value = op.attributes.get(field.name)
        if value is None:
            if field.default is None and not field.optional:
                bad.append(f"needs the attribute '{field.name}' ({field.words})")
        elif not _is_kind(field, value):
            bad.append(f"attribute '{field.name}' must be {field.words}, not {value}")
    return bad


def _is_kind(field: AttributeField, value: Attribute) -> bool:
    match field.kind:
        case "i64":
            return isinstance(value, IntegerAttr) and value.type is i64
        case "i64s":
            return isinstance(value, DenseArrayAttr) and value.type is i64
        case "bools":
            return isinstance(value, DenseArrayAttr) and value.type is i1
        case "bool":
            return isinstance(value, IntegerAttr) and value.type is i1
        case "str":
            return isinstance(value, StringAttr)
        case "symbol":
            return isinstance(value, SymbolRefAttr)
        case "type":
            return isinstance(value, TypeAttr)
        case "unit":
            return isinstance(value, UnitAttr)
        case "axes":
            return isinstance(value, AxesAttr)
        case "number":
            return isinstance(value, (FloatAttr, IntegerAttr))
        case "literal":
            return isinstance(value, (FloatAttr, IntegerAttr, ElementsAttr))
        case kind if kind.startswith("enum("):
            return isinstance(value, StringAttr) and value.value in kind[5:-1].split("|")
        case _:
            return True


def _list(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types))
