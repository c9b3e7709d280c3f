# SPDX-License-Identifier: Apache-2.0
"""Batch normalization folded into what is before it: results agree with those of the program before, and what cannot be folded
stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import layers

pytestmark = pytest.mark.usefixtures("programs")

Variable = fluid.Variable
DRAW = np.random.default_rng(0)


def images() -> Variable:
    return layers.data("images", [4, 6, 6])


def conv(x: Variable, filters: int = 6, **settings: Any) -> Variable:
    return layers.conv2d(x, filters, 3, padding=1, **{"bias_attr": False, **settings})


def filled() -> fluid.Executor:
    """Runs the start-up program, and gives all parameters values that are not those of a beginning."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    scope = fluid.global_scope()
    for parameter in fluid.default_main_program().all_parameters():
        shape = [n for n in parameter.shape]
        value = DRAW.uniform(0.5, 2, shape) if "batch_norm" in parameter.name else DRAW.normal(size=shape)
        scope.var(parameter.name).get_tensor().set(value.astype(np.float32))
    return exe


def types(program: fluid.Program) -> list[str]:
    return [o.type for o in program.global_block().ops]


def check(outputs: list[Variable], wanted: list[str], place: fluid.Place | None = None) -> fluid.Program:
    """Folds a program, and compares the results before and after, and the operators after."""
    exe = filled() if place is None else fluid.Executor(place)
    if place is not None:
        filled()
    program = fluid.default_main_program().clone(for_test=True)
    feed = {
        v.name: DRAW.normal(size=[3 if n < 0 else n for n in v.shape]).astype(np.float32)
        for v in program.list_vars()
        if v.is_data
    }
    names = [v.name for v in outputs]
    before = exe.run(program, feed=feed, fetch_list=names)
    fluid.InferenceTranspiler().transpile(program, exe.place, fluid.global_scope())
    assert types(program) == wanted
    after = exe.run(program, feed=feed, fetch_list=names)
    for one, other in zip(before, after, strict=True):
        assert np.abs(one - other).max() <= 1e-5 * np.abs(one).max()
    # What is folded needs no parameter of the normalization, and neither new temporaries.
    used = {n for o in program.global_block().ops for n in (*o.input_arg_names, *o.output_arg_names)}
    assert {v.name for v in program.list_vars()} - used <= set(feed)
    return program


CASES: dict[str, tuple[Callable[[], Variable], list[str]]] = {
    "a convolution": (lambda: layers.batch_norm(conv(images())), ["conv2d", "elementwise_add"]),
    "with a bias": (lambda: layers.batch_norm(conv(images(), bias_attr=None)), ["conv2d", "elementwise_add"]),
    "with an activation after": (
        lambda: layers.batch_norm(conv(images()), act="relu"),
        ["conv2d", "elementwise_add", "relu"],
    ),
    "with relu in the normalization": (
        lambda: layers.batch_norm(conv(images()), fuse_with_relu=True),
        ["conv2d", "elementwise_add", "relu"],
    ),
    "grouped": (lambda: layers.batch_norm(conv(images(), groups=2)), ["conv2d", "elementwise_add"]),
    "depthwise": (
        lambda: layers.batch_norm(conv(images(), 8, groups=4, use_cudnn=False)),
        ["depthwise_conv2d", "elementwise_add"],
    ),
    "transposed": (
        lambda: layers.batch_norm(layers.conv2d_transpose(images(), 5, filter_size=3)),
        ["conv2d_transpose", "elementwise_add"],
    ),
    "three lengths": (
        lambda: layers.batch_norm(layers.conv3d(layers.data("volume", [2, 4, 4, 4]), 3, 3)),
        ["conv3d", "elementwise_add"],
    ),
    "fully connected": (
        lambda: layers.batch_norm(layers.fc(layers.data("x", [5]), 7)),
        ["mul", "elementwise_add"],
    ),
    "fully connected, rows in two dimensions": (
        lambda: layers.batch_norm(
            layers.fc(layers.data("x", [4, 5]), 7, num_flatten_dims=2), data_layout="NHWC"
        ),
        ["mul", "elementwise_add"],
    ),
    "the result is used twice": (
        lambda: layers.elementwise_add(*[layers.batch_norm(conv(images()))] * 2),
        ["conv2d", "elementwise_add", "elementwise_add"],
    ),
    "one after the other": (
        lambda: layers.batch_norm(conv(layers.batch_norm(conv(images()), act="relu"))),
        ["conv2d", "elementwise_add", "relu", "conv2d", "elementwise_add"],
    ),
    "filters of two convolutions": (
        lambda: layers.elementwise_add(
            layers.batch_norm(conv(x := images(), param_attr="shared")), conv(x, param_attr="shared")
        ),
        ["conv2d", "elementwise_add", "conv2d", "elementwise_add"],
    ),
    "a residual block": (
        lambda: layers.elementwise_add(
            layers.batch_norm(conv(x := images())), layers.batch_norm(conv(x), act="relu"), act="relu"
        ),
        ["conv2d", "elementwise_add", "conv2d", "elementwise_add", "relu", "elementwise_add", "relu"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_results_agree(case: str) -> None:
    build, wanted = CASES[case]
    check([build()], wanted)


def test_two_normalizations_of_shared_filters() -> None:
    x = images()
    both = [layers.batch_norm(conv(x, param_attr="shared")) for _ in range(2)]
    program = check(both, ["conv2d", "elementwise_add"] * 2)
    filters = [o.input("Filter")[0] for o in program.global_block().ops if o.type == "conv2d"]
    assert len(set(filters)) == 2 and not program.global_block().has_var("shared")


STAYS: dict[str, Callable[[], list[Variable]]] = {
    "another operator between": lambda: [layers.batch_norm(layers.relu(conv(images())))],
    "the result of the convolution is used": lambda: [layers.batch_norm(x := conv(images())), layers.relu(x)],
    "no convolution": lambda: [layers.batch_norm(images())],
    "channels elsewhere": lambda: [layers.batch_norm(conv(images()), data_layout="NHWC")],
    "rows in two dimensions": lambda: [
        layers.batch_norm(layers.fc(layers.data("x", [4, 5]), 7, num_flatten_dims=2))
    ],
    "the sum with another convolution": lambda: [
        layers.batch_norm(layers.elementwise_add(conv(x := images()), conv(x)))
    ],
    "a number for each pixel is added": lambda: [
        layers.batch_norm(
            layers.elementwise_add(conv(images()), layers.create_parameter([6], "float32", "edge"), axis=3)
        )
    ],
    "grouped and transposed": lambda: [
        layers.batch_norm(layers.conv2d_transpose(images(), 6, filter_size=3, groups=2))
    ],
    "filters that are computed": lambda: [_with_computed_filters()],
    "mean and variance of the batch are read": lambda: [_with_read_variance()],
}


def _with_computed_filters() -> Variable:
    made = layers.batch_norm(conv(images(), param_attr="w"))
    block = fluid.default_main_program().global_block()
    block.prepend_op(type="scale", inputs={"X": ["w"]}, outputs={"Out": ["w"]}, attrs={"scale": 1.0})
    return made


def _with_read_variance() -> Variable:
    made = layers.batch_norm(conv(images()))
    (norm,) = (o for o in fluid.default_main_program().global_block().ops if o.type == "batch_norm")
    read = fluid.default_main_program().global_block().var(norm.output("SavedMean")[0])
    return layers.elementwise_add(made, read, axis=1)


@pytest.mark.parametrize("case", STAYS)
def test_what_cannot_be_folded_stays(case: str) -> None:
    outputs = STAYS[case]()
    check(outputs, types(fluid.default_main_program()))


def test_training_programs_stay() -> None:
    layers.batch_norm(conv(images()))
    filled()
    program = fluid.default_main_program().clone()
    fluid.InferenceTranspiler().transpile(program)
    assert str(program) == str(fluid.default_main_program())


def test_other_programs_of_the_scope_go_on() -> None:
    out = layers.batch_norm(conv(images()))
    exe = filled()
    feed = {"images": DRAW.normal(size=(2, 4, 6, 6)).astype(np.float32)}
    test = fluid.default_main_program().clone(for_test=True)
    (before,) = exe.run(test, feed=feed, fetch_list=[out.name])
    fluid.InferenceTranspiler().transpile(test.clone())
    (after,) = exe.run(test, feed=feed, fetch_list=[out.name])
    assert np.array_equal(before, after)


def test_a_folded_program_is_saved(tmp_path: Any) -> None:
    import ngmlir as ng

    out = layers.batch_norm(conv(images()), act="relu")
    exe = filled()
    test = fluid.default_main_program().clone(for_test=True)
    fluid.InferenceTranspiler().transpile(test, exe.place)
    fluid.io.save_inference_model(str(tmp_path), ["images"], [test.global_block().var(out.name)], exe, test)
    x = DRAW.normal(size=(2, 4, 6, 6)).astype(np.float32)
    (wanted,) = exe.run(test, feed={"images": x}, fetch_list=[out.name])
    assert np.array_equal(ng.compile(ng.load(tmp_path))(x)[0], wanted)


def test_a_scope_without_values_changes_nothing() -> None:
    layers.batch_norm(conv(images()))
    program = fluid.default_main_program().clone(for_test=True)
    before = str(program)
    with pytest.raises(ValueError, match="has no value in this scope"):
        fluid.InferenceTranspiler().transpile(program, fluid.CPUPlace(), fluid.Scope())
    assert str(program) == before
    with pytest.raises(TypeError, match="takes a program"):
        fluid.InferenceTranspiler().transpile("main")
    with pytest.raises(TypeError, match="takes a scope"):
        fluid.InferenceTranspiler().transpile(program, None, {})


@pytest.mark.parametrize("place", [fluid.NumpyPlace(), fluid.Place("cuda-sim")])
def test_other_places(place: fluid.Place) -> None:
    check([layers.batch_norm(conv(images(), 2, bias_attr=None))], ["conv2d", "elementwise_add"], place)
