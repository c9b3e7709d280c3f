# SPDX-License-Identifier: Apache-2.0
"""How long the kernels of programs take, and compiling them: `with fluid.profiler.profiler("CPU"): executor.run(...)`.

It is the profile that transformers and `NGMLIR_TIMING` give (docs/graph.md): kernels with the lines that they come from. Inside,
programs are compiled again with timing code; programs that run outside are not slower.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

from ...runtime.timing import Profile, Row, listening, source
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean

__all__ = ["profiler", "reset_profiler", "start_profiler", "stop_profiler"]

_ORDERS: dict[str, Callable[[Row], float]] = {
    "calls": lambda row: row.calls,
    "total": lambda row: row.seconds,
    "max": lambda row: row.longest,
    "min": lambda row: row.shortest,
    "ave": lambda row: row.seconds / row.calls,
}


class _Running:
    """The profile that listens now."""

    profile: Profile | None = None
    end: ExitStack | None = None


def start_profiler(state: str) -> None:
    """Begins to note times. `state` is "CPU", "GPU" or "All", which are alike: programs note the times of the place where they run."""
    if state not in ("CPU", "GPU", "All"):
        hint = did_you_mean(state, ("CPU", "GPU", "All"), "CPU, GPU or All")
        raise UserError(f"a profiler has no state {state!r}", hint=hint)
    if _Running.end is not None:
        raise UserError("a profiler is running already", hint="fluid.profiler.stop_profiler() ends it")
    _Running.profile, _Running.end = Profile(), ExitStack()
    _Running.end.enter_context(listening(_Running.profile))


def stop_profiler(sorted_key: str | None = None, profile_path: str | None = None) -> None:
    """Ends it and prints a table of kernels: calls, seconds in total, the longest, the shortest and the mean call, and lines.

    `sorted_key` is "calls", "total" (also without one), "max", "min" or "ave". To `profile_path` a trace is written, which Perfetto and
    chrome://tracing show.
    """
    order = _order(sorted_key)
    profile, end = _Running.profile, _Running.end
    if profile is None or end is None:
        raise UserError("no profiler is running", hint="fluid.profiler.start_profiler('All') begins")
    _Running.profile = _Running.end = None
    end.close()
    print(_table(profile, order), flush=True)
    if profile_path is not None:
        profile.write(profile_path)


def reset_profiler() -> None:
    """Forgets the calls so far, such as those that warm up."""
    if _Running.profile is not None:
        _Running.profile.clear()


@contextmanager
def profiler(state: str, sorted_key: str | None = None, profile_path: str | None = None) -> Generator[None]:
    """Notes times inside, and prints the table of `stop_profiler` at the end."""
    _order(sorted_key)
    start_profiler(state)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def _order(sorted_key: str | None) -> Callable[[Row], float]:
    found = _ORDERS.get(sorted_key or "total")
    if found is None:
        hint = did_you_mean(str(sorted_key), _ORDERS, f"one of {', '.join(_ORDERS)}")
        raise UserError(f"a table of times is not sorted by {sorted_key!r}", hint=hint)
    return found


def _table(profile: Profile, order: Callable[[Row], float]) -> str:
    rows = sorted(profile.rows, key=order, reverse=True)
    if not rows:
        return "no kernel was timed"
    lines = ["   calls   total ms     max ms     min ms     ave ms  kernel, from"]
    for row in rows:
        times = (row.seconds, row.longest, row.shortest, row.seconds / row.calls)
        shown = " ".join(f"{1e3 * seconds:10.4f}" for seconds in times)
        lines.append(f"{row.calls:8} {shown}  {row.measure.kernel}, {source(row.measure) or '?'}")
    return "\n".join(lines)
