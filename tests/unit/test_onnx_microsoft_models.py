# SPDX-License-Identifier: Apache-2.0
"""Models of com.microsoft: decoders with caches, and networks that the tools of ONNX Runtime have written.

`python bench/onnx_tools.py --only 'squeezed|reader' --record tests/unit/onnx_tools.npz` writes the latter (onnxruntime and torch
are needed); without `--only` it compares many more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from decoder_models import DECODERS, WORDS, fed  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.frontends.onnx.nodes import OPERATORS  # noqa: E402
from ngmlir.frontends.onnx.reader import Reader  # noqa: E402

assert Reader
#: What the tools wrote, of all networks of bench/onnx_tools.py.
WRITTEN = (
    "Attention BiasGelu DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul FastGelu FusedConv FusedGemm FusedMatMul "
    "GatherBlockQuantized Gelu MatMulBnb4 MatMulIntegerToFloat MatMulNBits MultiHeadAttention PackedAttention QAttention QGemm "
    "QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid "
    "QLinearSoftmax QuantizeLinear QuickGelu RemovePadding RestorePadding SkipLayerNormalization "
    "SkipSimplifiedLayerNormalization"
).split()


def test_what_tools_write_is_read() -> None:
    assert [op for op in WRITTEN if ("com.microsoft", op) not in OPERATORS] == []


def tokens(batch: int, length: int) -> Any:
    return np.random.default_rng(3).integers(0, WORDS, (batch, length))


@pytest.mark.parametrize("name", DECODERS)
def test_a_cache_that_grows_gives_what_all_tokens_at_once_give(name: str) -> None:
    model = DECODERS[name]()
    run = ng.compile(load(model), target="numpy")
    ids, past, logits = tokens(2, 6), None, []
    for first, last in ((0, 3), (3, 4), (4, 5), (5, 6)):
        made = run(**fed(model, ids[:, first:last], past))
        past = list(made)[1:]
        logits.append(made[0])
    whole = run(**fed(model, ids, None))
    np.testing.assert_allclose(np.concatenate(logits, 1), whole[0], rtol=1e-4, atol=1e-4)
    for grown, once in zip(past or (), list(whole)[1:], strict=True):
        np.testing.assert_allclose(grown, once, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["llama-4bits", "gpt2"])
def test_compiled_decoders_give_what_numpy_gives(name: str) -> None:
    model = DECODERS[name]()
    runs = [ng.compile(load(model), target=target) for target in ("numpy", "cpu")]
    ids, past = tokens(1, 4), None
    for first, last in ((0, 3), (3, 4)):
        given = fed(model, ids[:, first:last], past)
        expected, got = (list(run(**given)) for run in runs)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        past = expected[1:]


def test_one_buffer_gives_what_a_cache_that_grows_gives() -> None:
    """A past as long as the longest sequence: each call writes its places, and present has the same length."""
    model = DECODERS["llama"]()
    run = ng.compile(load(model), target="numpy")
    ids = tokens(1, 5)
    whole = run(**fed(model, ids, None))
    past = [np.full((1, 2, 8, 16), 7, np.float32) for _ in range(4)]  # what no call has written is not read
    for first, last in ((0, 3), (3, 4), (4, 5)):
        given = fed(model, ids[:, first:last], past)
        made = run(**{**given, "attention_mask": np.ones((1, last), np.int64)})
        past = list(made)[1:]
    np.testing.assert_allclose(made[0], whole[0][:, -1:], rtol=1e-4, atol=1e-4)
    for buffer, once in zip(past, list(whole)[1:], strict=True):
        assert buffer.shape[2] == 8
        np.testing.assert_allclose(buffer[:, :, :5], once, rtol=1e-4, atol=1e-4)


def recorded() -> dict[str, Any]:
    with np.load(Path(__file__).with_name("onnx_tools.npz")) as held:
        return dict(held)


RECORDED = recorded()


@pytest.mark.parametrize("name", [name for name in RECORDED if "/" not in name])
def test_models_that_tools_wrote_give_what_onnx_runtime_gave(name: str) -> None:
    network = name.partition("-")[0]
    inputs = {key.split("/")[2]: a for key, a in RECORDED.items() if key.startswith(f"{network}/in/")}
    results = [a for key, a in RECORDED.items() if key.startswith(f"{name}/out/")]
    model = load(RECORDED[name].tobytes())
    for target in ("numpy", "cpu"):
        got = ng.compile(model, target=target)(**inputs)
        for a, b in zip(got, results, strict=True):
            assert a.dtype == b.dtype
            # A step of integers that stand for activations in a middle layer is as much as this.
            room = 2e-2 if "operators" in name or "pairs" in name else 1e-4
            np.testing.assert_allclose(a, b, rtol=room, atol=room * abs(b).max())
