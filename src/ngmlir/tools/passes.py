# SPDX-License-Identifier: Apache-2.0
"""All passes that a pipeline may name: those on programs of named variables, and those on values."""

from __future__ import annotations

from ..passes.registry import PASSES as _ON_VALUES
from ..programs.passes import PROGRAM_PASSES
from ..rewrite.pipeline import Pass

PASSES: dict[str, Pass] = {**PROGRAM_PASSES, **_ON_VALUES}
