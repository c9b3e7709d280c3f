# SPDX-License-Identifier: Apache-2.0
"""Saving what computations keep from call to call, and putting it back bit for bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...op_graph.errors import UserError, fail
from ...op_graph.kept import kept, named
from ...op_graph.node import Op
from ...op_graph.source import user_location
from ...op_graph.state import AssignableTensorOp
from ...transformers import DeviceComputation, Transformer
from ...transformers.checkpoints import load, saved
from ..common.given import is_named, is_several
from .model import BoundComputation
from .saverfile import Path, SaverFile

Array = np.ndarray[Any, Any]


def _roots(computation: Any) -> list[Op]:
    if isinstance(computation, BoundComputation):
        return [computation.computation.computation_op]
    if isinstance(computation, DeviceComputation):
        return [computation.computation_op]
    if isinstance(computation, Op):
        return [computation]
    if is_named(computation):
        return _roots([*computation.values()])
    if is_several(computation):
        return [root for each in computation for root in _roots(each)]
    fail(UserError, f"{computation!r} is no computation", "give one, an op, or a list or dictionary of them")


class Saver:
    """Saves persistent tensors (variables, what optimizers and random numbers keep; no constants, no placeholders) by name.

    `saver.setup_save(transformer, computation)` and then `saver.save(file)` as often as wanted; `saver.setup_restore(...)`
    and `saver.restore()` in the same program or in another one that builds the same graph.
    """

    def __init__(self) -> None:
        self._to_save: tuple[Transformer, dict[str, AssignableTensorOp]] | None = None
        self._to_restore: tuple[Transformer, dict[str, AssignableTensorOp], SaverFile] | None = None

    def setup_save(self, transformer: Transformer, computation: Any) -> None:
        """What is to be saved: all that a computation (or an op, or a list or dictionary of them) keeps."""
        self._to_save = transformer, named(kept(_roots(computation)))

    def save(self, filename: Path = "weights", compress: bool = False) -> None:
        """Writes it to `.npz` or `.safetensors`, as the name says."""
        if self._to_save is None:
            fail(UserError, "it is not known what to save", "saver.setup_save(transformer, computation)")
        transformer, storages = self._to_save
        transformer.check_open()
        SaverFile(filename).write_values(saved(storages, transformer.storage_of), compress)

    def setup_restore(self, transformer: Transformer, computation: Any, filename: Path = "weights") -> None:
        """What is to be restored, and from which file."""
        self._to_restore = transformer, named(kept(_roots(computation))), SaverFile(filename)

    def restore(self) -> None:
        """Puts it back. Warns of what the file lacks; what it has besides is left out.

        Raises UserError, and changes nothing, for a file that cannot be read or is damaged, and for arrays of other
        shapes or types.
        """
        if self._to_restore is None:
            fail(
                UserError,
                "it is not known what to restore",
                "saver.setup_restore(transformer, computation, filename)",
            )
        transformer, storages, file = self._to_restore
        transformer.check_open()
        values = {name: _typed(array, storages.get(name)) for name, array in file.read_values().items()}
        load(values, storages, transformer.storage_of, strict=False)
        missing = [name for name in storages if name not in values]
        if missing:
            place = user_location()
            text = f"{file.name} has nothing for {', '.join(missing)}: they stay as they are"
            warnings.warn_explicit(text, UserWarning, place.file, place.line)


def _typed(array: Array, op: AssignableTensorOp | None) -> Array:
    """The small floats that NumPy's file form has no name for come back as bytes."""
    untyped = op is not None and array.dtype.kind == "V" and array.dtype.itemsize == op.dtype.itemsize
    return array.view(op.dtype) if op is not None and untyped else array
