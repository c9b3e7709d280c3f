# SPDX-License-Identifier: Apache-2.0
"""From a model in f32 to one in 8 or 4 bits, and the report of what that changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from ....support.diagnostics import UserError
from ....support.spelling import did_you_mean
from ..model import Model
from .accuracy import Accuracy, LayerReport, OutputReport, Report
from .building import model_of, with_opset, written
from .graph import Graph, copied
from .layers import Layer, Layers, Product, product_of
from .ranges import ranges_of
from .samples import Samples, random_samples, samples_of
from .simplifying import simplified
from .static import Plan, Rewriting

MODES = ("static", "dynamic", "weights")
METHODS = ("minmax", "percentile")
#: The least version of the standard's operators that a mode needs.
_OPSETS = {"static": 13, "dynamic": 13, "weights": 13}
#: The share of elements that percentile leaves out.
_OUTSIDE = 1e-4
#: Layers are measured with so many calls.
_MEASURED = 2
_SECONDS, _CALLS = 1.0, 5


@dataclass(frozen=True)
class Quantized:
    """A quantised `model`, a `ModelProto`, and the report of what it lost."""

    model: ModelProto
    report: Report
    external: bool = False

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an `.onnx` file, which keeps its old content until all is written. Weights that do not fit into one, or that
        were in external files before, are written to an external file, with `.data` appended to its name."""
        written(self.model, path, self.external)


@dataclass
class _Made:
    """What a mode makes: all nodes; those between f32 tensors and layers; the layers."""

    nodes: list[NodeProto]
    coding: list[NodeProto]
    layers: Layers


def quantized(
    source: Any,
    calibration: Any,
    mode: str,
    bits: int,
    block: int,
    method: str,
    keep: Sequence[str],
    random: int,
    timed: bool,
    target: str,
    progress: Callable[[str], None] | None,
) -> Quantized:
    """See `frontends.onnx.quantize`."""
    told = progress if progress is not None else _nobody
    _check(mode, bits, block, method, random)
    first = source if isinstance(source, Model) else Model(source)
    before = _bytes_of(first)
    Graph(first)  # refuses what is quantised already before anything is converted
    model = with_opset(first, _OPSETS[mode])
    graph = Graph(model)
    names = graph.named(keep)
    samples, held = _samples(model, calibration, random, mode)
    report = Report(mode, _settings(mode, bits, block, method), bytes_before=before)
    if mode == "static" and (count := simplified(graph, names)):
        report.notes.append(f"{count} nodes that scale or move channels were folded into convolutions")
    kept = {i for i in range(len(graph.nodes)) if graph.called(i) in names}
    products = {i: p for i in range(len(graph.nodes)) if i not in kept and (p := product_of(graph, i))}
    if mode == "static":
        assert samples is not None
        made = _static(graph, products, kept, samples, method, target, told)
    else:
        made = _by_layers(graph, products, kept, mode, bits, block)
    if not made.layers.layers:
        raise _nothing(mode, bool(kept))
    proto = model_of(graph, made.nodes, made.layers.domains)
    _leave_notes(report, graph, made, kept, mode)
    report.bytes_after = proto.ByteSize()
    if random and calibration is None:
        report.notes.append(
            "the samples were random: neither ranges nor accuracy say anything about real data"
        )
    if samples is not None:
        report.calibrated = samples.count if mode == "static" else 0
        if held is None:
            report.notes.append(
                "the samples are those of one call: the model was compared with what it was calibrated with"
            )
        _measure(report, model, proto, graph, made, held or samples, target, told)
        if timed:
            _time(report, model, proto, held or samples, target)
    else:
        report.layers = [LayerReport(each.name, each.op, each.bits, None) for each in made.layers.layers]
    return Quantized(proto, report, external=bool(first.contents.beside()))


def _nobody(text: str) -> None:
    """Ignores a line of progress."""


def _nothing(mode: str, kept: bool) -> UserError:
    """What is said of a model without anything to quantize."""
    kinds = "matrix product" if mode == "dynamic" else "matrix product or convolution"
    hint = "weights in f16 or f64, and those of control flow and functions stay as they are"
    if kept:
        hint = "keep fewer nodes"
    elif mode == "dynamic":
        hint = "--mode static or weights quantizes convolutions too"
    return UserError(f"the model has nothing to quantize: no {kinds} with constant weights in f32", hint=hint)


def _check(mode: str, bits: int, block: int, method: str, random: int) -> None:
    if mode not in MODES:
        raise UserError(
            f"there is no mode '{mode}'", hint=did_you_mean(mode, MODES, f"modes are {', '.join(MODES)}")
        )
    if method not in METHODS:
        known = did_you_mean(method, METHODS, f"methods are {', '.join(METHODS)}")
        raise UserError(f"there is no calibration method '{method}'", hint=known)
    if bits not in (4, 8):
        raise UserError(f"weights have 4 or 8 bits, not {bits}")
    if bits == 4 and mode != "weights":
        raise UserError(f"the mode {mode} has weights of 8 bits", hint="--mode weights --bits 4")
    if block not in (16, 32, 64, 128, 256):
        raise UserError(f"blocks have 16, 32, 64, 128 or 256 weights, not {block}")
    if random < 0:
        raise UserError(f"the number of random samples is {random}")


def _settings(mode: str, bits: int, block: int, method: str) -> str:
    if mode == "static":
        return f"activations u8 with ranges by {method}, weights s8 by channel"
    if mode == "dynamic":
        return "activations u8 with ranges of each call, weights s8 by channel"
    return "weights s8 by channel" if bits == 8 else f"weights of 4 bits in blocks of {block}"


def _samples(model: Model, calibration: Any, random: int, mode: str) -> tuple[Samples | None, Samples | None]:
    """What to calibrate with, and what to compare with where that is something else."""
    if calibration is not None:
        found = samples_of(model, calibration)
    elif random:
        found = random_samples(model, random)
    elif mode == "static":
        raise UserError(
            "static quantization needs calibration data, from which ranges are measured",
            hint="--calibration inputs.npz; --mode dynamic needs none",
        )
    else:
        return None, None
    # Nothing is calibrated in other modes: all samples are there to compare.
    return found.parted() if mode == "static" else (found, found)


def _static(
    graph: Graph,
    products: dict[int, Product],
    kept: set[int],
    samples: Samples,
    method: str,
    target: str,
    progress: Callable[[str], None],
) -> _Made:
    plan = Plan(graph, products, kept)
    layers = Layers(graph, kept)
    progress(f"measuring the ranges of {len(plan.roots())} tensors over {samples.count} samples")
    found = ranges_of(graph, plan.roots(), samples, histogram=method == "percentile", target=target)
    share = _OUTSIDE if method == "percentile" else 0.0
    rewriting = Rewriting(plan, layers, {name: each.within(share) for name, each in found.items()})
    return _Made(rewriting.run(), rewriting.coding, layers)


def _by_layers(
    graph: Graph, products: dict[int, Product], kept: set[int], mode: str, bits: int, block: int
) -> _Made:
    layers, nodes = Layers(graph, kept), list[NodeProto]()
    for i, node in enumerate(graph.nodes):
        layer = (
            None
            if i in kept or not graph.standard(i)
            else _layer(layers, i, products.get(i), mode, bits, block)
        )
        nodes += [node] if layer is None else layer.nodes
    return _Made(nodes, [], layers)


def _layer(layers: Layers, i: int, p: Product | None, mode: str, bits: int, block: int) -> Layer | None:
    node = layers.graph.nodes[i]
    if p is not None and mode == "weights":
        return layers.wide(p, bits, block)
    if p is not None and layers.has_dynamic(p):
        return layers.dynamic(p)
    if node.op_type == "Gather":
        return layers.rows(i)
    if mode == "weights" and node.op_type in ("LSTM", "GRU", "RNN"):
        return layers.recurrent(i)
    return layers.transposed(i) if mode == "weights" and node.op_type == "ConvTranspose" else None


def _leave_notes(report: Report, graph: Graph, made: _Made, kept: set[int], mode: str) -> None:
    """Which nodes with weights stay in f32."""
    done = {layer.name for layer in made.layers.layers}
    for i, node in enumerate(graph.nodes):
        if (
            node.op_type not in ("Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN")
            or graph.called(i) in done
        ):
            continue
        if i in kept:
            reason = "kept"
        elif not any(graph.constant(name) is not None for name in node.input):
            reason = "no side is constant"
        else:
            reason = f"the mode {mode} leaves it"
        report.left.append(f"{graph.called(i)} ({node.op_type}): {reason}")
    report.left += [
        f"{name}: in control flow or in a function of the model" for name in graph.inner_products()
    ]


def _measure(
    report: Report,
    model: Model,
    proto: ModelProto,
    graph: Graph,
    made: _Made,
    samples: Samples,
    target: str,
    progress: Callable[[str], None],
) -> None:
    progress(f"comparing over {samples.count} samples")
    wide, narrow = model.compiled(target), Model(proto).compiled(target)
    outputs = [Accuracy(name) for name in graph.outputs]
    for piece in samples.pieces:
        for found, a, b in zip(outputs, wide(*piece.values), narrow(*piece.values), strict=True):
            if isinstance(a, np.ndarray):
                found.add(a, b)
    report.compared = samples.count
    report.outputs = [OutputReport.of(found) for found in outputs if found.elements]
    layers = made.layers.layers
    progress(f"comparing {len(layers)} layers")
    nodes = [*graph.contents.proto.graph.node, *made.coding]
    own = {name for node in nodes for name in node.output}
    alone: list[str] = []
    for layer in layers:
        twice = [name for node in layer.nodes for name in node.output if name in own]
        names = {name: graph.fresh(f"{name}_alone") for name in twice}
        for node in layer.nodes:
            inputs, outputs = ([names.get(name, name) for name in each] for each in (node.input, node.output))
            nodes.append(copied(node, inputs=inputs, outputs=outputs))
        alone.append(names[layer.output])
    both = [*(layer.output for layer in layers), *alone]
    run = Model(model_of(graph, nodes, made.layers.domains, both)).compiled(target)
    found = [Accuracy(layer.name) for layer in layers]
    for piece in samples.pieces[:_MEASURED]:
        results = run(*piece.values)
        for k, each in enumerate(found):
            each.add(results[k], results[k + len(layers)])
    report.layers = [
        LayerReport(layer.name, layer.op, layer.bits, each.snr)
        for layer, each in zip(layers, found, strict=True)
    ]


def _time(report: Report, model: Model, proto: ModelProto, samples: Samples, target: str) -> None:
    """The least time of a call of both, called in turn."""
    values = samples.pieces[0].values
    runs = [model.compiled(target), Model(proto).compiled(target)]
    best = [float("inf")] * 2
    for run in runs:
        run(*values)
    end, count = time.perf_counter() + 2 * _SECONDS, 0
    while count < _CALLS or time.perf_counter() < end:
        for k, run in enumerate(runs):
            started = time.perf_counter()
            run(*values)
            best[k] = min(best[k], time.perf_counter() - started)
        count += 1
    report.seconds_before, report.seconds_after = best


def _bytes_of(model: Model) -> int:
    """Bytes of a model, including its external files."""
    contents = model.contents
    inner = sum(len(data) for data in contents.weights.values() if data is not None)
    return contents.proto.ByteSize() + inner + sum(size for _, _, size in contents.beside() or [])
