# SPDX-License-Identifier: Apache-2.0
"""Statistics of the results of computations, recorded while a transformer is asked to, and written to a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ..op_graph.errors import UserError, fail
from ..op_graph.node import Op
from ..support.files import write_file


class OutputStatistics:
    """For each result of each computation: calls, minimum, maximum and mean, and the number of NaNs and infinities."""

    def __init__(self, file: str | Path | IO[str]):
        self.file = file
        self.rows: dict[str, dict[str, dict[str, float]]] = {}

    def note(self, computation: str, returns: Iterable[Op], results: Any) -> None:
        """Adds the results of a call."""
        for name, value in _named(returns, results):
            row = self.rows.setdefault(computation, {}).setdefault(name, {"calls": 0, "nonfinite": 0})
            array = np.asarray(value, np.float64)
            finite = array[np.isfinite(array)]
            row["calls"] += 1
            row["nonfinite"] += array.size - finite.size
            if finite.size:
                row["min"] = min(row.get("min", np.inf), float(finite.min()))
                row["max"] = max(row.get("max", -np.inf), float(finite.max()))
                row["mean"] = (
                    row.get("mean", 0.0) + (float(finite.mean()) - row.get("mean", 0.0)) / row["calls"]
                )

    def save(self) -> None:
        """Writes the statistics, as JSON: `{computation: {result: {calls, nonfinite, min, max, mean}}}`."""
        text = json.dumps(self.rows, indent=2) + "\n"
        if isinstance(self.file, (str, Path)):
            write_file(str(self.file), [text.encode()])
        else:
            self.file.write(text)


def _named(returns: Iterable[Op], results: Any) -> Iterable[tuple[str, Any]]:
    """The arrays of a call's results, by name."""
    named: Iterable[tuple[str, Any]]
    if isinstance(results, Mapping):
        of = cast("Mapping[Any, Any]", results)
        named = [(key.called if isinstance(key, Op) else str(key), value) for key, value in of.items()]
    else:
        values = cast("tuple[Any, ...]", results) if isinstance(results, tuple) else (results,)
        named = [(op.called, value) for op, value in zip(returns, values, strict=False)]
    return [(name, value) for name, value in named if value is not None]


class Watched:
    """The methods of transformers for these statistics."""

    #: The statistics to which computations add; None if they are off.
    statistics: OutputStatistics | None = None

    def set_output_statistics_file(self, statistics_file: str | Path | IO[str] | None) -> None:
        """Records statistics of results from now on, for a file: a path, or a file open for text. None stops it."""
        self.statistics = None if statistics_file is None else OutputStatistics(statistics_file)

    def save_output_statistics_file(self) -> None:
        """Writes the statistics recorded so far, as JSON. Raises UserError where no file was set."""
        if self.statistics is None:
            fail(
                UserError,
                "no statistics file was set: call set_output_statistics_file",
                't.set_output_statistics_file("outputs.json")',
            )
        self.statistics.save()
