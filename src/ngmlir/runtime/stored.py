# SPDX-License-Identifier: Apache-2.0
"""Artifacts in the cache: a JSON header and the bytes. Nothing is unpickled; a header that does not fit is no entry."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from ..support.artifact import Artifact, Launch, Place
from ..support.diagnostics import Location
from ..support.signature import Parameter, Signature
from .cache import Entry


def header_of(artifact: Artifact) -> dict[str, Any]:
    """All of an artifact but its bytes and source locations."""
    signature = artifact.signature
    return {
        "kind": artifact.kind,
        "target": artifact.target,
        "code": len(artifact.code),
        "name": signature.name,
        "arguments": [[p.name, p.dtype, list(p.shape)] for p in signature.arguments],
        "results": [[p.name, p.dtype, list(p.shape)] for p in signature.results],
        "tied": [list(pair) for pair in signature.tied],
        "arena": signature.arena_bytes,
        "launches": [
            [l.kernel, list(l.grid), l.threads, [list(astuple(place)) for place in l.buffers], l.shared_bytes]
            for l in artifact.launches
        ],
    }


def bytes_of(artifact: Artifact) -> bytes:
    """Code and constants, one after the other."""
    return artifact.code + artifact.constants


def artifact_of(entry: Entry, location: Location) -> Artifact | None:
    """The artifact in a cache entry; its parameters are said to come from `location`."""
    header, data = entry
    try:
        cut = int(header["code"])
        signature = Signature(
            name=str(header["name"]),
            arguments=tuple(_parameter(p, location) for p in header["arguments"]),
            results=tuple(_parameter(p, location) for p in header["results"]),
            tied=tuple((int(r), int(a)) for r, a in header["tied"]),
            arena_bytes=int(header["arena"]),
        )
        launches = tuple(
            Launch(kernel, (grid[0], grid[1], grid[2]), threads, tuple(Place(*b) for b in buffers), shared)
            for kernel, grid, threads, buffers, shared in header["launches"]
        )
        return Artifact(header["kind"], data[:cut], signature, header["target"], data[cut:], launches)
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _parameter(given: Any, location: Location) -> Parameter:
    name, dtype, shape = given
    return Parameter(str(name), str(dtype), tuple(int(d) for d in shape), location)
