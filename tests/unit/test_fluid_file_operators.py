# SPDX-License-Identifier: Apache-2.0
"""Operators of programs that read and write files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.programs.variable_files import read_variables
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace(), fluid.Place("cuda-sim")]
by_place = pytest.mark.parametrize("place", PLACES, ids=["numpy", "cpu", "cuda-sim"])


def _append(type: str, path: Path, **slots: Any) -> None:
    attrs = {"file_path": str(path), **slots.pop("attrs", {})}
    inputs, outputs = ({"X": slots["X"]}, {}) if "X" in slots else ({}, {"Out": slots["Out"]})
    fluid.default_main_program().global_block().append_op(
        type=type, inputs=inputs, outputs=outputs, attrs=attrs
    )


def _kept(name: str, shape: tuple[int, ...] = (1,), dtype: str = "float32") -> fluid.Variable:
    block = fluid.default_main_program().global_block()
    return block.create_var(name=name, shape=shape, dtype=dtype, persistable=True)


@pytest.fixture
def program() -> Any:
    made = fluid.Program()
    with fluid.program_guard(made, fluid.Program()), fluid.unique_name.guard():
        yield made


def _counting(value: float = 1.0) -> fluid.Scope:
    scope = fluid.Scope()
    scope.var("count").get_tensor().set(np.array([value], np.float32))
    return scope


def _value(scope: fluid.Scope, name: str) -> float:
    return float(np.array(scope.tensor(name))[0])


@by_place
def test_a_save_in_the_middle_saves_what_was_there(
    place: fluid.Place, program: fluid.Program, tmp_path: Path
) -> None:
    count = _kept("count")
    layers.increment(count, 2.0)
    _append("save", tmp_path / "middle", X=count)
    layers.increment(count, 3.0)
    _append("save_combine", tmp_path / "new" / "end", X=[count, layers.scale(count, 2.0)])
    scope, executor = _counting(), fluid.Executor(place)
    for round in range(2):
        start = 1.0 + 5 * round
        assert executor.run(program, fetch_list=[count], scope=scope)[0] == start + 5
        (middle,) = read_variables(tmp_path / "middle").values()
        both = read_variables(tmp_path / "new" / "end")
        assert middle.array == start + 2 and [float(v.array[0]) for v in both.values()] == [
            start + 5,
            2 * start + 10,
        ]
        assert next(iter(both)) == "count"


@by_place
def test_load_gives_a_value_where_it_stands(
    place: fluid.Place, program: fluid.Program, tmp_path: Path
) -> None:
    count = _kept("count")
    before = layers.scale(count, 1.0)
    _append("load", tmp_path / "count", Out=count)
    after = layers.scale(count, 1.0)
    executor, scope = fluid.Executor(place), _counting(1.0)
    with fluid.scope_guard(_counting(7.0)):
        fluid.io.save_vars(executor, str(tmp_path), program, [count])
    assert executor.run(program, fetch_list=[before, after], scope=scope) == [[1.0], [7.0]]
    assert _value(scope, "count") == 7
    # The file is read at each run.
    with fluid.scope_guard(_counting(8.0)):
        fluid.io.save_vars(executor, str(tmp_path), program, [count])
    assert executor.run(program, fetch_list=[before, after], scope=scope) == [[7.0], [8.0]]


def test_what_was_saved_by_the_same_program_is_loaded(program: fluid.Program, tmp_path: Path) -> None:
    count, other = _kept("count"), _kept("other")
    _append("save", tmp_path / "file", X=count)
    layers.increment(count, 1.0)
    _append("load", tmp_path / "file", Out=other)
    scope = _counting(5.0)
    fluid.Executor().run(program, scope=scope)
    assert (_value(scope, "count"), _value(scope, "other")) == (6.0, 5.0)


def test_several_variables_of_one_file_come_in_their_order(program: fluid.Program, tmp_path: Path) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        made = [layers.fill_constant([n], "float32", float(n)) for n in (1, 2)]
        _append("save_combine", tmp_path / "both", X=made)
        fluid.Executor().run()
    first, second = _kept("first"), _kept("second", (2,))
    _append("load_combine", tmp_path / "both", Out=[first, second])
    found = fluid.Executor().run(program, fetch_list=[first, second], scope=fluid.Scope())
    assert [v.tolist() for v in found] == [[1.0], [2.0, 2.0]]


def test_files_of_half_precision(program: fluid.Program, tmp_path: Path) -> None:
    x = layers.fill_constant([3], "float32", 1 / 3)
    _append("save", tmp_path / "half", X=x, attrs={"save_as_fp16": True})
    _append("save", tmp_path / "whole", X=x)
    fluid.Executor().run(program)
    assert [v.array.dtype for v in read_variables(tmp_path / "half").values()] == [np.float16]
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        y = fluid.default_main_program().global_block().create_var(name="y", shape=[3], dtype="float16")
        _append("load", tmp_path / "whole", Out=y, attrs={"load_as_fp16": True})
        (found,) = fluid.Executor().run(fetch_list=[y])
    assert found.dtype == np.float16 and found[0] == np.float16(1 / 3)


@pytest.mark.parametrize("damage", ["missing", "cut", "altered", "shape", "type", "count"])
def test_a_file_that_is_wrong_changes_nothing(damage: str, program: fluid.Program, tmp_path: Path) -> None:
    path, count = tmp_path / "file", _kept("count")
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        shape, dtype = ([2] if damage == "shape" else [1]), ("int32" if damage == "type" else "float32")
        made = [layers.fill_constant(shape, dtype, 3) for _ in range(2 if damage == "count" else 1)]
        _append("save_combine", path, X=made)
        fluid.Executor().run()
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "altered":
        path.write_bytes(data[:-9] + b"?" + data[-8:])
    layers.increment(count, 1.0)
    _append("load", path, Out=count)
    said = {
        "missing": "cannot read",
        "count": "holds 2 variables, and load reads 1",
        "shape": "of shape",
        "type": "int32",
    }
    scope = _counting(5.0)
    with pytest.raises(UserError, match=said.get(damage, "checksum")) as caught:
        fluid.Executor().run(program, scope=scope)
    assert caught.value.diagnostics[0].location.known and _value(scope, "count") == 5


def test_a_file_that_cannot_be_written_changes_nothing(program: fluid.Program, tmp_path: Path) -> None:
    count = layers.increment(_kept("count"), 1.0)
    (tmp_path / "file").write_bytes(b"a file is no folder")
    _append("save", tmp_path / "good", X=count)
    _append("save", tmp_path / "file" / "below", X=count)
    scope = _counting(5.0)
    with pytest.raises(UserError, match="cannot make the folder"):
        fluid.Executor().run(program, scope=scope)
    assert _value(scope, "count") == 5 and not (tmp_path / "good").exists()


def test_a_file_is_replaced_only_where_it_may_be(program: fluid.Program, tmp_path: Path) -> None:
    count = layers.increment(_kept("count"), 1.0)
    _append("save", tmp_path / "file", X=count, attrs={"overwrite": False})
    scope, executor = _counting(5.0), fluid.Executor()
    executor.run(program, scope=scope)
    data = (tmp_path / "file").read_bytes()
    with pytest.raises(UserError, match="overwrite = False") as caught:
        executor.run(program, scope=scope)
    assert caught.value.diagnostics[0].location.file == __file__
    assert _value(scope, "count") == 6 and (tmp_path / "file").read_bytes() == data


def test_one_variable_is_saved_once_to_a_file(program: fluid.Program, tmp_path: Path) -> None:
    count = _kept("count")
    _append("save_combine", tmp_path / "file", X=[count, count])
    with pytest.raises(UserError, match="saves 'count' twice"):
        fluid.Executor().run(program, scope=_counting())


def test_prints_and_files_go_together_also_step_by_step(
    program: fluid.Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = _kept("count")
    shown = layers.Print(count, message="now", summarize=1)
    layers.increment(count, 1.0)
    _append("save", tmp_path / "file", X=count)
    program.global_block().append_op(type="delete_var", inputs={"X": shown})
    for given in ({}, {"stepped": True}):
        scope = _counting(2.0)
        assert fluid.Executor().run(program, fetch_list=[count], scope=scope, **given) == [[3.0]]
        assert "elements: 2.0" in capsys.readouterr().out
        assert next(iter(read_variables(tmp_path / "file").values())).array == 3
