# SPDX-License-Identifier: Apache-2.0
"""Programs on the target `cuda`, through the bindings of the driver, on a fake of it that runs kernels in the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from fake_cuda import Machine
from test_kernels import PROGRAMS, program, values

import ngmlir as ng
from ngmlir import compiler
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text


@pytest.mark.parametrize("line", PROGRAMS.strip().splitlines()[::6])
def test_kernels_give_the_reference(line: str, machine: Machine) -> None:
    module = from_text(program(line)[0])
    main = module.lookup("main")
    assert main is not None
    random = np.random.default_rng(7)
    arrays = [values(a.type, random) for a in main.block.args]
    (expected,) = run(module, *arrays)
    called = compiler.compile_module(module, "cuda")
    for _ in range(3):
        (got,) = called(*arrays)
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=1e-3)


def test_a_network_learns_as_on_the_cpu(machine: Machine) -> None:
    def losses(target: str) -> list[float]:
        N, C = ng.make_axis(16, name="N"), ng.make_axis(5, name="C")
        x, t = ng.placeholder([N, C]), ng.placeholder([N])
        w, b = ng.variable([C], initial_value=0.1), ng.variable([], initial_value=0)
        loss = ng.mean(ng.square(ng.tanh(ng.dot(x, w) + b) - t), out_axes=())
        updates = ng.doall([ng.assign(v, v - 0.1 * ng.deriv(loss, v)) for v in (w, b)])
        with ng.transformers.make_transformer(target) as transformer:
            step = transformer.computation([loss, updates], x, t)
            random = np.random.default_rng(0)
            return [float(step(random.normal(size=(16, 5)), random.normal(size=16) / 4)[0]) for _ in range(6)]

    np.testing.assert_allclose(losses("cuda"), losses("cpu"), rtol=1e-5)


def test_loops_ask_the_device(machine: Machine) -> None:
    n = ng.placeholder([], dtype="i32")
    power = ng.while_loop(lambda i, p: ng.less(i, n), lambda i, p: (i + 1, p * 2), (0, 1))[1]
    count = ng.compile(power, [n], target="cuda")
    assert [int(count(k)) for k in (0, 1, 5, 10)] == [1, 2, 32, 1024]
