# SPDX-License-Identifier: Apache-2.0
"""The passes from program to program, and the one that turns names into values, by name."""

from __future__ import annotations

from typing import Literal

from ..ir.core import Module
from ..rewrite.contracts import contract
from ..rewrite.pipeline import Pass, name_of
from ..rewrite.remarks import remark
from ..runtime.targets import DEVICES, find_device
from ..support.diagnostics import UserError
from ..support.spelling import did_you_mean
from ..support.target import Target
from .backward import append_backward
from .fold_batch_norm import folded
from .half_precision import HALVES, to_half
from .liveness import liveness
from .lower import lower
from .prune import inference_form, pruned, test_form
from .rank_passes import RANK_PASSES
from .select_kernels import select_kernels
from .text import program_of


@contract(needs=("program",), gives="named")
def program_to_values(module: Module, target: Target) -> Module:
    """Turns the variables of a program into values: operators into `ng` ops, state into arguments that results are tied to.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @feed : tensor<f32> {holds = "feed_list", persistable}
          program.var @fetch : tensor<f32> {holds = "fetch_list", persistable}
          program.var @x : tensor<4xf32> {data, stop_gradient}
          program.var @total : tensor<4xf32> {persistable}
          program.op feed {X = [@feed]} -> {Out = [@x]} with {col = 0 : i32}
          program.op elementwise_add {X = [@total], Y = [@x]} -> {Out = [@total]} with {axis = -1 : i32}
          program.op fetch {X = [@total]} -> {Out = [@fetch]} with {col = 0 : i32}
        }

    After:

        func.func @main(%x: tensor<4xf32> {ng.name = "x"}, %total: tensor<4xf32> {ng.name = "total"}) -> (tensor<4xf32>, tensor<4xf32>) attributes {ng.tied = array<i64: 1, 1>} {
          %0 = ng.add %total, %x : tensor<4xf32>
          func.return %0, %0 : tensor<4xf32>, tensor<4xf32>
        }
    """
    return lower(program_of(module)).module


@contract(needs=("program",))
def program_extract(module: Module, target: Target, *, targets: str) -> Module:
    """Keeps the operators of a program that some variables need; `targets` are their names, joined by +.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4xf32> {data, stop_gradient}
          program.var @y : tensor<4xf32>
          program.var @z : tensor<4xf32>
          program.op relu {X = [@x]} -> {Out = [@y]}
          program.op tanh {X = [@x]} -> {Out = [@z]}
        }

    After, with `targets=y`:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4xf32> {data, stop_gradient}
          program.var @y : tensor<4xf32>
          program.op relu {X = [@x]} -> {Out = [@y]}
        }
    """
    names = [name for name in targets.split("+") if name]
    if not names:
        raise UserError(
            "nothing is left of a program without targets", hint="program-extract{targets=loss+accuracy}"
        )
    program = program_of(module)
    for name in names:
        program.top.visible(name, module.location)
    return pruned(program, names).module


@contract(needs=("program",))
def program_for_test(module: Module, target: Target) -> Module:
    """Makes a program as it is used after training: `is_test` is set, gradients and updates are left out.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @y : tensor<4x3xf32>
          program.op softmax {X = [@x]} -> {Out = [@y]} with {is_test = false}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @y : tensor<4x3xf32>
          program.op softmax {X = [@x]} -> {Out = [@y]} with {is_test = true}
        }
    """
    return test_form(program_of(module)).module


@contract(needs=("program",))
def program_inference(module: Module, target: Target) -> Module:
    """Sets `is_test` wherever an operator of a program has it.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @y : tensor<4x3xf32>
          program.op softmax {X = [@x]} -> {Out = [@y]}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @y : tensor<4x3xf32>
          program.op softmax {X = [@x]} -> {Out = [@y]} with {is_test = true}
        }
    """
    return inference_form(program_of(module)).module


@contract(needs=("program",))
def program_fold_batch_norm(module: Module, target: Target) -> Module:
    """Folds batch normalization with stored means and variances into the convolution or matrix product before it, whose filters and
    bias are then computed first, from parameters alone.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @w : tensor<3x2xf32> {persistable}
          program.var @scale : tensor<2xf32> {persistable}
          program.var @shift : tensor<2xf32> {persistable}
          program.var @mean : tensor<2xf32> {persistable}
          program.var @variance : tensor<2xf32> {persistable}
          program.var @h : tensor<4x2xf32>
          program.var @m : tensor<2xf32>
          program.var @v : tensor<2xf32>
          program.var @y : tensor<4x2xf32>
          program.op mul {X = [@x], Y = [@w]} -> {Out = [@h]}
          program.op batch_norm {X = [@h], Scale = [@scale], Bias = [@shift], Mean = [@mean], Variance = [@variance]} -> {Y = [@y], MeanOut = [@mean], VarianceOut = [@variance], SavedMean = [@m], SavedVariance = [@v]} with {is_test = true}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @w : tensor<3x2xf32> {persistable}
          program.var @scale : tensor<2xf32> {persistable}
          program.var @shift : tensor<2xf32> {persistable}
          program.var @mean : tensor<2xf32> {persistable}
          program.var @variance : tensor<2xf32> {persistable}
          program.var @y : tensor<4x2xf32>
          program.var @"y@variance" : tensor<2xf32>
          program.var @"y@deviation" : tensor<2xf32>
          program.var @"y@factor" : tensor<2xf32>
          program.var @"y@filter" : tensor<3x2xf32>
          program.var @"y@mean" : tensor<2xf32>
          program.var @"y@bias" : tensor<2xf32>
          program.var @"y@linear" : tensor<4x2xf32>
          program.op increment {X = [@variance]} -> {Out = [@"y@variance"]} with {step = 1.0e-05 : f64}
          program.op sqrt {X = [@"y@variance"]} -> {Out = [@"y@deviation"]}
          program.op elementwise_div {X = [@scale], Y = [@"y@deviation"]} -> {Out = [@"y@factor"]} with {axis = -1 : i32}
          program.op elementwise_mul {X = [@w], Y = [@"y@factor"]} -> {Out = [@"y@filter"]} with {axis = 1 : i32}
          program.op elementwise_mul {X = [@mean], Y = [@"y@factor"]} -> {Out = [@"y@mean"]} with {axis = -1 : i32}
          program.op elementwise_sub {X = [@shift], Y = [@"y@mean"]} -> {Out = [@"y@bias"]} with {axis = -1 : i32}
          program.op mul {X = [@x], Y = [@"y@filter"]} -> {Out = [@"y@linear"]}
          program.op elementwise_add {X = [@"y@linear"], Y = [@"y@bias"]} -> {Out = [@y]} with {axis = 1 : i32}
        }
    """
    return folded(program_of(module)).program.module


@contract(needs=("program",))
def program_liveness(module: Module, target: Target) -> Module:
    """Tells by remarks which variables are live before and after each operator of the global block; changes nothing.

    `ngopt --program-liveness --remark=liveness`. Persistable variables, which always are live, do not count.

        x.ngir:4:3: remark: relu: live before: x; after: none; ends: x, y

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4xf32> {data, stop_gradient}
          program.var @y : tensor<4xf32>
          program.op relu {X = [@x]} -> {Out = [@y]}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4xf32> {data, stop_gradient}
          program.var @y : tensor<4xf32>
          program.op relu {X = [@x]} -> {Out = [@y]}
        }
    """
    for live in liveness(program_of(module).top):
        parts = (("live before", live.before), ("after", live.after), ("ends", live.ended))
        told = "; ".join(f"{what}: {', '.join(sorted(names)) or 'none'}" for what, names in parts)
        remark("liveness", f"{live.operator.type}: {told}", live.operator.location)
    return module


@contract(needs=("program",))
def program_backward(module: Module, target: Target, *, loss: str) -> Module:
    """Appends the operators that compute the gradients of the variable `loss`, of shape [1], by all parameters.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @w : tensor<4xf32> {persistable, parameter = {trainable = true}}
          program.var @loss : tensor<1xf32>
          program.op mean {X = [@w]} -> {Out = [@loss]}
        }

    After, with `loss=loss`:

        module attributes {program.version = 1 : i64} {
          program.var @w : tensor<4xf32> {persistable, parameter = {trainable = true}}
          program.var @loss : tensor<1xf32>
          program.var @"loss@GRAD" : tensor<1xf32>
          program.var @"w@GRAD" : tensor<4xf32>
          program.op mean {X = [@w]} -> {Out = [@loss]} with {op_role = 256 : i32}
          program.op fill_constant {} -> {Out = [@"loss@GRAD"]} with {dtype = 5 : i32, shape = array<i32: 1>, value = 1.0 : f64, force_cpu = false, op_role = 257 : i32}
          program.op mean_grad {X = [@w], Out = [@loss], "Out@GRAD" = [@"loss@GRAD"]} -> {"X@GRAD" = [@"w@GRAD"]} with {op_role = 1 : i32, op_role_var = ["w", "w@GRAD"]}
        }
    """
    program = program_of(module).copy()
    append_backward(program.top.visible(loss, module.location))
    return program.module


@contract(needs=("program",))
def program_half_precision(
    module: Module, target: Target, *, element: Literal["bf16", "f16"] = "bf16"
) -> Module:
    """Has the products and convolutions of a program computed in 16 bits, between operators `cast`; all else stays float32.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @w : tensor<3x2xf32> {persistable}
          program.var @y : tensor<4x2xf32>
          program.op mul {X = [@x], Y = [@w]} -> {Out = [@y]} with {x_num_col_dims = 1 : i32, y_num_col_dims = 1 : i32}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4x3xf32> {data, stop_gradient}
          program.var @w : tensor<3x2xf32> {persistable}
          program.var @y : tensor<4x2xf32>
          program.var @x.bf16 : tensor<4x3xbf16> {stop_gradient}
          program.var @w.bf16 : tensor<3x2xbf16>
          program.var @y.bf16 : tensor<4x2xbf16>
          program.op cast {X = [@x]} -> {Out = [@x.bf16]} with {out_dtype = 22 : i32, in_dtype = 5 : i32}
          program.op cast {X = [@w]} -> {Out = [@w.bf16]} with {out_dtype = 22 : i32, in_dtype = 5 : i32}
          program.op mul {X = [@x.bf16], Y = [@w.bf16]} -> {Out = [@y.bf16]} with {x_num_col_dims = 1 : i32, y_num_col_dims = 1 : i32}
          program.op cast {X = [@y.bf16]} -> {Out = [@y]} with {out_dtype = 5 : i32, in_dtype = 22 : i32}
        }
    """
    program = program_of(module).copy()
    to_half(program, HALVES[element])
    return program.module


@contract(needs=("program",))
def program_kernels(module: Module, target: Target, *, place: str = "cpu", library: str = "") -> Module:
    """Chooses the kernels of the operators, for a program that runs at `place`. One of another place, element type or layout is put between
    `copy`, `cast` and `layout` operators; pairs of these that cancel are left out. `library` is preferred where it has a kernel;
    docs/operators-of-your-own.md shows more.

    Before:

        module attributes {program.version = 1 : i64} {
          program.var @fetch : tensor<f32> {holds = "fetch_list", persistable}
          program.var @x : tensor<4xf32> {data, stop_gradient}
          program.var @x.f64 : tensor<4xf64>
          program.var @y : tensor<4xf32>
          program.var @z : tensor<4xf32>
          program.op cast {X = [@x]} -> {Out = [@x.f64]} with {out_dtype = 6 : i32, in_dtype = 5 : i32}
          program.op cast {X = [@x.f64]} -> {Out = [@y]} with {out_dtype = 5 : i32, in_dtype = 6 : i32}
          program.op relu {X = [@y]} -> {Out = [@z]}
          program.op fetch {X = [@z]} -> {Out = [@fetch]} with {col = 0 : i32}
        }

    After:

        module attributes {program.version = 1 : i64} {
          program.var @fetch : tensor<f32> {holds = "fetch_list", persistable}
          program.var @x : tensor<4xf32> {data, stop_gradient}
          program.var @x.f64 : tensor<4xf64>
          program.var @y : tensor<4xf32>
          program.var @z : tensor<4xf32>
          program.op relu {X = [@x]} -> {Out = [@z]}
          program.op fetch {X = [@z]} -> {Out = [@fetch]} with {col = 0 : i32}
        }
    """
    if find_device(place) is None:
        raise UserError(
            f"there is no place '{place}'", hint=did_you_mean(place, DEVICES, f"one of {', '.join(DEVICES)}")
        )
    return select_kernels(program_of(module), place, library).module


PROGRAM_PASSES: dict[str, Pass] = {
    name_of(p): p
    for p in (
        program_extract,
        program_backward,
        program_fold_batch_norm,
        program_for_test,
        program_half_precision,
        program_inference,
        program_kernels,
        program_liveness,
        program_to_values,
    )
} | RANK_PASSES
