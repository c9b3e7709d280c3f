# SPDX-License-Identifier: Apache-2.0
"""Reads `lowering/machines.toml`: what features bring along, what architectures need, which machines have names.

The numbers below are facts of the *hardware* (the PTX ISA and CUDA's documentation have them), or chosen: each says whether it was
*measured on a device*, *simulated* (counted by the simulator) or *guessed*. None was measured on a GPU yet.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

from .diagnostics import UserError
from .home import folder

#: *Hardware:* threads of a GPU that carry out the same instructions.
WARP = 32
#: *Hardware:* registers of a multiprocessor of a GPU, of which the threads of its blocks have as many as their kernel wants, and bytes of one.
GPU_REGISTERS, REGISTER_BYTES = 1 << 16, 4
#: *Hardware:* those of one thread, at most.
THREAD_REGISTERS = 255
#: *Guessed:* the approximate latency of a load from a GPU's memory in seconds: its bytes must be in flight so long.
MEMORY_LATENCY = 600e-9
#: *Hardware:* bytes that one thread of a GPU moves at once at most, and `ldmatrix` reads of each row.
CHUNK_BYTES = 16
#: *Hardware:* bytes in which a GPU's memory answers.
SECTOR_BYTES = 32
#: *Hardware:* bytes of the pieces in which GPUs with matrix instructions copy to shared memory in the background.
COPIED_BYTES = (4, 8, CHUNK_BYTES)
#: *Guessed:* a copy has so many instructions of each thread at most, and is a loop where more are needed.
COPIES_WRITTEN_OUT = 32
#: *Guessed:* blocks of each multiprocessor from which on memory binds whatever one block waits for: threads of a GPU read a row each of
#: elements shorter than a word, which meet in banks of shared memory, and the end of a line has code of its own.
MEETING_BLOCKS = 8

#: *Hardware:* bits of what holds neighbours that a dot instruction multiplies at once.
WORD_BITS = 32

#: The kinds of code that can be made.
Code = Literal["cpu", "nvptx"]

#: Which dimension of a tensor an axis is to be.
Place = Literal["first", "last"]


class Vectors(NamedTuple):
    """Registers of `bytes` bytes, where all of `features` are there. Code that needs all but `spare` of them at once in
    a loop is known to keep them all."""

    bytes: int
    registers: int
    spare: int
    features: frozenset[str]


@dataclass(frozen=True)
class Architecture:
    """What all machines of an architecture have in common."""

    name: str
    code: Code
    has_thread_blocks: bool
    always: frozenset[str]
    least: frozenset[str]
    vectors: tuple[Vectors, ...]
    capabilities: Mapping[str, frozenset[str]]
    samples: Place  # the positions of the axes of samples and of steps, where programs do not fix them
    steps: Place


class MatrixAtom(NamedTuple):
    """A matrix instruction of one warp: `rows` x `depth` elements `lhs` by `depth` x `columns` of `rhs`, added to `sum`."""

    name: str
    rows: int
    columns: int
    depth: int
    lhs: str
    rhs: str
    sum: str
    intrinsic: str  # LLVM's


class DotAtom(NamedTuple):
    """A vector instruction that adds to each lane of `sum` the products of `group` adjacent elements, which are packed in one word of
    32 bits of each operand, lowest first. `words` names the element types of both: `ui8_i8`."""

    name: str
    words: str
    group: int
    sum: str
    adds: bool  # to the sums by itself; else another instruction does
    features: frozenset[str]
    intrinsics: Mapping[int, str]  # LLVM's, by the bits of a vector
    room: int = 0  # where its sums are pairs of 16 bits: how many may be added before they are added in 32

    @property
    def sides(self) -> tuple[str, str]:
        """The elements of both sides. All multiply alike with the sides exchanged."""
        lhs, _, rhs = self.words.partition("_")
        return lhs, rhs

    @property
    def element_bits(self) -> int:
        """Bits of each element in a word."""
        return WORD_BITS // self.group


class Gpu(NamedTuple):
    """What is known of the GPUs that LLVM calls `name`; memory in bytes."""

    name: str
    ptx: int  # the oldest version that is printed for it: 80 is 8.0
    multiprocessors: int  # of the usual model
    shared: int  # of one multiprocessor, as its threads and blocks at once
    threads: int
    blocks: int
    block_shared: int  # of one block, at most
    copied: tuple[int, ...]  # pieces in which it copies to shared memory in the background
    clock: int  # MHz, of the usual model, as its memory's GB/s
    bandwidth: int
    matrix_flops: int  # of the matrix instructions of one multiprocessor in a cycle
    multiply_adds: Mapping[str, float]  # of its other instructions, likewise: of f32, f64, i32 and i64
    matrix: tuple[MatrixAtom, ...]

    @property
    def bytes_in_flight(self) -> float:
        """The bytes in flight of one multiprocessor that saturate memory."""
        return self.bandwidth * 1e9 * MEMORY_LATENCY / self.multiprocessors

    def atom(self, lhs: str, rhs: str, sum: str) -> MatrixAtom | None:
        """The matrix instruction for elements of these types."""
        return next((a for a in self.matrix if (a.lhs, a.rhs, a.sum) == (lhs, rhs, sum)), None)


class Machine(NamedTuple):
    """A machine with a name: a level of x86-64, a model of Arm ..."""

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...]


@dataclass(frozen=True)
class Machines:
    """The whole file."""

    implied: Mapping[str, frozenset[str]]
    architectures: Mapping[str, Architecture]
    named: Mapping[str, Machine]
    gpus: Mapping[str, Gpu]
    dots: tuple[DotAtom, ...]

    def gpu(self, name: str) -> Gpu:
        """A GPU by LLVM's name. UserError for one that it does not know."""
        if name not in self.gpus:
            raise UserError(f"there is no GPU '{name}'", hint=f"there are {', '.join(self.gpus)}")
        return self.gpus[name]

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """All that code generation may ask for."""
        return frozenset(what for a in self.architectures.values() for what in a.capabilities)

    def architecture(self, triple: str) -> Architecture:
        name = triple.partition("-")[0]
        if name not in self.architectures:
            known = ", ".join(self.architectures)
            raise UserError(f"there is no code for machines of '{triple}'", hint=f"there is for {known}")
        return self.architectures[name]

    def enabled(self, triple: str, features: str) -> frozenset[str]:
        """All features of a machine, as LLVM understands `+this,-that`: from left to right."""
        found = self._with_implied(self.architecture(triple).always)
        for word in features.split(",") if features else ():
            sign, name = word[:1], word[1:]
            if sign not in ("+", "-") or not name:
                raise UserError(f"'{word}' is not a feature with its sign", hint="write them as +avx2,-fma")
            if sign == "+":
                found |= self._with_implied([name])
            elif name in found:  # else nothing is there that implies it
                found = frozenset(f for f in found if name not in self._with_implied([f]))
        return found

    def _with_implied(self, features: Iterable[str]) -> frozenset[str]:
        found: set[str] = set()
        waiting = list(features)
        while waiting:
            feature = waiting.pop()
            if feature not in found:
                found.add(feature)
                waiting += self.implied.get(feature, ())
        return frozenset(found)


@cache
def machines() -> Machines:
    """`lowering/machines.toml`."""
    path = folder("lowering") / "machines.toml"
    with path.open("rb") as stream:
        data = tomllib.load(stream)
    named: dict[str, Machine] = {}
    for name, entry in data["machines"].items():
        less = named[entry["more_than"]].features if "more_than" in entry else ()
        named[name] = Machine(name, entry["triple"], entry["cpu"], (*less, *entry["features"]))
    return Machines(
        {name: frozenset(others) for name, others in data["implied"].items()},
        {name: _architecture(name, entry) for name, entry in data["architectures"].items()},
        named,
        _gpus(data["gpus"], _atoms(data["matrix"])),
        tuple(map(_dot, data["dots"])),
    )


def _dot(entry: Mapping[str, Any]) -> DotAtom:
    names = {int(bits): name for bits, name in entry["intrinsics"].items()}
    others = {key: value for key, value in entry.items() if key not in ("features", "intrinsics")}
    return DotAtom(features=frozenset(entry["features"]), intrinsics=names, **others)


def _atoms(table: Mapping[str, Mapping[str, Any]]) -> dict[str, MatrixAtom]:
    found: dict[str, MatrixAtom] = {}
    for name, entry in table.items():
        rows, columns, depth = entry["shape"]
        others = {key: value for key, value in entry.items() if key != "shape"}
        found[name] = MatrixAtom(name, rows, columns, depth, **others)
    return found


def _gpus(table: Mapping[str, Mapping[str, Any]], atoms: Mapping[str, MatrixAtom]) -> dict[str, Gpu]:
    facts: dict[str, dict[str, Any]] = {}
    for name, entry in table.items():
        facts[name] = {**facts.get(entry.get("like", ""), {}), **entry}
    return {
        name: Gpu(
            name,
            copied=tuple(f["copied"]),
            matrix=tuple([atoms[atom] for atom in f["matrix"]]),
            multiply_adds={**f["multiply_adds"], "i64": f["multiply_adds"]["i32"] / 4},  # of halves
            **{k: v for k, v in f.items() if k not in ("like", "copied", "matrix", "multiply_adds")},
        )
        for name, f in facts.items()
    }


def _architecture(name: str, entry: Mapping[str, Any]) -> Architecture:
    return Architecture(
        name,
        entry["code"],
        entry["has_thread_blocks"],
        frozenset(entry["always"]),
        frozenset(entry["least"]),
        tuple(
            Vectors(v["bytes"], v["registers"], v["spare"], frozenset(v["features"]))
            for v in entry["vectors"]
        ),
        {what: frozenset(needed) for what, needed in entry.get("capabilities", {}).items()},
        entry["samples"],
        entry["steps"],
    )
