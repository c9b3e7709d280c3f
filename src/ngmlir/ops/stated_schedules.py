# SPDX-License-Identifier: Apache-2.0
"""Schedules as ops state them: the settings of one op, those of several ops merged, and their errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..ir.attributes import ArrayAttr, Attribute, DictAttr, IntegerAttr, StringAttr
from ..ir.core import Op, op_name
from ..ir.types import i1
from ..support.diagnostics import Diagnostic, UserError
from ..support.spelling import did_you_mean
from .schedules import SCHEDULE, families, stated
from .settings import Given, Setting, setting_attribute


def given_by(op: Op) -> Given:
    """The settings in the schedule of a valid op; empty if it has none."""
    attribute = op.attributes.get(SCHEDULE)
    return {name: _read(s) for name, s in attribute.items} if isinstance(attribute, DictAttr) else {}


def merged(ops: Iterable[Op], kind: str | None) -> Given:
    """The merged settings of the ops of a fusion of a kind (None: of any); UserError if they contradict each other, or no such
    fusion has them."""
    out: dict[str, Setting] = {}
    sources: dict[str, Op] = {}
    for op in ops:
        for name, setting in given_by(op).items():
            if out.setdefault(name, setting) != setting:
                before = Diagnostic(
                    f"'{op_name(sources[name])}' says {out[name]}", sources[name].location, "note"
                )
                message = (
                    f"'{op_name(op)}' is fused with an op whose schedule says otherwise: {name} = {setting}"
                )
                raise UserError(Diagnostic(message, op.location, notes=(before,)))
            sources.setdefault(name, op)
    if sources and (wrong := list(complaints(out, kind))):
        place = next(iter(sources.values()))
        notes = (Diagnostic(f"it is fused by kind '{kind}'", place.location, "note"),) if kind else ()
        raise UserError(
            [
                Diagnostic(f"'{op_name(place)}': {d.message}", place.location, hint=d.hint, notes=notes)
                for d in wrong
            ]
        )
    return out


def _read(attribute: Attribute) -> Any:
    match attribute:
        case IntegerAttr() if attribute.type is i1:
            return bool(attribute.value)
        case IntegerAttr() | StringAttr():
            return attribute.value
        case ArrayAttr():
            return tuple([_read(item) for item in attribute.items])
        case _:
            return attribute  # no knob accepts this


def schedule_complaints(name: str, attributes: Mapping[str, Attribute]) -> Iterator[Diagnostic]:
    """Why the schedule that an op of a name states cannot be built on any machine."""
    attribute = attributes[SCHEDULE]
    if not isinstance(attribute, DictAttr):
        yield Diagnostic(f"'{SCHEDULE}' must be a dictionary of settings, not {attribute}")
        return
    named = attributes.get("kind") if name == "ng.fusion" else None
    kind = named.value if isinstance(named, StringAttr) else None
    for found in complaints({name: _read(setting) for name, setting in attribute.items}, kind):
        yield dataclasses.replace(found, message=f"has a schedule that cannot be: {found.message}")


def complaints(given: Given, kind: str | None = None) -> Iterator[Diagnostic]:
    """Why some settings cannot be built in a fusion of a kind (None: of any)."""
    there = families(kind, {})
    named = given.get("by")
    if named is not None:
        there = [family for family in there if family.by == named]
        if not there:
            known = [family.by for family in families(kind, {})]
            of = f" of fusions of kind '{kind}'" if kind else ""
            hint = did_you_mean(str(named), known, f"use one of {', '.join(known)}")
            yield Diagnostic(f"there are no kernels{of} by '{named}'", hint=hint)
            return
    found = False
    for name, setting in stated(given).items():
        knobs = [family.knobs()[name] for family in there if name in family.knobs()]
        if not knobs:
            known = sorted({name for family in there for name in family.knobs()})
            hint = did_you_mean(name, known, f"the settings: {', '.join(known)}")
            yield Diagnostic(f"a schedule has no setting '{name}' here", hint=hint)
            found = True
        elif not any(knob.accepts(setting) for knob in knobs):
            takes = " or ".join(dict.fromkeys(knob.takes for knob in knobs))
            yield Diagnostic(f"setting '{name}' takes {takes}, not {setting_attribute(setting).text}")
            found = True
    if found:
        return
    fitting = families(kind, given)
    if not fitting:
        yield Diagnostic(
            f"no kind of kernel has all of the settings {', '.join(stated(given))} with these values"
        )
    elif len(fitting) == 1 and not fitting[0].open(given):
        whole = fitting[0](**stated(given))
        yield from map(Diagnostic, whole.conflicts())
