# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs of many operators, run here and by ONNX Runtime; prints seeds whose results differ.

python bench/onnx_random.py [--seeds 0:200] [--target numpy] [--nodes 8]
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

UNARY = (
    "Abs Neg Exp Sqrt Tanh Sigmoid Erf Relu Softplus Softsign Floor Ceil Round Sign Sin Cos Atan Sinh Reciprocal Identity "
    "LeakyRelu Elu Selu Celu HardSigmoid HardSwish ThresholdedRelu Mish Gelu"
).split()
BINARY = "Add Sub Mul Div Max Min Pow PRelu Mod".split()
REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceProd".split()


class Graph:
    """A graph that grows: each step adds nodes that fit a tensor that is there."""

    def __init__(self, seed: int, nodes: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: dict[str, np.ndarray[Any, Any]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.count = 0
        for _ in range(int(self.rng.integers(1, 3))):
            self.input(self.shape())
        while len(self.nodes) < nodes:
            self.step()

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def shape(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.rng.integers(1, 7, int(self.rng.integers(1, 5))))

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def input(self, shape: tuple[int, ...]) -> str:
        name = self.name()
        self.inputs[name] = self.rng.normal(size=shape).astype(np.float32)
        self.shapes[name] = shape
        return name

    def weight(self, array: Any) -> str:
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, *shape: int) -> str:
        return self.weight(self.rng.normal(size=shape).astype(np.float32))

    def add(
        self, op: str, inputs: list[str], shape: tuple[int, ...] | None, outputs: int = 1, **attributes: Any
    ) -> str:
        made = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, **attributes))
        if shape is not None and int(np.prod(shape)) <= 20000:
            self.shapes[made[0]] = tuple(int(d) for d in shape)
        return made[0]

    def step(self) -> None:
        x = self.pick(list(self.shapes))
        shape = self.shapes[x]
        kinds = [self.unary, self.binary, self.reduce, self.move, self.cut, self.norm, self.index, self.order]
        if len(shape) >= 3 and min(shape) > 0:
            kinds += [self.window, self.window, self.image]
        if len(shape) >= 2:
            kinds += [self.product, self.product]
        kinds += [self.integers, self.remainder, self.loop, self.branch]
        if min(shape) > 0:
            self.pick(kinds)(x, shape)

    def integers(self, x: str, shape: tuple[int, ...]) -> None:
        """Integers of the whole range and the ends of it, but what ONNX Runtime stops the process at."""
        kind = self.pick([np.int32, np.int64])
        info = np.iinfo(kind)
        a = self.rng.integers(info.min, info.max, shape, kind, endpoint=True)
        a = np.where(self.rng.random(shape) < 0.3, self.pick([info.min, info.max, 0, -1]), a).astype(kind)
        b = (
            self.rng.integers(info.min, info.max, shape, kind) >> self.rng.integers(0, info.bits, shape)
        ).astype(kind)
        b = np.where((b == 0) | (b == -1), kind(self.pick([3, info.min, info.max])), b).astype(kind)
        op = self.pick(["Mod", "Mod", "Div", "Max", "Min", "Add", "Mul", "Sub", "ReduceMean", "ReduceL2"])
        if op.startswith("Reduce"):
            axis = int(self.rng.integers(len(shape)))
            kept = tuple(1 if d == axis else n for d, n in enumerate(shape))
            small = self.weight((a >> (info.bits // 2 + 4)).astype(kind))
            made = self.add(op, [small, self.weight(np.array([axis], np.int64))], None)
            self.add("Cast", [made], kept, to=TensorProto.FLOAT)
            return
        more = {"fmod": int(self.rng.integers(2))} if op == "Mod" else {}
        made = self.add(op, [self.weight(a), self.weight(b)], None, **more)
        self.add("Cast", [made], shape, to=TensorProto.FLOAT)

    def remainder(self, x: str, shape: tuple[int, ...]) -> None:
        """Of numbers of all exponents; a share of the divisor, so that an error shows whatever the exponents are."""
        bits = self.rng.integers(0, 1 << 32, (2, *shape), np.uint64).astype(np.uint32)
        a, b = (np.where(np.isfinite(f) & (f != 0), f, 1.5).astype(np.float32) for f in bits.view(np.float32))
        names = [
            self.weight(a),
            self.weight(np.where(np.abs(b) < 1e-30, b * 1e8 + 1e-30, b).astype(np.float32)),
        ]
        made = self.add("Mod", names, None, fmod=1)
        self.add("Div", [made, names[1]], shape)

    def loop(self, x: str, shape: tuple[int, ...]) -> None:
        """Ends by a count, by a condition that is computed, or both; with or without a row for each iteration."""
        asks, each, least = (bool(self.rng.integers(2)) for _ in range(3))
        i, going, a, c, fi, b, s, n, on = (self.name() for _ in range(9))
        k, one, limit, most = (
            self.weight(v)
            for v in (
                np.float32(self.rng.uniform(-1, 1)),
                np.float32(1),
                np.float32(self.rng.uniform(0, 9)),
                np.int64(self.rng.integers(int(each), 9)),
            )
        )
        nodes = [
            helper.make_node("Cast", [i], [fi], to=TensorProto.FLOAT),
            helper.make_node("Mul", [a, k], [b]),
            helper.make_node("Add", [b, fi], [s]),
            helper.make_node("Add", [c, one], [n]),
            helper.make_node("Less", [n, limit], [on]) if asks else helper.make_node("Identity", [going], [on]),
        ]  # fmt: skip
        given = [
            helper.make_tensor_value_info(name, t, s)
            for name, t, s in ((i, TensorProto.INT64, []), (going, TensorProto.BOOL, []), (a, TensorProto.FLOAT, None), (c, TensorProto.FLOAT, []))
        ]  # fmt: skip
        gives = [(on, TensorProto.BOOL), (s, TensorProto.FLOAT), (n, TensorProto.FLOAT)]
        outputs = [helper.make_tensor_value_info(*g, None) for g in (*gives, *([gives[1]] if each else []))]
        body = helper.make_graph(nodes, "body", given, outputs)
        # Of no iteration ONNX Runtime does not know the shape of a row.
        first = self.weight(np.array(bool(each or self.rng.random() < 0.9)))
        start = self.weight(np.float32(0))
        made = [self.name() for _ in range(2 + each)]
        count = "" if asks and least else most
        self.nodes.append(helper.make_node("Loop", [count, first if asks else "", x, start], made, body=body))
        self.shapes[made[0]] = shape
        if each:
            zero = self.weight(np.array([0], np.int64))
            self.add("ReduceSum", [made[2], zero], shape, keepdims=0)

    def branch(self, x: str, shape: tuple[int, ...]) -> None:
        """By a condition that is computed; the branches read what is around."""
        top = self.add("ReduceMax", [x], None, keepdims=0)
        asked = self.add("Greater", [top, self.weight(np.float32(self.rng.normal()))], None)
        graphs: list[Any] = []
        for _ in range(2):
            made = self.name()
            node = helper.make_node(self.pick(["Neg", "Abs", "Relu", "Sigmoid", "Identity"]), [x], [made])
            info = helper.make_tensor_value_info(made, TensorProto.FLOAT, None)
            graphs.append(helper.make_graph([node], "branch", [], [info]))
        self.add("If", [asked], shape, then_branch=graphs[0], else_branch=graphs[1])

    def unary(self, x: str, shape: tuple[int, ...]) -> None:
        self.add(self.pick(UNARY), [x], shape)

    def binary(self, x: str, shape: tuple[int, ...]) -> None:
        op = self.pick(BINARY)
        same = [n for n, s in self.shapes.items() if s == shape]
        part = tuple(1 if self.rng.random() < 0.4 else d for d in shape)[
            int(self.rng.integers(0, len(shape))) :
        ]
        other = self.pick(same) if self.rng.random() < 0.5 else self.random(*part)
        if op == "Pow":
            x = self.add("Abs", [x], shape)
            other = self.weight(np.float32(self.pick([2, 0.5, 3, -1, 1.7])))
        more = {"fmod": 1} if op == "Mod" else {}
        if op in ("Mod", "Div"):
            other = self.weight(np.float32(self.pick([2, 0.7, -3])))
        self.add(op, [x, other], shape, **more)

    def reduce(self, x: str, shape: tuple[int, ...]) -> None:
        axes = [d for d in range(len(shape)) if self.rng.random() < 0.5]
        keep = int(self.rng.integers(2))
        kept = tuple(1 if d in axes else n for d, n in enumerate(shape) if keep or d not in axes)
        if not axes:
            kept = (1,) * len(shape) if keep else ()
        given = [
            x,
            self.weight(np.array([a - len(shape) * int(self.rng.integers(2)) for a in axes], np.int64)),
        ]
        made = self.add(self.pick(REDUCE), given if axes else [x], kept or None, keepdims=keep)
        if not kept:
            self.add("Reshape", [made, self.weight(np.array([1], np.int64))], (1,))

    def move(self, x: str, shape: tuple[int, ...]) -> None:
        kind = self.pick(
            ["Transpose", "Reshape", "Flatten", "Unsqueeze", "Expand", "Tile", "Concat", "Split"]
        )
        rank = len(shape)
        if kind == "Transpose":
            order = [int(d) for d in self.rng.permutation(rank)]
            self.add(kind, [x], tuple(shape[d] for d in order), perm=order)
        elif kind == "Reshape":
            line = (int(np.prod(shape[:2])), *shape[2:]) if rank > 1 else (1, *shape)
            self.add(kind, [x, self.weight(np.array([-1, *line[1:]], np.int64))], line)
        elif kind == "Flatten":
            axis = int(self.rng.integers(0, rank + 1))
            self.add(kind, [x], (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))), axis=axis)
        elif kind == "Unsqueeze" and rank < 5:
            at = int(self.rng.integers(0, rank + 1))
            self.add(kind, [x, self.weight(np.array([at], np.int64))], (*shape[:at], 1, *shape[at:]))
        elif kind == "Expand" and rank < 5:
            wide = (2, *shape)
            self.add(kind, [x, self.weight(np.array(wide, np.int64))], wide)
        elif kind == "Tile":
            times = [int(t) for t in self.rng.integers(1, 3, rank)]
            self.add(
                kind, [x, self.weight(np.array(times, np.int64))], tuple(d * t for d, t in zip(shape, times))
            )
        elif kind == "Concat":
            axis = int(self.rng.integers(0, rank))
            other = list(shape)
            other[axis] = int(self.rng.integers(1, 4))
            parts = [x, self.random(*other), x]
            other[axis] += 2 * shape[axis]
            self.add(kind, parts, tuple(other), axis=axis - rank * int(self.rng.integers(2)))
        elif kind == "Split":
            axis = int(self.rng.integers(0, rank))
            if shape[axis] > 1:
                first = int(self.rng.integers(1, shape[axis]))
                sizes = self.weight(np.array([first, shape[axis] - first], np.int64))
                made = tuple(first if d == axis else n for d, n in enumerate(shape))
                self.add(kind, [x, sizes], made, 2, axis=axis)

    def cut(self, x: str, shape: tuple[int, ...]) -> None:
        rank = len(shape)
        if self.rng.random() < 0.5:
            axis = int(self.rng.integers(0, rank))
            n = shape[axis]
            step = int(self.pick([1, 1, 2, -1, -2]))
            start, end = (0, n) if step > 0 else (n - 1, -n - 1)
            if step == 1 and n > 2:
                start, end = 1, -1
            length = len(range(n)[slice(start, end if end >= -n else None, step)])
            given = [self.weight(np.array([v], np.int64)) for v in (start, end, axis, step)]
            self.add("Slice", [x, *given], tuple(length if d == axis else m for d, m in enumerate(shape)))
            return
        mode = self.pick(["constant", "reflect", "edge", "wrap"])
        low = [int(min(v, d - 1)) for v, d in zip(self.rng.integers(0, 3, rank), shape)]
        high = [int(min(v, d - 1)) for v, d in zip(self.rng.integers(0, 3, rank), shape)]
        given = [x, self.weight(np.array([*low, *high], np.int64))]
        if mode == "constant":
            given.append(self.weight(np.float32(1.5)))
        self.add("Pad", given, tuple(d + a + b for d, a, b in zip(shape, low, high)), mode=mode)

    def product(self, x: str, shape: tuple[int, ...]) -> None:
        *batch, rows, inner = shape
        columns = int(self.rng.integers(1, 6))
        if len(shape) == 2 and self.rng.random() < 0.5:
            turned = int(self.rng.integers(2))
            other = self.random(columns, inner) if turned else self.random(inner, columns)
            more = {"alpha": 0.5, "beta": float(self.pick([1, 2]))}
            self.add("Gemm", [x, other, self.random(columns)], (rows, columns), transB=turned, **more)
        else:
            lead = self.pick([(), tuple(batch)])
            self.add("MatMul", [x, self.random(*lead, inner, columns)], (*batch, rows, columns))

    def norm(self, x: str, shape: tuple[int, ...]) -> None:
        rank = len(shape)
        kind = self.pick(
            ["Softmax", "LogSoftmax", "LayerNormalization", "LpNormalization", "Hardmax", "CumSum"]
        )
        axis = int(self.rng.integers(0, rank))
        if kind == "LayerNormalization":
            given = [x, self.random(*shape[axis:]), self.random(*shape[axis:])]
            self.add(kind, given, shape, axis=axis)
        elif kind == "CumSum":
            more = {"exclusive": int(self.rng.integers(2)), "reverse": int(self.rng.integers(2))}
            self.add(kind, [x, self.weight(np.int64(axis))], shape, **more)
        elif kind == "LpNormalization":
            self.add(kind, [x], shape, axis=axis, p=int(self.rng.integers(1, 3)))
        else:
            self.add(kind, [x], shape, axis=axis - rank * int(self.rng.integers(2)))

    def index(self, x: str, shape: tuple[int, ...]) -> None:
        axis, rank = int(self.rng.integers(0, len(shape))), len(shape)
        n = shape[axis]
        kind = self.pick(["Gather", "GatherElements", "ScatterElements", "GatherND", "Where", "OneHot"])
        if kind == "Gather":
            at = self.rng.integers(-n, n, self.pick([(3,), (2, 2), ()]))
            self.add(
                kind, [x, self.weight(at)], (*shape[:axis], *at.shape, *shape[axis + 1 :]) or None, axis=axis
            )
        elif kind == "GatherElements":
            wide = tuple(int(self.rng.integers(1, d + 1)) if d_ != axis else 4 for d_, d in enumerate(shape))
            self.add(kind, [x, self.weight(self.rng.integers(-n, n, wide))], wide, axis=axis)
        elif kind == "ScatterElements":
            wide = tuple(int(self.rng.integers(1, d + 1)) for d in shape)
            how = self.pick(["add", "mul", "max", "min"])
            given = [x, self.weight(self.rng.integers(0, n, wide)), self.random(*wide)]
            self.add(kind, given, shape, axis=axis, reduction=how)
        elif kind == "GatherND":
            depth = int(self.rng.integers(1, rank + 1))
            at = np.stack([self.rng.integers(0, d, 5) for d in shape[:depth]], -1)
            self.add(kind, [x, self.weight(at)], (5, *shape[depth:]))
        elif kind == "Where":
            test = self.add("Greater", [x, self.weight(np.float32(0))], None)
            self.add(kind, [test, x, self.random(*shape)], shape)
        else:
            best = self.add(
                "ArgMax", [x], None, axis=axis, keepdims=0, select_last_index=int(self.rng.integers(2))
            )
            given = [best, self.weight(np.int64(n)), self.weight(np.float32([-1, 2]))]
            self.add(kind, given, (*shape[:axis], *shape[axis + 1 :], n), axis=-1)

    def order(self, x: str, shape: tuple[int, ...]) -> None:
        axis = int(self.rng.integers(0, len(shape)))
        k = int(self.rng.integers(1, shape[axis] + 1))
        made = tuple(k if d == axis else n for d, n in enumerate(shape))
        more = {"axis": axis, "largest": int(self.rng.integers(2))}
        self.add("TopK", [x, self.weight(np.array([k], np.int64))], made, 2, **more)

    def window(self, x: str, shape: tuple[int, ...]) -> None:
        rank, channels = len(shape) - 2, shape[1]
        kernel = [int(self.rng.integers(1, min(3, d) + 1)) for d in shape[2:]]
        strides = [int(s) for s in self.rng.integers(1, 3, rank)]
        low = [int(self.rng.integers(0, (k + 1) // 2)) if k > 1 else 0 for k in kernel]
        high = [int(self.rng.integers(0, (k + 1) // 2)) if k > 1 else 0 for k in kernel]
        more: dict[str, Any] = {"strides": strides, "pads": [*low, *high], "kernel_shape": kernel}
        out = tuple((d + a + b - k) // s + 1 for d, a, b, k, s in zip(shape[2:], low, high, kernel, strides))
        kind = self.pick(
            ["Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool"]
        )
        if kind == "Conv":
            group = self.pick([g for g in (1, 2, 3, channels) if channels % g == 0])
            filters = group * int(self.rng.integers(1, 4))
            given = [x, self.random(filters, channels // group, *kernel), self.random(filters)]
            self.add(kind, given, (shape[0], filters, *out), group=group, **more)
        elif kind == "ConvTranspose":
            filters = int(self.rng.integers(1, 4))
            wide = tuple(
                (d - 1) * s + k - a - b for d, s, k, a, b in zip(shape[2:], strides, kernel, low, high)
            )
            if min(wide) > 0:
                self.add(
                    kind, [x, self.random(channels, filters, *kernel)], (shape[0], filters, *wide), **more
                )
        elif kind == "GlobalAveragePool":
            self.add(kind, [x], (*shape[:2], *[1] * rank))
        else:
            if kind == "AveragePool":
                more["count_include_pad"] = int(self.rng.integers(2))
            if kind == "LpPool":
                more["p"] = 2
            self.add(kind, [x], (*shape[:2], *out), **more)

    def image(self, x: str, shape: tuple[int, ...]) -> None:
        if len(shape) != 4:
            return
        kind = self.pick(
            ["Resize", "GridSample", "InstanceNormalization", "DepthToSpace", "LRN", "GroupNormalization"]
        )
        if kind == "Resize":
            sizes = (*shape[:2], *(int(d) for d in self.rng.integers(1, 9, 2)))
            mode = self.pick(["nearest", "linear", "cubic"])
            how = self.pick(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
            more = (
                {"nearest_mode": self.pick(["floor", "ceil", "round_prefer_floor"])}
                if mode == "nearest"
                else {}
            )
            given = [x, "", "", self.weight(np.array(sizes, np.int64))]
            self.add(kind, given, sizes, mode=mode, coordinate_transformation_mode=how, **more)
        elif kind == "GridSample":
            grid = self.weight(self.rng.uniform(-1.3, 1.3, (shape[0], 3, 4, 2)).astype(np.float32))
            more = {
                "mode": self.pick(["linear", "cubic"]),
                "padding_mode": self.pick(["zeros", "border", "reflection"]),
            }
            self.add(kind, [x, grid], (*shape[:2], 3, 4), align_corners=int(self.rng.integers(2)), **more)
        elif kind == "InstanceNormalization":
            self.add(kind, [x, self.random(shape[1]), self.random(shape[1])], shape)
        elif kind == "LRN":
            self.add(kind, [x], shape, size=3)
        elif kind == "DepthToSpace" and shape[1] % 4 == 0:
            made = (shape[0], shape[1] // 4, shape[2] * 2, shape[3] * 2)
            self.add(kind, [x], made, blocksize=2, mode=self.pick(["DCR", "CRD"]))

    def model(self) -> ModelProto:
        outputs = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, None)
            for n in self.shapes
            if n not in self.inputs
        ]
        inputs = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in self.inputs.items()
        ]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def compare(seed: int, nodes: int, target: str) -> str:
    """'' where both agree, else what differs."""
    import onnxruntime

    import ngmlir as ng
    from ngmlir.frontends import onnx

    made = Graph(seed, nodes)
    model = made.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        expected = session.run(None, made.inputs)
    except Exception:
        return "-"
    got = ng.compile(onnx.load(model), target=target)(*made.inputs.values())
    for name, a, b in zip((o.name for o in model.graph.output), got, expected):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        size = np.abs(b[np.isfinite(b)]).max(initial=1e-3)
        with np.errstate(all="ignore"):
            close = np.isclose(a, b, rtol=1e-3, atol=1e-4 * size, equal_nan=True)
        if not close.all():
            maker = next(n for n in model.graph.node if name in n.output)
            return f"{name} of {maker.op_type}: {a[~close][:3]} instead of {b[~close][:3]} ({(~close).sum()} of {a.size})"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--target", default="numpy")
    parser.add_argument("--nodes", type=int, default=8)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    first, last = (int(s) for s in given.seeds.split(":"))
    agreed = skipped = 0
    for seed in range(first, last):
        try:
            told = compare(seed, given.nodes, given.target)
        except Exception as error:
            told = f"{type(error).__name__}: {str(error)[:300]}"
            if not str(error):
                traceback.print_exc()
        agreed, skipped = agreed + (told == ""), skipped + (told == "-")
        if told not in ("", "-"):
            print(f"seed {seed}: {told}", flush=True)
    print(f"{agreed} of {last - first} agree; ONNX Runtime does not run {skipped}")


if __name__ == "__main__":
    main()
