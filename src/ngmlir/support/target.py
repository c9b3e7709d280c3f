# SPDX-License-Identifier: Apache-2.0
"""What a device can do. Passes get this and the module, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .diagnostics import UserError
from .machines import Architecture, Code, DotAtom, Gpu, MatrixAtom, machines

#: Kinds of targets: each has a pipeline of that name in `lowering/pipelines`.
Kind = Literal["cpu", "gpu"]

#: Bytes of parameters of a launch on a GPU, of those of a call on a CPU, and of a pointer among them.
PARAMETER_BYTES = 4096
STACK_BYTES = 8192
POINTER_BYTES = 8

#: The fields that count something of which there is some.
_COUNTS = ("l1_bytes", "l1_ways", "l2_bytes", "fmas", "loads", "fma_cycles", "cores", "threads", "alignment")


@dataclass(frozen=True)
class Target:
    """A plain record; passes ask what the target can do, never what it is called.

    All that code may use follows from the features: those that `lowering/machines.toml` gives to every machine of
    the architecture, and those of `features`, such as `+avx2,-fma`. For other features of the processor `cpu`
    LLVM may choose other instructions; ngmlir does not. Raises `UserError` for a machine that cannot be: wider or
    more registers than the features give, an architecture without code.
    """

    name: str
    triple: str
    cpu: str
    features: str = ""
    vector_bytes: int = 0  # one vector register; 0: the widest there is
    vector_registers: int = 0  # 0: all there are
    l1_bytes: int = 32 * 1024
    l1_ways: int = 8
    l2_bytes: int = 1024 * 1024
    fmas: int = 2  # vector instructions that begin in one cycle: multiply-adds, and loads
    loads: int = 2
    fma_cycles: int = 4  # until the result of a multiply-add is there
    cores: int = 1
    threads: int = 128  # per block, GPUs only
    shared_bytes: int = 0  # per block, GPUs only
    multiprocessors: int = 0  # that run blocks of threads, GPUs only; 0: those of the usual model
    alignment: int = 64  # of every buffer in the arena
    debug: bool = False  # code tells which lines of source and which loops it comes from
    timed: bool = False  # the program knows its launches; on a CPU it notes when each begins and ends

    def __post_init__(self) -> None:
        architecture = self.architecture
        if lacking := architecture.least - self.enabled:
            needed = " and ".join(sorted(lacking))
            raise self._impossible(f"code for {architecture.name} needs {needed}", f"add +{needed}")
        there = [v for v in architecture.vectors if v.features <= self.enabled]
        most_bytes, most_registers = there[0].bytes, max(v.registers for v in there)
        # The record is complete from here on, though it is frozen.
        object.__setattr__(self, "vector_bytes", self.vector_bytes or most_bytes)
        object.__setattr__(self, "vector_registers", self.vector_registers or there[0].registers)
        usual = self.gpu.multiprocessors if self.is_gpu else 0
        object.__setattr__(self, "multiprocessors", self.multiprocessors or usual)
        if self.vector_bytes > most_bytes:
            wider = [v.features - self.enabled for v in architecture.vectors if v.bytes == self.vector_bytes]
            hint = "".join(f"they come with {', '.join(sorted(features))}" for features in wider)
            raise self._impossible(f"it has vectors of {most_bytes} bytes, not of {self.vector_bytes}", hint)
        if self.vector_bytes < 16 or self.vector_bytes & (self.vector_bytes - 1):
            raise self._impossible(
                f"no vector has {self.vector_bytes} bytes", "a power of two from 16 on, or 0 for the widest"
            )
        if not 8 <= self.vector_registers <= most_registers:
            raise self._impossible(
                f"it has {most_registers} vector registers, not {self.vector_registers}",
                "8 or more, or 0 for all",
            )
        for field in _COUNTS:
            if getattr(self, field) < 1:
                raise self._impossible(f"{field} is {getattr(self, field)}")
        if self.alignment & (self.alignment - 1):
            raise self._impossible(f"alignment is {self.alignment}", "a power of two")

    def _impossible(self, why: str, hint: str = "") -> UserError:
        return UserError(f"there is no machine like target '{self.name}': {why}", hint=hint)

    @cached_property
    def architecture(self) -> Architecture:
        """The first word of the triple, and what all such machines have in common."""
        return machines().architecture(self.triple)

    @cached_property
    def enabled(self) -> frozenset[str]:
        """All features, those included that others bring along."""
        return machines().enabled(self.triple, self.features)

    @property
    def code(self) -> Code:
        """Which code is made for it: "cpu", where one thread with vector registers runs a program of a kernel's grid, or
        "nvptx", where a block of `threads` threads does, in warps of 32 with shared memory."""
        return self.architecture.code

    @property
    def kind(self) -> Kind:
        """The kind of machine, after which its pipeline is named."""
        return "gpu" if self.is_gpu else "cpu"

    @property
    def is_gpu(self) -> bool:
        """Whether its code is PTX; else it is object code of a CPU."""
        return self.code == "nvptx"

    @cached_property
    def gpu(self) -> Gpu:
        """What all GPUs like it have in common. UserError for a GPU that LLVM does not know."""
        return machines().gpu(self.cpu)

    @property
    def matrix(self) -> tuple[MatrixAtom, ...]:
        """The matrix instructions that it has."""
        return self.gpu.matrix if self.is_gpu else ()

    @cached_property
    def dots(self) -> tuple[DotAtom, ...]:
        """The dot instructions of vectors that it has, the best first."""
        return tuple([atom for atom in machines().dots if atom.features <= self.enabled])

    def dot(self, words: str) -> DotAtom | None:
        """The dot instruction for words that hold such elements, or these on the other sides: `i8_ui8` for `ui8_i8`."""
        turned = "_".join(reversed(words.split("_")))
        return next((atom for each in (words, turned) for atom in self.dots if atom.words == each), None)

    @property
    def has_thread_blocks(self) -> bool:
        """Whether the threads of a block share a tile; else one thread holds it in its registers. Shared tiles have a
        power of two of elements, and those beyond a loop's end are masked."""
        return self.architecture.has_thread_blocks

    @property
    def call_buffers(self) -> int:
        """How many buffers a call of a kernel may be given: more are too many parameters of a launch, or, on a CPU, too
        much of a stack, and a kernel that takes long to compile."""
        return (PARAMETER_BYTES if self.is_gpu else STACK_BYTES) // POINTER_BYTES

    @cached_property
    def spare_registers(self) -> int:
        """Vector registers that LLVM wants in hand for a loop that keeps the others."""
        return next(v.spare for v in self.architecture.vectors if v.features <= self.enabled)

    def has(self, feature: str) -> bool:
        """Whether the machine has a feature by LLVM's name, such as `avx2`."""
        return feature in self.enabled

    def can(self, capability: str) -> bool:
        """Whether the machine has all that a capability of `lowering/machines.toml` needs, such as `fma`."""
        if capability in self._capabilities:
            return True
        if capability not in machines().capabilities:
            raise KeyError(capability)
        return False

    @cached_property
    def _capabilities(self) -> frozenset[str]:
        """All that it can."""
        return frozenset(n for n, needed in self.architecture.capabilities.items() if needed <= self.enabled)

    @property
    def key(self) -> str:
        """All that decides the generated code, for caches."""
        vectors = f"{self.vector_bytes}x{self.vector_registers}"
        blocks = f"{self.threads}x{self.multiprocessors}"
        debug = "|debug" if self.debug else ""
        timed = "|timed" if self.timed else ""
        return f"{self.triple}|{self.cpu}|{self.features}|{vectors}|{blocks}|{self.cores}{debug}{timed}"

    def lanes(self, item_bytes: int) -> int:
        """Elements of `item_bytes` bytes in one vector register."""
        return max(1, self.vector_bytes // item_bytes)
