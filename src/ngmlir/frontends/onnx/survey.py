# SPDX-License-Identifier: Apache-2.0
"""What a model asks for that is not here, all of it at once, before anything is built."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, defs

from ...support.diagnostics import UNKNOWN, Diagnostic, Limit, Location, UserError
from ...support.spelling import did_you_mean
from .elements import ELEMENTS, KNOWN
from .nodes import OPERATORS, OWN
from .schemas import SCHEMAS

Functions = Mapping[tuple[str, str, str], FunctionProto]
#: Names that stand for the standard's own operators.
_OWN = ("", "ai.onnx")
_DEEPEST = 64
_MOST = 1 << 17

_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


def domain_of(name: str) -> str:
    """A domain as it is looked up here."""
    return "" if name in _OWN else name


def place_of(node: NodeProto) -> Location:
    """The line of Python that a node was exported from, where the exporter has told it."""
    for entry in node.metadata_props:
        if entry.key.endswith("stack_trace") and (found := _PLACE.findall(entry.value)):
            file, line = found[-1]
            return Location(file, int(line[:9]), 1)
    return UNKNOWN


def called(node: NodeProto) -> str:
    """What messages call a node."""
    name = node.name or (node.output[0] if node.output else "")
    return f"node '{name[:200]}' ({node.op_type[:80]})"


def schema_of(op: str, domain: str, version: int) -> Any:
    """The standard's own description of an operator (its stubs lack half of it); None where there is none."""
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


def survey(model: ModelProto, functions: Functions, opsets: Mapping[str, int]) -> None:
    """Refuses a model whole: Limit with every operator that is not supported, UserError for what is no model."""
    found: list[Diagnostic] = []
    wrong: list[Diagnostic] = []
    _look(list(model.graph.node), opsets, functions, found, wrong, 0)
    for function in functions.values():
        versions = {domain_of(o.domain): o.version for o in function.opset_import} or opsets
        _look(list(function.node), versions, functions, found, wrong, 0)
    _no_circles(functions)
    if wrong:
        raise UserError(wrong)
    if found:
        raise Limit(found)


def _look(
    nodes: Sequence[NodeProto],
    opsets: Mapping[str, int],
    functions: Functions,
    found: list[Diagnostic],
    wrong: list[Diagnostic],
    depth: int,
) -> None:
    if depth > _DEEPEST:
        raise UserError(f"graphs are nested more than {_DEEPEST} deep")
    for node in nodes:
        domain = domain_of(node.domain)
        if (domain, node.op_type, node.overload) not in functions:
            _look_at(node, domain, opsets, found, wrong)
        for graph in graphs_of(node):
            _look(list(graph.node), opsets, functions, found, wrong, depth + 1)


def _look_at(
    node: NodeProto, domain: str, opsets: Mapping[str, int], found: list[Diagnostic], wrong: list[Diagnostic]
) -> None:
    place = place_of(node)
    version = opsets.get(domain)
    own = SCHEMAS.get((domain, node.op_type))
    schema = own or (schema_of(node.op_type, domain, version) if version is not None else None)
    if version is None and domain == "":
        wrong.append(
            Diagnostic(f"{called(node)}: the model does not say which version of operators it uses", place)
        )
        return
    known = (domain, node.op_type) in OPERATORS and domain != OWN
    if not known and (schema is None or not has_body(schema)):
        names = [name for where, name in OPERATORS if where == domain]
        name = f"{domain}.{node.op_type}" if domain else node.op_type
        told = "" if schema is not None else did_you_mean(node.op_type, names)
        what = (
            "there is no operator" if schema is None and not domain else "ngmlir does not have the operator"
        )
        hint = (
            told
            or "docs/onnx.md lists the operators that are supported; a local function of that name is used instead"
        )
        found.append(Diagnostic(f"{called(node)}: {what} {name}", place, hint=hint))
        return
    if schema is not None:
        problem = _misfit(node, schema)
        if problem:
            wrong.append(Diagnostic(f"{called(node)}: {problem}", place))
    for attribute in node.attribute:
        if (
            attribute.name in ("to", "dtype")
            and attribute.i
            and node.op_type != "LabelEncoder"
            and attribute.i not in ELEMENTS
        ):
            names = {number: name for name, number in TensorProto.DataType.items()}
            found.append(
                Diagnostic(
                    f"{called(node)}: there are no elements of type {names.get(attribute.i, attribute.i)}",
                    place,
                    hint=KNOWN,
                )
            )


def has_body(schema: Any) -> bool:
    """Whether the standard says what an operator does by other operators."""
    return bool(schema.has_function or schema.has_context_dependent_function)


def _misfit(node: NodeProto, schema: Any) -> str:
    """Why a node is no use of its operator; '' where it is one."""
    count, outputs = len(node.input), len(node.output)
    if not schema.min_input <= count <= schema.max_input:
        return f"it has {count} inputs; there are {schema.min_input} to {schema.max_input}"
    if not outputs <= schema.max_output:
        return f"it has {outputs} outputs; there are at most {schema.max_output}"
    given = {a.name: a for a in node.attribute}
    for name, attribute in schema.attributes.items():
        found = given.get(name)
        if found is None:
            if attribute.required:
                return f"it lacks the attribute '{name}'"
        elif not found.ref_attr_name and found.type != int(attribute.type.value):
            wanted = AttributeProto.AttributeType.Name(int(attribute.type.value))
            return f"its attribute '{name}' is no {wanted}"
    unknown = [name for name in given if name not in schema.attributes]
    if unknown:
        near = did_you_mean(unknown[0], schema.attributes)
        return f"there is no attribute '{unknown[0]}'{near and '; '}{near}"
    if SCHEMAS.get((schema.domain, schema.name)) is schema:
        lacking = [
            stated.name
            for name, stated in zip(node.input, schema.inputs, strict=False)
            if not name and stated.option == schema.FormalParameterOption.Single
        ]
        if lacking:
            return f"it lacks the input '{lacking[0]}'"
    return ""


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _no_circles(functions: Functions) -> None:
    """UserError where functions call each other round and round, or too deep."""
    calls = {key: _calls(list(function.node), functions) for key, function in functions.items()}
    nodes: dict[tuple[str, str, str], int] = {}
    depth: dict[tuple[str, str, str], int] = {}
    for root in calls:
        stack: list[tuple[tuple[str, str, str], bool]] = [(root, False)]
        under_way: set[tuple[str, str, str]] = set()
        while stack:
            key, done = stack.pop()
            if done:
                under_way.discard(key)
                depth[key] = 1 + max((depth[c] for c in calls[key]), default=0)
                nodes[key] = 1 + sum(nodes[c] for c in calls[key])
            elif key not in depth:
                if key in under_way:
                    raise UserError(f"the function '{key[1]}' calls itself")
                under_way.add(key)
                stack.append((key, True))
                for other in calls[key]:
                    if other in under_way:
                        raise UserError(f"the function '{other[1]}' calls itself")
                    stack.append((other, False))
    if any(d > _DEEPEST for d in depth.values()):
        raise UserError(f"functions call each other more than {_DEEPEST} deep")
    if any(count > _MOST for count in nodes.values()):
        raise Limit(f"functions call each other more than {_MOST} times: too many nodes in their places")


def _calls(nodes: Sequence[NodeProto], functions: Functions) -> list[tuple[str, str, str]]:
    """The functions that nodes call, as often as they do."""
    found: list[tuple[str, str, str]] = []
    for node in nodes:
        key = (domain_of(node.domain), node.op_type, node.overload)
        if key in functions:
            found.append(key)
        for graph in graphs_of(node):
            found += _calls(list(graph.node), functions)
    return found
