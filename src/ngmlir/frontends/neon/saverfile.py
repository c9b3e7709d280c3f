# SPDX-License-Identifier: Apache-2.0
"""Files of arrays by name: NumPy's `.npz`, and `.safetensors`."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...op_graph.errors import UserError, fail
from . import safetensors

__all__ = ["SaverFile"]

Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]


class SaverFile:
    """Arrays by name in a file: `.safetensors`, or else NumPy's `.npz`, which is added where it lacks."""

    def __init__(self, name: Path):
        given = os.fspath(name)
        self.name = given if given.endswith((".safetensors", ".npz")) else f"{given}.npz"

    def write_values(self, tensors: Mapping[str, Array], compress: bool = False) -> None:
        """Writes arrays; a file that was there stays whole until the new one is. `compress` is for .npz."""
        folder = os.path.dirname(os.path.abspath(self.name))
        try:
            with tempfile.NamedTemporaryFile(dir=folder, suffix=self.name[-4:], delete=False) as stream:
                made = stream.name
            try:
                if self.name.endswith(".safetensors"):
                    safetensors.write(made, tensors)
                else:
                    write: Any = np.savez_compressed if compress else np.savez
                    with open(made, "wb") as stream:
                        write(stream, **tensors)
                os.replace(made, self.name)
            except BaseException:
                os.unlink(made)
                raise
        except OSError as error:
            fail(UserError, f"{self.name} cannot be written: {error.strerror}")

    def read_values(self) -> dict[str, Array]:
        """The arrays by name. UserError for a file that is not there or is damaged."""
        if self.name.endswith(".safetensors"):
            return safetensors.read(self.name)
        try:
            with np.load(self.name, allow_pickle=False) as found:
                if isinstance(found, np.ndarray):
                    raise ValueError("it holds one array without a name")
                return {name: found[name] for name in found.files}
        except OSError as error:
            fail(UserError, f"{self.name} cannot be read: {error.strerror or error}")
        except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
            fail(UserError, f"{self.name} is no .npz file of arrays, or is damaged: {error}")
