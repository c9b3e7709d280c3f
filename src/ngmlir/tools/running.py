# SPDX-License-Identifier: Apache-2.0
"""`ngmlir run`: calls a model or a function once, and says what comes out; times it, or holds it against NumPy."""

from __future__ import annotations

import io
import os
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..runtime.targets import profile_for
from ..runtime.threads import checked_threads
from ..runtime.timing import listening
from ..support.diagnostics import UserError
from ..support.files import write_file
from . import comparison, inputs, models
from .models import Array, Run
from .streams import Streams

#: Calls are timed for about so long, and at least so often.
_SECONDS, _CALLS = 1.0, 5
#: Outputs of at most so many elements are shown whole.
_SHOWN = 16


def run_file(found: Namespace, own: Streams) -> int:
    """The exit code: 1 where results differ from those of NumPy."""
    if found.threads is not None:
        os.environ["NGMLIR_NUM_THREADS"] = str(checked_threads(found.threads))
    if found.o is not None and Path(found.o).suffix not in (".npz", ".npy"):
        raise UserError(f"'{found.o}' must be a .npz or .npy file", hint="-o results.npz")
    program = models.read(found.file, found.entry, own)
    given = _given(found, program, own)
    started = time.perf_counter()
    profile = profile_for(found.target) if found.profile is not None else None
    with listening(profile):
        run = program.on(found.target)
        results = run(given)
    first = time.perf_counter() - started
    outputs = [(name, np.asarray(r)) for name, r in _pairs(program.outputs, results)]
    if found.o is not None:
        _write(found.o, outputs)
        own.say(f"wrote {found.o}")
    else:
        for name, array in outputs:
            own.write(f"{name}: {_described(array)}\n")
    if found.time:
        own.write(f"{_timed(run, given)}; compilation and first call {first:.2f} s\n")
    if profile is not None:
        profile.clear()  # the first call had cold caches
        for _ in range(1 if profile.counts else _CALLS):
            run(given)
        own.write(f"{profile}\n")
        if found.profile:
            profile.write(found.profile)
            own.say(f"wrote {found.profile}")
    if found.check:
        reference = program.on("numpy")(given)
        code = _compared(outputs, [np.asarray(r) for _, r in _pairs(program.outputs, reference)], own)
        if code and (kernel := program.first_wrong(found.target, given)):
            own.say(f"note: the first that differs is {kernel}")
        return code
    return 0


def _given(found: Namespace, program: models.Program, own: Streams) -> list[Array]:
    if isinstance(program, models.OnnxModel):
        arrays = inputs.from_files(found.input, program.inputs, program.with_value)
        program.take(arrays)
    else:
        arrays = inputs.from_files(found.input, program.inputs)
    wanted = program.inputs
    missing = [each for each in wanted if each.name not in arrays]
    if missing and found.random is None:
        raise inputs.lacking(wanted, [each.name for each in missing])
    sizes = inputs.sizes_of(found.size, wanted)
    for each in wanted:  # lengths that arrays say hold for the others
        for stated, length in zip(
            each.shape or (), arrays[each.name].shape if each.name in arrays else (), strict=False
        ):
            if isinstance(stated, str):
                sizes.setdefault(stated, length)
    shapes = inputs.shapes_of(found.shape, wanted)
    if missing:
        whole = [each for each in wanted if each.name not in arrays or each.shape is not None]
        random = np.random.default_rng(found.random)
        shaped = dict(
            zip([e.name for e in whole], inputs.whole_shapes(whole, sizes, shapes, own.say), strict=True)
        )
        for each in missing:
            arrays[each.name] = inputs.random_array(random, shaped[each.name], each.dtype)
    return [arrays[each.name] for each in wanted]


def _pairs(names: Sequence[str], results: Sequence[Any]) -> list[tuple[str, Any]]:
    """Results by name, as arrays; those of a sequence are numbered, those of a map have its keys, those of an optional that is
    empty are left out."""
    found: list[tuple[str, Any]] = []
    for name, result in zip(names, results, strict=True):
        if isinstance(result, list):
            result = cast("list[Any]", result)
            found += _pairs([f"{name}.{i}" for i in range(len(result))], result)
        elif isinstance(result, dict):
            held = cast("dict[int | str, Any]", result)
            found += [(f"{name}.{key}", np.asarray(value, np.float32)) for key, value in held.items()]
        elif result is not None:
            found.append((name, result if result.dtype != object else result.astype(str)))
    return found


def _described(array: Array) -> str:
    shape = "x".join(map(str, array.shape))
    head = f"{array.dtype}{f' {shape}' if shape else ''}"
    if array.size <= _SHOWN:
        return f"{head} {np.array2string(array, separator=', ', threshold=_SHOWN + 1)}"
    if array.dtype.kind == "U":
        return head
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    text = (
        f"{head} from {finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}"
        if finite.size
        else head
    )
    lost = array.size - finite.size
    return f"{text}, {lost} not finite" if lost else text


def _write(path: str, outputs: Sequence[tuple[str, Array]]) -> None:
    stream = io.BytesIO()
    if Path(path).suffix == ".npy":
        if len(outputs) != 1:
            raise UserError(
                f"'{path}' holds one array, there are {len(outputs)} results", hint="-o results.npz"
            )
        np.save(stream, outputs[0][1])
    else:
        np.savez(stream, **dict(outputs))  # pyright: ignore[reportArgumentType]
    write_file(path, [stream.getbuffer()])


def _timed(run: Run, given: Sequence[Array]) -> str:
    seconds: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(seconds) < _CALLS or time.perf_counter() < end:
        started = time.perf_counter()
        run(given)
        seconds.append(time.perf_counter() - started)
    return f"time: minimum {_shown(min(seconds))}, median {_shown(float(np.median(seconds)))} of {len(seconds)} calls"


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _compared(outputs: Sequence[tuple[str, Array]], reference: Sequence[Array], own: Streams) -> int:
    worst, wrong = 0.0, 0
    for (name, array), other in zip(outputs, reference, strict=True):
        apart = comparison.difference(array, other)
        worst = max(worst, apart)
        if comparison.differs(array, other):
            wrong += 1
            element = comparison.worst_element(array, other)
            at = f": {element}" if element else ""
            own.say(f"error: {name} differs from NumPy by {apart:.3g} of its largest element{at}")
    if not wrong:
        own.write(f"check: equal to NumPy within {worst:.3g} of the largest element\n")
    return 1 if wrong else 0
