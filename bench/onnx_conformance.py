# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that ship with the package onnx: how many pass on a target, and why the others do not.

    python bench/onnx_conformance.py [--target numpy|cpu|cuda-sim] [--filter REGEX] [--out results.json] [--list]

Each test has its own tolerance (onnx.backend.test); a wrong result is told apart from a refusal.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import sys
import time
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))


#: Tests of random numbers whose expected values NumPy's generator has drawn: they are no failure, and do not count as passed.
_DRAWN = re.compile("test_(bernoulli|training_dropout)")


def tests() -> dict[str, tuple[str, object]]:
    """Name -> group and test, of those for the CPU."""
    from onnx.backend.test.runner import Runner

    from ngmlir.frontends.onnx.backend import Backend

    runner = Runner(Backend, __name__)
    items = runner._test_items
    return {
        name: (group, item.func)
        for group, named in sorted(items.items())
        for name, item in named.items()
        if name.endswith("_cpu")
    }


def run(name: str, test: object, limit: int) -> tuple[str, str]:
    """`pass`, `refused`, `wrong`, `failed` or `drawn` (other random numbers), and the message."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {limit} s")

    from ngmlir.support.diagnostics import Bug, NgmlirError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    try:
        test(unittest.TestCase())  # type: ignore[operator]
    except unittest.SkipTest as error:
        return "refused", str(error)
    except Bug as error:
        return "failed", f"Bug: {error}"
    except NgmlirError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except AssertionError as error:
        return "drawn" if _DRAWN.match(name) else "wrong", str(error)
    except (Exception, RecursionError) as error:
        return "failed", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "pass", ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="numpy")
    parser.add_argument("--filter", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--list", action="store_true", help="show each test that does not pass")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ["NGMLIR_ONNX_TARGET"] = given.target
    groups: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    results: dict[str, tuple[str, str]] = {}
    begun = time.time()
    for name, (group, test) in tests().items():
        if re.search(given.filter, name):
            results[name] = run(name, test, given.limit)
            groups[group][results[name][0]] += 1
            groups["all"][results[name][0]] += 1
            if given.list and results[name][0] != "pass":
                kind, text = results[name]
                print(f"{kind:8} {name}: {' '.join(text.split())[:220]}", flush=True)
    for group, counts in groups.items():
        print(
            f"{group:24} {sum(counts.values()):5} tests: "
            + ", ".join(f"{n} {k}" for k, n in counts.most_common())
        )
    print(f"target {given.target}, {time.time() - begun:.0f} s")
    if given.out:
        Path(given.out).write_text(json.dumps(results, indent=0))


if __name__ == "__main__":
    main()
