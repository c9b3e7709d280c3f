# SPDX-License-Identifier: Apache-2.0
"""The cache on disk: whatever happens to it, code still compiles."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ir.elements import KNOWN
from ngmlir.llvm import host as host_module
from ngmlir.llvm.machine import assemble, cpu_target, host_target
from ngmlir.ops.words import from_text
from ngmlir.runtime import cache as cache_module
from ngmlir.runtime.cache import Cache, assembled, default_cache, key_of
from ngmlir.runtime.stored import artifact_of, bytes_of, header_of
from ngmlir.support.artifact import Artifact, Branch, Entry, Launch, Place, Repeat
from ngmlir.support.signature import Signature

TEXT = "define i32 @f() {\n ret i32 42\n}\n"
KEY = key_of("a", "b")


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "own"
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(folder))
    monkeypatch.delenv("NGMLIR_CACHE", raising=False)
    return folder


def path_of(store: Cache, key: str = KEY) -> Path:
    (path,) = store.folder.glob(f"{key}*")
    return path


def test_what_was_written_is_read(store: Cache):
    assert store.read(KEY) is None
    code = bytes(range(256)) * 3 + b"\n\n"
    store.write(KEY, code, {"kind": "object", "number": 3})
    entry = store.read(KEY)
    assert entry is not None
    assert entry.code == code
    assert entry.header == {"kind": "object", "number": 3, "bytes": len(code)}
    store.write(KEY, b"")
    assert store.read(KEY) == ({"bytes": 0}, b"")


def test_the_folder_is_for_this_user_alone(store: Cache):
    store.write(KEY, b"code")
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(store).stat().st_mode) == 0o600
    store.folder.chmod(0o777)
    assert store.read(KEY) is None
    store.write("other", b"code")
    assert not (store.folder / "other.entry").exists()


def test_every_flipped_bit_is_found(store: Cache):
    store.write(KEY, b"some code", {"kind": "object"})
    path = path_of(store)
    good = path.read_bytes()
    for position in range(len(good) * 8):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        path.write_bytes(bad)
        assert store.read(KEY) is None, f"bit {position}"
        assert not path.exists()


def test_an_entry_under_the_name_of_another_is_none(store: Cache):
    other = key_of("a", "c")
    store.write(KEY, b"code", {"kind": "object"})
    path_of(store).rename(store.folder / f"{other}.entry")
    assert store.read(other) is None
    assert not list(store.folder.glob("*.entry"))


def test_facts_of_another_machine_are_none(environment: Path, monkeypatch: pytest.MonkeyPatch):
    """They are private, and belong to what they were asked on."""
    if not host_module._identity():
        pytest.skip("the facts of this machine are not kept")
    asked = host_module.host.__wrapped__
    found = asked()
    (path,) = environment.glob("host-*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    monkeypatch.setattr(host_module, "_identity", lambda: "another machine")
    told = found._replace(cpu="another")
    monkeypatch.setattr(host_module, "_asked_apart", lambda: told)
    path.rename(environment / f"host-{sha256(b'another machine').hexdigest()[:32]}.json")
    assert asked() == told


def test_every_truncation_is_found(store: Cache):
    store.write(KEY, b"some code")
    path = path_of(store)
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        assert store.read(KEY) is None
    path.write_bytes(good + b"\0")
    assert store.read(KEY) is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        store = Cache(folder)
        store.write(KEY, b"code")
        assert store.read(KEY) is None


def test_a_full_disk_is_no_error(store: Cache, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module.os, "replace", full)
    store.write(KEY, b"code")
    assert store.read(KEY) is None
    assert list(store.folder.iterdir()) == []


def test_the_longest_unused_go_first(store: Cache):
    store.limit_bytes = 2500
    now = time.time()
    for age, name in ((30, "old"), (20, "used"), (10, "new")):
        store.write(name, bytes(1000))
        os.utime(store.folder / f"{name}.entry", (now - age, now - age))
    assert store.read("used") is not None
    store.evict()
    assert sorted(path.stem for path in store.folder.iterdir()) == ["new", "used"]
    store.limit_bytes = 0
    store.evict()
    assert list(store.folder.iterdir()) == []


def test_what_a_crash_left_is_removed(store: Cache):
    store.write(KEY, b"code")
    left, fresh = store.folder / "crashed.tmp", store.folder / "working.tmp"
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (0, 0))
    store.evict()
    assert not left.exists() and fresh.exists()


def test_keys():
    assert key_of("ab", "c") != key_of("a", "bc") != key_of("abc")
    assert key_of("ä") == key_of("ä")
    assert len(KEY) == 64


def test_objects_are_assembled_once(environment: Path, monkeypatch: pytest.MonkeyPatch):
    first = assembled(TEXT, host_target())
    assert first == assemble(TEXT, host_target())

    def never(*_: object) -> bytes:
        raise AssertionError("assembled again")

    with monkeypatch.context() as patch:
        patch.setattr(cache_module, "assemble", never)
        assert assembled(TEXT, host_target()) == first
    assert assembled(TEXT, host_target(), "speed")
    assert assembled(TEXT, cpu_target("aarch64")) != first
    assert len(list(environment.glob("*.entry"))) == 3


def test_a_damaged_object_is_assembled_again(environment: Path):
    first = assembled(TEXT, host_target())
    (path,) = environment.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert assembled(TEXT, host_target()) == first
    (path,) = environment.iterdir()
    assert path.read_bytes().endswith(first)


def test_the_cache_can_be_turned_off(environment: Path, monkeypatch: pytest.MonkeyPatch):
    store = default_cache()
    assert store is not None and store.folder == environment
    monkeypatch.setenv("NGMLIR_CACHE", "0")
    assert default_cache() is None
    assert assembled(TEXT, host_target())
    assert not environment.exists()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("NGMLIR_CACHE_DIR", raising=False)
    monkeypatch.delenv("NGMLIR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = default_cache()
    assert store is not None
    assert store.folder == tmp_path / "ngmlir" or sys.platform != "linux"


def test_processes_share_a_folder(tmp_path: Path):
    """Writers replace each other's entries; readers see nothing or all of one of them."""
    program = """
import sys
from pathlib import Path
from ngmlir.runtime.cache import Cache
store = Cache(Path(sys.argv[1]), limit_bytes=200_000)
number = int(sys.argv[2])
for i in range(150):
    store.write(f"key{i % 7}", bytes([number]) * (1000 + 997 * number))
    entry = store.read(f"key{(i + 3) % 7}")
    assert entry is None or len(set(entry.code)) == 1 and len(entry.code) == 1000 + 997 * entry.code[0]
    if i % 50 == 0:
        store.evict()
"""
    folder = str(tmp_path / "cache")
    processes = [subprocess.Popen([sys.executable, "-c", program, folder, str(i)]) for i in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert all(path.suffix == ".entry" for path in (tmp_path / "cache").iterdir())


def test_what_conditions_decide_over_is_stored_too() -> None:
    place = Place("arena", 0, 64)
    launch = Launch("k", (7, 1, 1), 128, (Place("argument", 1), place), 16)
    steps = (launch, Branch(place, (launch, Repeat((launch,), Place("result"), ())), ()))
    entry = Entry(Signature("main", (), (), (), 128), steps)
    artifact = Artifact("ptx", b"code", (entry,), "sm_90a")
    header = json.loads(json.dumps(header_of(artifact, [])))
    assert artifact_of((header, bytes_of(artifact, header)), []) == artifact
    assert [each.kernel for each in entry.launches] == ["k"] * 3
    assert artifact_of(({**header, "entries": [{}]}, b"code"), []) is None


def test_what_was_recalled_is_held_up_to_a_limit(tmp_path: Path) -> None:
    store = Cache(tmp_path / "cache", held_bytes=10)
    store.keep("a", b"12345")
    store.write("b", b"1234")
    assert store.recall("b") == b"1234" and store.recall("c") is None
    for path in store.folder.iterdir():
        path.unlink()
    assert store.recall("a") == b"12345" and store.recall("b") == b"1234"
    assert store.read("a") is None
    store.keep("d", b"12")  # the longest unused goes
    assert store.recall("a") is None and store.recall("b") == b"1234" and store.recall("d") == b"12"
    store.keep("e", b"12345678901")
    assert store.recall("e") == b"12345678901"  # it is on disk


@pytest.mark.parametrize("count", [KNOWN, KNOWN + 1])
def test_programs_that_differ_in_long_indices_compute_with_their_own(environment: Path, count: int):
    """Of constants of more elements code may depend on the type alone: programs of one structure share it."""
    x = np.arange(count, dtype=np.float32)
    for indices in (np.arange(count)[::-1], np.arange(count)):
        listed = ", ".join(map(str, indices))
        text = f"""func.func @main(%x: tensor<{count}xf32>) -> tensor<{count}xf32> {{
          %i = ng.constant dense<[{listed}]> : tensor<{count}xi64>
          %r = ng.gather %x[%i] axis 0 : (tensor<{count}xf32>, tensor<{count}xi64>) -> tensor<{count}xf32>
          return %r : tensor<{count}xf32>
        }}"""
        (found,) = compile_module(from_text(text), "cpu")(x)
        np.testing.assert_array_equal(found, x[indices])
