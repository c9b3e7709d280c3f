# SPDX-License-Identifier: Apache-2.0
"""Programs kept by the lengths of calls: what is found, made once, thrown away, warned of and shared by numbers of rows."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt
from ngmlir.runtime.targets import DEVICES, compiling_device, device_named, find_device
from ngmlir.support.lru import LruCache
from ngmlir.transformers.backends import BACKENDS
from ngmlir.transformers.specialise import Specialised
from ngmlir.transformers.transformer import Transformer


def test_the_values_used_last_are_kept() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.add("a", 1), cache.add("b", 2)
    assert cache.find("a") == 1 and cache.add("c", 3) == 3
    assert cache.keys() == ["a", "c"] and cache.find("b") is None and len(cache) == 2
    cache.add("a", 4)
    assert cache.keys() == ["c", "a"] and cache.find("a") == 4


def test_a_program_is_made_by_the_first_thread_that_asks() -> None:
    programs: Specialised[str] = Specialised("numpy", 4)
    assert programs.get((1,), lambda: "one") == "one"
    begun, go_on = threading.Event(), threading.Event()
    made: list[str] = []

    def slow() -> str:
        begun.set()
        assert go_on.wait(60)
        made.append("two")
        return "two"

    threads = [threading.Thread(target=programs.get, args=((2,), slow)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    assert programs.get((1,), lambda: "again") == "one", "one that is there does not wait"
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert made == ["two"]


def test_one_that_fails_leaves_nothing() -> None:
    programs: Specialised[str] = Specialised("cpu", 4)

    def broken() -> str:
        raise ng.UserError("no")

    with pytest.raises(ng.UserError):
        programs.get((1,), broken)
    assert not len(programs) and programs.get((1,), lambda: "one") == "one"


def test_many_are_warned_of_once() -> None:
    programs: Specialised[int] = Specialised("cpu", 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for length in range(9):
            programs.get((length,), lambda length=length: length)
            programs.count(lambda made: f"@f was compiled for {made} lengths of N")
    (warning,) = caught
    assert str(warning.message).startswith("@f was compiled for 4 lengths of N, and only 3 programs are kept")
    assert warning.filename == __file__ and programs.keys() == [(6,), (7,), (8,)]


def test_devices_by_name() -> None:
    assert list(BACKENDS) == list(DEVICES)
    second = device_named("cuda:1")
    assert (second.kind, second.number, second.name, second.has_memory) == ("cuda", 1, "cuda:1", True)
    assert find_device("cuda:0") == device_named("cuda") and find_device("cuda:x") is None
    assert [d.runs_on_host for d in DEVICES.values()] == [False, True, False, False]
    with pytest.raises(ng.UserError, match="there is no target 'cdua'") as caught:
        device_named("cdua")
    assert "did you mean cuda?" in str(caught.value)
    with pytest.raises(ng.UserError, match="cannot run here: 'numpy'"):
        compiling_device("numpy")


# ---- graphs

LENGTHS = (3, 7, 100, 1, 0, 64, 65, 7)


@pytest.fixture
def lifted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that graphs are lifted to, by the shapes of what they take."""
    made: list[str] = []
    real = Transformer.transform_ordered_ops

    def noted(self: Any, *given: Any) -> Any:
        found = real(self, *given)
        made.append(", ".join(str(a.type) for a in found.module.ops[0].block.args))
        return found

    monkeypatch.setattr(Transformer, "transform_ordered_ops", noted)
    return made


def agrees(build: Any, *, lengths: Any = LENGTHS, named: str = "N") -> Any:
    """Calls a graph of an array of each length, on the CPU and in NumPy."""
    n, c = ng.make_axis(name=named), ng.make_axis(4, "C")
    x = ng.placeholder([n, c])
    y = build(x, n, c)
    run, other = ng.compile(y, [x]), ng.compile(y, [x], target="numpy")
    for length in lengths:
        value = np.random.default_rng(length).normal(size=(length, 4)).astype(np.float32)
        found, wanted = run(value), other(value)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return run


@pytest.mark.parametrize("named", ["N", "rows"])
def test_a_graph_is_lifted_for_two_numbers_of_rows(named: str, lifted: list[str]) -> None:
    run = agrees(lambda x, n, c: ng.softmax(ng.tanh(x) * 2, normalization_axes=[c]), named=named)
    lifted.clear()
    for length in range(2, 60):
        assert run(np.zeros((length, 4), "f")).shape == (length, 4)
    assert not lifted


def part(n: Any) -> Any:
    """As many numbers as there are among the first 5."""
    return ng.constant(1.0, [ng.slice_axis(n, slice(2, 5))])


#: What programs follow from beside the number of rows: equal for 3 and 7, and not for 100, or for 3 and 7 by chance.
TOLD = {
    "part": lambda x, n, c: x[:64] * 2,
    "last": lambda x, n, c: x[-64:] * 2,
    "size of a part": lambda x, n, c: x * ng.sum(part(n), out_axes=[]),
    "number of a part": lambda x, n, c: x / ng.tensor_size(part(n)),
    "number": lambda x, n, c: x / ng.tensor_size(x),
    "the lesser": lambda x, n, c: x * ng.minimum(ng.tensor_size(x), 5),
    "positions": lambda x, n, c: x + ng.cast(ng.iota([n, c], n), "f32"),
}


@pytest.mark.parametrize("name", TOLD)
def test_programs_that_follow_from_more_are_made_for_each(name: str) -> None:
    agrees(TOLD[name])


def test_numbers_and_rows_are_broadcast_as_before() -> None:
    n, c = ng.make_axis(name="N"), ng.make_axis(4, "C")
    x, y, z = ng.placeholder([n, c]), ng.placeholder([n]), ng.placeholder([])
    run, other = (ng.compile(x * y + z, [x, y, z], target=t) for t in ("cpu", "numpy"))
    for length in (3, 7, 100, 5):
        a, b = np.random.default_rng(length).normal(size=(2, length, 4)).astype(np.float32)
        for given in (
            (a, b[:, 0], 2.0),
            (a.tolist(), b[:, 1], np.float64(1)),
            (a, 3, 1),
            (a[:, ::-1], b[:, 0], 0),
        ):
            np.testing.assert_allclose(run(*given), other(*given), rtol=1e-6)
        with pytest.raises(ng.UserError):
            run(a, np.ones(length + 1, "f"), 0)
        with pytest.raises(ng.UserError):
            run(a[:, :3], b[:, 0], 0)
    with pytest.raises(ng.UserError):
        run(3, np.ones(100, "f"), 1, 2)


def test_a_pass_sees_a_length_and_then_any(lifted: list[str]) -> None:
    n = ng.make_axis(name="N")
    x = ng.placeholder([n])
    seen: list[str] = []

    def look(module: Any) -> Any:
        seen.append(str(module.ops[0].block.args[0].type))
        return module.with_ops([module.ops[0].rebuilt()])

    with ngt.make_transformer("cpu") as transformer:
        transformer.register_graph_pass(look)
        run = transformer.computation(x + 1, x)
        for length in (3, 7, 9, 11):
            assert run(np.zeros(length)).tolist() == [1] * length
    assert seen == lifted or [t.partition(",")[0] for t in seen] == [t.partition(",")[0] for t in lifted]
    assert [t[:11] for t in seen] == ["tensor<3xf3", "tensor<[N]x", "tensor<[N]x"]


def test_labels_of_any_number_of_rows_are_checked() -> None:
    n, y = ng.make_axis(name="N"), ng.make_axis(3, "Y")
    x, label = ng.placeholder([n, y]), ng.placeholder([n], dtype="int32")
    cost = ng.cross_entropy_multi(ng.softmax(x, normalization_axes=[y]), ng.one_hot(label, axis=y))
    run = ng.compile(cost, [x, label])
    for length in (3, 7, 20):
        assert run(np.zeros((length, 3)), np.zeros(length, np.int32)).shape == (length,)
    with pytest.raises(ng.UserError, match="label 3"):
        run(np.zeros((30, 3)), np.full(30, 3, np.int32))


def test_a_variable_that_is_fed_is_of_its_call() -> None:
    n, c = ng.make_axis(name="N"), ng.make_axis(4, "C")
    x, w = ng.placeholder([n, c]), ng.variable([c], initial_value=1)
    run = ng.compile(x * w, [x, w])
    for length in (3, 7, 9, 8, 1, 11):
        np.testing.assert_array_equal(run(np.ones((length, 4)), [length] * 4), np.full((length, 4), length))
