# SPDX-License-Identifier: Apache-2.0
"""`--remark=gpu`: what each kernel of a program asks of a GPU, at the line that it comes from."""

from __future__ import annotations

import re

from ..compiler import assemble, lower
from ..ir.core import Module
from ..rewrite.remarks import is_enabled, listening, remark
from ..runtime.counted import counted
from ..support.artifact import Artifact, Launch
from ..support.diagnostics import UNKNOWN
from ..support.target import Target

#: The topic.
GPU = "gpu"
#: Blocks of each launch that are counted for all of them.
_BLOCKS = 32


def tell(module: Module, target: Target) -> None:
    """Counts on the simulator what a program does for a GPU, where somebody listens and the target is one."""
    if not is_enabled(GPU) or not target.is_gpu:
        return
    with listening((), lambda _: None):  # passes have told already
        lowered = lower(module, target)
    places = {re.sub(r"\W", "_", op.symbol, flags=re.ASCII): op.location for op in lowered.ops if op.symbol}
    artifact = assemble(lowered, target)
    for each in counted(artifact, target.cpu, None if _asks(artifact) else _BLOCKS):
        name = each.counters.kernel
        told = "; ".join(each.lines(target.gpu))
        remark(GPU, f"kernel @{name}: {told}", places.get(name, UNKNOWN))


def _asks(artifact: Artifact) -> bool:
    """Whether what kernels compute decides how often others run: then all of it has to be computed."""
    return any(not isinstance(step, Launch) for entry in artifact.entries for step in entry.steps)
