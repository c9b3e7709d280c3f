# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification under one path: its function, and the class of what it gives."""

from __future__ import annotations

from .functions import ctc as ctc
from .functions.ctc import ctc as _made
from .user_ops import class_of

#: The class of what `ctc` gives.
CTCOp = class_of(_made)
