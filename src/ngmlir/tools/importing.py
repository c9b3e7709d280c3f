# SPDX-License-Identifier: Apache-2.0
"""`ngmlir import`: a model of ONNX as text, with its weights in a file beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..ir.printer import to_text
from ..ir.resource_files import ResourceWriter
from ..support.diagnostics import UserError
from ..support.files import write_file
from .inputs import shapes_of, sizes_of, whole_shapes
from .models import OnnxModel
from .streams import Streams


def import_file(path: str, output: str | None, sizes: list[str], shapes: list[str], own: Streams) -> None:
    """Writes the text (to standard output for `-`, then with the weights in it) and says what was written."""
    if Path(path).suffix != ".onnx":
        raise UserError(f"'{path}' is no .onnx file", hint="ngmlir import model.onnx -o model.ngir")
    read = OnnxModel(path)
    whole = whole_shapes(read.inputs, sizes_of(sizes, read.inputs), shapes_of(shapes, read.inputs), own.say)
    given = [
        np.broadcast_to(np.zeros((), each.dtype), shape)
        for each, shape in zip(read.inputs, whole, strict=True)
    ]
    module = read.model.module(given)
    target = output if output is not None else str(Path(path).with_suffix(".ngir"))
    if target == "-":
        own.write(to_text(module))
        return
    weights = Path(target).with_suffix(".bin")
    if weights == Path(target):
        raise UserError(f"'{target}' would be the file of the weights", hint="-o model.ngir")
    beside = ResourceWriter(weights.name)
    text = to_text(module, file=beside)
    if beside.parts:
        write_file(str(weights), beside.pieces())
    write_file(target, [text.encode()])
    size = f", {weights} ({beside.size / 1e6:.1f} MB of weights)" if beside.parts else ""
    own.say(f"wrote {target}{size}")
