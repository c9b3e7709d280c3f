# SPDX-License-Identifier: Apache-2.0
"""What several front ends share: sizes of windows, policies of learning rates."""

from __future__ import annotations

from . import learning_rate_policies, utils

__all__ = ["learning_rate_policies", "utils"]


def __dir__() -> list[str]:
    return sorted(__all__)
