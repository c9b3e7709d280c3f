# SPDX-License-Identifier: Apache-2.0
"""Kernels are compiled by themselves, once for all programs that have them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_text import planned

import ngmlir as ng
from ngmlir.codegen import cpu, objects
from ngmlir.compiler import compile_artifact, compile_module, lower
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import cpu_target, host_target
from ngmlir.llvm.workers import assemble_all
from ngmlir.ops.words import from_text
from ngmlir.runtime.cache import default_cache
from ngmlir.runtime.cpu import load
from ngmlir.support.target import Target

V3 = cpu_target("x86-64-v3")


def layers(count: int, width: int = 16, last: str = "tanh") -> Module:
    n, h, g = ng.make_axis(8, "N"), ng.make_axis(width, "H"), ng.make_axis(width, "G")
    x = ng.placeholder([n, h])
    value = x
    for i in range(count):
        w = ng.variable([g, h], initial_value=0.1, name=f"w{i}")
        value = ng.cast_axes(ng.tanh(ng.dot(value, w)), [n, h]) + value
    return ng.lift([getattr(ng, last)(value)], [x]).module


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pieces that had to be compiled, with a cache of one's own."""
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NGMLIR_CACHE", "1")
    names: list[str] = []

    def counting(texts: list[str], target: Target, **options: Any) -> list[bytes]:
        names.extend(name for text in texts for name in re.findall(r"^define void @([\w.]*)\(", text, re.M))
        return assemble_all(texts, target, **options)

    monkeypatch.setattr(objects, "assemble_all", counting)
    return names


def kernels(names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".entry")]


def test_a_second_program_compiles_what_is_new(compiled: list[str]) -> None:
    compile_artifact(layers(2), "cpu")
    first = kernels(compiled)
    assert len(first) == len(set(first)) > 1
    compiled.clear()
    compile_artifact(layers(5), "cpu")
    assert kernels(compiled) == [] and len(compiled) == 1
    compiled.clear()
    compile_artifact(layers(5, last="exp"), "cpu")
    assert len(kernels(compiled)) == 1
    compiled.clear()
    compile_artifact(layers(5, last="exp"), "cpu")
    assert compiled == []


def test_damage_is_never_worse_than_compiling_again(compiled: list[str]) -> None:
    before = compile_artifact(layers(2), "cpu")
    cache = default_cache()
    assert cache is not None
    for number, path in enumerate(sorted(cache.folder.glob("*.entry"))):
        data = path.read_bytes()
        if number % 2:
            path.write_bytes(data[:-3])
        else:
            path.unlink()
    after = compile_artifact(layers(2), "cpu")
    assert (after.code, after.kernels) == (before.code, before.kernels)


def test_names_and_numbers_of_kernels_do_not_count() -> None:
    """Also not those that a program gives to tell its kernels apart."""
    body = """
      %v = tile.load %x[%c0] : memref<8xf32>, vector<8xf32>
      %w = ng.WORD %v : vector<8xf32>
      tile.store %w, %o[%c0] : vector<8xf32>, memref<8xf32>"""

    def names(word: str, called: str) -> list[str]:
        text = planned({"x": "memref<8xf32>"}, {"o": "memref<8xf32>"}, body.replace("WORD", word))
        text = text.replace("@k", called).replace("%v", f"%value_{called[1:]}")
        return [piece.name for piece in cpu.parts(from_text(text), V3).pieces]

    assert names("sqrt", "@k_1") == names("sqrt", "@k_12") == names("sqrt", "@k")
    assert names("sqrt", "@k") != names("floor", "@k")
    assert names("sqrt", "@other")[0].partition(".")[2] == names("sqrt", "@k")[0].partition(".")[2]


def numbered(text: str) -> str:
    """The text with numbers for the names of values, which are the program's."""
    names: dict[str, str] = {}
    return re.sub(r"%[\w.$-]+", lambda name: names.setdefault(name[0], f"%{len(names)}"), text)


def test_one_key_is_one_text() -> None:
    """Whatever the program: the shape of its launches is part of the key, and nothing else is part of the code."""
    texts: dict[tuple[str, str], str] = {}
    shared = 0
    for width in (3, 16, 17):
        for count in (1, 2, 6):
            for target in (V3, cpu_target("x86-64-v4"), cpu_target("aarch64")):
                parts = cpu.parts(lower(layers(count, width), target), target)
                for piece in parts.pieces[:-1]:
                    text = numbered(piece.text())
                    known = texts.setdefault((piece.name, target.name), text)
                    assert known == text
                    shared += known is not text
    assert shared >= 12


def test_buffers_that_overlap_make_other_code() -> None:
    """What is promised of the buffers of a kernel holds in each program that has it, or it is another."""
    body = """
      %v = tile.load %x[%c0] : memref<8xf32>, vector<8xf32>
      tile.store %v, %o[%c0] : vector<8xf32>, memref<8xf32>"""
    text = planned({"x": "memref<8xf32>"}, {"o": "memref<8xf32>"}, body)
    call = next(line for line in text.splitlines() if "tile.launch" in line)
    operands = re.search(r"ins\((.*?)\) outs\((.*?)\)", call)
    assert operands is not None
    twice = text.replace(f"outs({operands[2]})", f"outs({operands[1]})")
    apart, together = (cpu.parts(from_text(t), V3).pieces[0] for t in (text, twice))
    assert apart.name != together.name
    assert "noalias" in apart.text() and "noalias" not in together.text()


def test_an_artifact_is_linked_without_a_compiler(compiled: list[str]) -> None:
    module = layers(3)
    made = compile_artifact(module, "cpu")
    compiled.clear()
    found = compile_artifact(module, "cpu")
    assert compiled == [] and found.kernels == made.kernels
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=p.shape).astype(np.float32) for p in made.entries[0].signature.arguments]
    for ours, theirs in zip(load(found)(*arrays), load(made)(*arrays), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_object_says_what_it_computes() -> None:
    artifact = compile_artifact(layers(1), "cpu")
    for code in artifact.kernels:
        assert re.search(rb"\0[a-z_]+\.[0-9a-f]{12}\.(program|run)\0", code)


def test_programs_of_many_kernels() -> None:
    """Equal kernels of different names, and names in common with those of other programs."""
    body = """
      %v = tile.load %x[%c0] : memref<8xf32>, vector<8xf32>
      %w = ng.sqrt %v : vector<8xf32>
      tile.store %w, %o[%c0] : vector<8xf32>, memref<8xf32>"""
    text = planned({"x": "memref<8xf32>"}, {"o": "memref<8xf32>"}, body)
    kernel, _, main = text.partition("func.func")
    call = next(line for line in main.splitlines() if "tile.launch" in line)
    both = (
        kernel
        + kernel.replace("@k", "@k_1")
        + "func.func"
        + main.replace(call, call + "\n" + call.replace("@k", "@k_1"))
    )
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(compile_module(from_text(both))(x)[0], np.sqrt(x))
    assert len(cpu.parts(from_text(both), host_target()).pieces) == 2
