# SPDX-License-Identifier: Apache-2.0
"""Lengths that are for the arrays of a call to say: one program for all, where rows are computed apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...ir.core import Module, Op
from ...ir.structure import structure
from ...rewrite.contracts import contract
from ...rewrite.remarks import remark
from ...support.diagnostics import Diagnostic, Limit, UserError
from ...support.rows import Length
from ...support.target import Target
from .inline import inlined
from .sizing.blocks import Blocks, blocks
from .sizing.known import open_lengths, sampled_lengths, with_lengths
from .sizing.resized import Refused

#: The topic of its remarks.
TOPIC = "sizes"

#: Lengths that stand for those which are not known while it is decided what depends on them: no shape of a program that
#: was written has them by chance, and what is different for two of them is different for others.
_STAND_INS = (1_000_003, 1_000_033, 1_000_037, 1_000_039)


@contract(needs=("named", "plain"))
def sizes(module: Module, target: Target) -> Module:
    """Turns each function with a dynamic length (`?`) into functions for blocks of rows, if each row of its results
    depends only on the same row of the arguments.

    A length that types tell may be open too: `{ng.open = 0 : i64}` behind an argument says that dimension 0 has any number of
    rows, of which this is one. Calls of any length are then runs of blocks: of the largest, and of one size that fits what is left over. So one
    program serves all lengths, and needs the memory of a block besides arguments and results. How many rows a block has
    follows from how much there is to do for each, and from the machine. Where an op computes across rows the function
    stays as it is, for programs that are made for each length. `--remark=sizes` tells which it is, and why.

    Before:
        func.func @main(%x: tensor<?x4096xf32>) -> tensor<?xf32> {
          %0 = ng.max %x axes [1] : (tensor<?x4096xf32>) -> tensor<?xf32>
          return %0 : tensor<?xf32>
        }
    After:
        func.func @main_rows_8(%x: tensor<8x4096xf32>) -> tensor<8xf32> {
          %0 = ng.max %x axes [1] : (tensor<8x4096xf32>) -> tensor<8xf32>
          func.return %0 : tensor<8xf32>
        }
        func.func @main_rows_1(%x: tensor<1x4096xf32>) -> tensor<1xf32> {
          %0 = ng.max %x axes [1] : (tensor<1x4096xf32>) -> tensor<1xf32>
          func.return %0 : tensor<1xf32>
        }
    """
    if not any(_is_open(op) for op in module.ops):
        return module
    made: list[Op] = []
    for op in inlined(module).ops:
        blocks = only_blocks(decisions(op, target)) if _is_open(op) else None
        made += [op] if blocks is None else blocks.functions
    return module.with_ops(made)


@dataclass(frozen=True)
class Decision:
    """What is made of an open length of a function: blocks for any number of rows, or a program for each length, and why."""

    function: str
    length: Length
    blocks: Blocks | None
    why: Diagnostic

    def tell(self) -> None:
        """To those who listen to remarks."""
        remark(TOPIC, f"@{self.function}: along {self.length.name} {self.why.message}", self.why.location)


def decisions(main: Op, target: Target) -> list[Decision]:
    """What is made of each open length of a function."""
    sampled, open_ = sampled_lengths(main), open_lengths(main)
    return [
        *[decision(main, length, target) for length in sampled],
        *[
            _decided(main, length, lambda length=length: _for_any(main, open_, length, target))
            for length in open_
        ],
    ]


def decision(main: Op, length: Length, target: Target) -> Decision:
    """What is made of a length of a function that is one of many: those of `length.places`, whatever the types say."""
    return _decided(main, length, lambda: blocks(main, _rows_of(main, length), target))


def only_blocks(found: Sequence[Decision]) -> Blocks | None:
    """The blocks of a function, for all lengths of the one that it leaves open. None where there are none; of several lengths, those of
    the others are known when a program is made."""
    for each in found:
        each.tell()
    return found[0].blocks if len(found) == 1 else None


def blocks_for_any(of: Module, symbol: str, target: Target) -> Blocks | None:
    """The same of a function that calls others. None also where there are none, but the function can be compiled for the lengths
    that its types say. Limit where they say none."""
    main = inlined(of).lookup(symbol)
    assert main is not None
    found = decisions(main, target)
    blocks = only_blocks(found)
    if blocks is None and open_lengths(main):
        which = next((each for each in found if each.blocks is None), found[-1])
        message = f"@{symbol} needs along {which.length.name} {which.why.message}"
        hint = "ng.compile(ng.load(path)) and ngmlir run compile a program for each length"
        raise Limit(Diagnostic(message, which.why.location, hint=hint))
    return blocks


def _decided(main: Op, length: Length, make: Callable[[], Blocks]) -> Decision:
    try:
        found = make()
    except Refused as refused:
        reason = refused.diagnostic
        why = Diagnostic(f"a program for each length: {reason.message}", reason.location)
        return Decision(main.symbol, length, None, why)
    counts = ", ".join(map(str, found.signature.blocks))
    why = Diagnostic(f"one program for all lengths, in blocks of {counts}", main.location)
    return Decision(main.symbol, length, found, why)


def _rows_of(main: Op, length: Length) -> Mapping[int, int]:
    """Which dimension of which arguments counts the rows."""
    places = dict(length.places)
    if len(places) < len(length.places):
        raise Refused(f"an argument has {length.name} twice", main.location)
    return places


def _for_any(main: Op, lengths: Sequence[Length], length: Length, target: Target) -> Blocks:
    """Blocks along one length. Raises Refused where there are none that serve others too."""
    places = _rows_of(main, length)
    made: list[Blocks] = []
    for first in (0, 1):
        known = {
            place: _STAND_INS[(first if each is length else i + 2) % len(_STAND_INS)]
            for i, each in enumerate(lengths)
            for place in each.places
        }
        try:
            sample = with_lengths(main, known)
        except (UserError, Limit) as error:
            what = error.diagnostics[0]
            raise Refused(what.message, what.location) from None
        made.append(blocks(sample, places, target))
    if any(structure(a) != structure(b) for a, b in zip(made[0].functions, made[1].functions, strict=True)):
        raise Refused(f"the result of @{main.symbol} depends on the length itself", main.location)
    return made[0]


def _is_open(op: Op) -> bool:
    there = op.name == "func.func" and bool(op.regions[0].blocks)
    return there and bool(open_lengths(op) or sampled_lengths(op))
