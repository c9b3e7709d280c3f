# SPDX-License-Identifier: Apache-2.0
"""The functions of convolution under one path. A convolution is no op of its own: it is a product of windows."""

from __future__ import annotations

from .functions import convolution as convolution
from .functions import convolve as convolve
from .functions import deconvolution as deconvolution
from .functions import deconvolve as deconvolve
