# SPDX-License-Identifier: Apache-2.0
"""The verifier of modules. All violations are reported, not only the first.

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

Attributes  an op has those that its definition names; others are allowed with the prefix of a dialect.

Not yet checked: ops of unregistered dialects (structure only).

What depends only on an op alone (ir/op_checks.py) is checked once per distinct (op, types, attributes);
what depends on an isolated op alone is checked once per op. So verifying after every pass costs what changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..support.diagnostics import Diagnostic, UserError
from ..support.spelling import Hints
from .attributes import IntegerAttr, StringAttr, TypeAttr, are_dictionaries
from .core import Block, Op, Region, Value, callee, op_name
from .dominance import reachable_dominators
from .op_checks import complaints, listed
from .types import FunctionType, MemRefType, Type, element_type, shape_of


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

#: The terminators of ops whose blocks do not end with `ng.yield`.
_ENDS = {"func.func": "func.return", "tile.kernel": "tile.return"}


class _Verifier:
    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.symbols: list[dict[str, Op]] = []
        self.hints = Hints()

    def say(self, op: Op, message: str, hint: str = "", notes: tuple[Diagnostic, ...] = ()) -> None:
        self.found.append(Diagnostic(f"'{op_name(op)}' {message}", op.location, hint=hint, notes=notes))

    def isolated(self, op: Op) -> None:
        """An op that cannot refer to values outside, with all ops in its regions."""
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
        # Calls refer to other ops of a module, so only ops without any remain verified in another module.
        if len(self.found) == before and not is_table and not _looks_outside(op):
            op.verified = True

    def table(self, op: Op) -> dict[str, Op]:
        names: dict[str, Op] = {}
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    name = inner.symbol
                    if name and name in names:
                        before = names[name].location
                        notes = (
                            (Diagnostic("previously defined here", before, "note"),) if before.known else ()
                        )
                        self.say(inner, f"defines @{name}, which is already defined", notes=notes)
                    elif name:
                        names[name] = inner
        return names

    def alone(self, op: Op) -> None:
        for complaint in complaints(op):
            self.say(op, complaint.message, complaint.hint)

    def region(self, op: Op, region: Region, visible: set[Value]) -> None:
        """`visible` is restored afterwards: values of a region are not visible outside."""
        if len(region.blocks) > 1:
            self.graph_of_blocks(op, region, visible)
        else:
            for block in region.blocks:
                # The region of an op of another dialect may be a graph region, without an order of its ops.
                graph = op.definition is None
                ahead = [value for inner in block.ops for value in inner.results] if graph else []
                visible.update(ahead)
                visible.difference_update(ahead, self.block(op, block, visible))

    def graph_of_blocks(self, op: Op, region: Region, visible: set[Value]) -> None:
        if "single_block" in op.traits:
            self.say(op, "needs exactly one block in its region")
        below: dict[Block | None, list[Block]] = {}
        for block, parent in reachable_dominators(region):
            below.setdefault(parent, []).append(block)
        for blocks in below.values():
            blocks.reverse()
        # Down and up the dominator tree: values of a block are visible below it and nowhere else.
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
        """Checks the ops of one block. Adds its values to `visible`, and returns them."""
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
                self.say(op, "is a terminator but not the last op of its block")
            if _calls(op):
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
                Diagnostic(
                    f"a block of '{op_name(parent)}' does not end with a terminator",
                    at.location,
                    hint=f"`{_ENDS.get(parent.name, 'ng.yield')}` ends it, and gives its results",
                )
            )
        elif "function" in traits and end.definition is not None:
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
        for name, count in (
            ("arg_attrs", len(attribute.type.inputs)),
            ("res_attrs", len(attribute.type.results)),
        ):
            given = function.attributes.get(name)
            if given is not None and not are_dictionaries(given, count):
                what = f"one dictionary for each of its {count} {_DESCRIBED[name]} in {name}"
                self.say(function, f"needs {what}, not {given}")
        blocks = function.regions[0].blocks if function.regions else ()
        if not blocks and seen is _VISIBILITIES[0]:
            hint = f"write {op_name(function)} private @{function.symbol}"
            self.say(function, f"@{function.symbol} has no body, so it must be private", hint)
        taken = tuple(a.type for a in blocks[0].args) if blocks else attribute.type.inputs
        if taken != attribute.type.inputs:
            self.say(
                function, f"takes ({listed(taken)}), but its type says ({listed(attribute.type.inputs)})"
            )

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
                f"returns ({listed(given)}), but @{function.symbol} gives ({listed(attribute.type.results)})",
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
            self.say(op, f"gives @{name} the buffers ({listed(given)}), but it takes ({listed(wanted)})")

    def written(self, op: Op, name: str, kernel: Op) -> None:
        """A kernel writes as many buffers as its call says."""
        given, wanted = op.attributes.get("outputs", len(op.results)), kernel.attributes.get("outputs")
        counts = [n.value if isinstance(n, IntegerAttr) else n for n in (given, wanted)]
        if counts[0] != counts[1] and isinstance(counts[1], int):
            self.say(op, f"has @{name} write {counts[0]} of the buffers, but it writes {counts[1]}")


_DESCRIBED = {"arg_attrs": "arguments", "res_attrs": "results"}


def _calls(op: Op) -> bool:
    """Whether an op names a function or kernel; in an op of another dialect such an attribute may mean anything."""
    return "callee" in op.attributes and op.definition is not None


def _looks_outside(op: Op) -> bool:
    return any(_calls(inner) for inner in op.walk())
