# SPDX-License-Identifier: Apache-2.0
"""Small networks rewritten by ONNX Runtime's optimizer, transformer tools and quantizers, run here and by it.

python bench/onnx_tools.py [--only 'bert.*quant'] [--target cpu] [--keep folder]      (needs torch and onnxruntime)

Prints of each model what was written (operators of com.microsoft, and how often) and how far the results are apart.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

from decoder_models import DECODERS, WORDS, fed  # noqa: E402
from tool_models import networks  # noqa: E402

Inputs = dict[str, Any]
#: What transformer tools call a network, and what they are told of it.
KINDS = {"bert": ("bert", 4, 32), "gpt2": ("gpt2", 4, 32), "llama": ("gpt2", 4, 64)}


class Fixed:
    """Calibration data: the one input there is."""

    def __init__(self, inputs: Inputs):
        self.rest = iter([inputs])

    def get_next(self) -> Inputs | None:
        return next(self.rest, None)


def session(path: Path, level: str = "ORT_ENABLE_ALL", written: Path | None = None) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    if written is not None:
        options.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def exported(folder: Path) -> Iterator[tuple[str, Path, Inputs]]:
    """Each network by both exporters of torch."""
    for name, (network, inputs) in networks().items():
        for new in (False, True):
            path = folder / f"{name}{'-new' if new else ''}.onnx"
            more: dict[str, Any] = {"dynamo": False, "opset_version": 17}
            if new:
                more = {"dynamo": True, "external_data": False, "verbose": False}
            torch.onnx.export(network, tuple(inputs.values()), str(path), input_names=list(inputs), **more)
            yield path.stem, path, {key: value.numpy() for key, value in inputs.items()}


def tools(name: str, path: Path, inputs: Inputs) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """What each tool writes to a path."""
    from onnxruntime import quantization as q

    kind = name.removesuffix("-new")

    def extended(source: Path, out: Path) -> None:
        session(source, "ORT_ENABLE_EXTENDED", out)

    def beside(out: Path, mark: str) -> Path:
        return out.with_name(f"{out.stem}-{mark}.onnx")

    yield "extended", lambda out: extended(path, out)

    if kind in KINDS:
        from onnxruntime.transformers.fusion_options import FusionOptions
        from onnxruntime.transformers.optimizer import optimize_model

        model_type, heads, width = KINDS[kind]

        def fused(out: Path, half: bool = False, **flags: Any) -> None:
            options = FusionOptions(model_type)
            for flag, value in flags.items():
                setattr(options, flag, value)
            made = optimize_model(str(path), model_type, heads, width, options, opt_level=0)
            if half:
                made.convert_float_to_float16(keep_io_types=True)
            made.save_model_to_file(str(out))

        yield "transformers", fused
        yield "transformers-mha", lambda out: fused(out, use_multi_head_attention=True)
        yield (
            "transformers-approximate",
            lambda out: fused(
                out, enable_gelu_approximation=True, enable_bias_gelu=True, enable_skip_layer_norm=True
            ),
        )
        yield "transformers-f16", lambda out: fused(out, half=True)

        def fused_and_quantized(out: Path) -> None:
            fused(beside(out, "fused"))
            told = {"DefaultTensorType": onnx.TensorProto.FLOAT}
            q.quantize_dynamic(str(beside(out, "fused")), str(out), extra_options=told)

        yield "transformers-quantized", fused_and_quantized
        if kind == "bert":

            def packed(out: Path) -> None:
                from onnxruntime.transformers.convert_to_packing_mode import PackingMode
                from onnxruntime.transformers.onnx_model import OnnxModel

                fused(beside(out, "fused"), use_multi_head_attention=False)
                made = OnnxModel(onnx.load(str(beside(out, "fused"))))
                PackingMode(made).convert()
                made.save_model_to_file(str(out))

            yield "packed", packed

    def dynamic(out: Path, **more: Any) -> None:
        q.quantize_dynamic(str(path), str(out), **more)

    def dynamic_and_extended(out: Path) -> None:
        dynamic(beside(out, "quantized"))
        extended(beside(out, "quantized"), out)

    yield "dynamic", dynamic
    yield "dynamic-channels", lambda out: dynamic(out, per_channel=True, weight_type=q.QuantType.QInt8)
    yield "dynamic-extended", dynamic_and_extended

    def static(out: Path, format: Any, **more: Any) -> None:
        from onnxruntime.quantization.shape_inference import quant_pre_process

        quant_pre_process(str(path), str(beside(out, "inferred")), skip_symbolic_shape=True)
        q.quantize_static(str(beside(out, "inferred")), str(out), Fixed(inputs), quant_format=format, **more)

    def static_and_extended(out: Path, **more: Any) -> None:
        static(beside(out, "quantized"), q.QuantFormat.QDQ, **more)
        extended(beside(out, "quantized"), out)

    signed = {"activation_type": q.QuantType.QInt8, "weight_type": q.QuantType.QInt8}
    wide = {"activation_type": q.QuantType.QUInt16, "weight_type": q.QuantType.QInt8}
    yield "operators", lambda out: static(out, q.QuantFormat.QOperator)
    yield "operators-signed", lambda out: static(out, q.QuantFormat.QOperator, per_channel=True, **signed)
    yield "pairs", lambda out: static(out, q.QuantFormat.QDQ)
    yield (
        "pairs-16",
        lambda out: static(out, q.QuantFormat.QDQ, extra_options={"UseQDQContribOps": True}, **wide),
    )
    yield "pairs-extended", static_and_extended
    yield "pairs-signed-extended", lambda out: static_and_extended(out, per_channel=True, **signed)

    if kind in KINDS:

        def bits(out: Path, count: int, symmetric: bool, **more: Any) -> None:
            from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

            made = MatMulNBitsQuantizer(
                onnx.load(str(path)), block_size=32, is_symmetric=symmetric, bits=count, **more
            )
            made.process()
            made.model.save_model_to_file(str(out))

        yield "4bits", lambda out: bits(out, 4, True)
        yield "4bits-points", lambda out: bits(out, 4, False)
        yield "8bits", lambda out: bits(out, 8, True)
        yield "4bits-gather", lambda out: bits(out, 4, True, op_types_to_quantize=("MatMul", "Gather"))

        def bnb4(out: Path) -> None:
            from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

            made = MatMulBnb4Quantizer(onnx.load(str(path)), 1, 32)
            made.process()
            made.model.save_model_to_file(str(out))

        yield "bnb4", bnb4


def decoded(target: str) -> Iterator[str]:
    """Decoders with caches that grow call by call: how far results are apart from those of ONNX Runtime."""
    import ngmlir as ng
    from ngmlir.frontends import onnx as reader

    for name, make in DECODERS.items():
        model = make()
        theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        ours = ng.compile(reader.load(model), target=target)
        ids = np.random.default_rng(3).integers(0, WORDS, (2, 7))
        kept: list[Any] = [None, None]
        worst = 0.0
        for first, last in ((0, 3), (3, 4), (4, 5), (5, 6), (6, 7)):
            given = [fed(model, ids[:, first:last], past) for past in kept]
            made = [theirs.run(None, given[0]), list(ours(**given[1]))]
            kept = [m[1:] for m in made]
            worst = max(worst, *(gap(b, a) for a, b in zip(*made, strict=True)))
        yield f"{name} in 5 calls: apart by {worst:.1e}"


def gap(a: Any, b: Any) -> float:
    """How far results are apart, of the greatest one of those that were expected."""
    found = np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0)
    return float(found / max(np.abs(b.astype(np.float64)).max(initial=0), 1e-6))


#: Models that are small enough to be kept with the tests.
RECORDED = re.compile(
    "(squeezed|reader)-(extended|dynamic-extended|operators|operators-signed|pairs-extended|pairs-16)"
)


def record(file: Path, paths: Sequence[tuple[Path, Inputs]]) -> None:
    """Writes models, their inputs, and what ONNX Runtime gives without its optimizer."""
    held: dict[str, Any] = {}
    for path, inputs in paths:
        results = session(path, "ORT_DISABLE_ALL").run(None, inputs)
        held[path.stem] = np.frombuffer(path.read_bytes(), np.uint8)
        # All models of a network take the same.
        held |= {f"{path.stem.partition('-')[0]}/in/{name}": array for name, array in inputs.items()}
        held |= {f"{path.stem}/out/{i}": array for i, array in enumerate(results)}
    np.savez_compressed(file, **held)
    print(f"{len(paths)} models; {file.stat().st_size} bytes")


def compared(path: Path, inputs: Inputs, target: str) -> str:
    """How far results are apart from those of ONNX Runtime, and these from its own without its optimizer."""
    import ngmlir as ng
    from ngmlir.frontends import onnx as reader

    model = reader.load(str(path))
    fed = {name: inputs[name] for name in model.input_names}
    try:
        expected = session(path).run(None, fed)
    except Exception as error:
        ng.compile(model, target=target)(**fed)
        return f"runs; ONNX Runtime does not: {str(error)[:100]}"
    got = ng.compile(model, target=target)(**fed)
    plain = session(path, "ORT_DISABLE_ALL").run(None, fed)
    worst, own = 0.0, 0.0
    for a, b, c in zip(got, expected, plain, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"DIFFERS: {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        worst, own = max(worst, min(gap(a, b), gap(a, c))), max(own, gap(b, c))
    return f"apart by {worst:.1e}; its optimizer moves results by {own:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", help="a pattern that names models and tools: bert-new transformers"
    )
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--record", type=Path, help="where models of a few KiB and their results are written")
    parser.add_argument("--keep", type=Path, help="where the models are written and stay")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    seen: Counter[str] = Counter()
    kept: list[tuple[Path, Inputs]] = []
    for told in decoded(given.target) if re.search(given.only, "decoders") else ():
        print(told, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, path, inputs in exported(folder):
            for tool, write in tools(name, path, inputs):
                if not re.search(given.only, f"{name} {tool}"):
                    continue
                out = folder / f"{name}-{tool}.onnx"
                try:
                    write(out)
                except Exception as error:
                    print(
                        f"{name} {tool}: not written: {type(error).__name__}: {str(error)[:150]}", flush=True
                    )
                    continue
                written = Counter(
                    node.op_type
                    for node in onnx.load(str(out), load_external_data=False).graph.node
                    if node.domain == "com.microsoft"
                )
                seen += written
                if RECORDED.fullmatch(out.stem):
                    kept.append((out, inputs))
                try:
                    told = compared(out, inputs, given.target)
                except Exception as error:
                    told = f"REFUSED: {type(error).__name__}: {str(error)[:400]}"
                ops = ", ".join(f"{op} {count}" for op, count in sorted(written.items()))
                print(f"{name} {tool}: {told} [{ops}]", flush=True)
        if given.record:
            record(given.record, kept)
    print("all:", ", ".join(f"{op} {count}" for op, count in sorted(seen.items())))


if __name__ == "__main__":
    main()
