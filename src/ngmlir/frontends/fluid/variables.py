# SPDX-License-Identifier: Apache-2.0
"""The Python views of the variables and parameters of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...ir.attributes import Attribute, DictAttr, IntegerAttr
from ...ir.literals import dtype_of
from ...ir.types import TensorType, f32, i64
from ...op_graph.source import user_location
from ...programs import names
from ...programs.descriptions import Variable as VariableView
from ...programs.vartypes import HELD, HOLDS, VarType, element_of, number_of, vartype
from ...support.diagnostics import Diagnostic, UserError
from . import arithmetic, unique_name
from .descs import VarDesc
from .operators import Operator
from .said import said_as_text, said_in_text

#: A `Block`, of a module that imports this one.
Owner: TypeAlias = Any


class Variable:
    """A variable of a block: a name for a value with a shape (-1: known when the program runs), an element type, flags.

    `block.create_var(...)` makes one. Operators of Python append operators to the current block.
    """

    def __init__(
        self,
        block: Owner,
        type: VarType = VarType.LOD_TENSOR,
        name: str | bytes | None = None,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        lod_level: int | None = None,
        capacity: int | None = None,
        persistable: bool | None = None,
        error_clip: Any = None,
        stop_gradient: bool = False,
        is_data: bool = False,
        _parameter: DictAttr | None = None,
        **kwargs: Any,
    ):
        self.block = block
        self.error_clip = error_clip
        self._maker: Operator | None = None
        key = unique_name.generate("_generated_var") if name is None else names.text(name)
        declarations = block.view
        known = declarations.variables.get(key)
        if known is not None:
            self.view = known
            self._agree(type, shape, dtype, lod_level)
            if persistable is not None and persistable != known.persistable:
                raise UserError(f"the variable '{key}' is described a second time, and persistable differs")
            if _parameter is not None:
                known.set(parameter=_parameter)
            return
        element = f32 if dtype is None else element_of(vartype(dtype))
        flags = {"data": is_data, "persistable": persistable, "stop_gradient": stop_gradient}
        self.view = declarations.declare(
            key,
            TensorType(_lengths(key, shape), element),
            holds=HOLDS[type],
            ragged=lod_level or 0,
            flags=[flag for flag, value in flags.items() if value],
            parameter=_parameter,
        )

    @staticmethod
    def of(block: Owner, view: VariableView) -> Variable:
        """A variable that the program has already."""
        made: Variable = object.__new__(Parameter if view.is_parameter else Variable)
        made.block, made.view, made.error_clip, made._maker = block, view, None, None
        return made

    def _agree(self, type: VarType, shape: Any, dtype: Any, lod_level: int | None) -> None:
        said: list[tuple[str, Any, Any]] = []
        if type != self.type:
            said.append(("type", self.type.name, VarType(type).name))
        if shape is not None and tuple(shape) != self.shape:
            said.append(("shape", list(self.shape), list(shape)))
        if dtype is not None and vartype(dtype) != self.dtype:
            said.append(("dtype", self.dtype.name, vartype(dtype).name))
        if lod_level is not None and lod_level != self.lod_level:
            said.append(("lod_level", self.lod_level, lod_level))
        for what, old, new in said:
            raise UserError(
                Diagnostic(
                    f"the variable '{self.name}' is described a second time, and its {what} was {old}, not {new}",
                    user_location(),
                    hint="give the other one another name",
                    notes=(Diagnostic("it was described here", self.view.location, "note"),),
                )
            )

    # ---- what it is

    @property
    def desc(self) -> VarDesc:
        """The description under it."""
        return VarDesc(self.view)

    @property
    def name(self) -> str:
        return self.view.name

    @name.setter
    def name(self, name: str) -> None:
        raise UserError("variables are renamed by block.rename_var(old, new)")

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths; -1 for one that is known when the program runs."""
        return self.view.shape

    @property
    def dtype(self) -> VarType:
        return number_of(self.view.element)

    @property
    def lod_level(self) -> int:
        """The number of ragged levels."""
        return self.view.ragged

    @property
    def type(self) -> VarType:
        """What it holds: VarType.LOD_TENSOR, SELECTED_ROWS ..."""
        return HELD[self.view.holds]

    @property
    def persistable(self) -> bool:
        """Whether its value is kept from run to run."""
        return self.view.persistable

    @persistable.setter
    def persistable(self, value: bool) -> None:
        self.view.set_flag("persistable", value)

    @property
    def stop_gradient(self) -> bool:
        """Whether no gradient flows to it, nor through it."""
        return self.view.flag("stop_gradient")

    @stop_gradient.setter
    def stop_gradient(self, value: bool) -> None:
        self.view.set_flag("stop_gradient", value)

    @property
    def is_data(self) -> bool:
        """Whether it is fed."""
        return self.view.flag("data")

    @property
    def op(self) -> Operator | None:
        """The operator that made it."""
        if self._maker is None:
            self._maker = next((o for o in reversed(self.block.ops) if self.name in o.output_arg_names), None)
        return self._maker

    @property
    def np_dtype(self) -> np.dtype[Any]:
        return dtype_of(self.view.element)

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """Its declaration, as the text of the program has it."""
        return str(self.view.op)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.dtype.name} {list(self.shape)}>"

    # ---- operators of Python

    def astype(self, dtype: Any) -> Variable:
        """Its numbers in another element type."""
        return arithmetic.cast(self, dtype)

    def __add__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_add", self, other)

    def __radd__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_add", self, other)

    def __sub__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_sub", self, other)

    def __rsub__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_sub", self, other, reverse=True)

    def __mul__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_mul", self, other)

    def __rmul__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_mul", self, other)

    def __truediv__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_div", self, other)

    def __rtruediv__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_div", self, other, reverse=True)

    def __pow__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_pow", self, other)

    def __rpow__(self, other: Any) -> Variable:
        return arithmetic.binary("elementwise_pow", self, other, reverse=True)

    def __neg__(self) -> Variable:
        return arithmetic.scaled(self, -1.0)

    def __lt__(self, other: Any) -> Variable:
        return arithmetic.binary("less_than", self, other)

    def __le__(self, other: Any) -> Variable:
        return arithmetic.binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Variable:
        return arithmetic.binary("greater_than", self, other)

    def __ge__(self, other: Any) -> Variable:
        return arithmetic.binary("greater_equal", self, other)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Variable) or isinstance(other, (int, float)):
            return arithmetic.binary("equal", self, other)
        return NotImplemented

    def __ne__(self, other: object) -> Any:
        if isinstance(other, Variable) or isinstance(other, (int, float)):
            return arithmetic.binary("not_equal", self, other)
        return NotImplemented

    def __getitem__(self, index: Any) -> Variable:
        """A part, by integers and ranges: x[0], x[:, 1:3], x[..., -1]. An integer drops its dimension, but for the last one left."""
        return arithmetic.part(self, index)

    __iter__ = None
    __hash__ = object.__hash__


class Parameter(Variable):
    """A variable that training changes: persistable, in the global block, with a shape that is known.

    `optimize_attr` is `{"learning_rate": factor}`; `regularizer` and `gradient_clip_attr` act on its gradient.
    """

    def __init__(self, block: Owner, shape: Sequence[int] | None, dtype: Any, **kwargs: Any):
        if shape is None or dtype is None:
            raise UserError("a parameter needs a shape and an element type")
        if not len(shape) or any(length < 1 for length in shape):
            raise UserError(
                f"the lengths of a parameter are 1 or more, and its shape is {list(shape)}",
                hint="what is made of -1, the length of the batch, cannot be a parameter: see num_flatten_dims= of layers.fc",
            )
        sharded = kwargs.pop("sharded", None)
        if sharded is not None and not 0 <= sharded < len(shape):
            raise UserError(f"sharded is a dimension of a parameter of shape {list(shape)}, not {sharded!r}")
        said = {
            "trainable": kwargs.pop("trainable", True),
            "learning_rate": float(
                kwargs.pop("optimize_attr", None or {"learning_rate": 1.0}).get("learning_rate", 1.0)
            ),
            "regularizer": kwargs.pop("regularizer", None),
            "gradient_clip": kwargs.pop("gradient_clip_attr", None),
            "average": bool(kwargs.pop("do_model_average", False)),
            "sharded": None if sharded is None else IntegerAttr(sharded, i64),
        }
        described = DictAttr(tuple(said_as_text(said).items()))
        super().__init__(block, persistable=True, shape=shape, dtype=dtype, _parameter=described, **kwargs)

    def _said(self, name: str) -> Any:
        return said_in_text(self.view.op.attributes["parameter"], name)

    def _say(self, name: str, value: Any) -> None:
        attribute = self.view.op.attributes["parameter"]
        known: dict[str, Attribute] = dict(attribute.items) if isinstance(attribute, DictAttr) else {}
        known.pop(name, None)
        self.view.set(parameter=DictAttr(tuple({**known, **said_as_text({name: value})}.items())))

    @property
    def trainable(self) -> bool:
        """Whether training changes it."""
        return bool(self._said("trainable"))

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._say("trainable", bool(value))

    @property
    def optimize_attr(self) -> Mapping[str, float]:
        """`{"learning_rate": factor}`, the factor of the optimizer's learning rate for this parameter."""
        return {"learning_rate": self._said("learning_rate")}

    @property
    def regularizer(self) -> Any:
        """What regularizes it; None for what the optimizer says."""
        return self._said("regularizer")

    @regularizer.setter
    def regularizer(self, value: Any) -> None:
        self._say("regularizer", value)

    @property
    def gradient_clip_attr(self) -> Any:
        """How its gradient is clipped; None for not at all."""
        return self._said("gradient_clip")

    @gradient_clip_attr.setter
    def gradient_clip_attr(self, value: Any) -> None:
        self._say("gradient_clip", value)

    @property
    def do_model_average(self) -> bool:
        """Whether `ModelAverage` averages it."""
        return bool(self._said("average"))


def _lengths(name: str, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The shape as the IR has it; UserError for what is none."""
    if any(isinstance(n, (str, bytes)) for n in shape or ()):
        raise UserError(
            f"the lengths of '{name}' are integers, and its shape is {list(shape or ())}", hint="shape=[3]"
        )
    lengths = tuple([int(n) for n in shape or ()])
    if any(n < -1 for n in lengths):
        raise UserError(
            f"'{name}' has a negative length in its shape {list(lengths)}",
            hint="-1 is a length that is known when the program runs",
        )
    return lengths
