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
        found, *offsets = run(*[fed[name] for name in run.model.input_names])
        found = found[: offsets[-1][-1]] if offsets else found  # behind the last sequence there may be more
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
            # Rows of seven; of two levels there is a sequence of one row for each of the three that are cut otherwise.
            shape = [(3 if variable.lod_level == 2 else 7) if n < 0 else n for n in variable.shape]
            whole = (
                draw.integers(0, 2 if name == "mark" else 8, shape)
                if variable.np_dtype.kind == "i"
                else draw.standard_normal(shape)
            )
            tensors[name] = fed[name] = whole.astype(variable.np_dtype)
            lengths = {1: [[4, 0, 3]], 2: [[1, 1, 1]] * 2}.get(variable.lod_level, [])
            if lengths:
                tensors[name] = fluid.create_lod_tensor(fed[name], lengths, None)
            for level, each in enumerate(lengths):
                fed[f"{name}@LOD{level}"] = np.cumsum([0, *each], dtype=np.int32)
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


def test_machine_translation(exported: str) -> None:
    by_beams, by_likeliest = run("machine_translation", passes=2, save_to=exported)
    assert by_beams > 0.95 and by_likeliest > 0.95


def built(module: Any, seed: int) -> tuple[fluid.Executor, fluid.Program, Any, Any]:
    """A network that nobody has trained: its program, how likely signs are, and their cost."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = seed
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        words, signs, after = [
            fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in ("words", "signs", "after")
        ]
        odds = module.followed(words, signs)
        cost = fluid.layers.mean(fluid.layers.cross_entropy(odds, after))
    executor = fluid.Executor()
    executor.run(startup)
    return executor, main, odds, cost


def ragged(rows: Sequence[Sequence[int]]) -> fluid.LoDTensor:
    whole = np.concatenate(rows).astype(np.int64).reshape(-1, 1)
    return fluid.create_lod_tensor(whole, [[len(row) for row in rows]], None)


@pytest.mark.usefixtures("programs")
def test_one_beam_is_greedy_and_more_are_no_worse() -> None:
    module = import_module("machine_translation")
    executor, main, odds, cost = built(module, 3)
    dates = [[3, 4, 30, 20], [7], [21, 22, 23, 9, 9, 2]]
    best: list[list[float]] = []
    for beam in (1, 4, 13):
        program, _, found = module.search(beam)
        ids, scores = executor.run(
            program, feed=module.begun(dates), fetch_list=list(found), return_numpy=False
        )
        paths = [first for first, *_ in module.hypotheses(ids)]
        best.append([first[-1] for first, *_ in module.hypotheses(scores)])
        feed = {
            "words": ragged(dates),
            "signs": ragged([p[:-1] for p in paths]),
            "after": ragged([p[1:] for p in paths]),
        }
        (after,) = executor.run(main, feed=feed, fetch_list=[odds], return_numpy=False)
        (cuts,), after = after.lod(), np.array(after)
        signs = np.concatenate([p[1:] for p in paths])
        if beam == 1:
            assert np.array_equal(after.argmax(1), signs)
        chosen = np.log(after[np.arange(len(signs)), signs])
        np.testing.assert_allclose(np.add.reduceat(chosen, cuts[:-1]), best[-1], rtol=1e-4)
    assert all(a <= b + 1e-5 <= c + 2e-5 for a, b, c in zip(*best, strict=True))


@pytest.mark.usefixtures("programs")
def test_gradients_of_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Along the gradient of each parameter the cost grows as that says."""
    module = import_module("machine_translation")
    executor, main, _, cost = built(module, 5)
    with fluid.program_guard(main):
        pairs = fluid.backward.append_backward(cost)
    rows = module.data(30)[0][:3]
    feed = {
        name: ragged(each)
        for name, each in zip(("words", "signs", "after"), zip(*rows, strict=True), strict=True)
    }
    gradients = executor.run(main, feed=feed, fetch_list=[g for _, g in pairs])
    for (parameter, _), gradient in zip(pairs, gradients, strict=True):
        tensor = fluid.global_scope().find_var(parameter.name).get_tensor()
        value, length = np.array(tensor), float(np.linalg.norm(gradient))
        costs: list[float] = []
        for side in (1, -1):
            tensor.set(value + np.float32(side * 0.02 / length) * gradient, None)
            costs.append(float(executor.run(main, feed=feed, fetch_list=[cost])[0][0]))
        tensor.set(value, None)
        assert (costs[0] - costs[1]) / 0.04 == pytest.approx(length, rel=0.02, abs=2e-4), parameter.name
