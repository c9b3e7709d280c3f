# SPDX-License-Identifier: Apache-2.0
"""Kernels of operators: other ways to compute them, by place, element type, layout and library.

A kernel is a composition of `ng` ops (a function like that of the operator), a function of NumPy arrays, or a tile op. The operator's
own function says what it computes, which types it gives, and its gradient; a kernel computes the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from ..decl.operator_text import OperatorEntry
from ..ir.types import Type
from ..op_graph.answers import answered
from ..op_graph.host_ops import HostDefinition
from ..op_graph.source import user_location
from ..op_graph.user_ops import Definition as OpDefinition
from ..op_graph.values import element_of
from ..runtime.targets import DEVICES
from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.registrations import Origin, Registrations
from ..support.spelling import did_you_mean
from .catalogue import REGISTRY
from .definition import python_name
from .plugins import PLUGINS

F = TypeVar("F")

ANY = "any"
#: The default library of kernels.
PLAIN = "plain"
#: Any device with separate memory.
GPU = "gpu"
#: Places whose kernels are called with arrays of the host.
HOSTS = tuple([name for name, device in DEVICES.items() if not device.has_memory])
#: Places that kernels are for.
PLACES = (ANY, *HOSTS, GPU, *[name for name, device in DEVICES.items() if device.has_memory])


@dataclass(eq=False)
class Kernel:
    """One way to compute an operator: a function of tensors, or one of NumPy arrays. `slots` are those whose tensors are in `layout`."""

    type: str
    function: Any
    place: str = ANY
    element: Type | None = None
    layout: str = ANY
    library: str = PLAIN
    slots: tuple[str, ...] = ()
    is_numpy: bool = False
    location: Location = field(default_factory=user_location)

    @property
    def label(self) -> str:
        """What operators call it: `cpu/f32/any/plain`."""
        element = ANY if self.element is None else str(self.element)
        return f"{self.place}/{element}/{self.layout}/{self.library}"

    @cached_property
    def _named(self) -> tuple[frozenset[str], bool]:
        """The arguments by name that it takes, and whether it takes any."""
        written = self.function
        if isinstance(written, OpDefinition):
            written = getattr(written, "text", None) or written.function
        if not callable(written):
            return frozenset(), False
        parameters = inspect.signature(written).parameters.values()
        names = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        return names, any(p.kind is p.VAR_KEYWORD for p in parameters)

    def arguments(self, entry: OperatorEntry, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes that it takes, by the names that it takes them by: those behind a `*`."""
        names, is_open = self._named
        found = {python_name(a.name): attributes[a.name] for a in entry.attributes if a.name in attributes}
        return {name: value for name, value in found.items() if is_open or name in names}


class Kernels:
    """All kernels, by type of operator."""

    def __init__(self) -> None:
        self._kernels: dict[str, dict[str, Kernel]] = {}
        self._names = Registrations()

    def add(self, kernel: Kernel) -> None:
        """UserError for an operator that there is not, or that has this kernel already."""
        REGISTRY.get(kernel.type)
        origin = (
            Origin.of(kernel.function, kernel.location)
            if inspect.isfunction(kernel.function)
            else Origin.at(kernel.location)
        )
        what = f"a kernel {kernel.label} of operator {kernel.type}"
        self._names.add((kernel.type, kernel.label), what, origin)
        self._kernels.setdefault(kernel.type, {})[kernel.label] = kernel

    def of(self, type: str) -> Sequence[Kernel]:
        """The kernels of an operator, those of packages that are installed too."""
        PLUGINS.load(type)
        return tuple(self._kernels.get(type, {}).values())

    def get(self, type: str, label: str, location: Location) -> Kernel:
        """The kernel that an operator names; UserError at its line with what there is."""
        there = {kernel.label: kernel for kernel in self.of(type)}
        if label not in there and PLUGINS.load():
            there = {kernel.label: kernel for kernel in self.of(type)}
        if label not in there:
            near = did_you_mean(label, there, listing(list(there.values())))
            raise UserError(Diagnostic(f"operator {type} has no kernel {label}", location, hint=near))
        return there[label]


KERNELS = Kernels()


def listing(kernels: Sequence[Kernel]) -> str:
    """Kernels by place, element type, layout and library."""
    return f"there are: {', '.join(k.label for k in kernels) or 'none'} (place/element type/layout/library)"


@answered
def kernel(
    type: str,
    *,
    place: str = ANY,
    dtype: Any = ANY,
    layout: str = ANY,
    library: str = PLAIN,
    slots: Sequence[str] | None = None,
    numpy: bool = False,
) -> Callable[[F], F]:
    """Registers a kernel of an operator: `@kernel("mul", place="cpu", dtype="float32")`.

    What is decorated is a function of `ng` ops, called as the operator's own function is; with `numpy=True` a function of NumPy arrays,
    called likewise; or what `ng.tile_op`, `ng.host_op` or `ng.composite_op` gives. It takes the inputs by position, those attributes
    that it has as parameters behind a `*`, and gives the outputs in the order of the entry.

    Args:
        place: `any`, `numpy`, `cpu`, `gpu` (`cuda` or `cuda-sim`), `cuda`, `cuda-sim`.
        dtype: the element type of the operator's first input, or `any`.
        layout: the order of the dimensions of what the `slots` hold (`NHWC`), or `any`.
        library: kernels of another library than `plain` are used where that library is asked for.
        slots: the slots that the layout is of: by default the first input and the first output.

    Raises UserError for an operator that there is not, and for a second kernel of the same place, type, layout and library.
    """
    if place not in PLACES:
        hint = did_you_mean(place, PLACES, f"one of {', '.join(PLACES)}")
        raise UserError(f"{place!r} is no place of kernels", user_location(), hint=hint)
    if numpy and place not in (ANY, *HOSTS):
        raise UserError(
            f"a function of NumPy arrays runs at no place {place}", user_location(), hint='place="cpu"'
        )
    element = None if isinstance(dtype, str) and dtype == ANY else element_of(dtype)
    entry = REGISTRY.get(type).entry
    known = [slot.name for slot in (*entry.inputs, *entry.outputs)]
    chosen = (
        tuple(slots)
        if slots is not None
        else tuple([s.name for s in (*entry.inputs[:1], *entry.outputs[:1])])
    )
    for name in chosen:
        if name not in known:
            hint = did_you_mean(name, known, f"it has {', '.join(known)}")
            raise UserError(f"operator {type} has no slot '{name}'", user_location(), hint=hint)
    location = user_location()

    def register(function: Any) -> Any:
        if not callable(function):
            raise UserError(
                f"{function!r} is no kernel of operator {type}",
                location,
                hint="give a function, or an op of a user's",
            )
        arrays = numpy or isinstance(function, HostDefinition)
        computes: object = function.function if isinstance(function, HostDefinition) else function
        KERNELS.add(Kernel(type, computes, place, element, layout, library, chosen, arrays, location))
        return function

    return register
