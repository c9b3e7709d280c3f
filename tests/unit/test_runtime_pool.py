# SPDX-License-Identifier: Apache-2.0
"""The thread pool under stress: every chunk once, whoever calls, forks or nests."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir
import ngmlir as ng
from ngmlir.llvm.cores import available_cores
from ngmlir.llvm.machine import assemble, assembly, cpu_target, host_target
from ngmlir.runtime.library import Library
from ngmlir.runtime.pool import Pool, default_pool
from ngmlir.runtime.pool_text import pool_text
from ngmlir.runtime.threads import thread_count, using_threads
from ngmlir.support.diagnostics import UserError

# `mark` counts the visits of each chunk without atomics: a chunk that ran twice at once would show as well.
TEXT = """
declare void @ngmlir_parallel(ptr, ptr, i64)
define void @mark(ptr %counts, i64 %index) {
  %p = getelementptr i64, ptr %counts, i64 %index
  %old = load i64, ptr %p
  %new = add i64 %old, 1
  store i64 %new, ptr %p
  ret void
}
define void @inner(ptr %sum, i64 %index) {
  %old = atomicrmw add ptr %sum, i64 %index monotonic
  ret void
}
define void @nest(ptr %sum, i64 %index) {
  call void @ngmlir_parallel(ptr @inner, ptr %sum, i64 5)
  ret void
}
define void @quotient(ptr %out, i64 %index) {
  %p = getelementptr double, ptr %out, i64 %index
  %x = load volatile double, ptr %p
  %y = fdiv double %x, 3.0
  store double %y, ptr %p
  call void @work(i64 3000)
  ret void
}
define internal void @work(i64 %rounds) {
  br label %one
one:
  %i = phi i64 [ 0, %0 ], [ %next, %one ]
  %next = add i64 %i, 1
  store volatile i64 %next, ptr @sink
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %one, label %out
out:
  ret void
}
; Takes 2 ms on other threads than the one whose number stands in front, and counts them behind it.
define void @limp(ptr %data, i64 %index) {
  %own = load i64, ptr %data
  %here = call i64 @pthread_self()
  %same = icmp eq i64 %own, %here
  br i1 %same, label %here.block, label %other
other:
  %count = getelementptr i64, ptr %data, i64 1
  %old = atomicrmw add ptr %count, i64 1 monotonic
  %slept = call i32 @usleep(i32 2000)
  ret void
here.block:
  call void @work(i64 10000)
  ret void
}
declare i64 @pthread_self()
declare i32 @usleep(i32)
@sink = internal global i64 0
define void @repeat(ptr %function, ptr %data, i64 %chunks, i64 %times) {
  br label %one
one:
  %i = phi i64 [ 0, %0 ], [ %next, %one ]
  call void @ngmlir_parallel(ptr %function, ptr %data, i64 %chunks)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %one, label %out
out:
  ret void
}
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the pool needs futexes")


class Rig:
    """A pool of its own with the functions above linked to it."""

    def __init__(self, threads: int):
        self.pool = Pool(threads)
        names = ("mark", "inner", "nest", "quotient", "limp", "repeat")
        code = assemble(TEXT, host_target())
        self.library = Library(code, names, {"ngmlir_parallel": self.pool.address})
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._repeat = ctypes.CFUNCTYPE(None, *kinds)(self.library["repeat"])

    def repeat(self, name: str, data: np.ndarray, chunks: int, times: int = 1) -> None:
        self._repeat(self.library[name], data.ctypes.data, chunks, times)


@cache
def rig(threads: int) -> Rig:
    return Rig(threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 64])
def test_every_chunk_runs_once(threads: int, chunks: int):
    counts = np.zeros(chunks, np.int64)
    rig(threads).repeat("mark", counts, chunks, 2000)
    assert counts.tolist() == [2000] * chunks


def test_no_chunks_is_no_work():
    counts = np.zeros(1, np.int64)
    for chunks in (0, -3):
        rig(2).repeat("mark", counts, chunks)
    assert counts[0] == 0


def test_more_chunks_than_a_ticket_holds():
    chunks = (1 << 24) + 5
    counts = np.zeros(chunks, np.int64)
    rig(2).repeat("mark", counts, chunks)
    assert counts.min() == counts.max() == 1


@pytest.mark.parametrize("threads", [2, 8])
def test_nested_calls_run_in_their_chunk(threads: int):
    total = np.zeros(1, np.int64)
    rig(threads).repeat("nest", total, 6, 500)
    assert total[0] == 500 * 6 * sum(range(5))


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_python_threads_race_for_the_pool(threads: int):
    all_counts = [np.zeros(5, np.int64) for _ in range(4)]
    racers = [
        threading.Thread(target=rig(threads).repeat, args=("mark", counts, 5, 3000)) for counts in all_counts
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [counts.tolist() for counts in all_counts] == [[3000] * 5] * 4


def test_sleeping_workers_are_woken():
    counts = np.zeros(16, np.int64)
    for _ in range(20):
        rig(3).repeat("mark", counts, 16)
        time.sleep(0.003)
    assert counts.tolist() == [20] * 16


def test_workers_really_run():
    """Long chunks are shared: with two threads, some are run by a thread that is not the caller."""
    seen: set[int] = set()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)

    def visit(_: object, __: int) -> None:
        seen.add(threading.get_native_id())
        time.sleep(0.002)

    callback = kind(visit)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    parallel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(rig(2).pool.address)
    for _ in range(50):
        parallel(address, None, 8)
        if len(seen) == 2:
            break
    assert len(seen) == 2


def in_a_child(work: threading.Thread | None = None) -> None:
    counts = np.zeros(8, np.int64)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        rig(3).repeat("mark", counts, 8, 500)
        os._exit(0 if counts.tolist() == [500] * 8 else 1)
    assert os.waitpid(child, 0)[1] == 0
    rig(3).repeat("mark", counts, 8, 500)
    assert counts.tolist() == [500] * 8


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_sharing_that_does_not_pay_rests():
    """Calls whose workers keep the caller waiting are mostly not shared."""
    data = np.array([threading.get_ident(), 0])
    rig(2).repeat("limp", data, 64, 500)
    assert data[1] < 100


def test_a_forked_child_has_a_pool_too():
    rig(3).repeat("mark", np.zeros(8, np.int64), 8, 10)
    for _ in range(5):
        in_a_child()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_in_the_middle_of_a_call():
    stop = threading.Event()

    def busy() -> None:
        counts = np.zeros(8, np.int64)
        while not stop.is_set():
            rig(3).repeat("mark", counts, 8, 200)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            in_a_child()
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets the rounding mode of x86")
def test_workers_round_as_their_caller():
    text = """
declare void @llvm.x86.sse.ldmxcsr(ptr)
define void @set(ptr %word) {
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}"""
    library = Library(assemble(text, host_target()), ["set"])
    set_mode = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library["set"])
    quotients = {}
    for mode in (0x1F80, 0x5F80, 0x1F80):  # to nearest, up, to nearest again
        for _ in range(20):
            values = np.ones(64)
            set_mode(ctypes.addressof(ctypes.c_uint32(mode)))
            rig(2).repeat("quotient", values, 64)
            set_mode(ctypes.addressof(ctypes.c_uint32(0x1F80)))
            quotients.setdefault(mode, set()).update(values.tolist())
    assert quotients[0x1F80] == {1 / 3}
    assert quotients[0x5F80] == {np.nextafter(1 / 3, 1)}


def test_workers_leave_signals_to_python():
    rig(8).repeat("mark", np.zeros(8, np.int64), 8, 10)
    blocked = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as status:
            mask = next(line.split()[1] for line in status if line.startswith("SigBlk"))
        blocked.append(int(mask, 16) >> (signal.SIGINT - 1) & 1)
    assert blocked.count(1) >= 7
    assert blocked.count(0) >= 1


def test_the_process_ends_while_workers_spin():
    program = """
import ctypes
from ngmlir.runtime.pool import Pool
pool = Pool(2)
kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
nothing = kind(lambda data, index: None)
parallel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(pool.address)
parallel(ctypes.cast(nothing, ctypes.c_void_p).value, None, 2)
"""
    for _ in range(5):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_threads_by_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NGMLIR_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert thread_count() == available_cores()
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert thread_count() == 3
    monkeypatch.setenv("NGMLIR_NUM_THREADS", "5")
    assert thread_count() == 5
    monkeypatch.setenv("NGMLIR_NUM_THREADS", "many")
    with pytest.raises(UserError, match=r"NGMLIR_NUM_THREADS is 'many'\nhint: set it to an integer"):
        thread_count()
    monkeypatch.delenv("NGMLIR_NUM_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert thread_count() == available_cores()


def test_one_pool_for_each_number_of_threads():
    assert default_pool() is default_pool()
    with using_threads(3):
        three = default_pool()
        assert three.threads == 3
        with using_threads(None):
            assert default_pool() is three
        with using_threads(1):
            assert default_pool().threads == 1
    assert default_pool().threads == thread_count()


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "aarch64", "riscv64"])
def test_the_pool_assembles_for_other_machines(name: str):
    target = cpu_target(name)
    text = assembly(pool_text(target.triple), target)
    assert "ngmlir_parallel:" in text
    assert ("pthread_create" in text) == (name != "riscv64")


def test_without_futexes_calls_run_alone():
    text = pool_text(f"{platform.machine()}-apple-darwin")
    library = Library(assemble(text, host_target()), ["ngmlir_parallel"])
    seen: list[int] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    callback = kind(lambda _, index: seen.append(index))
    parallel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        library["ngmlir_parallel"]
    )
    parallel(ctypes.cast(callback, ctypes.c_void_p), None, 4)
    parallel(ctypes.cast(callback, ctypes.c_void_p), None, 0)
    assert seen == [0, 1, 2, 3]


def test_programs_of_one_process_use_as_many_threads_as_each_says(tmp_path: Path):
    """Threads of this process are counted by the system, in a process of its own: pools live as long as it does."""
    program = """
import os
import numpy as np
import ngmlir as ng

def running():
    return len(os.listdir("/proc/self/task"))

x, w = np.random.default_rng(0).standard_normal((2, 512, 512)).astype("f")
M, N, K = (ng.make_axis(512, name=n) for n in "MNK")
a, b = ng.placeholder([M, K]), ng.placeholder([K, N])
y = ng.tanh(ng.dot(a, b))
one = ng.compile(y, [a, b], threads=1)
found = [one(x, w)]
before = running()
assert np.array_equal(one(x, w), found[0]) and running() == before
three = ng.compile(y, [a, b], threads=3)
found.append(three(x, w))
assert running() == before + 2, (before, running())
four = ng.transformers.make_transformer_factory("cpu", threads=4)()
f = four.computation(y, a, b)
found.append(f(x, w))
assert running() == before + 5, (before, running())
found += [one(x, w), three(x, w), f(x, w)]
assert running() == before + 5
assert all(each.tobytes() == found[0].tobytes() for each in found)
"""
    path = tmp_path / "program.py"
    path.write_text(program)
    source = str(Path(ngmlir.__file__).parents[1])
    own = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    own.pop("NGMLIR_NUM_THREADS", None)
    subprocess.run([sys.executable, str(path)], check=True, env=own, timeout=120)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, 1 << 20])
def test_what_is_no_number_of_threads(threads: Any):
    x = ng.placeholder([ng.make_axis(3)])
    with pytest.raises(UserError, match=r"threads is .*\n(.*\n)*hint: a whole number"):
        ng.compile(x + 1, [x], threads=threads)
