# SPDX-License-Identifier: Apache-2.0
"""Variables, constants and casts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....programs.vartypes import vartype
from .. import unique_name
from ..framework import Variable
from ..initializer import Constant, Initializer, constant_fields
from ..layer_helper import LayerHelper, one_op
from ..param_attr import ParamAttr

__all__ = [
    "Print", "assign", "autoincreased_step_counter", "cast", "concat", "create_global_var", "create_parameter", "create_tensor",
    "equal", "fill_constant", "fill_constant_batch_size_like", "increment", "is_empty", "less_than", "ones", "sums", "zeros",
]  # fmt: skip


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Variable:
    """A variable without a value."""
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype, persistable=persistable)


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Variable:
    """A parameter, initialized by the start-up program."""
    helper = LayerHelper("create_parameter", name=None)
    described = ParamAttr(name=name) if attr is None else ParamAttr.to_attr(attr)
    return helper.create_parameter(described, shape, dtype, is_bias, default_initializer)


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable of the global block, which the start-up program fills with a number."""
    helper = LayerHelper("global_var", name=name)
    made = helper.create_global_variable(
        persistable=persistable, dtype=dtype, shape=shape, name=name or unique_name.generate("global_var")
    )
    helper.set_variable_initializer(made, Constant(value))
    return made


def cast(x: Variable, dtype: Any) -> Variable:
    """The numbers of x in another element type."""
    helper = LayerHelper("cast")
    made = helper.create_tmp_variable(dtype)
    types = {"in_dtype": x.dtype, "out_dtype": vartype(dtype)}
    helper.append_op(type="cast", inputs={"X": [x]}, outputs={"Out": [made]}, attrs=types)
    return made


def concat(input: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Variables one after the other along a dimension."""
    helper = LayerHelper("concat", input=input, name=name)
    made = helper.create_tmp_variable(helper.input_dtype())
    helper.append_op(type="concat", inputs={"X": list(input)}, outputs={"Out": [made]}, attrs={"axis": axis})
    return made


def sums(input: Sequence[Variable], out: Variable | None = None) -> Variable:
    """The sum of variables, written to `out` where that is given."""
    helper = LayerHelper("sum", input=input)
    made = helper.create_tmp_variable(helper.input_dtype()) if out is None else out
    helper.append_op(type="sum", inputs={"X": list(input)}, outputs={"Out": [made]})
    return made


def assign(input: Variable | np.ndarray[Any, Any], output: Variable | None = None) -> Variable:
    """The value of a variable, or of an array (of at most 1 MB) of float32, bool, or integers that 32 bits hold, written to `output` where
    that is given."""
    helper = LayerHelper("assign")
    if isinstance(input, Variable):
        made = helper.create_tmp_variable(input.dtype) if output is None else output
        helper.append_op(type="assign", inputs={"X": [input]}, outputs={"Out": [made]})
        return made
    array = np.asarray(input)
    fields = constant_fields(array, "assign")
    made = helper.create_tmp_variable(fields["dtype"]) if output is None else output
    helper.append_op(type="assign_value", outputs={"Out": [made]}, attrs=fields)
    return made


def fill_constant(
    shape: Sequence[int], dtype: Any, value: float, force_cpu: bool = False, out: Variable | None = None
) -> Variable:
    """A variable of one number, written to `out` where that is given."""
    helper = LayerHelper("fill_constant")
    made = helper.create_tmp_variable(dtype) if out is None else out
    fields = {"shape": list(shape), "dtype": vartype(dtype), "value": float(value)}
    helper.append_op(type="fill_constant", outputs={"Out": [made]}, attrs=fields)
    made.stop_gradient = True
    return made


def ones(shape: Sequence[int], dtype: Any, force_cpu: bool = False) -> Variable:
    """A variable of ones."""
    return fill_constant(shape, dtype, 1.0)


def zeros(shape: Sequence[int], dtype: Any, force_cpu: bool = False) -> Variable:
    """A variable of zeros."""
    return fill_constant(shape, dtype, 0.0)


def fill_constant_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: Any,
    value: float,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
) -> Variable:
    """A variable of one number, of which one length is one of another variable."""
    fields = {
        "shape": list(shape),
        "dtype": vartype(dtype),
        "value": float(value),
        "input_dim_idx": input_dim_idx,
        "output_dim_idx": output_dim_idx,
    }
    made = one_op("fill_constant_batch_size_like", {"Input": input}, {"Out": dtype}, fields)
    made.stop_gradient = True
    return made


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """x, one number, plus a step; written to x itself unless `in_place` is off."""
    return one_op("increment", {"X": x}, {"Out": x if in_place else x.dtype}, {"step": float(value)})


def compared(type: str, x: Variable, y: Variable, cond: Variable | None) -> Variable:
    """One of the comparisons, written to `cond` where that is given."""
    made = one_op(type, {"X": x, "Y": y}, {"Out": "bool" if cond is None else cond})
    made.stop_gradient = True
    return made


def less_than(
    x: Variable, y: Variable, force_cpu: bool | None = None, cond: Variable | None = None, **ignored: Any
) -> Variable:
    """Whether x < y, written to `cond` where that is given."""
    return compared("less_than", x, y, cond)


def equal(x: Variable, y: Variable, cond: Variable | None = None, **ignored: Any) -> Variable:
    """Whether x is y, written to `cond` where that is given."""
    return compared("equal", x, y, cond)


def is_empty(x: Variable, cond: Variable | None = None, **ignored: Any) -> Variable:
    """Whether x has no elements, written to `cond` where that is given."""
    return one_op("is_empty", {"X": x}, {"Out": "bool" if cond is None else cond})


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """A counter, int64 [1], that is `begin` in the first run and grows by `step` with each; one of each name."""
    helper = LayerHelper("global_step_counter")
    name = "@STEP_COUNTER@" if counter_name is None else counter_name
    counter, is_new = helper.create_or_get_global_variable(
        name=name, dtype="int64", shape=[1], persistable=True
    )
    if is_new:
        helper.set_variable_initializer(counter, Constant(begin - step))
        helper.main_program.global_block().prepend_op(
            type="increment", inputs={"X": [counter]}, outputs={"Out": [counter]}, attrs={"step": float(step)}
        )
        counter.stop_gradient = True
    return counter


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = -1,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """The variable; its value is printed when the program runs."""
    fields = {
        "first_n": first_n,
        "message": message or "",
        "summarize": summarize,
        "print_tensor_name": print_tensor_name,
        "print_tensor_type": print_tensor_type,
        "print_tensor_shape": print_tensor_shape,
        "print_tensor_lod": print_tensor_lod,
        "print_phase": print_phase.upper(),
    }
    return one_op("print", {"In": input}, {"Out": input.dtype}, fields)
