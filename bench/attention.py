# SPDX-License-Identifier: Apache-2.0
"""Attention beside torch's `scaled_dot_product_attention`: forward, and with --backward the gradients of queries, keys and values.

    python bench/attention.py                       # L = 128 to 4096, heads of 32 to 256 elements, causal and not
    python bench/attention.py --only='D=64.*causal' --backward

One thread; both alternate, and the least CPU time is printed, after results were compared. A ratio above 1: ours is faster.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator
from math import exp, log
from typing import Any, NamedTuple

os.environ.setdefault("NGMLIR_NUM_THREADS", "1")

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

import ngmlir as ng


class Case(NamedTuple):
    """`kind`: plain, causal, additive (a float mask of queries x keys), grouped (eight heads share keys and values)."""

    kind: str
    heads: int
    queries: int
    keys: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.kind:8} H={self.heads:<3} L={self.queries:<5} T={self.keys:<5} D={self.size:<4}"


def cases() -> Iterator[Case]:
    for length in (128, 512, 1024, 4096):
        for size in (32, 64, 80, 128, 256):
            heads = max(1, min(32, (1 << 26) // (length * length * size // 16) // 4))
            for kind in ("plain", "causal"):
                yield Case(kind, heads, length, length, size)
    for length in (512, 1024):
        for size in (64, 128):
            yield Case("additive", 8, length, length, size)
            yield Case("grouped", 8, length, length, size)
    for kind, size in (("plain", 64), ("plain", 128), ("grouped", 128)):
        yield Case(kind, 8, 1, 4096, size)


def ours(case: Case, backward: bool) -> Callable[..., Any]:
    """The compiled program of q, k, v (and the mask; and the gradient of the result)."""
    shared = 1 if case.kind == "grouped" else case.heads
    heads, group, queries, keys, size = (
        ng.make_axis(n, name=name)
        for name, n in (
            ("H", shared),
            ("G", case.heads // shared),
            ("L", case.queries),
            ("T", case.keys),
            ("D", case.size),
        )
    )
    q, k, v = (
        ng.placeholder(axes)
        for axes in ([heads, group, queries, size], [heads, keys, size], [heads, keys, size])
    )
    inputs = [q, k, v]
    scores = ng.dot(q, k, batch_axes=[heads]) * case.size**-0.5
    if case.kind == "causal":
        scores = ng.where(ng.iota([keys], keys) <= ng.iota([queries], queries), scores, -np.inf)
    if case.kind == "additive":
        inputs.append(ng.placeholder([queries, keys]))
        scores = scores + inputs[-1]
    made = ng.dot(ng.softmax(scores, normalization_axes=[keys]), v, batch_axes=[heads])
    if not backward:
        return ng.compile([made], inputs, target="cpu")
    error = ng.placeholder(made.axes)
    return ng.compile([made, *(ng.deriv(made, x, error) for x in (q, k, v))], [*inputs, error], target="cpu")


def theirs(case: Case, backward: bool) -> Callable[..., Any]:
    grouped = case.kind == "grouped"

    def forward(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        causal = case.kind == "causal"
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped)

    def both(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        *mask, error = rest
        sides = [x.requires_grad_() for x in (q, k, v)]
        made = forward(*sides, *mask)
        return [made.detach(), *torch.autograd.grad(made, sides, error)]

    def plain(*given: Any) -> Any:
        with torch.no_grad():
            return [forward(*given)]

    return both if backward else plain


def least(functions: list[Callable[[], object]], seconds: float) -> list[float]:
    """The least CPU time of each, in turn."""
    best = [float("inf")] * len(functions)
    end = time.process_time() + seconds
    rounds = 0
    while time.process_time() < end or rounds < 3:
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
        rounds += 1
    return best


def measure(case: Case, backward: bool, seconds: float) -> float:
    rng = np.random.default_rng(0)
    shared = 1 if case.kind == "grouped" else case.heads
    shapes = [(case.heads, case.queries, case.size), *[(shared, case.keys, case.size)] * 2]
    if case.kind == "additive":
        shapes.append((case.queries, case.keys))
    if backward:
        shapes.append(shapes[0])
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    run, other = ours(case, backward), theirs(case, backward)
    count = 4 if case.kind == "additive" else 3
    tensors = [
        torch.from_numpy(x.copy() if i == 3 and count == 4 else x.copy()[None]) for i, x in enumerate(arrays)
    ]
    grouped = [arrays[0].reshape(shared, -1, case.queries, case.size), *arrays[1:]]
    if backward:
        grouped[-1] = grouped[-1].reshape(grouped[0].shape)
    for a, b in zip(run(*grouped), other(*tensors), strict=True):
        np.testing.assert_allclose(np.asarray(a).reshape(-1), b.numpy().reshape(-1), rtol=2e-3, atol=2e-4)
    mine, peer = least([lambda: run(*grouped), lambda: other(*tensors)], seconds)
    work = 4 * case.heads * case.queries * case.keys * case.size * (3.5 if backward else 1)
    print(
        f"{case.name} {mine * 1e3:9.3f} ms {work / mine / 1e9:7.1f} GF/s   torch {peer * 1e3:9.3f} ms   ratio {peer / mine:5.2f}",
        flush=True,
    )
    return peer / mine


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a regular expression of names of cases")
    parser.add_argument("--backward", action="store_true", help="forward and gradients")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = [
        measure(c, options.backward, options.seconds) for c in cases() if re.search(options.only, c.name)
    ]
    if found:
        print(f"geometric mean {exp(sum(map(log, found)) / len(found)):.2f}, least {min(found):.2f}")


if __name__ == "__main__":
    main()
