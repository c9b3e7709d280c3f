# SPDX-License-Identifier: Apache-2.0
"""The passes that make the programs of ranks, and that tell what it costs that these communicate, by name."""

from __future__ import annotations

from typing import Literal

from ..ir.core import Module
from ..rewrite.contracts import contract
from ..rewrite.pipeline import Pass, name_of
from ..rewrite.remarks import remark
from ..support.diagnostics import UserError
from ..support.target import Target
from .costs import Link, transfers
from .distribute import Distribution
from .pipeline_parallel import PipelineParallel
from .tensor_parallel import TensorParallel
from .text import program_of


@contract(needs=("program",))
def program_distribute(
    module: Module,
    target: Target,
    *,
    mode: Literal["allreduce", "reduce_scatter", "pserver"] = "allreduce",
    ranks: int = 2,
    servers: int = 1,
    rank: int = 0,
    server: bool = False,
) -> Module:
    """Makes the program of one of several `ranks` that share a batch; with `server` that of a parameter server, whose number `rank` is
    then.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @w : tensor<4xf32> {persistable, parameter = {trainable = true}}
          program.var @rate : tensor<1xf32> {persistable}
          program.var @"w@GRAD" : tensor<4xf32>
          program.op sign {X = [@w]} -> {Out = [@"w@GRAD"]}
          program.op sgd {Param = [@w], Grad = [@"w@GRAD"], LearningRate = [@rate]} -> {ParamOut = [@w]}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @w : tensor<4xf32> {persistable, parameter = {trainable = true}}
          program.var @rate : tensor<1xf32> {persistable}
          program.var @"w@GRAD" : tensor<4xf32>
          program.op sign {X = [@w]} -> {Out = [@"w@GRAD"]}
          program.op all_reduce {X = [@"w@GRAD"]} -> {Out = [@"w@GRAD"]} with {group = array<i32>, ranks = 2 : i32, op_role = 2 : i32}
          program.op scale {X = [@"w@GRAD"]} -> {Out = [@"w@GRAD"]} with {bias = 0.0 : f64, bias_after_scale = true, scale = 0.5 : f64, op_role = 2 : i32}
          program.op sgd {Param = [@w], Grad = [@"w@GRAD"], LearningRate = [@rate]} -> {ParamOut = [@w]}
        }
    """
    made = Distribution(program_of(module), mode, ranks, servers)
    of, count = ("server", servers if mode == "pserver" else 0) if server else ("rank", ranks)
    if not 0 <= rank < count:
        raise UserError(
            f"there is no {of} {rank}: there are {count}",
            hint=f"program-distribute{{mode=pserver ranks={ranks} servers={servers}}}",
        )
    return (made.server(rank) if server else made.rank(rank)).program.module


@contract(needs=("program",))
def program_shard(
    module: Module, target: Target, *, ranks: int = 2, replicas: int = 1, rank: int = 0
) -> Module:
    """Makes the program of one of several `ranks` that have parts of parameters: of those of which `sharded` says along which dimension.
    With `replicas` there are as many such groups of ranks.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<?x4xf32> {data, stop_gradient}
          program.var @w : tensor<4x6xf32> {persistable, parameter = {sharded = 1 : i64}}
          program.var @h : tensor<?x6xf32>
          program.var @a : tensor<?x6xf32>
          program.var @v : tensor<6x2xf32> {persistable, parameter = {sharded = 0 : i64}}
          program.var @y : tensor<?x2xf32>
          program.var @z : tensor<?x2xf32>
          program.op mul {X = [@x], Y = [@w]} -> {Out = [@h]} with {x_num_col_dims = 1 : i32, y_num_col_dims = 1 : i32}
          program.op tanh {X = [@h]} -> {Out = [@a]}
          program.op mul {X = [@a], Y = [@v]} -> {Out = [@y]} with {x_num_col_dims = 1 : i32, y_num_col_dims = 1 : i32}
          program.op tanh {X = [@y]} -> {Out = [@z]}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<?x4xf32> {data, stop_gradient}
          program.var @w : tensor<4x3xf32> {persistable, parameter = {sharded = 1 : i64}}
          program.var @h : tensor<?x3xf32>
          program.var @a : tensor<?x3xf32>
          program.var @v : tensor<3x2xf32> {persistable, parameter = {sharded = 0 : i64}}
          program.var @y : tensor<?x2xf32>
          program.var @z : tensor<?x2xf32>
          program.op mul {X = [@x], Y = [@w]} -> {Out = [@h]} with {x_num_col_dims = 1 : i32, y_num_col_dims = 1 : i32}
          program.op tanh {X = [@h]} -> {Out = [@a]}
          program.op mul {X = [@a], Y = [@v]} -> {Out = [@y]} with {x_num_col_dims = 1 : i32, y_num_col_dims = 1 : i32}
          program.op all_reduce {X = [@y]} -> {Out = [@y]} with {group = array<i32: 0, 1>, ranks = 2 : i32}
          program.op tanh {X = [@y]} -> {Out = [@z]}
        }
    """
    made = TensorParallel(program_of(module), ranks, replicas)
    return made.rank(_checked(rank, made.ranks)).program.module


@contract(needs=("program",))
def program_pipeline(
    module: Module, target: Target, *, micro_batches: int = 1, replicas: int = 1, rank: int = 0
) -> Module:
    """Makes the program of one of several ranks that have a stage each, by the attribute `stage` of operators, for a batch in
    `micro-batches` parts. With `replicas` there are as many such pipelines.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<?x4xf32> {data, stop_gradient}
          program.var @h : tensor<?x4xf32>
          program.var @y : tensor<?x4xf32>
          program.op tanh {X = [@x]} -> {Out = [@h]} with {stage = 0 : i32}
          program.op relu {X = [@h]} -> {Out = [@y]} with {stage = 1 : i32}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @x.micro0 : tensor<?x4xf32> {data, stop_gradient}
          program.var @h.micro0 : tensor<?x4xf32>
          program.op tanh {X = [@x.micro0]} -> {Out = [@h.micro0]} with {stage = 0 : i32}
          program.op send {X = [@h.micro0]} -> {} with {op_role = 0 : i32}
        }
    """
    made = PipelineParallel(program_of(module), micro_batches, replicas)
    return made.rank(_checked(rank, made.ranks)).program.module


def _checked(rank: int, count: int) -> int:
    if not 0 <= rank < count:
        raise UserError(f"there is no rank {rank}: there are {count}")
    return rank


@contract(needs=("program",))
def program_cost(
    module: Module, target: Target, *, latency: float = 5e-6, bandwidth: float = 25e9, batch: int = 1
) -> Module:
    """Tells by remarks what it costs the program of a rank that it communicates with others, where a message of n bytes takes latency +
    n / bandwidth seconds, and lengths that are not known are `batch`; changes nothing.

    `ngopt -p program-distribute,program-cost --remark=program-cost program.ngir`. It tells bytes, messages and seconds of each operator between ranks, and of all.

        x.ngir:4:3: remark: all_reduce of y: 2048 bytes, 2 ranks; a rank sends 2048 bytes in 1 messages, 5.08e-06 s

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @y : tensor<64x8xf32>
          program.op all_reduce {X = [@y]} -> {Out = [@y]} with {ranks = 2 : i32}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @y : tensor<64x8xf32>
          program.op all_reduce {X = [@y]} -> {Out = [@y]} with {ranks = 2 : i32}
        }
    """
    found = transfers(program_of(module), Link(latency, bandwidth), batch)
    for transfer in found:
        remark("program-cost", str(transfer), transfer.location)
    sent, seconds = (sum(each) for each in ((t.sent for t in found), (t.seconds for t in found)))
    remark("program-cost", f"all: a rank sends {sent:.0f} bytes, {seconds:.3g} s", module.location)
    return module


RANK_PASSES: dict[str, Pass] = {
    name_of(p): p for p in (program_cost, program_distribute, program_pipeline, program_shard)
}
