# SPDX-License-Identifier: Apache-2.0
"""Loops over sequences of 1 to 64 rows beside torch, and beside as many rows in sequences of one length: `DynamicRNN`, a conditional random
field of 67 labels, and an LSTM of the op graph along a ragged axis.

    python bench/ragged_steps.py [--seconds 2] [--only REGEX]

As `sequence_steps.py`; of the LSTM loss and gradients alone. `row` is the time of a row over that of one in sequences of one length.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from math import nan
from typing import Any

# First: it says how many threads there are, before anything is imported.
from steps import least

import numpy as np  # isort: skip

from sequence_steps import (
    LSTM_LENGTHS,
    Step,
    beside,
    drawn,
    field_cost,
    over_time,
    padded,
    ragged,
    torch_training,
    trained,
)

import ngmlir as ng
import ngmlir.frontends.fluid as fluid

layers = fluid.layers
rng = np.random.default_rng(0)
WIDTH, LABELS = 128, 67


def rows_of(lengths: Sequence[int], width: int) -> list[np.ndarray]:
    return [rng.standard_normal((n, width), np.float32) for n in lengths]


def torch_squares(kind: str, rows: Sequence[np.ndarray], packed: bool) -> tuple[Any, Callable[[], Any]]:
    """A network of torch, and the mean of the squares of its states."""
    import torch

    network = getattr(torch.nn, kind)(WIDTH, WIDTH, batch_first=True)
    x, lengths = (torch.from_numpy(each) for each in padded(rows))
    inside = (torch.arange(x.shape[1]) < lengths[:, None])[:, :, None]
    count = int(lengths.sum()) * WIDTH
    return network, lambda: (over_time(network, x, lengths, packed).square() * inside).sum() / count


def dynamic_rnn(lengths: Sequence[int]) -> dict[str, Step]:
    rows = rows_of(lengths, WIDTH)

    def build() -> Any:
        rnn = layers.DynamicRNN()
        with rnn.block():
            row, before = rnn.step_input(layers.data("x", [WIDTH], lod_level=1)), rnn.memory(shape=[WIDTH])
            hidden = layers.fc([row, before], WIDTH, act="tanh")
            rnn.update_memory(before, hidden)
            rnn.output(hidden)
        return layers.mean(layers.square(rnn()))

    step = trained({"x": ragged(rows)}, build)
    return beside(step, lambda packed: torch_training(*torch_squares("RNN", rows, packed)))


def random_field(lengths: Sequence[int]) -> dict[str, Step]:
    rows, labels = rows_of(lengths, 32), drawn(lengths, LABELS)

    def build() -> Any:
        x, label = (
            layers.data("x", [32], lod_level=1),
            layers.data("label", [1], dtype="int64", lod_level=1),
        )
        weights = layers.fc(x, LABELS)
        return layers.mean(layers.linear_chain_crf(weights, label, fluid.ParamAttr(name="moves")))

    return beside(
        trained({"x": ragged(rows), "label": ragged(labels)}, build), lambda _: torch_field(rows, labels)
    )


def torch_field(rows: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> Step:
    import torch
    from torch import nn

    out = nn.Linear(32, LABELS)
    module = nn.ModuleList([out])
    module.register_parameter("moves", nn.Parameter(torch.zeros(LABELS + 2, LABELS)))
    x, length = (torch.from_numpy(each) for each in padded(rows))
    wanted = torch.from_numpy(padded(labels)[0])
    inside = torch.arange(x.shape[1]) < length[:, None]

    def cost() -> Any:
        return field_cost(out(x), module.moves, wanted, length, inside)

    return torch_training(module, cost)


def graph_lstm(lengths: Sequence[int]) -> dict[str, Step]:
    rows = rows_of(lengths, WIDTH)
    features, hidden, before = (ng.make_axis(WIDTH, name) for name in ("C", "H", "H before"))
    steps, gates = ng.ragged_axis(ng.make_axis(name="N"), "T"), ng.make_axis(4, "gates")

    def weights(*axes: ng.Axis) -> Any:
        value = rng.standard_normal([a.length or 0 for a in axes], np.float32) / 10
        return ng.variable(list(axes), initial_value=value)

    held = [weights(gates, hidden, features), weights(gates, hidden, before), weights(gates, hidden)]
    x = ng.ragged([steps, features], name="x")
    loss = ng.mean(ng.square(ng.lstm(x, *held)), out_axes=())
    run = ng.compile([loss, *[ng.deriv(loss, each) for each in held]], [x], target="cpu")
    flat, offsets = np.concatenate(rows), np.cumsum([0, *lengths]).astype(np.int32)

    def theirs(packed: bool) -> Step:
        network, cost = torch_squares("LSTM", rows, packed)

        def step() -> float:
            network.zero_grad(set_to_none=True)
            value = cost()
            value.backward()
            return float(value.detach())

        return step

    return beside(lambda: run((flat, offsets)), theirs)


MODELS = {model.__name__: model for model in (dynamic_rnn, random_field, graph_lstm)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    equal = [sum(LSTM_LENGTHS) // len(LSTM_LENGTHS)] * len(LSTM_LENGTHS)
    for name, model in MODELS.items():
        if not re.search(arguments.only, name):
            continue
        times, others = (least(model(lengths), arguments.seconds) for lengths in (LSTM_LENGTHS, equal))
        ratio = min((t for who, t in times.items() if who != "ngmlir"), default=nan) / times["ngmlir"]
        row = (times["ngmlir"] / sum(LSTM_LENGTHS)) / (others["ngmlir"] / sum(equal))
        shown = "  ".join(f"{who} {t:9.1f}" for who, t in times.items())
        print(f"{name:18} {ratio:5.2f}  row {row:5.2f}  {shown} us", flush=True)


if __name__ == "__main__":
    main()
