# SPDX-License-Identifier: Apache-2.0
"""What `fluid.core` and `fluid.profiler` offer beside descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.programs.descriptions import Program as View
from ngmlir.support.diagnostics import UserError

core, layers = fluid.core, fluid.layers


def _program() -> fluid.Program:
    made = fluid.Program()
    with fluid.program_guard(made, fluid.Program()), fluid.unique_name.guard():
        x = layers.data("x", [2])
        layers.tanh(layers.scale(x, 2.0))
        layers.exp(x)
    return made


def _with_lists() -> fluid.Program:
    """A program that feeds and fetches by operators of its own."""
    program = _program()
    block = program.global_block()
    for name, type in (
        ("feed", core.VarDesc.VarType.FEED_MINIBATCH),
        ("fetch", core.VarDesc.VarType.FETCH_LIST),
    ):
        block.create_var(name=name, type=type, persistable=True)
    block.prepend_op(type="feed", inputs={"X": "feed"}, outputs={"Out": "x"}, attrs={"col": 1})
    for column, name in enumerate(("exp_0.tmp_0", "scale_0.tmp_0")):
        block.append_op(type="fetch", inputs={"X": name}, outputs={"Out": "fetch"}, attrs={"col": column})
    return program


def test_operators_that_are_marked_are_kept() -> None:
    program = _program()
    desc = program.desc
    scale, tanh, exp = (desc.block(0).op(at) for at in range(3))
    tanh.set_is_target(True)
    assert [tanh.is_target(), exp.is_target()] == [True, False]
    assert (
        "is_target" in str(program)
        and fluid.Program.parse_from_string(str(program)).desc.block(0).op(1).is_target()
    )
    pruned = core.prune(desc).block(0)
    assert [pruned.op(at).type() for at in range(pruned.op_size())] == ["scale", "tanh"]
    pruned = core.prune(desc, [[0, 2]]).block(0)
    assert [pruned.op(at).type() for at in range(pruned.op_size())] == ["scale", "tanh", "exp"]
    tanh.set_is_target(False)
    assert core.prune(desc, [[0, 0]]).block(0).op_size() == 1 and scale.type() == "scale"


def test_feeds_and_fetches_through_lists_of_the_scope() -> None:
    program, scope, executor = _with_lists(), fluid.Scope(), fluid.Executor()
    x = np.array([[0.0, 1.0]], np.float32)
    core.set_feed_variable(scope, core.LoDTensor(x), "feed", 1)
    (tanh,) = executor.run(program, fetch_list=["tanh_0.tmp_0"], scope=scope)
    np.testing.assert_allclose(tanh, np.tanh(2 * x), rtol=1e-6)
    for column, want in enumerate((np.exp(x), 2 * x)):
        found = np.array(core.get_fetch_variable(scope, "fetch", column))
        np.testing.assert_allclose(found, want, rtol=1e-6)
    # What is fed by name comes before the list.
    executor.run(program, feed={"x": 3 * x}, scope=scope)
    np.testing.assert_allclose(np.array(core.get_fetch_variable(scope, b"fetch", 1)), 6 * x)


def test_lists_that_lack_what_is_asked_for() -> None:
    program, scope = _with_lists(), fluid.Scope()
    with pytest.raises(UserError, match="place 1 of the list 'feed'") as caught:
        fluid.Executor().run(program, scope=scope)
    assert caught.value.diagnostics[0].location.file == __file__
    with pytest.raises(UserError, match="has 0 values, and none at 2"):
        core.get_fetch_variable(scope, "fetch", 2)


def test_what_is_said_of_devices_and_roles() -> None:
    count = core.get_cuda_device_count()
    assert core.is_compiled_with_cuda() == (count > 0)
    assert core.is_float16_supported(fluid.CPUPlace())
    assert core.op_support_gpu("mul") and not core.op_support_gpu("save")
    with pytest.raises(UserError, match="no operator 'mull'"):
        core.op_support_gpu("mull")
    maker = core.op_proto_and_checker_maker
    assert (maker.kOpRoleAttrName(), maker.kOpRoleVarAttrName()) == ("op_role", "op_role_var")
    assert int(maker.OpRole.Backward) == 1
    names = fluid.framework.OpProtoHolder.instance().generated_op_attr_names()
    assert names[:2] == ["op_role", "op_role_var"]


def test_a_second_name_for_a_declaration_is_refused() -> None:
    top = View().top
    top.declare("a")
    b = top.declare("b")
    with pytest.raises(UserError, match="declares the variable 'a' already"):
        fluid.core.VarDesc(b).set_name("a")
    assert list(top.variables) == ["a", "b"] and b.name == "b"


@pytest.mark.parametrize("order", [None, "calls", "total", "max", "min", "ave"])
def test_a_profile_of_kernels_with_their_lines(
    order: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        y = layers.fc(layers.data("x", [8]), 4, act="tanh")
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)
    feed = {"x": np.ones((4, 8), np.float32)}
    executor.run(main, feed, [y], scope=scope)
    with fluid.profiler.profiler("CPU", order, str(tmp_path / "trace.json")):
        executor.run(main, feed, [y], scope=scope)
        fluid.profiler.reset_profiler()
        for _ in range(3):
            executor.run(main, feed, [y], scope=scope)
    executor.run(main, feed, [y], scope=scope)
    head, line, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["calls", "total", "ms", "max", "ms", "min", "ms", "ave", "ms", "kernel,", "from"]
    assert line.split()[0] == "3" and "test_fluid_core.py:" in line
    total, longest, shortest, mean = map(float, line.split()[1:5])
    assert shortest <= mean <= longest <= total
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_profiler_is_started_once_and_by_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    profiler = fluid.profiler
    with pytest.raises(UserError, match="no state 'cpu'") as caught:
        profiler.start_profiler("cpu")
    assert "CPU" in caught.value.diagnostics[0].hint
    with pytest.raises(UserError, match="not sorted by 'time'"), profiler.profiler("All", "time"):
        pass
    with pytest.raises(UserError, match="no profiler is running"):
        profiler.stop_profiler()
    profiler.start_profiler("All")
    with pytest.raises(UserError, match="running already"):
        profiler.start_profiler("All")
    profiler.stop_profiler()
    assert capsys.readouterr().out == "no kernel was timed\n"
