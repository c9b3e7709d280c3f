# SPDX-License-Identifier: Apache-2.0
"""The products on which the bars of bench/gate.py are set: their sizes are fixed, `--sizes` does not change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from op_cases import Case, Cases

#: Sides of square products, by element type.
SQUARES: dict[str, Sequence[int]] = {"f32": (256, 512, 1024, 2048), "f64": (256, 512, 1024)}
#: Rows, depth and columns of a layer on one sample to many, and of products that are thin in one direction.
THIN = (
    *((rows, 768, 3072) for rows in (1, 16, 32, 128)),
    *((rows, 3072, 768) for rows in (1, 16, 32, 128)),
    (3072, 768, 8),
    (1024, 16, 1024),
    (16, 4096, 16),
)
#: Batch, rows, depth and columns: the heads of an attention.
BATCHED = (12, 128, 64, 128)
#: Side of the products in narrow types, which are held against our own in f32.
NARROW = 512


def products() -> Iterator[Case]:
    """Made one after the other, as they are asked for: the largest take 16 MB for each operand."""
    for kind, sides in SQUARES.items():
        for side, lhs, rhs in product(sides, "NT", "NT"):
            yield _dot("product", side, side, side, kind, lhs, rhs)
    for m, k, n in THIN:
        yield _dot("product", m, k, n)
        yield _dot("product", m, k, n, rhs="T")
    batch, m, k, n = BATCHED
    yield _dot("product", m, k, n, batch=batch)
    yield _dot("product", m, k, n, rhs="T", batch=batch)
    wide = _dot("narrow product", NARROW, NARROW, NARROW)
    for kind in ("f16", "bf16"):
        case = _dot("narrow product", NARROW, NARROW, NARROW, kind)
        yield replace(case, name=f"{case.name}_beside_f32", rival=wide.text)


def _dot(
    family: str, m: int, k: int, n: int, kind: str = "f32", lhs: str = "N", rhs: str = "N", batch: int = 0
) -> Case:
    cases = Cases(max(1, batch) * m * n)
    label = f"{f'{batch}x' if batch else ''}{m}x{k}x{n}"
    cases.dot(label, m, k, n, kind, lhs, rhs, batch, family=family)
    return cases.found[0]
