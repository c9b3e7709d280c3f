# SPDX-License-Identifier: Apache-2.0
"""What a target may use follows from its features, and targets that cannot be are refused when they are made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ngmlir.llvm.machine import cpu_target, host_target
from ngmlir.support.diagnostics import UserError
from ngmlir.support.machines import machines
from ngmlir.support.target import Target

X86 = "x86_64-unknown-linux-gnu"
SSE = {"minps", "nearest", "byte_lookups"}
AVX2 = {*SSE, "fma", "half", "word_masks"}
AVX512 = {*AVX2, "masks", "ranges", "longs", "lookups"}
#: Name -> bytes and number of vector registers, and what it can do.
NAMED = {
    "x86-64-v2": (16, 16, SSE),
    "x86-64-v3": (32, 16, AVX2),
    "x86-64-v4": (64, 32, AVX512),
    "cascadelake": (64, 32, AVX512),
    "cooperlake": (64, 32, AVX512),
    "aarch64": (16, 32, {"fma", "half", "longs"}),
    "riscv64": (16, 32, {"fma", "longs"}),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_machines(name: str):
    target = cpu_target(name)
    size, registers, capabilities = NAMED[name]
    assert (target.vector_bytes, target.vector_registers, target.code) == (size, registers, "cpu")
    assert {c for c in machines().capabilities if target.can(c)} == capabilities
    assert set(NAMED) == set(machines().named)


def test_features_come_and_go_as_in_llvm():
    target = Target("t", X86, "haswell", "+avx512vl,+sse4.2")
    assert all(target.has(f) for f in ("avx512vl", "avx512f", "avx2", "fma", "f16c", "sse4.2", "sse2"))
    assert not target.has("avx512bw")
    assert target.vector_bytes == 32  # 64 with bytes and words too
    less = replace(target, features=target.features + ",-fma", vector_bytes=0)
    assert less.has("avx2") and not less.has("fma") and not less.has("avx512f")
    assert not less.can("fma")
    with pytest.raises(KeyError):
        target.can("fly")


def test_less_than_there_is_may_be_used():
    v4 = cpu_target("x86-64-v4")
    narrow = replace(v4, vector_bytes=32)
    assert narrow.vector_registers == 32 and narrow.lanes(4) == 8
    assert replace(v4, vector_bytes=16, vector_registers=16).lanes(8) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vector_bytes": 64}, r"vectors of 32 bytes, not of 64\nhint: .*avx512bw, avx512dq, avx512vl"),
        ({"vector_bytes": 128}, "vectors of 32 bytes, not of 128$"),
        ({"vector_bytes": 24}, "no vector has 24 bytes"),
        ({"vector_bytes": 8}, "no vector has 8 bytes"),
        ({"vector_bytes": -16}, "no vector has -16 bytes"),
        ({"vector_registers": 32}, "it has 16 vector registers, not 32"),
        ({"vector_registers": 3}, "it has 16 vector registers, not 3"),
        (
            {"triple": "z80-unknown-none"},
            r"no code for machines of 'z80-unknown-none'\nhint: there is for x86_64",
        ),
        ({"triple": ""}, "no code for machines of ''"),
        ({"features": "avx2"}, "'avx2' is not a feature with its sign"),
        ({"features": "+avx2,"}, "'' is not a feature with its sign"),
        ({"features": "-sse3"}, "code for x86_64 needs sse4.2"),
        ({"cpu": "x86-64", "features": ""}, "code for x86_64 needs sse4.2"),
        ({"cores": 0}, "cores is 0"),
        ({"l1_bytes": -1}, "l1_bytes is -1"),
        ({"alignment": 48}, "alignment is 48"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], message: str):
    with pytest.raises(UserError, match=message):
        replace(cpu_target("x86-64-v3"), **change)  # type: ignore[arg-type]


def test_riscv_without_vectors_is_refused():
    with pytest.raises(UserError, match="code for riscv64 needs v"):
        replace(cpu_target("riscv64"), features="+m,+a,+f,+d,+c")


# NGMLIR_CPU

LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_lesser_machine(level: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NGMLIR_CPU", "native")
    native = host_target()
    monkeypatch.setenv("NGMLIR_CPU", level)
    lacking = cpu_target(level).enabled - native.enabled
    if native.architecture.name != "x86_64":
        with pytest.raises(UserError, match=f"NGMLIR_CPU is '{level}', but this machine is"):
            host_target()
    elif lacking:
        with pytest.raises(UserError, match=rf"but this machine \(.*\) lacks {', '.join(sorted(lacking))}\n"):
            host_target()
    else:
        lesser, named = host_target(), cpu_target(level)
        assert lesser.name == "cpu" and lesser.key != native.key
        assert (lesser.enabled, lesser.vector_bytes) == (named.enabled, named.vector_bytes)
        assert (lesser.cores, lesser.l2_bytes) == (native.cores, native.l2_bytes)


def test_the_machine_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NGMLIR_CPU", raising=False)
    native = host_target()
    for same in ("native", "", " native "):
        monkeypatch.setenv("NGMLIR_CPU", same)
        assert host_target() == native
    monkeypatch.setenv("NGMLIR_CPU", "pentium")
    with pytest.raises(
        UserError, match=r"NGMLIR_CPU is 'pentium', which is not a known machine\nhint: use native or"
    ):
        host_target()
    other = "x86-64-v3" if native.architecture.name == "aarch64" else "aarch64"
    monkeypatch.setenv("NGMLIR_CPU", other)
    with pytest.raises(UserError, match=f"but this machine is {native.architecture.name}"):
        host_target()
