# SPDX-License-Identifier: Apache-2.0
"""The lengths that a model is read for, so that a program for any lengths follows.

A reader of a model computes shapes while it reads, in NumPy. So the model is read for several lengths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ..ir.core import Module
from ..ir.structure import fingerprint
from ..support.diagnostics import Limit, UserError
from ..support.expressions import SEVERAL, NeedsLength
from ..support.lengths import Length, guarding
from ..support.samples import power_of_two_in, unlike_sizes
from .fitted import Ambiguous, Fitted

#: How many programs are read at most where several expressions fit the others.
_MOST_MORE = 12
_SAMPLES = (23, 37, 29, 41, 31, 43)
#: The least lengths that are tried, in this order, and the greatest: models may accept only lengths above or below a
#: bound.
_NEAR = (SEVERAL, 8, 16)
_LARGE = (32, 64, 128, 256, 512, 1024)
_FAR = (4093, 1021, 509, 251, 127)


def fitted(
    read: Callable[[Mapping[str, int]], Module], lengths: Mapping[str, int]
) -> tuple[Fitted, dict[str, range]]:
    """The program for any lengths of these names, and the ranges of lengths for which it was verified.

    A reader may branch on a length, as `max(n, 6)` does, or reject small ones: then no single expression holds for both
    the least and the greatest lengths that it reads, and larger ones are tried as the least. It may accept only
    multiples, as networks do that halve images: then multiples of powers of two that divide these lengths are
    tried, the least first. Other lengths are not verified. Raises NeedsLength as `Fitted` does, and what the reader raises.
    """
    read = _once(read)
    halved = {name: power_of_two_in(int(length)) for name, length in lengths.items()}
    powers = [1 << k for k in range(max(halved.values()).bit_length())]
    multiples = [{name: min(power, most) for name, most in halved.items()} for power in powers]
    tried = [(least, steps) for steps in multiples for least in _NEAR]
    tried += [(least, multiples[0]) for least in _LARGE if least <= max(map(int, lengths.values()))]
    for least, steps in tried[:-1]:
        with suppress(NeedsLength, UserError, Limit):
            return _fit(read, least, steps)
    return _fit(read, *tried[-1])


def _once(read: Callable[[Mapping[str, int]], Module]) -> Callable[[Mapping[str, int]], Module]:
    """`read` that is asked once about the same lengths, also about those that it refuses."""
    known: dict[frozenset[tuple[str, int]], Module | NeedsLength | UserError | Limit] = {}

    def once(lengths: Mapping[str, int]) -> Module:
        key = frozenset(lengths.items())
        if key not in known:
            try:
                known[key] = read(lengths)
            except (NeedsLength, UserError, Limit) as error:
                known[key] = error
        found = known[key]
        if isinstance(found, Exception):
            raise found
        return found

    return once


def multiples(read: Callable[[Mapping[str, int]], Module], usual: Mapping[str, int]) -> dict[str, int]:
    """By name, the least powers of two that divide these lengths and of whose multiples the program follows without samples.

    Networks that halve images, and join them with doubled ones, accept such lengths only. The multiples of a power that is accepted
    are accepted too. NeedsLength where there are no such powers, or they are all 1.
    """
    near = unlike_sizes(usual)
    halved = {name: power_of_two_in(length) for name, length in usual.items()}
    powers = [1 << k for k in range(max(halved.values(), default=1).bit_length())]

    def up_to(power: int) -> dict[str, int]:
        return {name: min(power, most) for name, most in halved.items()}

    def accepted(steps: Mapping[str, int]) -> bool:
        with guarding(), suppress(NeedsLength, UserError, Limit):
            read({n: steps[n] * Length.named(n, length // steps[n]) for n, length in near.items()})
            return True
        return False

    least = bisect_left(powers, True, key=lambda power: accepted(up_to(power))) if len(powers) > 1 else 0
    steps = up_to([*powers, 1][least])
    for name, step in steps.items():
        if step > 1 and len(steps) > 1 and accepted({**steps, name: 1}):
            steps[name] = 1
    if max(steps.values(), default=1) == 1:
        raise NeedsLength("what lengths are multiples of")
    return steps


def reaching(
    read: Callable[[Mapping[str, int]], Module],
    found: Fitted,
    ranges: Mapping[str, range],
    lengths: Mapping[str, int],
) -> dict[str, range] | None:
    """Ranges with these lengths too, if the program is also right for them, and for the least of all ranges where one begins lower;
    None if it is not, and if they are no multiples of the steps."""
    if any(lengths[name] % each.step for name, each in ranges.items()):
        return None
    wider = {
        name: range(min(each.start, lengths[name]), max(each.stop, lengths[name] + 1), each.step)
        for name, each in ranges.items()
    }
    least = {name: each.start for name, each in wider.items()}
    lowered = any(length < ranges[name].start for name, length in lengths.items())
    with guarding(), suppress(NeedsLength, UserError, Limit):  # what the program assumes it was compiled with
        more = _with_more(read, found, [lengths, *([least] if lowered else [])])
        one, other = ([*map(fingerprint, each.module(found.lengths[0]).ops)] for each in (found, more))
        return wider if [digest for digest, _ in one] == [digest for digest, _ in other] else None
    return None


def _fit(
    read: Callable[[Mapping[str, int]], Module], least: int, steps: Mapping[str, int]
) -> tuple[Fitted, dict[str, range]]:
    """The same, for samples with these least lengths, all multiplied by `steps`."""
    base, *others = samples = _samples(steps, least)
    first, modules = read(base), list[Module]()
    for sample in reversed(others):  # the least lengths show first that there is no fit
        modules.insert(0, read(sample))
        if len(modules[0].ops[0].block.ops) != len(first.ops[0].block.ops):
            raise NeedsLength("how many ops there are")
    modules.insert(0, first)
    near = len(samples)
    for name, step in steps.items():
        _add_greatest(read, name, step, modules, samples)
    try:
        found = _unambiguous(read, modules, samples)
    except NeedsLength:  # as with `min(n, 1000)`: only those that are alike are verified
        if len(samples) == near:
            raise
        found = _unambiguous(read, modules[:near], samples[:near])
    steps = {**steps}
    for name, step in steps.items():
        # This name alone may be no multiple, or smaller.
        if step > 1:
            with suppress(NeedsLength, UserError, Limit):
                found = _with_more(
                    read, found, [{**base, name: base[name] + n} for n in {1, step // 2, step - 1}]
                )
                steps[name] = 1
        least = SEVERAL * steps[name]
        if min(sample[name] for sample in samples) > least:
            with suppress(NeedsLength, UserError, Limit):
                found = _with_more(read, found, [{**base, name: least}])
    seen = {name: sorted(sample[name] for sample in found.lengths) for name in steps}
    return found, {name: range(each[0], each[-1] + 1, steps[name]) for name, each in seen.items()}


def _unambiguous(
    read: Callable[[Mapping[str, int]], Module],
    modules: Sequence[Module],
    samples: Sequence[Mapping[str, int]],
) -> Fitted:
    """`Fitted`, of these programs and of others where several expressions fit them."""
    for _ in range(_MOST_MORE):
        try:
            return Fitted(modules, samples)
        except Ambiguous as error:
            sample = {**samples[0], error.name: error.length}
            modules, samples = [*modules, read(sample)], [*samples, sample]
    return Fitted(modules, samples)


def _with_more(
    read: Callable[[Mapping[str, int]], Module], found: Fitted, samples: Sequence[Mapping[str, int]]
) -> Fitted:
    """One that fits these samples too."""
    return _unambiguous(read, [*found.modules, *map(read, samples)], [*found.lengths, *samples])


def _add_greatest(
    read: Callable[[Mapping[str, int]], Module],
    name: str,
    step: int,
    modules: list[Module],
    samples: list[dict[str, int]],
) -> None:
    """Adds the program for the greatest of some lengths, times a step, that the reader accepts."""
    for far in _FAR:
        sample = {**samples[0], name: far * step}
        with suppress(UserError, Limit):
            modules.append(read(sample))
            samples.append(sample)
            return


def _samples(steps: Mapping[str, int], least: int) -> list[dict[str, int]]:
    """Sample lengths, enough to infer how numbers depend on them: all different, and the least; all multiplied by
    `steps`."""
    names, more = [*steps], least - least % _LARGE[0]
    base = {
        name: _SAMPLES[i % len(_SAMPLES)] + 60 * (i // len(_SAMPLES)) + more for i, name in enumerate(names)
    }
    made = [base]
    for i, name in enumerate(names):
        made.append({**base, name: base[name] + 7 + i})
    made.append({name: value + 5 + 3 * i for i, (name, value) in enumerate(base.items())})
    made.append({name: least + i % 2 for i, name in enumerate(names)})
    made.append({name: least + 3 - i % 2 for i, name in enumerate(names)})
    return [{name: length * steps[name] for name, length in sample.items()} for sample in made]
