# SPDX-License-Identifier: Apache-2.0
"""How often the body of a loop runs, where its condition follows from what is known while the model is read: counters, and lengths
that they are compared with. What the condition is computed of is evaluated by itself, iteration after iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.core import Block, Value
from ...ops.interpreter import evaluate
from ...ops.meaning import MEANING
from ...support.diagnostics import Limit
from .emitter import Emitter, Undecided
from .tensor import Tensor

#: Loops of more iterations are not counted.
MOST = 1 << 12


def trip_count(
    emitter: Emitter, body: Block, carried: Sequence[Tensor], first: Tensor, most: Tensor
) -> int | None:
    """The number of iterations of a loop that begins with the `carried` values if `first` is true. Its `body` takes these and the number
    of the iteration, and yields the next ones first and the condition last. None where arguments of the program decide it,
    or it is greater than `MOST`."""
    goes_on = body.ops[-1].operands[-1]
    needed = _Needed(body, goes_on)
    if any(op.regions or op.name not in MEANING for op in needed.ops):
        return None
    try:
        limit, going = int(emitter.settle(most)), bool(emitter.settle(first))
        values = {v: emitter.settle(Tensor(v, emitter)) for v in needed.outside}
        values |= {body.args[k]: emitter.settle(carried[k]) for k in needed.state}
    except (Undecided, Limit):
        return None
    after = [body.ops[-1].operands[k] for k in needed.state]
    for count in range(MOST + 1):
        if not going or count >= limit:
            return count
        values[body.args[-1]] = np.array(count)
        for op in needed.ops:
            values.update(zip(op.results, evaluate(op, [values[o] for o in op.operands]), strict=True))
        going = bool(values[goes_on])
        values.update(zip([body.args[k] for k in needed.state], [values[v] for v in after], strict=True))
    return None


class _Needed:
    """What the condition of a loop is computed of: ops of the body in order, carried values by number, and values from outside."""

    def __init__(self, body: Block, goes_on: Value):
        self.state: list[int] = []
        self.outside: list[Value] = []
        owners = {result: op for op in body.ops for result in op.results}
        stack, seen = [goes_on], set[Value]()
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in owners:
                stack += owners[value].operands
            elif value.owner is not body:
                self.outside.append(value)
            elif value.index < len(body.args) - 1:
                self.state.append(value.index)
                stack.append(body.ops[-1].operands[value.index])
        self.ops = [op for op in body.ops if not seen.isdisjoint(op.results)]
