# SPDX-License-Identifier: Apache-2.0
"""Layers: functions that append operators to the current block and give the variables of their results."""

from .io import data
from .made import *  # noqa: F403
from .made import __all__ as _made
from .nn import *  # noqa: F403
from .nn import __all__ as _nn
from .tensor import *  # noqa: F403
from .tensor import __all__ as _tensor

__all__ = ["data", *_made, *_nn, *_tensor]
