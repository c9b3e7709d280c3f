# SPDX-License-Identifier: Apache-2.0
"""A digest of large data at the speed of memory, to identify the contents of large files.

Blocks are hashed by NH, the universal hash of UMAC, four times with keys that are eight bytes apart, and the results by
SHA-256. The keys come from a secret in the cache folder: for any two different contents, the digests are equal with a
probability below 2^-126, even if somebody chose both deliberately.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from hashlib import sha256, shake_256
from threading import Thread
from typing import NamedTuple

import numpy as np

from ..llvm.cores import available_cores
from ..llvm.machine import host_target
from ..support.diagnostics import UserError
from ..support.mapping import Mapping, mapping_of
from ..support.memory import empty_bytes
from .cache import Cache, assembled, key_of
from .library import Library

#: Bytes that are hashed with the same keys: a block and the keys fit into the L1 cache.
_BLOCK = 8 * 1024
#: Bytes that are read from a file at once.
_READ = 1 << 20
#: Bytes that one thread processes at a time, and the most threads: a few reach the bandwidth of memory.
_SPAN, _THREADS = 16 << 20, 4
_ROUNDS = 4
#: Bytes of the NH results of a block: a vector of each round.
_KEPT = 32 * _ROUNDS
_SECRET_BYTES = 32

_TEXT = """
define void @ngmlir_digest(ptr %data, ptr %keys, i64 %blocks, ptr %out) nounwind {{
entry:
  br label %block
block:
  %b = phi i64 [ 0, %entry ], [ %b.next, %done ]
  %at = mul i64 %b, {block}
  %first = getelementptr i8, ptr %data, i64 %at
  br label %words
words:
  %i = phi i64 [ 0, %block ], [ %i.next, %words ]
{sums}
  %place = getelementptr i8, ptr %first, i64 %i
  %w = load <8 x i32>, ptr %place, align 1
  %keys.i = getelementptr i8, ptr %keys, i64 %i
{rounds}
  %i.next = add i64 %i, 32
  %more = icmp ult i64 %i.next, {block}
  br i1 %more, label %words, label %done
done:
  %to = mul i64 %b, {kept}
  %own = getelementptr i8, ptr %out, i64 %to
{stores}
  %b.next = add i64 %b, 1
  %again = icmp ult i64 %b.next, %blocks
  br i1 %again, label %block, label %out.of.it
out.of.it:
  ret void
}}
"""

_SUM = "  %s{n} = phi <4 x i64> [ zeroinitializer, %block ], [ %s{n}.next, %words ]"

#: Lower half times upper half of each pair of words, to which keys were added.
_ROUND = """
  %k{n}.at = getelementptr i8, ptr %keys.i, i64 {shift}
  %k{n} = load <8 x i32>, ptr %k{n}.at, align 1
  %m{n} = add <8 x i32> %w, %k{n}
  %p{n} = bitcast <8 x i32> %m{n} to <4 x i64>
  %low{n} = and <4 x i64> %p{n}, <i64 4294967295, i64 4294967295, i64 4294967295, i64 4294967295>
  %high{n} = lshr <4 x i64> %p{n}, <i64 32, i64 32, i64 32, i64 32>
  %x{n} = mul <4 x i64> %low{n}, %high{n}
  %s{n}.next = add <4 x i64> %s{n}, %x{n}"""

_STORE = """
  %o{n} = getelementptr i8, ptr %own, i64 {place}
  store <4 x i64> %s{n}.next, ptr %o{n}, align 1"""


def digest_of(pieces: Iterable[bytes | memoryview], store: Cache, *, in_place: bool = False) -> str | None:
    """A digest of all these bytes, which is valid in this cache folder; None if the folder cannot store the secret.

    Bytes of a mapped file are read from the file, so that no page of the mapping is loaded; or, `in_place`, from the
    mapping, if all of it is needed in memory anyway.
    """
    keys = _keys(store)
    if keys is None:
        return None
    found, spans = sha256(), list[_Span]()
    for piece in pieces:
        found.update(len(piece).to_bytes(8, "little"))
        spans += _spans(piece, in_place)
    results = list[bytes](b"" for _ in spans)
    left = iter(enumerate(spans))
    # Small models are read in smaller parts: the buffer would be a considerable part of their memory.
    read = _READ if sum(len(span.data) for span in spans) > _SPAN else _READ // 16

    def work() -> None:
        buffer, out = empty_bytes(read), np.empty(read // _BLOCK * _KEPT, np.uint8)
        # The threads share one iterator: each span is taken by one of them.
        with suppress(UserError, OSError):  # a file that became shorter
            for number, span in left:
                results[number] = span.digest(keys, buffer, out)

    _function()
    helpers = [Thread(target=work) for _ in range(min(available_cores(), _THREADS, len(spans)) - 1)]
    for thread in helpers:
        thread.start()
    work()
    for thread in helpers:
        thread.join()
    if not all(results):
        return None
    found.update(b"".join(results))
    return found.hexdigest()


class _Span(NamedTuple):
    """A range of the bytes; if it is to be read from a file, with the mapping and the offset in it."""

    data: np.ndarray
    mapping: Mapping | None
    start: int

    def digest(self, keys: np.ndarray, buffer: np.ndarray, out: np.ndarray) -> bytes:
        found = sha256()
        for at in range(0, len(self.data), len(buffer)):
            part = self.data[at : at + len(buffer)]
            whole = len(part) // _BLOCK * _BLOCK
            if self.mapping is not None:
                self.mapping.read_into(buffer[: len(part)], self.start + at)
                part = buffer[: len(part)]
            found.update(_hashed(part[:whole], keys, out))
            if whole < len(part):
                last = np.zeros(_BLOCK, np.uint8)
                last[: len(part) - whole] = part[whole:]
                found.update(_hashed(last, keys, out))
        return found.digest()


def _spans(piece: bytes | memoryview, in_place: bool) -> list[_Span]:
    data, mapping = np.frombuffer(piece, np.uint8), None if in_place else mapping_of(piece)
    start = 0 if mapping is None else data.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    return [_Span(data[at : at + _SPAN], mapping, start + at) for at in range(0, len(data), _SPAN)]


def _hashed(blocks: np.ndarray, keys: np.ndarray, out: np.ndarray) -> memoryview:
    """The NH results of whole blocks; valid until the next blocks are hashed into the same array."""
    count = len(blocks) // _BLOCK
    if count:
        _function()(blocks.ctypes.data, keys.ctypes.data, count, out.ctypes.data)
    return out.data[: count * _KEPT]


def _keys(store: Cache) -> np.ndarray | None:
    """The NH keys of a cache folder, which creates its secret at first use."""
    name = key_of("secret")
    secret = store.recall(name)
    if secret is None:
        store.write(name, os.urandom(_SECRET_BYTES), {"kind": "secret"}, once=True)
        secret = store.recall(name)  # that of the first process to write one
    return None if secret is None else _expanded(secret)


@cache
def _expanded(secret: bytes) -> np.ndarray:
    return np.frombuffer(shake_256(secret).digest(_BLOCK + 8 * _ROUNDS), np.uint8)


@cache
def _function() -> Callable[[int, int, int, int], None]:
    rounds = range(_ROUNDS)
    text = _TEXT.format(
        block=_BLOCK,
        kept=_KEPT,
        sums="\n".join(_SUM.format(n=n) for n in rounds),
        rounds="".join(_ROUND.format(n=n, shift=8 * n) for n in rounds),
        stores="".join(_STORE.format(n=n, place=32 * n) for n in rounds),
    )
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        _library(text)["ngmlir_digest"]
    )


@cache
def _library(text: str) -> Library:
    return Library(assembled(text, host_target()), ["ngmlir_digest"])
