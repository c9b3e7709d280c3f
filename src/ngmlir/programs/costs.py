# SPDX-License-Identifier: Apache-2.0
"""What it costs that ranks communicate: bytes and seconds of each operator between ranks, by the latency and the bandwidth of a link.

A message of n bytes takes `latency + n / bandwidth`. Of p ranks an `all_reduce` sends 2 (p - 1) / p of its bytes from each rank in 2 (p - 1)
messages one behind the other (a ring), or all of them in ceil(log2 p) messages (recursive doubling): the faster one is counted. A
`reduce_scatter` or an `all_gather` is half a ring. A rank sends, and receives, one message at a time. What ranks compute takes no
time here.

Formulas: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2, prod

from ..ir.literals import item_bytes
from ..ir.types import DYNAMIC
from ..support.diagnostics import Bug, Location, UserError
from .descriptions import Operator, Program
from .operators.collectives import COLLECTIVES

#: A rank or a server, and its number.
Who = tuple[str, int]


@dataclass(frozen=True)
class Link:
    """What joins two ranks: seconds that each message takes, and bytes a second."""

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise UserError(
                f"a link has a latency of 0 seconds or more and some bytes a second, not {self.latency} and {self.bandwidth}",
                hint="latency=5e-6, bandwidth=25e9",
            )

    def seconds(self, messages: int, bytes: float) -> float:
        """What messages take that are sent one behind the other, so many bytes together."""
        return messages * self.latency + bytes / self.bandwidth


@dataclass(frozen=True)
class Transfer:
    """What an operator between ranks costs a rank: how many take part, bytes of its variables, bytes and messages that the rank sends,
    and seconds."""

    operator: str
    names: tuple[str, ...]
    ranks: int
    bytes: int
    sent: float
    messages: int
    seconds: float
    location: Location

    def __str__(self) -> str:
        one, *more = self.names or ("nothing",)
        named = f"{one} and {len(more)} more" if more else one
        return (
            f"{self.operator} of {named}: {self.bytes} bytes, {self.ranks} ranks; a rank sends {self.sent:.0f} bytes"
            f" in {self.messages} messages, {self.seconds:.3g} s"
        )


def all_reduce_seconds(ranks: int, bytes: float, link: Link) -> tuple[int, float, float]:
    """Messages of a rank, bytes that it sends, and seconds, of the faster of a ring and recursive doubling."""
    steps = ceil(log2(ranks))
    ring = 2 * (ranks - 1), 2 * (ranks - 1) / ranks * bytes
    doubling = steps, steps * bytes
    messages, sent = min(ring, doubling, key=lambda way: link.seconds(*way))
    return messages, sent, link.seconds(messages, sent)


def half_ring_seconds(ranks: int, bytes: float, link: Link) -> tuple[int, float, float]:
    """The time of a `reduce_scatter` or `all_gather`."""
    messages, sent = ranks - 1, (ranks - 1) / ranks * bytes
    return messages, sent, link.seconds(messages, sent)


def bytes_of(program: Program, name: str, batch: int) -> int:
    """Those of a variable, where lengths that are not known are `batch`."""
    type = program.top.visible(name).type
    return prod(batch if n == DYNAMIC else n for n in type.shape) * item_bytes(type.element)


def transfer_of(operator: Operator, program: Program, link: Link, batch: int) -> Transfer:
    """What an operator between ranks costs the rank whose program it is of."""
    # What all have: of an all_gather its result, of others what they take.
    names = operator.outputs["Out"] if operator.type in ("all_gather", "recv") else operator.inputs["X"]
    count = sum(bytes_of(program, name, batch) for name in names)
    ranks = operator.attribute("ranks") or 2
    match operator.type:
        case "all_reduce":
            messages, sent, seconds = all_reduce_seconds(ranks, count, link)
        case "all_gather" | "reduce_scatter":
            if not operator.attribute("sections"):
                # Shares of a batch: together they are as many times as long.
                count *= ranks
            messages, sent, seconds = half_ring_seconds(ranks, count, link)
        case "send":
            messages, sent, seconds = len(names), count, link.seconds(len(names), count)
        case _:
            messages, sent, seconds = 0, 0.0, link.seconds(len(names), count)
    return Transfer(operator.type, tuple(names), ranks, count, sent, messages, seconds, operator.location)


def transfers(program: Program, link: Link, batch: int) -> list[Transfer]:
    """What the operators between ranks of one rank's program cost, in order."""
    return [transfer_of(o, program, link, batch) for o in program.top.operators if o.type in COLLECTIVES]


@dataclass(frozen=True)
class Cost:
    """What a step of several ranks costs: of each rank and server what its operators cost, and the seconds until all are done."""

    transfers: Mapping[Who, Sequence[Transfer]]
    seconds: float

    @property
    def sent(self) -> Mapping[Who, float]:
        """Bytes that each rank and server sends."""
        return {who: sum(transfer.sent for transfer in each) for who, each in self.transfers.items()}

    def __str__(self) -> str:
        lines: list[str] = []
        for (kind, number), each in self.transfers.items():
            lines.append(f"{kind} {number}: {sum(t.sent for t in each):.0f} bytes sent")
            lines += [f"  {transfer}" for transfer in each]
        return "\n".join([*lines, f"a step: {self.seconds:.3g} s"])


def cost_of(programs: Mapping[Who, Program], link: Link, batch: int) -> Cost:
    """What a step costs: programs go on as far as they need not wait for others. `batch` is the number of rows of what each is fed."""
    if batch < 1:
        raise UserError(f"a batch has at least one row, not {batch}")
    found = {who: transfers(program, link, batch) for who, program in programs.items()}
    return Cost(found, max(_Clock(programs, found, link, batch).run().values(), default=0.0))


class _Clock:
    """When each program is done, where only transfers take time: each goes on as far as it need not wait for another."""

    def __init__(
        self,
        programs: Mapping[Who, Program],
        transfers: Mapping[Who, Sequence[Transfer]],
        link: Link,
        batch: int,
    ):
        self.programs, self.link, self.batch = programs, link, batch
        self.waiting = {
            who: [
                *zip((o for o in program.top.operators if o.type in COLLECTIVES), transfers[who], strict=True)
            ][::-1]
            for who, program in programs.items()
        }
        self.clock = dict.fromkeys(programs, 0.0)
        self.has_servers = any(kind == "server" for kind, _ in programs)
        #: When what was sent has left its sender, and how many receive it.
        self.sent: dict[tuple[Who, str], float] = {}
        self.receivers = Counter(
            key
            for who, own in self.waiting.items()
            for operator, _ in own
            if operator.type == "recv"
            for key in {*self._sources(who, operator)}
        )

    def run(self) -> Mapping[Who, float]:
        while any(self.waiting.values()):
            if not any([self._go_on(who) for who in self.programs]):
                raise Bug("ranks wait for one another")
        return self.clock

    def _go_on(self, who: Who) -> bool:
        if not self.waiting[who]:
            return False
        operator, transfer = self.waiting[who][-1]
        together = [who]
        if operator.type == "send":
            for name in operator.inputs["X"]:
                seconds = self.link.seconds(1, bytes_of(self.programs[who], name, self.batch))
                self.clock[who] += seconds * max(1, self.receivers[who, name])
                self.sent[who, name] = self.clock[who]
        elif operator.type == "recv":
            keys = self._sources(who, operator)
            if not all(key in self.sent for key in keys):
                return False
            durations = [
                self.link.seconds(1, bytes_of(self.programs[who], name, self.batch))
                for name in operator.outputs["Out"]
            ]
            came = 0.0
            for left, seconds in sorted(zip((self.sent[key] for key in keys), durations, strict=True)):
                # It comes as it leaves, but not while another one comes.
                came = max(came + seconds, left) if came else left
            self.clock[who] = max(self.clock[who], came)
        else:
            every = [each for each in self.programs if each[0] == "rank"]
            group = operator.attribute("group")
            together = [("rank", number) for number in group] if group else every
            if not all(
                self.waiting[each] and self.waiting[each][-1][0].type == operator.type for each in together
            ):
                return False
            end = max(self.clock[each] for each in together) + transfer.seconds
            self.clock.update(dict.fromkeys(together, end))
        for each in together:
            self.waiting[each].pop()
        return True

    def _sources(self, who: Who, operator: Operator) -> list[tuple[Who, str]]:
        kind = "server" if who[0] == "rank" and self.has_servers else "rank"
        pairs = zip(operator.attribute("peers"), operator.attribute("sources"), strict=True)
        return [((kind, peer), source) for peer, source in pairs]
