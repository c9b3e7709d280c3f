# SPDX-License-Identifier: Apache-2.0
"""The models of `examples/programs` learn: each reaches its bar. What predicts is saved, and gives the same bits in a process that
does not import the front end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"
PLACES = {"cpu": fluid.CPUPlace(), "numpy": fluid.NumpyPlace()}
#: Loads a model and compares what it gives with what the executor gave.
LOADED = """
import sys
from pathlib import Path
import numpy as np
import ngmlir as ng

folder = Path(sys.argv[1])
with np.load(folder / "fed.npz") as fed, np.load(folder / "given.npz") as given:
    for target in given:
        run = ng.compile(ng.load(folder), target=target)
        found, *_ = run(*[fed[name] for name in run.model.input_names])
        assert found.dtype == given[target].dtype and np.array_equal(found, given[target]), target
assert not [name for name in sys.modules if name.startswith("ngmlir.frontends")]
"""


PAGES = EXAMPLES.parents[1] / "docs" / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_every_program_has_a_page(path: Path) -> None:
    page = PAGES / f"{path.stem}.md"
    assert f"./run python examples/programs/{path.name}" in page.read_text(encoding="utf-8")
    assert f"({page.name})" in (PAGES / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def examples() -> Iterator[None]:
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder to save a model to, which is then loaded by another process; what it is to give is computed where it is saved."""
    save = fluid.io.save_inference_model
    draw = np.random.default_rng(0)

    def saving(
        folder: str,
        feeds: Sequence[str],
        targets: Sequence[fluid.Variable],
        executor: fluid.Executor,
        main: fluid.Program,
    ) -> None:
        test = fluid.io.get_inference_program(targets, main)
        fed: dict[str, Any] = {}
        tensors: dict[str, Any] = {}
        for name in feeds:
            variable = main.global_block().var(name)
            shape = [7 if n < 0 else n for n in variable.shape]
            whole = (
                draw.integers(0, 2 if name == "mark" else 8, shape)
                if variable.np_dtype.kind == "i"
                else draw.standard_normal(shape)
            )
            tensors[name] = fed[name] = whole.astype(variable.np_dtype)
            if variable.lod_level:
                tensors[name] = fluid.create_lod_tensor(fed[name], [[4, 0, 3]], None)
                fed[f"{name}@LOD0"] = np.array([0, 4, 4, 7], np.int32)
        given = {
            target: np.array(
                fluid.Executor(place).run(test, feed=tensors, fetch_list=targets, return_numpy=False)[0]
            )
            for target, place in PLACES.items()
        }
        np.savez(Path(folder) / "fed.npz", **fed)
        np.savez(Path(folder) / "given.npz", **given)
        save(folder, feeds, targets, executor, main)

    monkeypatch.setattr(fluid.io, "save_inference_model", saving)
    yield str(tmp_path)
    done = subprocess.run([sys.executable, "-c", LOADED, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(name: str, *arguments: Any, **named: Any) -> float:
    return import_module(name).main(*arguments, **named)


def test_fit_a_line(exported: str) -> None:
    assert run("fit_a_line", save_to=exported) <= 3350  # least squares 3250.5


@pytest.mark.parametrize(("network", "bar"), [("mlp", 0.95), ("conv", 0.965)])
def test_recognize_digits(network: str, bar: float, exported: str) -> None:
    module = import_module("recognize_digits")
    assert module.main(getattr(module, network), save_to=exported) >= bar  # logistic regression 0.975


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_digits_in_16_bits(dtype: str) -> None:
    """As in float32, within 1 %."""
    module = import_module("recognize_digits")
    wide, half = (module.main(module.mlp, dtype=each) for each in ("float32", dtype))
    assert abs(wide - half) <= 0.01 and half >= 0.95


@pytest.mark.parametrize("network", ["resnet", "vgg"])
def test_image_classification(network: str, exported: str) -> None:
    module = import_module("image_classification")
    assert module.main(getattr(module, network), passes=3, save_to=exported) >= 0.965


def test_word2vec(exported: str) -> None:
    assert run("word2vec", passes=1, save_to=exported) < 5.3  # the frequencies of words 5.93, of pairs 5.28


@pytest.mark.parametrize("name, bar", [("word2vec", 5.3), ("recommender_system", 18.8)])
def test_models_with_sparse_rows(name: str, bar: float, exported: str) -> None:
    passes = 1 if name == "word2vec" else 2
    assert run(name, passes=passes, is_sparse=True, save_to=exported) < bar


def test_recommender_system(exported: str) -> None:
    assert run("recommender_system", passes=2, save_to=exported) < 18.8  # the mean of each item 18.86


@pytest.mark.parametrize("network", ["convolution", "stacked_lstm"])
def test_understand_sentiment(network: str, exported: str) -> None:
    module = import_module("understand_sentiment")
    cost, share = module.main(getattr(module, network), save_to=exported)
    assert cost < 0.4 and share > 0.943  # logistic regression on the words of a line 0.943


def test_label_semantic_roles(exported: str) -> None:
    share, f1 = run("label_semantic_roles", save_to=exported)
    assert share > 0.974 and f1 > 0.95  # the kind that each token has most often 0.974
