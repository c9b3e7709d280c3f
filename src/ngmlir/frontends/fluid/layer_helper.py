# SPDX-License-Identifier: Apache-2.0
"""What layers are written with: parameters, variables for results, operators of the current block, bias and activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from ...programs.vartypes import VarType
from ...support.diagnostics import UserError
from . import unique_name
from .framework import (
    Block,
    Operator,
    Parameter,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
)
from .initializer import Constant, Initializer
from .lists import listed
from .param_attr import ParamAttr, WeightNormParamAttr


class LayerHelper:
    """The state of one call of a layer: `LayerHelper("fc", **locals())`. Names begin with `name`, or fc_0, fc_1 ..."""

    def __init__(self, layer_type: str, **kwargs: Any):
        self.kwargs = kwargs
        self.layer_type = layer_type
        if kwargs.get("name") is None:
            kwargs["name"] = unique_name.generate(layer_type)

    @property
    def name(self) -> str:
        return self.kwargs["name"]

    @property
    def main_program(self) -> Program:
        return default_main_program()

    @property
    def startup_program(self) -> Program:
        return default_startup_program()

    @property
    def block(self) -> Block:
        """The block that layers append to."""
        return self.main_program.current_block()

    def append_op(self, *args: Any, **kwargs: Any) -> Operator:
        """Appends an operator to the current block."""
        return self.block.append_op(*args, **kwargs)

    # ---- inputs

    def multiple_input(self, input_param_name: str = "input") -> list[Variable]:
        """The input of the layer, as a list of variables."""
        found = listed(self.kwargs.get(input_param_name, []))
        for each in found:
            if not isinstance(each, Variable):
                raise UserError(
                    f"layer {self.layer_type} takes variables as {input_param_name}, not {each!r}",
                    hint="layers.data(name, shape) makes one that is fed, layers.assign(array) one of an array",
                )
        return found

    def input(self, input_param_name: str = "input") -> Variable:
        """The input of a layer that takes one."""
        found = self.multiple_input(input_param_name)
        if len(found) != 1:
            raise UserError(
                f"layer {self.layer_type} takes one variable as {input_param_name}, not {len(found)}"
            )
        return found[0]

    def input_dtype(self, input_param_name: str = "input") -> VarType:
        """The element type that all inputs have."""
        types = {v.dtype for v in self.multiple_input(input_param_name)}
        if not types:
            raise UserError(f"layer {self.layer_type} takes one variable or more, not an empty list")
        if len(types) != 1:
            raise UserError(
                f"the inputs of layer {self.layer_type} have different element types: {sorted(t.name for t in types)}",
                hint="layers.cast(x, dtype)",
            )
        return types.pop()

    # ---- parameters and variables

    @property
    def param_attr(self) -> Any:
        return ParamAttr.to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self) -> Any:
        return ParamAttr.to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int, endings: Sequence[str] = ()) -> list[ParamAttr]:
        """What is said of each of several parameters. With `endings` one name may be given for all: each has it with its own ending."""
        found: list[ParamAttr] = listed(self.param_attr)
        if len(found) == 1 and length > 1:
            name = found[0].name
            if name is not None and not endings:
                raise UserError(
                    f"several parameters cannot all be called '{name}'", hint="give a list of ParamAttr"
                )
            found = [copy(found[0]) for _ in range(length)]
            if name is not None:
                for attr, ending in zip(found, endings, strict=True):
                    attr.name = name + ending
        if len(found) != length:
            raise UserError(
                f"layer {self.layer_type} has {length} parameters, and {len(found)} are described",
                hint="one ParamAttr for all, or a list of one for each",
            )
        return found

    def create_parameter(
        self,
        attr: ParamAttr,
        shape: Sequence[int],
        dtype: Any,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> Variable:
        """A parameter of the main program, and the operator of the start-up program that initializes it. A name that is there
        already is that parameter. With `WeightNormParamAttr` the weight that is made of its two parameters."""
        if isinstance(attr, WeightNormParamAttr):
            return self._normalized(attr, shape, dtype, default_initializer)
        described = attr.described()
        if described["name"] is None:
            described["name"] = unique_name.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        initializer = attr.initialized_by(default_initializer, is_bias)
        startup = self.startup_program.global_block()
        if not startup.has_var(described["name"]):
            startup.create_parameter(shape=shape, dtype=dtype, initializer=initializer, **described)
        whole = self.main_program.global_block()
        if whole.has_var(described["name"]):
            known = whole.create_var(name=described["name"], shape=shape, dtype=dtype)
            assert isinstance(known, Parameter)
            return known
        return whole.create_parameter(shape=shape, dtype=dtype, **described)

    def _normalized(
        self,
        attr: WeightNormParamAttr,
        shape: Sequence[int],
        dtype: Any,
        default_initializer: Initializer | None,
    ) -> Variable:
        """g v / ||v||: v is initialized as the weight would be, and g as ||v||, so that at the start the weight is v."""
        name = attr.name or unique_name.generate(f"{self.name}.w")
        dim = attr.dim
        if dim is not None and not 0 <= dim < len(shape):
            raise UserError(
                f"'{name}' has {len(shape)} dimensions, and dim of its WeightNormParamAttr is {dim}"
            )
        if attr.sharded is not None:
            raise UserError(f"'{name}' is computed of two parameters, and cannot be divided among ranks")
        fields: dict[str, Any] = {
            "initializer": attr.initializer, "learning_rate": attr.learning_rate, "regularizer": attr.regularizer,
            "trainable": attr.trainable, "gradient_clip": attr.gradient_clip, "do_model_average": attr.model_average,
        }  # fmt: skip
        plain = self.create_parameter(
            ParamAttr(name=f"{name}_v", **fields), shape, dtype, default_initializer=default_initializer
        )
        lengths = [n if at == dim else 1 for at, n in enumerate(shape)]
        described = ParamAttr(name=f"{name}_g", **fields).described()
        startup = self.startup_program.global_block()
        if not startup.has_var(described["name"]):
            scale = startup.create_parameter(shape=lengths, dtype=dtype, **described)
            _norm(startup, startup.var(plain.name), dim, f"{name}_startup", scale)
        whole = self.main_program.global_block()
        if not whole.has_var(described["name"]):
            whole.create_parameter(shape=lengths, dtype=dtype, **described)
        norm = _norm(self.block, plain, dim, unique_name.generate(f"{name}.norm"), None)
        unit, made = (self.create_tmp_variable(dtype) for _ in range(2))
        for type, x, y, out in (
            ("elementwise_div", plain, norm, unit),
            ("elementwise_mul", unit, whole.var(described["name"]), made),
        ):
            attrs = {"axis": 0}
            self.append_op(type=type, inputs={"X": [x], "Y": [y]}, outputs={"Out": [out]}, attrs=attrs)
        return made

    def get_parameter(self, name: str) -> Parameter:
        """The parameter of a name; UserError where there is none."""
        found = self.main_program.global_block().var(name)
        if not isinstance(found, Parameter):
            raise UserError(f"the variable '{name}' is no parameter")
        return found

    def create_tmp_variable(self, dtype: Any, stop_gradient: bool = False) -> Variable:
        """A variable for a result."""
        name = unique_name.generate(f"{self.name}.tmp")
        return self.block.create_var(name=name, dtype=dtype, persistable=False, stop_gradient=stop_gradient)

    create_variable_for_type_inference = create_tmp_variable

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        """A variable of the current block."""
        return self.block.create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, *args: Any, **kwargs: Any) -> Variable:
        """A variable of the global block."""
        if kwargs.get("name") is None:
            kwargs["name"] = unique_name.generate(f"{self.name}.tmp")
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name: str, *args: Any, **kwargs: Any) -> tuple[Variable, bool]:
        """The global variable of a name, and whether it was made now."""
        whole = self.main_program.global_block()
        if whole.has_var(name):
            return whole.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var: Variable, initializer: Initializer) -> None:
        """Has the start-up program fill a persistable variable."""
        startup = self.startup_program.global_block()
        if not startup.has_var(var.name):
            made = startup.create_var(name=var.name, shape=var.shape, dtype=var.dtype, persistable=True)
            initializer(made, startup)

    # ---- bias and activation

    def append_bias_op(self, input_var: Variable, dim_start: int = 1, dim_end: int | None = None) -> Variable:
        """The variable plus a bias over its dimensions from `dim_start` on; itself where the layer has no bias."""
        attr = self.bias_attr
        if attr is False:
            return input_var
        bias = self.create_parameter(attr, input_var.shape[dim_start:dim_end], input_var.dtype, is_bias=True)
        made = self.create_tmp_variable(input_var.dtype)
        inputs = {"X": [input_var], "Y": [bias]}
        self.append_op(
            type="elementwise_add", inputs=inputs, outputs={"Out": [made]}, attrs={"axis": dim_start}
        )
        return made

    def append_activation(self, input_var: Variable) -> Variable:
        """The activation of a variable; itself where the layer has none."""
        given = self.kwargs.get("act")
        if given is None:
            return input_var
        fields: dict[str, Any] = {"type": given} if isinstance(given, str) else dict(given)
        made = self.create_tmp_variable(input_var.dtype)
        self.append_op(
            type=fields.pop("type"), inputs={"X": [input_var]}, outputs={"Out": [made]}, attrs=fields
        )
        return made

    def is_instance(self, param_name: str, cls: type) -> None:
        """UserError where an argument of the layer is not of a class."""
        given = self.kwargs.get(param_name)
        if not isinstance(given, cls):
            raise UserError(f"layer {self.layer_type} takes a {cls.__name__} as {param_name}, not {given!r}")


def one_op(
    type: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    name: str | None = None,
    act: Any = None,
) -> Any:
    """A layer of one operator. `outputs` gives each slot the element type of a new variable, or the variable itself; the first
    is the result (with its activation), or, where there are several, all are."""
    helper = LayerHelper(type, name=name, act=act)
    made = {s: v if isinstance(v, Variable) else helper.create_tmp_variable(v) for s, v in outputs.items()}
    given = {slot: value for slot, value in inputs.items() if value is not None}
    helper.append_op(type=type, inputs=given, outputs=made, attrs=attrs or {})
    shown = [helper.append_activation(variable) for variable in made.values()]
    return shown[0] if len(shown) == 1 else tuple(shown)


def zeros_like_startup(
    helper: LayerHelper, name: str, value: float, dtype: Any, shape: Sequence[int]
) -> Variable:
    """A persistable variable of the main program that the start-up program fills with a number."""
    made = helper.create_global_variable(
        name=unique_name.generate(name), persistable=True, dtype=dtype, shape=shape
    )
    helper.set_variable_initializer(made, Constant(value))
    return made


def _norm(block: Block, of: Variable, dim: int | None, name: str, out: Variable | None) -> Variable:
    """The Euclidean norm of a variable over all dimensions but one, which stay with length 1."""
    dims = [at for at in range(len(of.shape)) if at != dim]
    square, total = (block.create_var(name=f"{name}.{part}", dtype=of.dtype) for part in ("square", "sum"))
    out = block.create_var(name=f"{name}.root", dtype=of.dtype) if out is None else out
    block.append_op(type="square", inputs={"X": [of]}, outputs={"Out": [square]})
    attrs = {"dim": dims, "keep_dim": True, "reduce_all": dim is None}
    block.append_op(type="reduce_sum", inputs={"X": [square]}, outputs={"Out": [total]}, attrs=attrs)
    block.append_op(type="sqrt", inputs={"X": [total]}, outputs={"Out": [out]})
    return out
