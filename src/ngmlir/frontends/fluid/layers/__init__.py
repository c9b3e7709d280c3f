# SPDX-License-Identifier: Apache-2.0
"""Layers: functions that append operators to the current block and give the variables of their results."""

from typing import Any

from ....op_graph.answers import answer_all, answered
from ....op_graph.errors import no_attribute
from . import (
    beams,
    control_flow,
    dynamic_rnn,
    functional,
    images,
    io,
    labelling,
    later,
    learning_rate_scheduler,
    made,
    metrics,
    nn,
    recurrent,
    resizing,
    sequences,
    shaping,
    static_rnn,
    tensor,
)
from .beams import *  # noqa: F403
from .control_flow import *  # noqa: F403
from .dynamic_rnn import *  # noqa: F403
from .functional import *  # noqa: F403
from .images import *  # noqa: F403
from .io import *  # noqa: F403
from .labelling import *  # noqa: F403
from .later import *  # noqa: F403
from .learning_rate_scheduler import *  # noqa: F403
from .metrics import *  # noqa: F403
from .nn import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .resizing import *  # noqa: F403
from .sequences import *  # noqa: F403
from .shaping import *  # noqa: F403
from .static_rnn import *  # noqa: F403
from .tensor import *  # noqa: F403

_WRITTEN = {
    name
    for room in (
        beams,
        control_flow,
        dynamic_rnn,
        functional,
        images,
        io,
        labelling,
        later,
        learning_rate_scheduler,
        metrics,
        nn,
        recurrent,
        resizing,
        sequences,
        shaping,
        static_rnn,
        tensor,
    )
    for name in room.__all__
}
__all__ = sorted({*made.NAMES, *_WRITTEN})  # pyright: ignore[reportUnsupportedDunderAll]
answer_all(globals(), _WRITTEN, "fluid.layers", methods=True, undone=True)


def __dir__() -> list[str]:
    return sorted({*globals(), *made.NAMES})


def __getattr__(name: str) -> Any:
    """The layers that are one operator, made of its entry; those of users too."""
    if name not in made.NAMES and made.is_of_user(name):
        return made.layer_of(name)
    if name not in made.NAMES:
        no_attribute(__name__, name, __all__)
    globals()[name] = found = answered(made.layer(name), f"fluid.layers.{name}", undone=True)
    return found
