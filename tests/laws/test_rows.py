# SPDX-License-Identifier: Apache-2.0
"""Where a function is said to compute its rows apart, each row by itself gives what all of them give together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generators import arguments, drawn

from ngmlir.ir.core import Op, module
from ngmlir.ir.types import shape_of
from ngmlir.ir.verifier import check
from ngmlir.ops.interpreter import run
from ngmlir.passes.graph.sizing.resized import Refused, Resizing
from ngmlir.support.rows import Rows

Array = np.ndarray[Any, Any]


def part(array: Array, rows: Rows | None, row: int) -> Array:
    if rows is None:
        return array
    where = slice(row * rows.inner, (row + 1) * rows.inner)
    return np.ascontiguousarray(array[(slice(None),) * rows.dimension + (where,)])


def holds(main: Op, open_: dict[int, int], arrays: list[Array]) -> bool:
    """Whether there is a function of one row; if there is, that it gives each row of the results."""
    length = shape_of(main.block.args[next(iter(open_))].type)[next(iter(open_.values()))]
    given = {i: Rows(d) for i, d in open_.items()}
    try:
        single, results = Resizing(length, 1).function(main, given, "single")
    except Refused:
        return False
    of = module([single])
    check(of)
    whole = run(module([main]), *arrays, entry=main.symbol)
    for row in range(length):
        taken = [part(a, given.get(i), row) for i, a in enumerate(arrays)]
        for all_rows, one, rows in zip(whole, run(of, *taken, entry="single"), results, strict=True):
            wanted = part(np.asarray(all_rows), rows, row)
            assert one.shape == wanted.shape
            if wanted.dtype.kind in "biu":
                np.testing.assert_array_equal(one, wanted)
            else:
                np.testing.assert_allclose(
                    one.astype(np.float64),
                    wanted.astype(np.float64),
                    rtol=1e-2 if one.itemsize == 2 else 1e-5,
                    atol=1e-6,
                )
    return any(results)


@pytest.mark.parametrize("part_of", range(4))
def test_random_programs_compute_rows_apart(part_of: int) -> None:
    kept = 0
    with np.errstate(all="ignore"):
        for seed in range(part_of, 64, 4):
            of = drawn(seed, exact=seed % 2 == 0, tied=False)
            main, arrays = of.ops[0], arguments(of)
            shapes = [shape_of(a.type) for a in main.block.args]
            places = [(i, d) for i, shape in enumerate(shapes) for d, n in enumerate(shape) if n > 1]
            for i, d in places:
                alike = {j: d for j, s in enumerate(shapes) if len(s) > d and s[d] == shapes[i][d]}
                for open_ in [{i: d}, *([alike] if len(alike) > 1 and i == min(alike) else [])]:
                    kept += holds(main, open_, arrays)
    assert kept > 10
