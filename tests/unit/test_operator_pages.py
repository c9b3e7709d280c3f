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
            assert each["comment"].endswith(".") and each["comment"][0] == each["comment"][0].upper()


@pytest.mark.parametrize("name", made.NAMES)
def test_the_help_of_a_layer_names_its_slots_and_attributes(name: str) -> None:
    entry, text = REGISTRY.get(name).entry, getattr(fluid.layers, name).__doc__
    assert text.startswith(entry.doc + "\n\nParameters\n----------\n")
    for slot in entry.inputs:
        assert f"\n{slot.name.lower()} : " in text and slot.doc in text
    for field in entry.attributes:
        assert f"\n{field.name} : {field.type}" in text and field.doc in text
        assert all(str(limit) in text for limit in field.limits)
        assert field.required or f"default {default_text(field)}\n" in text
    for slot in entry.outputs:
        assert (
            slot.intermediate
            or f"\n{slot.name} : Variable\n    {slot.doc}" in text.partition("\nReturns\n")[2]
        )
