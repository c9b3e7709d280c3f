# SPDX-License-Identifier: Apache-2.0
"""What is computed once, when a program is loaded: the same bits, in memory that is counted, for every call and entry."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_stages import ONCE

import ngmlir as ng
from ngmlir.compiler import compile_module, lower, resolve
from ngmlir.ir.core import Module, Op
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.fuse.prepare import prepare
from ngmlir.passes.lower.plan_memory import plan_memory
from ngmlir.rewrite.remarks import listening
from ngmlir.runtime.cpu import CpuExecutable
from ngmlir.support.diagnostics import Limit, UserError
from ngmlir.support.memory import empty_bytes

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
W = RNG.standard_normal((96, 80)).astype(np.float32)
X = RNG.standard_normal((5, 96)).astype(np.float32)


def dense(rows: int = 5) -> Module:
    n, c, k = ng.make_axis(rows, name="N"), ng.make_axis(96, name="C"), ng.make_axis(80, name="K")
    x = ng.placeholder([n, c])
    return ng.lift([ng.dot(x, ng.tanh(ng.constant(W, [c, k])))], [x]).module


def launches(of: Module, entry: str) -> list[str]:
    function = of.lookup(entry)
    assert function is not None
    return [str(op.attributes["callee"]) for op in function.walk() if op.name == "tile.launch"]


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_a_call_only_multiplies(target: str) -> None:
    of = dense()
    lowered = lower(of, resolve(target))
    assert len(launches(lowered, "main")) == 1
    made = compile_module(of, target)
    wanted = run(of, X)[0]
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(made(X)[0]), wanted, rtol=1e-4, atol=1e-5)


def test_constants_that_only_it_reads_are_let_go() -> None:
    made = compile_module(dense())
    assert isinstance(made, CpuExecutable)
    code = made.program.code
    assert sum(c.nbytes for c in code.constants_in_memory) == 0
    assert sum(c.bytes for c in code.artifact.constants) == 0
    assert sum(a.nbytes for a in code.prepared) >= W.nbytes


TWO = """
func.func @main(%x: tensor<5x96xf32>) -> tensor<5x80xf32> {
  %0 = ng.iota {dimension = 1 : i64} : tensor<96x80xi32>
  %1 = ng.cast %0 : (tensor<96x80xi32>) -> tensor<96x80xf32>
  %2 = ng.sin %1 : tensor<96x80xf32>
  %3 = ng.dot %x, %2 contract [1] x [0] : (tensor<5x96xf32>, tensor<96x80xf32>) -> tensor<5x80xf32>
  func.return %3 : tensor<5x80xf32>
}
func.func @other(%x: tensor<80xf32>) -> (tensor<80xf32>, tensor<80xf32>) {
  %c = ng.constant dense<[CONSTANT]> : tensor<80xf32>
  %0 = ng.exp %c : tensor<80xf32>
  %1 = ng.add %x, %0 : tensor<80xf32>
  func.return %1, %c : tensor<80xf32>, tensor<80xf32>
}
""".replace("CONSTANT", ", ".join(f"{i / 16}" for i in range(80)))


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_each_entry_has_its_own(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path))
    of, y = from_text(TWO), X[0, :80].copy()
    for _ in range(2):  # compiled, then from the cache
        made = compile_module(of, target)
        other = made.entry("other")
        results: Sequence[Any] = other(y)
        np.testing.assert_allclose(np.asarray(results[0]), run(of, y, entry="other")[0], rtol=1e-5)
        np.testing.assert_array_equal(np.asarray(results[1]), np.arange(80, dtype=np.float32) / 16)
        np.testing.assert_allclose(np.asarray(made(X)[0]), run(of, X)[0], rtol=1e-3, atol=1e-4)


def test_executables_and_threads_share_nothing_that_changes() -> None:
    of = dense()
    programs = [compile_module(of) for _ in range(3)]
    wanted = np.asarray(programs[0](X)[0])
    del programs[0]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: np.asarray(programs[i % 2](X)[0]), range(40)))
    assert all(np.array_equal(f, wanted) for f in found)


def test_the_same_bits_as_without() -> None:
    """Packed once or in each call, constant or given: a product is the same."""
    n, c, k = ng.make_axis(5, name="N"), ng.make_axis(96, name="C"), ng.make_axis(80, name="K")
    x, w = ng.placeholder([n, c]), ng.placeholder([c, k])
    given = compile_module(ng.lift([ng.dot(x, w)], [x, w]).module)(X, W)[0]
    fixed = compile_module(ng.lift([ng.dot(x, ng.constant(W, [c, k]))], [x]).module)(X)[0]
    assert np.asarray(given).tobytes() == np.asarray(fixed).tobytes()


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_written_by_hand(target: str, checked: bool) -> None:
    of = from_text(ONCE.replace("PART", "4").replace("MORE", ""))
    if not checked:
        assert np.array_equal(run(of, np.ones(4, np.float32))[0], [1, 2, 3, 4])
    made = compile_module(of, target, checked=checked)
    assert np.array_equal(np.asarray(made(np.ones(4, np.float32))[0]), [1, 2, 3, 4])
    with pytest.raises(UserError, match="no entry @once"):
        made.entry("once")


def test_a_call_that_is_not_known_beforehand_has_no_place() -> None:
    text = """
    func.func @main() -> tensor<4xf32> {
      %0 = func.call @first() : () -> tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }
    func.func private @first() -> tensor<4xf32> {
      %0 = func.call @second() : () -> tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }
    func.func private @second() -> tensor<4xf32>
    """
    with pytest.raises(Limit, match=r"func\.call has no place"):
        plan_memory(from_text(text), resolve("cpu"))


def test_memory_is_bounded() -> None:
    """What is prepared takes no more than some times the constants that it is made of, and what is spared."""

    def kept(spare: int) -> list[Op]:
        of = prepare(from_text(TWO), resolve("cpu"), spare=spare)
        return [op for f in of.ops for op in f.walk() if op.name == "func.call"]

    assert len(kept(96 * 80 * 4)) == 2
    assert len(kept(96 * 80 * 4 - 1)) == 1  # @other's is as large as its constant
    assert len(kept(0)) == 1


def test_decoded_weights_are_prepared_whatever_their_size() -> None:
    """Of 8 bits each; their number does not matter, nor what else is prepared. What is refused is named."""
    text = """
    func.func @main(%x: tensor<1x64xf32>, %y: tensor<64xf32>) -> (tensor<1x900000xf32>, tensor<64xf32>) {
      %w = ng.constant dense<WEIGHTS> : tensor<64x900000xi8>
      %wide = ng.cast %w : (tensor<64x900000xi8>) -> tensor<64x900000xf32>
      %r = ng.dot %x, %wide contract [1] x [0] : (tensor<1x64xf32>, tensor<64x900000xf32>) -> tensor<1x900000xf32>
      %n = ng.iota {dimension = 0 : i64} : tensor<64xf32>
      %table = ng.exp %n : tensor<64xf32>
      %s = ng.multiply %y, %table : tensor<64xf32>
      return %r, %s : tensor<1x900000xf32>, tensor<64xf32>
    }
    """
    module = from_text(text.replace("WEIGHTS", f'"0x{"01ff" * (64 * 450000)}"'))
    said: list[str] = []
    with listening(["prepare"], lambda remark: said.append(remark.message)):
        made = prepare(module, resolve("cpu"), spare=128)
    (main, once) = made.ops
    assert main.symbol == "main" and len(once.block.ops[-1].operands) == 1
    (refused,) = said
    assert "%table, which ng.exp gives, depends on constants alone" in refused and "256 bytes" in refused


def test_programs_share_what_they_prepare_of_the_same_constants() -> None:
    """Where they do the same with them; and no longer than one of them is there."""
    weights = RNG.standard_normal((96, 160)).astype(np.float32)

    def made(rows: int, values: np.ndarray) -> Any:
        n, c, k = ng.make_axis(rows, name="N"), ng.make_axis(96, name="C"), ng.make_axis(160, name="K")
        x, w = ng.placeholder([n, c]), ng.constant(values, [c, k])
        return compile_module(ng.lift([ng.dot(x, w)], [x]).module, "cpu")

    one, two, other = made(20, weights), made(21, weights), made(20, weights + 1)
    (first,), (second,), (third,) = (each.program.code.shared for each in (one, two, other))
    assert first is second and third is not first
    for run_of, values in ((one, weights), (two, weights), (other, weights + 1)):
        x = RNG.standard_normal(run_of.signature.arguments[0].shape).astype(np.float32)
        np.testing.assert_allclose(run_of(x)[0], x @ values, rtol=1e-4, atol=1e-4)
    gone = weakref.ref(first)
    del one, two, first, second, run_of
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_many_constants_are_prepared_a_few_at_a_time(target: str) -> None:
    """Each with what it shares; the same bits as all at once, compiled and from the cache."""
    n, c = ng.make_axis(5, name="N"), ng.make_axis(80, name="C")
    x = ng.placeholder([n, c])
    y: Any = x
    values = [RNG.standard_normal(80).astype(np.float32) for _ in range(6)]
    for i, value in enumerate(values):
        held = ng.tanh(ng.constant(value, [c]))
        y = y * ng.exp(held) + ng.sin(held if i % 2 else ng.tanh(ng.constant(values[0], [c])))
    of = ng.lift([y], [x]).module
    parts = prepare(of, resolve(target), together=700)
    assert 4 <= len(parts.ops) <= 6
    given = X[:, :80].copy()
    wanted = np.asarray(compile_module(of, target)(given)[0])
    for _ in range(2):
        assert np.array_equal(np.asarray(compile_module(parts, target)(given)[0]), wanted)
    np.testing.assert_allclose(wanted, run(parts, given)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_memory_is_nobody_elses() -> None:
    """What a process that forked off writes to buffers of programs is its own business."""
    memory = empty_bytes(4 << 20)
    memory[:] = 1
    child = os.fork()
    if not child:
        memory[:] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (memory == 1).all()
