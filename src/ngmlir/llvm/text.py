# SPDX-License-Identifier: Apache-2.0
"""A builder of LLVM IR text: about half a microsecond per instruction; LLVM itself verifies the text.

```python
module = Module()
b = module.function("scale", "void", [Argument(ptr, "x"), Argument(f32, "by"), Argument(i64, "n")])
x, by, n = b.arguments
with b.loop(0, n) as loop:
    address = b.getelementptr(f32, x, loop.index)
    b.store(b.fmul(b.load(f32, address, align=4), by), address, align=4)
b.ret()
text = module.text()
```
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, TypeAlias

from ..support.diagnostics import Bug, Location
from ..support.lengths import below
from .debug import DebugInfo, Trace
from .instructions import Instructions
from .lengths import resolved
from .types import Operand, Type, Value, constant, global_name, i64, ptr

#: Attributes of every function. LLVM prefers 256 bit vectors on many CPUs that have 512; matrix kernels need the wide
#: ones, and the attribute is a no-op for CPUs without them.
FUNCTION_ATTRIBUTES = 'nounwind "prefer-vector-width"="512"'

Fused: TypeAlias = "Callable[[Function, Value, Value, Value], Value]"


class Argument(NamedTuple):
    """A parameter of a function; `attributes` such as `noalias readonly align 64`."""

    type: Type
    name: str
    attributes: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.type, self.attributes, f"%{self.name}")))


class Module:
    """Functions, globals and metadata; declarations are collected from the calls.

    `fma` emits `x * y + z` rounded once, for machines without an fma instruction. With `debug`, traced functions have
    debug info; `only_lines`: in the form that PTX takes.
    """

    def __init__(self, fma: Fused | None = None, *, debug: bool = False, only_lines: bool = False) -> None:
        self.fma = fma
        self._named_metadata: dict[str, list[str]] = {}
        self.debug = DebugInfo(self.metadata, self._named_metadata, only_lines=only_lines) if debug else None
        self.functions: dict[str, Function] = {}
        self._globals: dict[str, str] = {}
        self._declarations: dict[str, tuple[Type, str]] = {}
        self._groups: dict[str, int] = {}
        self._metadata: list[str] = []
        self._interned: dict[str, str] = {}

    def function(
        self,
        name: str,
        result: Type,
        arguments: Sequence[Argument] = (),
        *,
        linkage: str = "",
        attributes: str = FUNCTION_ATTRIBUTES,
    ) -> Function:
        """Begins a function; `linkage` goes between `define` and the type (`internal`, `ptx_kernel`)."""
        if name in self.functions:
            raise Bug(f"LLVM function @{name} is defined twice in one module")
        group = self._groups.setdefault(attributes, len(self._groups))
        function = Function(self, name, result, arguments, linkage, group)
        self.functions[name] = function
        return function

    def declare(
        self, name: str, result: Type, arguments: Sequence[Type], attributes: str = "nounwind"
    ) -> None:
        """Declares a function of another object; only variadic functions (`...`) need this."""
        kinds = ", ".join(arguments)
        kind = f"{result} ({kinds})" if "..." in arguments else result
        self._declarations[name] = (kind, f"declare {result} {global_name(name)}({kinds}) {attributes}")

    def declared(self, name: str, result: Type, arguments: Sequence[Type]) -> Type:
        """The type to call `name` with; declares it with these argument types if it is new."""
        if name not in self._declarations:
            # Only the type matters in a declaration; attributes of the call follow it, as in "ptr align 4".
            kinds = [_bare(argument) for argument in arguments]
            self.declare(name, result, kinds, "" if name.startswith("llvm.") else "nounwind")
        return self._declarations[name][0]

    # Globals

    def variable(
        self,
        name: str,
        type: Type,
        initial: str,
        *,
        align: int,
        linkage: str = "internal",
        constant: bool = False,
        space: int = 0,
    ) -> Value:
        """A global in address space `space`; the value is its address."""
        where = f"addrspace({space})" if space else ""
        words = [linkage, where, "constant" if constant else "global", type, initial]
        self._globals[name] = f"@{name} = {' '.join(filter(None, words))}, align {align}"
        return Value(f"ptr {where}".rstrip(), f"@{name}")

    def external(self, name: str) -> Value:
        """The address of a symbol that another object, or the loader, defines."""
        self._globals[name] = f"@{name} = external global i8"
        return Value(ptr, f"@{name}")

    def constant_bytes(self, name: str, data: bytes, *, align: int = 64) -> Value:
        """Read-only bytes."""
        text = 'c"' + "".join(f"\\{byte:02X}" for byte in data) + '"'
        type = f"[{len(data)} x i8]"
        return self.variable(name, type, text, align=align, linkage="private unnamed_addr", constant=True)

    # Metadata

    def metadata(self, node: str) -> str:
        """The number of a node such as `!{i32 1}`; equal nodes get the same number."""
        if node not in self._interned:
            self._interned[node] = f"!{len(self._metadata)}"
            self._metadata.append(node)
        return self._interned[node]

    def distinct_metadata(self, *operands: str) -> str:
        """A distinct node: its first operand is itself."""
        number = f"!{len(self._metadata)}"
        self._metadata.append(f"distinct !{{{', '.join((number, *operands))}}}")
        return number

    @property
    def nontemporal(self) -> str:
        """For stores to memory that is not read soon: `b.store(..., attach=module.nontemporal)`."""
        return f"!nontemporal {self.metadata('!{i32 1}')}"

    @property
    def invariant(self) -> str:
        """For loads from memory that does not change while the function runs."""
        return f"!invariant.load {self.metadata('!{}')}"

    def alias_scopes(self, count: int) -> list[str]:
        """One attachment per buffer: accesses with different attachments never touch the same bytes."""
        domain = self.distinct_metadata()
        scopes = [self.distinct_metadata(domain) for _ in range(count)]
        result: list[str] = []
        for scope in scopes:
            others = ", ".join(other for other in scopes if other != scope)
            result.append(
                f"!alias.scope {self.metadata(f'!{{{scope}}}')}, !noalias {self.metadata(f'!{{{others}}}')}"
            )
        return result

    def text(self) -> str:
        """The whole module as LLVM IR text."""
        declarations = [d for name, (_, d) in self._declarations.items() if name not in self.functions]
        parts = [*self._globals.values(), *(f.text() for f in self.functions.values()), *declarations]
        parts += [f"attributes #{number} = {{ {text} }}" for text, number in self._groups.items()]
        parts += [f"!{name} = !{{{', '.join(nodes)}}}" for name, nodes in self._named_metadata.items()]
        parts += [f"!{number} = {node}" for number, node in enumerate(self._metadata)]
        return "\n".join(parts) + "\n"


def _bare(type: Type) -> Type:
    head, _, tail = type.partition(" align ")
    return head if tail else type


class Function(Instructions):
    """One function under construction: instructions are appended to the current block."""

    def __init__(
        self, module: Module, name: str, result: Type, arguments: Sequence[Argument], linkage: str, group: int
    ):
        super().__init__(module.declared)
        self.module = module
        self.name = name
        self.result = result
        self.parameters = tuple(arguments)
        self.arguments = tuple(Value(argument.type, f"%{argument.name}") for argument in arguments)
        self.block = "entry"
        self._linkage = linkage
        self._group = group
        self._phis: dict[str, int] = {}  # phi -> its line, for `add_incoming`
        #: For each open loop, instructions that are put before it.
        self.preheaders: list[list[str]] = []
        self.trace: Trace | None = None
        self._head: list[str] = []
        self._lengths: dict[str, Value] = {}

    @property
    def address(self) -> Value:
        """The address of the function, as a value."""
        return Value(ptr, global_name(self.name))

    def text(self) -> str:
        """The finished definition."""
        end = f"#{self._group}"
        if self.trace is not None:
            self.trace.finish()
            end += f" !dbg {self.trace.routine}"
        head = f"define {self._linkage} {self.result}" if self._linkage else f"define {self.result}"
        parameters = ", ".join(map(str, self.parameters))
        body = "\n".join([*self._head, resolved("\n".join(self.lines), self._lengths)])
        return f"{head} {global_name(self.name)}({parameters}) {end} {{\nentry:\n{body}\n}}\n"

    @property
    def lengths(self) -> Mapping[str, Value]:
        """The registers that hold named lengths."""
        return self._lengths

    def has_lengths(self, lengths: Mapping[str, Value]) -> None:
        """Sets the registers that hold the named lengths. They must be defined by now, and nothing may be computed from
        lengths before."""
        self._lengths = dict(lengths)
        self._head, self.lines = [*self._head, *self.lines], []

    def trace_as(self, name: str, location: Location) -> None:
        """Adds debug info for the function if the module has debug info; tools show it as `name`."""
        if self.module.debug is not None:
            self.trace = Trace(self.module.debug, self, name, self.name, location)

    def fma(self, x: Value, y: Operand, z: Operand, flags: str = "") -> Value:
        """`x * y + z` rounded once; by the module's `fma` if it has one."""
        fused = self.module.fma
        if fused is None:
            return super().fma(x, y, z, flags)
        return fused(self, x, *(v if isinstance(v, Value) else constant(x.type, v) for v in (y, z)))

    # Blocks

    def label(self, name: str) -> str:
        """A fresh label; `place` begins its block."""
        # Labels and values share one name space, so they are counted together.
        self._count += 1
        return f"{name}.{self._count}"

    def place(self, label: str) -> None:
        """Begins the block: the block before must have ended in a branch or a return."""
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, label: str, attach: str = "") -> None:
        self.effect(f"br label %{label}, {attach}" if attach else f"br label %{label}")

    def branch_if(self, condition: Value, yes: str, no: str, attach: str = "") -> None:
        end = f", {attach}" if attach else ""
        self.effect(f"br {condition}, label %{yes}, label %{no}{end}")

    def switch(self, value: Value, default: str, cases: Sequence[tuple[int, str]]) -> None:
        arms = " ".join(f"{value.type} {number}, label %{label}" for number, label in cases)
        self.effect(f"switch {value}, label %{default} [ {arms} ]")

    def ret(self, value: Value | None = None) -> None:
        self.effect(f"ret {value}" if value is not None else "ret void")

    def phi(self, type: Type, *incoming: tuple[Value, str], stem: str = "") -> Value:
        """A phi; more incoming values may be added by `add_incoming`. Its name begins with `stem`."""
        outer, self.stem = self.stem, stem or self.stem
        result = self.emit(type, f"phi {type} " + ", ".join(f"[ {v.name}, %{b} ]" for v, b in incoming))
        self.stem = outer
        self._phis[result.name] = len(self.lines) - 1
        return result

    def add_incoming(self, phi: Value, value: Value, label: str) -> None:
        """Adds to a phi the value of a block that is emitted later, as loops need."""
        line = self._phis[phi.name]
        self.lines[line] += f", [ {value.name}, %{label} ]"

    # Structured control flow

    def loop(
        self,
        start: Operand,
        stop: Operand,
        step: Operand = 1,
        carried: Sequence[Value] = (),
        *,
        certain: bool = False,
        attach: str = "",
        name: str = "",
    ) -> Loop:
        """`for index in range(start, stop, step)`, signed; `stop + step` must not overflow.

        `carried` are the initial values of the loop's variables: read them inside as `loop.carried`, set their next
        values by `loop.next(...)`, and read the last ones after the loop as `loop.results`. `certain` promises at least
        one iteration (for constants that is detected). `name` is the name of the index.
        """
        return Loop(self, start, stop, step, carried, certain, attach, name)

    @contextmanager
    def hoisting(self, depth: int) -> Generator[None]:
        """Instructions without effects that are emitted inside are put before all open loops but the outermost `depth`."""
        outer = self.lines
        if depth < len(self.preheaders):
            self.lines = self.preheaders[depth]
        yield
        self.lines = outer

    def when(self, condition: Value, carried: Sequence[Value] = ()) -> When:
        """Runs the body only if `condition` (one `i1`) holds; else `results` are the `carried` values."""
        return When(self, condition, carried)

    def choose(
        self, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """Emits an if/else whose bodies give the same number of values, of the same types; returns the values of the
        one that ran."""
        yes, no, after = self.label("then"), self.label("else"), self.label("endif")
        self.branch_if(condition, yes, no)
        ends: list[tuple[Sequence[Value], str]] = []
        for label, body in ((yes, then), (no, otherwise)):
            self.place(label)
            ends.append((body(), self.block))
            self.branch(after)
        self.place(after)
        (first, one), (second, other) = ends
        return [self.phi(x.type, (x, one), (y, other)) for x, y in zip(first, second, strict=True)]


class _Region:
    """The carried values that loops and conditions have in common."""

    def __init__(self, function: Function, carried: Sequence[Value]):
        self.function = function
        self.initial = tuple(carried)
        self.carried = self.initial
        self.results: tuple[Value, ...] = ()
        self._next: tuple[Value, ...] | None = None if carried else ()

    def next(self, *values: Value) -> None:
        """Sets, once, the next values of the carried values."""
        if len(values) != len(self.initial):
            raise Bug(f"{len(self.initial)} carried values, but next values for {len(values)}")
        self._next = values

    def _taken(self) -> tuple[Value, ...]:
        if self._next is None:
            raise Bug("a body with carried values must call next() to say what they become")
        return self._next


class Loop(_Region):
    """A counted loop with its test at the end; `index` is its index, `carried` are its variables."""

    def __init__(
        self,
        function: Function,
        start: Operand,
        stop: Operand,
        step: Operand,
        carried: Sequence[Value],
        certain: bool,
        attach: str,
        name: str,
    ):
        super().__init__(function, carried)
        type = next((bound.type for bound in (start, stop) if isinstance(bound, Value)), i64)
        self.start = start if isinstance(start, Value) else constant(type, start)
        self.stop = stop if isinstance(stop, Value) else constant(type, stop)
        self.step = step
        self.index = self.start
        self._attach = attach
        self._name = name
        nonempty = isinstance(start, int) and isinstance(stop, int) and bool(below(start, stop))
        self._guarded = not (certain or nonempty)

    def __enter__(self) -> Loop:
        function = self.function
        self._before = before = function.block
        self._line = len(function.lines)
        function.preheaders.append([])
        stem = f"{self._name}_" if self._name else ""
        self._body, self._after = function.label(f"{stem}loop"), function.label(f"{stem}end")
        if self._guarded:
            function.branch_if(function.icmp("slt", self.start, self.stop), self._body, self._after)
        else:
            function.branch(self._body)
        function.place(self._body)
        index = f"{self._name}." if self._name else ""
        self.index = function.phi(self.start.type, (self.start, before), stem=index)
        self.carried = tuple(function.phi(value.type, (value, before)) for value in self.initial)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        function = self.function
        following = function.add(self.index, self.step, "nsw")
        again = function.icmp("slt", following, self.stop)
        latch = function.block
        function.branch_if(again, self._body, self._after, self._attach)
        values = self._taken()
        function.add_incoming(self.index, following, latch)
        for phi, value in zip(self.carried, values, strict=True):
            function.add_incoming(phi, value, latch)
        function.place(self._after)
        before = function.preheaders.pop()
        function.lines[self._line] = "\n".join([*before, function.lines[self._line]])
        if self._guarded:
            pairs = zip(self.initial, values, strict=True)
            values = tuple(
                function.phi(first.type, (first, self._before), (last, latch)) for first, last in pairs
            )
        self.results = values


class When(_Region):
    """A body that runs only if a condition holds."""

    def __init__(self, function: Function, condition: Value, carried: Sequence[Value]):
        super().__init__(function, carried)
        self.condition = condition

    def __enter__(self) -> When:
        function = self.function
        self._before = function.block
        body, self._after = function.label("when"), function.label("after")
        function.branch_if(self.condition, body, self._after)
        function.place(body)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        function = self.function
        last = function.block
        function.branch(self._after)
        function.place(self._after)
        self.results = tuple(
            function.phi(first.type, (first, self._before), (value, last))
            for first, value in zip(self.initial, self._taken(), strict=True)
        )
