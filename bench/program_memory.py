# SPDX-License-Identifier: Apache-2.0
"""Memory of a training step of each program of `examples/programs`: planned, counted by the system, and of a pool.

    python bench/program_memory.py [--megabytes 400] [--only REGEX]
    python bench/program_memory.py --share 0.6
    python bench/program_memory.py --batches 1000

The first step of each example is taken as the example runs it; its batch is repeated until the step takes so many megabytes, so that
pages and what Python allocates meanwhile count little. `planned` is what is known before the step runs: state, what is fed,
results, constants and temporaries. `measured` is by how much the anonymous memory of a process grows that runs the step once
(/proc/self/smaps_rollup of Linux). Of what is planned, `temporaries` is beside two pools, in which everything takes the memory of something equal that has
ended: of the buffers of the compiled program, by size, and of the variables of the program, by shape and type. Variables are
those of the outermost block: what operators compute inside, and what their blocks do, is in `temporaries` alone.

With `--share` temporaries are held to that share of their peak (`memory_limit=`): what is planned then, whether all results have the same bits, and how much
longer the step takes.

With `--batches` a process of each program over sequences runs so many batches of other lengths: how many programs are compiled for the first ten and for the others (nothing is
kept on disk), and by how much the memory grows that is planned for temporaries, and that of the process, behind the first ten.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from compilations import compilations

import ngmlir.frontends.fluid as fluid
from ngmlir.compiler import lower as lower_module
from ngmlir.frontends.fluid.feeding import fed, with_io
from ngmlir.frontends.fluid.memory import MemoryUse, memory_of
from ngmlir.ir.literals import dtype_of
from ngmlir.pictures.memory import memory_plan
from ngmlir.programs.descriptions import Program as ProgramView
from ngmlir.programs.liveness import liveness
from ngmlir.programs.lower import lower
from ngmlir.runtime.cpu import Arena
from ngmlir.transformers.compiled_programs import Compiled, compiled

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "programs"))
MB = 1e6
Array = np.ndarray[Any, Any]
Feed = Mapping[str, Any]
#: The programs, and what to call `main` with: the name of a network among those of the module.
MODELS: dict[str, tuple[str, str | None]] = {
    "fit a line": ("fit_a_line", None),
    "digits, MLP": ("recognize_digits", "mlp"),
    "digits, convolutions": ("recognize_digits", "conv"),
    "images, ResNet": ("image_classification", "resnet"),
    "images, VGG": ("image_classification", "vgg"),
    "word vectors": ("word2vec", None),
    "recommender": ("recommender_system", None),
    "lines, convolutions": ("understand_sentiment", "convolution"),
    "lines, stacked LSTMs": ("understand_sentiment", "stacked_lstm"),
    "kinds of tokens": ("label_semantic_roles", None),
    "dates in words": ("machine_translation", None),
}


#: Those whose batches differ in the lengths of sequences.
OVER_SEQUENCES = ("lines, convolutions", "lines, stacked LSTMs", "kinds of tokens", "dates in words")


class Step(NamedTuple):
    """A run of a program: what it is fed, what is fetched, and the scope of its state."""

    program: fluid.Program
    feed: Feed
    fetched: Sequence[str]
    scope: fluid.Scope


class Reached(Exception):
    """The first training step of an example."""


def first_step(name: str) -> Step:
    """The first run of an example that is fed, with what it is fed."""
    module, network = MODELS[name]
    example = __import__(module)
    found: list[Step] = []
    whole = fluid.Executor.run

    def run(
        self: fluid.Executor, program: Any = None, feed: Any = None, fetch_list: Any = None, **more: Any
    ) -> Any:
        if feed:
            fetched = [each if isinstance(each, str) else each.name for each in fetch_list]
            found.append(Step(program, feed, fetched, more.get("scope") or fluid.global_scope()))
            raise Reached
        return whole(self, program, feed, fetch_list, **more)

    fluid.Executor.run = run
    try:
        example.main(*([getattr(example, network)] if network else []))
    except Reached:
        pass
    finally:
        fluid.Executor.run = whole
    return found[0]


def repeated(value: Any, times: int) -> Any:
    """A batch so many times: rows, or sequences."""
    rows = np.concatenate([np.array(value)] * times)
    if not isinstance(value, fluid.LoDTensor) or not value.lod():
        return rows
    return fluid.create_lod_tensor(rows, [each * times for each in value.recursive_sequence_lengths()], None)


class Held:
    """A variable that a program keeps."""

    def __init__(self, array: Array):
        self.host = array

    def on(self, device: Any) -> Any:
        raise NotImplementedError

    def get(self) -> Any:
        return self.host.copy()


def states(made: Compiled, scope: fluid.Scope) -> dict[int, Held]:
    """Copies of what a program keeps."""
    first = len(made.interface.feeds)
    held: dict[int, Held] = {}
    for i, state in enumerate(made.interface.states, first):
        found = scope.find_var(state.name)
        value = (
            None if found is None or not found.get_tensor().is_initialized else np.array(found.get_tensor())
        )
        held[i] = Held(np.zeros(state.shape, state.dtype) if value is None else value)
    return held


def run(made: Compiled, scope: fluid.Scope, arrays: Mapping[str, Array]) -> Sequence[Any]:
    """One run."""
    bound = made.bind("main", states(made, scope), made.interface.tied, tuple)
    return bound(*[arrays[name].copy() for name in made.interface.feeds])


class Ready(NamedTuple):
    """A step for the lengths that it is fed: as a program with `feed` and `fetch` operators, compiled, and its arrays. `sizes` are the lengths
    that depend on values."""

    program: ProgramView
    sizes: Sequence[int]
    made: Compiled
    arrays: Mapping[str, Array]


def prepared(step: Step) -> Ready:
    """A step compiled for its lengths."""
    arrays = fed(step.program, step.feed)
    whole, sizes = with_io(step.program.view, arrays, step.fetched), list[int]()
    while (made := compiled(whole, "cpu", sizes)).measures:
        sizes += np.asarray(run(made, step.scope, arrays)[0]).tolist()
    return Ready(whole, sizes, made, arrays)


def told(ready: Ready) -> MemoryUse:
    """What a step takes, known before it runs."""
    return memory_of(ready.program, ready.sizes)


class Pool:
    """Memory of which each piece is taken by what is of its kind, and by nothing else."""

    def __init__(self) -> None:
        self.taken: Counter[Any] = Counter()
        self.free: Counter[Any] = Counter()

    def take(self, kind: Any) -> None:
        """A piece for something of that kind."""
        if self.free[kind]:
            self.free[kind] -= 1
        else:
            self.taken[kind] += 1

    def release(self, kind: Any) -> None:
        """What had it has ended."""
        self.free[kind] += 1


def pool_of_buffers(ready: Ready) -> int:
    """What the buffers of the compiled program would take, each the memory of one of equal size."""
    lowered = lower(ready.program, sizes=ready.sizes)
    plan = memory_plan(lower_module(lowered.module, "cpu"), lowered.module.ops[0].symbol)
    pool = Pool()
    for step in range(len(plan.steps)):
        for held in plan.held:
            if held.first == step:
                pool.take(held.stop - held.start)
        for held in plan.held:
            if held.last == step:
                pool.release(held.stop - held.start)
    return sum(size * count for size, count in pool.taken.items())


def pool_of_variables(step: Step) -> int:
    """What the variables of a program would take, each the memory of one of equal shape and type."""
    shapes: dict[str, tuple[int, ...]] = {}

    def watch(done: Any) -> None:
        shapes.update({name: np.shape(value) for name, value in done.values.items()})

    executor = fluid.Executor(fluid.NumpyPlace())
    executor.run(
        step.program, dict(step.feed), list(step.fetched), scope=step.scope, return_numpy=False, stepped=watch
    )
    top = step.program.view.top
    pool = Pool()
    for live in liveness(top):
        kinds: dict[str, tuple[int, ...]] = {}
        for name in live.before | live.after | set(live.operator.writes):
            variable = top.find(name)
            if (
                variable is not None
                and name in shapes
                and not variable.persistable
                and not variable.flag("data")
            ):
                kinds[name] = (*shapes[name], dtype_of(variable.element).itemsize)
        for name in kinds.keys() - live.before:
            pool.take(kinds[name])
        for name in kinds.keys() & live.ended:
            pool.release(kinds[name])
    return sum(math.prod(kind) * count for kind, count in pool.taken.items())


def resident() -> int:
    """Bytes of this process that lie in memory, and are of no file."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def enough(step: Step, megabytes: float) -> tuple[Step, int]:
    """The step with its batch repeated until it takes so many megabytes; and how often."""
    whole, times = step, 1
    # Sequences in lanes take less for each the more there are.
    for _ in range(3):
        kept = told(prepared(whole))
        if (growing := kept.peak - kept.state) >= 0.95 * megabytes * MB:
            break
        times = math.ceil(times * megabytes * MB / growing)
        whole = step._replace(feed={n: repeated(v, times) for n, v in step.feed.items()})
    return whole, times


def warm_up() -> None:
    """Runs another program, so that what the first run in a process brings along is there."""
    other = fluid.Program()
    with fluid.program_guard(other, fluid.Program()):
        total = fluid.layers.mean(fluid.layers.data("x", [4]))
    fluid.Executor(fluid.CPUPlace()).run(other, feed={"x": np.ones((2, 4), "f")}, fetch_list=[total])


def measure(name: str, megabytes: float) -> dict[str, Any]:
    """The figures of a model; in a process of its own."""
    step, times = enough(first_step(name), megabytes)
    warm_up()
    ready = prepared(step)
    known, of_buffers = told(ready), pool_of_buffers(ready)
    program, sizes, _, arrays = ready
    del ready, _
    before = resident()
    # From here on memory is that of the program and its run: code (found on disk) and constants, state, what is fed, temporaries and
    # results.
    made = compiled(program, "cpu", sizes)
    kept, given = states(made, step.scope), [arrays[n].copy() for n in made.interface.feeds]
    results = made.bind("main", kept, made.interface.tied, tuple)(*given)
    used = resident() - before
    assert all(np.isfinite(np.asarray(each)).all() for each in results)
    return {
        "times": times,
        "told": known.peak,
        "used": used,
        "temporaries": known.planned,
        "buffers": of_buffers,
        "variables": pool_of_variables(step),
    }


def drawn(feed: Feed, draw: np.random.Generator) -> dict[str, Any]:
    """A batch of some of the sequences."""
    first = next(v for v in feed.values() if isinstance(v, fluid.LoDTensor) and v.lod())
    count = len(first.lod()[0]) - 1
    chosen = draw.integers(0, count, int(draw.integers(count // 2, count + 1)))
    made: dict[str, Any] = {}
    for name, value in feed.items():
        if not isinstance(value, fluid.LoDTensor) or not value.lod():
            made[name] = np.array(value)[chosen]
            continue
        parts = np.split(np.array(value), value.lod()[0][1:-1])
        lengths = [[len(parts[i]) for i in chosen]]
        made[name] = fluid.create_lod_tensor(np.concatenate([parts[i] for i in chosen]), lengths, None)
    return made


def arenas() -> int:
    """Bytes of the memory of temporaries of all programs of this process."""
    return sum(len(each.bytes) for each in gc.get_objects() if isinstance(each, Arena))


def held_to(name: str, share: float, megabytes: float) -> dict[str, Any]:
    """A step whose temporaries are held to a share of their peak, beside the step as it is."""
    step, _ = enough(first_step(name), megabytes)
    program, sizes, made, arrays = prepared(step)
    limit = int(told(Ready(program, sizes, made, arrays)).planned * share)
    held = compiled(program, "cpu", sizes, limit)
    runs = [partial(run, each, step.scope, arrays) for each in (made, held)]
    whole, parts = ([np.asarray(each) for each in one()] for one in runs)
    seconds = [min(timed(one) for _ in range(3)) for one in runs]
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(whole, parts, strict=True))
    return {"limit": limit, "same": same, "longer": seconds[1] / seconds[0]}


def timed(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def grown(name: str, batches: int) -> dict[str, Any]:
    """Planned memory and memory of the process, and what was compiled, after ten batches and after so many others."""
    seen = compilations()
    step = first_step(name)
    executor, draw = fluid.Executor(fluid.CPUPlace()), np.random.default_rng(0)
    found: list[int] = []
    seen.clear()
    for count in (10, batches):
        for _ in range(count):
            executor.run(
                step.program, drawn(step.feed, draw), list(step.fetched), scope=step.scope, return_numpy=False
            )
        found += [len(seen), arenas(), resident()]
    names = ("compiled 10", "planned 10", "used 10", "compiled", "planned", "used")
    return dict(zip(names, found, strict=True))


def in_a_process(name: str, *settings: str) -> dict[str, Any] | None:
    """What a process of its own prints of a model."""
    words = [sys.executable, __file__, "--model", name, *settings]
    where = {**os.environ, "NGMLIR_CACHE": "0"} if "--batches" in settings else None
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=where)
    if done.returncode:
        print(f"{name}: {done.stderr.strip().splitlines()[-1]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--only", default="")
    parser.add_argument("--share", type=float, default=0)
    parser.add_argument("--batches", type=int, default=0)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        if options.batches:
            print(json.dumps(grown(options.model, options.batches)))
        elif options.share:
            print(json.dumps(held_to(options.model, options.share, options.megabytes)))
        else:
            print(json.dumps(measure(options.model, options.megabytes)))
        return
    names = [name for name in MODELS if re.search(options.only, name)]
    asked = options.share or options.batches
    if not asked:
        print(
            f"{'MB':22}{'batches':>8}{'planned':>10}{'measured':>10}{'':>8}"
            f"{'temporaries':>13}{'of buffers':>12}{'of variables':>14}"
        )
    for name in names if not asked else []:
        if (r := in_a_process(name, "--megabytes", str(options.megabytes))) is not None:
            print(
                f"{name:22}{r['times']:8}{r['told'] / MB:10.1f}{r['used'] / MB:10.1f}{r['used'] / r['told'] - 1:+8.1%}"
                f"{r['temporaries'] / MB:13.1f}{r['buffers'] / MB:12.1f}{r['variables'] / MB:14.1f}",
                flush=True,
            )
    for name in names if options.share else []:
        if (r := in_a_process(name, "--share", str(options.share), "--megabytes", "100")) is not None:
            bits = "the same bits" if r["same"] else "OTHER RESULTS"
            print(
                f"{name:24}{r['limit'] / MB:8.1f} MB of temporaries, {bits}, {r['longer']:.2f} of the time",
                flush=True,
            )
    for name in [name for name in names if name in OVER_SEQUENCES] if options.batches else []:
        if (r := in_a_process(name, "--batches", str(options.batches))) is not None:
            planned, used = ((r[what] - r[f"{what} 10"]) / MB for what in ("planned", "used"))
            later = r["compiled"] - r["compiled 10"]
            print(
                f"{name:24}{r['compiled 10']:4} compiled for ten batches, {later} later;"
                f"{planned:+8.2f} MB planned, {used:+6.2f} MB of the process",
                flush=True,
            )


if __name__ == "__main__":
    main()
