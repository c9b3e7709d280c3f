# SPDX-License-Identifier: Apache-2.0
"""Every op that has a value by itself, as the example of its entry applies it, gives on each target what its reference says.

Its operands are ordinary numbers of its domain, and special ones where the domain has them. Nothing here names an op.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from comparing import assert_close, assert_same_bits, assert_within
from slopes import Array, Example, examples
from tables import compiled

from ngmlir.ir.core import Block, Module, module
from ngmlir.ir.definition import Domain
from ngmlir.ir.types import TensorType, Type, element_type
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.interpreter import run
from ngmlir.testing.numbers import ordinary_numbers, some_special

Draw = Callable[[Domain, Type, np.random.Generator], Array]
TARGETS = {"cpu": "cpu", "cuda-sim": "nvptx"}
#: Those of numbers without a shape live in kernels only.
EXAMPLES = [e for e in examples() if isinstance(e.op.results[0].type, TensorType)]


def program(example: Example) -> Module:
    op = example.op
    block = Block([o.type for o in op.operands])
    builder = Builder(block)
    results = builder.build(type(op), block.args, example.attributes, types=[r.type for r in op.results])
    builder.end(func.ReturnOp, *results)
    return module([function("main", block)])


def compare(example: Example, got: list[Array], wanted: list[Array]) -> None:
    """To the bit, within the stated error, or as nearly as a sum in another order is."""
    definition = example.op.definition
    assert definition is not None
    elementwise = "elementwise" in definition.traits
    if definition.errors:
        element = str(element_type(example.op.result.type))
        assert_within(got, wanted, int(dict(definition.errors)[element] + 0.5), str(example))
    elif elementwise or "view" in definition.traits:
        assert_same_bits(got, wanted, str(example))
    else:
        assert_close(got, wanted, what=str(example))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("draw", [ordinary_numbers, some_special], ids=["ordinary", "special"])
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_gives_the_reference_value(example: Example, draw: Draw, target: str) -> None:
    op, of = example.op, program(example)
    assert op.definition is not None
    groups = op.definition.operand_groups(len(op.operands)) or []
    domains = [operand.domain for operand, start, stop in groups for _ in range(start, stop)]
    for seed in range(3):
        random = np.random.default_rng(seed)
        arrays = [draw(d, o.type, random) for d, o in zip(domains, op.operands, strict=True)]
        compare(example, [*compiled(of, arrays, target)], [*run(of, *arrays)])
