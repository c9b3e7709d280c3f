# SPDX-License-Identifier: Apache-2.0
"""Compiled code as bytes, with all that a device needs to load and call it (and no compiler)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .signature import Signature


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: byte `offset` into argument/result number `index`, the arena or the constants."""

    space: Literal["argument", "result", "arena", "constant"]
    index: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel launch: `grid` blocks of `threads` threads, buffers by place, in parameter order."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    buffers: tuple[Place, ...]
    shared_bytes: int = 0  # dynamic shared memory


@dataclass(frozen=True)
class Artifact:
    """`code` is a relocatable object ("object") or PTX text ("ptx").

    Object: exports `void <signature.name>(ptr buffers, ptr arena, ptr constants)`, where `buffers` points to
    one pointer per argument and then one per result; it imports `ngmlir_parallel` (see runtime/pool.py).
    PTX: `launches` lists the kernels in order. `constants` is loaded once, aligned to 64 bytes.
    """

    kind: Literal["object", "ptx"]
    code: bytes
    signature: Signature
    target: str  # triple, cpu and features, as the cache key needs them
    constants: bytes = b""
    launches: tuple[Launch, ...] = ()
