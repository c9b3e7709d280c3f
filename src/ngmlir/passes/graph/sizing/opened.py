# SPDX-License-Identifier: Apache-2.0
"""A function with open lengths from a text module, specialized by names of lengths."""

from __future__ import annotations

from collections.abc import Mapping

from ....ir.core import Module, Op, module
from ....ir.types import shape_of
from ....ir.verifier import check
from ....support.diagnostics import Diagnostic, UserError
from ....support.length_text import identifier
from ....support.lengths import is_same
from ..inline import inlined
from .known import open_lengths, sampled_lengths, with_lengths
from .resized import Refused, with_rows


class Opened:
    """The function `symbol` of a module. Its open lengths are `?` in the types of its arguments and dimensions declared by
    `ng.open`; `names` maps the name of each length to (argument, dimension) pairs."""

    def __init__(self, of: Module, symbol: str):
        main = inlined(of).lookup(symbol)
        assert main is not None
        self.main: Op = main
        self.sampled = sampled_lengths(main)
        self.lengths = [*self.sampled, *open_lengths(main)]
        self.names = {identifier(length.name): length.places for length in self.lengths}

    def module(self, lengths: Mapping[str, int]) -> Module:
        """The function for these lengths. Raises UserError where there is none, Limit where the length of a value in the body does
        not follow from them."""
        return self.at({place: lengths[name] for name, places in self.names.items() for place in places})

    def at(self, known: Mapping[tuple[int, int], int]) -> Module:
        """The same for lengths given by (argument, dimension)."""
        made = module([with_lengths(self._of_rows(known), known)])
        check(made)
        return made

    def _of_rows(self, known: Mapping[tuple[int, int], int]) -> Op:
        """The function with these sizes in place of those that are only examples."""
        main = self.main
        for length in self.sampled:
            i, d = length.places[0]
            stated, wanted = shape_of(main.block.args[i].type)[d], known[i, d]
            if is_same(wanted, stated):
                continue
            try:
                main = with_rows(main, length, wanted)
            except Refused as refused:
                why = refused.diagnostic
                note = Diagnostic(why.message, why.location, "note")
                message = f"@{main.symbol} cannot be made for {wanted} along {length.name}, only for {stated}"
                hint = "write ? where a length is open, and what follows from it is found for each"
                raise UserError(Diagnostic(message, main.location, hint=hint, notes=(note,))) from None
        return main
