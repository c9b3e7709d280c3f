# SPDX-License-Identifier: Apache-2.0
"""One method per straight-line instruction or intrinsic: each appends a line and returns the value.

Operands are `Value`s; if one operand is a `Value`, another may be a Python number, which means the constant of its
type. Fast-math and wrap flags are never implied: pass `flags="contract"` where the semantics allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .types import (
    Operand,
    Type,
    Value,
    constant,
    element_of,
    global_name,
    i1,
    i8,
    i32,
    i64,
    mangled,
    named,
    poison,
    vector,
    with_element,
)

#: (name, result, argument types) -> the type for a call of that function; declares the function if it is new.
Declaring: TypeAlias = Callable[[str, Type, Sequence[Type]], Type]


class Instructions:
    """The straight-line part of a function builder."""

    def __init__(self, declared: Declaring):
        self._declared = declared
        self.lines: list[str] = []
        self.stem = "v"  # prefix of the names of values
        self._count = 0
        self._intrinsics: dict[tuple[str, tuple[Type, ...]], str] = {}

    # Appending lines

    def emit(self, type: Type, instruction: str) -> Value:
        """Appends an instruction with a result, and names the result."""
        self._count = count = self._count + 1
        name = f"%{self.stem}{count}"
        self.lines.append(f"  {name} = {instruction}")
        return named((type, name))

    def effect(self, instruction: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append("  " + instruction)

    def comment(self, text: str) -> None:
        """Appends a comment to the IR."""
        self.lines.extend(f"  ; {line}" for line in text.splitlines())

    def _binary(self, opcode: str, x: Operand, y: Operand, flags: str) -> Value:
        if isinstance(x, Value):
            kind, first = x
            second = y[1] if isinstance(y, Value) else constant(kind, y)[1]
        else:
            assert isinstance(y, Value), "one of two operands must be a value"
            kind, second = y
            first = constant(kind, x)[1]
        if flags:
            opcode = f"{opcode} {flags}"
        self._count = count = self._count + 1
        name = f"%{self.stem}{count}"
        self.lines.append(f"  {name} = {opcode} {kind} {first}, {second}")
        return named((kind, name))

    # Integers

    def add(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("add", x, y, flags)

    def sub(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("sub", x, y, flags)

    def mul(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("mul", x, y, flags)

    def sdiv(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("sdiv", x, y, flags)

    def udiv(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("udiv", x, y, flags)

    def srem(self, x: Operand, y: Operand) -> Value:
        return self._binary("srem", x, y, "")

    def urem(self, x: Operand, y: Operand) -> Value:
        return self._binary("urem", x, y, "")

    def and_(self, x: Operand, y: Operand) -> Value:
        return self._binary("and", x, y, "")

    def or_(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("or", x, y, flags)

    def xor(self, x: Operand, y: Operand) -> Value:
        return self._binary("xor", x, y, "")

    def not_(self, x: Value) -> Value:
        return self._binary("xor", x, -1, "")

    def shl(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("shl", x, y, flags)

    def lshr(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("lshr", x, y, flags)

    def ashr(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("ashr", x, y, flags)

    def smin(self, x: Value, y: Operand) -> Value:
        return self._like_first("llvm.smin", x, y)

    def smax(self, x: Value, y: Operand) -> Value:
        return self._like_first("llvm.smax", x, y)

    def umin(self, x: Value, y: Operand) -> Value:
        return self._like_first("llvm.umin", x, y)

    def umax(self, x: Value, y: Operand) -> Value:
        return self._like_first("llvm.umax", x, y)

    def abs(self, x: Value) -> Value:
        """Integer absolute value; the smallest integer gives itself."""
        return self.intrinsic("llvm.abs", x.type, x, constant(i1, 0))

    # Floating point

    def fadd(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("fadd", x, y, flags)

    def fsub(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("fsub", x, y, flags)

    def fmul(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("fmul", x, y, flags)

    def fdiv(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("fdiv", x, y, flags)

    def frem(self, x: Operand, y: Operand, flags: str = "") -> Value:
        return self._binary("frem", x, y, flags)

    def fneg(self, x: Value) -> Value:
        return self.emit(x.type, f"fneg {x.type} {x.name}")

    def fma(self, x: Value, y: Operand, z: Operand, flags: str = "") -> Value:
        """`x * y + z` rounded once."""
        return self._like_first("llvm.fma", x, y, z, flags=flags)

    def fabs(self, x: Value) -> Value:
        return self._like_first("llvm.fabs", x)

    def sqrt(self, x: Value) -> Value:
        return self._like_first("llvm.sqrt", x)

    def floor(self, x: Value) -> Value:
        return self._like_first("llvm.floor", x)

    def ceil(self, x: Value) -> Value:
        return self._like_first("llvm.ceil", x)

    def ftrunc(self, x: Value) -> Value:
        """Rounds to an integral value towards zero."""
        return self._like_first("llvm.trunc", x)

    def roundeven(self, x: Value) -> Value:
        return self._like_first("llvm.roundeven", x)

    def copysign(self, magnitude: Value, sign: Operand) -> Value:
        return self._like_first("llvm.copysign", magnitude, sign)

    def minimum(self, x: Value, y: Operand) -> Value:
        """The smaller number; NaN if either is NaN; -0.0 below +0.0."""
        return self._like_first("llvm.minimum", x, y)

    def maximum(self, x: Value, y: Operand) -> Value:
        """The larger number; NaN if either is NaN; -0.0 below +0.0."""
        return self._like_first("llvm.maximum", x, y)

    def minnum(self, x: Value, y: Operand) -> Value:
        """The smaller number; NaN only if both are NaN."""
        return self._like_first("llvm.minnum", x, y)

    def maxnum(self, x: Value, y: Operand) -> Value:
        """The larger number; NaN only if both are NaN."""
        return self._like_first("llvm.maxnum", x, y)

    # Comparison, choice, conversion

    def icmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        return self._compare("icmp", predicate, x, y)

    def fcmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        return self._compare("fcmp", predicate, x, y)

    def _compare(self, opcode: str, predicate: str, x: Operand, y: Operand) -> Value:
        kind, name = self._binary(opcode, x, y, predicate)
        return named((with_element(kind, i1), name))

    def select(self, condition: Value, x: Value, y: Operand) -> Value:
        """`x` where the condition holds, else `y`; the condition may be one `i1` for all lanes."""
        kind, name = x
        other = y[1] if isinstance(y, Value) else constant(kind, y)[1]
        return self.emit(kind, f"select {condition[0]} {condition[1]}, {kind} {name}, {kind} {other}")

    def cast(self, opcode: str, x: Value, to: Type) -> Value:
        """Any of LLVM's conversions: `sext`, `zext`, `trunc`, `fpext`, `sitofp`, `bitcast`, `ptrtoint` ..."""
        return self.emit(to, f"{opcode} {x.type} {x.name} to {to}")

    def sext(self, x: Value, to: Type) -> Value:
        return self.cast("sext", x, to)

    def zext(self, x: Value, to: Type) -> Value:
        return self.cast("zext", x, to)

    def trunc(self, x: Value, to: Type) -> Value:
        return self.cast("trunc", x, to)

    def fpext(self, x: Value, to: Type) -> Value:
        return self.cast("fpext", x, to)

    def fptrunc(self, x: Value, to: Type) -> Value:
        return self.cast("fptrunc", x, to)

    def sitofp(self, x: Value, to: Type) -> Value:
        return self.cast("sitofp", x, to)

    def uitofp(self, x: Value, to: Type) -> Value:
        return self.cast("uitofp", x, to)

    def fptosi(self, x: Value, to: Type) -> Value:
        """Towards zero; poison when out of range (see `fptosi_sat`)."""
        return self.cast("fptosi", x, to)

    def fptoui(self, x: Value, to: Type) -> Value:
        return self.cast("fptoui", x, to)

    def fptosi_sat(self, x: Value, to: Type) -> Value:
        """Towards zero; the nearest number when out of range, 0 for NaN."""
        return self.intrinsic("llvm.fptosi.sat", to, x, overload=(to, x.type))

    def bitcast(self, x: Value, to: Type) -> Value:
        return x if x.type == to else self.cast("bitcast", x, to)

    def freeze(self, x: Value) -> Value:
        return self.emit(x.type, f"freeze {x}")

    # Memory

    def getelementptr(self, element: Type, base: Value, *indices: Operand, flags: str = "") -> Value:
        """The address `indices` elements from `base`; a vector of indices gives a vector of addresses."""
        shape = base.type
        text = f"getelementptr {flags + ' ' if flags else ''}{element}, {base.type} {base.name}"
        for index in indices:
            if isinstance(index, Value):
                text += f", {index.type} {index.name}"
                if index.type[0] == "<":
                    shape = with_element(index.type, element_of(base.type))
            else:
                text += f", {constant(i64, index)}"
        return self.emit(shape, text)

    def load(self, type: Type, pointer: Value, *, align: int, attach: str = "") -> Value:
        """`attach` is metadata, such as `module.invariant` or one of `module.alias_scopes(n)`."""
        end = f", {attach}" if attach else ""
        return self.emit(type, f"load {type}, {pointer.type} {pointer.name}, align {align}{end}")

    def store(self, value: Value, pointer: Value, *, align: int, attach: str = "") -> None:
        end = f", {attach}" if attach else ""
        line = f"  store {value.type} {value.name}, {pointer.type} {pointer.name}, align {align}{end}"
        self.lines.append(line)

    def masked_load(
        self, type: Type, pointer: Value, mask: Value, otherwise: Value | None = None, *, align: int
    ) -> Value:
        """Lanes with a false mask are not touched in memory and read as `otherwise`."""
        address = Value(f"{pointer.type} align {align}", pointer.name)
        fill = otherwise or poison(type)
        overload = (type, pointer.type)
        return self.intrinsic("llvm.masked.load", type, address, mask, fill, overload=overload)

    def masked_store(self, value: Value, pointer: Value, mask: Value, *, align: int) -> None:
        address = Value(f"{pointer.type} align {align}", pointer.name)
        overload = (value.type, pointer.type)
        self.intrinsic("llvm.masked.store", "void", value, address, mask, overload=overload)

    def gather(
        self, type: Type, pointers: Value, mask: Value, otherwise: Value | None = None, *, align: int
    ) -> Value:
        addresses = Value(f"{pointers.type} align {align}", pointers.name)
        fill = otherwise or poison(type)
        overload = (type, pointers.type)
        return self.intrinsic("llvm.masked.gather", type, addresses, mask, fill, overload=overload)

    def scatter(self, value: Value, pointers: Value, mask: Value, *, align: int) -> None:
        addresses = Value(f"{pointers.type} align {align}", pointers.name)
        overload = (value.type, pointers.type)
        self.intrinsic("llvm.masked.scatter", "void", value, addresses, mask, overload=overload)

    def memcpy(self, to: Value, source: Value, count: Operand) -> None:
        arguments = (to, source, _value(i64, count), constant(i1, 0))
        self.intrinsic("llvm.memcpy", "void", *arguments, overload=(to.type, source.type, i64))

    def memset(self, to: Value, byte: Operand, count: Operand) -> None:
        arguments = (to, _value(i8, byte), _value(i64, count), constant(i1, 0))
        self.intrinsic("llvm.memset", "void", *arguments, overload=(to.type, i64))

    def prefetch(self, pointer: Value, *, write: bool = False, locality: int = 3) -> None:
        hints = (constant(i32, write), constant(i32, locality), constant(i32, 1))
        self.intrinsic("llvm.prefetch", "void", pointer, *hints, overload=(pointer.type,))

    # Vectors

    def splat(self, scalar: Value, lanes: int) -> Value:
        """`scalar` in every lane; constants stay constants."""
        wide = vector(lanes, scalar.type)
        if wide == scalar.type:
            return scalar
        if scalar.name[0] != "%":
            return Value(wide, f"splat ({scalar})")
        first = self.emit(wide, f"insertelement {wide} poison, {scalar.type} {scalar.name}, i64 0")
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.emit(wide, f"shufflevector {wide} {first.name}, {wide} poison, {mask}")

    def shuffle(self, x: Value, y: Value | None, indices: Sequence[int]) -> Value:
        """Lanes selected from the concatenation of `x` and `y`; an index of -1 gives an undefined lane."""
        picked = ", ".join(f"i32 {index}" if index >= 0 else "i32 poison" for index in indices)
        mask = f"<{len(indices)} x i32> <{picked}>"
        other = y or poison(x.type)
        return self.emit(f"<{len(indices)} x {element_of(x.type)}>", f"shufflevector {x}, {other}, {mask}")

    def extract(self, x: Value, lane: Operand) -> Value:
        """One lane; the only lane of a scalar is the scalar."""
        if x.type[0] != "<":
            return x
        return self.emit(element_of(x.type), f"extractelement {x}, {_value(i64, lane)}")

    def insert(self, x: Value, scalar: Operand, lane: Operand) -> Value:
        item = _value(element_of(x.type), scalar)
        return self.emit(x.type, f"insertelement {x}, {item}, {_value(i64, lane)}")

    def reduce(self, operation: str, x: Value, start: Value | None = None, flags: str = "") -> Value:
        """Reduces all lanes to one: `add`, `smax`, `fmaximum` ...; `fadd` and `fmul` need a `start`.

        Those two go in lane order unless the flag `reassoc` permits a tree.
        """
        element = element_of(x.type)
        arguments = (x,) if start is None else (start, x)
        name = f"llvm.vector.reduce.{operation}"
        return self.intrinsic(name, element, *arguments, overload=(x.type,), flags=flags)

    def extract_value(self, aggregate: Value, index: int, type: Type) -> Value:
        return self.emit(type, f"extractvalue {aggregate}, {index}")

    def insert_value(self, aggregate: Value, item: Value, index: int) -> Value:
        return self.emit(aggregate.type, f"insertvalue {aggregate}, {item}, {index}")

    # Atomics

    def atomic(self, operation: str, pointer: Value, value: Value, ordering: str = "monotonic") -> Value:
        """`atomicrmw`; returns the old value."""
        return self.emit(value.type, f"atomicrmw {operation} {pointer}, {value} {ordering}")

    def compare_exchange(self, pointer: Value, expected: Value, desired: Value, ordering: str) -> Value:
        """The old value and whether it was `expected`, as `{ T, i1 }`; `ordering` has two words: for success and for
        failure."""
        result = f"{{ {desired.type}, i1 }}"
        return self.emit(result, f"cmpxchg {pointer}, {expected}, {desired} {ordering}")

    # Calls

    def call(
        self, result: Type, callee: str | Value, *arguments: Value, flags: str = "", attributes: str = ""
    ) -> Value:
        """Calls a function by name (declared by this call if the module does not define it) or by pointer."""
        if isinstance(callee, str):
            kind = self._declared(callee, result, [a.type for a in arguments])
            target = global_name(callee)
        else:
            kind, target = result, callee.name
        passed = ", ".join([f"{a.type} {a.name}" for a in arguments])
        head = f"call {flags} {kind}" if flags else f"call {kind}"
        tail = f" {attributes}" if attributes else ""
        return self._called(result, f"{head} {target}({passed}){tail}")

    def intrinsic(
        self,
        name: str,
        result: Type,
        *arguments: Value,
        overload: tuple[Type, ...] | None = None,
        flags: str = "",
    ) -> Value:
        """Calls an intrinsic; `overload` lists the types in its mangled name (the result's by default)."""
        over = (result,) if overload is None else overload
        full = self._intrinsics.get((name, over)) or self._declare(name, result, [*arguments], over)
        passed = ", ".join([f"{a.type} {a.name}" for a in arguments])
        head = f"call {flags} {result}" if flags else f"call {result}"
        return self._called(result, f"{head} @{full}({passed})")

    def _declare(
        self, name: str, result: Type, arguments: Sequence[Value], overload: tuple[Type, ...]
    ) -> str:
        """Declares an intrinsic and returns its mangled name."""
        full = ".".join((name, *map(mangled, overload)))
        self._declared(full, result, [a.type for a in arguments])
        self._intrinsics[(name, overload)] = full
        return full

    def _like_first(self, name: str, x: Value, *rest: Operand, flags: str = "") -> Value:
        """An intrinsic whose operands and result all have one type."""
        kind = x[0]
        operands = f"{kind} {x[1]}"
        for y in rest:
            operands += f", {kind} {(y if isinstance(y, Value) else constant(kind, y))[1]}"
        full = self._intrinsics.get((name, (kind,))) or self._declare(
            name, kind, [x] * (1 + len(rest)), (kind,)
        )
        head = f"call {flags} {kind}" if flags else f"call {kind}"
        return self.emit(kind, f"{head} @{full}({operands})")

    def assembly(
        self, result: Type, text: str, constraints: str, *arguments: Value, side_effects: bool = False
    ) -> Value:
        """Inline assembly of the target."""
        quoted = text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
        kind = "asm sideeffect" if side_effects else "asm"
        passed = ", ".join(map(str, arguments))
        return self._called(result, f'call {result} {kind} "{quoted}", "{constraints}"({passed})')

    def _called(self, result: Type, call: str) -> Value:
        if result != "void":
            return self.emit(result, call)
        self.lines.append("  " + call)
        return poison(result)


def _value(type: Type, operand: Operand) -> Value:
    return operand if isinstance(operand, Value) else constant(type, operand)
