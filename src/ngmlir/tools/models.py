# SPDX-License-Identifier: Apache-2.0
"""What `ngmlir run` and `ngmlir import` read, seen from outside: a model of ONNX, a function of a `.ngir` file, or a program for
inference in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..compiler import compile_module
from ..ir.attributes import IntegerAttr
from ..ir.core import Module, Op, Value
from ..ir.elements import ElementsAttr
from ..ir.literals import dtype_of
from ..ir.types import DYNAMIC, TensorType, element_type, shape_of
from ..ops.interpreter import run as interpret
from ..ops.open_lengths import open_entry
from ..ops.words import from_text
from ..programs.models import is_model
from ..runtime.cpu import CpuExecutable
from ..runtime.targets import device_named
from ..support.diagnostics import UserError
from ..support.lengths import name_of
from ..support.spelling import did_you_mean
from ..transformers.kept import KeptPrograms
from ..transformers.open_functions import open_functions
from ..transformers.program_models import read_program
from .comparison import first_kernel
from .shell import read_input
from .streams import Streams

Array = np.ndarray[Any, Any]
#: Arrays in the order of the inputs; arrays in the order of the outputs.
Run = Callable[[Sequence[Array]], Sequence[Any]]


@dataclass(frozen=True)
class Input:
    """What a program takes: lengths that are for the arrays to say are None, or have a name, or follow from those that have (`Length`)."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name} ({self.dtype} of any shape)"
        lengths = ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name} ({self.dtype} [{lengths}])"


class OnnxModel:
    """A model of ONNX."""

    def __init__(self, path: str):
        from ..frontends import onnx  # the package onnx is loaded with the first model

        self.model = onnx.load(path)
        self.inputs = [Input(p.name, dtype_of(p.element), p.shape) for p in self.model.inputs]
        self.outputs: Sequence[str] = self.model.output_names
        self._taken: list[str] = []

    def with_value(self) -> Sequence[Input]:
        """The initializers that the model lists among its inputs, which may be given in the place of their elements."""
        ports = self.model.contents.with_value()
        return [Input(p.name, dtype_of(p.element), p.shape) for p in ports if p.name not in self._taken]

    def take(self, names: Iterable[str]) -> None:
        """Has these among the inputs too."""
        found = [each for each in self.with_value() if each.name in names]
        self.inputs += found
        self._taken += [each.name for each in found]

    def on(self, target: str) -> Run:
        run = self.model.compiled(target)
        if self._taken:
            return lambda arrays: run(**{i.name: a for i, a in zip(self.inputs, arrays, strict=True)})
        return lambda arrays: run(*arrays)

    def first_wrong(self, target: str, arrays: Sequence[Array]) -> str:
        """Which kernel is the first that differs from NumPy; '' where that cannot be told."""
        contents = self.model.contents.overriding(self._taken) if self._taken else self.model
        return first_kernel(contents.module(arrays), "main", target, arrays)


class ProgramFolder:
    """A program for inference in a folder with the values of its variables."""

    def __init__(self, path: Path):
        self.model = read_program(path)
        self.inputs = [Input(v.name, dtype_of(v.element), _lengths(v.shape)) for v in self.model.inputs]
        self.outputs: Sequence[str] = self.model.output_names

    def on(self, target: str) -> Run:
        run = self.model.compiled(target)
        return lambda arrays: run(*arrays)

    def first_wrong(self, target: str, arrays: Sequence[Array]) -> str:
        """It cannot be told which kernel is the first that differs from NumPy: weights are state."""
        return ""


def _lengths(shape: Sequence[int]) -> tuple[int | str | None, ...]:
    """The lengths of what is fed. The first dimension, where it is open, is that of the batch."""
    return tuple([n if n != DYNAMIC else None if d else "batch" for d, n in enumerate(shape)])


class Function:
    """A function of a `.ngir` file. Constants in files next to it are mapped. Arguments that `@initialize` sets are state."""

    def __init__(self, path: str, entry: str | None, own: Streams):
        name, text = read_input(path, own)
        folder = None if path == "-" else Path(path).parent
        self.module = from_text(text, file=name, resources=folder)
        self.source = name, text
        self.function = _function(self.module, entry)
        self.state = self.module.lookup("initialize") is not None and self.function.symbol != "initialize"
        arguments = _arguments(self.function)
        self.outputs: Sequence[str]
        if self.state:
            from ..op_graph.archive import from_module

            self.computation = from_module(self.module)[self.function.symbol]
            self.inputs = [
                Input(p.name, p.dtype, tuple([a.name if a.length is None else a.length for a in p.axes]))
                for p in self.computation.parameters
            ]
            self.outputs = []
        else:
            self.inputs = [
                Input(v.name or str(i), dtype_of(element_type(v.type)), _stated(v))
                for i, v in enumerate(arguments)
            ]
            self.outputs = _result_names(self.function)

    def on(self, target: str) -> Run:
        if self.state:
            from ..transformers import compile

            run = compile(self.computation, target=target)
            return lambda arrays: self._flat(run(*arrays))
        entry = self.function.symbol
        if open_ := open_functions(self.module):
            run = open_[entry].compiled(target)
            return lambda arrays: run(*arrays)
        device = device_named(target)
        if not device.compiles:
            return lambda arrays: interpret(self.module, *arrays, entry=entry)
        kept = device.runs_on_host and open_entry(self.module, entry) is None
        run = self._kept() if kept else compile_module(self.module, target, entry=entry)
        return lambda arrays: run(*arrays)

    def first_wrong(self, target: str, arrays: Sequence[Array]) -> str:
        """Which kernel is the first that differs from NumPy; '' where that cannot be told."""
        if self.state or open_functions(self.module):
            return ""
        return first_kernel(self.module, self.function.symbol, target, arrays)

    def _kept(self) -> CpuExecutable:
        """The function on the CPU: read from the disk cache if this text and its constants were compiled before."""
        entry = self.function.symbol
        name, text = self.source
        pieces = [text.encode(), *_large(self.module)]
        kept = KeptPrograms(lambda: pieces, name)
        found = kept.find(entry=entry)
        return found[0] if found is not None else kept.compiled(self.module, None, entry=entry)

    def _flat(self, results: Any) -> Sequence[Any]:
        """The results of a computation without their structure, whose keys are names."""
        pairs = list(_leaves(results, ""))
        self.outputs = [name or str(i) for i, (name, _) in enumerate(pairs)]
        return [value for _, value in pairs]


def _large(module: Module) -> list[memoryview]:
    """The elements of the constants that the text only names."""
    values = [value for op in module.walk() for value in op.attributes.values()]
    return [value.data for value in values if isinstance(value, ElementsAttr) and value.opaque]


Program = OnnxModel | ProgramFolder | Function


def read(path: str, entry: str | None, own: Streams) -> Program:
    """What a file holds: `.onnx` a model, that of a program for inference (or the folder of one) a program, anything else (or
    `-`) the text of a module."""
    is_onnx = Path(path).suffix == ".onnx"
    if not is_onnx and (path == "-" or not is_model(Path(path))):
        return Function(path, entry, own)
    if entry is not None:
        what = "an ONNX model" if is_onnx else "a program for inference"
        raise UserError(f"{what} has no functions to choose from", hint="leave --entry out")
    return OnnxModel(path) if is_onnx else ProgramFolder(Path(path))


def _function(module: Module, entry: str | None) -> Op:
    found = {
        op.symbol: op for op in module.ops if op.name == "func.func" and op.regions and op.regions[0].blocks
    }
    public = [name for name, op in found.items() if "sym_visibility" not in op.attributes]
    if entry is None:
        others = [name for name in public if name != "initialize"]
        entry = others[0] if len(others) == 1 else "main"
    if entry not in found:
        hint = did_you_mean(entry, found, f"--entry=NAME, one of: {', '.join(public) or 'none'}")
        raise UserError(f"the module has no function @{entry}", module.location, hint=hint)
    return found[entry]


def _arguments(function: Op) -> Sequence[Value]:
    """What is passed; behind it, a function whose memory is planned has its results and its memory."""
    planned = function.attributes.get("ng.arguments")
    values = function.block.args
    return values[: planned.value] if isinstance(planned, IntegerAttr) else values


def _stated(value: Value) -> tuple[int | str | None, ...]:
    """The lengths of an argument; of open ones the name."""
    shape = shape_of(value.type)
    axes = value.type.axes if isinstance(value.type, TensorType) else None
    names: Sequence[str | None] = axes or [None] * len(shape)
    return tuple([name if n == DYNAMIC else name_of(n) or n for n, name in zip(shape, names, strict=True)])


def _result_names(function: Op) -> Sequence[str]:
    if "ng.arguments" in function.attributes:
        count = function.attributes.get("ng.results")
        return [str(i) for i in range(count.value if isinstance(count, IntegerAttr) else 0)]
    seen: set[str] = set()
    names: list[str] = []
    for i, value in enumerate(function.block.ops[-1].operands):
        names.append(str(i) if value.name in seen or not value.name else value.name)
        seen.add(names[-1])
    return names


def _leaves(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in cast(Mapping[Any, Any], value).items():
            yield from _leaves(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, tuple):
        for i, each in enumerate(cast("tuple[Any, ...]", value)):
            yield from _leaves(each, f"{name}.{i}" if name else str(i))
    elif value is not None:
        yield name, value
