# SPDX-License-Identifier: Apache-2.0
"""What there is: dialects, ops and passes, from their own definitions."""

from __future__ import annotations

from collections.abc import Mapping

from ..decl.pipeline_text import Pipelines
from ..ir.core import Op
from ..ops.words import WORDS
from ..rewrite.contracts import contract_of
from ..rewrite.options import declared_options
from ..rewrite.pipeline import Passes, summary_of


def dialects(words: Mapping[str, type[Op]] = WORDS) -> str:
    """One line, as mlir-opt prints it."""
    return "Available Dialects: " + ", ".join(sorted({name.partition(".")[0] for name in words}))


def ops(words: Mapping[str, type[Op]] = WORDS) -> str:
    """Each op with its meaning."""
    return _table(
        [(name, cls.definition.doc if cls.definition else "") for name, cls in sorted(words.items())]
    )


def passes(known: Passes) -> str:
    """Each pass with its first sentence, the stages that it takes and gives, and its options with their defaults."""
    rows: list[tuple[str, str]] = []
    for name, function in sorted(known.items()):
        rows.append((name, summary_of(function)))
        rows.append(("", contract_of(function).stages))
        rows += [(f"  {option.assignment}", option.help) for option in declared_options(function).values()]
    return _table(rows)


def pipelines(known: Pipelines) -> str:
    """Each named pipeline with its steps."""
    rows = [(entry.name, entry.steps) for entry in known.entries]
    return "\nPipelines:\n" + _table(rows) if rows else ""


def _table(rows: list[tuple[str, str]]) -> str:
    width = max((len(name) for name, _ in rows), default=0)
    return "".join(f"{name:{width}}  {text}".rstrip() + "\n" for name, text in rows)
