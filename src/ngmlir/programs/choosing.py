# SPDX-License-Identifier: Apache-2.0
"""Which kernel computes an operator at a place, and why.

1. What the operator names: its attribute `kernel`, or `library` and `place`, which must match; `use_<library> = true` if there is one.
2. Of what fits as it is, kernels of users before the operator's own function; of these the one of exactly this place, then of exactly
   this element type, then of this layout.
3. A kernel of another place, element type or layout, where the operator asks for it, or has no function of its own; the one that takes
   fewest changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.types import FloatType, TensorType, Type
from ..runtime.targets import DEVICES, device_named
from ..support.diagnostics import Diagnostic, UserError
from .attributes import values_of
from .catalogue import REGISTRY
from .descriptions import Operator
from .infer import types_of
from .kernel_values import native_layout
from .kernels import ANY, GPU, HOSTS, KERNELS, PLAIN, Kernel, listing
from .sparse_rows import whole_type


@dataclass(frozen=True)
class Choice:
    """A kernel (None: the operator's own function), the reason, and what the operator's tensors are changed to for it."""

    kernel: Kernel | None
    reason: str
    place: str = ""
    element: Type | None = None
    layout: str = ""
    situation: Situation | None = None

    @property
    def changes(self) -> int:
        return bool(self.place) + (self.element is not None) + bool(self.layout)


@dataclass(frozen=True)
class Situation:
    """What an operator works on: the place of the program, the element type and the layout of its tensors."""

    place: str
    element: Type | None
    layout: str
    rank_of_layout: bool

    @staticmethod
    def of(operator: Operator, place: str) -> Situation:
        types = [whole_type(t) for _, each in types_of(operator) for t in each]
        outputs = [operator.block.visible(n, operator.location).type for n in operator.writes]
        known: Sequence[TensorType] = [t for t in types if t is not None] or outputs
        layout = native_layout(values_of(REGISTRY.get(operator.type).entry, operator.dictionary))
        return Situation(
            place,
            known[0].element if known else None,
            layout,
            bool(known) and len(known[0].shape) == len(layout),
        )

    def __str__(self) -> str:
        layout = f", {self.layout}" if self.rank_of_layout else ""
        return f"{self.place}, {self.element}{layout}"


def choose(operator: Operator, place: str, library: str = "") -> Choice:
    """The kernel that computes an operator of a program that runs at `place`; `library` is preferred where it has one.

    UserError, at the operator's line, where it asks for what there is not.
    """
    definition = REGISTRY.get(operator.type)
    attributes = operator.attributes
    if label := attributes.get("kernel"):
        return Choice(KERNELS.get(operator.type, label, operator.location), "the operator names it")
    kernels = KERNELS.of(operator.type)
    demanded, there = attributes.get("library", ""), attributes.get("place", "")
    has_own = not definition.needs_kernel
    if not kernels and has_own and not demanded and not there:
        return Choice(None, "no kernel is registered for it")
    situation = Situation.of(operator, place)
    preferred = [
        name.removeprefix("use_")
        for name, value in attributes.items()
        if name.startswith("use_") and value is True
    ]
    preferred += [library] if library else []
    if demanded or there or not has_own:
        wanted = [k for k in kernels if (not demanded or k.library == demanded) and there in ("", k.place)]
        if not demanded:
            wanted = [k for k in wanted if k.library in (PLAIN, *preferred)]
        options = [c for k in wanted if (c := _reached(k, situation)) is not None]
        if not options:
            raise _none(operator, situation, kernels, demanded, there, has_own)
        return min(options, key=lambda c: (c.changes, _rank(c.kernel, situation, preferred)))
    fitting = [k for k in kernels if not _misfit(k, situation)]
    for asked in preferred:
        if found := [k for k in fitting if k.library == asked]:
            return Choice(_best(found, situation, preferred), f"the library {asked} is asked for")
    if found := [k for k in fitting if k.library == PLAIN]:
        best = _best(found, situation, preferred)
        return Choice(
            best, f"{_how_exact(best, situation)}; kernels of users come before the operator's own function"
        )
    misfits = [
        f"{k.label} is not taken: {_misfit(k, situation) or f'the library {k.library} is not asked for'}"
        for k in kernels
    ]
    return Choice(None, "; ".join(misfits))


def _best(kernels: Sequence[Kernel], situation: Situation, preferred: Sequence[str]) -> Kernel:
    return min(kernels, key=lambda k: _rank(k, situation, preferred))


def _rank(kernel: Kernel | None, situation: Situation, preferred: Sequence[str]) -> tuple[int, ...]:
    """Lower for what is asked for, and more exact."""
    assert kernel is not None
    place = 0 if kernel.place == device_named(situation.place).kind else 2 if kernel.place == ANY else 1
    return (kernel.library not in preferred, place, kernel.element is None, kernel.layout == ANY)


def _how_exact(kernel: Kernel, situation: Situation) -> str:
    exact = [
        what
        for what, is_exact in (
            (situation.place, kernel.place != ANY),
            (str(situation.element), kernel.element is not None),
            (situation.layout, kernel.layout != ANY),
        )
        if is_exact
    ]
    return f"it is for {', '.join(exact)}" if exact else "it is for any place and element type"


def _at(kernel: Kernel, place: str) -> bool:
    device = device_named(place)
    return kernel.place in (ANY, device.kind) or (kernel.place == GPU and device.has_memory)


def _misfit(kernel: Kernel, situation: Situation) -> str:
    """Why a kernel does not fit as it is; '' where it does."""
    if not _at(kernel, situation.place):
        return f"the program runs at {situation.place}"
    if kernel.element not in (None, situation.element):
        return f"the elements are {situation.element}"
    if kernel.layout == ANY:
        return ""
    if not situation.rank_of_layout:
        return f"its tensors have no {len(kernel.layout)} dimensions"
    return "" if kernel.layout == situation.layout else f"the layout is {situation.layout}"


def _reached(kernel: Kernel, situation: Situation) -> Choice | None:
    """A kernel with what has to change for it; None where that cannot be."""
    place, layout, element = "", "", None
    if not _at(kernel, situation.place):
        if kernel.place not in HOSTS or (DEVICES[kernel.place].compiles and not kernel.is_numpy):
            return None
        place = kernel.place
    if kernel.element not in (None, situation.element):
        if not isinstance(kernel.element, FloatType) or not isinstance(situation.element, FloatType):
            return None
        element = kernel.element
    if kernel.layout not in (ANY, situation.layout):
        if not situation.rank_of_layout or sorted(kernel.layout) != sorted(situation.layout):
            return None
        layout = kernel.layout
    elif kernel.layout != ANY and not situation.rank_of_layout:
        return None
    why = f"the library {kernel.library} is asked for" if kernel.library != PLAIN else "it is asked for"
    return Choice(kernel, why, place, element, layout, situation)


def _none(
    operator: Operator,
    situation: Situation,
    kernels: Sequence[Kernel],
    library: str,
    place: str,
    has_own: bool,
) -> UserError:
    asked = "".join([f" of library '{library}'" if library else "", f" at place '{place}'" if place else ""])
    message = f"operator {operator.type} has no kernel{asked} for {situation}"
    own = "; without library and place it runs its own function" if has_own else ""
    return UserError(Diagnostic(message, operator.location, hint=listing(kernels) + own))
