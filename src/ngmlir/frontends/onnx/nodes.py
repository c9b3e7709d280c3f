# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of the node that it stands for, and the table of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from ...ir.types import Type
from ...support.diagnostics import Limit, UserError
from ...support.spelling import did_you_mean
from .elements import element_of
from .tensor import Absent, Array, Tensor, TensorList, Thing, Verbs
from .tensors import array_of, sparse_array

#: What an operator gives: one thing, or one for each output.
Made: TypeAlias = "Thing | Sequence[Thing]"
#: Runs a graph of an attribute on things.
Run: TypeAlias = Callable[[GraphProto, Sequence[Thing]], list[Thing]]

#: The words that an attribute can be, by its name, or by the operator and its name where it is another's too.
WORDS = {
    name: words.split()
    for name, words in {
        "aggregate_function": "SUM AVERAGE MIN MAX",
        "approximate": "none tanh",
        "auto_pad": "NOTSET SAME_UPPER SAME_LOWER VALID",
        "coordinate_transformation_mode": "half_pixel half_pixel_symmetric pytorch_half_pixel tf_half_pixel_for_nn "
        "align_corners asymmetric tf_crop_and_resize",
        "direction": "forward reverse bidirectional foward",  # a default of GRU 1
        "keep_aspect_ratio_policy": "stretch not_larger not_smaller",
        "kernel_type": "LINEAR POLY RBF SIGMOID",
        "nearest_mode": "round_prefer_floor round_prefer_ceil floor ceil",
        "norm": "MAX L1 L2",
        "padding_mode": "zeros border reflection",
        "post_transform": "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT",
        "reduction": "none add mul max min",
        "round_mode": "up down nearest",
        "BitShift.direction": "LEFT RIGHT",
        "DepthToSpace.mode": "DCR CRD",
        "GridSample.mode": "linear nearest cubic bilinear bicubic",
        "Momentum.mode": "nesterov standard",
        "Pad.mode": "constant reflect edge wrap",
        "Resize.mode": "nearest linear cubic",
        "RoiAlign.coordinate_transformation_mode": "half_pixel output_half_pixel",
        "RoiAlign.mode": "avg max",
        "TensorScatter.mode": "linear circular",
        "TfIdfVectorizer.mode": "TF IDF TFIDF",
        "Upsample.mode": "nearest linear bilinear",
    }.items()
}


@dataclass(frozen=True)
class Node:
    """One node: its operator in a version, its attributes, and what runs the graphs among these."""

    op: str
    version: int
    attributes: Mapping[str, AttributeProto]
    outputs: Sequence[str]
    verbs: Verbs
    folder: Path | None
    run: Run
    #: Whether it is in the outermost graph of the model.
    outermost: bool = False

    def integer(self, name: str, default: int = 0) -> int:
        found = self.attributes.get(name)
        return default if found is None else int(found.i)

    def flag(self, name: str, default: bool = False) -> bool:
        return self.integer(name, int(default)) != 0

    def number(self, name: str, default: float = 0.0) -> float:
        found = self.attributes.get(name)
        return default if found is None else float(found.f)

    def text(self, name: str, default: str = "") -> str:
        """A word; UserError where the operator has no such word there."""
        found = self.attributes.get(name)
        if found is None:
            return default
        text = found.s.decode("utf-8", "replace")
        words = WORDS.get(f"{self.op}.{name}") or WORDS.get(name)
        if words and text not in words:
            hint = did_you_mean(text, words) or f"it can be {', '.join(words)}"
            raise UserError(f"its attribute '{name}' cannot be '{text}'", hint=hint)
        return text

    def texts(self, name: str, default: Sequence[str] = ()) -> list[str]:
        found = self.attributes.get(name)
        return list(default) if found is None else [s.decode("utf-8", "replace") for s in found.strings]

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        found = self.attributes.get(name)
        return (None if default is None else list(default)) if found is None else [int(i) for i in found.ints]

    def given(self, name: str, default: Sequence[int]) -> list[int]:
        """Integers, or what is used where the node says none."""
        return self.integers(name) or list(default)

    def floats(self, name: str) -> list[float] | None:
        found = self.attributes.get(name)
        return None if found is None else [float(f) for f in found.floats]

    def holds(self, name: str, kind: AttributeProto.AttributeType) -> bool:
        """Whether an attribute is of a type: some were of another one in old versions."""
        return name in self.attributes and self.attributes[name].type == kind

    def element(self, name: str, default: Type) -> Type:
        if self.holds(name, AttributeProto.STRING):  # as the first versions of Cast have it
            text = self.text(name)
            if text not in TensorProto.DataType.keys():
                raise UserError(f"there is no element type '{text}'")
            return element_of(TensorProto.DataType.Value(text), f"attribute {name}")
        number = self.integer(name)
        return element_of(number, f"attribute {name}") if number else default

    def array(self, name: str) -> Array | None:
        found = self.attributes.get(name)
        if found is None:
            return None
        if found.HasField("sparse_tensor"):
            return sparse_array(found.sparse_tensor, self.folder, f"attribute {name}")
        return array_of(found.t, self.folder, f"attribute {name}")

    def graph(self, name: str) -> GraphProto:
        found = self.attributes.get(name)
        if found is None or not found.HasField("g"):
            raise UserError(f"{self.op} has no graph '{name}'")
        return found.g

    def wanted(self, output: int) -> bool:
        """Whether anything may read an output."""
        return output < len(self.outputs) and self.outputs[output] != ""

    # ---- inputs

    def settle(self, x: Tensor, decided: str = "the shape of a tensor") -> Array:
        """The elements of an input that decides shapes, or something else."""
        return self.verbs.settle(x, decided)

    def settled(self, x: Tensor | None) -> list[int] | None:
        """Integers of an input that decides shapes."""
        return None if x is None else [int(i) for i in self.settle(x).reshape(-1)]

    def either(self, x: Tensor | None, name: str) -> list[int] | None:
        """Integers that are an input in newer versions and were an attribute in older ones."""
        return self.settled(x) if x is not None else self.integers(name)

    def limit(self, what: str, hint: str = "") -> Limit:
        """What is not written yet."""
        return Limit(what, hint=hint)


Handler: TypeAlias = Callable[..., Made]
#: A handler, whose signature decorators keep.
AnyHandler = TypeVar("AnyHandler", bound=Handler)

#: The domain of operators that models are not written with: those of parts that a model is run in.
OWN = "ngmlir.parts"
OPERATORS: dict[tuple[str, str], Handler] = {}


def operator(*names: str, domain: str = "") -> Callable[[AnyHandler], AnyHandler]:
    """Names the operators that a function stands for: it takes the node, then its inputs (None where absent)."""

    def add(handler: AnyHandler) -> AnyHandler:
        for name in names:
            OPERATORS[domain, name] = handler
        return handler

    return add


def tensors(things: Sequence[Thing | None], op: str) -> None:
    """UserError where something is no tensor."""
    for i, thing in enumerate(things):
        if isinstance(thing, (TensorList, Absent)):
            raise UserError(f"input {i} of {op} is a sequence or an empty optional, not a tensor")


__all__ = ["OPERATORS", "Handler", "Made", "Node", "NodeProto", "operator", "tensors"]
