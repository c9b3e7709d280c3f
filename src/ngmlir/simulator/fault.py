# SPDX-License-Identifier: Apache-2.0
"""The error that stops a simulated kernel."""

from __future__ import annotations

from ..support.diagnostics import Location, NgmlirError


class SimulationFault(NgmlirError):
    """An error that a GPU would not report, or a kernel that would never end: `kind` names the rule that is broken.

    Kinds: "out of bounds", "misaligned", "read-only", "uninitialised", "race", "in flight", "fence", "not converged",
    "shuffle", "barrier", "registers", "trap", "deadlock", "endless".
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        kernel: str,
        line: int,
        source: str,
        block: tuple[int, int, int] | None = None,
        thread: int | None = None,
    ):
        self.kind = kind
        self.kernel = kernel
        self.line = line
        self.block = block
        self.thread = thread
        place = "" if block is None else f", block {block}"
        place += "" if thread is None else f", thread {thread}"
        super().__init__(
            f"{kind}: {message} (kernel {kernel}{place})", Location("<ptx>", line, 1), source=source
        )
