# SPDX-License-Identifier: Apache-2.0
"""Computations as a module that a file can hold: their functions, with `@initialize`, which gives what they keep its values.

    module {
      func.func @initialize(%w: ...) -> ... attributes {ng.tied = array<i64: 0, 0>}
      func.func @main(%x: ..., %w: ... {ng.name = "w", ng.role = "variable"}) -> ... attributes {ng.parameters = 1 : i64}
    }

The first `ng.parameters` arguments are fed, and say what the named lengths of their types are (`[N]`). The others are
state, which functions share by name (`ng.name`); `ng.role` says what it is for. `ng.returns` says in which structure results are given: `0` alone, `[0, 1]`, `{loss = 0}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from ..ir.attributes import ArrayAttr, Attribute, DictAttr, IntegerAttr, StringAttr, UnitAttr, integers
from ..ir.core import Block, Module, Value, module
from ..ir.core import Op as IrOp
from ..ir.elements import elements
from ..ir.types import i64
from ..ops import func
from ..ops.builder import Builder, function
from ..ops.lengths import READING, reading
from ..ops.tied import tied_violations
from ..support.diagnostics import Diagnostic
from ..support.spelling import did_you_mean
from .computation import Computation, computation
from .errors import UserError, fail
from .kept import initializers, kept, named
from .lift import Lifted, lift
from .node import Op
from .raising import Raising, argument_labels, argument_names, tied
from .state import AssignableTensorOp, Role, doall

#: The function that gives state its initial values.
INITIALIZE = "initialize"


def storages_of(made: Mapping[str, Computation]) -> dict[str, AssignableTensorOp]:
    """What computations keep from call to call, by name."""
    return named(kept(made.values()))


def to_module(
    made: Mapping[str, Computation],
    state: Mapping[str, Any] | None = None,
    lengths: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
) -> Module:
    """The functions of computations by name, and `@initialize`: with the values of `state`, or as they begin. In the function of a
    name, axes have the `lengths` of this name, by their `id`."""
    storages = storages_of(made)
    names: dict[Op, str] = {op: name for name, op in storages.items()}
    kernels: dict[str, IrOp] = {}
    functions: list[IrOp] = []
    for name, each in made.items():
        with reading({**(READING.given or {}), **lengths.get(name, {})}):
            lifted = lift(each, name=name, kernels=kernels)
        for called in lifted.module.ops[1:]:
            if called.name != "tile.kernel":
                hint = "host ops are functions of Python: text does not hold them"
                fail(UserError, f"{each.called} calls {called.symbol}", hint, each.location)
            kernels[called.symbol] = called
        functions.append(_described(lifted, each, names))
    first = _begin(storages) if state is None else _values(storages, state)
    return module([*([] if first is None else [first]), *functions, *kernels.values()])


def _described(lifted: Lifted, of: Computation, names: Mapping[Op, str]) -> IrOp:
    """The function of a computation, with the attributes of its text."""
    made = lifted.module.ops[0]
    labels: list[Attribute] = []
    for value, op in zip(made.block.args, lifted.arguments, strict=True):
        is_state = op not in of.parameters or op in names
        role = (("ng.role", StringAttr(op.role.value)),) if is_state else ()
        value.name = names.get(op) or value.name
        labels.append(DictAttr((("ng.name", StringAttr(value.name)), *role)))
    free = iter(range(len(lifted.outputs)))
    places = [None if place is None else next(free) for place in lifted.outputs]
    attributes: dict[str, Attribute] = {
        "arg_attrs": ArrayAttr(tuple(labels)),
        "ng.parameters": IntegerAttr(len(of.parameters), i64),
        "ng.returns": _structure(of.pack(places)),
    }
    if not labels:
        del attributes["arg_attrs"]
    return made.rebuilt(attributes={**made.attributes, **attributes})


def _structure(value: Any) -> Attribute:
    """Which results a computation gives, in which structure."""
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, tuple):
        return ArrayAttr(tuple(_structure(v) for v in cast("tuple[Any, ...]", value)))
    if isinstance(value, dict):
        by_name = {
            k.called if isinstance(k, Op) else str(k): v for k, v in cast("dict[Any, Any]", value).items()
        }
        return DictAttr(tuple((k, _structure(v)) for k, v in by_name.items()))
    return UnitAttr()


def _begin(storages: Mapping[str, AssignableTensorOp]) -> IrOp | None:
    """`@initialize` of state as it begins."""
    found = initializers(storages.values())
    if not found:
        return None
    lifted = lift(computation(doall(found)), name=INITIALIZE)
    names = {op: name for name, op in named(lifted.arguments).items()}
    names |= {op: name for name, op in storages.items()}
    made = lifted.module.ops[0]
    for value, op in zip(made.block.args, lifted.arguments, strict=True):
        value.name = names[op]
    labels = [_label(names[op], op.role) for op in lifted.arguments]
    return made.rebuilt(attributes={**made.attributes, "arg_attrs": ArrayAttr(tuple(labels))})


def _label(name: str, role: Role) -> DictAttr:
    return DictAttr((("ng.name", StringAttr(name)), ("ng.role", StringAttr(role.value))))


def _values(storages: Mapping[str, AssignableTensorOp], state: Mapping[str, Any]) -> IrOp | None:
    """`@initialize` of known values."""
    for name in state:
        if name not in storages:
            there = ", ".join(storages) or "none"
            fail(
                UserError,
                f"there is no state called {name!r}; the names are {there}",
                did_you_mean(name, storages, ""),
            )
    lacking = [n for n, op in storages.items() if n not in state and op.initial_value is not None]
    if lacking:
        fail(UserError, f"the state has no value for {', '.join(lacking)}")
    ops = {name: storages[name] for name in storages if name in state}
    if not ops:
        return None
    block = Block([op.type for op in ops.values()], [*ops])
    builder = Builder(block)
    values: list[Value] = []
    for name, op in ops.items():
        array = np.asarray(state[name])
        if array.shape != op.axes.known_shape or array.dtype != op.dtype:
            fail(
                UserError,
                f"{name} is {op.type}, the state has {array.dtype} of shape {array.shape}",
            )
        values.append(builder.constant(type=op.type, value=elements(array, op.type)))
    builder.end(func.ReturnOp, *values)
    labels = [_label(name, op.role) for name, op in ops.items()]
    pairs = integers([i for at in range(len(ops)) for i in (at, at)])
    return function(INITIALIZE, block, {"arg_attrs": ArrayAttr(tuple(labels)), "ng.tied": pairs})


# ---- from a module


def from_module(made: Module) -> dict[str, Computation]:
    """The computations of a module, by the names of its functions."""
    functions = [f for f in made.ops if isinstance(f, func.FuncOp) and f.regions[0].blocks]
    public = [f for f in functions if "sym_visibility" not in f.attributes]
    first = next((f for f in public if f.symbol == INITIALIZE), None)
    entries = [f for f in public if f is not first]
    if not entries:
        raise UserError(Diagnostic("the module has no function to compute", made.location))
    for each in functions:
        if wrong := next(tied_violations(each), None):
            raise UserError(Diagnostic(f"@{each.symbol}: {wrong}", each.location))
    reading = _Reading(made, set(argument_names(first)) if first is not None else set())
    if first is not None:
        reading.begin(first)
    return {f.symbol: reading.computation(f) for f in entries}


class _Reading:
    """Makes computations of the functions of a module, with the storage that they share."""

    def __init__(self, made: Module, state: set[str]):
        self.raising = Raising(made)
        self.initialized = state
        self.state: dict[str, AssignableTensorOp] = {}

    def begin(self, first: IrOp) -> None:
        """Makes the storage that `@initialize` gives values, and says these."""
        storages = self.arguments(first)
        with Op.saved_user_deps(), Op.all_ops(isolate=True):
            results, _ = self.raising.body(first, storages)
            for result, argument in tied(first):
                storages[argument].begin_with(results[result])

    def computation(self, entry: IrOp) -> Computation:
        self.raising.read_lengths(entry)
        storages = self.arguments(entry)
        count = entry.attributes.get("ng.parameters")
        if isinstance(count, IntegerAttr):
            fed = storages[: count.value]
        else:
            fed = [
                s
                for s, name in zip(storages, argument_names(entry), strict=True)
                if name not in self.initialized
            ]
        return self.raising.computation(entry, storages, fed, _packing(entry))

    def arguments(self, entry: IrOp) -> list[AssignableTensorOp]:
        """The storage that stands for the arguments of a function."""
        written = {argument for _, argument in tied(entry)}
        made: list[AssignableTensorOp] = []
        for i, (value, label, name) in enumerate(
            zip(entry.block.args, argument_labels(entry), argument_names(entry), strict=True)
        ):
            role = _role(label.get("ng.role"), entry)
            is_state = role is not None or name in self.initialized or i in written
            if not is_state:
                made.append(self.raising.storage(value, Role.PLACEHOLDER, name))
                continue
            known = self.state.get(name)
            if known is None:
                known = self.state[name] = self.raising.storage(value, role or Role.PERSISTENT, name)
            elif known.type is not value.type:
                raise UserError(
                    Diagnostic(
                        f"{name} is {value.type} in @{entry.symbol}, but {known.type} elsewhere",
                        entry.location,
                    )
                )
            made.append(known)
        return made


def _role(attribute: Attribute | None, entry: IrOp) -> Role | None:
    if attribute is None:
        return None
    try:
        return Role(attribute.value if isinstance(attribute, StringAttr) else "")
    except ValueError:
        hint = f"one of {', '.join(role.value for role in Role)}"
        raise UserError(Diagnostic(f"there is no role {attribute}", entry.location, hint=hint)) from None


def _packing(entry: IrOp) -> Callable[[Sequence[Any]], Any]:
    """What gives results the structure that a function says."""
    structure = entry.attributes.get("ng.returns")
    count = len(entry.block.ops[-1].operands) - len(tied(entry))
    if structure is None:
        return tuple
    if any(not 0 <= number < count for number in _numbers(structure)):
        raise UserError(
            Diagnostic(
                f"@{entry.symbol} has {count} results that are tied to nothing; ng.returns is {structure}",
                entry.location,
            )
        )
    return lambda values: _packed(structure, values)


def _numbers(structure: Attribute) -> Iterable[int]:
    match structure:
        case IntegerAttr():
            yield structure.value
        case ArrayAttr():
            for item in structure.items:
                yield from _numbers(item)
        case DictAttr():
            for _, item in structure.items:
                yield from _numbers(item)
        case _:
            pass


def _packed(structure: Attribute, values: Sequence[Any]) -> Any:
    match structure:
        case IntegerAttr():
            return values[structure.value]
        case ArrayAttr():
            return tuple([_packed(item, values) for item in structure.items])
        case DictAttr():
            # Entries are given in the order of their results: text has them in the order of their names.
            items = sorted(structure.items, key=lambda item: min(_numbers(item[1]), default=len(values)))
            return {name: _packed(item, values) for name, item in items}
        case _:
            return None
