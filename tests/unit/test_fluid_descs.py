# SPDX-License-Identifier: Apache-2.0
"""Descriptions of programs, what is said of operators, and operators that run by themselves."""

from __future__ import annotations

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import core
from ngmlir.frontends.fluid.op import Operator
from ngmlir.support.diagnostics import UserError

PLACES = [fluid.NumpyPlace(), fluid.CPUPlace()]


def test_a_program_is_built_of_descriptions() -> None:
    program = core.ProgramDesc()
    block = program.block(0)
    assert (block.id, block.parent, program.num_blocks()) == (0, -1, 1)
    x = block.var(b"x")
    x.set_shape([-1, 4])
    x.set_dtype(core.VarDesc.VarType.FP64)
    x.set_lod_level(1)
    x.set_persistable(True)
    assert (x.name(), x.shape(), x.dtype(), x.lod_level(), x.persistable()) == (
        "x", [-1, 4], core.VarDesc.VarType.FP64, 1, True,
    )  # fmt: skip
    block.var("y")
    op = block.append_op()
    op.set_type("scale")
    op.set_input(b"X", [b"x"])
    op.set_output("Out", ["y"])
    op.set_attr("scale", 3.0)
    op.check_attrs()
    op.infer_var_type(block)
    op.infer_shape(block)
    assert block.var("y").shape() == [-1, 4] and block.var("y").dtype() == core.VarDesc.VarType.FP64
    assert op.attr_type("scale") == core.AttrType.FLOAT
    text = "program.op scale {X = [@x]} -> {Out = [@y]} with {bias = 0.0 : f64, bias_after_scale = true, scale = 3.0 : f64"
    assert text in str(fluid.Program.parse_from_string(program.serialize_to_string()))


def test_descriptions_show_what_the_program_says() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.layers.data("x", [4])
        y = fluid.layers.scale(x, scale=2.0)
    block = program.desc.block(0)
    assert block.op_size() == 1 and block.op(0).output("Out") == [y.name]
    assert {v.name() for v in block.all_vars()} == {"x", y.name}
    block._rename_var(y.name, "z")
    assert program.global_block().ops[0].output("Out") == ["z"] and y.name == "z"
    block._remove_op(0, 1)
    block._remove_var("z")
    assert not program.global_block().ops and block.find_var("z") is None
    inner = program.desc.append_block(block)
    assert inner.parent == 0 and inner.find_var_recursive("x") is not None and inner.find_var("x") is None


def test_an_operator_by_itself_takes_any_attributes() -> None:
    op = core.OpDesc()
    op.set_type("mine")
    op.set_input("X", ["a", "b"])
    for name, value in {
        "i": 1,
        "f": 2.0,
        "s": "text",
        "b": True,
        "is": [1, 2],
        "ss": ["p", "q"],
        "bs": [True],
    }.items():
        op.set_attr(name, value)
        assert op.attr(name) == value and op.has_attr(name)
    copy = core.OpDesc()
    copy.copy_from(op)
    copy.rename_input("a", "c")
    assert (
        copy.input_arg_names() == ["c", "b"]
        and op.input_arg_names() == ["a", "b"]
        and copy.attr("s") == "text"
    )


def test_gradients_as_descriptions() -> None:
    op = core.OpDesc("mul", {"X": ["x"], "Y": ["y"]}, {"Out": ["o"]})
    op.check_attrs()
    (made,), names = core.get_grad_op_desc(op, {"y@GRAD"}, [])
    assert made.type() == "mul_grad" and made.input("Out@GRAD") == ["o@GRAD"]
    assert made.output_arg_names() == ["x@GRAD"] and names == {"x@GRAD": "x"}


def test_the_part_that_a_target_needs() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.layers.data("x", [4])
        fluid.layers.scale(x, scale=2.0)
        fluid.layers.scale(x, scale=3.0)
    kept = core.prune(program.desc, [[0, 1]])
    assert kept.block(0).op_size() == 1 and kept.block(0).op(0).attr("scale") == 3.0


def test_what_is_said_of_operators() -> None:
    protos = {proto.type: proto for proto in core.get_all_op_protos()}
    assert len(protos) >= 170
    (x,) = protos["sum"].inputs
    assert (x.name, x.duplicable) == ("X", True)
    assert {a.name for a in protos["scale"].attrs if not a.generated} == {"scale", "bias", "bias_after_scale"}
    assert Operator.get_op_inputs("mul") == [("X", False), ("Y", False)]
    assert fluid.framework.OpProtoHolder.instance().get_op_proto("mul") is protos["mul"]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_an_operator_runs_by_itself(place: fluid.Place) -> None:
    scope = fluid.Scope()
    scope.var("x").get_tensor().set(np.array([[1, 2]], np.float32), place)
    scope.var("w").get_tensor().set(np.array([[3], [4]], np.float32), place)
    out = scope.var("out").get_tensor()
    op = Operator("mul", X="x", Y="w", Out="out")
    assert op.type() == "mul" and op.inputs() == {"X": ["x"], "Y": ["w"]}
    op.run(scope, place)
    assert np.array(out).tolist() == [[11]]
    scope.var("x").get_tensor().set(np.array([[1, 0], [0, 1]], np.float32), place)
    op.run(scope, place)
    assert np.array(out).tolist() == [[3], [4]]
    Operator("sum", X=["x", "x"], Out="x").run(scope, place)
    assert np.array(scope.find_var("x").get_tensor()).tolist() == [[2, 0], [0, 2]]  # pyright: ignore[reportOptionalMemberAccess]


def test_an_operator_by_itself_says_what_is_wrong() -> None:
    with pytest.raises(UserError, match="neither a slot nor an attribute 'Z'"):
        Operator("mul", X="x", Y="w", Z="out")
    with pytest.raises(UserError, match="there is no operator 'mull'"):
        Operator("mull", X="x")
    with pytest.raises(UserError, match="no value for 'x'"):
        Operator("mul", X="x", Y="w", Out="out").run(fluid.Scope(), fluid.CPUPlace())
