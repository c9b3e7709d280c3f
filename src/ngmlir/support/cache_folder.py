# SPDX-License-Identifier: Apache-2.0
"""Where what was found out once is kept for later: a folder of this user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs


def cache_folder() -> Path | None:
    """The folder that the environment asks for (NGMLIR_CACHE_DIR), or None if it wants none (NGMLIR_CACHE=0)."""
    if os.environ.get("NGMLIR_CACHE", "1").lower() in ("0", "off", "false", "no"):
        return None
    return Path(os.environ.get("NGMLIR_CACHE_DIR") or platformdirs.user_cache_dir("ngmlir"))


def is_private(folder: Path) -> bool:
    """Whether only this user can write to the folder; OSError where there is none."""
    if not hasattr(os, "getuid"):
        return folder.is_dir()
    status = os.stat(folder)
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
