# SPDX-License-Identifier: Apache-2.0
"""Open lengths in LLVM text: in place of a constant, the text has `%{i64|4*N + 1}` until the function is finished. Then
each such operand is replaced by a register that is computed at the start of the function."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..support.expressions import Atom, Expression
from ..support.length_text import parse
from ..support.lengths import expression_of
from .instructions import Instructions
from .types import Value, bits_of, constant, element_of, i64, is_float, lanes_of, poison

_MARK = re.compile(r"%\{([^{}|]+)\|([^{}|]+)\}")


def resolved(body: str, lengths: Mapping[str, Value]) -> str:
    """The lines of a function with registers for the expressions; `lengths` has the registers of the named lengths."""
    found = dict.fromkeys(_MARK.findall(body))
    if not found:
        return body
    writer = _Writer(lengths)
    names = {key: writer.operand(*key).name for key in found}
    lines = "\n".join(writer.b.lines)
    return lines + "\n" + _MARK.sub(lambda mark: names[mark[1], mark[2]], body)


class _Writer:
    """Emits the computation of expressions, each once."""

    def __init__(self, lengths: Mapping[str, Value]):
        self.lengths = lengths
        self.b = Instructions(lambda name, result, arguments: result)
        self.b.stem = "length.v"
        self.atoms: dict[Atom, Value] = {}
        self.sums: dict[Expression, Value] = {}

    def operand(self, type: str, text: str) -> Value:
        if "," in text:
            made = poison(type)
            for lane, part in enumerate(text.split(", ")):
                made = self.b.insert(made, self.operand(element_of(type), part), lane)
            return made
        value = parse(text, dict.fromkeys(self.lengths, 1 << 20))
        scalar = self.sum(expression_of(value))
        element = element_of(type)
        if is_float(element):
            scalar = self.b.sitofp(scalar, element)
        elif bits_of(element) < 64:
            scalar = self.b.trunc(scalar, element)
        return self.b.splat(scalar, lanes_of(type)) if lanes_of(type) > 1 else scalar

    def sum(self, expression: Expression) -> Value:
        if expression not in self.sums:
            total: Value | None = None
            for monomial, factor in expression.terms:
                part: Value | None = None
                for atom in monomial:
                    part = self.atom(atom) if part is None else self.b.mul(part, self.atom(atom))
                if part is None:
                    part = constant(i64, factor)
                elif factor != 1:
                    part = self.b.mul(part, factor)
                total = part if total is None else self.b.add(total, part)
            self.sums[expression] = constant(i64, 0) if total is None else total
        return self.sums[expression]

    def atom(self, atom: Atom) -> Value:
        if isinstance(atom, str):
            return self.lengths[atom]
        if atom not in self.atoms:
            of, least = self.sum(atom.of), atom.of.least()
            if least is None or least < 0:
                # Rounds down, also for negative numbers.
                rest = self.b.srem(of, atom.by)
                of = self.b.sub(
                    of, self.b.select(self.b.icmp("slt", rest, 0), self.b.add(rest, atom.by), rest)
                )
                self.atoms[atom] = self.b.sdiv(of, atom.by)
            else:
                self.atoms[atom] = self.b.udiv(of, atom.by)
        return self.atoms[atom]
