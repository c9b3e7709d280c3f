# SPDX-License-Identifier: Apache-2.0
"""Accuracy of quantised models: three networks are trained on handwritten digits, written as ONNX, and quantised in each mode.

python bench/quantised_digits.py [--only 'resnet'] [--reports] [--epochs 12]      (needs onnx and scikit-learn)

Prints of each the part of 449 held-out digits that is recognized, in f32 and quantised, signal to noise, bytes, and the
milliseconds of a call of 8 digits; with `--reports`, what `ngmlir quantize` prints.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

import ngmlir as ng  # noqa: E402
import ngmlir.numpy as nn  # noqa: E402
from ngmlir.frontends.onnx import load, quantize  # noqa: E402
from ngmlir.tools import digits  # noqa: E402

BATCH = 64
FORMS: dict[str, dict[str, Any]] = {
    "static": {},
    "static, percentile": {"method": "percentile"},
    "dynamic": {"mode": "dynamic"},
    "weights, 8 bits": {"mode": "weights"},
    "weights, 4 bits": {"mode": "weights", "bits": 4},
}


class Both(NamedTuple):
    """A value by its name in the ONNX graph, and as a tensor that has gradients."""

    name: str
    tensor: Any


class Net:
    """A network that is built twice: as an ONNX graph, and as a graph of ngmlir for training."""

    def __init__(self, x: Any, seed: int = 0):
        self.draw = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.variables: dict[str, Any] = {}
        self.known: list[Any] = []
        self.x = Both("x", x)

    def weight(self, *shape: int, scale: float) -> Both:
        name = f"w{len(self.variables)}"
        self.variables[name] = nn.variable((self.draw.standard_normal(shape) * scale).astype(np.float32))
        return Both(name, self.variables[name])

    def held(self, array: Any) -> str:
        name = f"k{len(self.known)}"
        self.known.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op: str, made: Any, *inputs: Both | str, **attributes: Any) -> Both:
        name = f"v{len(self.nodes)}"
        names = [i.name if isinstance(i, Both) else i for i in inputs]
        self.nodes.append(helper.make_node(op, names, [name], f"{op}_{len(self.nodes)}", **attributes))
        return Both(name, made)

    def linear(self, x: Both, inner: int, size: int) -> Both:
        w, b = self.weight(inner, size, scale=(2 / inner) ** 0.5), self.weight(size, scale=0)
        product = self.add("MatMul", x.tensor @ w.tensor, x, w)
        return self.sum(product, b)

    def sum(self, a: Both, b: Both) -> Both:
        return self.add("Add", a.tensor + b.tensor, a, b)

    def relu(self, x: Both) -> Both:
        return self.add("Relu", nn.maximum(x.tensor, 0), x)

    def convolution(self, x: Both, inner: int, size: int, window: int = 3, stride: int = 1) -> Both:
        w, b = (
            self.weight(size, inner, window, window, scale=(2 / inner) ** 0.5 / window),
            self.weight(size, scale=0),
        )
        pad, side = window // 2, x.tensor.shape[2]
        wide = nn.pad(x.tensor, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        parts = [
            wide[:, :, i : i + side : stride, j : j + side : stride]
            for i in range(window)
            for j in range(window)
        ]
        rows = nn.stack(parts, axis=2)  # batch, channels, places of the window, height, width
        count, out = rows.shape[0], rows.shape[3]
        rows = rows.reshape((count, inner * window * window, out * out)).transpose((0, 2, 1))
        made = rows @ w.tensor.reshape((size, inner * window * window)).T + b.tensor
        made = made.transpose((0, 2, 1)).reshape((count, size, out, out))
        return self.add("Conv", made, x, w, b, pads=[pad] * 4, strides=[stride] * 2)

    def norm(self, x: Both, size: int) -> Both:
        scale, shift = self.weight(size, scale=0), self.weight(size, scale=0)
        one = self.add("Add", scale.tensor + 1, scale, self.held(np.float32(1)))
        centred = x.tensor - x.tensor.mean(axis=-1, keepdims=True)
        made = centred / nn.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        return self.add("LayerNormalization", made * one.tensor + shift.tensor, x, one, shift, axis=-1)

    def gelu(self, x: Both) -> Both:
        half = self.add("Erf", nn.erf(x.tensor * 0.5**0.5), self.scaled(x, 0.5**0.5))
        wide = self.add("Add", half.tensor + 1, half, self.held(np.float32(1)))
        return self.scaled(self.add("Mul", x.tensor * wide.tensor, x, wide), 0.5)

    def scaled(self, x: Both, by: float) -> Both:
        return self.add("Mul", x.tensor * by, x, self.held(np.float32(by)))

    def reshaped(self, x: Both, *shape: int) -> Both:
        made = x.tensor.reshape((x.tensor.shape[0], *shape))
        return self.add("Reshape", made, x, self.held(np.array([0, *shape])))

    def turned(self, x: Both, *order: int) -> Both:
        return self.add("Transpose", x.tensor.transpose(order), x, perm=list(order))

    def product(self, a: Both, b: Both) -> Both:
        return self.add("MatMul", a.tensor @ b.tensor, a, b)

    def model(self, result: Both, values: dict[str, Any]) -> Any:
        """The network with these weights, for any number of digits."""
        given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 64])
        made = helper.make_tensor_value_info(result.name, onnx.TensorProto.FLOAT, ["n", 10])
        weights = [numpy_helper.from_array(np.asarray(values[name]), name) for name in self.variables]
        graph = helper.make_graph(self.nodes, "digits", [given], [made], [*weights, *self.known])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def mlp(net: Net) -> Both:
    wide = net.relu(net.linear(net.x, 64, 256))
    return net.linear(net.relu(net.linear(wide, 256, 128)), 128, 10)


def resnet(net: Net) -> Both:
    """Three residual blocks of 16, 32 and 64 channels."""
    x, width = net.relu(net.convolution(net.reshaped(net.x, 1, 8, 8), 1, 16)), 16
    for size in (16, 32, 64):
        stride = 1 if size == width else 2
        y = net.relu(net.convolution(x, width, size, stride=stride))
        y = net.convolution(y, size, size)
        skip = x if size == width else net.convolution(x, width, size, 1, stride)
        x, width = net.relu(net.sum(y, skip)), size
    mean = net.add("GlobalAveragePool", x.tensor.mean(axis=(2, 3), keepdims=True), x)
    return net.linear(net.reshaped(mean, width), width, 10)


def encoder(net: Net, width: int = 64, heads: int = 4) -> Both:
    """Two layers as of BERT; the rows of a picture are the tokens."""
    x = net.linear(net.reshaped(net.x, 8, 8), 8, width)
    x = net.norm(net.sum(x, net.weight(8, width, scale=0.3)), width)
    for _ in range(2):
        q, k, v = (net.reshaped(net.linear(x, width, width), 8, heads, width // heads) for _ in range(3))
        scores = net.scaled(
            net.product(net.turned(q, 0, 2, 1, 3), net.turned(k, 0, 2, 3, 1)), (width / heads) ** -0.5
        )
        shares = net.add("Softmax", nn.softmax(scores.tensor, axis=-1), scores, axis=-1)
        mixed = net.reshaped(net.turned(net.product(shares, net.turned(v, 0, 2, 1, 3)), 0, 2, 1, 3), 8, width)
        x = net.norm(net.sum(x, net.linear(mixed, width, width)), width)
        inner = net.gelu(net.linear(x, width, 4 * width))
        x = net.norm(net.sum(x, net.linear(inner, 4 * width, width)), width)
    mean = net.add("ReduceMean", x.tensor.mean(axis=1), x, axes=[1], keepdims=0)
    return net.linear(mean, width, 10)


NETWORKS: dict[str, Callable[[Net], Both]] = {"mlp": mlp, "resnet": resnet, "encoder": encoder}


def trained(build: Callable[[Net], Both], data: Any, epochs: int) -> Any:
    """The ONNX model of a network, trained by Adam."""
    x, labels = nn.placeholder((BATCH, 64), "float32"), nn.placeholder((BATCH,), "int64")
    net = Net(x)
    result = build(net)
    shares = nn.log_softmax(result.tensor, axis=1)
    loss = -nn.take_along_axis(shares, labels[:, None], axis=1).mean()
    rate = nn.placeholder((), "float32")
    updates: list[Any] = []
    with ng.Op.saved_user_deps():
        for variable in net.variables.values():
            slope = ng.deriv(loss, variable)
            first, second = (nn.persistent_tensor(np.zeros(variable.shape, "float32")) for _ in range(2))
            one, two = first * 0.9 + slope * 0.1, second * 0.99 + slope * slope * 0.01
            moved = variable - rate * one / (nn.sqrt(two) + 1e-6)
            updates.append(
                ng.sequential([ng.assign(first, one), ng.assign(second, two), ng.assign(variable, moved)])
            )
        transformer = ng.transformers.make_transformer("cpu")
        step = transformer.computation([loss, ng.doall(updates)], x, labels, rate)
    steps, done = epochs * (len(data.train_labels) // BATCH), 0
    for images, classes in digits.batches(data, epochs):
        step(images, classes.astype(np.int64), np.float32(3e-3 * (1 - done / steps)))
        done += 1
    values = {name: transformer.get_tensor_view_value(v) for name, v in net.variables.items()}
    return net.model(result, values)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--reports", action="store_true", help="print the whole reports of the mode static")
    parser.add_argument("--keep", default="", help="a folder for the models")
    given = parser.parse_args()
    data = digits.load()

    def right(model: Any) -> float:
        found = ng.compile(load(model), target="cpu")(data.test_images)[0].argmax(1)
        return float(np.mean(found == data.test_labels))

    for name, build in NETWORKS.items():
        if not re.search(given.only, name):
            continue
        wide = trained(build, data, given.epochs)
        if given.keep:
            Path(given.keep).mkdir(parents=True, exist_ok=True)
            onnx.save(wide, Path(given.keep) / f"{name}.onnx")
        samples = [{"x": data.train_images[k * BATCH : (k + 1) * BATCH]} for k in range(8)]
        for form, settings in FORMS.items():
            made = quantize(wide, samples, timed=True, **settings)
            report, (output,) = made.report, made.report.outputs
            assert report.seconds_before is not None and report.seconds_after is not None
            print(
                f"{name:8s} {form:18s} recognized {100 * right(wide):.1f} -> {100 * right(made.model):.1f} %"
                f"  SNR {output.snr:5.1f} dB  {report.bytes_before / 1e3:6.1f} -> {report.bytes_after / 1e3:6.1f} kB"
                f"  {report.seconds_before * 1e3:.3f} -> {report.seconds_after * 1e3:.3f} ms",
                flush=True,
            )
            if given.keep:
                made.save(Path(given.keep) / f"{name}-{form.replace(', ', '-').replace(' ', '')}.onnx")
            if given.reports and form == "static":
                print(f"\n{report}")


if __name__ == "__main__":
    main()
