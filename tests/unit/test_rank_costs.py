# SPDX-License-Identifier: Apache-2.0
"""What it costs that ranks communicate: predictions beside estimates by hand, and the choice of a placement."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.programs.costs import Link, all_reduce_seconds, half_ring_seconds
from ngmlir.support.diagnostics import UserError

layers, Param = fluid.layers, fluid.ParamAttr
ALPHA, BETA = 5e-6, 25e9


@pytest.mark.parametrize("ranks", [2, 3, 8, 64, 1024, 4096, 8192])
@pytest.mark.parametrize("bytes", [64 * 1024, 100_000_000])
def test_all_reduce_is_a_ring_or_doubling(ranks: int, bytes: int) -> None:
    messages, sent, seconds = all_reduce_seconds(ranks, bytes, Link(ALPHA, BETA))
    ring = 2 * (ranks - 1) * ALPHA + 2 * (ranks - 1) / ranks * bytes / BETA
    doubling = ceil(log2(ranks)) * (ALPHA + bytes / BETA)
    assert seconds == pytest.approx(min(ring, doubling))
    if ring < doubling:
        assert (messages, sent) == (2 * (ranks - 1), 2 * (ranks - 1) / ranks * bytes)
    half = half_ring_seconds(ranks, bytes, Link(ALPHA, BETA))
    assert half == pytest.approx((ranks - 1, (ranks - 1) / ranks * bytes, ring / 2))


@pytest.mark.parametrize(
    ("ranks", "bytes", "microseconds"),
    # A table that was made by hand for such a link: a small message goes by doubling, a large one by a ring.
    [
        (8, 65536, 23),
        (64, 65536, 46),
        (1024, 65536, 76),
        (4096, 65536, 91),
        (8, 100e6, 7070),
        (64, 100e6, 8510),
        (1024, 100e6, 18200),
    ],
)
def test_a_table_made_by_hand(ranks: int, bytes: float, microseconds: float) -> None:
    *_, seconds = all_reduce_seconds(ranks, bytes, Link(ALPHA, BETA))
    assert seconds * 1e6 == pytest.approx(microseconds, rel=0.01)


def trained(sharded: bool = False, width: int = 256, is_sparse: bool = False) -> tuple[Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = layers.fc(layers.data("x", [8]), 16, bias_attr=False)
        hidden = layers.fc(x, width, bias_attr=False, param_attr=Param(sharded=1 if sharded else None))
        guess = layers.fc(hidden, 4, bias_attr=False, param_attr=Param(sharded=0 if sharded else None))
        cost = layers.mean(layers.square_error_cost(guess, layers.data("y", [4])))
        fluid.optimizer.SGD(0.1).minimize(cost)
    return main, startup


#: The bytes of all parameters of `trained`.
WEIGHTS = 4 * (8 * 16 + 16 * 256 + 256 * 4)


def test_allreduce_by_hand() -> None:
    for ranks in (2, 4, 8):
        cost = fluid.DataParallel(*trained(), "allreduce", ranks).cost(64, ALPHA, BETA)
        ring = 2 * (ranks - 1) * ALPHA + 2 * (ranks - 1) / ranks * WEIGHTS / BETA
        doubling = ceil(log2(ranks)) * (ALPHA + WEIGHTS / BETA)
        assert cost.seconds == pytest.approx(min(ring, doubling))
        (transfer,) = cost.transfers["rank", 0]
        assert (transfer.operator, transfer.bytes, transfer.ranks) == ("all_reduce", WEIGHTS, ranks)
        # With a slow link it is the bytes that count.
        slow = fluid.DataParallel(*trained(), "allreduce", ranks).cost(64, 0, 1e6)
        assert slow.sent["rank", ranks - 1] == pytest.approx(2 * (ranks - 1) / ranks * WEIGHTS)


def test_reduce_scatter_by_hand() -> None:
    cost = fluid.DataParallel(*trained(), "reduce_scatter", 4).cost(64, ALPHA, BETA)
    # The weights of 128 elements have one block, which the first rank has: the others send it theirs all the same.
    each = [2 * (3 * ALPHA + 3 / 4 * bytes / BETA) for bytes in (4 * 128, 4 * 4096, 4 * 1024)]
    assert cost.seconds == pytest.approx(sum(each))
    assert [transfer.operator for transfer in cost.transfers["rank", 2]] == [
        "reduce_scatter",
        "all_gather",
    ] * 3


def test_parameter_servers_by_hand() -> None:
    for ranks in (2, 4):
        cost = fluid.DataParallel(*trained(), "pserver", ranks, 1).cost(64, ALPHA, BETA)
        # All leave their ranks together, and come to the server one behind the other; then it sends to each rank.
        first, *rest = [ALPHA + bytes / BETA for bytes in (4 * 128, 4 * 4096, 4 * 1024)]
        whole = first + sum(rest)
        assert cost.seconds == pytest.approx(2 * ranks * whole, rel=0.02)
        assert cost.sent["rank", 0] == cost.sent["server", 0] == WEIGHTS


def test_columns_then_rows_by_hand() -> None:
    cost = fluid.TensorParallel(*trained(True), 2).cost(64, ALPHA, BETA)
    # The sums of what the second layer gives, and of the gradient of what the first one takes.
    forward, backward = (ALPHA + 64 * width * 4 / BETA for width in (4, 16))
    assert cost.seconds == pytest.approx(forward + backward)
    assert [transfer.bytes for transfer in cost.transfers["rank", 1]] == [64 * 4 * 4, 64 * 16 * 4]
    # Two groups: half of the rows each, and a sum of gradients over groups, of the rank's halves.
    both = fluid.TensorParallel(*trained(True), 2, 2).cost(64, ALPHA, BETA)
    halves = 4 * (8 * 16 + 16 * 128 + 128 * 4)
    assert [transfer.bytes for transfer in both.transfers["rank", 3]] == [32 * 4 * 4, 32 * 16 * 4, halves]


def test_a_pipeline_by_hand() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = layers.data("x", [10])
        for number in range(3):
            with fluid.pipeline_stage(number):
                hidden = layers.fc(hidden, 10)
        fluid.optimizer.SGD(0.1).minimize(layers.mean(hidden))
    message = ALPHA + 8 * 10 * 4 / BETA
    # One micro-batch goes there and back over two borders.
    assert fluid.PipelineParallel(main, startup, 1).cost(8, ALPHA, BETA).seconds == pytest.approx(4 * message)
    cost = fluid.PipelineParallel(main, startup, 4).cost(32, ALPHA, BETA)
    assert [cost.sent["rank", i] for i in range(3)] == [4 * 320, 8 * 320, 4 * 320]
    # The stage between sends eight; it has to wait for the first of them, and the first stage for the last.
    assert cost.seconds == pytest.approx(10 * message, rel=0.25)


def test_distributed_tables_by_hand() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        found = layers.embedding(layers.data("ids", [1], dtype="int64"), [1000, 16], True, True)
        fluid.optimizer.SGD(0.1).minimize(layers.mean(found))
    cost = fluid.DataParallel(main, startup, ranks=4).cost(64, ALPHA, BETA)
    ids, rows = 3 * ALPHA + 3 / 4 * 64 * 8 / BETA, 3 * ALPHA + 3 / 4 * 64 * 16 * 4 / BETA
    assert cost.seconds == pytest.approx(ids + 2 * rows)


def test_more_bytes_and_slower_links_cost_more() -> None:
    whole = fluid.TensorParallel(*trained(True), 2)
    seconds = [whole.cost(batch, ALPHA, BETA).seconds for batch in (1, 10, 100, 1000)]
    assert seconds == sorted(seconds) and len({*seconds}) == 4
    assert (
        whole.cost(10, 2 * ALPHA, BETA).seconds
        > whole.cost(10, ALPHA, BETA).seconds
        < whole.cost(10, ALPHA, BETA / 2).seconds
    )
    assert fluid.DataParallel(*trained(), ranks=1).cost(4).seconds == 0


def test_the_cheapest_placement() -> None:
    placements = {
        "data": fluid.DataParallel(*trained(), "allreduce", 4),
        "rows": fluid.DataParallel(*trained(), "reduce_scatter", 4),
        "servers": fluid.DataParallel(*trained(), "pserver", 4),
        "model": fluid.TensorParallel(*trained(True), 4),
    }
    # A small batch moves less than all gradients; a large one does not.
    assert fluid.cheapest(placements, 8, 0, BETA) == "model"
    assert fluid.cheapest(placements, 100_000, 0, BETA) == "data"
    # As many bytes as allreduce, but six times as many messages.
    del placements["model"]
    assert fluid.cheapest(placements, 8, ALPHA, BETA) == "data"
    with pytest.raises(UserError, match="no placement"):
        fluid.cheapest({}, 8)
    with pytest.raises(UserError, match="a latency of 0 seconds or more"):
        placements["data"].cost(8, -1.0)
    with pytest.raises(UserError, match="at least one row"):
        placements["data"].cost(0)


def test_a_prediction_is_a_table() -> None:
    text = str(fluid.TensorParallel(*trained(True), 2).cost(64, ALPHA, BETA))
    assert (
        "rank 1: 5120 bytes sent\n  all_reduce of fc_2.tmp_0: 1024 bytes, 2 ranks; a rank sends 1024 bytes in 1 messages"
        in text
    )
    assert text.endswith(f"a step: {2 * ALPHA + 5120 / BETA:.3g} s")


def test_bytes_are_those_that_the_ranks_hand_over() -> None:
    """What is predicted is what the operators between ranks carry when the programs run."""
    whole = fluid.TensorParallel(*trained(True), 2)
    whole.start()
    whole.run({"x": np.zeros((64, 8), np.float32), "y": np.zeros((64, 4), np.float32)})
    carried = [
        sum(np.asarray(whole.scopes[0].tensor(name)).nbytes for name in transfer.names)
        for transfer in whole.cost(64).transfers["rank", 0]
    ]
    assert carried == [transfer.bytes for transfer in whole.cost(64).transfers["rank", 0]]
