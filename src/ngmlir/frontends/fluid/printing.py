# SPDX-License-Identifier: Apache-2.0
"""What operators `print` of a program show: values and gradients, once the program has run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ...programs.attributes import values_of
from ...programs.catalogue import REGISTRY
from ...programs.descriptions import Program as ProgramView
from ...programs.names import EMPTY, GRADIENT

Array = np.ndarray[Any, Any]


@dataclass
class Printed:
    """One variable that is shown: `shown` is under which name, `fetched` is under which name its value is found."""

    shown: str
    fetched: str
    said: dict[str, Any]
    left: int

    def show(self, value: Array) -> None:
        """Prints the value, unless it was printed as often as was asked for."""
        if not self.left:
            return
        self.left -= 1
        said = self.said
        lines: list[str] = []
        if said["message"]:
            lines.append(said["message"])
        if said["print_tensor_name"]:
            lines.append(f"variable {self.shown}")
        if said["print_tensor_type"]:
            lines.append(f"  element type: {value.dtype}")
        if said["print_tensor_shape"]:
            lines.append(f"  shape: {list(value.shape)}")
        count = value.size if said["summarize"] < 0 else min(said["summarize"], value.size)
        elements = ", ".join(str(v) for v in value.reshape(-1)[:count])
        lines.append(f"  elements: {elements}{', ...' if count < value.size else ''}")
        print("\n".join(lines), flush=True)


def printed_in(program: ProgramView) -> list[Printed]:
    """What the operators of the global block show."""
    found: list[Printed] = []
    entry = REGISTRY.get("print").entry
    for operator in program.top.operators:
        forward = operator.type == "print"
        if not forward and operator.type != "print_grad":
            continue
        said = values_of(entry, operator.dictionary)
        if said["print_phase"] == ("BACKWARD" if forward else "FORWARD"):
            continue
        # The result has a new name, since the operand may be overwritten later.
        (shown,), (fetched,) = operator.inputs["In"], operator.outputs["Out" if forward else "In" + GRADIENT]
        if fetched != EMPTY:
            found.append(Printed(shown if forward else shown + GRADIENT, fetched, said, said["first_n"]))
    return found


def show(printed: Iterable[Printed], values: Sequence[Any]) -> None:
    """Prints values in the order of the operators."""
    for each, value in zip(printed, values, strict=True):
        each.show(cast("Array", value) if isinstance(value, np.ndarray) else value.numpy())
