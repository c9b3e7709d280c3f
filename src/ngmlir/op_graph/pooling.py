# SPDX-License-Identifier: Apache-2.0
"""The functions of pooling under one path. Pooling is no op of its own: it is a reduction of windows."""

from __future__ import annotations

from .functions import pool as pool
from .functions import pooling as pooling
