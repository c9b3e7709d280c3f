# SPDX-License-Identifier: Apache-2.0
"""Arrays in files of NumPy, which people give to command lines."""

from __future__ import annotations

import zipfile
from typing import Any, TypeAlias, cast

import numpy as np

from .diagnostics import UserError

Array: TypeAlias = np.ndarray[Any, Any]


def read_arrays(path: str) -> Array | dict[str, Array]:
    """The array of a `.npy`, or those of a `.npz` by name. UserError for a file that cannot be read, or that holds other things."""
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return cast(Array, loaded)
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        text = str(error)
        # What NumPy says of all files that begin otherwise than its own: it takes them for pickles.
        foreign = "it has not the format of NumPy's files" if "pickle" in text else error
        reason = "Python objects are not read" if "Object arrays" in text else foreign
        raise UserError(
            f"'{path}' holds no arrays: {reason}", hint="use files of np.save or np.savez"
        ) from None
