# SPDX-License-Identifier: Apache-2.0
"""Computations in files: the text of `op_graph.archive`, with large arrays in a second file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ir.core import Module
from ..ir.printer import to_text
from ..ir.resource_files import ResourceWriter
from ..op_graph.archive import INITIALIZE, from_module, storages_of
from ..op_graph.archive import to_module as archived
from ..op_graph.computation import Computation, computation
from ..op_graph.errors import UserError, fail
from ..op_graph.node import Op
from ..op_graph.state import AssignableTensorOp
from ..ops.words import from_text
from ..programs.models import is_model
from ..support.files import write_files
from .checkpoints import State, saved
from .computations import DeviceComputation
from .open_functions import open_functions
from .program_models import read_program
from .saved_lengths import saved_lengths

#: What can be saved: ops, or a computation; one of a transformer is saved with the present contents of its state.
Saveable = Computation | DeviceComputation | Op | Sequence[Op]


def save(path: str | Path, what: Saveable | Mapping[str, Saveable], state: State | None = None) -> None:
    """Writes computations, and the state that they keep between calls, to a `.ngir` file; `ng.load` reads it.

    Args:
        path: the file; large arrays go to a second file of the same name ending in `.bin`.
        what: a computation, or several by name. One of a transformer is saved with the present values of its state, one of
            `ng.computation` (or just its ops, whose placeholders are then all fed) with its initial values.
        state: values to save instead, as returned by `state()` of a computation or transformer.

    The length of the batch axis, or of one that is not set, stays open (`tensor<[N]x4xf32>`) if one program can be written
    for every length: the loaded computation then takes arrays of any. Other lengths are the present ones of their axes.
    Raises UserError if one is not set, if two storages have the same name, and for unknown names in `state`.
    """
    if isinstance(path, (Computation, DeviceComputation, Op)):
        fail(UserError, "the first argument is the path", 'ng.save("model.ngir", computation)')
    path = Path(path)
    made = to_module(what, state)
    beside = ResourceWriter(path.with_suffix(".bin").name)
    text = to_text(made, file=beside)
    weights = {str(path.with_suffix(".bin")): beside.pieces()} if beside.parts else {}
    write_files({**weights, str(path): [text.encode()]})


def load(path: str | Path) -> Any:
    """The computation in a file of `ng.save`, or several as a dictionary: for `ng.compile`, a transformer, or to build
    on.

    Its parameters are the ops that are fed, in order; its state starts with the values that were saved (arrays in the
    second file are memory-mapped, and read when they are used). A `.ngir` file of another origin can be loaded too: all
    arguments are fed, except those to which a function `@initialize` gives values. Functions with open lengths
    (`tensor<?x4xf32>`) can only be passed to `ng.compile`, which makes functions of arrays of any length. So can
    programs for inference, which `fluid.io.save_inference_model` writes to a folder: `path` is the folder, or the file
    of the program in it. Raises UserError for other files.
    """
    path = Path(path)
    if is_model(path):
        return read_program(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read '{path}': {error}") from None
    whole = from_text(text, file=str(path), resources=path.parent)
    saved_here = any("ng.parameters" in op.attributes for op in whole.ops)
    made = from_module(whole) if saved_here else open_functions(whole) or from_module(whole)
    return made["main"] if [*made] == ["main"] else made


# ---- to a module


def to_module(what: Saveable | Mapping[str, Saveable], state: State | None = None) -> Module:
    """The module that is written to a file."""
    given = what if isinstance(what, Mapping) else {"main": what}
    if not given or INITIALIZE in given or not all(isinstance(name, str) for name in given):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"computations cannot be named {list(given)}", f"any names but {INITIALIZE!r}")
    made = {name: _computation(each) for name, each in given.items()}
    if state is None:
        state = _now(
            [each for each in given.values() if isinstance(each, DeviceComputation)], storages_of(made)
        )
    return archived(made, state, {name: saved_lengths(each) for name, each in made.items()})


def _computation(what: Saveable) -> Computation:
    if isinstance(what, DeviceComputation):
        return what.computation_op
    return what if isinstance(what, Computation) else computation(what, "all")


def _now(
    computations: Sequence[DeviceComputation], storages: Mapping[str, AssignableTensorOp]
) -> State | None:
    """The present contents of state; None if no computation belongs to a transformer."""
    if not computations:
        return None
    transformer = computations[0].transformer
    if any(each.transformer is not transformer for each in computations):
        fail(UserError, "the computations belong to several transformers, and each has its own state")
    transformer.check_open()
    return saved(storages, transformer.storage_of)
