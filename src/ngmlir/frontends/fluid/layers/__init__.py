# SPDX-License-Identifier: Apache-2.0
"""Layers: functions that append operators to the current block and give the variables of their results."""

from typing import Any

from . import images, io, learning_rate_scheduler, made, metrics, nn, shaping, tensor
from .images import *  # noqa: F403
from .io import *  # noqa: F403
from .learning_rate_scheduler import *  # noqa: F403
from .metrics import *  # noqa: F403
from .nn import *  # noqa: F403
from .shaping import *  # noqa: F403
from .tensor import *  # noqa: F403

_ROOMS = (images, io, learning_rate_scheduler, metrics, nn, shaping, tensor)
__all__ = sorted({*made.NAMES, *(name for room in _ROOMS for name in room.__all__)})  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """The layers that are one operator, made of its entry."""
    if name in made.NAMES:
        return made.layer(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
