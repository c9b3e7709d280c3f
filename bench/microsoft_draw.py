# SPDX-License-Identifier: Apache-2.0
"""Random nodes of the domain com.microsoft: how cases are drawn, and the models that hold one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

Array: TypeAlias = "np.ndarray[Any, Any]"
MICROSOFT = "com.microsoft"
#: Lengths: one, and primes.
LENGTHS = (1, 2, 3, 5, 7)


@dataclass
class Case:
    """One node: its inputs (None is absent), its attributes, how many outputs are asked for."""

    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[int] = (0,)
    domain: str = MICROSOFT
    #: Integers of the results may differ by so much from those of ONNX Runtime.
    steps: int = 0
    #: What floats of the results may differ by, of the greatest one.
    tolerance: float = 2e-5
    #: Inputs that have to be weights of the model, and those that may not.
    held: frozenset[int] = frozenset()
    fed: frozenset[int] = frozenset()
    #: The type of ONNX that a result is cast to, for elements that arrays of ONNX Runtime cannot hold; 0 where it is not.
    widened: int = 0
    #: The types of outputs that are not known from those of inputs.
    types: dict[int, int] = field(default_factory=dict)
    #: The places of each output that mean anything; all, where it is not there.
    valid: dict[int, Array] = field(default_factory=dict)


class Draw:
    """Random choices."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def pick(self, *items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def maybe(self, make: Callable[[], Any], share: float = 0.5) -> Any:
        return make() if self.chance(share) else None

    def length(self) -> int:
        return self.pick(*LENGTHS)

    def shape(self, least: int = 1, most: int = 4) -> tuple[int, ...]:
        return tuple(self.length() for _ in range(int(self.rng.integers(least, most + 1))))

    def floats(self, *shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Array:
        return (self.rng.normal(size=shape) * scale).astype(dtype)

    def codes(self, *shape: int, dtype: Any = np.uint8) -> Array:
        info = (
            ml_dtypes.iinfo(dtype)
            if np.dtype(dtype).itemsize == 1 and np.dtype(dtype).kind == "V"
            else np.iinfo(dtype)
        )
        return self.rng.integers(int(info.min), int(info.max) + 1, shape).astype(dtype)

    def byte(self) -> Any:
        return self.pick(np.uint8, np.int8)

    def real(self) -> Any:
        """A scale."""
        return np.float32(2.0 ** self.rng.uniform(-6, -1))

    def scale(self, *shape: int) -> Array:
        return (2.0 ** self.rng.uniform(-6, -1, shape)).astype(np.float32)

    def zero(self, dtype: Any, *shape: int) -> Array:
        """Zero points, near the middle, sometimes at an end."""
        info = np.iinfo(dtype)
        if self.chance(0.2):
            return np.full(shape, self.pick(info.min, info.max), dtype)
        middle = (int(info.min) + int(info.max) + 1) // 2
        return (middle + self.rng.integers(-20, 21, shape)).astype(dtype)


Drawn: TypeAlias = Callable[[Draw], Case]
CASES: dict[str, Drawn] = {}


def case(*names: str) -> Callable[[Drawn], Drawn]:
    """Names the operators that a function draws nodes of."""

    def add(drawn: Drawn) -> Drawn:
        for name in names:
            CASES[name] = drawn
        return drawn

    return add


def drawn(op: str, seed: int) -> Case:
    """The node of an operator with this seed."""
    return CASES[op](Draw(seed * 1009 + sum(map(ord, op))))


def model_of(op: str, made: Case, weights: frozenset[int]) -> tuple[ModelProto, dict[str, Array]]:
    """A model of one node, some of whose inputs are weights, and what it is fed."""
    names = ["" if a is None else f"in{i}" for i, a in enumerate(made.inputs)]
    given = {f"in{i}": np.asarray(a) for i, a in enumerate(made.inputs) if a is not None}
    held = [numpy_helper.from_array(given[f"in{i}"], f"in{i}") for i in sorted(weights) if f"in{i}" in given]
    fed = {name: a for name, a in given.items() if int(name[2:]) not in weights}
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in fed.items()
    ]
    outputs = [f"out{i}" if i in made.outputs else "" for i in range(max(made.outputs) + 1)]
    node = helper.make_node(
        op.rpartition(".")[2], names, outputs, domain=made.domain, name=f"the_{op}", **made.attributes
    )
    nodes = [node]
    if made.widened:
        node.output[0] = "short"
        nodes.append(helper.make_node("Cast", ["short"], ["out0"], to=made.widened))
    graph = helper.make_graph(nodes, "g", ports, [_port(made, i) for i in made.outputs], held)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), fed


def _port(made: Case, output: int) -> ValueInfoProto:
    if output in made.types:
        return helper.make_tensor_value_info(f"out{output}", made.types[output], None)
    return ValueInfoProto(name=f"out{output}")


def chosen_weights(made: Case, seed: int) -> frozenset[int]:
    """Inputs that are weights of the model: each may be, where either is right."""
    rng = np.random.default_rng(seed)
    present = [i for i, a in enumerate(made.inputs) if a is not None]
    some = {i for i in present if rng.random() < 0.5} | made.held
    free = [i for i in present if i not in made.held]
    # A model that computes nothing while it runs tells nothing of compiled programs.
    if free and set(present) <= some - made.fed:
        some.discard(free[0])
    return frozenset(some - made.fed)


def difference(made: Case, got: Sequence[Array], expected: Sequence[Array]) -> str:
    """'' where the results are those that were expected, else what differs."""
    for i, a, b in zip(made.outputs, got, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {i}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        valid = np.broadcast_to(made.valid.get(i, np.array(True)), a.shape)
        if a.dtype.kind in "iub":
            close = np.abs(a.astype(np.int64) - b.astype(np.int64)) <= made.steps
        else:
            x, y = a.astype(np.float64), b.astype(np.float64)
            size = np.abs(y[np.isfinite(y) & valid]).max(initial=2e-2)
            room = max(
                made.tolerance,
                2e-3 if a.dtype == np.float16 else 2e-2 if a.dtype == ml_dtypes.bfloat16 else 0,
            )
            with np.errstate(all="ignore"):
                close = np.isclose(x, y, rtol=room, atol=room * size, equal_nan=True)
        wrong = ~close & valid
        if wrong.any():
            return f"output {i}: {a[wrong][:4]} instead of {b[wrong][:4]} ({wrong.sum()} of {a.size})"
    return ""
