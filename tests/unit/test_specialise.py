# SPDX-License-Identifier: Apache-2.0
"""Programs kept by the lengths of calls: what is found, made once, thrown away, warned of and shared by numbers of rows."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.ops.words import from_text
from ngmlir.runtime.targets import DEVICES, compiling_device, device_named, find_device
from ngmlir.support.lru import LruCache
from ngmlir.transformers.backends import BACKENDS
from ngmlir.transformers.open_functions import open_functions
from ngmlir.transformers.specialise import Specialised


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


def test_two_numbers_of_rows_with_one_program_stand_for_all() -> None:
    programs: Specialised[str] = Specialised("cpu", 4)
    rows: Any = object()
    programs.add_open(("f32", 1, 5), [1], "x", rows)
    programs.add_open(("f32", 7, 5), [1], "x", rows)
    assert programs.find(("f32", 8, 5)) is None, "one number above one is not enough"
    programs.add_open(("f32", 9, 5), [1], "x", object())  # type: ignore[arg-type]
    assert programs.find(("f32", 8, 5)) is None, "nor are two with two programs"
    programs.add_open(("f32", 9, 5), [1], "y", rows)
    assert programs.find(("f32", 8, 5)) == "x" and programs.keys() == [("f32", 8, 5)]
    for other in (("f32", 1, 5), ("f32", 0, 5), ("f32", 8, 6), ("f64", 8, 5), ("f32", 8, 5, 1)):
        assert programs.find(other) is None


def test_all_places_of_the_rows_have_one_number() -> None:
    programs: Specialised[str] = Specialised("cpu", 4)
    rows: Any = object()
    for n in (3, 4):
        programs.add_open((n, 2, n), [0, 2], "x", rows)
    assert programs.find((5, 2, 5)) == "x" and programs.find((5, 2, 6)) is None


def test_a_function_of_text_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two open lengths, one counts rows: from its third number on nothing is decided or compared."""
    text = """func.func @main(%x: tensor<?x?xf32>) -> tensor<?xf32> {
      %0 = ng.sum %x axes [1] : (tensor<?x?xf32>) -> tensor<?xf32>
      return %0 : tensor<?xf32> }"""
    run = open_functions(from_text(text))["main"].compiled("cpu")
    asked: list[tuple[int, ...]] = []
    for_rows = Specialised.for_rows

    def counted(self: Any, of: Any, lengths: Any = None) -> Any:
        asked.append(of.ops[0].block.args[0].type.shape)
        return for_rows(self, of, lengths)

    monkeypatch.setattr(Specialised, "for_rows", counted)
    for shape in ((2, 3), (5, 3), (9, 3), (4, 3), (1, 3), (0, 3), (6, 2)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(run(x)[0], x.sum(1))
    assert asked == [(2, 3), (5, 3), (1, 3), (0, 3), (6, 2)]


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
