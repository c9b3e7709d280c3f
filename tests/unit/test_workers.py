# SPDX-License-Identifier: Apache-2.0
"""Many texts compiled by several processes: the same objects, whoever makes them, and whatever becomes of whom."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ngmlir.llvm import child, workers
from ngmlir.llvm.cores import available_cores, compile_processes
from ngmlir.llvm.machine import assemble, cpu_target, host_target
from ngmlir.llvm.workers import assemble_all, helpers
from ngmlir.support.diagnostics import Bug, UserError
from ngmlir.support.progress import Progress

HOST = host_target()


def text(number: int, lines: int = 50) -> str:
    body = "\n".join(f"  %v{i + 1} = mul i64 %v{i}, {number + i + 3}" for i in range(lines))
    return f"define i64 @f{number}(i64 %v0) {{\n{body}\n  ret i64 %v{lines}\n}}\n"


TEXTS = [text(i, 20 + 7 * i) for i in range(12)]
WANTED = [assemble(each, HOST) for each in TEXTS]


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_any_number_of_helpers_gives_the_same(count: int) -> None:
    assert assemble_all(TEXTS, HOST, helpers=count) == WANTED
    assert assemble_all([], HOST, helpers=count) == []
    assert len(child._free) <= 1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_other_machines(count: int) -> None:
    target = cpu_target("aarch64")
    assert assemble_all(TEXTS, target, helpers=count) == [assemble(each, target) for each in TEXTS]


def test_a_helper_that_is_killed_leaves_its_work_to_others() -> None:
    stop = threading.Event()

    def kill() -> None:
        while not stop.is_set():
            for each in list(child._Child.alive):
                os.kill(each._process.pid, signal.SIGKILL)
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        for _ in range(5):
            assert assemble_all(TEXTS * 5, HOST, helpers=2) == WANTED * 5
    finally:
        stop.set()
        thread.join()
    assert assemble_all(TEXTS, HOST, helpers=2) == WANTED


def test_no_child_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    while child._free:
        child._free.pop().end()
    monkeypatch.setattr("subprocess.Popen", refused)
    assert assemble_all(TEXTS, HOST, helpers=2) == WANTED
    monkeypatch.setenv("NGMLIR_COMPILE_PROCESSES", "2")
    assert helpers(30, 10_000) == 0


@pytest.mark.parametrize("program", ["true", "echo", "cat", "missing"])
def test_python_is_part_of_another_program(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what `sys.executable` names there: it ends, prints its arguments or a file, or is not there."""
    while child._free:
        child._free.pop().end()
    monkeypatch.setattr(child, "_foreign", False)
    monkeypatch.setattr(sys, "executable", shutil.which(program) or f"/{program}")
    assert [assemble(each, HOST) for each in TEXTS[:3]] == WANTED[:3]
    assert child._foreign == (program != "missing")
    assert not child._free


@pytest.mark.parametrize("count", [0, 2])
def test_what_llvm_objects_to_is_said_once(count: int) -> None:
    with pytest.raises(Bug, match="undefined value '@nobody'"):
        assemble_all(
            [*TEXTS, "define void @g() {\n  call void @nobody()\n  ret void\n}\n"], HOST, helpers=count
        )
    assert assemble_all(TEXTS, HOST, helpers=count) == WANTED


def test_callers_at_once() -> None:
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: assemble_all(TEXTS, HOST, helpers=2), range(8)):
            assert found == WANTED


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own() -> None:
    assert assemble_all(TEXTS, HOST, helpers=2) == WANTED
    for _ in range(3):
        pid = os.fork()
        if not pid:
            os._exit(assemble_all(TEXTS, HOST, helpers=2) != WANTED)
        assert assemble_all(TEXTS, HOST, helpers=2) == WANTED
        assert os.waitpid(pid, 0)[1] == 0


def test_helpers_are_called_where_there_is_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.child, "start", lambda count: count if workers.child.possible() else 0)
    monkeypatch.setenv("NGMLIR_COMPILE_PROCESSES", "3")
    assert helpers(20, 10_000) == 3
    assert helpers(2, 10_000) == 2
    assert helpers(1, 10_000) == 1
    assert helpers(0, 0) == helpers(20, 100) == 0
    monkeypatch.setenv("NGMLIR_COMPILE_PROCESSES", "0")
    assert helpers(20, 10_000) == 0
    monkeypatch.delenv("NGMLIR_COMPILE_PROCESSES")
    assert helpers(20, 10_000) == compile_processes() == min(available_cores(), 8)
    monkeypatch.setenv("NGMLIR_COMPILE_PROCESSES", "many")
    with pytest.raises(UserError, match="NGMLIR_COMPILE_PROCESSES is 'many'\nhint: set it to an integer"):
        helpers(20, 10_000)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_late_bar_is_shown_on_terminals_only_and_wiped_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(stream: io.StringIO | None, after: float) -> str:
        monkeypatch.setattr("sys.stderr", stream)
        with Progress(3, "compiling", after=after) as progress:
            for done in (1, 2, 3):
                progress.reach(done)
        return stream.getvalue() if stream is not None else ""

    assert shown(io.StringIO(), 0) == shown(Terminal(), 60) == shown(None, 0) == ""
    found = shown(Terminal(), 0)
    assert "3/3" in found and found.endswith("\r\x1b[K")
