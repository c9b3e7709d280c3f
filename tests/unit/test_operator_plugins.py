# SPDX-License-Identifier: Apache-2.0
"""Packages that have operators and kernels: found by their entry points, and imported when they are asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ngmlir.programs.catalogue import REGISTRY
from ngmlir.programs.kernels import KERNELS
from ngmlir.programs.plugins import PLUGINS, Plugins
from ngmlir.support.diagnostics import UserError

ROOT = Path(__file__).parents[2]

MODULE = """
print("imported {name}")
import ngmlir as ng
from ngmlir.programs.custom import kernel, new_operator

{body}
"""
OPERATOR = '''
@new_operator("""
operator {type}
  in X: The tensor.
  out Out: The result.
  doc X plus 3.
""")
def added(x):
    return ng.numpy.add(x, 3)
'''
KERNEL = """
@kernel("{type}", numpy=True)
def computed(x):
    return x + 4
"""


def a_package(folder: Path, name: str, entry: str, body: str) -> None:
    """A package on a path, as an installer leaves it."""
    (folder / f"{name}.py").write_text(MODULE.format(name=name, body=body))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ngmlir.operators]\n{entry} = {name}\n")


def run(folder: Path, program: str) -> list[str]:
    """What a program prints in a process of its own, where the packages of a folder are installed."""
    path = os.pathsep.join([str(ROOT / "src"), str(folder)])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout.splitlines()


def test_a_package_is_imported_when_its_operator_is_asked_for(tmp_path: Path) -> None:
    a_package(tmp_path, "plugged_three", "plugged_add_three", OPERATOR.format(type="plugged_add_three"))
    a_package(
        tmp_path, "plugged_other", "plugged_other_operator", OPERATOR.format(type="plugged_other_operator")
    )
    a_package(tmp_path, "plugged_relu", "relu", KERNEL.format(type="relu"))
    printed = run(
        tmp_path,
        """
import numpy as np
import ngmlir.frontends.fluid as fluid
print("begin")
x = fluid.layers.data("x", [2])
y = fluid.layers.square(x)
print(fluid.Executor().run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[y])[0].tolist())
y = fluid.layers.plugged_add_three(y)
print(fluid.Executor().run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[y])[0].tolist())
y = fluid.layers.relu(x)
print(fluid.Executor().run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[y])[0].tolist())
print("list")
from ngmlir.programs.catalogue import REGISTRY
print("plugged_other_operator" in REGISTRY.definitions, "plugged_other_operator" in REGISTRY.listed())
""",
    )
    assert printed == [
        "begin", "[[1.0, 1.0]]",
        "imported plugged_three", "[[4.0, 4.0]]",
        "imported plugged_relu", "[[5.0, 5.0]]",
        "list", "imported plugged_other", "False True",
    ]  # fmt: skip


def test_an_entry_point_of_any_name_is_found_when_nothing_else_has_the_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_package(
        tmp_path,
        "plugged_many",
        "many",
        OPERATOR.format(type="plugged_of_many") + KERNEL.format(type="plugged_of_many"),
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert REGISTRY.get("plugged_of_many_grad").entry.type == "plugged_of_many_grad"
    assert [each.label for each in KERNELS.of("plugged_of_many")] == ["any/any/any/plain"]
    assert not PLUGINS.load()


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_package(tmp_path, "plugged_broken", "plugged_broken_operator", "raise ValueError('out of order')")
    monkeypatch.syspath_prepend(tmp_path)
    plugins = Plugins()
    monkeypatch.setattr("ngmlir.programs.registry.PLUGINS", plugins)
    for _ in range(2):  # it is tried again
        with pytest.raises(
            UserError,
            match="the package plugged-broken, which has operators for ngmlir, cannot be loaded: ValueError: out of order",
        ) as error:
            REGISTRY.find("plugged_broken_operator")
    assert "plugged_broken_operator = plugged_broken (ngmlir.operators)" in error.value.diagnostics[0].hint
    with pytest.raises(UserError, match="plugged-broken"):
        REGISTRY.listed()
    assert REGISTRY.find("relu") is not None
