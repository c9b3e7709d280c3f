# SPDX-License-Identifier: Apache-2.0
"""What a model holds, nodes and weights, and the programs that are made of it for inputs of certain shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from ...ir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, UnitAttr
from ...ir.core import Block, Module, Value, module
from ...ir.types import TensorType
from ...ir.verifier import check
from ...ops import func
from ...ops.builder import function
from ...passes.graph.integer_products import REASSOCIATES
from ...support.collector import collecting_rarely
from ...support.diagnostics import Limit
from .calls import Decides, Program, Waits
from .cut import How, cut, cut_for, products, used
from .emitter import FOLDED, Emitter, Undecided, Unended
from .files import Files
from .ports import Given, Port, element_type_of, leaves_of, stated_port
from .reader import Reader
from .survey import called, domain_of, graphs_of, survey
from .tensor import Absent, Array, Maps, Tensor, TensorList, Thing, Words
from .tensors import array_of
from .tensors_beside import beside_of

#: Operators whose results say how long something is.
_TELLING = frozenset({"Shape", "Size", "NonZero", "Unique", "SequenceLength"})
#: Operators that dequantize: products of what they give may be scaled after the sum.
_QUANTIZED = frozenset({"DequantizeLinear", "MatMulNBits", "MatMulNBitsMlp", "MatMulNBitsQkv"})


class Contents:
    """Nodes and weights of a model, all of whose operators are supported."""

    def __init__(
        self, proto: ModelProto, folder: Path | None, weights: Mapping[int, memoryview], files: Files
    ):
        """`weights` are the bytes of initializers, by number, that the tensors of `proto` do not hold themselves; `files`
        records the files that hold tensors."""
        self.proto = proto
        self.folder = folder
        self.weights = {t.name: weights.get(i) for i, t in enumerate(proto.graph.initializer)}
        self.opsets = {domain_of(o.domain): o.version for o in proto.opset_import}
        self.functions = {(domain_of(f.domain), f.name, f.overload): f for f in proto.functions}
        self.initializers = {t.name: t for t in proto.graph.initializer}
        self._arrays: dict[str, Array] = {}
        self.files = files
        survey(proto, self.functions, self.opsets)
        given = {*self.initializers, *(s.values.name for s in proto.graph.sparse_initializer)}
        self.inputs = [stated_port(i.name, i.type) for i in proto.graph.input if i.name not in given]
        self.output_names = [o.name for o in proto.graph.output]
        #: Inputs that have an initializer, by name: it is their value in calls that give none.
        self.overridable = {i.name: i.type for i in proto.graph.input if i.name in given}
        #: Leaves of the inputs whose elements decide shapes, by what has been found so far.
        self.deciding: set[tuple[int, int]] = set()
        #: Those of which a call had other elements than one before.
        self.changing: set[tuple[int, int]] = set()

    #: Whether products of dequantized operands are computed as f32 products, operand by operand.
    exact = False

    @property
    def input_names(self) -> list[str]:
        return [port.name for port in self.inputs]

    def array(self, name: str) -> Array:
        """An initializer, read once."""
        if name not in self._arrays:
            self._arrays[name] = array_of(self.initializers[name], self.folder, stored=self.weights.get(name))
        return self._arrays[name]

    def program(self, values: Sequence[Given]) -> Program:
        """The model for inputs of these shapes; where the elements of an input decide shapes, for these elements.

        `Waits` if a node needs many elements, or is a loop whose trip count is known only at run time.
        """
        while True:
            try:
                with collecting_rarely():
                    return self.attempt(values)
            except Decides as found:
                leaf = next(array for place, array in leaves_of(values) if place == found.leaf)
                changes = found.leaf in self.changing
                if (made := cut_for(self.proto.graph, found.node, leaf.size, changes)) is not None:
                    raise Waits(made) from None
                self.deciding.add(found.leaf)

    def changed(self, place: tuple[int, int]) -> None:
        """Elements that decide shapes are others than before: no more programs are made for them alone, where the node that
        they decide can be run by itself."""
        if place not in self.changing:
            self.changing.add(place)
            self.deciding.remove(place)

    def module(self, values: Sequence[Given]) -> Module:
        """One function of tensors for inputs of these shapes, whose results are the outputs in order, with their names.

        Limit where there is none: where elements of an input decide shapes, or an output is no tensor.
        """
        try:
            with collecting_rarely():
                program = self.attempt(values, whole=True)
        except Decides as found:
            name = self.inputs[found.leaf[0]].name
            raise Limit(
                f"the elements of the input '{name}' decide {found.decided}: no one program is right for all",
                hint="ng.compile and ngmlir run make one for each call",
            ) from None
        except Waits:
            raise Limit(
                "the trip count of a loop is known only at run time, and each iteration adds a row to an output",
                hint="ng.compile and ngmlir run execute it some iterations at a time",
            ) from None
        if program.module is None or any(not isinstance(r, int) for r in program.results):
            raise Limit("an output of the model is no tensor", hint="ng.compile and ngmlir run give it")
        returned = program.module.ops[0].block.ops[-1].operands
        for value, name in zip(returned, self.output_names, strict=True):
            value.name = value.name or _leaf_name(name, None, 0)
        return program.module

    def around(self, emitter: Emitter) -> dict[str, Thing | None]:
        """What the graph reads and does not hold itself."""
        return {}

    @property
    def contents(self) -> Contents:
        return self

    @cached_property
    def tells_lengths(self) -> bool:
        """Whether a node may tell a length to others, or ask for one."""
        bodies = [self.proto.graph, *self.functions.values()]
        return any(
            node.op_type in _TELLING or next(graphs_of(node), None) is not None
            for body in bodies
            for node in body.node
        )

    def kept(self) -> None:
        """No program is kept for nodes alone: parts of a model are made for what a run chose."""

    def beside(self) -> list[tuple[str, int, int]] | None:
        """The parts of external files that hold the model's tensors; None where not all of them are known."""
        return beside_of(self.proto)

    def products(self, program: Program) -> int:
        """Operations in products, which are most of those that take long."""
        return 0 if program.module is None else products(program.module)

    def part(self, nodes: Sequence[NodeProto], inputs: Sequence[Port], outputs: Sequence[str]) -> Part:
        """Some of the nodes."""
        return Part(self, nodes, inputs, outputs)

    def with_value(self) -> list[Port]:
        """The initializers that the model lists among its inputs."""
        return [stated_port(name, type) for name, type in self.overridable.items()]

    def overriding(self, names: Sequence[str]) -> Part:
        """All nodes, with these initializers as additional inputs of the model."""
        inputs = [*self.inputs, *(port for port in self.with_value() if port.name in names)]
        return self.part(self.proto.graph.node, inputs, self.output_names)

    def attempt(
        self,
        values: Sequence[Given],
        *,
        whole: bool = False,
        folded: int = FOLDED,
        shapes: Sequence[tuple[int, ...]] | None = None,
    ) -> Program:
        """The module, or the input that turned out to decide shapes. `whole`: known results are also results of the
        module; `folded` as for `Emitter`; `shapes` replace the shapes of the leaves of the values."""
        self.files.check()
        leaves = leaves_of(values)
        open_ = [i for i, (place, _) in enumerate(leaves) if place not in self.deciding]
        shapes = [array.shape for _, array in leaves] if shapes is None else shapes
        types = [TensorType(shapes[i], element_type_of(leaves[i][1])) for i in open_]
        names = [
            _leaf_name(self.inputs[leaves[i][0][0]].name, values[leaves[i][0][0]], leaves[i][0][1])
            for i in open_
        ]
        block = Block(types, names)
        emitter = Emitter(block, folded)
        emitter.exact = self.exact
        arguments = iter(block.args)
        things: list[Thing] = []
        at = 0
        for value in values:
            made: list[Tensor] = []
            for _ in value if isinstance(value, list) else () if value is None else (value,):
                known = leaves[at][0] in self.deciding
                made.append(Tensor(leaves[at][1] if known else next(arguments), emitter))
                at += 1
            things.append(
                Absent() if value is None else TensorList(made) if isinstance(value, list) else made[0]
            )
        reader = Reader(emitter, self.functions, self.folder, self.opsets)
        try:
            outputs = reader.graph(
                self.proto.graph, things, self.around(emitter), self.opsets, {}, self.array
            )
        except Unended as error:
            raise Waits(cut(self.proto.graph, error.node, How.LOOP)) from None
        except Undecided as error:
            raise self._decides(error, block, leaves, open_) from None
        results: list[Value] = []
        shown = tuple(_result(o, results, emitter if whole else None) for o in outputs)
        if not results:
            return Program(None, (), shown)
        emitter.builder.end(func.ReturnOp, *results)
        labels = ArrayAttr(tuple(DictAttr((("ng.name", StringAttr(n)),)) for n in names))
        attributes: dict[str, Attribute] = {"arg_attrs": labels} if names else {}
        if not self.exact and any(node.op_type in _QUANTIZED for node in self.proto.graph.node):
            attributes[REASSOCIATES] = UnitAttr()
        made_module = module([function("main", block, attributes)])
        check(made_module)
        self.files.add(self._arrays.values())
        self.files.let_go()
        return Program(made_module, tuple(open_), shown)

    def _decides(
        self,
        error: Undecided,
        block: Block,
        leaves: Sequence[tuple[tuple[int, int], Array]],
        open_: Sequence[int],
    ) -> Exception:
        """Which input decides something; Limit where that is none, but what a loop carries."""
        node = called(self.proto.graph.node[error.node])
        for value in error.arguments:
            if value.owner is block:
                return Decides(leaves[open_[value.index]][0], error.node, f"{error.decided} in {node}")
        return Limit(f"{node}: what a loop computes decides {error.decided}")


class Part(Contents):
    """Some nodes of a model, which holds the tensors that they read."""

    def __init__(
        self, whole: Contents, nodes: Sequence[NodeProto], inputs: Sequence[Port], outputs: Sequence[str]
    ):
        graph = GraphProto(
            node=nodes,
            input=[ValueInfoProto(name=port.name) for port in inputs],
            output=[ValueInfoProto(name=name) for name in outputs],
            sparse_initializer=whole.proto.graph.sparse_initializer,
        )
        self.proto = ModelProto(graph=graph)
        self.folder, self.opsets, self.functions = whole.folder, whole.opsets, whole.functions
        self.exact = whole.exact
        self.initializers, self.weights = whole.initializers, whole.weights
        self._arrays, self.files = whole._arrays, whole.files
        self.inputs, self.output_names = list(inputs), list(outputs)
        self.overridable = {}
        self.deciding, self.changing = set(), set()

    def around(self, emitter: Emitter) -> dict[str, Thing | None]:
        read = {name for node in self.proto.graph.node for name in used(node)} | {*self.output_names}
        held = (read & self.initializers.keys()) - {*self.input_names}
        return {name: emitter.known(self.array(name)) for name in sorted(held)}


def _leaf_name(name: str, value: Given, at: int) -> str:
    text = "".join(c if c.isascii() and (c.isalnum() or c in "_.$-") else "_" for c in name)[:60]
    text = text if text[:1].isalpha() or text[:1] == "_" else f"x{text}"
    return f"{text}.{at}" if isinstance(value, list) else text


def _result(thing: Thing, results: list[Value], emitter: Emitter | None) -> Any:
    """What an output is in a `Program`; with an emitter, what is known already becomes a value too."""
    if isinstance(thing, TensorList):
        return [_result(t, results, emitter) for t in thing]
    if isinstance(thing, Words):
        return {"table": [*thing.table], "places": _result(thing.places, results, emitter)}
    if isinstance(thing, Maps):
        return {"keys": [*thing.keys], "rows": _result(thing.rows, results, emitter)}
    if isinstance(thing, Tensor):
        if isinstance(thing.item, np.ndarray):
            if emitter is None:
                return thing.item
            results.append(emitter.value(thing))
        else:
            results.append(thing.item)
        return len(results) - 1
    return None
