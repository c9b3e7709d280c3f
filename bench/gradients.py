# SPDX-License-Identifier: Apache-2.0
"""How exact the derivatives of the functions of networks are: the greatest error of first and second derivatives in f64
beside central differences, on each transformer that is always here.

A row is a function with all its inputs; the differences go along directions in which every element of every input moves, and
errors are relative to the derivative along that direction (or to 1, where it is less). The second derivatives are those of the sum of the
squares of the first ones.

./run python bench/gradients.py [names ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ngmlir as ng

TARGETS = ("numpy", "cpu", "cuda-sim")
BOUNDS = (1e-6, 1e-5)
STEP = 2e-4


def axes(text: str, *lengths: int) -> list[ng.Axis]:
    return [ng.make_axis(n, name) for n, name in zip(lengths, text.split(), strict=True)]


@dataclass(frozen=True)
class Case:
    """A function of tensors, and the axes of what is put in."""

    build: Callable[..., ng.Tensor]
    inputs: Sequence[Sequence[ng.Axis]]


N, C, D, H, W, K, R, S, T = axes("N C D H W K R S T", 2, 4, 4, 5, 6, 3, 3, 2, 2)
REC, F, HID, BEFORE, G4, G3, V, Y, L = axes("REC F HID BEFORE G4 G3 V Y L", 4, 3, 3, 3, 4, 3, 5, 4, 3)
CG, KG = axes("C K", 2, 4)
WORDS = ng.constant([[1, 4, 1, 0], [2, 2, 3, 1]], [N, REC], dtype="int32")
LABELS = [ng.constant(v, [a], dtype="int32") for v, a in (([1, 2, 3], L), ([4, 4], N), ([2, 1], N))]


def recurrent(function: Any, gates: Sequence[ng.Axis]) -> Case:
    weights = [[*gates, HID, F], [*gates, HID, BEFORE], [*gates, HID]]
    return Case(function, [[REC, N, F], *weights])


def both_ways(x: ng.Tensor, *weights: ng.Tensor) -> ng.Tensor:
    return ng.bidirectional(ng.lstm, x, weights[:3], weights[3:], merge="sum")


LSTM = recurrent(ng.lstm, [G4])
CASES = {
    "convolution 1-D, causal": Case(
        lambda x, w: ng.convolve(x, w, {W: R}, padding="causal"), [[N, W, C], [R, C, K]]
    ),
    "convolution 2-D, same": Case(
        lambda x, w: ng.convolve(x, w, {H: R, W: S}, padding="same"), [[N, C, H, W], [K, C, R, S]]
    ),
    "convolution 2-D, strides, dilation": Case(
        lambda x, w: ng.convolve(x, w, {H: R, W: S}, strides=(1, 2), dilations=(2, 1), padding=(1, 2)),
        [[N, H, W, C], [R, S, C, K]],
    ),
    "convolution 2-D, groups": Case(
        lambda x, w: ng.convolve(x, w, {H: R, W: S}, groups=2), [[N, C, H, W], [KG, CG, R, S]]
    ),
    "convolution 3-D": Case(
        lambda x, w: ng.convolve(x, w, {D: T, H: R, W: S}, strides=(2, 1, 1)),
        [[N, C, D, H, W], [K, C, T, R, S]],
    ),
    "deconvolution 2-D, strides": Case(
        lambda x, w: ng.deconvolve(x, w, {H: R, W: S}, strides=2), [[N, K, H, W], [K, C, R, S]]
    ),
    "pool max": Case(lambda x: ng.pool(x, {H: 3, W: 2}, "max", strides=(2, 2), padding=1), [[N, C, H, W]]),
    "pool mean": Case(lambda x: ng.pool(x, {H: 3, W: 2}, "mean", strides=(1, 2), padding=1), [[N, C, H, W]]),
    "batch norm": Case(lambda x, g, b: ng.batch_norm(x, g, b), [[N, C, H, W], [C], [C]]),
    "layer norm": Case(lambda x, g, b: ng.layer_norm(x, g, b), [[N, C], [C], [C]]),
    "dropout": Case(lambda x: ng.square(ng.dropout(x, 0.7, seed=1)), [[N, C]]),
    "lookup table": Case(lambda t: ng.square(ng.lookuptable(t, WORDS, [N, REC, F])), [[V, F]]),
    "ctc": Case(lambda a: ng.ctc(a, LABELS[0], LABELS[1], LABELS[2], percent=False), [[REC, N, Y]]),
    "rnn": recurrent(ng.rnn, []),
    "lstm": LSTM,
    "gru": recurrent(ng.gru, [G3]),
    "lstm, both ways": Case(both_ways, [*LSTM.inputs, *LSTM.inputs[1:]]),
}


def spread(shape: Sequence[int], random: np.random.Generator) -> Any:
    """Numbers from -1 to 1 at equal distances, in any order."""
    return random.permutation(np.linspace(-1, 1, int(np.prod(shape)))).reshape(shape)


def errors(case: Case, target: str) -> tuple[float, float]:
    """(of first, of second derivatives): the greatest over some directions."""
    random = np.random.default_rng(0)
    # No two are so near that a step changes which one is the greatest.
    values = [spread([a.known_length for a in each], random) for each in case.inputs]
    with ng.default_float("f64"), ng.transformers.make_transformer(target) as transformer:
        inputs = [ng.placeholder(each) for each in case.inputs]
        out = case.build(*inputs)
        weights = random.uniform(0.5, 1.5, [a.length for a in out.axes])
        total = ng.sum(out * ng.constant(weights, out.axes), out_axes=())
        firsts = [ng.deriv(total, x) for x in inputs]
        squares = sum((ng.sum(ng.square(d), out_axes=()) for d in firsts), ng.constant(0))
        seconds = [ng.deriv(squares, x) for x in inputs]
        run = transformer.computation([total, squares, *firsts, *seconds], *inputs)
        transformer.initialize()
        state = run.state()

        def at(*given: Any) -> Any:
            run.load_state(state)  # the same elements are dropped each time
            return run(*given)

        found = at(*values)[2:]
        worst = np.zeros(2)
        for _ in range(3):
            moves = [random.uniform(0.5, 1, v.shape) * random.choice([-1, 1], v.shape) for v in values]

            def difference(step: float, moves: Sequence[Any] = moves) -> Any:
                ahead, back = (
                    np.array(at(*(v + s * m for v, m in zip(values, moves, strict=True)))[:2])
                    for s in (step, -step)
                )
                return (ahead - back) / (2 * step)

            # Two steps, and what they say of a step of none (Richardson).
            wanted = (4 * difference(STEP / 2) - difference(STEP)) / 3
            count = len(values)
            told = [
                sum(float((g * m).sum()) for g, m in zip(part, moves, strict=True))
                for part in (found[:count], found[count:])
            ]
            worst = np.maximum(worst, np.abs(told - wanted) / np.maximum(np.abs(wanted), 1))
    return float(worst[0]), float(worst[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="functions whose names hold one of these")
    parser.add_argument("--targets", default=",".join(TARGETS))
    options = parser.parse_args(arguments)
    targets = options.targets.split(",")
    print(f"{'first, second derivative':36}" + "".join(f"{target:>20}" for target in targets))
    bad = 0
    for name, case in CASES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        row = f"{name:36}"
        for target in targets:
            found = errors(case, target)
            bad += any(e > bound or np.isnan(e) for e, bound in zip(found, BOUNDS, strict=True))
            row += f"{found[0]:>11.1e}{found[1]:>9.1e}"
        print(row, flush=True)
    print(f"bounds: {BOUNDS[0]:.0e} and {BOUNDS[1]:.0e}; {bad} beyond them")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
