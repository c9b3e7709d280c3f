# SPDX-License-Identifier: Apache-2.0
"""Lengths that are known only at a call: one program for all of them, where rows are independent."""

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

#: Sample values of open lengths, by which the pass finds out what depends on the length: what differs for two of them does. No
#: program is expected to have them as sizes.
_STAND_INS = (1_000_003, 1_000_033, 1_000_037, 1_000_039)


@contract(needs=("named", "plain"))
def sizes(module: Module, target: Target) -> Module:
    """Turns each function with a dynamic length (`?`) into functions for blocks of rows, if each row of its results
    depends only on the same row of the arguments.

    A static length may be open too: `{ng.open = 0 : i64}` after an argument declares that the size of dimension 0 in its type is
    only an example. A call of any length runs blocks of the largest size, and blocks of one smaller size for the remainder. So one
    program serves all lengths, and needs only the memory of a block besides arguments and results. The block sizes follow
    from the work for each row and from the machine. If an op combines rows, the function stays as it is, and is compiled for each
    length. `--remark=sizes` prints which of the two, and why.

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
    """How an open length of a function is compiled: as blocks for any number of rows, or (None) as a program for each length; and
    why."""

    function: str
    length: Length
    blocks: Blocks | None
    why: Diagnostic

    def tell(self) -> None:
        """Emits the decision as a remark."""
        remark(TOPIC, f"@{self.function}: along {self.length.name} {self.why.message}", self.why.location)


def decisions(main: Op, target: Target) -> list[Decision]:
    """The decision for each open length of a function."""
    sampled, open_ = sampled_lengths(main), open_lengths(main)
    return [
        *[decision(main, length, target) for length in sampled],
        *[
            _decided(main, length, lambda length=length: _for_any(main, open_, length, target))
            for length in open_
        ],
    ]


def decision(main: Op, length: Length, target: Target) -> Decision:
    """The decision for a length whose size in the types is only an example: that of the dimensions `length.places`."""
    return _decided(main, length, lambda: blocks(main, _rows_of(main, length), target))


def only_blocks(found: Sequence[Decision]) -> Blocks | None:
    """The blocks of a function with one open length. None where there are none, or several lengths are open: the sizes of the
    others are known only when a program is compiled. Emits all decisions as remarks."""
    for each in found:
        each.tell()
    return found[0].blocks if len(found) == 1 else None


def blocks_for_any(of: Module, symbol: str, target: Target) -> Blocks | None:
    """The blocks of a function of a module, after inlining. None where there are none but its types are static. Raises Limit
    where they have open lengths."""
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
    """For each argument with rows the dimension that counts them."""
    places = dict(length.places)
    if len(places) < len(length.places):
        raise Refused(f"an argument has {length.name} twice", main.location)
    return places


def _for_any(main: Op, lengths: Sequence[Length], length: Length, target: Target) -> Blocks:
    """Blocks along one open length, which must be the same for any values of all. Raises Refused where they are not."""
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
