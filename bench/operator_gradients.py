# SPDX-License-Identifier: Apache-2.0
"""The gradients of all operators of programs, of first and second order, on each target: a table of their greatest errors.

    python bench/operator_gradients.py [--only OPERATOR]

The cases are those of the tests, in f64. In the column of `numpy` gradients are compared with central differences, in those of the other targets with what NumPy gives; errors
are relative to the greatest element, or to 1 where that is less. A column without a number: there is no such gradient, or there are too many elements for differences.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[1] / "tests" / "unit"
FILES = (
    "test_operators.py",
    "test_sequence_operators.py",
    "test_recurrent_operators.py",
    "test_sequence_labels.py",
)
TARGETS = ("numpy", "cpu", "cuda-sim")
COLUMNS = [(order, target) for order in (1, 2) for target in TARGETS]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="what names of tests hold")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(UNIT))
    from gradient_errors import ERRORS

    wanted = f"gradient and {options.only}" if options.only else "gradient"
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        failed = pytest.main(
            ["-q", "-p", "no:cacheprovider", "-k", wanted, *[str(UNIT / each) for each in FILES]]
        )
    print(
        "| operator | "
        + " | ".join(f"{('first', 'second')[order - 1]}, {target}" for order, target in COLUMNS)
        + " |"
    )
    print("|---" * (1 + len(COLUMNS)) + "|")
    for name in sorted({type for type, *_ in ERRORS}):
        errors = [ERRORS.get((name, *column)) for column in COLUMNS]
        print(f"| {name} | " + " | ".join("" if error is None else f"{error:.0e}" for error in errors) + " |")
    if failed:
        print(told.getvalue(), file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
