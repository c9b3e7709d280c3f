# SPDX-License-Identifier: Apache-2.0
"""What tests of programs share: a program written op by op, and random ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ngmlir.ir.attributes import DictAttr, boolean
from ngmlir.ir.types import TensorType, Type, f32
from ngmlir.programs.attributes import completed
from ngmlir.programs.catalogue import REGISTRY
from ngmlir.programs.descriptions import BlockView, Operator, Program
from ngmlir.programs.infer import infer_types

TRAINED = DictAttr((("trainable", boolean(True)),))


def typed(*shape: int, element: Type = f32) -> TensorType:
    return TensorType(shape, element)


def appended(
    block: BlockView,
    type: str,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
    **attributes: Any,
) -> Operator:
    """Appends an operator; declares what it writes where nothing has."""
    for name in (n for names in outputs.values() for n in names):
        if block.find(name) is None:
            block.declare(name)
    entry = REGISTRY.get(type).entry
    made = block.insert(len(block.operators), type, inputs, outputs, completed(entry, attributes))
    infer_types(made)
    return made


UNARY = ("relu", "tanh", "sigmoid", "square", "softmax")
BINARY = ("elementwise_add", "elementwise_mul", "elementwise_sub", "elementwise_max")


def random_program(seed: int, operators: int = 12) -> Program:
    """A program of that many operators on three parameters and a fed variable."""
    drawn = random.Random(seed)
    program = Program()
    block = program.top
    block.declare("x", typed(-1, 3), flags=["data", "stop_gradient"])
    names = ["x"]
    for i in range(3):
        block.declare(f"w{i}", typed(3), flags=["persistable"], parameter=TRAINED)
    for i in range(operators):
        out = f"v{i}@odd name" if drawn.random() < 0.1 else f"v{i}"
        left, right = drawn.choice(names), drawn.choice([*names, "w0", "w1", "w2"])
        if drawn.random() < 0.5:
            appended(block, drawn.choice(UNARY), {"X": [left]}, {"Out": [out]})
        else:
            appended(block, drawn.choice(BINARY), {"X": [left], "Y": [right]}, {"Out": [out]})
        names.append(out)
    return program
