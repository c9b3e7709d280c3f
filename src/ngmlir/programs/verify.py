# SPDX-License-Identifier: Apache-2.0
"""Whether a program obeys the rules: operators are known and used as their entries say, and names are declared.

What one op of the dialect is by itself, the verifier of the IR checks. All violations are found, each at the operator's line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..decl.operator_text import OperatorEntry, Slot
from ..ops import program as dialect
from ..support.diagnostics import Diagnostic, UserError
from ..support.spelling import did_you_mean
from .attributes import check_attribute, fields_of
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .names import EMPTY


def check_program(program: Program) -> None:
    """Raises UserError with all that is wrong with a program."""
    found = [d for block in program.blocks for d in _block(block)]
    if found:
        raise UserError(found)


def _block(block: BlockView) -> Iterator[Diagnostic]:
    yield from _order(block)
    for operator in block.operators:
        yield from operator_violations(operator)


def _order(block: BlockView) -> Iterator[Diagnostic]:
    """A block declares its variables first; blocks that no operator runs come last; nothing else is in it."""
    kinds = (dialect.VarOp, (dialect.OpOp, dialect.BlockOpOp), dialect.BlockOp)
    at = 0
    for op in block.body.ops:
        place = next((i for i, kind in enumerate(kinds) if isinstance(op, kind)), None)
        if place is None:
            yield Diagnostic(f"'{op.name}' has no place in a program", op.location)
        elif place < at:
            yield Diagnostic("a block declares its variables before its operators", op.location)
        else:
            at = place


def operator_violations(operator: Operator, *, attributes: bool = True) -> Iterator[Diagnostic]:
    """What is wrong with one operator; without `attributes` these are known to be right."""
    where = operator.location
    definition = REGISTRY.find(operator.type)
    if definition is None:
        near = did_you_mean(operator.type, REGISTRY.definitions)
        yield Diagnostic(f"there is no operator '{operator.type}'", where, hint=near)
        return
    entry = definition.entry
    yield from _slots(operator, "input", entry.inputs_by_name, operator.inputs)
    yield from _slots(operator, "output", entry.outputs_by_name, operator.outputs)
    block = operator.block
    unseen = [n for n in (*operator.reads, *operator.writes) if n not in block.variables and n != EMPTY]
    for name in dict.fromkeys(unseen):
        if block.find(name) is None:
            yield from block.unknown(name, where).diagnostics
    if attributes:
        yield from _attributes(operator, entry)


def _attributes(operator: Operator, entry: OperatorEntry) -> Iterator[Diagnostic]:
    where = operator.location
    given = dict(operator.dictionary.items)
    fields = {field.name: field for field in fields_of(entry)}
    for name in given.keys() - fields.keys():
        near = did_you_mean(name, fields)
        yield Diagnostic(f"operator {entry.type} has no attribute '{name}'", where, hint=near)
    for name, field in fields.items():
        if name in given:
            try:
                check_attribute(entry.type, field, given[name])
            except UserError as error:
                yield Diagnostic(error.diagnostics[0].message, where, hint=error.diagnostics[0].hint)
        elif field.required:
            yield Diagnostic(f"operator {entry.type} needs the attribute '{name}'", where, hint=field.doc)


def _slots(
    operator: Operator, side: str, known: Mapping[str, Slot], given: Mapping[str, Sequence[str]]
) -> Iterator[Diagnostic]:
    type = operator.type
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known, f"it has {', '.join(known) or 'none'}")
            yield Diagnostic(f"operator {type} has no {side} '{name}'", operator.location, hint=hint)
    for name, slot in known.items():
        names = given.get(name, ())
        if not names and not slot.optional and side == "input":
            yield Diagnostic(f"operator {type} needs the input '{name}'", operator.location, hint=slot.doc)
        elif len(names) > 1 and not slot.many:
            message = f"the {side} '{name}' of operator {type} is one variable, not {len(names)}"
            yield Diagnostic(message, operator.location, hint=slot.doc)
