# SPDX-License-Identifier: Apache-2.0
"""Folders and files that programs keep data in."""

from __future__ import annotations

import os
import shutil
import urllib.request

import platformdirs

__all__ = [
    "ensure_dirs_exist",
    "fetch_file",
    "get_data_cache_dir",
    "get_data_cache_or_nothing",
    "valid_path_append",
]


def ensure_dirs_exist(path: str) -> str:
    """Makes the folder that a path ends in, or that its file is in; gives the path, with `~` in full."""
    path = os.path.expanduser(path)
    if folder := os.path.dirname(path):
        os.makedirs(folder, exist_ok=True)
    return path


def get_data_cache_or_nothing(subdir: str = "") -> str | None:
    """The folder that `NGRAPH_DATA_CACHE_DIR` names, with `subdir` below it; None where it names none."""
    root = os.environ.get("NGRAPH_DATA_CACHE_DIR")
    return ensure_dirs_exist(os.path.join(root, subdir, "")) if root else None


def get_data_cache_dir(data_dir: str | None = None, subdir: str = "") -> str:
    """The folder for data: the one given, that of `NGRAPH_DATA_CACHE_DIR`, or that of the user's data; it is made."""
    root = data_dir or os.environ.get("NGRAPH_DATA_CACHE_DIR") or platformdirs.user_data_dir("ngmlir")
    return ensure_dirs_exist(os.path.join(root, subdir, ""))


def valid_path_append(path: str, *args: str) -> str | list[str]:
    """The path of each file name below a folder, which is made; one path for one name, the folder for none."""
    folder = ensure_dirs_exist(os.path.join(path, ""))
    found = [os.path.join(folder, name) for name in args]
    return folder if not found else found[0] if len(found) == 1 else found


def fetch_file(url: str, sourcefile: str, destfile: str, totalsz: int | None = None) -> None:
    """Copies `url/sourcefile` to a file, which appears when it is whole. `totalsz` is how many bytes it should have.

    Raises OSError where that fails, or where it has another size.
    """
    partial = f"{ensure_dirs_exist(destfile)}.part"
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/{sourcefile}") as source, open(partial, "wb") as file:
            shutil.copyfileobj(source, file)
        if totalsz is not None and os.path.getsize(partial) != totalsz:
            raise OSError(f"{sourcefile} has {os.path.getsize(partial)} bytes, not {totalsz}")
        os.replace(partial, destfile)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
