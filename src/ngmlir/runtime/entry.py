# SPDX-License-Identifier: Apache-2.0
"""A Python builtin that checks its arrays and calls a program in about 50 ns, as LLVM IR.

One function serves every program: `self` is a tuple whose first item, an int64 array, is the plan of the call, and
whose second is the Python callable for calls that the plan does not cover (another type, shape or element type, an
array with strides, a number); it converts or raises. The plan, in words of eight bytes:

    context   open   returned   table   states   release   steps   sizes      the header
    slot  element-type  rank  shape  bytes                    per open argument
    slot  element-type  rank  shape  bytes  source            per returned result
    begin  end                                                per state that the program changes in place
    pointer                                                   per argument and result: the initial table
    operation  to  first  second                              per step (see `sizes`)
    number                                                    per size

`shape` is the index of the first of its dimensions in the sizes, `bytes` that of its size in bytes; `source` is the
slot of the argument of which a result is first a copy, or -1. If there are steps, each call computes sizes of its own
on the stack, and their address is the last of its table: the code reads its lengths there. Every offset into Python's
objects comes from `layout`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..llvm.machine import host_target
from ..llvm.text import Argument, Function, Module
from ..llvm.types import Operand, Value, constant, i1, i32, i64, null, ptr
from ..support.signature import Parameter, Signature
from .buffers import DTYPES
from .cache import assembled
from .context import Context, invoke_address
from .layout import Layout, layout
from .library import Library
from .sizes import Sizes, Step

_HEADER, _ARGUMENT, _RESULT, _STATE, _STEP = 8, 5, 6, 2, 4  # words per record
_CONTEXT, _RELEASE = 0, 5  # words of the header
_METH_FASTCALL = 0x80
#: The most arguments and results of a program, and the most sizes: they are on the stack of the thread, which may be small.
_MOST_SLOTS = 4096


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    ]


def builtin(
    signature: Signature,
    context: Context,
    bound: Mapping[int, np.ndarray],
    release_gil: bool,
    fallback: Callable[..., Any],
    behind: Sequence[int] = (),
) -> Callable[..., Any] | None:
    """The fast way to call a program, or None if there is no plan for it.

    `fallback` must keep alive what `context` points to, and `behind`: the addresses that follow those of the buffers in
    the table.
    """
    plan = plan_of(signature, bound, behind)
    if plan is None:
        return None
    return builtin_of(plan, signature.name, context, release_gil, fallback, dict(bound))


def plan_of(
    signature: Signature,
    bound: Mapping[int, np.ndarray],
    behind: Sequence[int] = (),
    sizes: Sizes | None = None,
) -> np.ndarray | None:
    """The plan of calls, complete but for the context and whether they release the interpreter lock; None if the object
    layout of this Python is not known, or there are too many arguments.

    With `sizes`, the signature's shapes follow from lengths, which calls compute by its steps; its words come last.
    """
    if layout() is None or len(signature.arguments) + len(signature.results) > _MOST_SLOTS:
        return None
    if sizes is not None and not (sizes.are_words and len(sizes.words) <= _MOST_SLOTS):
        return None
    return _plan(signature, bound, behind, sizes or Sizes())


def builtin_of(
    plan: np.ndarray,
    name: str,
    context: Context,
    release_gil: bool,
    fallback: Callable[..., Any],
    keeping: object,
) -> Callable[..., Any]:
    """A builtin that calls by a plan, which it completes and keeps; `fallback` or `keeping` must keep alive what the plan
    and the context point to."""
    known = layout()
    assert known is not None
    library = _library(known)
    method = _MethodDef(name.encode(), library["ngmlir_entry"], _METH_FASTCALL, None)
    plan[_CONTEXT], plan[_RELEASE] = ctypes.addressof(context), release_gil
    # The builtin keeps this tuple alive, and with it all that its code reads.
    own = (plan, fallback, method, library, context, keeping)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(method), own, None)


def _plan(
    signature: Signature, bound: Mapping[int, np.ndarray], behind: Sequence[int], sizes: Sizes
) -> np.ndarray:
    """The words that the code below reads."""
    tied = dict(signature.tied)
    arguments = [(i, p) for i, p in enumerate(signature.arguments) if i not in bound]
    results = [(i, p) for i, p in enumerate(signature.results) if tied.get(i) not in bound]
    states = [bound[i] for i in sorted(set(tied.values()) & bound.keys())]
    table = [bound[i].ctypes.data if i in bound else 0 for i in range(len(signature.arguments))]
    table += [
        bound[tied[i]].ctypes.data if tied.get(i) in bound else 0 for i in range(len(signature.results))
    ]
    table += [0] if sizes.steps else behind

    def described(slot: int, parameter: Parameter) -> list[int]:
        shape = sizes.shape(parameter.shape)
        return [slot, id(DTYPES[parameter.dtype]), len(parameter.shape), shape, sizes.number(parameter.bytes)]

    words: list[int] = []
    for slot, parameter in arguments:
        words += described(slot, parameter)
    for index, parameter in results:
        words += [*described(len(signature.arguments) + index, parameter), tied.get(index, -1)]
    for state in states:
        words += [state.ctypes.data, state.ctypes.data + state.nbytes]
    words += table
    for step in sizes.steps:
        words += step
    header = [0, len(arguments), len(results), len(table), len(states), 0]
    return np.array([*header, len(sizes.steps), len(sizes.words), *words, *sizes.words], np.int64)


@cache
def _library(known: Layout) -> Library:
    python = ("PyEval_RestoreThread", "PyEval_SaveThread", "PyObject_Vectorcall", "PyTuple_New")
    imports = {name: _address(name) for name in (*python, "Py_DecRef", "Py_IncRef")}
    imports |= {
        "PyArray_Empty": known.empty,
        "ndarray": id(np.ndarray),
        "ngmlir_invoke": invoke_address(),
    }
    return Library(assembled(entry_text(known), host_target()), ["ngmlir_entry"], imports)


def _address(name: str) -> int:
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


def entry_text(known: Layout) -> str:
    """The LLVM IR of the builtin: `ngmlir_entry(self, arguments, count)`."""
    module = Module()
    arguments = [Argument(ptr, "self"), Argument(ptr, "arguments"), Argument(i64, "count")]
    _Entry(module.function("ngmlir_entry", ptr, arguments), known).write()
    return module.text()


class _Entry:
    """Emits the body, in the order in which it runs."""

    def __init__(self, function: Function, known: Layout):
        self.b = function
        self.known = known
        self.slow = function.label("slow")

    def write(self) -> None:
        b = self.b
        own, values, count = b.arguments
        items = self.part(own, self.known.items)
        plan = self.field(ptr, self.field(ptr, items, 0), self.known.data)
        context = self.word(plan, 0, ptr)
        open_count, returned, slots, states, release, step_count, size_count = (
            self.word(plan, i) for i in range(1, _HEADER)
        )
        arguments = self.at(plan, _HEADER)
        results = self.at(arguments, b.mul(open_count, _ARGUMENT))
        state_ranges = self.at(results, b.mul(returned, _RESULT))
        initial = self.at(state_ranges, b.mul(states, _STATE))
        steps = self.at(initial, slots)
        known_sizes = self.at(steps, b.mul(step_count, _STEP))
        table = b.emit(ptr, f"alloca ptr, {slots}, align 8")
        b.memcpy(table, initial, b.mul(slots, 8))

        self.require(b.icmp("eq", count, open_count), self.slow)
        with b.loop(0, open_count) as loop:
            self.check_array(
                self.word(values, loop.index, ptr), self.record(arguments, loop.index, _ARGUMENT)
            )
        with b.when(b.icmp("ne", step_count, 0), [known_sizes]) as stepping:
            own_sizes = b.emit(ptr, f"alloca i64, {size_count}, align 8")
            b.memcpy(own_sizes, known_sizes, b.mul(size_count, 8))
            b.store(own_sizes, self.at(table, b.sub(slots, 1)), align=8)
            with b.loop(0, step_count, certain=True) as loop:
                self.take(self.record(steps, loop.index, _STEP), own_sizes, values)
            stepping.next(own_sizes)
        (sizes,) = stepping.results
        with b.loop(0, open_count) as loop:
            record = self.record(arguments, loop.index, _ARGUMENT)
            array = self.word(values, loop.index, ptr)
            self.check_shape(array, record, sizes)
            data = self.field(ptr, array, self.known.data)
            self.check_apart(data, self.word(sizes, self.word(record, 4)), state_ranges, states)
            b.store(data, self.at(table, self.word(record, 0)), align=8)

        answer = b.call(ptr, "PyTuple_New", returned)
        failed = b.label("failed")
        given_up = b.label("given_up")
        self.require(b.icmp("ne", answer, null), failed)
        with b.loop(0, returned) as loop:
            record = self.record(results, loop.index, _RESULT)
            data = self.new_array(answer, loop.index, record, sizes, given_up)
            self.copy_source(data, record, sizes, table)
            b.store(data, self.at(table, self.word(record, 0)), align=8)

        status = self.run(context, table, b.icmp("ne", release, 0))
        no_memory = b.label("no_memory")
        self.require(b.icmp("eq", status, 0), no_memory)
        b.ret(answer)

        b.place(no_memory)
        b.call("void", "Py_DecRef", answer)
        b.branch(self.slow)
        b.place(given_up)
        b.call("void", "Py_DecRef", answer)
        b.branch(failed)
        b.place(failed)
        b.ret(null)
        b.place(self.slow)
        fallback = self.word(items, 1, ptr)
        b.ret(b.call(ptr, "PyObject_Vectorcall", fallback, values, count, null))

    # Checks: each branches to the slow path unless the value is as planned

    def check_array(self, array: Value, record: Value) -> None:
        b, known = self.b, self.known
        # An object of another type may be smaller than an array: so its type is checked first.
        kind = self.field(ptr, array, known.type)
        self.require(b.icmp("eq", kind, b.module.external("ndarray")), self.slow)
        rank = b.sext(self.field(i32, array, known.rank), i64)
        flags = b.and_(self.field(i32, array, known.flags), known.wanted_flags)
        # An array from another process has a copy of the dtype.
        wanted, found = self.word(record, 1, ptr), self.field(ptr, array, known.descriptor)
        element = (self.field(i64, descriptor, known.element) for descriptor in (wanted, found))
        same = b.and_(b.icmp("eq", rank, self.word(record, 2)), b.icmp("eq", *element))
        self.require(b.and_(same, b.icmp("eq", flags, known.wanted_flags)), self.slow)

    def check_shape(self, array: Value, record: Value, sizes: Value) -> None:
        b = self.b
        found, wanted = self.field(ptr, array, self.known.shape), self.at(sizes, self.word(record, 3))
        with b.loop(0, self.word(record, 2)) as loop:
            equal = b.icmp("eq", self.word(found, loop.index), self.word(wanted, loop.index))
            self.require(equal, self.slow)

    def take(self, step: Value, sizes: Value, values: Value) -> None:
        """Executes one step. The arguments are arrays of the planned ranks."""
        b = self.b
        operation, *operands = (self.word(step, i) for i in range(_STEP))
        to, first, second = operands
        after, wrong = b.label("after"), b.label("wrong")
        labels = {each: b.label(each.name.lower()) for each in Step}
        b.switch(operation, wrong, [(each.value, label) for each, label in labels.items()])
        b.place(wrong)
        b.branch(self.slow)

        def write(value: Value) -> None:
            b.store(value, self.at(sizes, to), align=8)
            b.branch(after)

        b.place(labels[Step.DIMENSION])
        array = self.word(values, first, ptr)
        write(self.word(self.field(ptr, array, self.known.shape), second))
        for each, compute in ((Step.ADD, b.add), (Step.MULTIPLY, b.mul), (Step.FLOOR, self.floor)):
            b.place(labels[each])
            write(compute(self.word(sizes, first), self.word(sizes, second)))
        for each, relation in (
            (Step.EQUAL, "eq"),
            (Step.NOT_EQUAL, "ne"),
            (Step.NOT_LESS, "sge"),
            (Step.LESS, "slt"),
        ):
            b.place(labels[each])
            holds = b.icmp(relation, self.word(sizes, first), self.word(sizes, second))
            b.branch_if(holds, after, self.slow)
        b.place(after)

    def floor(self, x: Value, y: Value) -> Value:
        b = self.b
        quotient = b.sdiv(x, y)
        return b.add(quotient, b.ashr(b.sub(x, b.mul(quotient, y)), 63))

    def check_apart(self, data: Value, size: Value, ranges: Value, count: Value) -> None:
        """The argument must not overlap a state that the program changes."""
        b = self.b
        begin = b.cast("ptrtoint", data, i64)
        end = b.add(begin, size)
        with b.loop(0, count) as loop:
            state = self.at(ranges, b.mul(loop.index, _STATE))
            before = b.icmp("ule", end, self.word(state, 0))
            after = b.icmp("uge", begin, self.word(state, 1))
            self.require(b.or_(before, after), self.slow)

    # Results and the call

    def new_array(self, answer: Value, index: Value, record: Value, sizes: Value, given_up: str) -> Value:
        """Allocates an array in its slot of the tuple; returns its data pointer."""
        b = self.b
        descriptor = self.word(record, 1, ptr)
        b.call("void", "Py_IncRef", descriptor)  # PyArray_Empty steals a reference
        rank, shape = b.trunc(self.word(record, 2), i32), self.at(sizes, self.word(record, 3))
        array = b.call(ptr, "PyArray_Empty", rank, shape, descriptor, constant(i32, 0))
        self.require(b.icmp("ne", array, null), given_up)
        b.store(array, self.at(self.part(answer, self.known.items), index), align=8)
        return self.field(ptr, array, self.known.data)

    def copy_source(self, data: Value, record: Value, sizes: Value, table: Value) -> None:
        """A result that overwrites an argument overwrites a copy: the caller's array is not changed."""
        b = self.b
        source = self.word(record, 5)
        with b.when(b.icmp("sge", source, 0)):
            slot = self.at(table, source)
            b.memcpy(data, b.load(ptr, slot, align=8), self.word(sizes, self.word(record, 4)))
            b.store(data, slot, align=8)

    def run(self, context: Value, table: Value, release: Value) -> Value:
        b = self.b
        thread = null
        with b.when(release, [thread]) as letting_go:
            letting_go.next(b.call(ptr, "PyEval_SaveThread"))
        status = b.call(i32, "ngmlir_invoke", context, table)
        with b.when(release):
            b.call("void", "PyEval_RestoreThread", *letting_go.results)
        return status

    # Words and fields

    def require(self, condition: Value, otherwise: str) -> None:
        assert condition.type == i1
        following = self.b.label("next")
        self.b.branch_if(condition, following, otherwise)
        self.b.place(following)

    def record(self, base: Value, index: Value, words: int) -> Value:
        return self.at(base, self.b.mul(index, words))

    def at(self, base: Value, index: Operand) -> Value:
        return self.b.getelementptr(i64, base, index)

    def word(self, base: Value, index: Operand, type: str = i64) -> Value:
        return self.b.load(type, self.at(base, index), align=8)

    def part(self, base: Value, offset: int) -> Value:
        return self.b.getelementptr("i8", base, offset)

    def field(self, type: str, base: Value, offset: int) -> Value:
        return self.b.load(type, self.part(base, offset), align=4 if type == i32 else 8)
