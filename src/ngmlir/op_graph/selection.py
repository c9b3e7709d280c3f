# SPDX-License-Identifier: Apache-2.0
"""Finding ops by name, kind and metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from ..support.spelling import counted, did_you_mean
from .calls import listed, takes
from .errors import UserError, fail
from .node import Op

#: Of a metadata entry: the value itself, or a function that says whether a value is meant.
Wanted = Mapping[str, Any] | str | Iterable[str]


def select_ops(
    ops: Op | Iterable[Op],
    name: str | None = None,
    metadata: Wanted | None = None,
    kind: type[Any] | str | None = None,
    where: Callable[[Op], bool] | None = None,
) -> list[Op]:
    """Those of `ops` that are all of what is asked for, in the order given.

    Args:
        ops: the ops to look among, as `Op.ordered_ops([loss])` gives them; of one op, all that it needs.
        name: a whole name (`encoder/w1`), its last part (`w1`), or a pattern with `*` and `?` (`encoder/*`).
        metadata: a dictionary of entries that an op must have (a function says whether it wants a value), or the
            keys that it must have, whatever the values.
        kind: a class of ops, or its name (`AddOp`, `Add`).
        where: any other question.

    An op without a given name is found by the generated name that messages use. Raises UserError for what is no op.
    """
    given = Op.ordered_ops([ops]) if isinstance(ops, Op) else listed(ops, "ops")
    for op in given:
        if not isinstance(op, Op):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"{op!r} is not an op", "ng.select_ops(Op.ordered_ops([loss]), name=...)")
    if where is not None:
        takes(where, 1, "where")
    if not isinstance(name, (str, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"the name of an op must be a string, not {name!r}", 'name="encoder/*" is a pattern')
    entries = _entries(metadata)
    return [
        op
        for op in given
        if (name is None or _is_named(op, name))
        and (kind is None or _is_kind(op, kind))
        and all(key in op.metadata and _is_meant(op.metadata[key], want) for key, want in entries.items())
        and (where is None or where(op))
    ]


def find_op(ops: Op | Iterable[Op], name: str) -> Op:
    """The op of that name among `ops` (see `select_ops`); UserError if there is none, or more than one."""
    if isinstance(ops, Op):
        ops = Op.ordered_ops([ops])
    given = listed(ops, "ops")
    found = select_ops(given, name)
    whole = [op for op in found if op.name == name]
    if len(whole or found) == 1:
        return (whole or found)[0]
    if found:
        places = ", ".join(f"{op.name} of {op.location}" for op in found[:4])
        fail(
            UserError,
            f"{counted(len(found), 'op')} are called {name}: {places}",
            "use the whole name, with its scopes",
        )
    known = list(dict.fromkeys(op.given_name for op in given if op.given_name))
    fail(
        UserError,
        f"no op is called {name}",
        did_you_mean(name, known, f"names: {', '.join(known[:20]) or 'none'}"),
    )


def _is_named(op: Op, name: str) -> bool:
    names = {op.name, op.short_name, op.called}
    return name in names or any(fnmatchcase(each, name) for each in names)


def _is_kind(op: Op, kind: type[Any] | str) -> bool:
    if isinstance(kind, str):
        return any(c.__name__ in (kind, f"{kind}Op") for c in type(op).__mro__)
    return isinstance(op, kind)


def _entries(metadata: Wanted | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    if isinstance(metadata, Mapping):
        return dict(cast("Mapping[str, Any]", metadata))
    keys = [metadata] if isinstance(metadata, str) else listed(metadata, "keys")
    return dict.fromkeys(keys, _whatever)


def _whatever(value: Any) -> bool:
    return True


def _is_meant(value: Any, wanted: Any) -> bool:
    if callable(wanted) and not isinstance(wanted, type):
        return bool(wanted(value))
    return value is wanted or bool(value == wanted)
