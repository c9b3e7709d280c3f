# SPDX-License-Identifier: Apache-2.0
"""Every op has the gradient that differences of its values have, once and twice, on the domain that its entry states.

Nothing here names an op: a new one is tested by being in `dialects/ng.ngd`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from slopes import Example, check_flat, check_slopes, examples

from ngmlir.ops import ng
from ngmlir.ops.gradients import GRADIENTS, NO_GRADIENT

EXAMPLES = [e for e in examples() if e.has_slopes]
WITH_RULE = [e for e in EXAMPLES if e.op.name in GRADIENTS]
FLAT = [e for e in EXAMPLES if "flat" in e.op.traits]


def test_every_op_says_how_its_gradient_is() -> None:
    """By a rule, or by a trait: `flat` or `stops`."""
    values = {n for n, op in ng.OPS.items() if op.definition and "pure" in op.definition.traits} - {
        "ng.yield"
    }
    assert values - {*GRADIENTS, *NO_GRADIENT} == set()
    assert set(GRADIENTS) & NO_GRADIENT == set()


@pytest.mark.parametrize("example", WITH_RULE, ids=str)
def test_gradient_is_what_differences_say(example: Example) -> None:
    example.check(check_slopes)


@pytest.mark.parametrize("example", FLAT, ids=str)
def test_flat_op_is_flat(example: Example) -> None:
    example.check(check_flat)


@pytest.mark.parametrize("example", WITH_RULE, ids=str)
def test_a_slightly_wrong_gradient_is_caught(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any op, so for the next one too."""
    rule = GRADIENTS[example.op.name]

    def wrong(v: Any, op: Any, delta: Any) -> Sequence[Any]:
        return [None if d is None else v.multiply(d, v.number_like(1.001, d)) for d in rule(v, op, delta)]

    monkeypatch.setitem(GRADIENTS, example.op.name, wrong)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        example.check(check_slopes, second=False)
