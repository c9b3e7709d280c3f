# SPDX-License-Identifier: Apache-2.0
"""A model that was read, and what it becomes when it is compiled: a program for each shape that it is called with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from ...ir.attributes import ArrayAttr, DictAttr, StringAttr
from ...ir.core import Block, Module, Value, module
from ...ir.literals import dtype_of
from ...ir.types import TensorType
from ...ir.verifier import check
from ...ops import func
from ...ops.builder import function
from ...runtime.threads import checked_threads, using_threads
from ...runtime.timing import Profile, listening
from ...support.collector import collecting_rarely
from ...support.diagnostics import Limit, UserError
from ...support.mapping import mapping_of
from ...support.rows import Length
from ...support.spelling import did_you_mean
from ...transformers.backends import BACKENDS, backend_for
from ...transformers.sizes import Families, warn_of_many
from .calls import Last, Outputs, Program
from .cut import Cut, cut, products, used
from .emitter import Emitter, Undecided
from .ports import Given, Port, element_type_of, given_of, leaves_of, port_of, stated_port
from .reader import Reader
from .survey import domain_of, survey
from .tensor import Absent, Array, Tensor, TensorList, Thing
from .tensors import array_of

#: Of more the model is cut in two where they decide, if nodes before that compute them.
_FEW = 64
#: Operations in products from which on a program is compiled for one call.
_HEAVY = 1 << 30
#: Programs of one model that are kept.
_KEPT = 64


class Model:
    """A model: `ng.compile(model, target="cpu")` makes a function of arrays."""

    #: Inputs whose elements decide shapes have at most so many.
    most = 1 << 16

    def __init__(self, proto: ModelProto, folder: Path | None, weights: dict[int, memoryview]):
        """`weights` are the bytes of initializers, by number, that the tensors of `proto` do not hold themselves."""
        self.proto = proto
        self.folder = folder
        self.weights = {t.name: weights.get(i) for i, t in enumerate(proto.graph.initializer)}
        self.opsets = {domain_of(o.domain): o.version for o in proto.opset_import}
        self.functions = {(domain_of(f.domain), f.name, f.overload): f for f in proto.functions}
        self.initializers = {t.name: t for t in proto.graph.initializer}
        self._arrays: dict[str, Array] = {}
        #: Where tensors lie that have been read so far.
        self._files = {mapping for data in weights.values() if (mapping := mapping_of(data))}
        survey(proto, self.functions, self.opsets)
        given = {*self.initializers, *(s.values.name for s in proto.graph.sparse_initializer)}
        self.inputs = [stated_port(i.name, i.type) for i in proto.graph.input if i.name not in given]
        self.output_names = [o.name for o in proto.graph.output]
        #: Leaves of the inputs whose elements decide shapes, by what has been found so far.
        self.deciding: set[tuple[int, int]] = set()

    @property
    def input_names(self) -> list[str]:
        return [port.name for port in self.inputs]

    def array(self, name: str) -> Array:
        """An initializer, read once."""
        if name not in self._arrays:
            self._arrays[name] = array_of(self.initializers[name], self.folder, stored=self.weights.get(name))
        return self._arrays[name]

    def _let_go(self) -> None:
        """What has been looked at of files is in memory no longer."""
        self._files |= {mapping for array in self._arrays.values() if (mapping := mapping_of(array))}
        for mapping in self._files:
            mapping.let_go()

    def check_files(self) -> None:
        """UserError where a file was cut off that tensors lie in: to read on would end the process."""
        if not all(mapping.intact for mapping in self._files):
            raise UserError(
                "a file that the model was read from is shorter than it was",
                hint="files of models that are in use may be replaced, not written over",
            )

    def compiled(
        self, target: str = "cpu", profile: Profile | None = None, threads: int | None = None
    ) -> CompiledModel:
        """A function of arrays; a profile listens to its programs."""
        return CompiledModel(self, target, profile, threads)

    def program(self, values: Sequence[Given]) -> Program:
        """The model for inputs of these shapes; where the elements of an input decide shapes, for these elements.

        `Waits` where a node needs what the nodes before it compute of many elements.
        """
        while True:
            try:
                with collecting_rarely():
                    return self.attempt(values)
            except _Decides as found:
                leaf = next(array for place, array in leaves_of(values) if place == found.leaf)
                if leaf.size > _FEW and (made := cut(self.proto.graph, self.input_names, found.node)):
                    raise Waits(made) from None
                if leaf.size > self.most:
                    raise self._too_large(found.leaf, leaf) from None
                self.deciding.add(found.leaf)

    def module(self, values: Sequence[Given]) -> Module:
        """One function of tensors for inputs of these shapes, whose results are the outputs in order, with their names.

        Limit where there is none: where elements of an input decide shapes, or an output is no tensor.
        """
        try:
            with collecting_rarely():
                program = self.attempt(values, whole=True)
        except _Decides as found:
            name = self.inputs[found.leaf[0]].name
            raise Limit(
                f"the elements of the input '{name}' decide the shape of a tensor: no one program is right for all",
                hint="ng.compile and ngmlir run make one for each call",
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

    def attempt(self, values: Sequence[Given], *, whole: bool = False) -> Program:
        """The same, or a note of the input that turned out to decide shapes. `whole`: what is known already is among the
        results of the module too."""
        self.check_files()
        leaves = leaves_of(values)
        for place, array in leaves:
            if place in self.deciding and array.size > self.most:
                raise self._too_large(place, array)
        open_ = [i for i, (place, _) in enumerate(leaves) if place not in self.deciding]
        types = [TensorType(leaves[i][1].shape, element_type_of(leaves[i][1])) for i in open_]
        names = [
            _leaf_name(self.inputs[leaves[i][0][0]].name, values[leaves[i][0][0]], leaves[i][0][1])
            for i in open_
        ]
        block = Block(types, names)
        emitter = Emitter(block)
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
        except Undecided as error:
            raise self._decides(error, block, leaves, open_) from None
        results: list[Value] = []
        shown = tuple(_result(o, results, emitter if whole else None) for o in outputs)
        if not results:
            return Program(None, (), shown)
        emitter.builder.end(func.ReturnOp, *results)
        labels = ArrayAttr(tuple(DictAttr((("ng.name", StringAttr(n)),)) for n in names))
        made_module = module([function("main", block, {"arg_attrs": labels} if names else {})])
        check(made_module)
        self._let_go()
        return Program(made_module, tuple(open_), shown)

    def _decides(
        self,
        error: Undecided,
        block: Block,
        leaves: Sequence[tuple[tuple[int, int], Array]],
        open_: Sequence[int],
    ) -> Exception:
        """Which input decides a shape; Limit where that is too large an input, or none."""
        for value in error.arguments:
            if value.owner is block:
                return _Decides(leaves[open_[value.index]][0], error.node)
        return Limit("the shape of a tensor depends on what a loop computes")

    def _too_large(self, place: tuple[int, int], array: Array) -> Limit:
        name = self.inputs[place[0]].name
        message = f"the input '{name}', of {array.size} elements, decides the shape of a tensor"
        return Limit(message, hint=f"shapes may depend on inputs of at most {self.most} elements")


class _Decides(Exception):
    def __init__(self, leaf: tuple[int, int], node: int):
        super().__init__()
        self.leaf, self.node = leaf, node


class Waits(Exception):
    """A node needs elements that only a run tells: the model is run in two parts."""

    def __init__(self, cut: Cut):
        super().__init__()
        self.cut = cut


class Part(Model):
    """Some nodes of a model, which holds the tensors that they read."""

    most = 1 << 24

    def __init__(
        self, whole: Model, nodes: Sequence[NodeProto], inputs: Sequence[Port], outputs: Sequence[str]
    ):
        graph = GraphProto(
            node=nodes,
            input=[ValueInfoProto(name=port.name) for port in inputs],
            output=[ValueInfoProto(name=name) for name in outputs],
            sparse_initializer=whole.proto.graph.sparse_initializer,
        )
        self.proto = ModelProto(graph=graph)
        self.folder, self.opsets, self.functions = whole.folder, whole.opsets, whole.functions
        self.initializers, self.weights = whole.initializers, whole.weights
        self._arrays, self._files = whole._arrays, whole._files
        self.inputs, self.output_names = list(inputs), list(outputs)
        self.deciding = set()

    def around(self, emitter: Emitter) -> dict[str, Thing | None]:
        read = {name for node in self.proto.graph.node for name in used(node)} | {*self.output_names}
        return {name: emitter.known(self.array(name)) for name in sorted(read) if name in self.initializers}


class Parts:
    """A model that is run in parts: all that does not wait for a node, that node in NumPy, and the rest for what it chose."""

    def __init__(self, model: Model, cut: Cut, target: str, threads: int | None):
        self.model, self.cut, self.target, self.threads = model, cut, target, threads
        self.head = CompiledModel(Part(model, cut.head, model.inputs, cut.made), target, threads=threads)
        self.mine, self.last = cut.read(model.input_names, model.output_names)
        self.node: CompiledModel | None = None
        self.rest: CompiledModel | None = None

    def __call__(self, given: Sequence[Given]) -> Sequence[Any]:
        there: dict[str, Given] = dict(zip(self.model.input_names, given, strict=True))
        there.update(zip(self.cut.made, self.head(*given), strict=True))
        if self.node is None:
            self.node = self._part([self.cut.node], self.mine, there, self.cut.chosen, "numpy")
        there.update(zip(self.cut.chosen, self.node(*(there[n] for n in self.mine)), strict=True))
        if self.rest is None:
            self.rest = self._part(
                self.cut.rest, self.last, there, self.model.output_names, self.target, self.threads
            )
        return self.rest(*(there[n] for n in self.last))

    def _part(
        self,
        nodes: Sequence[NodeProto],
        takes: Sequence[str],
        there: Mapping[str, Given],
        gives: Sequence[str],
        target: str,
        threads: int | None = None,
    ) -> CompiledModel:
        part = Part(self.model, nodes, [port_of(name, there[name]) for name in takes], gives)
        return CompiledModel(part, target, threads=threads, once=True)


class CompiledModel:
    """A model as a function: called with arrays in the order of its inputs, or by their names."""

    def __init__(
        self,
        model: Model,
        target: str,
        profile: Profile | None = None,
        threads: int | None = None,
        *,
        once: bool = False,
    ):
        if backend_for(target) is None:
            raise UserError(
                f"there is no target '{target}'",
                hint=did_you_mean(str(target), BACKENDS, f"one of {', '.join(BACKENDS)}"),
            )
        self.model = model
        self.target = target
        self.profile = profile
        self.threads = None if threads is None else checked_threads(threads)
        self._programs: OrderedDict[Any, tuple[Program, Callable[..., Sequence[Any]] | None]] = OrderedDict()
        self._programs_made = 0
        self._warned = False
        self._lock = Lock()
        #: Whether most programs are for one call, so that one is compiled only when it is asked for again.
        self._once = once
        self._unsettled: set[Any] = set()
        self._parts: Parts | None = None
        self._last: Last | None = None
        self._families = Families(target, _KEPT)
        shapes = [port.shape for port in model.inputs if port.kind == "tensor"]
        if len(shapes) == len(model.inputs) and all(
            s is not None and all(isinstance(d, int) for d in s) for s in shapes
        ):
            self._made(
                [
                    np.zeros([d for d in p.shape or () if isinstance(d, int)], dtype_of(p.element))
                    for p in model.inputs
                ],
                early=True,
            )

    def __call__(self, *values: Any, **named: Any) -> Outputs:
        """The outputs in order. Raises UserError for values that do not fit the inputs."""
        last = self._last
        if last is not None and not named and last.takes(values):
            self.model.check_files()
            return Outputs(self.model.output_names, last.results(values))
        given = given_of(self.model.inputs, values, named)
        self.model.check_files()
        return Outputs(self.model.output_names, self._results(given))

    def _results(self, given: Sequence[Given]) -> Sequence[Any]:
        if self._parts is None:
            try:
                program, run = self._made(given)
            except Waits as found:
                self._parts = Parts(self.model, found.cut, self.target, self.threads)
            else:
                leaves = leaves_of(given)
                made = list(run(*[leaves[i][1] for i in program.fed])) if run is not None else []
                if run is not None and not self.model.deciding and not self._once:
                    self._last = Last.of(given, program, run)
                return program.shown(made)
        return self._parts(given)

    def _made(
        self, given: Sequence[Given], early: bool = False
    ) -> tuple[Program, Callable[..., Sequence[Any]] | None]:
        """The program for such inputs, and what runs it."""
        with self._lock:
            key = self._key(given)
            found = self._programs.get(key)
            if found is None:
                if early:
                    try:
                        program = self.model.attempt(given)
                    except _Decides:  # zeros say nothing about shapes
                        return Program(None, (), ()), None
                else:
                    program = self.model.program(given)
                    key = self._key(given)
                # What is made for these elements or shapes alone is compiled when they come again, or where it is heavy.
                light = program.module is not None and products(program.module) < _HEAVY
                interpreted = self._once and (bool(self.model.deciding) or light)
                run = self._for_any(program, given)
                if run is None:
                    # Of nothing there is nothing to compute: that is not worth a compilation.
                    empty = not early and any(0 in array.shape for _, array in leaves_of(given))
                    run = self._runner(program, interpreted or empty)
                    self._programs_made += 1
                found = self._programs[key] = (program, run)
                if interpreted:
                    self._unsettled.add(key)
                while len(self._programs) > _KEPT:
                    self._unsettled.discard(self._programs.popitem(last=False)[0])
                if self._programs_made == _KEPT + 1 and not self._once and not self._warned:
                    self._warn()
            elif key in self._unsettled:
                self._unsettled.discard(key)
                found = self._programs[key] = (found[0], self._runner(found[0], False))
            self._programs.move_to_end(key)
            return found

    def _warn(self) -> None:
        """Once, where programs are made and thrown away again."""
        self._warned = True
        names = [self.model.inputs[i].name for i, _ in self.model.deciding]
        what = f"shapes of the inputs, or elements of {', '.join(names)}" if names else "shapes of the inputs"
        made = f"the model was compiled for {self._programs_made} {what}"
        warn_of_many(made, _KEPT, self._families.reasons())

    def _for_any(self, program: Program, given: Sequence[Given]) -> Callable[..., Sequence[Any]] | None:
        """What runs a program for these and any other lengths of what the model leaves open; None where these need programs
        of their own."""
        if program.module is None or self._once:
            return None
        numbers = {place: i for i, (place, _) in enumerate(leaves_of(given))}
        places: dict[str, list[tuple[int, int]]] = {}
        for at, port in enumerate(self.model.inputs):
            leaf = numbers.get((at, 0))
            if port.kind != "tensor" or port.shape is None or leaf not in program.fed:
                continue
            for d, stated in enumerate(port.shape):
                if not isinstance(stated, int):
                    name = stated or f"dimension {d}"
                    places.setdefault(name, []).append((program.fed.index(leaf), d))
        lengths = [Length(name, tuple(each)) for name, each in places.items()]
        with listening(self.profile), using_threads(self.threads):
            return self._families.find(program.module, lengths) if lengths else None

    def _runner(self, program: Program, interpreted: bool) -> Callable[..., Sequence[Any]] | None:
        """What runs a program: by NumPy where that is not worth a compilation."""
        if program.module is None:
            return None
        with listening(self.profile), using_threads(self.threads):
            backend = backend_for("numpy" if interpreted else self.target)
            assert backend is not None
            return backend(program.module)("main", {}, (), tuple)

    def _key(self, given: Sequence[Given]) -> Any:
        kinds = tuple(-1 if v is None else len(v) if isinstance(v, list) else -2 for v in given)
        deciding = self.model.deciding
        return kinds, tuple(
            (a.shape, a.dtype.str, a.tobytes() if place in deciding else b"") for place, a in leaves_of(given)
        )


def _leaf_name(name: str, value: Given, at: int) -> str:
    text = "".join(c if c.isascii() and (c.isalnum() or c in "_.$-") else "_" for c in name)[:60]
    text = text if text[:1].isalpha() or text[:1] == "_" else f"x{text}"
    return f"{text}.{at}" if isinstance(value, list) else text


def _result(thing: Thing, results: list[Value], emitter: Emitter | None) -> Any:
    """What an output is in a `Program`; with an emitter, what is known already becomes a value too."""
    if isinstance(thing, TensorList):
        return [_result(t, results, emitter) for t in thing]
    if isinstance(thing, Tensor):
        if isinstance(thing.item, np.ndarray):
            if emitter is None:
                return thing.item
            results.append(emitter.value(thing))
        else:
            results.append(thing.item)
        return len(results) - 1
    return None
