# SPDX-License-Identifier: Apache-2.0
"""The results of a call of a model: in order, and by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..support.diagnostics import UserError
from ..support.spelling import did_you_mean


class Outputs(tuple[Any, ...]):
    """The results in order, a tuple; `outputs["name"]` is the result of that name."""

    names: tuple[str, ...] = ()

    @staticmethod
    def of(names: Sequence[str]) -> type[Outputs]:
        """A subclass with these names: storing the names in each tuple would take longer than making the tuple."""
        return type("Outputs", (Outputs,), {"names": tuple(names), "__module__": __name__})

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise UserError(f"there is no output '{key}'", hint=did_you_mean(key, self.names))
            return super().__getitem__(self.names.index(key))
        return super().__getitem__(key)

    def __repr__(self) -> str:
        return f"Outputs({', '.join(self.names)})"

    def __reduce__(self) -> Any:
        return _outputs, (self.names, tuple(self))


def _outputs(names: Sequence[str], results: Sequence[Any]) -> Outputs:
    return Outputs.of(names)(results)
