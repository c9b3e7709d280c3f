# SPDX-License-Identifier: Apache-2.0
"""The limits of a launch, which the driver or the assembler enforces."""

from __future__ import annotations

from math import prod

from ..support.diagnostics import Limit, Location, UserError
from ..support.machines import GPU_REGISTERS, machines
from .program import Function

#: Blocks and threads along x, y and z, on every architecture.
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_THREADS = (1024, 1024, 64)
#: Threads of one block, bytes of shared memory that a kernel may declare, and bytes of its parameters.
BLOCK_THREADS = 1024
STATIC_BYTES = 48 * 1024
PARAMETER_BYTES = 4096


def check_launch(
    function: Function,
    target: str,
    grid: tuple[int, int, int],
    threads: tuple[int, int, int],
    static_bytes: int,
    dynamic_bytes: int,
) -> None:
    """Raises UserError for a launch that no GPU of architecture `target` accepts, Limit for clusters of blocks."""
    name, directives = f"kernel {function.name!r}", function.directives
    where = Location("<ptx>", function.line, 1)
    if prod(directives.get("reqnctapercluster", (1,))) > 1:
        raise Limit(f"{name}: clusters of blocks are not simulated", where)
    for axis, blocks, most in zip("xyz", grid, MOST_BLOCKS, strict=True):
        if not 1 <= blocks <= most:
            raise UserError(
                f"{name} cannot run {blocks} blocks along {axis}", where, hint=f"from 1 to {most}"
            )
    for axis, number, most in zip("xyz", threads, MOST_THREADS, strict=True):
        if not 1 <= number <= most:
            raise UserError(
                f"{name} cannot run {number} threads along {axis}", where, hint=f"from 1 to {most}"
            )
    count = prod(threads)
    if count > BLOCK_THREADS:
        raise UserError(
            f"{name} cannot run {count} threads in a block", where, hint=f"at most {BLOCK_THREADS}"
        )
    required = prod(directives.get("reqntid", (count,)))
    if required != count:
        hint = f"it is compiled for exactly {required}"
        raise UserError(f"{name} is launched with {count} threads", where, hint=hint)
    most = prod(directives.get("maxntid", (count,)))
    if count > most:
        raise UserError(f"{name} is launched with {count} threads, at most {most} are allowed", where)
    registers = directives.get("maxnreg", (0,))[0]
    if registers * count > GPU_REGISTERS:
        hint = f"a block has {GPU_REGISTERS} of them: {GPU_REGISTERS // count} for each"
        raise UserError(
            f"{name} asks for {registers} registers for each of {count} threads", where, hint=hint
        )
    parameters = sum(parameter.bytes for parameter in function.parameters)
    if parameters > PARAMETER_BYTES:
        raise UserError(
            f"{name} has {parameters} bytes of parameters", where, hint=f"at most {PARAMETER_BYTES}"
        )
    if static_bytes > STATIC_BYTES:
        hint = f"at most {STATIC_BYTES}; more is asked for at the launch, as dynamic shared memory"
        raise UserError(f"{name} declares {static_bytes} bytes of shared memory", where, hint=hint)
    whole, limit = static_bytes + dynamic_bytes, machines().gpu(target).block_shared
    if whole > limit:
        hint = f"a block of {target} has at most {limit}"
        raise UserError(f"{name} is launched with {whole} bytes of shared memory", where, hint=hint)
