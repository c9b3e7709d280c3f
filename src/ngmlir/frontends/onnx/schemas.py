# SPDX-License-Identifier: Apache-2.0
"""Schemas of operators that the package onnx does not define, stated once, where the operator is registered.

    @contributed("FusedGemm", activation="", alpha=1.0, beta=1.0, transA=0, transB=0)
    def fused_gemm(n: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:

The inputs are the parameters of the function; they are optional if their type includes None. The attributes are keywords of the
decorator, given by their default or by their type: `int`, `float` and `str` are required; `list[int]`, `float | None` and the like are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from types import GenericAlias, UnionType
from typing import Any, TypeAlias

from onnx import AttributeProto, defs, helper

from .nodes import AnyHandler, Handler, operator

#: The domain of ONNX Runtime's own operators.
MICROSOFT = "com.microsoft"

Schema = defs.OpSchema
#: The default or the type of an attribute.
Stated: TypeAlias = "int | float | str | type | GenericAlias | UnionType"

#: Schemas by domain and name, for every version.
SCHEMAS: dict[tuple[str, str], Schema] = {}

_TYPES: dict[Any, Any] = {
    int: Schema.AttrType.INT,
    float: Schema.AttrType.FLOAT,
    str: Schema.AttrType.STRING,
    list[int]: Schema.AttrType.INTS,
    list[float]: Schema.AttrType.FLOATS,
    list[str]: Schema.AttrType.STRINGS,
    int | None: Schema.AttrType.INT,
    float | None: Schema.AttrType.FLOAT,
}
_ANY = "T"


def contributed(
    *names: str, domain: str = MICROSOFT, outputs: int = 1, **attributes: Stated
) -> Callable[[AnyHandler], AnyHandler]:
    """Like `operator`, and registers the schema of these operators, which have at most `outputs` outputs."""

    def add(handler: AnyHandler) -> AnyHandler:
        for name in names:
            SCHEMAS[domain, name] = _schema(name, domain, handler, outputs, attributes)
        return operator(*names, domain=domain)(handler)

    return add


def defaults_of(schema: Schema) -> dict[str, AttributeProto]:
    """The default values of the attributes that have one."""
    return {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }


def _schema(
    name: str, domain: str, handler: Handler, outputs: int, attributes: Mapping[str, Stated]
) -> Schema:
    _, *parameters = signature(handler).parameters.values()
    return Schema(
        name,
        domain,
        1,
        inputs=[_input(p) for p in parameters],
        outputs=[
            Schema.FormalParameter(f"out{i}", _ANY, param_option=Schema.FormalParameterOption.Optional)
            for i in range(outputs)
        ],
        type_constraints=[(_ANY, ["tensor(float)"], "")],
        attributes=[_attribute(each, stated) for each, stated in sorted(attributes.items())],
    )


def _input(parameter: Parameter) -> Schema.FormalParameter:
    option = Schema.FormalParameterOption.Single
    if parameter.kind is Parameter.VAR_POSITIONAL:
        option = Schema.FormalParameterOption.Variadic
    elif "None" in str(parameter.annotation):
        option = Schema.FormalParameterOption.Optional
    return Schema.FormalParameter(parameter.name, _ANY, param_option=option, is_homogeneous=False)


def _attribute(name: str, stated: Stated) -> Schema.Attribute:
    if isinstance(stated, (type, GenericAlias, UnionType)):
        return Schema.Attribute(name, _TYPES[stated], required=stated in (int, float, str))
    return Schema.Attribute(name, helper.make_attribute(name, stated))
