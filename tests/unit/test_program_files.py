# SPDX-License-Identifier: Apache-2.0
"""Programs for inference in files: loaded without the front end, for any batch; files that are damaged or do not belong together."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_fuzzed_text import damage, replaced

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import layers
from ngmlir.op_graph.errors import WrongCall
from ngmlir.programs.variable_files import Stored, read_variables, write_variables
from ngmlir.support.diagnostics import UserError
from ngmlir.support.files import write_files

pytestmark = pytest.mark.usefixtures("programs")

X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


def saved(folder: Path, **settings: Any) -> tuple[fluid.Executor, list[fluid.Variable]]:
    """A program of two inputs and two outputs, saved."""
    x, shift = layers.data("x", [4]), layers.data("shift", [3])
    hidden = layers.dropout(layers.fc(x, 3, act="tanh"), 0.5)
    targets = [layers.softmax(hidden), hidden + shift]
    exe = fluid.Executor(fluid.CPUPlace())
    fluid.default_startup_program().random_seed = 5
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(folder), ["x", "shift"], targets, exe, **settings)
    return exe, targets


def expected(exe: fluid.Executor, targets: list[fluid.Variable], rows: int) -> list[np.ndarray]:
    test = fluid.default_main_program().clone(for_test=True)
    feed = {"x": X[:rows], "shift": X[:rows, :3]}
    return exe.run(test, feed=feed, fetch_list=[t.name for t in targets])


@pytest.mark.parametrize(
    "settings", [{}, {"params_filename": "all"}, {"model_filename": "net.ngir", "params_filename": "w.bin"}]
)
def test_a_saved_program_is_a_function_for_any_batch(tmp_path: Path, settings: dict[str, str]) -> None:
    exe, targets = saved(tmp_path, **settings)
    model = ng.load(tmp_path / settings["model_filename"] if "model_filename" in settings else tmp_path)
    assert model.input_names == ["x", "shift"] and model.output_names == [t.name for t in targets]
    run = ng.compile(model)
    for rows in (5, 1, 3):
        wanted = expected(exe, targets, rows)
        found = run(X[:rows], X[:rows, :3])
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
        by_name = run(shift=X[:rows, :3], x=X[:rows])
        assert np.array_equal(by_name[targets[1].name], wanted[1])
    # Numbers of other types are converted where they have the same values.
    assert np.array_equal(
        run(np.ones((2, 4)), [[1, 2, 3], [4, 5, 6]])[0], run(np.ones((2, 4), "f"), X[:2, :3])[0]
    )


@pytest.mark.parametrize("target", ["numpy", "cuda-sim"])
def test_a_saved_program_runs_on_other_targets(tmp_path: Path, target: str) -> None:
    exe, targets = saved(tmp_path)
    place = fluid.NumpyPlace() if target == "numpy" else fluid.Place(target)
    wanted = expected(fluid.Executor(place), targets, 5)
    found = ng.compile(ng.load(tmp_path), target=target)(X, X[:, :3])
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_wrong_arrays_are_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    model = ng.load(tmp_path)
    run = ng.compile(model)
    for call, message in {
        lambda: run(X): "takes 2 inputs, but 1 were given",
        lambda: run(x=X, shit=X): "no input 'shit'",
        lambda: run(X, shift=X): "by position and by name",
        lambda: run(
            X[:, :2], X[:, :3]
        ): r"'x' has the shape \[-1, 4\], and is fed an array of shape \[5, 2\]",
        lambda: run(X, np.full((5, 3), 1j)): "complex",
        lambda: ng.compile(model, target="cqu"): "no target 'cqu'",
    }.items():
        with pytest.raises(UserError, match=message):
            call()


def test_what_is_random_and_kept_goes_on(tmp_path: Path) -> None:
    counter = layers.create_global_var([1], 0.0, "float32", persistable=True)
    layers.increment(counter, 1.0, in_place=True)
    noise = layers.uniform_random([4], min=0.0, max=1.0)
    main = fluid.default_main_program()
    main.random_seed = 7
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), [], [counter, noise], exe)
    wanted = [exe.run(main, fetch_list=[counter, noise]) for _ in range(3)]
    run = ng.compile(ng.load(tmp_path))
    found = [run() for _ in range(3)]
    assert [float(c[0]) for c, _ in found] == [1, 2, 3]
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(found, wanted, strict=True))
    assert not np.array_equal(found[0][1], found[1][1])


# ---- files


def _resummed(text: str) -> bytes:
    body = text.rpartition("// sha256 ")[0].encode("utf-8", "surrogatepass")
    return body + f"// sha256 {sha256(body).hexdigest()}\n".encode()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda d: d[:-120],
    "altered": lambda d: d.replace(b"softmax", b"sigmoid"),
    "is of version 2": lambda d: _resummed(d.decode().replace("version = 1", "version = 2")),
    "no operator 'softmux'": lambda d: _resummed(d.decode().replace("op softmax", "op softmux")),
    "no program|cut short": lambda d: b"",
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damaged_programs_are_refused(tmp_path: Path, message: str) -> None:
    exe, _ = saved(tmp_path)
    path = tmp_path / "__model__"
    path.write_bytes(DAMAGE[message](path.read_bytes()))
    with pytest.raises(UserError, match=message):
        ng.load(tmp_path)
    before = np.array(fluid.global_scope().tensor("fc_0.w_0"))
    with pytest.raises(UserError, match=message):
        fluid.io.load_inference_model(str(tmp_path), exe)
    assert np.array_equal(before, fluid.global_scope().tensor("fc_0.w_0"))


def test_damaged_values_are_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    path = tmp_path / "fc_0.w_0"
    whole = path.read_bytes()
    for data, message in (
        (whole[:-3], "cut short or altered"),
        (whole[:-3] + b"abc", "altered"),
        (b"", "no file of"),
        (whole.replace(b"variables 1", b"variables 2"), "is of version 2; this release reads version 1"),
        (b"ngmlir variables 1 " + sha256(b"no").hexdigest().encode() + b"\nno", "holds no arrays"),
    ):
        path.write_bytes(data)
        with pytest.raises(UserError, match=re.escape(str(path)) + f".*{message}"):
            ng.load(tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="cannot read.*fc_0.w_0"):
        ng.load(tmp_path)
    with pytest.raises(UserError, match="cannot read.*__model__"):
        ng.load(tmp_path / "..")


def test_values_are_read_from_the_folder_of_the_program_alone(tmp_path: Path) -> None:
    saved(tmp_path / "a", params_filename="w")
    path = tmp_path / "a" / "__model__"
    path.write_bytes(_resummed(path.read_text().replace('file = "w"', 'file = "../w"')))
    with pytest.raises(UserError, match="may not be in another folder"):
        ng.load(tmp_path / "a")


def test_faulty_programs_are_refused_with_a_place(tmp_path: Path) -> None:
    saved(tmp_path)
    path = tmp_path / "__model__"
    text = path.read_text()
    for seed in range(300):
        drawn = random.Random(seed)
        faulty = text.rpartition("// sha256 ")[0]
        for _ in range(drawn.randint(1, 3)):
            faulty = (replaced if seed % 2 else damage)(faulty, drawn)
        path.write_bytes(_resummed(f"{faulty}// sha256 "))
        try:
            model = ng.load(tmp_path)
            arrays = [np.ones([2 if n < 0 else n for n in v.shape], np.float32) for v in model.inputs]
            ng.compile(model, target="numpy")(*arrays)
        except UserError as refused:
            assert refused.diagnostics[0].location.known, f"{seed}: {refused}"
            assert not isinstance(refused, WrongCall), f"{seed}: {refused}"


def test_values_of_another_save_are_refused(tmp_path: Path) -> None:
    exe, targets = saved(tmp_path / "a")
    fluid.default_startup_program().random_seed = 6
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "b"), ["x", "shift"], targets, exe)
    (tmp_path / "a" / "fc_0.w_0").write_bytes((tmp_path / "b" / "fc_0.w_0").read_bytes())
    # The error is at the line that made the program.
    with pytest.raises(UserError, match=r"conftest.*not those that were saved with this program"):
        ng.load(tmp_path / "a")


def test_a_save_that_fails_leaves_all_files(tmp_path: Path) -> None:
    exe, targets = saved(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fluid.default_startup_program().random_seed = 6
    exe.run(fluid.default_startup_program())
    (tmp_path / "other").mkdir()
    with pytest.raises(UserError, match="cannot open output file.*other"):
        fluid.io.save_inference_model(str(tmp_path), ["x", "shift"], targets, exe, model_filename="other")
    with pytest.raises(UserError, match="cannot hold both"):
        fluid.io.save_inference_model(
            str(tmp_path), ["x", "shift"], targets, exe, params_filename="__model__"
        )
    (tmp_path / "other").rmdir()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_values_of_any_name_and_type_come_back(tmp_path: Path) -> None:
    arrays = {"a|b": X, "a/b": X[:1], "c|": X.astype(ml_dtypes.bfloat16), "..": X.astype(ml_dtypes.bfloat16)}
    write_variables({tmp_path / "w": {name: Stored(array) for name, array in arrays.items()}})
    found = read_variables(tmp_path / "w")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].array.dtype == array.dtype and np.array_equal(found[name].array, array)


def test_files_that_belong_together_change_together(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "nowhere" / "second"
    first.write_bytes(b"old")
    with pytest.raises(UserError, match="second"):
        write_files({str(first): [b"new"], str(second): [b"new"]})
    assert first.read_bytes() == b"old" and [*tmp_path.iterdir()] == [first]


def test_the_tool_runs_a_folder(tmp_path: Path) -> None:
    saved(tmp_path)
    words = [sys.executable, "-m", "ngmlir", "run", str(tmp_path)]
    done = subprocess.run(
        [*words, "--random", "0", "--size", "batch=2", "--check", "numpy"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "softmax_0.tmp_0: float32 2x3" in done.stdout and "check: equal to NumPy" in done.stdout
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "it takes x (float32 [batch, 4]), shift (float32 [batch, 3])" in done.stderr
