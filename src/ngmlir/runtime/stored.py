# SPDX-License-Identifier: Apache-2.0
"""Artifacts in the cache: a JSON header and the bytes. Nothing is unpickled; an entry with an invalid header is
ignored.

What a program's code does not depend on is not in its entry, and is supplied by the caller: the names and locations of
its parameters, and the large constants (`given`), in which many programs of one structure differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from ..support.artifact import Artifact, Branch, Constant, Entry, Launch, Place, Repeat, Step
from ..support.diagnostics import Location
from ..support.length_text import UsualLengths, parse
from ..support.lengths import Guard, Length, NeedsLength, expression_of
from ..support.signature import Parameter, Signature
from .cache import Entry as CacheEntry

#: Constants of at most this many bytes are stored with the code.
_STORED = 64 * 1024


def header_of(
    artifact: Artifact, given: Sequence[bytes | memoryview], most: int = _STORED
) -> dict[str, Any] | None:
    """Everything in an artifact except its bytes, names and locations. None for an artifact that cannot be stored: one
    with a constant of more than `most` bytes that is not in `given`, or with checks, which contain locations."""
    if artifact.checks:
        return None
    numbers = {_place(data): i for i, data in enumerate(given)}
    constants: list[list[Any]] = []
    for constant in artifact.constants:
        number = numbers.get(_place(constant.data))
        if number is not None and constant.count == 1:
            constants.append(["given", number, 1, constant.alignment])
        elif len(constant.data) <= most:
            constants.append(["stored", len(constant.data), constant.count, constant.alignment])
        else:
            return None
    return {
        "kind": artifact.kind,
        "target": artifact.target,
        "code": len(artifact.code),
        "kernels": [len(code) for code in artifact.kernels],
        "constants": constants,
        "entries": [_entry_described(entry) for entry in artifact.entries],
        "prepared": [_entry_described(entry) for entry in artifact.prepared],
        "spent": list(artifact.spent),
    }


def names_of(artifact: Artifact) -> list[Any]:
    """The names and locations that the header leaves out, for callers that store them elsewhere."""
    return [
        [[p.name, list(p.location)] for p in (*e.signature.arguments, *e.signature.results)]
        for e in artifact.entries
    ]


def named(artifact: Artifact, names: Sequence[Any]) -> Artifact | None:
    """The artifact with such names and locations; None if they do not fit."""
    try:
        return replace(
            artifact, entries=tuple(_named(e, n) for e, n in zip(artifact.entries, names, strict=True))
        )
    except (TypeError, ValueError):
        return None


def _named(entry: Entry, names: Sequence[Any]) -> Entry:
    signature = entry.signature
    both = (*signature.arguments, *signature.results)
    made = tuple(
        replace(p, name=str(name), location=Location(str(file), int(line), int(column)))
        for p, (name, (file, line, column)) in zip(both, names, strict=True)
    )
    count = len(signature.arguments)
    return replace(entry, signature=replace(signature, arguments=made[:count], results=made[count:]))


def _entry_described(entry: Entry) -> dict[str, Any]:
    signature = entry.signature
    return {
        "name": signature.name,
        "arguments": [[p.dtype, _as_json(p.shape)] for p in signature.arguments],
        "results": [[p.dtype, _as_json(p.shape)] for p in signature.results],
        "tied": [list(pair) for pair in signature.tied],
        "arena": _as_json([signature.arena_bytes])[0],
        "lengths": list(signature.lengths),
        "parts": [_as_json(part) for part in signature.arena],
        "steps": [_described(step) for step in entry.steps],
        "reads": list(entry.reads),
        "digest": entry.digest,
    }


def _as_json(numbers: Sequence[int]) -> list[int | str]:
    """Numbers; as text if they are open lengths."""
    return [str(n.expression) if isinstance(n, Length) else n for n in numbers]


def guards_as_json(guards: Sequence[Guard]) -> list[list[str]]:
    """The conditions on lengths under which a program is valid, for its header."""
    return [[str(guard.expression), guard.relation] for guard in guards]


def guards_of(header: Mapping[str, Any]) -> tuple[Guard, ...] | None:
    """The conditions in a header; None if it is damaged."""
    try:
        known = UsualLengths()
        given = [
            (expression_of(parse(str(text), known)), str(relation)) for text, relation in header["guards"]
        ]
    except (KeyError, TypeError, ValueError, NeedsLength):
        return None
    return tuple([Guard(expression, relation) for expression, relation in given])


def bytes_of(artifact: Artifact, header: Mapping[str, Any]) -> bytes:
    """The code, that of the kernels and the stored constants, concatenated."""
    described = zip(artifact.constants, header["constants"], strict=True)
    constants = [bytes(c.data) for c, how in described if how[0] == "stored"]
    return b"".join([artifact.code, *artifact.kernels, *constants])


def artifact_of(found: CacheEntry, given: Sequence[bytes | memoryview]) -> Artifact | None:
    """The artifact in a cache entry, with `given` for its large constants; None if the entry is damaged."""
    header, data = found
    known = UsualLengths()
    try:
        at = cut = int(header["code"])
        kernels: list[bytes] = []
        for size in header["kernels"]:
            kernels.append(data[at : at + int(size)])
            at += int(size)
        constants: list[Constant] = []
        for how, number, count, alignment in header["constants"]:
            if how == "given":
                constants.append(Constant(given[int(number)], 1, int(alignment)))
            else:
                constants.append(Constant(data[at : at + int(number)], int(count), int(alignment)))
                at += int(number)
        return Artifact(
            header["kind"],
            data[:cut],
            tuple(_entry(each, known) for each in header["entries"]),
            header["target"],
            tuple(constants),
            kernels=tuple(kernels),
            prepared=tuple(_entry(each, known) for each in header["prepared"]),
            spent=tuple(int(number) for number in header["spent"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, NeedsLength):
        return None


def _entry(header: Mapping[str, Any], known: UsualLengths) -> Entry:
    def numbers(given: Sequence[int | str]) -> tuple[int, ...]:
        return tuple([parse(n, known) if isinstance(n, str) else int(n) for n in given])

    def parameter(given: Any) -> Parameter:
        dtype, shape = given
        return Parameter("", str(dtype), numbers(shape))

    signature = Signature(
        name=str(header["name"]),
        arguments=tuple(parameter(p) for p in header["arguments"]),
        results=tuple(parameter(p) for p in header["results"]),
        tied=tuple((int(r), int(a)) for r, a in header["tied"]),
        arena_bytes=numbers([header["arena"]])[0],
        lengths=tuple(str(name) for name in header["lengths"]),
        arena=tuple((size, first, last) for size, first, last in map(numbers, header["parts"])),
    )
    reads = tuple(int(n) for n in header["reads"])
    return Entry(signature, _steps(header["steps"]), reads=reads, digest=str(header.get("digest", "")))


def _described(step: Step) -> list[Any]:
    match step:
        case Launch():
            buffers = [list(astuple(b)) for b in step.buffers]
            return ["launch", step.kernel, list(step.grid), step.threads, buffers, step.shared_bytes]
        case Branch():
            parts = [[_described(s) for s in part] for part in (step.then, step.other)]
            return ["branch", list(astuple(step.flag)), *parts]
        case Repeat():
            parts = [[_described(s) for s in part] for part in (step.asked, step.steps)]
            return ["repeat", list(astuple(step.flag)), *parts]


def _steps(described: Sequence[Any]) -> tuple[Step, ...]:
    return tuple(_step(*each) for each in described)


def _step(kind: str, *parts: Any) -> Step:
    if kind == "launch":
        kernel, (x, y, z), threads, buffers, shared = parts
        return Launch(kernel, (x, y, z), threads, tuple(Place(*b) for b in buffers), shared)
    flag, one, other = parts
    if kind == "branch":
        return Branch(Place(*flag), _steps(one), _steps(other))
    return Repeat(_steps(one), Place(*flag), _steps(other))


def _place(data: bytes | memoryview) -> tuple[int, int]:
    """The address of bytes, and their number."""
    return np.frombuffer(data, np.uint8).ctypes.data, len(data)
