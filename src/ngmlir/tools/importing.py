# SPDX-License-Identifier: Apache-2.0
"""`ngmlir import`: a model of ONNX as text, with its weights in a file next to it. `ngmlir tune` reads and writes the same files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..ir.core import Module
from ..ir.printer import to_text
from ..ir.resource_files import ResourceWriter
from ..ops.words import from_text
from ..support.diagnostics import UserError
from ..support.files import write_files
from .inputs import shapes_of, sizes_of, whole_shapes
from .models import OnnxModel
from .shell import read_input
from .streams import Streams


def import_file(path: str, output: str | None, sizes: list[str], shapes: list[str], own: Streams) -> None:
    """Writes the text (to standard output for `-`, then with the weights in it) and says what was written."""
    if Path(path).suffix != ".onnx":
        raise UserError(f"'{path}' is no .onnx file", hint="ngmlir import model.onnx -o model.ngir")
    target = output if output is not None else str(Path(path).with_suffix(".ngir"))
    if written := write_module(module_of(path, sizes, shapes, own), target, own):
        own.say(f"wrote {written}")


def module_of(path: str, sizes: list[str], shapes: list[str], own: Streams) -> Module:
    """The program in a file: for an ONNX model the one for these lengths, else the one in the text, with constants in files
    next to it."""
    if Path(path).suffix != ".onnx":
        if sizes or shapes:
            hint = "--size and --shape are for models of ONNX"
            raise UserError(f"the lengths of '{path}' are those in its text", hint=hint)
        shown, text = read_input(path, own)
        return from_text(text, file=shown, resources=None if path == "-" else Path(path).parent)
    read = OnnxModel(path)
    whole = whole_shapes(read.inputs, sizes_of(sizes, read.inputs), shapes_of(shapes, read.inputs), own.say)
    given = [
        np.broadcast_to(np.zeros((), each.dtype), shape)
        for each, shape in zip(read.inputs, whole, strict=True)
    ]
    return read.model.module(given)


def write_module(module: Module, target: str, own: Streams) -> str:
    """Writes a program, with its long constants in a file next to it (in the text for `-`, standard output); returns what was
    written, '' for standard output."""
    if target == "-":
        own.write(to_text(module))
        return ""
    weights = Path(target).with_suffix(".bin")
    if weights == Path(target):
        raise UserError(f"'{target}' would be the file of the weights", hint="-o model.ngir")
    beside = ResourceWriter(weights.name)
    text = to_text(module, file=beside)
    write_files({**({str(weights): beside.pieces()} if beside.parts else {}), target: [text.encode()]})
    size = f", {weights} ({beside.size / 1e6:.1f} MB of weights)" if beside.parts else ""
    return f"{target}{size}"
