# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver library without a GPU: the real `cuda-bindings` call it, the simulator runs the kernels, and what programs
may not do is noted."""

from .driver import Fake, fake, missing
from .machine import Machine

__all__ = ["Fake", "Machine", "fake", "missing"]
