# SPDX-License-Identifier: Apache-2.0
"""A failing program made smaller: ops, results and arguments go as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from growing import SPECIAL

from ngmlir.ir.core import Block, Module, Op, Value, count_uses, module
from ngmlir.ir.verifier import verify
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.words import from_text, to_text
from ngmlir.rewrite.sweep import sweep_op


def shrunk(of: Module, fails: Callable[[Module], bool]) -> Module:
    """The smallest program found that `fails` too, by leaving out one thing after another."""
    again = True
    while again:
        again = False
        for smaller in _smaller(of):
            if not verify(smaller) and fails(smaller):
                of, again = smaller, True
                break
    return of


def shrunk_text(text: str, fails: Callable[[str], bool]) -> str:
    """The same of text that need be no program: lines go, many at a time, then few."""
    lines = text.split("\n")
    size = len(lines) // 2
    while size:
        at = 0
        while at < len(lines):
            fewer = lines[:at] + lines[at + size :]
            if fewer and fails("\n".join(fewer)):
                lines = fewer
            else:
                at += size
        size //= 2
    return "\n".join(lines)


def _smaller(of: Module) -> Iterator[Module]:
    """Programs with one thing less."""
    (main,) = of.ops
    *ops, end = main.block.ops
    for i in range(len(end.operands)):
        if len(end.operands) > 1:
            yield _tidied(main.block.args, ops, [*end.operands[:i], *end.operands[i + 1 :]])
    if "ng.tied" in main.attributes:
        yield _tidied(main.block.args, ops, end.operands)
    # The program may end earlier, and an op may be left out, whose result is then something else of its type.
    for op in ops:
        if op.results and op is not ops[-1]:
            yield _tidied(main.block.args, ops, op.results[:1])
    for number in reversed(range(sum(1 for op in main.walk() if op.results))):
        for prefix in ("", "a", SPECIAL):
            made = _without(main, number, prefix)
            if made is not None:
                yield made


def _tidied(arguments: Sequence[Value], ops: Sequence[Op], results: Sequence[Value]) -> Module:
    """A program without what nothing uses, whose results overwrite no arguments."""
    block = Block()
    block.ops = [*ops, func.ReturnOp(results)]
    for op in reversed(ops):
        uses = count_uses(block)
        if op.results and not any(uses.get(r) for r in op.results):
            block.ops.remove(op)
    uses = count_uses(block)
    block.args = tuple(a for a in arguments if uses.get(a))
    # Read anew, so that every value knows its place.
    return from_text(to_text(module([function("main", block)])))


def _without(main: Op, number: int, prefix: str) -> Module | None:
    """The program without one op: in the place of its results stand operands of it, or new arguments with names of
    this prefix. None where there are no such operands."""
    taken = {int(a.name[1:]) for a in main.block.args if a.name[1:].isdigit()}
    free = (i for i in range(len(taken) + 100) if i not in taken)
    arguments: list[Value] = []
    left = number

    def rule(op: Op, builder: Builder) -> Sequence[Value] | None:
        nonlocal left
        left -= bool(op.results)
        if left != -1 or not op.results:
            return None
        if not prefix:
            found = [next((v for v in op.operands if v.type is r.type), None) for r in op.results]
            return [v for v in found if v is not None] if None not in found else None
        arguments.extend(Value(r.type, None, 0, f"{prefix}{next(free)}") for r in op.results)
        return arguments

    made = sweep_op(main, rule)
    *ops, end = made.block.ops
    return _tidied((*main.block.args, *arguments), ops, end.operands) if made is not main else None
