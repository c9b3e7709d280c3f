# SPDX-License-Identifier: Apache-2.0
"""Inlines device functions: every call site gets a copy of the callee with separate registers.

A `.param` variable of a call is memory of the calling thread; after inlining it is a local variable, and the callee's
parameters and results are other names for it.
"""

from __future__ import annotations

from dataclasses import replace

from ..support.diagnostics import Limit, Location, UserError
from .program import (
    Address,
    Function,
    Instruction,
    Integer,
    Operand,
    Pair,
    Program,
    Register,
    Symbol,
    Variable,
    Vector,
)


def expand_calls(program: Program, entry: Function) -> Function:
    """`entry` without calls; Limit for functions that call themselves."""
    return _Expansion(program, entry).result


class _Expansion:
    def __init__(self, program: Program, entry: Function):
        self.program = program
        self.copies = 0
        self.result = Function(entry.name, True, entry.line, entry.parameters, directives=entry.directives)
        self._copy(entry, "", {}, ())

    def _copy(self, function: Function, suffix: str, names: dict[str, str], callers: tuple[str, ...]) -> None:
        """Appends the body of `function`; `names` maps its parameters to variables of the caller."""
        result = self.result
        names = dict(names)
        for name, kind in function.registers.items():
            names[name] = name + suffix
            result.registers[name + suffix] = kind
        for name, variable in function.variables.items():
            names[name] = name + suffix
            space = "local" if variable.space == "param" else variable.space
            result.variables[name + suffix] = Variable(
                name + suffix, space, variable.bytes, variable.alignment
            )
        for name, labels in function.branch_tables.items():
            names[name] = name + suffix
            result.branch_tables[name + suffix] = tuple(label + suffix for label in labels)
        names |= {label: label + suffix for label in function.labels}

        labels_at: dict[int, list[str]] = {}
        for label, index in function.labels.items():
            labels_at.setdefault(index, []).append(label)
        end = f"end of {function.name}{suffix}"
        for index, instruction in enumerate(function.instructions):
            self._place(labels_at.get(index, ()), suffix)
            self._append(function, instruction, suffix, names, callers, end)
        self._place(labels_at.get(len(function.instructions), ()), suffix)
        if suffix:
            result.labels[end] = len(result.instructions)

    def _place(self, labels: list[str] | tuple[()], suffix: str) -> None:
        for label in labels:
            self.result.labels[label + suffix] = len(self.result.instructions)

    def _append(
        self,
        function: Function,
        instruction: Instruction,
        suffix: str,
        names: dict[str, str],
        callers: tuple[str, ...],
        end: str,
    ) -> None:
        operands = tuple(_renamed(operand, names) for operand in instruction.operands)
        guard = _renamed(instruction.guard, names) if instruction.guard else None
        assert guard is None or isinstance(guard, Register)
        copy = replace(instruction, operands=operands, guard=guard)
        if instruction.head == "call":
            self._call(function, copy, callers)
        elif suffix and instruction.head == "ret":
            self.result.instructions.append(replace(copy, opcode="bra", operands=(Symbol(end),)))
        else:
            if "param" in instruction.modifiers and (suffix or self._names_local(operands)):
                copy = replace(copy, opcode=copy.opcode.replace(".param", ".local"))
            self.result.instructions.append(copy)

    def _names_local(self, operands: tuple[Operand, ...]) -> bool:
        return any(
            isinstance(o, Address) and isinstance(o.base, Symbol) and o.base.name in self.result.variables
            for o in operands
        )

    def _call(self, caller: Function, call: Instruction, callers: tuple[str, ...]) -> None:
        location = Location("<ptx>", call.line, 1)
        lists = [operand for operand in call.operands if isinstance(operand, Vector)]
        named = [operand for operand in call.operands if isinstance(operand, Symbol)]
        if not named:
            raise Limit("an indirect call is not simulated", location, source=self.program.source)
        name = named[0].name
        callee = self.program.functions.get(name)
        if callee is None:
            raise UserError(
                f"function {name!r} is called but the PTX does not define it",
                location,
                hint="code for the GPU may call only functions of its own module",
                source=self.program.source,
            )
        if name in callers or name == caller.name:
            raise Limit(f"{name!r} calls itself", location, source=self.program.source)
        results = lists.pop(0).items if isinstance(call.operands[0], Vector) else ()
        arguments = lists[0].items if lists else ()
        names: dict[str, str] = {}
        for formal, actual in zip(callee.results + callee.parameters, results + arguments, strict=True):
            if not isinstance(actual, Symbol):
                raise Limit(
                    "arguments of a call must be .param variables", location, source=self.program.source
                )
            names[formal.name] = actual.name
        self.copies += 1
        suffix = f"@{self.copies}"
        if call.guard:
            past = Symbol(f"end of {name}{suffix}")
            skip = replace(call.guard, negated=not call.guard.negated)
            self.result.instructions.append(replace(call, opcode="bra", operands=(past,), guard=skip))
        self._copy(callee, suffix, names, (*callers, caller.name))


def _renamed(operand: Operand, names: dict[str, str]) -> Operand:
    match operand:
        case Register(name, negated):
            return Register(names.get(name, name), negated)
        case Symbol(name, offset):
            return Symbol(names.get(name, name), offset)
        case Address(base, offset, coordinates):
            renamed = _renamed(base, names)
            assert isinstance(renamed, Register | Symbol | Integer)
            return Address(renamed, offset, tuple(_renamed(c, names) for c in coordinates))
        case Vector(items):
            return Vector(tuple(_renamed(item, names) for item in items))
        case Pair(first, second):
            return Pair(_renamed(first, names), _renamed(second, names))
        case _:
            return operand
