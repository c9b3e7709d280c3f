# SPDX-License-Identifier: Apache-2.0
"""The device `cuda`: NVIDIA GPUs through the CUDA driver API. Nothing of CUDA is imported before a device is opened."""

from .. import ptxas
from .device import CudaDevice
from .driver import DeviceLost, OutOfMemory, available

__all__ = ["CudaDevice", "DeviceLost", "OutOfMemory", "available", "ptxas"]
