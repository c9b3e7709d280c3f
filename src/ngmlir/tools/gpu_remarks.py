# SPDX-License-Identifier: Apache-2.0
"""`--remark=gpu`: what each kernel of a program asks of a GPU, at the line that it comes from."""

from __future__ import annotations

import re

from ..compiler import assemble, lower
from ..ir.core import Module
from ..rewrite.remarks import listening, remark, wanted
from ..runtime.counted import counted
from ..support.diagnostics import UNKNOWN
from ..support.target import Target

#: The topic.
GPU = "gpu"


def tell(module: Module, target: Target) -> None:
    """Counts on the simulator what a program does for a GPU, where somebody listens and the target is one."""
    if not wanted(GPU) or target.code != "nvptx":
        return
    with listening((), lambda _: None):  # passes have told already
        lowered = lower(module, target)
    places = {re.sub(r"\W", "_", op.symbol, flags=re.ASCII): op.location for op in lowered.ops if op.symbol}
    for each in counted(assemble(lowered, target), target.cpu):
        name = each.counters.kernel
        told = "; ".join(each.lines(target.gpu))
        remark(GPU, f"kernel @{name}: {told}", places.get(name, UNKNOWN))
