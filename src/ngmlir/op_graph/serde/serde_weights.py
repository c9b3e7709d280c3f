# SPDX-License-Identifier: Apache-2.0
"""Values of state as bytes, by name: of a transformer, and back. `transformer.state()` does the same for all of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...support.spelling import did_you_mean
from ..errors import UserError, fail
from ..kept import kept, named
from ..node import Op

Values = Mapping[str, Any]
File = str | Path | IO[bytes]


def extract_op(transformer: Any, op: Op) -> np.ndarray[Any, Any]:
    """A copy of what a storage, or a view of one, holds in a transformer."""
    return transformer.get_tensor_view_value(op)


def extract_ops(transformer: Any, ops: Op | Iterable[Op]) -> dict[str, np.ndarray[Any, Any]]:
    """Copies of what the storage below some ops holds that keeps something from call to call, by name."""
    return {name: extract_op(transformer, op) for name, op in named(kept(_listed(ops))).items()}


def set_op_value(transformer: Any, op: Op, value: Any) -> None:
    """Writes a value to a storage, or a view of one, in a transformer."""
    transformer.get_op_tensor_view(op)[...] = value


def set_op_values(transformer: Any, ops: Op | Iterable[Op], values: Values) -> None:
    """Writes values by name to the storage below some ops. Raises UserError, and writes nothing, for an unknown name."""
    storages = named(kept(_listed(ops)))
    for name in values:
        if name not in storages:
            there = ", ".join(storages) or "none"
            hint = did_you_mean(name, storages)
            fail(UserError, f"there is no state called {name!r}; the names are {there}", hint)
    for name, value in values.items():
        set_op_value(transformer, storages[name], value)


def json_dumps_manifest(values: Values) -> str:
    """What arrays by name are, as JSON: `{name: {shape, dtype}}`."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    return json.dumps({n: {"shape": a.shape, "dtype": str(a.dtype)} for n, a in arrays.items()}, indent=2)


def write_np_values(values: Values, f: File) -> None:
    """Writes arrays by name to a file, a `.npz`: its path, or one that is open for bytes."""
    np.savez(f, **{name: np.asarray(value) for name, value in values.items()})  # type: ignore[arg-type]


def read_np_values(f: File) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of such a file."""
    with np.load(f, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def serialize_weights(transformer: Any, ops: Op | Iterable[Op]) -> bytes:
    """What the storage below some ops holds, as bytes."""
    written = io.BytesIO()
    write_np_values(extract_ops(transformer, ops), written)
    return written.getvalue()


def deserialize_weights(transformer: Any, ops: Op | Iterable[Op], data: bytes) -> None:
    """Writes such bytes to the storage below some ops, by name. Raises what `set_op_values` raises."""
    set_op_values(transformer, ops, read_np_values(io.BytesIO(data)))


def _listed(ops: Op | Iterable[Op]) -> list[Op]:
    return [ops] if isinstance(ops, Op) else [*ops]
