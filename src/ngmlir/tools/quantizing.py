# SPDX-License-Identifier: Apache-2.0
"""`ngmlir quantize`: a model of ONNX in 8 or 4 bits, and how far it is from its f32 form."""

from __future__ import annotations

import argparse
import os
from argparse import Namespace
from pathlib import Path

from ..runtime.threads import checked_threads
from ..support.diagnostics import UserError
from ..support.files import write_file
from .streams import Streams


def add_flags(known: argparse.ArgumentParser) -> None:
    """The command line of `ngmlir quantize`."""
    add = known.add_argument
    add("file", help="the .onnx file, in f32")
    add("-o", metavar="FILE", help="output file (default: the model's name with -MODE.onnx)")
    add(
        "--mode",
        default="static",
        metavar="MODE",
        help="static: activations and weights in 8 bits, with measured ranges (default); dynamic: with the ranges of "
        "each call; weights: weights alone",
    )
    add(
        "--bits",
        type=int,
        default=8,
        metavar="N",
        help="bits of weights, 8 (default) or, with --mode weights, 4",
    )
    add(
        "--block",
        type=int,
        default=32,
        metavar="N",
        help="weights of 4 bits that have one scale (default: 32)",
    )
    add(
        "--calibration",
        action="append",
        default=[],
        metavar="DATA",
        help="inputs as they occur in use: all.npz, x.npy, name=x.npy, or a folder of .npz and .npy files",
    )
    add("--random", type=int, default=0, metavar="N", help="N random samples instead, to try things out")
    add(
        "--method",
        default="minmax",
        metavar="METHOD",
        help="ranges of activations: minmax (default), or percentile: all but 1e-4 of the elements",
    )
    add(
        "--keep",
        action="append",
        default=[],
        metavar="NODE",
        help="leave this node in f32; 'layer1*': all that begin so (may be given several times)",
    )
    add("--report", metavar="FILE", help="write the report as JSON")
    add("--time", action="store_true", help="time a call in f32 and quantised")
    add("--threads", type=int, metavar="N", help="number of CPU threads")


def quantize_file(found: Namespace, own: Streams) -> None:
    """Writes the model, and prints the report. UserError before anything is written."""
    if found.threads is not None:
        os.environ["NGMLIR_NUM_THREADS"] = str(checked_threads(found.threads))
    if Path(found.file).suffix != ".onnx":
        raise UserError(
            f"'{found.file}' is no .onnx file", hint="ngmlir quantize model.onnx --calibration inputs.npz"
        )
    if found.calibration and found.random:
        raise UserError("--calibration and --random are both given", hint="use one of them")
    stem = Path(found.file).with_suffix("")
    target = found.o if found.o is not None else f"{stem}-{found.mode}.onnx"
    if Path(target).exists() and Path(target).resolve() == Path(found.file).resolve():
        raise UserError("the output would replace the model", hint="-o another.onnx")
    from ..frontends import onnx  # the package onnx is loaded with the first model

    made = onnx.quantize(
        found.file,
        found.calibration or None,
        mode=found.mode,
        bits=found.bits,
        block=found.block,
        method=found.method,
        keep=found.keep,
        random=found.random,
        timed=found.time,
        progress=own.say,
    )
    made.save(target)
    if found.report is not None:
        write_file(found.report, [made.report.json().encode()])
    own.write(str(made.report))
    own.say(f"wrote {target}" + (f" and {found.report}" if found.report is not None else ""))
