# SPDX-License-Identifier: Apache-2.0
"""What is refused while a program is built leaves nothing of itself: no operator, no variable, no block, and no number of a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from program_helpers import X
from program_helpers import program as program

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers


def _state() -> Any:
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    counted = {key: n for key, n in fluid.unique_name.generator.ids.items() if n}
    return str(main), str(startup), main.num_blocks, main.current_block().idx, counted


def _refused(action: Callable[[], Any], error: type[Exception] = UserError) -> None:
    before = _state()
    with pytest.raises(error) as caught:
        action()
    assert _state() == before
    if isinstance(caught.value, UserError):
        assert caught.value.diagnostics[0].location.file == __file__


def _run(fetched: Any, **feed: Any) -> Any:
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    return executor.run(feed=feed, fetch_list=[fetched])[0]


LAYERS: dict[str, Callable[[Any], Any]] = {
    "an activation that there is not": lambda x: layers.fc(x, 2, act="rellu"),
    "the second of two parameters": lambda x: layers.fc([x, x], 2, param_attr=fluid.ParamAttr(name="w")),
    "a parameter without elements": lambda x: layers.fc(x, -2),
    "an operand that is none": lambda x: x + "a",
    "an attribute out of its range": lambda x: layers.dropout(x, dropout_prob=2.0),
    "a net of several layers": lambda x: fluid.nets.simple_img_conv_pool(x, 4, 3, 2, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_refused_layer(name: str) -> None:
    x = layers.data("x", [3])
    layers.fc(x, 2, param_attr="known")
    _refused(lambda: LAYERS[name](x))
    # The next layer has the name that the refused one would have had.
    assert layers.fc(x, 2, act="relu").name == "fc_1.tmp_2"


def test_what_fits_no_variable_that_is_there() -> None:
    x = layers.data("x", [3])
    layers.fc(x, 2, param_attr="known")
    y, z = layers.fill_constant([5], "float32", 1.0), layers.reduce_sum(x, dim=1, keep_dim=True)
    _refused(lambda: x + y)
    _refused(lambda: layers.fc(z, 2, param_attr="known"))


def test_a_refused_operator_in_place() -> None:
    # What is inferred of its outputs is taken back too.
    x = layers.data("x", [3])
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="out", shape=[7], dtype="float32")
    other = block.create_var(name="other", shape=[5], dtype="float32")
    _refused(
        lambda: block.append_op(type="elementwise_add", inputs={"X": x, "Y": other}, outputs={"Out": out})
    )


def test_a_loop_with_a_refused_layer() -> None:
    x = layers.data("x", [3])
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    total = layers.fill_constant([1], "float32", 0.0)
    condition = layers.less_than(i, n)
    loop = layers.While(condition)

    def filled(size: int) -> None:
        with loop.block():
            layers.assign(total + layers.mean(layers.fc(x, size)), total)
            layers.increment(i, 1.0)
            layers.less_than(i, n, cond=condition)

    _refused(lambda: filled(-2))
    filled(2)
    assert np.isfinite(_run(total, x=X)).all()


def test_a_layer_that_a_user_gives_up_in_a_loop() -> None:
    # The loop stays, without that layer.
    x = layers.data("x", [3])
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    condition = layers.less_than(i, n)
    with layers.While(condition).block():
        _refused(lambda: layers.fc(x, 2, act="rellu"))
        layers.increment(i, 1.0)
        layers.less_than(i, n, cond=condition)
    assert _run(i, x=X).tolist() == [3]


def test_a_recurrent_network_with_a_refused_layer() -> None:
    x = layers.data("x", [3, 4], append_batch_size=False)
    network = layers.StaticRNN()

    def filled(is_right: bool) -> None:
        with network.step():
            word = network.step_input(x)
            before = network.memory(shape=[4], batch_ref=word)
            after = before + word
            if is_right:
                network.update_memory(before, after)
            network.step_output(after)

    _refused(lambda: filled(False))
    filled(True)
    rows = X.reshape(3, 4)
    assert np.array_equal(_run(network(), x=rows), rows.cumsum(axis=0))


def test_a_branch_with_a_refused_layer() -> None:
    x = layers.data("x", [1])
    limit = layers.fill_constant_batch_size_like(x, [-1, 1], "float32", 5.0)
    chosen = layers.IfElse(layers.less_than(x, limit))

    def filled(size: int) -> None:
        with chosen.true_block():
            rows = chosen.input(x)
            chosen.output(rows * 2.0)
            layers.fc(rows, size)

    _refused(lambda: filled(-2))
    filled(2)
    assert _run(chosen()[0], x=X[:, :1]).ravel().tolist() == [0.0, 6.0, 0.0, 0.0]


def test_a_refused_optimizer() -> None:
    first, second = (
        layers.create_parameter(
            [n],
            "float32",
            attr=fluid.ParamAttr(name=name, gradient_clip=fluid.clip.GradientClipByGlobalNorm(norm)),
        )
        for n, name, norm in ((2, "first", 1.0), (3, "second", 2.0))
    )
    loss = layers.reduce_sum(first * first) + layers.reduce_sum(second * second)
    optimizer = fluid.optimizer.Adam(0.1)
    _refused(lambda: optimizer.minimize(loss))
    _refused(lambda: fluid.append_backward(loss, parameter_list=["none"]))


def test_an_optimizer_is_used_again_after_an_error() -> None:
    class Own(fluid.optimizer.AdamOptimizer):
        operator = "adam"
        fails = True

        def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
            made = super()._append_optimize_op(block, param_and_grad)
            if self.fails:
                raise RuntimeError("of the user")
            return made

    one = fluid.initializer.Constant(1.0)
    weight = layers.create_parameter([2], "float32", attr=fluid.ParamAttr(name="w", initializer=one))
    loss, optimizer = layers.reduce_sum(weight * weight), Own(0.1)
    _refused(lambda: optimizer.minimize(loss), RuntimeError)
    optimizer.fails = False
    optimizer.minimize(loss)
    assert np.allclose(_run(weight), 0.9, rtol=1e-5)


def test_a_loss_without_parameters() -> None:
    x = layers.data("x", [3])
    loss, optimizer = layers.mean(x), fluid.optimizer.SGD(0.1)
    _refused(lambda: optimizer.minimize(loss))
