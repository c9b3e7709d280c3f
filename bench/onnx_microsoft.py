# SPDX-License-Identifier: Apache-2.0
"""Random nodes of the domain com.microsoft, and of ONNX with integers and scales (`ai.onnx.NAME`), run here and by ONNX Runtime; prints those whose results differ.

python bench/onnx_microsoft.py [--ops 'Attention|QLinear.*'] [--seeds 0:40] [--target numpy]
python bench/onnx_microsoft.py --record tests/unit/onnx_microsoft.npz    writes what ONNX Runtime gives for a few of each
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

import microsoft_attention_cases  # noqa: E402
import microsoft_cases  # noqa: E402
import microsoft_quantized_cases  # noqa: E402
import quantized_cases  # noqa: E402
from microsoft_draw import CASES, Case, chosen_weights, difference, drawn, model_of  # noqa: E402

assert microsoft_cases and microsoft_attention_cases and microsoft_quantized_cases and quantized_cases


def by_onnx_runtime(op: str, made: Case, seed: int, optimized: bool = False) -> list[Any] | str:
    """The results; why there are none, where ONNX Runtime does not run the node on a CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    # Some kernels ask for weights, some for inputs.
    problem = ""
    for weights in (chosen_weights(made, seed), frozenset(range(len(made.inputs))) - {0}, frozenset[int]()):
        model, fed = model_of(op, made, weights)
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return session.run(None, fed)
        except Exception as error:
            problem = problem or str(error)
    return problem


def by_ngmlir(op: str, made: Case, seed: int, target: str) -> list[Any]:
    """The results of the compiled model."""
    import ngmlir as ng
    from ngmlir.frontends import onnx

    model, fed = model_of(op, made, chosen_weights(made, seed))
    return list(ng.compile(onnx.load(model), target=target)(*fed.values()))


def compare(op: str, seed: int, target: str) -> str:
    """'' where both agree, '-' and why where ONNX Runtime does not run the node, else what differs."""
    made = drawn(op, seed)
    expected = by_onnx_runtime(op, made, seed)
    if isinstance(expected, str):
        try:
            by_ngmlir(op, made, seed, target)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:300]}"
        return f"-{expected}"
    return difference(made, by_ngmlir(op, made, seed, target), expected)


def record(path: Path, ops: list[str], count: int) -> None:
    """Writes inputs and results of a few nodes of each operator; tests compare what ngmlir gives with these."""
    import json

    held: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for op in ops:
        kept = 0
        for seed in range(1000, 1060):
            made = drawn(op, seed)
            size = sum(np.asarray(a).size for a in made.inputs if a is not None)
            expected = by_onnx_runtime(op, made, seed) if size < 3000 else "large"
            if isinstance(expected, str):
                continue
            told.setdefault(op, []).append(seed)
            for i, array in zip(made.outputs, expected, strict=True):
                held[f"{op}.{seed}.{i}"] = array
            kept += 1
            if kept == count:
                break
    held["cases"] = np.frombuffer(json.dumps(told).encode(), np.uint8)
    np.savez_compressed(path, **held)
    print(f"{sum(map(len, told.values()))} nodes of {len(told)} operators; {path.stat().st_size} bytes")
    print("not run by ONNX Runtime:", ", ".join(op for op in ops if op not in told))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", default=".*", help="a pattern that names operators")
    parser.add_argument("--seeds", default="0:40")
    parser.add_argument("--target", default="numpy")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--why", action="store_true", help="say why ONNX Runtime does not run a node")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    ops = [op for op in CASES if re.fullmatch(given.ops, op)]
    if given.record:
        record(given.record, ops, 3)
        return
    first, last = (int(s) for s in given.seeds.split(":"))
    for op in ops:
        told: list[str] = []
        for seed in range(first, last):
            try:
                told.append(compare(op, seed, given.target))
            except Exception as error:
                told.append(f"{type(error).__name__}: {str(error)[:300]}")
        wrong = [(first + i, t) for i, t in enumerate(told) if t and not t.startswith("-")]
        skipped = [t for t in told if t.startswith("-")]
        print(f"{op:34} {told.count(''):4} agree {len(wrong):4} differ {len(skipped):4} not run", flush=True)
        for seed, text in wrong[:3]:
            print(f"    seed {seed}: {text}")
        if skipped and given.why:
            print(f"    not run: {skipped[0][:200]}")


if __name__ == "__main__":
    main()
