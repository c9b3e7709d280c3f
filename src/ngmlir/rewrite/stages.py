# SPDX-License-Identifier: Apache-2.0
"""The rules of each stage of a program (`contracts.py` lists the stages): constraints that the verifier cannot check, since
they depend on the progress of lowering."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir.attributes import ArrayAttr, DenseArrayAttr, StringAttr
from ..ir.core import Module, Op, Value, op_name
from ..ir.definition import CONTAINERS, ELEMENTS
from ..ir.elements import ElementsAttr
from ..ir.nest import GATHERED, NEST, NestAttr
from ..ir.types import MemRefType, TensorType, i8
from ..ops.fields import find_symbols, get_i64
from ..ops.parts import first_of_part
from ..ops.tied import count_in, signature, tied_violations
from ..support.diagnostics import Diagnostic
from .contracts import Stage

#: The ops that remain in functions after `to-kernels`: views (slices and concatenations only if contiguous), control flow, constants,
#: calls, annotations, terminators.
KEPT = frozenset(
    {
        "ng.reshape",
        "ng.slice",
        "ng.concatenate",
        "ng.constant",
        "ng.if",
        "ng.while",
        "ng.scan",
        "ng.yield",
        "ng.recompute",
        "func.return",
        "func.call",
        "tile.call",
    }
)
#: The attributes that the memory plan leaves on an entry function; the first makes it one.
_PLAN = ("ng.arguments", "ng.results", "ng.constants", "ng.prepared")


#: The messages for operators on variables in a module of functions, and for functions among operators on variables.
_NAMES = ("'{}' works on named variables", "'{}' stands among operators on named variables")


def violations(module: Module, stage: Stage) -> list[Diagnostic]:
    """The violations of the rules of a stage in a valid module; [] if there are none."""
    found: list[Diagnostic] = []
    for function in module.ops:
        if function.name.startswith("program.") != (stage == "program"):
            found.append(Diagnostic(_NAMES[stage == "program"].format(op_name(function)), function.location))
            break  # one message is enough
        if function.name != "func.func":
            continue
        entry = _PLAN[0] in function.attributes
        found += [
            Diagnostic(f"@{function.symbol}: {text}", function.location) for text in tied_violations(function)
        ]
        if stage == "planned" and entry:
            found += _plan_violations(function, module)
        elif stage == "planned":
            if _has_body(function):
                message = f"the memory of @{function.symbol} is not planned"
                found.append(Diagnostic(message, function.location, hint="run plan-memory"))
        elif entry:
            message = f"the memory of @{function.symbol} is planned"
            found.append(
                Diagnostic(message, function.location, hint=f"only a planned program has {_PLAN[0]}")
            )
        else:
            found += _RULES[stage](function)
    return found


def _has_body(function: Op) -> bool:
    return bool(function.regions and function.regions[0].blocks)


# -- stages before the plan ------------------------------------------------------------------------------------------


def _values(op: Op) -> Iterator[Value]:
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def _named(function: Op) -> Iterator[Diagnostic]:
    for op in function.walk():
        # Products that decode a weight are fusions already in earlier stages.
        if op.name == "ng.fusion" and op.attributes.get("kind") != StringAttr("decoded"):
            yield Diagnostic("'ng.fusion' is not allowed before the pass fuse", op.location)
        yield from _on_values(op)


def _plain(function: Op) -> Iterator[Diagnostic]:
    yield from _named(function)
    yield from _nameless(function)


def _fused(function: Op) -> Iterator[Diagnostic]:
    for op in function.walk():
        yield from _on_values(op)
        yield from _gathered(op)
    yield from _nameless(function)


def _gathered(op: Op) -> Iterator[Diagnostic]:
    """Diagnostics for gathers in a nest whose operand has no map with an indexed dimension, and for other ops that read one with it."""
    nest = op.attributes.get(NEST)
    if op.name != "ng.fusion" or not isinstance(nest, NestAttr):
        return
    indexed = {v: read.gathered for v, read in zip(op.block.args, nest.reads, strict=True)}
    for inner in op.block.ops:
        for number, value in enumerate(inner.operands):
            axis = indexed.get(value)
            if number == 0 and "gathers" in inner.traits:
                if axis is None or axis != get_i64(inner, "axis"):
                    message = f"'{inner.name}' indexes dimension {get_i64(inner, 'axis')} of an operand"
                    yield Diagnostic(f"{message} that its map does not show as '{GATHERED}'", inner.location)
            elif axis is not None:
                yield Diagnostic(
                    f"'{inner.name}' reads an operand that only gathers can index", inner.location
                )


def _kernels(function: Op) -> Iterator[Diagnostic]:
    for op in function.walk():
        yield from _on_values(op)
        if op is not function and op.name not in KEPT:
            yield Diagnostic(f"'{op_name(op)}' is not in a kernel", op.location)
        if op.name == "ng.slice" and first_of_part(op) is None:
            yield Diagnostic(
                "'ng.slice' takes a part that is not contiguous, and is not in a kernel", op.location
            )
        if op.name == "ng.concatenate" and get_i64(op, "axis"):
            yield Diagnostic(
                "'ng.concatenate' joins parts that are not contiguous, and is not in a kernel", op.location
            )
        yield from not_storable(op)
    yield from _nameless(function)


def not_storable(op: Op) -> Iterator[Diagnostic]:
    """Diagnostics for values of an op in a function that cannot be stored in memory."""
    for value in _values(op):
        type = value.type
        if not isinstance(type, TensorType):
            message = f"'{op_name(op)}' holds {type}, but functions can only hold tensors"
            hint = f"tensor<{type}> is a tensor of one number" if CONTAINERS["scalar"](type) else ""
            yield Diagnostic(message, op.location, hint=hint)
        elif not type.static:
            yield Diagnostic(f"'{op_name(op)}' holds {type}, whose size is not known", op.location)
        elif not ELEMENTS["element"](type.element):
            yield Diagnostic(
                f"'{op_name(op)}' holds {type}: nothing computes with {type.element}", op.location
            )


def _on_values(op: Op) -> Iterator[Diagnostic]:
    if any(isinstance(v.type, MemRefType) for v in _values(op)):
        yield Diagnostic(f"'{op_name(op)}' works on memory before the pass plan-memory", op.location)


def _outside_nests(op: Op) -> Iterator[Op]:
    """An op and those in its regions, except in fusions with a nest, where axis names are loops."""
    yield op
    for region in op.regions if NEST not in op.attributes else ():
        for block in region.blocks:
            for inner in block.ops:
                yield from _outside_nests(inner)


def _nameless(function: Op) -> Iterator[Diagnostic]:
    for op in _outside_nests(function):
        values = op.results if NEST in op.attributes else _values(op)
        named = next((v.type for v in values if isinstance(v.type, TensorType) and v.type.axes), None)
        if named is not None:
            yield Diagnostic(f"'{op_name(op)}' has axis names: {named}", op.location)


_RULES: dict[Stage, Callable[[Op], Iterator[Diagnostic]]] = {
    "program": lambda function: iter(()),
    "named": _named,
    "plain": _plain,
    "fused": _fused,
    "kernels": _kernels,
}


# -- attributes of entry functions -----------------------------------------------------------------------------------


def _plan_violations(function: Op, module: Module) -> Iterator[Diagnostic]:
    for text in _interface_violations(function, module):
        yield Diagnostic(f"@{function.symbol}: {text}", function.location)
    for op in function.walk():
        if op is not function and any(isinstance(v.type, TensorType) for v in _values(op)):
            yield Diagnostic(f"'{op_name(op)}' makes a tensor after the pass plan-memory", op.location)


def _interface_violations(function: Op, module: Module) -> Iterator[str]:
    """Checks the buffers of a planned function: arguments, then results that are not tied, constants, prepared values, the buffer of
    checks, the arena; see codegen/unit.py."""
    arguments, results = (count_in(function.attributes.get(name)) for name in _PLAN[:2])
    for name, count in zip(_PLAN[:2], (arguments, results), strict=True):
        if count is None:
            yield f"'{name}' must be a non-negative i64"
    tied = function.attributes.get("ng.tied")
    constants = function.attributes.get("ng.constants", ArrayAttr(()))
    if not isinstance(constants, ArrayAttr) or not all(isinstance(c, ElementsAttr) for c in constants.items):
        yield "'ng.constants' must be a list of dense<...>"
        return
    if arguments is None or results is None or any(True for _ in tied_violations(function)):
        return
    if not _has_body(function):
        yield "is planned but has no body"
        return
    prepared: list[Value] = []
    for name in find_symbols(function, "ng.prepared"):
        maker = module.lookup(name)
        count = (
            count_in(maker.attributes.get("ng.results")) if maker is not None and _has_body(maker) else None
        )
        if maker is None or count is None or count_in(maker.attributes.get("ng.arguments")) != 0:
            yield f"'ng.prepared' names @{name}, which is no planned function without arguments"
            return
        if find_symbols(maker, "ng.prepared"):
            yield f"'ng.prepared' names @{name}, which has prepared constants itself"
            return
        prepared += maker.block.args[:count]
    inputs, outputs = signature(function)
    if outputs:
        yield "must return results in buffers, not as values"
    own = results - (len(tied.values) // 2 if isinstance(tied, DenseArrayAttr) else 0)
    checks = int("ng.checks" in function.attributes)
    wanted = arguments + own + len(constants.items) + len(prepared) + checks + 1
    if len(inputs) != wanted:
        yield (
            f"takes {len(inputs)} buffers, but its attributes say {wanted}: {arguments} arguments, {own} results, "
            f"{len(constants.items)} constants{f', {len(prepared)} prepared' if prepared else ''}"
            f"{', what checks note' * checks} and the arena"
        )
        return
    for i, type in enumerate(inputs):
        if not isinstance(type, MemRefType) or not type.static:
            yield f"takes a buffer of a static shape at position {i}, not {type}"
            return
    arena = inputs[-1]
    if not isinstance(arena, MemRefType) or arena.element is not i8 or arena.rank != 1:
        yield f"the last buffer, the arena, must be memref<...xi8>, not {arena}"
    for type, constant in zip(inputs[arguments + own :], constants.items, strict=False):
        assert isinstance(type, MemRefType) and isinstance(constant, ElementsAttr)
        if (type.shape, type.element) != (constant.type.shape, constant.type.element):
            yield f"holds a constant of {constant.type} in {type}"
    for type, value in zip(inputs[arguments + own + len(constants.items) :], prepared, strict=False):
        if type is not value.type:
            yield f"takes what is prepared as {type}, but it is {value.type}"
