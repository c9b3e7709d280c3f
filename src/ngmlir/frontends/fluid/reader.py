# SPDX-License-Identifier: Apache-2.0
"""Readers: functions that give an iterator of rows, and functions of such functions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from threading import Thread
from typing import Any, cast

from ...support.diagnostics import UserError

Reader = Callable[[], Iterable[Any]]

__all__ = [
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "shuffle",
    "xmap_readers",
]


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Callable[[], Iterator[list[Any]]]:
    """Lists of so many rows; the last one may be shorter, or is left out with `drop_last`."""
    if batch_size < 1:
        raise UserError(f"a batch has one row or more, not {batch_size}")

    def read() -> Iterator[list[Any]]:
        rows: list[Any] = []
        for row in reader():
            rows.append(row)
            if len(rows) == batch_size:
                yield rows
                rows = []
        if rows and not drop_last:
            yield rows

    return read


def map_readers(func: Callable[..., Any], *readers: Reader) -> Callable[[], Iterator[Any]]:
    """What a function gives of the rows of several readers."""
    return lambda: map(func, *[reader() for reader in readers])


def shuffle(reader: Reader, buf_size: int) -> Callable[[], Iterator[Any]]:
    """The rows in another order: each stretch of so many is shuffled."""

    def read() -> Iterator[Any]:
        rows = iter(reader())
        while part := list(itertools.islice(rows, buf_size)):
            random.shuffle(part)
            yield from part

    return read


def chain(*readers: Reader) -> Callable[[], Iterator[Any]]:
    """The rows of one reader after those of the other."""
    return lambda: itertools.chain(*[reader() for reader in readers])


def compose(*readers: Reader, check_alignment: bool = True) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Rows that hold what all readers give, in one tuple. Raises UserError where one ends before another, unless `check_alignment` is
    off."""

    def parts(row: Any) -> tuple[Any, ...]:
        return cast("tuple[Any, ...]", row) if isinstance(row, tuple) else (row,)

    def read() -> Iterator[tuple[Any, ...]]:
        try:
            for rows in zip(*[reader() for reader in readers], strict=check_alignment):
                yield tuple(itertools.chain(*map(parts, rows)))
        except ValueError:
            raise UserError("the readers that are composed have different numbers of rows") from None

    return read


def firstn(reader: Reader, n: int) -> Callable[[], Iterator[Any]]:
    """The first n rows."""
    return lambda: itertools.islice(reader(), n)


def cache(reader: Reader) -> Callable[[], Iterator[Any]]:
    """The rows, which are read once and kept."""
    rows: list[Any] | None = None

    def read() -> Iterator[Any]:
        nonlocal rows
        if rows is None:
            rows = list(reader())
        return iter(rows)

    return read


def buffered(reader: Reader, size: int) -> Callable[[], Iterator[Any]]:
    """The rows, of which so many are read ahead, by a thread."""
    end = object()

    def read() -> Iterator[Any]:
        queue: Queue[Any] = Queue(maxsize=size)

        def fill() -> None:
            try:
                for row in reader():
                    queue.put((row, None))
                queue.put((end, None))
            except Exception as error:  # it is raised where the rows are read
                queue.put((end, error))

        Thread(target=fill, daemon=True).start()
        while True:
            row, error = queue.get()
            if error is not None:
                raise error
            if row is end:
                return
            yield row

    return read


def xmap_readers(
    mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False
) -> Callable[[], Iterator[Any]]:
    """What a function gives of each row, computed by so many threads, at most `buffer_size` ahead; in the order of the rows."""

    def read() -> Iterator[Any]:
        with ThreadPoolExecutor(process_num) as pool:
            rows = iter(reader())
            pending = [pool.submit(mapper, row) for row in itertools.islice(rows, buffer_size)]
            while pending:
                yield pending.pop(0).result()
                pending += [pool.submit(mapper, row) for row in itertools.islice(rows, 1)]

    return read
