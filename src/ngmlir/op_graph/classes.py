# SPDX-License-Identifier: Apache-2.0
"""The classes of ops by name, for `isinstance` and for passes: `ng.Add` and `ng.AddOp` are the class of `x + y`.

An op of the dialect has a class of its name, with or without `Op`. Other names that programs know stand for what the op
really is here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce, update_wrapper
from typing import Any

from ..ops.ng import OPS
from .functions.composed import StopGradientOp
from .functions.shape import expand_dims
from .node_classes import BinaryElementWiseOp, ElementWiseOp, ReductionOp, UnaryElementWiseOp, node_class
from .patterns import PatternLabelOp, PatternSkipOp
from .regions import ControlOp, RegionParameter, ResultOp
from .state import AssignableTensorOp, ComputationOp, ParallelOp, SequentialOp
from .tensor import Tensor
from .user_ops import class_called
from .values import ConstantOp, FollowingOp
from .writes import AssignOp, InitTensorOp, ReadOp

_NODES: tuple[type[Any], ...] = (
    AssignableTensorOp, AssignOp, BinaryElementWiseOp, ComputationOp, ConstantOp, ControlOp, ElementWiseOp, FollowingOp,
    InitTensorOp, ParallelOp, PatternLabelOp, PatternSkipOp, ReadOp, ReductionOp, RegionParameter, ResultOp, SequentialOp, StopGradientOp,
    UnaryElementWiseOp,
)  # fmt: skip

#: Other names of ops; several where what was one op, or one kind of ops, is several here.
ALIASES = {
    "AssignOneDOp": "AssignOp",
    "AssignTwoDOp": "AssignOp",
    "AxesCastOp": "CastAxesOp",
    "ConcatOp": "ConcatenateOp",
    "ControlBlockOp": "ParallelOp ComputationOp",
    "CrossEntropyMultiOp": "CrossEntropyOp",
    "DotLowDimension": "DotOp",
    "Fill": "AssignOp",
    "Flatten": "ReshapeOp",
    "IndexOp": "BroadcastOp CastAxesOp ReshapeOp SliceOp TransposeOp",
    "LiteralScalarOp": "ConstantOp",
    "LookupTableOp": "LookupOp",
    "MapRolesOp": "CastAxesOp",
    "Mod": "RemainderOp",
    "OneHotTwoDimOp": "OneHotOp",
    "Prod": "ProductOp",
    "ReorderAxes": "TransposeOp",
    "RngOp": "RandomBitsOp RandomNormalOp RandomUniformOp",
    "RoleCastOp": "CastAxesOp",
    "SigmoidAtomicOp": "SigmoidOp",
    "TensorSizeOp": "FollowingOp",
    "TensorSliceOp": "SliceOp",
    "TensorValueOp": "ReadOp",
    "Unflatten": "ReshapeOp",
    "UnsliceOp": "PadOp",
    "ValueOp": "ReadOp SequentialOp",
    "WriteOp": "AssignOp",
}


class Maker:
    """A name that makes ops when it is called, and stands for their class in `isinstance` and in `visit.on_type`."""

    def __init__(self, function: Callable[..., Tensor], classes: tuple[type[Any], ...]):
        self.function, self.classes = function, classes
        update_wrapper(self, function)

    def __call__(self, *args: Any, **named: Any) -> Tensor:
        return self.function(*args, **named)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.classes)

    def __repr__(self) -> str:
        return f"<{self.function.__name__}, of class {', '.join(each.__name__ for each in self.classes)}>"


#: Names of functions that are known as classes, and the names of their classes here.
MAKERS = {"ExpandDims": (expand_dims, "BroadcastOp")}


@cache
def class_named(name: str) -> Any:
    """The class (or the union of classes) of the ops of a name; None where there is none such."""
    if name == "TensorOp":
        return Tensor
    if name in MAKERS:
        function, kind = MAKERS[name]
        return Maker(function, (class_named(kind),))
    if name in ALIASES:
        first, *others = [class_named(each) for each in ALIASES[name].split()]
        return reduce(lambda all, each: all | each, others, first)
    nodes = {node.__name__: node for node in _NODES}
    for spelled in (name, f"{name}Op"):
        if spelled in nodes:
            return nodes[spelled]
        operation = _operations().get(spelled)
        if operation is not None:
            return node_class(operation)
    return class_called(name)


@cache
def _operations() -> dict[str, Any]:
    """The ops of the dialect that are one node each, by the name of their class."""
    definitions = {cls: cls.definition for cls in OPS.values()}
    return {
        cls.__name__: cls
        for cls, definition in definitions.items()
        if definition is not None and len(definition.results) == 1 and not definition.regions
    }
