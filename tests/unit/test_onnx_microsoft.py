# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft against NumPy on random nodes, and against what ONNX Runtime gave for some of them.

`python bench/onnx_microsoft.py --record tests/unit/onnx_microsoft.npz` writes what it gives (onnxruntime is needed).
"""

from __future__ import annotations

import inspect
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import microsoft_attention_cases  # noqa: E402
import microsoft_attention_references  # noqa: E402
import microsoft_cases  # noqa: E402
import microsoft_quantized_cases  # noqa: E402
from microsoft_draw import CASES, MICROSOFT, Case, chosen_weights, difference, drawn, model_of  # noqa: E402
from microsoft_references import REFERENCES  # noqa: E402
from onnx import helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.frontends.onnx.nodes import OPERATORS  # noqa: E402
from ngmlir.frontends.onnx.reader import Reader  # noqa: E402
from ngmlir.frontends.onnx.schemas import SCHEMAS  # noqa: E402
from ngmlir.support.diagnostics import Limit, NgmlirError, UserError  # noqa: E402

assert Reader and microsoft_attention_cases and microsoft_cases and microsoft_quantized_cases
assert microsoft_attention_references
#: These are functions of the standard's operators, which have tests of their own; recorded results are compared.
DELEGATED = {"GridSample"}
RECORDED = Path(__file__).with_name("onnx_microsoft.npz")


def ran(op: str, made: Case, seed: int, target: str) -> list[Any]:
    model, fed = model_of(op, made, chosen_weights(made, seed))
    return list(ng.compile(load(model), target=target)(*fed.values()))


def expected(op: str, made: Case, like: list[Any]) -> list[Any]:
    """What NumPy gives for the outputs that are asked for, in the types of those."""
    compute = REFERENCES[op]
    more = {"op": op} if "op" in inspect.signature(compute).parameters else {}
    inputs = [None if a is None else np.asarray(a) for a in made.inputs]
    with np.errstate(all="ignore"):
        found = compute(inputs, made.attributes, **more)
    found = found if isinstance(found, tuple) else (found,)
    return [np.asarray(found[i]).astype(a.dtype) for i, a in zip(made.outputs, like, strict=True)]


def agrees(op: str, seed: int, target: str) -> None:
    made = drawn(op, seed)
    got = ran(op, made, seed, target)
    assert difference(made, got, expected(op, made, got)) == "", f"seed {seed}"


@pytest.mark.parametrize("op", sorted(set(CASES) - DELEGATED))
def test_nodes_give_what_numpy_gives(op: str) -> None:
    for seed in range(6):
        agrees(op, seed, "numpy")


@pytest.mark.parametrize("op", sorted(set(CASES) - DELEGATED))
def test_compiled_nodes_give_what_numpy_gives(op: str) -> None:
    agrees(op, 100, "cpu")


@cache
def recorded() -> tuple[dict[str, list[int]], dict[str, Any]]:
    with np.load(RECORDED) as held:
        arrays = dict(held)
    return json.loads(arrays.pop("cases").tobytes()), arrays


@pytest.mark.parametrize("op", sorted(CASES))
def test_nodes_give_what_onnx_runtime_gave(op: str) -> None:
    cases, arrays = recorded()
    for seed in cases.get(op, []):
        made = drawn(op, seed)
        outputs = [arrays[f"{op}.{seed}.{i}"] for i in made.outputs]
        assert difference(made, ran(op, made, seed, "numpy"), outputs) == "", f"seed {seed}"


def test_every_operator_has_cases() -> None:
    assert {op for domain, op in OPERATORS if domain == MICROSOFT} | {"SimplifiedLayerNormalization"} == set(
        CASES
    )
    assert set(CASES) - DELEGATED == set(REFERENCES)
    # Most have been compared with ONNX Runtime; it has no kernels of the others for CPUs.
    assert len(recorded()[0]) >= 55


def test_differences_are_found() -> None:
    made = drawn("QLinearAdd", 0)
    got = ran("QLinearAdd", made, 0, "numpy")
    wrong = [np.where(got[0] < 100, got[0] + 2, got[0] - 2).astype(got[0].dtype)]
    assert difference(made, wrong, got)
    made = drawn("Gelu", 0)
    got = ran("Gelu", made, 0, "numpy")
    assert difference(made, [got[0] + np.asarray(0.01, got[0].dtype) * abs(got[0]).max()], got)


# ---- schemas


def test_schemas_are_those_of_handlers() -> None:
    for key, schema in SCHEMAS.items():
        _, *parameters = inspect.signature(OPERATORS[key]).parameters.values()
        assert [p.name for p in parameters] == [i.name for i in schema.inputs]
    schema = SCHEMAS[MICROSOFT, "EmbedLayerNormalization"]
    assert (schema.min_input, schema.max_input, schema.max_output) == (7, 9, 3)


def node(op: str, inputs: list[str], **attributes: Any) -> Any:
    """A model of one node whose inputs are numbers in f32."""
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 4]) for n in inputs if n]
    made = helper.make_node(op, inputs, ["y"], domain=MICROSOFT, name="here", **attributes)
    graph = helper.make_graph([made], "g", ports, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    )


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        (lambda: node("BiasGeluu", ["a", "b"]), Limit, "com.microsoft.BiasGeluu[^?]*did you mean BiasGelu?"),
        (
            lambda: node("BeamSearch", ["a", "b"]),
            Limit,
            "does not have the operator com.microsoft.BeamSearch",
        ),
        (lambda: node("Gelu", ["a", "b"]), UserError, "has 2 inputs; there are 1 to 1"),
        (lambda: node("SkipLayerNormalization", ["a", "", "b"]), UserError, "lacks the input 'skip'"),
        (lambda: node("Attention", ["a", "b"]), UserError, "lacks the attribute 'num_heads'"),
        (lambda: node("QuickGelu", ["a"], alpa=1.0), UserError, "no attribute 'alpa'; did you mean alpha"),
        (lambda: node("QuickGelu", ["a"], alpha=1), UserError, "'alpha' is no FLOAT"),
    ],
)
def test_what_is_no_use_of_an_operator_is_refused(model: Any, kind: type[NgmlirError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        load(model())
    assert "here" in str(caught.value)


def test_what_is_not_written_yet_is_told_when_it_is_compiled() -> None:
    run = ng.compile(load(node("BiasDropout", ["a", "b", "", "", ""])), target="numpy")
    np.testing.assert_array_equal(run(np.ones((2, 4)), np.ones((2, 4)))[0], np.full((2, 4), 2, np.float32))
    made = drawn("CDist", 0)
    made.attributes["metric"] = "cosine"
    with pytest.raises(Limit, match="the_CDist.*the distance 'cosine'"):
        ran("CDist", made, 0, "numpy")
