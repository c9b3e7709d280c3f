# SPDX-License-Identifier: Apache-2.0
"""The files of a folder: JSON, and tensors, which are mapped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ...support.diagnostics import Limit, UserError
from ...support.mapping import mapped
from ..common.safetensors import places
from ..decoders.formats import FORMATS
from ..decoders.weights import Weight

#: JSON files are no longer than this.
_LONGEST = 1 << 28
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def json_of(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds; None where there is no such file. UserError for one that is no dictionary."""
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > _LONGEST:
            raise UserError(f"'{path}' has {path.stat().st_size:,} bytes")
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise UserError(f"'{path}' is no dictionary")
    return cast("dict[str, Any]", found)


class Tensors:
    """The tensors of a folder by name. UserError where files are missing or damaged."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._found: dict[str, Weight | str] = {}
        self._read_names = set[str]()
        for name in self._names():
            self._read(folder / name)

    def _names(self) -> list[str]:
        index = json_of(self.folder / _INDEX)
        if index is None:
            return [_SINGLE]
        named = index.get("weight_map")
        if not isinstance(named, Mapping) or not named:
            raise UserError(f"'{self.folder / _INDEX}' has no weight_map")
        files = sorted({str(file) for file in cast("Mapping[str, Any]", named).values()})
        for file in files:
            if Path(file).name != file:
                raise UserError(
                    f"'{self.folder / _INDEX}' names the file '{file}', which is not in its folder"
                )
        return files

    def _read(self, path: Path) -> None:
        try:
            with path.open("rb") as stream:
                content = mapped(stream.fileno())
        except OSError as error:
            raise UserError(f"'{path}' cannot be read: {error.strerror}") from None
        found, data = places(path, content)
        for name, (kind, shape, start, end) in found.items():
            if name in self._found:
                raise UserError(f"the tensor {name} is in '{path}' and in another file")
            known = FORMATS.get(kind)
            usable = known is not None and known.element is not None
            self._found[name] = Weight(name, shape, known, data[start:end]) if known and usable else kind

    def unread(self) -> list[str]:
        """The tensors that `weight` was not asked for, but for those that follow from others: frequencies of positions, and
        the output where it is the embedding."""
        return [
            name
            for name in self._found
            if name not in self._read_names
            and name != "lm_head.weight"
            and not name.endswith("rotary_emb.inv_freq")
        ]

    def weight(self, name: str) -> Weight | None:
        """A tensor; None where there is none. Limit for elements of a type that is not supported."""
        found = self._found.get(name)
        self._read_names.add(name)
        if isinstance(found, str):
            raise Limit(
                f"the tensor {name} in '{self.folder}' has elements of type {found}, which is not supported",
                hint="supported types: F32, F16, BF16",
            )
        return found
