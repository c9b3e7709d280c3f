# SPDX-License-Identifier: Apache-2.0
"""What is said of the operators of programs: as JSON, as a page, and in the help of layers."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.decl.operator_pages import default_text
from ngmlir.frontends.fluid.layers import made
from ngmlir.programs.catalogue import REGISTRY
from ngmlir.programs.definition import python_name
from ngmlir.tools.ngopt import main


def _records() -> list[dict[str, Any]]:
    out = io.StringIO()
    assert main(["--doc-ops=json"], stdout=out) == 0
    return json.loads(out.getvalue())


def test_the_json_says_what_the_entries_say() -> None:
    records = {record["type"]: record for record in _records()}
    assert list(records) == sorted(records) and set(REGISTRY.entries) <= set(records)
    for type, record in records.items():
        entry = REGISTRY.get(type).entry
        assert [slot["name"] for slot in record["inputs"]] == [slot.name for slot in entry.inputs]
        assert [slot["name"] for slot in record["outputs"]] == [slot.name for slot in entry.outputs]
        assert {a["name"]: (a["type"], a["default"], a["required"]) for a in record["attrs"]} == {
            a.name: (a.type, a.default, a.required) for a in entry.attributes
        }
        for each in (record, *record["inputs"], *record["outputs"], *record["attrs"]):
            assert each["comment"].endswith(".")


@pytest.mark.parametrize("name", made.NAMES)
def test_the_help_of_a_layer_names_its_slots_and_attributes(name: str) -> None:
    entry, text = REGISTRY.get(name).entry, getattr(fluid.layers, name).__doc__
    assert text.startswith(entry.doc + "\n\nParameters\n----------\n")
    for slot in entry.inputs:
        assert f"\n{slot.name.lower()} : " in text and slot.doc in text
    for field in entry.attributes:
        assert f"\n{python_name(field.name)} : {field.type}" in text and field.doc in text
        assert all(str(limit) in text for limit in field.limits)
        assert field.required or f"default {default_text(field)}\n" in text
    for slot in entry.outputs:
        assert (
            slot.intermediate
            or f"\n{slot.name} : Variable\n    {slot.doc}" in text.partition("\nReturns\n")[2]
        )


@pytest.mark.parametrize("given", [{"lambda_": 1.0}, {"lambda": 1.0}])
def test_an_attribute_that_is_called_like_a_keyword(given: dict[str, float]) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.fill_constant([1], "float32", 3.0)
        y = fluid.layers.softshrink(x, **given)
        assert fluid.Executor().run(fetch_list=[y]) == [[2.0]]


@pytest.mark.parametrize("name", made.NAMES)
def test_every_layer_that_is_one_operator_can_be_called(name: str) -> None:
    entry = REGISTRY.get(name).entry
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        logical = name.startswith("logical_")
        x = fluid.layers.fill_constant([2, 4, 3, 3], "bool" if logical else "float32", 1)
        given: dict[str, Any] = {s.name.lower(): [x] if s.many else x for s in entry.inputs if not s.optional}
        given |= _NEEDED.get(name, {})
        if name == "mul":
            given["y"] = fluid.layers.fill_constant([36, 2], "float32", 1)
        if name == "scatter":
            given["ids"] = fluid.layers.fill_constant([2], "int32", 0)
        found = getattr(fluid.layers, name)(**given)
        assert isinstance(found, fluid.Variable) and found.op is not None and found.op.type == name


_NEEDED: dict[str, dict[str, Any]] = {
    "clip": {"min": 0.0, "max": 1.0},
    "clip_by_norm": {"max_norm": 1.0},
    "maxout": {"groups": 2},
    "slice": {"axes": [0], "starts": [0], "ends": [1]},
    **{n: {"shape": [2, 3]} for n in ("gaussian_random", "uniform_random")},
    **{f"{n}_random_batch_size_like": {"shape": [-1, 3]} for n in ("gaussian", "uniform")},
}
