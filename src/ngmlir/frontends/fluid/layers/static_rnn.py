# SPDX-License-Identifier: Apache-2.0
"""`StaticRNN`: a block that runs for each step of sequences of one length."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ....support.diagnostics import Diagnostic, UserError
from .. import unique_name
from ..framework import Block, Variable
from ..layer_helper import LayerHelper
from .sub_blocks import filled_by_user, new_block, step_scopes, used_outside

__all__ = ["StaticRNN"]


@dataclass
class _Memory:
    """What goes from step to step: what it begins as, what a step reads, and what updates it."""

    init: Variable
    before: Variable
    after: Variable | None = None


class Network:
    """A block that runs for each step, with memories that go from step to step. `StaticRNN` and `DynamicRNN` say what its steps are."""

    #: What the block of a step is opened by.
    opening = "rnn.step()"

    def __init__(self, layer: str, name: str | None):
        self.helper = LayerHelper(layer, name=name)
        self._memories: dict[str, _Memory] = {}
        #: What the network goes over, of the block around, and the slices that a step reads, by the names of what was given.
        self._inputs: list[Variable] = []
        self._steps: dict[str, Variable] = {}
        self._outputs: list[Variable] = []
        self._results: list[Variable] | None = None
        self._inner: Block | None = None
        self._outer: Block | None = None

    @contextmanager
    def _filled(self) -> Generator[None]:
        """The block of one step."""
        if self._results is not None:
            raise UserError("the step of a recurrent network is filled once")
        program = self.helper.main_program
        self._outer = program.current_block()
        try:
            with new_block(program) as inner:
                self._inner = inner
                yield
                self._check()
        finally:
            self._inner = None
        self._complete(inner)

    def _check(self) -> None:
        for memory in self._memories.values():
            if memory.after is None:
                raise UserError(
                    Diagnostic(
                        f"the memory '{memory.before.name}' is never updated: every step would read what it begins as",
                        memory.before.view.location,
                        hint="rnn.update_memory(memory, variable) inside of the step",
                    )
                )
        if not self._inputs:
            raise UserError(
                "a recurrent network goes over a sequence", hint="rnn.step_input(x) inside of the step"
            )

    def _complete(self, inner: Block) -> None:
        outer = self._around()
        whole = [self._whole(outer, o) for o in self._outputs]
        boots = [m.init for m in self._memories.values()]
        slices = [v.name for v in self._steps.values()]
        known = {*slices, *[v.name for v in (*self._inputs, *boots)]}
        outer.append_op(
            type="recurrent",
            inputs={
                "inputs": self._inputs,
                "initial_states": boots,
                "parameters": [n for n in used_outside(inner) if n not in known],
                **self._order(),
            },
            outputs={"outputs": whole, "step_scopes": [step_scopes(outer)]},
            attrs={
                "sub_block": inner,
                "steps": slices,
                "ex_states": [m.before.name for m in self._memories.values()],
                "states": [m.after.name for m in self._memories.values() if m.after is not None],
            },
        )
        self._results = whole

    def _order(self) -> dict[str, Any]:
        """The inputs of the operator that say in which order sequences are."""
        return {}

    def _whole(self, outer: Block, output: Variable) -> Variable:
        """A result of all steps."""
        raise NotImplementedError

    def _around(self) -> Block:
        assert self._outer is not None
        return self._outer

    def _block(self, what: str) -> Block:
        if self._inner is None:
            raise UserError(f"{what} is given inside the block of the step", hint=f"with {self.opening}: ...")
        return self._inner

    def _memory(self, init: Variable) -> Variable:
        """What a step reads of the step before; it begins as a variable of the block around."""
        self._check_around(init, "the memory begins as")
        name = unique_name.generate(f"{self.helper.name}.memory")
        before = self._block("a memory").create_var(name=name, shape=init.shape, dtype=init.dtype)
        self._memories[name] = _Memory(init, before)
        return before

    def _check_around(self, given: Variable, what: str) -> None:
        """UserError where a variable is none of the block around the step."""
        if not self._around().has_var_recursive(given.name):
            raise UserError(
                f"{what} '{given.name}', which is made anew in each step",
                hint=f"make it before the step: above `with {self.opening}:`",
            )

    def _filled_like(
        self, like: Variable, shape: Sequence[int], value: float, own: int, other: int
    ) -> Variable:
        """A number in a shape, of which a length is that of a variable of the block around."""
        outer = self._around()
        made = outer.create_var(
            name=unique_name.generate(f"{self.helper.name}.memory_init"), dtype=like.dtype
        )
        outer.append_op(
            type="fill_constant_batch_size_like",
            inputs={"Input": [like]},
            outputs={"Out": [made]},
            attrs={
                "shape": list(shape), "value": float(value), "dtype": like.dtype,
                "input_dim_idx": other, "output_dim_idx": own,
            },
        )  # fmt: skip
        return made

    def _update(self, mem: Variable, var: Variable) -> None:
        inner = self._block("the update of a memory")
        memory = self._memories.get(mem.name)
        if memory is None:
            raise UserError(f"'{mem.name}' is no memory of this network", hint="rnn.memory(...) makes one")
        if not inner.has_var_recursive(var.name):
            raise UserError(f"'{var.name}', which updates a memory, is of no block around the step")
        if not _may_be(var.shape, mem.shape):
            raise UserError(
                f"the memory '{mem.name}' is updated with the shape {list(var.shape)}, and it begins with {list(mem.shape)}",
                hint="init= gives it the shape of what updates it",
            )
        memory.after = var

    def _step_output(self, o: Variable) -> None:
        inner = self._block("the result of a step")
        # A new name: the stacked output in the outer block needs one too.
        made = inner.create_var(name=unique_name.generate(f"{self.helper.name}.output"), dtype=o.dtype)
        inner.append_op(type="assign", inputs={"X": [o]}, outputs={"Out": [made]})
        self._outputs.append(made)

    def __call__(self) -> Any:
        """The results of all steps: one variable, or a list of several."""
        if self._results is None:
            raise UserError(
                "a recurrent network gives something when its step is filled",
                hint=f"with {self.opening}: ...",
            )
        if not self._results:
            raise UserError("the step of this network gives nothing", hint="rnn.step_output(variable)")
        return self._results[0] if len(self._results) == 1 else self._results


def _may_be(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes may be the same when the program runs."""
    return len(shape) == len(other) and all(-1 in (n, m) or n == m for n, m in zip(shape, other, strict=True))


class StaticRNN(Network):
    """A recurrent network over sequences of one length, whose dimension 0 is the steps; all steps share their parameters.

    rnn = StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 8], batch_ref=word)
        hidden = layers.fc(input=[word, before], size=8)
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    outputs = rnn()
    """

    def __init__(self, name: str | None = None):
        super().__init__("static_rnn", name)

    @filled_by_user
    def step(self) -> Generator[None]:
        """The block of one step. Raises UserError for a memory that it does not update."""
        with self._filled():
            yield

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """Has the next step read `var` as the memory."""
        self._update(mem, var)

    def _whole(self, outer: Block, output: Variable) -> Variable:
        shape = [self._inputs[0].shape[0], *output.shape]
        return outer.create_var(name=output.name, shape=shape, dtype=output.dtype)

    def step_input(self, x: Variable) -> Variable:
        """The slice of a sequence that a step reads."""
        inner = self._block("the input of a step")
        if not isinstance(x, Variable) or not x.shape:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"the input of a step is a variable whose dimension 0 is the steps, not {x!r}")
        self._check_around(x, "the network goes over")
        if self._inputs and x.shape[0] != self._inputs[0].shape[0]:
            raise UserError(
                f"'{x.name}' has {x.shape[0]} steps, and '{self._inputs[0].name}' has {self._inputs[0].shape[0]}",
                hint="dimension 0 of all inputs is the steps",
            )
        if x.name not in self._steps:
            self._inputs.append(x)
            name = unique_name.generate(f"{self.helper.name}.step")
            self._steps[x.name] = inner.create_var(name=name, shape=x.shape[1:], dtype=x.dtype)
        return self._steps[x.name]

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Variable | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Variable:
        """What a step reads of the step before. It begins as `init`; or as a number in `shape`, of which length `init_batch_dim_idx` is
        length `ref_batch_dim_idx` of `batch_ref` (of a step's input: of the whole sequence, whose dimension 0 is the steps)."""
        self._block("a memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise UserError(
                    "a memory begins as init=, or has a shape= and a batch_ref=",
                    hint="memory(shape=[-1, 8], batch_ref=word)",
                )
            whole = {self._steps[x.name].name: x for x in self._inputs}.get(batch_ref.name)
            like = whole or self._around().var_recursive(batch_ref.name)
            init = self._filled_like(like, shape, init_value, init_batch_dim_idx, ref_batch_dim_idx)
        return self._memory(init)

    def step_output(self, o: Variable) -> None:
        """Has the network give a variable of the step, those of all steps one after the other: [steps, ...]."""
        self._step_output(o)

    def output(self, *outputs: Variable) -> None:
        """As `step_output`, for several."""
        for each in outputs:
            self.step_output(each)
