# SPDX-License-Identifier: Apache-2.0
"""The random cases of bench/sweep.py: one op of ONNX each, with the same in NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, helper

Array = np.ndarray[Any, Any]
Random = np.random.Generator


@dataclass
class Case:
    """Nodes over inputs and constants; functions of the inputs: of arrays, and of torch and tensors."""

    family: str
    what: str
    nodes: list[NodeProto]
    inputs: dict[str, Array]
    numpy: Callable[..., Any] | None = None
    torch: Callable[..., Any] | None = None
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    outputs: tuple[str, ...] = ("y",)
    tolerance: float = 1e-4


def shape(random: Random, rank: int, most: int = 1 << 18, least: int = 1 << 8) -> tuple[int, ...]:
    """So many lengths, some of them 1, with a product between the two."""
    while True:
        drawn = np.exp(random.uniform(0, np.log(600), rank)).astype(int)
        if least <= drawn.prod() <= most:
            return tuple(int(n) for n in drawn)


def array(random: Random, sizes: Sequence[int], dtype: Any = np.float32) -> Array:
    if np.dtype(dtype).kind in "iu":
        return random.integers(0, 100, sizes).astype(dtype)
    return random.standard_normal(sizes).astype(dtype)


def numbers(*values: int) -> Array:
    return np.array(values, np.int64)


def pick(random: Random, items: Sequence[Any]) -> Any:
    return items[int(random.integers(len(items)))]


def seen(case: Case, random: Random) -> Case:
    """The case with its first input seen through a transposition, sometimes."""
    (name, x), *_ = case.inputs.items()
    if x.ndim < 2 or random.random() < 0.75:
        return case
    order = [int(d) for d in random.permutation(x.ndim)]
    back = [order.index(d) for d in range(x.ndim)]
    for node in case.nodes:
        for i, read in enumerate(node.input):
            if read == name:
                node.input[i] = "seen"
    case.nodes.insert(0, helper.make_node("Transpose", [name], ["seen"], perm=back))
    case.inputs[name] = np.ascontiguousarray(x.transpose(order))
    plain, tensors = case.numpy, case.torch
    if plain is not None:
        case.numpy = lambda x, *rest: plain(x.transpose(back), *rest)
    if tensors is not None:
        case.torch = lambda torch, x, *rest: tensors(torch, x.permute(back), *rest)
    case.what += f", stored as {order}"
    return case


UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    "Abs": (np.abs, "abs"), "Neg": (np.negative, "neg"), "Exp": (np.exp, "exp"), "Tanh": (np.tanh, "tanh"),
    "Floor": (np.floor, "floor"), "Sin": (np.sin, "sin"), "Sqrt": (lambda x: np.sqrt(x), "sqrt"),
    "Relu": (lambda x: np.maximum(x, 0), "relu"), "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), "sigmoid"),
}  # fmt: skip
BINARY: dict[str, tuple[Callable[..., Any], str]] = {
    "Add": (np.add, "add"), "Sub": (np.subtract, "sub"), "Mul": (np.multiply, "mul"), "Div": (np.divide, "div"),
    "Max": (np.maximum, "maximum"), "Min": (np.minimum, "minimum"),
}  # fmt: skip


def elementwise(random: Random) -> Case:
    sizes, dtype = (
        shape(random, int(random.integers(1, 5))),
        pick(random, [np.float32, np.float32, np.float64]),
    )
    x = array(random, sizes, dtype)
    if random.random() < 0.5:
        name = pick(random, [*UNARY])
        plain, tensors = UNARY[name]
        if name == "Sqrt":
            x = np.abs(x)
        nodes, inputs, what = [helper.make_node(name, ["x"], ["y"])], {"x": x}, f"{name} {sizes}"
    else:
        name = pick(random, [*BINARY])
        plain, tensors = BINARY[name]
        other = tuple(1 if random.random() < 0.3 else n for n in sizes)
        nodes = [helper.make_node(name, ["x", "z"], ["y"])]
        inputs, what = {"x": x, "z": array(random, other, dtype) + dtype(3)}, f"{name} {sizes} {other}"
    return Case(
        "elementwise", f"{what} {x.dtype}", nodes, inputs, plain, lambda t, *a: getattr(t, tensors)(*a)
    )


def reduction(random: Random) -> Case:
    sizes = shape(random, int(random.integers(1, 5)))
    count = int(random.integers(1, len(sizes) + 1))
    axes = tuple(sorted(int(d) for d in random.choice(len(sizes), count, replace=False)))
    name = pick(random, ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
    plain = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min}[name]
    tensors = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin"}[name]
    return Case(
        "reduction", f"{name} {sizes} over {axes}",
        [helper.make_node(name, ["x", "axes"], ["y"], keepdims=0)], {"x": array(random, sizes)},
        lambda x: plain(x, axis=axes), lambda t, x: getattr(t, tensors)(x, dim=axes),
        {"axes": numbers(*axes)}, tolerance=1e-3,
    )  # fmt: skip


def product(random: Random) -> Case:
    m, k, n = (int(v) for v in np.exp(random.uniform(0, np.log(700), 3)))
    batch = (int(random.integers(2, 9)),) if random.random() < 0.3 and m * k * n < 1 << 22 else ()
    a, b = array(random, (*batch, m, k)), array(random, (*batch, k, n))
    known = random.random() < 0.5 and not batch
    inputs, constants = ({"x": a}, {"w": b}) if known else ({"x": a, "w": b}, {})

    def plain(x: Array, w: Array = b) -> Any:
        return x @ w

    def tensors(torch: Any, x: Any, w: Any = None) -> Any:
        return torch.matmul(x, torch.from_numpy(b) if w is None else w)

    what = f"MatMul {a.shape} {b.shape}{' known' * known}"
    return Case(
        "product",
        what,
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        inputs,
        plain,
        tensors,
        constants,
        tolerance=1e-3,
    )


def convolution(random: Random) -> Case:
    rank = pick(random, [1, 2, 2, 2])
    while True:
        group = pick(random, [1, 1, 1, 2, 0])  # 0: depthwise
        channels, out = (int(v) for v in np.exp(random.uniform(0, np.log(160), 2)))
        group = channels if group == 0 else group
        channels, out = max(1, channels // group) * group, max(1, out // group) * group
        size = [int(v) for v in np.exp(random.uniform(np.log(5), np.log(70), rank))]
        taps = [int(random.integers(1, 6)) for _ in size]
        stride, dilation = pick(random, [1, 1, 2]), pick(random, [1, 1, 1, 2])
        work = np.prod(size) * np.prod(taps) * channels * out / group
        if all((t - 1) * dilation < n for t, n in zip(taps, size, strict=True)) and 1e5 < work < 3e7:
            break
    pad = [int(random.integers(0, (t - 1) * dilation // 2 + 1)) for t in taps]
    x = array(random, (pick(random, [1, 1, 2]), channels, *size))
    w = array(random, (out, channels // group, *taps))
    attributes = {"strides": [stride] * rank, "dilations": [dilation] * rank, "pads": pad * 2, "group": group}

    def tensors(torch: Any, x: Any) -> Any:
        call = getattr(torch.nn.functional, f"conv{rank}d")
        return call(x, torch.from_numpy(w), None, stride, pad, dilation, group)

    what = f"Conv {x.shape} {w.shape} stride {stride} dilation {dilation} pads {pad} group {group}"
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    return Case("convolution", what, [node], {"x": x}, None, tensors, {"w": w}, tolerance=1e-3)


def move(random: Random) -> Case:
    dtype = pick(random, [np.float32, np.float32, np.int32, np.int8, np.float64])
    rank = int(random.integers(2, 5))
    sizes = shape(random, rank)
    x, kind = array(random, sizes, dtype), pick(random, ["Transpose", "Slice", "Pad", "Concat", "Tile"])
    what, constants, inputs = f"{kind} {sizes} {x.dtype}", {}, {"x": x}
    if kind == "Transpose":
        order = [int(d) for d in random.permutation(rank)]
        node = helper.make_node(kind, ["x"], ["y"], perm=order)
        return Case(
            "move",
            f"{what} {order}",
            [node],
            inputs,
            lambda x: np.ascontiguousarray(x.transpose(order)),
            lambda t, x: x.permute(order).contiguous(),
        )
    if kind == "Slice":
        steps = [pick(random, [1, 1, 2, -1]) for _ in sizes]
        starts = [
            int(random.integers(0, n // 2 + 1)) if s > 0 else n - 1 for n, s in zip(sizes, steps, strict=True)
        ]
        ends = [n if s > 0 else -n - 1 for n, s in zip(sizes, steps, strict=True)]
        where = tuple(slice(b, None, s) for b, s in zip(starts, steps, strict=True))
        constants = {
            "b": numbers(*starts),
            "e": numbers(*ends),
            "a": numbers(*range(rank)),
            "s": numbers(*steps),
        }
        node = helper.make_node(kind, ["x", "b", "e", "a", "s"], ["y"])
        tensors = (lambda t, x: x[where].contiguous()) if min(steps) > 0 else None
        return Case(
            "move",
            f"{what} from {starts} step {steps}",
            [node],
            inputs,
            lambda x: np.ascontiguousarray(x[where]),
            tensors,
            constants,
        )
    if kind == "Pad":
        low, high = ([int(random.integers(0, min(n, 4))) for n in sizes] for _ in range(2))
        mode = pick(random, ["constant", "reflect", "edge"])
        constants = {"p": numbers(*low, *high)}
        node = helper.make_node(kind, ["x", "p"], ["y"], mode=mode)
        return Case(
            "move",
            f"{what} {mode} {low} {high}",
            [node],
            inputs,
            lambda x: np.pad(x, [*zip(low, high, strict=True)], mode),
            None,
            constants,
        )
    if kind == "Concat":
        axis = int(random.integers(rank))
        other = tuple(max(1, n // 2) if d == axis else n for d, n in enumerate(sizes))
        node = helper.make_node(kind, ["x", "z"], ["y"], axis=axis)
        return Case(
            "move",
            f"{what} {other} axis {axis}",
            [node],
            {"x": x, "z": array(random, other, dtype)},
            lambda *a: np.concatenate(a, axis),
            lambda t, *a: t.cat(a, axis),
        )
    repeats = [pick(random, [1, 1, 2]) for _ in sizes]
    node = helper.make_node(kind, ["x", "r"], ["y"])
    return Case(
        "move",
        f"{what} {repeats}",
        [node],
        inputs,
        lambda x: np.tile(x, repeats),
        lambda t, x: x.tile(repeats),
        {"r": numbers(*repeats)},
    )


def index(random: Random) -> Case:
    sizes = shape(random, int(random.integers(1, 4)))
    axis = int(random.integers(len(sizes)))
    x, kind = array(random, sizes), pick(random, ["Gather", "GatherElements", "ScatterElements"])
    what = f"{kind} {sizes} axis {axis}"
    count = int(np.exp(random.uniform(0, np.log(2 * sizes[axis] + 1))))
    if kind == "Gather":
        at = random.integers(0, sizes[axis], count)
        node = helper.make_node(kind, ["x", "i"], ["y"], axis=axis)
        return Case(
            "index",
            f"{what} count {count}",
            [node],
            {"x": x, "i": at},
            lambda x, i: np.take(x, i, axis),
            lambda t, x, i: t.index_select(x, axis, i),
        )
    few = tuple(max(1, count % (n + 1)) if d == axis else n for d, n in enumerate(sizes))
    at = random.permuted(
        np.broadcast_to(
            np.arange(sizes[axis]).reshape([-1 if d == axis else 1 for d in range(len(sizes))]), sizes
        ),
        axis=axis,
    )
    at = np.ascontiguousarray(at[tuple(slice(n) for n in few)]).astype(np.int64)
    if kind == "GatherElements":
        node = helper.make_node(kind, ["x", "i"], ["y"], axis=axis)
        return Case(
            "index",
            f"{what} {few}",
            [node],
            {"x": x, "i": at},
            lambda x, i: np.take_along_axis(x, i, axis),
            lambda t, x, i: t.gather(x, axis, i),
        )
    node = helper.make_node(kind, ["x", "i", "u"], ["y"], axis=axis)

    def plain(x: Array, i: Array, u: Array) -> Array:
        made = x.copy()
        np.put_along_axis(made, i, u, axis)
        return made

    inputs = {"x": x, "i": at, "u": array(random, few)}
    return Case("index", f"{what} {few}", [node], inputs, plain, lambda t, x, i, u: t.scatter(x, axis, i, u))


def normalization(random: Random) -> Case:
    sizes = shape(random, int(random.integers(2, 4)))
    x, kind = array(random, sizes), pick(random, ["Softmax", "LogSoftmax", "LayerNormalization"])
    if kind == "LayerNormalization":
        scale = array(random, sizes[-1:])
        node = helper.make_node(kind, ["x", "s"], ["y"], axis=-1)
        tensors = lambda t, x: t.nn.functional.layer_norm(x, sizes[-1:], t.from_numpy(scale))  # noqa: E731
        return Case(
            "normalization", f"{kind} {sizes}", [node], {"x": x}, None, tensors, {"s": scale}, tolerance=1e-3
        )
    axis = int(random.integers(len(sizes)))
    node = helper.make_node(kind, ["x"], ["y"], axis=axis)
    name = "softmax" if kind == "Softmax" else "log_softmax"
    return Case(
        "normalization",
        f"{kind} {sizes} axis {axis}",
        [node],
        {"x": x},
        None,
        lambda t, x: getattr(t, name)(x, axis),
    )


def pooling(random: Random) -> Case:
    channels, kind = int(np.exp(random.uniform(0, np.log(100)))), pick(random, ["MaxPool", "AveragePool"])
    size, taps = [int(random.integers(6, 60)) for _ in range(2)], int(random.integers(2, 5))
    stride = int(random.integers(1, taps + 1))
    x = array(random, (1, channels, *size))
    node = helper.make_node(kind, ["x"], ["y"], kernel_shape=[taps] * 2, strides=[stride] * 2)
    name = "max_pool2d" if kind == "MaxPool" else "avg_pool2d"
    return Case(
        "pooling",
        f"{kind} {x.shape} {taps} stride {stride}",
        [node],
        {"x": x},
        None,
        lambda t, x: getattr(t.nn.functional, name)(x, taps, stride),
    )


def order(random: Random) -> Case:
    sizes = shape(random, int(random.integers(1, 4)))
    axis, kind = int(random.integers(len(sizes))), pick(random, ["TopK", "ArgMax", "CumSum"])
    x, what = array(random, sizes), f"{kind} {sizes} axis {axis}"
    if kind == "TopK":
        k = int(np.exp(random.uniform(0, np.log(sizes[axis] + 0.5))))
        node = helper.make_node(kind, ["x", "k"], ["y", "i"], axis=axis)
        return Case(
            "order",
            f"{what} k {k}",
            [node],
            {"x": x},
            None,
            lambda t, x: t.topk(x, k, axis),
            {"k": numbers(k)},
            outputs=("y", "i"),
        )
    if kind == "ArgMax":
        node = helper.make_node(kind, ["x"], ["y"], axis=axis, keepdims=0)
        return Case("order", what, [node], {"x": x}, lambda x: x.argmax(axis), lambda t, x: t.argmax(x, axis))
    node = helper.make_node(kind, ["x", "a"], ["y"])
    return Case(
        "order",
        what,
        [node],
        {"x": x},
        lambda x: x.cumsum(axis),
        lambda t, x: t.cumsum(x, axis),
        {"a": np.array(axis, np.int64)},
        tolerance=1e-3,
    )


_DRAWN: dict[str, Callable[[Random], Case]] = {
    "elementwise": elementwise, "reduction": reduction, "product": product, "convolution": convolution, "move": move,
    "index": index, "normalization": normalization, "pooling": pooling, "order": order,
}  # fmt: skip
FAMILIES = (*_DRAWN,)


def draw(random: Random, families: Sequence[str]) -> Case:
    """A case of one of the families."""
    return seen(_DRAWN[pick(random, families)](random), random)
