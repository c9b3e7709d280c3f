# SPDX-License-Identifier: Apache-2.0
"""Lowers programs with the ngmlir that Python finds, for `./run replay`, which starts this file once for each checkout.

    python replay_lowering.py PROGRAMS RESULTS TARGET,... [--llvm]

PROGRAMS is a JSON file: text by name. RESULTS becomes one: program -> target -> part -> text. The parts of a program are its
kernels, its functions, with --llvm the functions of its LLVM IR, and what is said where it is refused.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ngmlir.compiler import emit, lower, resolve
from ngmlir.ops.words import from_text, to_text
from ngmlir.support.lengths import guarding

#: The seconds that a program may take.
SECONDS = 120
_SYMBOL = re.compile(r'@"?([\w.$-]+)"?')
_NUMBER = re.compile(r"_\d+$")
_DEFINITION = re.compile(r"^define .*?^}$", re.MULTILINE | re.DOTALL)


def names_of(kernels: dict[str, str], functions: str) -> dict[str, str]:
    """What each kernel is called in the comparison: its symbol without a number, and its place among kernels of that name with other
    texts, in the order in which the functions launch them."""
    order = dict.fromkeys(s for s in _SYMBOL.findall(functions) if s in kernels) | dict.fromkeys(kernels)
    counts: Counter[str] = Counter()
    known: dict[tuple[str, str], str] = {}
    names: dict[str, str] = {}
    for symbol in order:
        base = _NUMBER.sub("", symbol)
        content = base, kernels[symbol].replace(f"@{symbol}", f"@{base}")
        if content not in known:
            known[content] = base if not counts[base] else f"{base}#{counts[base]}"
            counts[base] += 1
        names[symbol] = known[content]
    return names


def parts_of(text: str, target: str, llvm: bool) -> Iterator[tuple[str, str]]:
    """The lowered program by parts. Raises what the compiler raises."""
    machine = resolve(target)
    module = lower(from_text(text), machine)
    kernels = {op.symbol: to_text(module.with_ops([op])) for op in module.ops if op.name == "tile.kernel"}
    functions = to_text(module.with_ops([op for op in module.ops if op.symbol not in kernels]))
    names = names_of(kernels, functions)

    def renamed(text: str) -> str:
        return _SYMBOL.sub(lambda m: f"@{names.get(m[1], m[1])}", text)

    for symbol, kernel in kernels.items():
        yield f"kernel @{names[symbol]}", renamed(kernel)
    yield "functions", renamed(functions)
    if llvm:
        made = emit(module, machine).llvm
        for definition in _DEFINITION.findall(made):
            definition = renamed(definition)
            (symbol,) = _SYMBOL.findall(definition)[:1]
            yield f"LLVM IR of @{symbol}", definition
        yield "other LLVM IR", renamed(_DEFINITION.sub("", made))


def lowered(text: str, target: str, llvm: bool) -> dict[str, str]:
    """The parts of the program; where it is refused the error alone."""
    signal.alarm(SECONDS)
    try:
        with guarding():  # lengths may be open
            return dict(parts_of(text, target, llvm))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)


def too_long(*_: object) -> None:
    raise TimeoutError(f"not lowered in {SECONDS} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("targets", type=lambda text: text.split(","))
    parser.add_argument("--llvm", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))
    programs = json.loads(options.programs.read_text(encoding="utf-8"))
    results = {
        name: {target: lowered(text, target, options.llvm) for target in options.targets}
        for name, text in programs.items()
    }
    options.results.write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
