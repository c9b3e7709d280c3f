# SPDX-License-Identifier: Apache-2.0
"""Runs the graphs of a model on tensors of which some are values of a program: what that builds is the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, helper

from ...support.diagnostics import Diagnostic, Limit, Location, UserError
from . import operators
from .elements import ELEMENTS
from .emitter import Emitter, Undecided
from .nodes import OPERATORS, Made, Node, Run
from .schemas import SCHEMAS, defaults_of
from .survey import Functions, called, domain_of, graphs_of, has_body, place_of, schema_of
from .tensor import Absent, Array, Maps, Tensor, TensorList, Thing, Words
from .tensors import array_of, sparse_array

assert operators
_NUMBERS = {element: number for number, element in ELEMENTS.items()}
#: Loops that are unrolled and functions that call functions make at most so many nodes.
_MOST = 1 << 18
#: What an operator raises on a node that no checker let through.
_MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)

Scope = dict[str, "Thing | None"]


class Reader:
    """Builds one program: `functions` are the model's own, `arrays` its initializers by name, made when first used."""

    def __init__(
        self, emitter: Emitter, functions: Functions, folder: Path | None, opsets: Mapping[str, int]
    ):
        self.emitter = emitter
        self.functions = functions
        self.folder = folder
        self.opsets = opsets
        self.count = 0
        self.depth = 0

    def graph(
        self,
        graph: GraphProto,
        inputs: Sequence[Thing | None],
        around: Scope,
        opsets: Mapping[str, int],
        references: Mapping[str, AttributeProto],
        array: Callable[[str], Array] | None = None,
    ) -> list[Thing]:
        """The outputs of a graph; what it does not define itself is looked up in `around`."""
        scope = dict(around)
        for tensor in graph.initializer:
            held = array(tensor.name) if array is not None else array_of(tensor, self.folder)
            scope[tensor.name] = self.emitter.known(held)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            scope[name] = self.emitter.known(sparse_array(sparse, self.folder, f"the tensor '{name}'"))
        own = {t.name for t in graph.initializer}
        names = [i.name for i in graph.input if array is None or i.name not in own]
        if len(inputs) > len(names):
            raise UserError(f"the graph '{graph.name}' takes {len(names)} inputs, not {len(inputs)}")
        scope.update(zip(names, inputs, strict=False))
        self.nodes(graph.node, scope, opsets, references)
        return [self._found(scope, o.name, f"the output of the graph '{graph.name}'") for o in graph.output]

    def nodes(
        self,
        nodes: Sequence[NodeProto],
        scope: Scope,
        opsets: Mapping[str, int],
        references: Mapping[str, AttributeProto],
    ) -> None:
        """Runs nodes in order, and adds to the scope what they give."""
        self.depth += 1
        try:
            self._nodes(nodes, scope, opsets, references)
        finally:
            self.depth -= 1

    def _nodes(
        self,
        nodes: Sequence[NodeProto],
        scope: Scope,
        opsets: Mapping[str, int],
        references: Mapping[str, AttributeProto],
    ) -> None:
        for at, node in enumerate(nodes):
            self.count += 1
            if self.count > _MOST:
                raise Limit(
                    f"the model has more than {_MOST} nodes with its loops unrolled and its functions in place"
                )
            outer, location = self.emitter.builder.location, place_of(node)
            if location.known or not outer.known:
                # Without a line the node itself is the place.
                self.emitter.builder.location = location if location.known else Location(called(node))
            try:
                made = self._node(node, scope, opsets, references)
            except Undecided as error:
                error.node = at
                raise
            except (UserError, Limit) as error:
                first = error.diagnostics[0]
                message = f"{called(node)}: {first.message}"
                place = location if location.known else first.location
                raise type(error)(Diagnostic(message, place, hint=first.hint)) from None
            except _MISFITS as error:
                message = (
                    f"{called(node)}: the node does not fit its operator ({type(error).__name__}: {error})"
                )
                raise UserError(message, location) from error
            finally:
                self.emitter.builder.location = outer
            scope.update(
                (name, thing) for name, thing in zip(node.output, things_of(made), strict=False) if name
            )

    def _node(
        self,
        node: NodeProto,
        scope: Scope,
        opsets: Mapping[str, int],
        references: Mapping[str, AttributeProto],
    ) -> Made:
        domain = domain_of(node.domain)
        inputs = [self._found(scope, name, "its input") if name else None for name in node.input]
        attributes = {a.name: a for a in node.attribute if not a.ref_attr_name}
        for a in node.attribute:
            if a.ref_attr_name in references:
                attributes[a.name] = references[a.ref_attr_name]
        function = self.functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self._call(function, inputs, attributes)
        version = opsets.get(domain, self.opsets.get(domain, 1))
        if (domain, node.op_type) not in OPERATORS:
            body = self._body(node, attributes, inputs, domain, version)
            # What a node leaves out its function asks for too.
            defaults = defaults_of(schema_of(node.op_type, domain, version))
            return self._call(body, inputs, {**defaults, **attributes})
        if node.op_type != "Identity" and any(isinstance(thing, (Words, Maps)) for thing in inputs):
            raise Limit("its input holds strings or maps", hint="they can be outputs of the model")

        def run(graph: GraphProto, things: Sequence[Thing]) -> list[Thing]:
            return self.graph(graph, things, scope, opsets, references)

        return self._operator(node, domain, version, attributes, run)(*inputs)

    def operator(self, node: NodeProto, opsets: Mapping[str, int]) -> Callable[..., Made] | None:
        """What a node without graphs gives of its inputs; None where it has some, or functions define it."""
        domain = domain_of(node.domain)
        defined = (domain, node.op_type, node.overload) in self.functions
        if defined or (domain, node.op_type) not in OPERATORS or next(graphs_of(node), None) is not None:
            return None
        attributes = {a.name: a for a in node.attribute if not a.ref_attr_name}
        return self._operator(node, domain, opsets.get(domain, 1), attributes, _no_graph)

    def _operator(
        self, node: NodeProto, domain: str, version: int, attributes: Mapping[str, AttributeProto], run: Run
    ) -> Callable[..., Made]:
        stated = SCHEMAS.get((domain, node.op_type))
        if stated is not None:
            attributes = {**defaults_of(stated), **attributes}
        outermost = self.depth == 1
        made = Node(node.op_type, version, attributes, node.output, self.emitter, self.folder, run, outermost)
        handler = OPERATORS[domain, node.op_type]

        def operator(*inputs: Thing | None) -> Made:
            while inputs and inputs[-1] is None:
                inputs = inputs[:-1]
            return handler(made, *inputs)

        return operator

    def _body(
        self,
        node: NodeProto,
        attributes: Mapping[str, AttributeProto],
        inputs: Sequence[Thing | None],
        domain: str,
        version: int,
    ) -> FunctionProto:
        """The standard's function for a node."""
        schema = schema_of(node.op_type, domain, version)
        if schema is None or not has_body(schema):
            raise Limit(f"ngmlir does not have the operator {node.op_type}")
        if not schema.has_context_dependent_function:
            return schema.function_body
        plain = NodeProto()
        plain.CopyFrom(node)
        del plain.attribute[:]
        plain.attribute.extend(attributes.values())
        types = [_type_of(thing).SerializeToString() for thing in inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions, default=version), plain.SerializeToString(), types
        )
        if not text:
            raise Limit(f"the standard has no function for this use of {node.op_type}")
        return FunctionProto.FromString(text)

    def _call(
        self,
        function: FunctionProto,
        inputs: Sequence[Thing | None],
        attributes: Mapping[str, AttributeProto],
    ) -> list[Thing]:
        """What a function gives, in place of a node."""
        if len(inputs) > len(function.input):
            raise UserError(f"it has {len(inputs)} inputs, the function {len(function.input)}")
        scope: Scope = dict.fromkeys(function.input)
        scope.update(zip(function.input, inputs, strict=False))
        references = {a.name: a for a in function.attribute_proto}
        references.update(attributes)
        opsets = {domain_of(o.domain): o.version for o in function.opset_import}
        self.nodes(function.node, scope, opsets, references)
        return [scope.get(name) or Absent() for name in function.output]

    @staticmethod
    def _found(scope: Scope, name: str, what: str) -> Thing:
        if name not in scope:
            raise UserError(f"{what} '{name[:200]}' is made by no node before it")
        return scope[name]  # pyright: ignore[reportReturnType]  # None is an input that a function was not given


def things_of(made: Made) -> list[Thing]:
    """What an operator gives, one for each output."""
    return [made] if isinstance(made, (Tensor, TensorList, Absent, Words, Maps)) else list(made)


def _no_graph(graph: GraphProto, things: Sequence[Thing]) -> list[Thing]:
    raise AssertionError("a node without graphs runs one")


def _type_of(thing: Thing | None) -> TypeProto:
    if isinstance(thing, Tensor):
        return helper.make_tensor_type_proto(_NUMBERS[thing.element], thing.shape)
    if isinstance(thing, TensorList) and thing:
        return helper.make_sequence_type_proto(
            helper.make_tensor_type_proto(_NUMBERS[thing[0].element], None)
        )
    return TypeProto()
