# SPDX-License-Identifier: Apache-2.0
"""All passes by name: what `ngopt --list-passes` shows and lowering/pipelines may name."""

from __future__ import annotations

from ..rewrite.pipeline import Pass, name_of
from .common_subexpressions import common_subexpressions
from .dead_code import dead_code
from .decompose import decompose
from .expand_math import expand_math
from .fold_empty import fold_empty
from .fuse import fuse
from .plan_memory import plan_memory
from .prune import prune
from .shape import shape
from .to_kernels import to_kernels

PASSES: dict[str, Pass] = {
    name_of(p): p
    for p in (
        shape,
        prune,
        common_subexpressions,
        dead_code,
        decompose,
        fold_empty,
        fuse,
        to_kernels,
        expand_math,
        plan_memory,
    )
}
