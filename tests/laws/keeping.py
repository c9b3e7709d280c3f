# SPDX-License-Identifier: Apache-2.0
"""What holds for every program, as functions that raise where it does not: for laws, the fuzzer and its corpus.

Each law takes a program and whether it is exact, which is whether its results are the same bits whoever computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from comparing import assert_close, assert_same_bits, largest_number
from generators import arguments
from tables import compiled

from ngmlir.compiler import pipeline_for
from ngmlir.ir.core import Module
from ngmlir.ir.verifier import check
from ngmlir.llvm.machine import cpu_target, nvptx_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline import options_of
from ngmlir.support.target import Target

Array = np.ndarray[Any, Any]
Law = Callable[[Module, bool], None]

CPU, GPU = cpu_target("x86-64-v3"), nvptx_target("sm_90a")
#: Passes that take what an earlier one made: they are tested in their place.
LATE = {"check-target", "to-kernels", "rematerialize", "plan-memory", "check-bounds"}
#: What these leave they leave again.
SETTLING = [
    "shape",
    "prune",
    "join-pads",
    "gathers-to-slices",
    "separate-windows",
    "products-of-gathers",
    "select-parts",
    "order-updates",
    "update-rows",
    "write-parts",
    "sorting-networks",
    "common-subexpressions",
    "dead-code",
    "decompose",
    "fold-empty",
    "fold-constants",
    "expand-math",
    "inline",
]


def until(name: str, of: Module, target: Target) -> Module:
    """The program as the pass of this name takes it on the way to the target."""
    for step in pipeline_for(target).steps:
        if step.name == name:
            return of
        of = PASSES[step.name](of, target, **options_of(PASSES[step.name], step))
    raise AssertionError(f"the pipeline has no {name}")


def stages(of: Module, target: Target) -> Iterator[tuple[str, Module]]:
    """The program after each pass that brings it to the target."""
    for step in pipeline_for(target).steps:
        function = PASSES[step.name]
        before = to_text(of)
        made = function(of, target, **options_of(function, step))
        assert to_text(of) == before, f"{step} changes its input"
        assert to_text(function(of, target, **options_of(function, step))) == to_text(made), f"{step} wavers"
        assert_well_formed(made)
        of = made
        yield str(step), of


def assert_well_formed(of: Module) -> None:
    """Verified, written down and read again as the same text, results that know their ops."""
    check(of)
    text = to_text(of)
    assert to_text(from_text(text)) == text, "the text reads as another program"
    assert to_text(from_text(to_text(of, aliases=True))) == text, "types with names read as others"
    for op in of.walk():
        # Passes ask a value for the op that made it.
        assert all(r.owner is op for r in op.results), f"a result of {op} belongs to another op"


def _comparison(
    of: Module, arrays: Sequence[Array], exact: bool
) -> Callable[[Sequence[Array], Sequence[Array], str], None]:
    if exact:
        return assert_same_bits
    scale = largest_number(of, arrays)
    return lambda got, wanted, what: assert_close(got, wanted, scale, what)


def each_pass(of: Module, exact: bool) -> None:
    """Every pass that takes any program, by itself: it keeps the meaning, and settles."""
    arrays = arguments(of)
    wanted, compare = run(of, *arrays), _comparison(of, arrays, exact)
    assert_well_formed(of)
    for name in PASSES:
        if name in LATE:
            continue
        made = PASSES[name](of, CPU)
        assert_well_formed(made)
        if name != "expand-math":  # random_normal
            compare(run(made, *arrays), wanted, name)
        if name in SETTLING:
            assert to_text(PASSES[name](made, CPU)) == to_text(made), f"{name} does not settle"


def way_down(of: Module, exact: bool, target: Target) -> None:
    """Every pass of the target's pipeline keeps the meaning."""
    arrays = arguments(of)
    wanted, compare = run(of, *arrays), _comparison(of, arrays, exact)
    for name, stage in stages(of, target):
        compare(run(stage, *arrays), wanted, name)


def machine_code(of: Module, exact: bool, target: str) -> None:
    """What runs gives what the program means."""
    arrays = arguments(of)
    _comparison(of, arrays, exact)(compiled(of, arrays, target), run(of, *arrays), target)


#: Name -> the law.
LAWS: dict[str, Law] = {
    "passes": each_pass,
    "way to a cpu": partial(way_down, target=CPU),
    "way to a gpu": partial(way_down, target=GPU),
    "cpu": partial(machine_code, target="cpu"),
    "cuda-sim": partial(machine_code, target="cuda-sim"),
}
