# SPDX-License-Identifier: Apache-2.0
"""`raise_`: a program back to a graph. What `lift` makes of the graph prints as the program did.

An argument that a result is tied to is storage, which the graph reads at its beginning and writes at its end. The graph
has all ops of the program, also unused ones, which the order of execution keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from ..ir import core
from ..ir.attributes import ArrayAttr, DenseArrayAttr, DictAttr, StringAttr
from ..ir.core import Block, Module, Value, count_uses
from ..ir.elements import ElementsAttr
from ..ir.types import DYNAMIC, TensorType, Type, element_type
from ..ops import func, ng, tile
from ..ops.hosts import host_function, host_name
from ..ops.lengths import derived, same
from ..ops.open_lengths import open_lengths
from ..ops.stated_schedules import given_by
from ..support.diagnostics import UNKNOWN, Diagnostic, Limit, Location, UserError
from ..support.lengths import Length, name_of, value_at
from .axes import Axes, Axis, DerivedAxis
from .building import BUILDING
from .computation import Computation
from .forms import FunctionForm
from .host_ops import HostDefinition
from .node import Op
from .node_classes import node_class
from .positions import Positions
from .recomputing import mark
from .regions import ControlOp, GraphRegion, filled
from .state import AssignableTensorOp, Role, doall
from .tensor import Tensor
from .tile_ops import raised
from .user_ops import Call
from .values import ConstantOp, FollowingOp
from .writes import AssignOp, ReadOp

#: Of a value: its axes and elements.
Shape = tuple[Axes, Type]


class FixedAxis(Axis):
    """An axis of a program whose length is known: nothing that is fed changes it, not that of the batch either."""

    __slots__ = ()

    @property
    def is_open(self) -> bool:
        return False


def raise_(module: Module, entry: str = "main") -> Computation:
    """The graph of a function of a module, so that `lift(raise_(module))` prints as a module of that function does.

    Its parameters are the function's arguments in order, all of them; those that results are tied to are persistent
    tensors, which it writes. Raises UserError where there is no such function, or where it holds what no graph does
    (calls of functions: stages after `plain`), and Limit for lengths without a name (`?`).
    """
    function = function_of(module, entry)
    written = {argument for _, argument in tied(function)}
    raising = Raising(module)
    raising.read_lengths(function)
    roles = [Role.PERSISTENT if i in written else Role.PLACEHOLDER for i in range(len(function.block.args))]
    storages = [
        raising.storage(value, role, name)
        for value, role, name in zip(function.block.args, roles, argument_names(function), strict=True)
    ]
    return raising.computation(function, storages, storages, tuple)


def function_of(module: Module, symbol: str) -> core.Op:
    """The function of that name; UserError where there is none."""
    found = module.lookup(symbol)
    if found is None or not isinstance(found, func.FuncOp) or not found.regions[0].blocks:
        there = [op.symbol for op in module.ops if isinstance(op, func.FuncOp) and op.regions[0].blocks]
        hint = f"its functions are {', '.join(there)}" if there else ""
        raise UserError(Diagnostic(f"the module has no function @{symbol}", module.location, hint=hint))
    return found


def tied(function: core.Op) -> tuple[tuple[int, int], ...]:
    """Pairs of a result and the argument that it is the new contents of."""
    attribute = function.attributes.get("ng.tied")
    flat = attribute.values if isinstance(attribute, DenseArrayAttr) else ()
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def argument_labels(function: core.Op) -> list[Mapping[str, Any]]:
    """What a function says of each argument, by name."""
    found = function.attributes.get("arg_attrs")
    labels = found.items if isinstance(found, ArrayAttr) else ()
    known: list[Mapping[str, Any]] = [
        dict(label.items) if isinstance(label, DictAttr) else {} for label in labels
    ]
    return known or [{} for _ in function.block.args]


def argument_names(function: core.Op) -> list[str]:
    """What a function calls its arguments: as the graph did (`ng.name`), else as text does."""
    names = [label.get("ng.name") for label in argument_labels(function)]
    return [
        name.value if isinstance(name, StringAttr) else value.name
        for name, value in zip(names, function.block.args, strict=True)
    ]


class Raising:
    """Makes the ops of functions of one module; they share axes."""

    def __init__(self, module: Module):
        self.module = module
        #: By the name of a length of the present function: the axis that has it, of an argument that is fed.
        self.roots: Mapping[str, Axis] = {}
        self.values: dict[Value, Tensor] = {}
        self.uses: Mapping[Value, int] = {}
        self.axes: dict[tuple[str, int | None], Axis] = {}

    # ---- functions

    def read_lengths(self, function: core.Op) -> None:
        """Takes the lengths of a function for those of axes of its arguments. Raises UserError where no axis has one of them."""
        roots: dict[str, Axis] = {}
        for length in open_lengths(function):
            place = length.places[0]
            type = function.block.args[place.argument].type
            assert isinstance(type, TensorType)
            if (place.times, place.more) != (1, 0):
                message = (
                    f"no dimension of an argument of @{function.symbol} has the length {length.name} alone"
                )
                raise UserError(Diagnostic(message, function.location))
            name = type.axes[place.dimension] if type.axes is not None else length.name
            roots[length.name] = self.axes.setdefault((name, None), Axis(None, name))
        self.roots = roots

    def storage(self, value: Value, role: Role, name: str) -> AssignableTensorOp:
        """Storage for an argument."""
        made = AssignableTensorOp(*self.shape(value), role)
        made.given_name = name
        return made

    def computation(
        self,
        function: core.Op,
        storages: Sequence[AssignableTensorOp],
        parameters: Sequence[AssignableTensorOp],
        pack: Callable[[Sequence[Any]], Any],
    ) -> Computation:
        """A function as a computation on storage for its arguments, of which `parameters` are fed. It returns the results
        that are tied to none, and None for the writes of the others."""
        pairs = tied(function)
        with Op.saved_user_deps():
            results, unused = self.body(function, storages)
            writes = [AssignOp(storages[argument], results[result]) for result, argument in pairs]
            returns: list[Op] = [r for i, r in enumerate(results) if i not in dict(pairs)]
            group = [doall(writes)] if writes else []
            made = Computation([*returns, *group], parameters, lambda values: pack(values[: len(returns)]))
        for op in unused:
            made.add_control_dep(op)
        own = ("sym_name", "function_type")
        attributes = {name: a for name, a in function.attributes.items() if name not in own}
        names = tuple([a.name for a in function.block.args])
        made.form = FunctionForm(function.symbol, tuple(storages), names, attributes, pairs)
        made.location = function.location
        if function.symbol != "main":
            made.given_name = function.symbol
        return made

    def body(self, function: core.Op, storages: Sequence[Tensor]) -> tuple[list[Tensor], list[Op]]:
        """What a function gives, computed from storage, and what of it nothing uses."""
        if len(function.regions[0].blocks) != 1:
            raise UserError(
                Diagnostic(
                    f"@{function.symbol} has several blocks, which graphs cannot have", function.location
                )
            )
        block = function.block
        self.uses = count_uses(block)
        # Reads, so that what is a view of an argument keeps its place.
        reads: list[Tensor] = [ReadOp(s) for s in storages]
        results, unused = self.block(block, reads)
        parameters = [r for a, r in zip(block.args, reads, strict=True) if not self.uses.get(a)]
        return results, [*parameters, *unused]

    # ---- blocks

    def block(self, block: Block, parameters: Sequence[Tensor]) -> tuple[list[Tensor], list[Op]]:
        """The results of a block, and the ops in it that nothing uses."""
        self.values.update(zip(block.args, parameters, strict=True))
        unused: list[Op] = []
        *ops, end = block.ops
        for op in ops:
            made = self.op(op)
            self.values.update(zip(op.results, made, strict=True))
            unused += [m for r, m in zip(op.results, made, strict=True) if not self.uses.get(r)]
        return [self.values[o] for o in end.operands], unused

    def op(self, op: core.Op) -> Sequence[Tensor]:
        operands = [self.values[o] for o in op.operands]
        if isinstance(op, ng.RecomputeOp):
            mark(operands[: len(op.values)], operands[len(op.values) :], op.location)
            return ()
        if isinstance(op, (ng.IfOp, ng.WhileOp, ng.ScanOp)):
            made: Sequence[Tensor] = self.control(op, operands)
        elif isinstance(op, ng.ConstantOp):
            made = [self.constant(op)]
        elif isinstance(op, ng.ExtentOp) and isinstance(op.value, Length):
            made = [FollowingOp(same, [self.length(op.value)], *self.shape(op.result))]
        elif isinstance(op, func.CallOp):
            made = [self.call(op, operands)]
        elif isinstance(op, tile.CallOp):
            kernel = self.module.lookup(op.callee)
            assert kernel is not None
            made = raised(kernel, operands, [self.shape(r) for r in op.results])
        elif op.name not in ng.OPS or op.regions or len(op.results) != 1:
            raise UserError(
                Diagnostic(
                    f"{op.name} cannot be part of a graph",
                    op.location,
                    hint="only programs of stage named can become a graph: see ngopt --list-passes",
                )
            )
        else:
            made = [node_class(type(op))(operands, self.attributes(op), *self.shape(op.results[0]))]
        for each, result in zip(made, op.results, strict=True):
            each.location, each.given_name = op.location, result.name
        if schedule := given_by(op):
            made[0].metadata["schedule"] = dict(schedule)
        return made

    def constant(self, op: ng.ConstantOp) -> Tensor:
        axes, element = self.shape(op.results[0])
        literal = op.attributes["value"]
        assert isinstance(literal, ElementsAttr)
        array = literal.array()
        return ConstantOp(array[(0,) * array.ndim] if literal.splat else array, axes, element)

    def call(self, op: func.CallOp, operands: Sequence[Tensor]) -> Tensor:
        callee = self.module.lookup(op.callee)
        if callee is None or not host_name(callee):
            hint = "ngopt --inline puts its body in the place of the call"
            raise Limit(Diagnostic(f"@{op.callee} is called: graphs have no calls", op.location, hint=hint))
        function = host_function(callee, op.location)
        assert function.function is not None
        definition = HostDefinition(function.function)
        axes, element = self.shape(op.results[0])
        return definition.op_class(Call(operands, {}), operands, axes, element, function)

    def control(self, op: core.Op, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        regions: list[GraphRegion] = []
        for region in op.regions:
            shapes = [self.shape(a) for a in region.block.args]
            regions.append(filled(GraphRegion(BUILDING.region), shapes, self.entered(region.block)))
        made = ControlOp(
            type(op), operands, regions, [self.shape(r) for r in op.results], self.attributes(op)
        )
        made.location = op.location
        return made.results

    def entered(self, block: Block) -> Callable[..., Sequence[Tensor]]:
        """What fills a region with a block."""

        def fill(*parameters: Tensor) -> Sequence[Tensor]:
            for parameter, argument in zip(parameters, block.args, strict=True):
                parameter.given_name = argument.name
            results, unused = self.block(block, parameters)
            unused += [p for p, a in zip(parameters, block.args, strict=True) if not self.uses.get(a)]
            return _after(results, unused) if unused else results

        return fill

    # ---- types

    def shape(self, value: Value) -> Shape:
        """The axes and elements of a value."""
        type = value.type
        if not isinstance(type, TensorType):
            raise UserError(Diagnostic(f"a value of type {type} is not a tensor", _place(value)))
        if DYNAMIC in type.shape:
            hint = "give it a name: tensor<[N]x4xf32>"
            raise Limit(Diagnostic(f"{type} has a length without a name", _place(value), hint=hint))
        if type.axes is None:
            axes = [self.position(size) for size in type.shape]
            # Only the first dimension of the length of an axis is that axis.
            return Positions(
                [a if a not in axes[:i] else a.renamed(Axis().name) for i, a in enumerate(axes)]
            ), element_type(type)
        return Axes([self.axis(*a) for a in zip(type.axes, type.shape, strict=True)]), element_type(type)

    def axis(self, name: str, length: int) -> Axis:
        """The axis of a name and length."""
        root = self.root(length)
        if root is not None and root.name == name:
            return root
        found = self.axes.get((name, length))
        if found is None:
            known = self.length(length)
            made = FixedAxis(known, name) if isinstance(known, int) else DerivedAxis(name, known)
            found = self.axes[name, length] = made
        return found

    def position(self, length: int) -> Axis:
        """The axis of a length, without a name of its own."""
        known = self.length(length)
        if isinstance(known, int):
            return FixedAxis(known)
        return self.root(length) or DerivedAxis(Axis().name, known)

    def root(self, length: int) -> Axis | None:
        """The axis of an argument that has a length, which has a name."""
        name = name_of(length)
        return None if name is None else self.roots[name]

    def length(self, number: int) -> Any:
        """A number of the program; where it follows from named lengths, what follows from those of axes."""
        if not isinstance(number, Length):
            return number
        names = sorted(number.expression.names())

        def value(*lengths: int) -> int:
            return value_at(number, dict(zip(names, lengths, strict=True)))

        return derived(value, *[self.roots[name] for name in names])

    def attributes(self, op: core.Op) -> dict[str, Any]:
        """The attributes that an op's entry names, as values of Python."""
        assert op.definition is not None
        fields = [field.name for field in op.definition.attributes]
        return {name: self.value(getattr(op, name)) for name in fields if name in op.attributes}

    def value(self, given: Any) -> Any:
        """The value of an attribute, in which numbers may follow from named lengths."""
        if isinstance(given, (tuple, list)):
            return tuple([self.value(each) for each in cast("Sequence[Any]", given)])
        return self.length(given) if isinstance(given, Length) else given


def _after(results: Sequence[Tensor], others: Iterable[Op]) -> list[Tensor]:
    """The results of a body, which come after other ops of it."""
    made: list[Tensor] = [ReadOp(r) for r in results]
    for op in others:
        for result in made[:1]:
            result.add_control_dep(op)
    return made


def _place(value: Value) -> Location:
    """Where a value is from, if it is from an op."""
    return value.owner.location if isinstance(value.owner, core.Op) else UNKNOWN
