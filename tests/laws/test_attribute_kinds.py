# SPDX-License-Identifier: Apache-2.0
"""Whatever attribute stands under whatever name of whatever op: it is refused with a place, or it is right. Never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from examples import OPS, wrapped

from ngmlir.ir.attributes import (
    ArrayAttr,
    Attribute,
    AxesAttr,
    DenseArrayAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
    boolean,
    integers,
    sorted_attributes,
)
from ngmlir.ir.core import Module, Op, op_name
from ngmlir.ir.elements import ElementsAttr
from ngmlir.ir.types import FunctionType, TensorType, f32, f64, i1, i8, i64
from ngmlir.ir.verifier import verify
from ngmlir.op_graph.archive import from_module
from ngmlir.ops.accesses import check_accesses
from ngmlir.ops.copies import check_copies
from ngmlir.ops.words import from_text, to_text
from ngmlir.rewrite.contracts import STAGES
from ngmlir.rewrite.stages import violations
from ngmlir.support.diagnostics import Diagnostic, Limit, UserError
from ngmlir.transformers.open_functions import open_functions

#: One attribute of each kind, and some that are right by kind and wrong otherwise.
SAMPLES: tuple[Attribute, ...] = (
    IntegerAttr(1, i64),
    IntegerAttr(-1, i64),
    IntegerAttr(-(1 << 63), i64),
    IntegerAttr(1, i8),
    boolean(True),
    FloatAttr(0x3F800000, f32),
    FloatAttr(0, f64),
    StringAttr("x"),
    StringAttr(""),
    StringAttr("\0"),
    SymbolRefAttr("nothing"),
    SymbolRefAttr("a", "b"),
    TypeAttr(f32),
    TypeAttr(FunctionType((), ())),
    UnitAttr(),
    ArrayAttr(()),
    ArrayAttr((IntegerAttr(1, i64), TypeAttr(f32))),
    ArrayAttr((DictAttr(()),)),
    ArrayAttr((DictAttr((("ng.name", IntegerAttr(1, i64)),)),)),
    DictAttr(()),
    DictAttr((("by", UnitAttr()), ("tile", ArrayAttr((TypeAttr(f32), IntegerAttr(32, i64)))))),
    DictAttr((("tile", DictAttr(())),)),
    integers(()),
    integers((1, -1, 5)),
    DenseArrayAttr(i1, (1,)),
    DenseArrayAttr(f32, (0,)),
    AxesAttr("N"),
    OpaqueAttr("#d.x"),
    ElementsAttr(b"\0" * 4, TensorType((1,), f32)),
    ElementsAttr(b"", TensorType((0,), f32)),
)

#: Attributes that any op may have, and those that only functions have.
COMMON = ("ng.schedule", "ng.name")
FUNCTIONS = (
    *("sym_name", "sym_visibility", "arg_attrs", "res_attrs", "function_type"),
    *(
        "ng.tied",
        "ng.arguments",
        "ng.results",
        "ng.constants",
        "ng.prepared",
        "ng.checks",
        "ng.parameters",
        "ng.returns",
    ),
)


def names(op: Op) -> list[str]:
    assert op.definition is not None
    fields = [field.name for field in op.definition.attributes]
    functions = FUNCTIONS if "function" in op.definition.traits else ()
    return list(dict.fromkeys([*op.attributes, *fields, *COMMON, *functions]))


def damaged(module: Module, name: str) -> Iterator[str]:
    """Gives what was changed while each attribute of the ops called `name` is each sample; then all is as before."""
    for op in [op for op in module.walk() if op_name(op) == name]:
        before = op.attributes
        for attribute in names(op):
            for sample in SAMPLES:
                for each in module.walk():  # nobody else holds this module: its ops may change for once
                    each.verified, each._kind = False, None
                op.attributes = sorted_attributes({**before, attribute: sample})
                yield f"{attribute} = {sample}"
        op.attributes = before


def checked(module: Module) -> list[Diagnostic]:
    """All that any check says of a module."""
    found = list(verify(module))
    for check in (check_accesses, check_copies):
        if found:
            break
        try:
            check(module)
        except UserError as error:
            found += error.diagnostics
    if not found:
        for stage in STAGES:
            violations(module, stage)
        for read in (open_functions, from_module):
            with suppress(UserError, Limit):
                read(module)
    return found


@pytest.mark.parametrize("name", list(OPS))
def test_every_attribute_of_every_kind(name: str) -> None:
    module = from_text(wrapped(OPS[name]))
    count = 0
    for what in damaged(module, name):
        count += 1
        try:
            said = checked(module)
            assert all(each.location.known for each in said)
            printed = to_text(module, generic=True)
            again = from_text(printed, unregistered=True, verify=False)
            assert to_text(again, generic=True) == printed
            to_text(module)
        except BaseException as error:
            error.add_note(f"{name} with {what}")
            raise
    assert count
