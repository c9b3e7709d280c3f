# SPDX-License-Identifier: Apache-2.0
"""Products with narrow weights beside ONNX Runtime and beside reading memory, one thread.

python bench/narrow_weights.py [--only 'int4'] [--rows 1,512] [--depth 4096] [--columns 11008]   (needs onnx and onnxruntime)

Prints of each weight the milliseconds of ours, of ONNX Runtime and of a plain read of the narrow bytes; how many times as fast
as ONNX Runtime ours is, and which share of the memory roof it reaches. Before each call other memory is read, so that weights
come from memory, as those of a network with many layers do.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NGMLIR_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parents[1] / "src")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from llvmlite import binding as llvm  # noqa: E402
from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

import ngmlir as ng  # noqa: E402
from ngmlir.frontends.onnx import load  # noqa: E402

DRAW = np.random.default_rng(0)


class Case:
    """A model with one product, and the bytes of its weight."""

    def __init__(self, nodes: list[Any], weights: dict[str, Any], rows: int, depth: int, columns: int):
        made = {
            n: numpy_helper.from_array(np.ascontiguousarray(v), n)
            for n, v in weights.items()
            if isinstance(v, np.ndarray)
        }
        made |= {n: v for n, v in weights.items() if not isinstance(v, np.ndarray)}
        graph = helper.make_graph(
            nodes,
            "product",
            [helper.make_tensor_value_info("x", T.FLOAT, [rows, depth])],
            [helper.make_tensor_value_info("y", T.FLOAT, [rows, columns])],
            list(made.values()),
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        self.shape = (rows, depth)


def blocks(
    bits: int, block: int, points: bool = False, level: int = 0
) -> Callable[[int, int, int], tuple[Case, int]]:
    """MatMulNBits."""

    def made(rows: int, k: int, n: int) -> tuple[Case, int]:
        count = -(-k // block)
        weights: dict[str, Any] = {
            "w": DRAW.integers(0, 256, (n, count, block * bits // 8)).astype(np.uint8),
            "s": DRAW.uniform(0.01, 0.02, n * count).astype(np.float32),
        }
        if points:
            weights["z"] = DRAW.integers(0, 256, n * -(-count * bits // 8)).astype(np.uint8)
        node = helper.make_node(
            "MatMulNBits", ["x", *weights], ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=block,
            accuracy_level=level,
        )  # fmt: skip
        size = n * k * bits // 8 + 4 * n * count + (weights["z"].nbytes if points else 0)
        return Case([node], weights, rows, k, n), size

    return made


def scaled(element: Any, block: int = 0) -> Callable[[int, int, int], tuple[Case, int]]:
    """DequantizeLinear, with a scale for each column or for blocks of it."""

    def made(rows: int, k: int, n: int) -> tuple[Case, int]:
        low, high = (-8, 8) if element is ml_dtypes.int4 else (-127, 128)
        codes = DRAW.integers(low, high, (k, n))
        if element is ml_dtypes.int4:
            packed = (codes.reshape(-1) & 15).astype(np.uint8)
            raw = (packed[0::2] | packed[1::2] << 4).tobytes()
            weight: Any = helper.make_tensor("w", T.INT4, (k, n), raw, raw=True)
        else:
            weight = codes.astype(element)
        shape = (-(-k // block), n) if block else (n,)
        weights = {"w": weight, "s": DRAW.uniform(0.01, 0.02, shape).astype(np.float32)}
        how = {"axis": 0, "block_size": block} if block else {"axis": 1}
        nodes = [
            helper.make_node("DequantizeLinear", ["w", "s"], ["d"], **how),
            helper.make_node("MatMul", ["x", "d"], ["y"]),
        ]
        return Case(nodes, weights, rows, k, n), n * k * (1 if element is np.int8 else 0.5) + 4 * int(
            np.prod(shape)
        )

    return made


def cast(element: Any) -> Callable[[int, int, int], tuple[Case, int]]:
    """Floats of 16 bits."""

    def made(rows: int, k: int, n: int) -> tuple[Case, int]:
        values = (DRAW.standard_normal((k, n)) * 0.02).astype(element)
        kind = T.FLOAT16 if element is np.float16 else T.BFLOAT16
        weight = helper.make_tensor("w", kind, (k, n), values.tobytes(), raw=True)
        nodes = [
            helper.make_node("Cast", ["w"], ["d"], to=T.FLOAT),
            helper.make_node("MatMul", ["x", "d"], ["y"]),
        ]
        return Case(nodes, {"w": weight}, rows, k, n), n * k * 2

    return made


CASES = {
    "int4 block 32": blocks(4, 32),
    "int4 block 32, points": blocks(4, 32, points=True),
    "int4 block 128": blocks(4, 128),
    "int4 block 32, level 4": blocks(4, 32, level=4),
    "int8 block 32": blocks(8, 32),
    "int8 block 128": blocks(8, 128),
    "int8 per column": scaled(np.int8),
    "int4 QDQ block 32": scaled(ml_dtypes.int4, 32),
    "f16": cast(np.float16),
    "bf16": cast(ml_dtypes.bfloat16),
}


def reader() -> Callable[[np.ndarray[Any, Any]], None]:
    """Reads an array of whole lines once."""
    width, unroll = 8, 8
    sums = "".join(f" %a{u}=phi <{width} x i32> [zeroinitializer,%entry],[%b{u},%l]\n" for u in range(unroll))
    body = "".join(
        f" %o{u}=add i64 %i,{u * width * 4}\n %q{u}=getelementptr i8, ptr %p, i64 %o{u}\n"
        f" %v{u}=load <{width} x i32>, ptr %q{u}, align 4\n %b{u}=add <{width} x i32> %a{u},%v{u}\n"
        for u in range(unroll)
    )
    total = "".join(
        f" %s{u}=add <{width} x i32> {f'%s{u - 1}' if u > 1 else '%b0'},%b{u}\n" for u in range(1, unroll)
    )
    name = f"@llvm.vector.reduce.add.v{width}i32"
    text = (
        "define i32 @read(ptr %p, i64 %n) {\nentry:\n br label %l\nl:\n %i=phi i64 [0,%entry],[%i2,%l]\n"
        f"{sums}{body} %i2=add i64 %i,{unroll * width * 4}\n %c=icmp ult i64 %i2,%n\n br i1 %c, label %l, label %x\nx:\n"
        f"{total} %r=call i32 {name}(<{width} x i32> %s{unroll - 1})\n ret i32 %r\n}}\ndeclare i32 {name}(<{width} x i32>)\n"
    )
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)(
        engine.get_function_address("read")
    )
    kept = engine

    def read(array: np.ndarray[Any, Any]) -> None:
        assert kept is engine
        function(array.ctypes.data, array.nbytes // 256 * 256)

    return read


def times(calls: list[Callable[[], Any]], before: Callable[[], Any], seconds: float) -> list[float]:
    """The least milliseconds of each, in turn."""
    best = [float("inf")] * len(calls)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for i, call in enumerate(calls):
            before()
            start = time.perf_counter_ns()
            call()
            best[i] = min(best[i], (time.perf_counter_ns() - start) / 1e6)
    return best


def line(
    name: str, rows: int, given: argparse.Namespace, path: Path, read: Callable[[Any], None], other: Any
) -> str:
    case, size = CASES[name](rows, given.depth, given.columns)
    onnx.save(case.model, path)
    x = DRAW.standard_normal(case.shape).astype(np.float32)
    ours, memory = ng.compile(load(path), target="cpu"), np.ones(int(size) // 4, np.int32)
    calls: list[Callable[[], Any]] = [lambda: ours(x), lambda: read(memory)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    mine, found = ours(x)[0], theirs.run(None, {"x": x})[0]
    calls.append(lambda: theirs.run(None, {"x": x}))
    took, roof, their = times(calls, lambda: read(other), given.seconds)
    return (
        f"{name:24s} {rows:4d} rows  ours {took:8.3f} ms  read {roof:7.3f} ms ({size / roof / 1e6:5.1f} GB/s)"
        f"  {roof / took:5.2f} of the roof  ONNX Runtime {their:8.3f} ms  {their / took:5.2f} times as fast"
        f"  apart {float(np.abs(mine - found).max() / np.abs(found).max()):.0e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--rows", default="1,512")
    parser.add_argument("--depth", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=11008)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    read, other = reader(), np.ones(96 << 18, np.int32)
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            for rows in map(int, given.rows.split(",")):
                if re.search(given.only, name):
                    print(line(name, rows, given, Path(folder) / "model.onnx", read, other), flush=True)


if __name__ == "__main__":
    main()
