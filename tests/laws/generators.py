# SPDX-License-Identifier: Apache-2.0
"""Random well-typed programs, and arguments for them: what laws about text, passes and code are tested on.

    @given(modules())
    def test_a_pass_keeps_the_meaning(module):
        arrays = arguments(module)
        assert_close(run(my_pass(module, TARGET), *arrays), run(module, *arrays))

`modules(exact=True)` holds only programs whose results every correct compiler gives bit for bit. In the
others no step (a comparison, a rounding) turns the last bit of a sum into a different result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
from growing import ELEMENTS, Maker, argument_named
from hypothesis import strategies as st
from patterns import grow
from recipes import CONTROL, RECIPES

from ngmlir.decl.rule_text import Rule
from ngmlir.ir.core import Module
from ngmlir.ir.types import Type


def grown(
    number: Callable[[int, int], int],
    *,
    exact: bool = False,
    control: bool = True,
    tied: bool = True,
    large: bool = False,
    most_ops: int = 14,
    elements: Sequence[Type] = ELEMENTS,
    rule: Rule | None = None,
) -> Module:
    """A module with one function @main, in which `number(low, high)` decides; with `exact`, without rough values; with
    `large`, big enough to be split; with `rule`, with what a rule looks for at its end."""
    maker = Maker(number, exact, elements, large)
    recipes = [*RECIPES, *CONTROL] if control else RECIPES
    for _ in range(maker.number(most_ops // 2, most_ops) if maker.chance(2) else maker.number(1, most_ops)):
        recipe = maker.pick(recipes)
        recipe(maker)
        if maker.chance(5):
            recipe(maker)  # passes look for pairs
    if rule is not None:
        grow(maker, rule)
    return maker.finished(tied)


@st.composite
def modules(draw: Callable[[st.SearchStrategy[Any]], Any], **choices: Any) -> Module:
    """Programs as `grown` makes them, for laws."""
    return grown(lambda low, high: draw(st.integers(low, high)), **choices)


def drawn(seed: int, **choices: Any) -> Module:
    """The program of a seed."""
    return grown(Random(seed).randint, **choices)


def arguments(of: Module, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Values for the arguments of @main that keep what the generator assumed of them."""
    main = of.lookup("main")
    assert main is not None
    return [argument_named(a.name or "a", a.type, seed) for a in main.block.args]
