# SPDX-License-Identifier: Apache-2.0
"""`Attention` of the standard: random nodes of all its forms against onnx's reference, and which become one kernel."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx", minversion="1.20")
from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.support.diagnostics import UserError  # noqa: E402

NAMES = ("Q", "K", "V", "mask", "past_key", "past_value", "lengths")
NEWEST = min(25, onnx.defs.onnx_opset_version())


def model(opset: int, inputs: dict[str, Any], outputs: list[str], attributes: dict[str, Any]) -> Any:
    given = [name if name in inputs else "" for name in NAMES[: max(map(NAMES.index, inputs)) + 1]]
    code = helper.np_dtype_to_tensor_dtype
    node = helper.make_node("Attention", given, outputs, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(k, code(v.dtype), v.shape) for k, v in inputs.items()],
        [helper.make_tensor_value_info(name, code(inputs["Q"].dtype), None) for name in outputs if name],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def drawn(seed: int) -> tuple[int, dict[str, Any], list[str], dict[str, Any]]:
    random = np.random.default_rng(seed)

    def pick(*values: Any) -> Any:
        return values[random.integers(len(values))]

    opset, element = pick(23, 24, NEWEST), pick(np.float32, np.float32, np.float64)
    batch, shared, group, length, keys = pick(1, 3), pick(1, 2), pick(1, 3), pick(1, 5, 17), pick(3, 16, 33)
    size, width, past = pick(4, 8), pick(5, 8), pick(0, 0, 7)

    def floats(*shape: int) -> Any:
        return random.standard_normal(shape).astype(element)

    sides = [floats(batch, group * shared, length, size)]
    sides += [floats(batch, shared, keys, each) for each in (size, width)]
    attributes: dict[str, Any] = {}
    if pick(True, False):
        attributes = {"q_num_heads": group * shared, "kv_num_heads": shared}
        sides = [x.transpose(0, 2, 1, 3).reshape(batch, x.shape[2], -1) for x in sides]
    inputs, outputs = dict(zip(NAMES, sides, strict=False)), ["Y", "", "", ""]
    if past:
        inputs |= {
            name: floats(batch, shared, past, n) for name, n in zip(NAMES[4:6], (size, width), strict=True)
        }
        outputs[1:3] = ["present_key", "present_value"]
    kind, total = pick("none", "seen", "bias"), keys + past
    # onnx's reference does not spread masks before it makes them causal.
    shape = pick((length, total), (batch, 1, length, total), (group * shared, length, total))
    if kind == "seen":
        inputs["mask"] = random.random(shape) < pick(0.3, 0.9)
    if kind == "bias":
        inputs["mask"] = np.where(random.random(shape) < 0.3, -np.inf, floats(*shape)).astype(element)
    if opset >= 24 and not past and pick(True, False):
        inputs["lengths"] = random.integers(1, keys + 1, batch)
    inputs = {name: inputs[name] for name in NAMES if name in inputs}
    attributes["is_causal"] = pick(0, 1)
    mode = pick(None, 0, 1, 2, 3)
    if mode is not None:
        attributes["qk_matmul_output_mode"], outputs[3] = mode, "shown"
    if mode != 0 and pick(True, False):  # with a cap, onnx's reference shows scores after it
        attributes["softcap"] = 2.0
    if opset >= 25:
        attributes |= {"left_window_size": pick(-1, 0, 4), "right_window_size": pick(-1, 0, 4)}
    if pick(True, False):
        attributes |= {"softmax_precision": 11, "scale": 0.25}
    return opset, inputs, outputs, attributes


@pytest.mark.parametrize(("target", "seeds"), [("numpy", range(120)), ("cpu", range(200, 212))])
def test_random_nodes(target: str, seeds: range) -> None:
    for seed in seeds:
        opset, inputs, outputs, attributes = drawn(seed)
        made = model(opset, inputs, outputs, attributes)
        expected = ReferenceEvaluator(made).run(None, inputs)
        for want, got in zip(expected, ng.compile(load(made), target=target)(*inputs.values()), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), seed
            np.testing.assert_allclose(got, want, atol=2e-5, err_msg=f"seed {seed}")


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("form", ["plain", "causal", "seen", "bias", "past", "lengths", "window", "capped"])
def test_one_kernel_without_scores(form: str, rank: int) -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, n, 32, 16)).astype(np.float32) for n in (4, 2, 2))
    attributes: dict[str, Any] = {"is_causal": int(form in ("causal", "past", "lengths"))}
    if form == "window":
        attributes |= {"left_window_size": 5, "right_window_size": 0}
    if form == "capped":
        attributes["softcap"] = 2.0
    more: dict[str, Any] = {
        "seen": {"mask": random.random((2, 1, 32, 32)) < 0.5},
        "bias": {"mask": random.standard_normal((4, 32, 32)).astype(np.float32)},
        "past": {name: random.standard_normal((2, 2, 9, 16)).astype(np.float32) for name in NAMES[4:6]},
        "lengths": {"lengths": np.array([32, 8])},
    }
    if rank == 3:
        q, k, v = (x.transpose(0, 2, 1, 3).reshape(2, 32, -1) for x in (q, k, v))
        attributes |= {"q_num_heads": 4, "kv_num_heads": 2}
    inputs = {"Q": q, "K": k, "V": v} | more.get(form, {})
    outputs = ["Y", "present_key", "present_value"] if form == "past" else ["Y"]
    made = model(NEWEST, inputs, outputs, attributes)
    run = ng.compile(load(made), target="cpu", profile=True)
    expected = ReferenceEvaluator(made).run(None, inputs)
    np.testing.assert_allclose(run(*inputs.values())[0], expected[0], atol=2e-5)
    kernels = [each["kernel"] for each in run.profile.to_json()["kernels"]]
    assert "attention" in kernels
    assert not any("dot" in name for name in kernels)


@pytest.mark.parametrize("element", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("queries", "fused"), [(32, True), (1, False)])
def test_short_floats(element: Any, queries: int, fused: bool) -> None:
    """One kernel, whose results are rounded once. A single query reads keys as they are."""
    random = np.random.default_rng(0)
    shapes = {"Q": (2, 4, queries, 16), "K": (2, 2, 32, 16), "V": (2, 2, 32, 16)}
    inputs = {name: random.standard_normal(shape).astype(element) for name, shape in shapes.items()}
    run = ng.compile(load(model(NEWEST, inputs, ["Y"], {})), target="cpu", profile=True)
    wide = {name: x.astype(np.float32) for name, x in inputs.items()}
    (want,) = ReferenceEvaluator(model(NEWEST, wide, ["Y"], {})).run(None, wide)
    (found,) = run(*inputs.values())
    step = 2.0**-11 if element is np.float16 else 2.0**-8
    np.testing.assert_allclose(np.asarray(found, np.float32), want, rtol=step, atol=2e-5)
    kernels = [each["kernel"] for each in run.profile.to_json()["kernels"]]
    assert ("attention" in kernels) == fused == (not any("dot" in name for name in kernels))


def test_heads_that_do_not_fit() -> None:
    x = np.zeros((1, 3, 4, 8), np.float32)
    with pytest.raises(UserError, match="3 heads of queries share 2 of keys"):
        ng.compile(load(model(23, {"Q": x, "K": x[:, :2], "V": x[:, :2]}, ["Y"], {})))(x, x[:, :2], x[:, :2])
