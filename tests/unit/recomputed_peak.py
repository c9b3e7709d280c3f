# SPDX-License-Identifier: Apache-2.0
"""Measures the memory of one run of a training step that is held to 60 % of its temporaries, by what the kernel of the system says
of this process; prints it behind what was told before the run.

    python recomputed_peak.py NETWORK
"""

from __future__ import annotations

import ctypes
import gc
import sys

import numpy as np
from peak_memory import resident, warm_up, without_huge_pages
from recomputed_networks import NETWORKS, kept

import ngmlir as ng

#: Large enough that what a run brings along does not count.
SIZES = {
    "mlp": {"depth": 32, "width": 512, "batch": 4096},
    "convnet": {"depth": 8, "channels": 16, "size": 32, "batch": 128},
    "transformer": {"depth": 6, "width": 128, "heads": 4, "length": 128, "batch": 16},
}


def main(name: str) -> None:
    without_huge_pages()
    warm_up()
    step = NETWORKS[name](kept, **SIZES[name])
    asked = [step.returns[0], step.returns[-1]]
    peak = ng.compile(asked, step.fed).report().peak
    computation = ng.compile(asked, step.fed, memory_limit=peak * 6 // 10)
    told = computation.report().peak
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    # From here on memory is that of temporaries.
    loss, _ = computation(*step.arrays)
    print(told, resident() - before)
    assert np.isfinite(loss) and told <= peak * 0.6


if __name__ == "__main__":
    main(sys.argv[1])
