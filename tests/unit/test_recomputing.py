# SPDX-License-Identifier: Apache-2.0
"""`ng.recompute` and `memory_limit=`: less memory, the same bits, and refusals that name the line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recomputed_networks import NETWORKS, Step, kept, mlp

import ngmlir as ng
import ngmlir.numpy as nn
from ngmlir.compiler import lower, resolve
from ngmlir.op_graph.lift import lift
from ngmlir.transformers import make_transformer_factory

#: Small networks for the simulator.
SMALL: dict[str, dict[str, int]] = {
    "mlp": {"depth": 6, "width": 20, "batch": 9},
    "convnet": {"depth": 2, "channels": 4, "size": 6, "batch": 2},
    "transformer": {"depth": 2, "width": 16, "heads": 2, "length": 8},
}


def run(step: Step, target: str, limit: int | None = None, times: int = 2) -> tuple[list[bytes], int]:
    """All values of some training steps, one after the other, as bytes, and the planned memory of temporaries."""
    given = {} if limit is None else {"memory_limit": limit}
    with make_transformer_factory(target, **given)() as transformer:
        computation = transformer.computation(step.returns, *step.fed)
        values = [computation(*step.arrays) for _ in range(times)]
        peak = computation.report().peak
    return [np.asarray(v).tobytes() for each in values for v in each if v is not None], peak


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_less_memory_and_the_same_bits(name: str, target: str) -> None:
    sizes = SMALL[name] if target == "cuda-sim" else {}
    times = 1 if target == "cuda-sim" else 2
    wanted, peak = run(NETWORKS[name](kept, **sizes), target, times=times)
    limit = peak * (8 if target == "cuda-sim" else 6) // 10  # of small networks one step needs the most
    found, limited = run(NETWORKS[name](kept, **sizes), target, limit, times)
    assert found == wanted and limited <= limit
    marked, less = run(NETWORKS[name](ng.recompute, **sizes), target, times=times)
    assert marked == wanted
    assert less < peak * (1 if target == "cuda-sim" else 0.65)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_results_of_a_kernel_are_computed_one_at_a_time(target: str) -> None:
    """One kernel computes the error of each row for the loss, and that for the gradient, each half of the memory."""
    rows = 40000 if target == "cpu" else 400
    draw = np.random.default_rng(0)
    x, y = nn.placeholder((rows, 3), "float32"), nn.placeholder((rows,), "float32")
    w = nn.variable(draw.normal(size=3).astype("float32"))
    error = x @ w - y
    loss = nn.mean(error * error)
    arrays = [draw.normal(size=v.shape).astype("float32") for v in (x, y)]
    step = Step([loss, ng.deriv(loss, w)], [x, y], arrays)
    wanted, peak = run(step, target)
    assert peak >= 4 * 2 * rows
    limit = (
        peak * (8 if target == "cuda-sim" else 6) // 10
    )  # there the gradient of three columns is another result
    found, limited = run(step, target, limit)
    assert found == wanted and limited <= limit


@pytest.mark.parametrize("name", NETWORKS)
def test_the_reference_gives_the_same_with_marks(name: str) -> None:
    assert run(NETWORKS[name](ng.recompute), "numpy")[0] == run(NETWORKS[name](kept), "numpy")[0]


def test_marks_and_a_limit_together() -> None:
    wanted, peak = run(mlp(kept), "cpu")
    found, limited = run(mlp(ng.recompute), "cpu", peak * 6 // 10)
    assert found == wanted and limited <= peak * 6 // 10


def test_kernels_are_those_of_the_program_without_marks() -> None:
    """What is computed again is computed by the same kernels: a part of a product is not summed in another order."""

    def kernels(step: Step) -> set[str]:
        module = lower(lift(step.returns, step.fed).module, resolve("cpu"))
        return {op.symbol for op in module.ops if op.name == "tile.kernel"}

    assert kernels(mlp(kept)) == kernels(mlp(ng.recompute))


def test_a_function_of_one_value_or_several() -> None:
    w = nn.variable(np.full((4, 4), 0.5, "float32"))
    x = nn.placeholder((4, 4), "float32")

    @ng.recompute
    def block(h: Any) -> dict[str, Any]:
        """Doc."""
        y = nn.tanh(h @ w)
        return {"twice": (y @ w, [nn.exp(y)]), "number": 3}

    made = block(x)
    assert block.__doc__ == "Doc." and made["number"] == 3
    total = nn.sum(made["twice"][0] * made["twice"][1][0])
    text = str(lift([total, ng.deriv(total, w)], [x]).module)
    assert text.count("ng.recompute") == 1
    # Nothing is kept for a gradient where there is none.
    assert "ng.recompute" not in str(lift([total], [x]).module)


def test_parts_in_parts_and_second_derivatives() -> None:
    def build(mark: Any) -> list[Any]:
        w = nn.variable(np.linspace(-1, 1, 64, dtype="float32").reshape(8, 8))
        inner = mark(lambda h: nn.tanh(nn.tanh(h @ w) @ w))
        outer = mark(lambda h: inner(nn.exp(inner(h) * 0.1)))
        y = nn.sum(outer(outer(w)) ** 2)
        slope = ng.deriv(y, w)
        return [y, slope, ng.deriv(nn.sum(slope * slope), w)]

    for target in ("cpu", "numpy"):
        found, wanted = (ng.compile(build(mark), target=target)() for mark in (ng.recompute, kept))
        assert [a.tobytes() for a in found] == [b.tobytes() for b in wanted]


def test_marks_in_a_loop_change_nothing() -> None:
    t, b, h = (ng.make_axis(n, name=name) for n, name in ((5, "T"), (3, "B"), (4, "H")))
    w, xs = ng.variable([h, h.named("K")], initial_value=0.25), ng.placeholder([t, b, h])

    def body(state: Any, x: Any) -> Any:
        new = ng.recompute(lambda: ng.cast_axes(ng.tanh(ng.dot(state + x, w)), [b, h]))()
        return new, new

    last, _ = ng.scan(body, ng.constant(0.0, [b, h]), xs, t)
    total = ng.sum(last, out_axes=())
    module = lift([total, ng.deriv(total, w)], [xs]).module
    assert "ng.recompute" not in str(module)


def test_random_numbers_are_drawn_once() -> None:
    """State that a part changes is changed once, and what is computed again sees what was there."""

    def build(mark: Any) -> list[Any]:
        random = nn.random.default_rng(1)
        w = nn.variable(np.full((32, 32), 0.1, "float32"))
        h: Any = w
        for _ in range(6):
            h = mark(lambda h: nn.where(random.uniform(size=(32, 32)) < 0.5, nn.tanh(nn.tanh(h @ w) @ w), 0))(
                h
            )
        loss = nn.sum(h * h)
        return [loss, ng.assign(w, w - ng.deriv(loss, w))]

    plain = ng.compile(build(kept))
    marked = ng.compile(build(ng.recompute))
    limited = ng.compile(build(kept), memory_limit=plain.report().peak * 9 // 10)
    for _ in range(3):
        wanted = plain()[0].tobytes()
        assert marked()[0].tobytes() == wanted and limited()[0].tobytes() == wanted


def test_a_limit_that_cannot_be_held_names_the_line_and_changes_nothing() -> None:
    weights = [nn.variable(np.eye(64, dtype="float32")) for _ in range(2)]
    x = nn.placeholder((64, 64), "float32")
    h = nn.tanh(x @ weights[0])  # here
    loss = nn.sum(nn.tanh(h @ weights[1]))
    updates = [ng.assign(w, w - ng.deriv(loss, w)) for w in weights]
    with ng.transformers.make_transformer_factory("cpu", memory_limit=1000)() as transformer:
        step = transformer.computation([loss, ng.doall(updates)], x)
        with pytest.raises(ng.UserError) as caught:
            step(np.ones((64, 64), "float32"))
        found = caught.value.diagnostics[0]
        assert found.location.file == __file__ and found.location.line > 0
        assert "bytes of memory at once; the limit is 1,000" in found.message
        assert found.hint.startswith("a limit of ") and found.notes
        assert transformer.get_tensor_view_value(weights[0]).tolist() == np.eye(64).tolist()
    least = int(found.hint.split()[3].replace(",", ""))
    assert ng.compile([loss, ng.doall(updates)], [x], memory_limit=least).report().peak <= least


def test_a_limit_holds_for_every_length() -> None:
    """Also for one whose products are larger than it: their columns are summed before their rows, so they are in memory."""
    n, k, m = ng.make_axis(name="N"), ng.make_axis(64, name="K"), ng.make_axis(64, name="M")
    x, u = ng.placeholder([n, k]), ng.placeholder([k, m])
    h = ng.tanh(ng.dot(x, u))
    shares = h / ng.sum(h, reduction_axes=[n])
    run = ng.compile(ng.sum(shares, reduction_axes=[m]), [x, u], memory_limit=1 << 18)
    weights = np.full((64, 64), 0.01, np.float32)
    for length in (3, 5, 9):
        assert np.allclose(run(np.ones((length, 64), np.float32), weights), 64 / length)
    with pytest.raises(ng.UserError, match="the limit is 262,144"):
        run(np.ones((5000, 64), np.float32), weights)


@pytest.mark.parametrize("limit", [0, -5, 2.5, True, "1 MB"])
def test_what_is_no_limit(limit: Any) -> None:
    with pytest.raises(ng.UserError, match="a memory limit is a number of bytes"):
        ng.transformers.make_transformer_factory("cpu", memory_limit=limit)()


def test_where_there_is_no_plan() -> None:
    with pytest.raises(ng.UserError, match="plans no memory"):
        ng.compile(nn.exp(nn.variable(np.ones(3, "float32"))), target="numpy", memory_limit=1 << 20)


def test_what_cannot_be_computed_again() -> None:
    x = nn.placeholder((3,), "float32")
    with pytest.raises(ng.UserError, match="takes a function, not"):
        ng.recompute(x)  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(ng.UserError, match="returns no tensor that it computes"):
        ng.recompute(lambda: x)()


def test_python_functions_among_what_is_limited() -> None:
    """Each compiled part of a program that calls Python functions has the limit."""
    w = nn.variable(np.full((32, 32), 0.1, "float32"))
    doubled = ng.host_op(lambda a: a * 2)
    h: Any = w
    for _ in range(6):
        h = nn.tanh(h @ w)
    wanted = ng.compile(nn.sum(doubled(h) * 1.5))()
    assert ng.compile(nn.sum(doubled(h) * 1.5), memory_limit=1 << 16)() == wanted
    with pytest.raises(ng.UserError, match="the limit is 100"):
        ng.compile(nn.sum(doubled(h) * 1.5), memory_limit=100)()


SCRIPT = Path(__file__).with_name("recomputed_peak.py")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_what_is_told_is_what_is_used(name: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told, used = map(int, done.stdout.split())
    assert told > 30e6 and abs(used - told) <= 0.02 * told
