# SPDX-License-Identifier: Apache-2.0
"""Measures the memory of one run of a program by what the kernel of the system says of this process; prints it beside what was
told before the run.

    python peak_memory.py NETWORK BATCH
"""

from __future__ import annotations

import ctypes
import gc
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid.feeding import with_io
from ngmlir.frontends.fluid.memory import memory_use
from ngmlir.transformers.compiled_programs import compiled


@dataclass
class Held:
    """A variable that a program keeps."""

    host: np.ndarray[Any, Any]

    def on(self, device: Any) -> Any:
        raise NotImplementedError

    def get(self) -> Any:
        return self.host.copy()


def network(name: str) -> fluid.Variable:
    """The loss of a network, to be trained or not."""
    label = fluid.layers.data("label", [1], dtype="int64")
    if name.startswith("mlp"):
        hidden = fluid.layers.data("x", [512])
        for _ in range(4):
            hidden = fluid.layers.fc(hidden, 1024, act="tanh")
    else:
        hidden = fluid.layers.data("x", [3, 32, 32])
        for filters in (8, 16, 32):
            hidden = fluid.layers.conv2d(hidden, filters, 3, padding=1, bias_attr=False)
            hidden = fluid.layers.batch_norm(hidden, act="relu")
            hidden = fluid.layers.pool2d(hidden, 2, "max", 2)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(hidden, 10, act="softmax"), label))
    if name.endswith("training"):
        fluid.optimizer.Adam(0.001).minimize(loss)
    return loss


def without_huge_pages() -> None:
    """Has the system give this process pages of one size. A huge page counts whole where any of it is touched, and whether one is
    used changes from run to run.

    It is ``PR_SET_THP_DISABLE`` of ``prctl`` (Linux 3.15).
    """
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)


def resident() -> int:
    """Bytes of this process that lie in memory, and are of no file."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def warm_up() -> None:
    """Runs another program, so that what the first run in a process brings along is there."""
    other = fluid.Program()
    with fluid.program_guard(other, fluid.Program()):
        total = fluid.layers.mean(fluid.layers.data("x", [4]))
    fluid.Executor(fluid.CPUPlace()).run(other, feed={"x": np.ones((2, 4), "f")}, fetch_list=[total])


def main(name: str, batch: int) -> None:
    without_huge_pages()
    warm_up()
    loss = network(name)
    program = fluid.default_main_program()
    if not name.endswith("training"):
        program = program.clone(for_test=True)
    told = memory_use(program, batch).peak
    views = [v.view for v in program.list_vars() if v.is_data]
    shapes = {v.name: [batch if n < 0 else n for n in v.shape] for v in views}
    dtypes = {v.name: program.global_block().var(v.name).np_dtype for v in views}
    stand_ins = {n: np.broadcast_to(np.zeros((), dtypes[n]), shape) for n, shape in shapes.items()}
    interface, bind, _ = compiled(with_io(program.view, stand_ins, [loss.name]), "cpu")
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    # From here on memory is that of the run: state, what is fed, temporaries and results.
    first = len(interface.feeds)
    state = {first + i: Held(np.full(s.shape, 0.01, s.dtype)) for i, s in enumerate(interface.states)}
    fed = [np.full(shapes[n], 1, dtypes[n]) for n in interface.feeds]
    results = bind("main", state, interface.tied, tuple)(*fed)
    print(told, resident() - before, np.isfinite(results[0]).all())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
