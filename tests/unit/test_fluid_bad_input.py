# SPDX-License-Identifier: Apache-2.0
"""Wrong programs and files: each is refused at the user's line, with what and why, and leaves program, scope and files as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
X = np.ones((4, 3), np.float32)


@pytest.fixture(autouse=True)
def program() -> Any:
    made = fluid.Program()
    with fluid.program_guard(made, fluid.Program()), fluid.unique_name.guard():
        yield made


def _refused(action: Callable[[], Any], message: str, hint: str = "", here: bool = True) -> None:
    """The error of an action, whose program is as before."""
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    before = str(main), str(startup), [list(b.view.variables) for b in main.blocks]
    with pytest.raises(UserError) as caught:
        action()
    first = caught.value.diagnostics[0]
    assert message in first.message and hint in first.hint, str(caught.value)
    assert first.location.known and (first.location.file == __file__) == here
    assert (str(main), str(startup), [list(b.view.variables) for b in main.blocks]) == before


def _sub_blocks() -> tuple[Any, Any, Any]:
    """The global block, with `x` [4, 3], and two blocks below it: `inner` is of the first one."""
    main = fluid.default_main_program()
    whole = main.global_block()
    whole.create_var(name="x", shape=[4, 3], dtype="float32")
    first = main.create_block()
    first.create_var(name="inner", shape=[5, 2], dtype="float32")
    main.rollback()
    second = main.create_block()
    main.rollback()
    return whole, first, second


# ---- inside sub-blocks


def test_shapes_that_do_not_fit_inside_a_sub_block() -> None:
    _, first, _ = _sub_blocks()
    first.create_var(name="out")
    said = {"type": "mul", "inputs": {"X": "x", "Y": "inner"}, "outputs": {"Out": "out"}}
    _refused(
        lambda: first.append_op(**said), "X is 4 x 3 as a matrix, Y 5 x 2", "the columns of X are as many"
    )
    said = {"type": "elementwise_add", "inputs": {"X": "x", "Y": "inner"}, "outputs": {"Out": "out"}}
    _refused(lambda: first.append_op(**said), "")
    # A block around another one does not see what is declared inside.
    assert first.has_var_recursive("x") and not first.has_var("x")


def test_a_variable_of_a_sibling_block() -> None:
    whole, _, second = _sub_blocks()
    whole.create_var(name="out")
    said = {"type": "relu", "inputs": {"X": "inner"}, "outputs": {"Out": "out"}}
    message, hint = (
        "the variable 'inner' is of block 1, which block {} does not see",
        "declare inner in one of them",
    )
    _refused(lambda: second.append_op(**said), message.format(2), hint)
    _refused(lambda: whole.append_op(**said), message.format(0), hint)
    _refused(lambda: second.var_recursive("inner"), message.format(2), hint)
    text = str(fluid.default_main_program()).replace("program.block 2 {\n", "program.block 2 {\n    ")
    wrong = text.replace(
        "program.block 2 {", "program.block 2 {\n program.op relu {X = [@inner]} -> {Out = [@x]}", 1
    )
    if wrong != text:
        _refused(lambda: fluid.Program.parse_from_string(wrong), message.format(2), here=False)


def test_a_block_is_run_by_one_operator() -> None:
    _, first, second = _sub_blocks()
    desc = fluid.default_main_program().desc
    op = desc.block(first.idx).append_op()
    with pytest.raises(UserError, match="is run by another operator, or lies below another block"):
        op.set_block_attr("sub_block", desc.block(second.idx))


# ---- names


def test_a_second_description_of_a_name() -> None:
    block = fluid.default_main_program().global_block()
    first = block.create_var(name="v", shape=[2, 3], dtype="float32")
    hint = "give the other one another name"
    for said, message in (
        ({"shape": [3, 2]}, "its shape was [2, 3], not [3, 2]"),
        ({"dtype": "int64"}, "its dtype was FP32, not INT64"),
        ({"lod_level": 1}, "its lod_level was 0, not 1"),
        ({"type": fluid.core.VarDesc.VarType.RAW}, "its type was LOD_TENSOR, not RAW"),
        ({"persistable": True}, "persistable differs"),
    ):
        _refused(
            lambda said=said: block.create_var(name="v", **said),
            message,
            "" if "persistable" in said else hint,
            here=True,
        )
    assert block.create_var(name="v", shape=[2, 3]).view is first.view
    _refused(lambda: block.rename_var("v", "v"), "declares the variable 'v' already")


def test_a_parameter_of_another_shape() -> None:
    x = layers.data("x", [3])
    layers.fc(x, 2, param_attr="shared", bias_attr=False)
    before = str(fluid.default_main_program())
    with pytest.raises(UserError, match="'shared' is described a second time, and its shape was") as caught:
        layers.fc(x, 4, param_attr="shared", bias_attr=False)
    assert caught.value.diagnostics[0].location.file == __file__
    assert str(fluid.default_main_program()) == before


# ---- places, feeds and fetches


def test_places_that_are_not_there() -> None:
    for place in ("tpu", "cuda:x", ""):
        with pytest.raises(UserError, match=f"there is no place '{place}'") as caught:
            fluid.Place(place)
        assert "places are numpy, cpu" in caught.value.diagnostics[0].hint
    with pytest.raises(UserError, match="an executor runs at a place, not at 'cpu'"):
        fluid.Executor("cpu")  # pyright: ignore[reportArgumentType]


def test_a_fetch_that_was_pruned() -> None:
    x = layers.data("x", [3])
    kept, other = layers.relu(x), layers.tanh(x)
    pruned = fluid.default_main_program().prune([kept])
    scope = fluid.Scope()

    def fetch() -> None:
        fluid.Executor().run(pruned, {"x": X}, [other], scope=scope)

    _refused(fetch, f"there is no variable '{other.name}' in block 0")
    assert scope.local_var_names() == []
    # A variable that is declared and that nothing computes.
    loose = fluid.default_main_program().global_block().create_var(name="loose", shape=[1], dtype="float32")
    _refused(
        lambda: fluid.Executor().run(feed={"x": X}, fetch_list=[loose]),
        "reads 'loose', which has no value yet",
    )


def test_targets_of_another_program() -> None:
    mine = layers.relu(layers.data("x", [3], stop_gradient=False))
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = layers.data("x", [3], stop_gradient=False)
        theirs = layers.tanh(x)
    main = fluid.default_main_program()
    _refused(lambda: main.prune([theirs]), f"the variable '{theirs.name}' is of another program")
    _refused(lambda: main.prune([theirs.op]), "the operator tanh is of another program")
    _refused(lambda: fluid.calc_gradient(mine, x), "the variable 'x' is of another program")
    _refused(
        lambda: fluid.calc_gradient([mine, theirs], x), f"the variable '{theirs.name}' is of another program"
    )


def test_a_gradient_of_several_elements() -> None:
    y = layers.fc(layers.data("x", [3]), 2)
    _refused(lambda: fluid.append_backward(y), "has the shape [-1, 2], and gradients are of one number")
    with pytest.raises(UserError, match="gradients are of one number"):
        fluid.optimizer.SGD(0.1).minimize(y)


def test_an_error_in_a_run_changes_no_variable() -> None:
    block = fluid.default_main_program().global_block()
    count = block.create_var(name="count", shape=[1], dtype="float32", persistable=True)
    layers.increment(count)
    total = layers.elementwise_add(layers.data("x", [3]), layers.data("y", [3]))
    scope = fluid.Scope()
    scope.var("count").get_tensor().set(np.array([7], np.float32))
    with pytest.raises(UserError) as caught:
        fluid.Executor().run(feed={"x": X, "y": X[:2]}, fetch_list=[count, total], scope=scope)
    assert caught.value.diagnostics[0].location.file == __file__
    assert np.array(scope.tensor("count")) == 7 and scope.local_var_names() == ["count"]


def test_a_length_that_is_not_known_has_a_number_in_messages() -> None:
    x = layers.data("x", [3])
    said = {"type": "reshape", "inputs": {"X": x}, "outputs": {"Out": "out"}, "attrs": {"shape": [5, 2]}}
    block = fluid.default_main_program().global_block()
    block.create_var(name="out")
    _refused(
        lambda: block.append_op(**said),
        "do not have the shape [5, 2]",
        "lengths that are not known are 240 here",
    )


def test_a_length_that_is_not_known_may_be_one_that_is() -> None:
    x, total = layers.data("x", [3]), layers.fill_constant([4, 3], "float32", 1)
    summed = total + x
    assert summed.shape == (4, 3)
    exe = fluid.Executor()
    (found,) = exe.run(feed={"x": np.ones((4, 3), np.float32)}, fetch_list=[summed])
    assert found.tolist() == [[2, 2, 2]] * 4
    with pytest.raises(UserError, match=r"(?s)\[5, 3\].*\[4, 3\]"):
        exe.run(feed={"x": np.ones((5, 3), np.float32)}, fetch_list=[summed])


# ---- files


def test_files_of_another_version(tmp_path: Path) -> None:
    layers.fc(layers.data("x", [3]), 2, param_attr="w", bias_attr=False)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    fluid.io.save_params(executor, str(tmp_path))
    before = np.array(fluid.global_scope().tensor("w"))
    path = tmp_path / "w"
    path.write_bytes(path.read_bytes().replace(b"ngmlir variables 1 ", b"ngmlir variables 2 "))
    with pytest.raises(UserError, match="of version 2; this release reads version 1"):
        fluid.io.load_params(executor, str(tmp_path))
    path.write_bytes(b"something else")
    with pytest.raises(UserError, match="is no file of variables"):
        fluid.io.load_params(executor, str(tmp_path))
    assert np.array_equal(np.array(fluid.global_scope().tensor("w")), before)


# ---- classes


def _rnn(action: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """An action on a recurrent network and the slice of its input, inside of its step."""

    def act() -> None:
        rnn = layers.StaticRNN()
        with rnn.step():
            action(rnn, rnn.step_input(layers.data("x", [3, 2], append_batch_size=False)))

    return act


def _of_branches() -> None:
    x = layers.data("x", [1])
    choice = layers.IfElse(x > layers.fill_constant([1], "float32", 0.0))
    with choice.true_block():
        choice.output(choice.input(x))
    with choice.false_block():
        choice.output(choice.input(x), choice.input(x))
    choice()


def _without_steps() -> None:
    with layers.StaticRNN().step():
        pass


METHODS: dict[str, tuple[Callable[[], Any], str]] = {
    "memory": (_rnn(lambda rnn, word: rnn.memory(shape=[2])), "a memory begins as init="),
    "update": (_rnn(lambda rnn, word: rnn.update_memory(word, word)), "is no memory of this network"),
    "steps": (_without_steps, "goes over a sequence"),
    "call": (lambda: layers.DynamicRNN()(), "when its step is filled"),
    "outside": (lambda: layers.StaticRNN().step_input(None), "is given inside the block of the step"),
    "branches": (_of_branches, "the true block gives 1 variables, the false block 2"),
    "rate": (lambda: fluid.optimizer.SGD(learning_rate="fast"), "a learning rate is a number"),
    "no inputs": (lambda: layers.concat([]), "takes one variable or more"),
    "clip": (lambda: fluid.clip.set_gradient_clip("hard"), "is no clip"),
    "metric": (lambda: fluid.metrics.Accuracy().eval(), "has seen no data"),
    "tensor": (lambda: fluid.create_lod_tensor(X, [[1, 1]], None), "4 rows are not cut into sequences"),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_and_blocks_of_classes_name_the_line(name: str) -> None:
    action, message = METHODS[name]
    with pytest.raises(UserError) as caught:
        action()
    (found,) = caught.value.diagnostics
    assert message in found.message and found.location.file == __file__


LAYERS: dict[str, tuple[Callable[[], Any], str]] = {
    "embedding": (lambda: layers.embedding(layers.data("x", [1]), [10, 2]), "Ids chooses each row by its number, an integer, and holds f32 here"),
    "linear_chain_crf": (
        lambda: layers.linear_chain_crf(layers.data("x", [3], lod_level=1), layers.data("l", [1], lod_level=1)),
        "Label chooses each class by its number, an integer, and holds f32 here",
    ),
    "slice": (lambda: layers.slice(layers.data("x", [3]), axes=[2], starts=[0], ends=[1]), "there is no axis 2 among 2 dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_what_layers_do_not_take(name: str) -> None:
    action, message = LAYERS[name]
    with pytest.raises(UserError) as caught:
        action()
    (found,) = caught.value.diagnostics
    assert message in found.message and found.location.file == __file__


@pytest.mark.parametrize(("begin", "step"), [(1, 1), (0, 1), (5, 3), (2, -2)])
def test_a_counter_begins_where_it_is_to(begin: int, step: int) -> None:
    counter = layers.autoincreased_step_counter(begin=begin, step=step)
    executor, found = fluid.Executor(fluid.CPUPlace()), list[int]()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(fluid.default_startup_program())
        for _ in range(3):
            found += executor.run(fetch_list=[counter])[0].tolist()
    assert found == [begin, begin + step, begin + 2 * step]
