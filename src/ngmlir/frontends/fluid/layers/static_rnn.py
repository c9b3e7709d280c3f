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
from .sub_blocks import new_block, step_scopes, used_outside

__all__ = ["StaticRNN"]


@dataclass
class _Memory:
    """What goes from step to step: what it begins as, what a step reads, and what updates it."""

    init: Variable
    before: Variable
    after: Variable | None = None


class StaticRNN:
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
        self.helper = LayerHelper("static_rnn", name=name)
        self._memories: dict[str, _Memory] = {}
        self._inputs: list[Variable] = []
        self._steps: dict[str, Variable] = {}
        self._outputs: list[Variable] = []
        self._results: list[Variable] | None = None
        self._inner: Block | None = None
        self._outer: Block | None = None

    @contextmanager
    def step(self) -> Generator[None]:
        """The block of one step. Raises UserError for a memory that it does not update."""
        if self._results is not None:
            raise UserError("the step of a StaticRNN is filled once")
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
            raise UserError("a StaticRNN goes over a sequence", hint="rnn.step_input(x) inside of the step")

    def _complete(self, inner: Block) -> None:
        outer = self._outer
        assert outer is not None
        count = self._inputs[0].shape[0]
        self._results = [
            outer.create_var(name=o.name, shape=[count, *o.shape], dtype=o.dtype) for o in self._outputs
        ]
        boots = [m.init for m in self._memories.values()]
        known = {v.name for v in (*self._inputs, *boots)}
        outer.append_op(
            type="recurrent",
            inputs={
                "inputs": self._inputs,
                "initial_states": boots,
                "parameters": [n for n in used_outside(inner) if n not in known],
            },
            outputs={"outputs": self._results, "step_scopes": [step_scopes(outer)]},
            attrs={
                "sub_block": inner,
                "ex_states": [m.before.name for m in self._memories.values()],
                "states": [m.after.name for m in self._memories.values() if m.after is not None],
            },
        )

    def _block(self, what: str) -> Block:
        if self._inner is None:
            raise UserError(f"{what} is said inside of the step", hint="with rnn.step(): ...")
        return self._inner

    def step_input(self, x: Variable) -> Variable:
        """The slice of a sequence that a step reads."""
        inner = self._block("the input of a step")
        if not isinstance(x, Variable) or not x.shape:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"the input of a step is a variable whose dimension 0 is the steps, not {x!r}")
        if self._inputs and x.shape[0] != self._inputs[0].shape[0]:
            raise UserError(
                f"'{x.name}' has {x.shape[0]} steps, and '{self._inputs[0].name}' has {self._inputs[0].shape[0]}",
                hint="dimension 0 of all inputs is the steps",
            )
        if x.name not in self._steps:
            self._inputs.append(x)
            self._steps[x.name] = inner.create_var(name=x.name, shape=x.shape[1:], dtype=x.dtype)
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
        inner, outer = self._block("a memory"), self._outer
        assert outer is not None
        if init is None:
            if shape is None or batch_ref is None:
                raise UserError(
                    "a memory begins as init=, or has a shape= and a batch_ref=",
                    hint="memory(shape=[-1, 8], batch_ref=word)",
                )
            init = outer.create_var(
                name=unique_name.generate(f"{self.helper.name}.memory_init"), dtype=batch_ref.dtype
            )
            init.stop_gradient = False
            outer.append_op(
                type="fill_constant_batch_size_like",
                inputs={"Input": [outer.var_recursive(batch_ref.name)]},
                outputs={"Out": [init]},
                attrs={
                    "shape": list(shape), "value": float(init_value), "dtype": batch_ref.dtype,
                    "input_dim_idx": ref_batch_dim_idx, "output_dim_idx": init_batch_dim_idx,
                },
            )  # fmt: skip
        if not outer.has_var_recursive(init.name):
            raise UserError(
                f"the memory begins as '{init.name}', which is made anew in each step",
                hint="make it before the step: above `with rnn.step():`",
            )
        name = unique_name.generate(f"{self.helper.name}.memory")
        before = inner.create_var(name=name, shape=init.shape, dtype=init.dtype)
        self._memories[name] = _Memory(init, before)
        return before

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """Has the next step read `var` as the memory."""
        inner = self._block("the update of a memory")
        memory = self._memories.get(mem.name)
        if memory is None:
            raise UserError(f"'{mem.name}' is no memory of this network", hint="rnn.memory(...) makes one")
        if not inner.has_var_recursive(var.name):
            raise UserError(f"'{var.name}', which updates a memory, is of no block around the step")
        memory.after = var

    def step_output(self, o: Variable) -> None:
        """Has the network give a variable of the step, those of all steps one after the other."""
        inner = self._block("the result of a step")
        # A name of its own: the whole has it too, in the block around.
        made = inner.create_var(name=unique_name.generate(f"{self.helper.name}.output"), dtype=o.dtype)
        inner.append_op(type="assign", inputs={"X": [o]}, outputs={"Out": [made]})
        self._outputs.append(made)

    def output(self, *outputs: Variable) -> None:
        """As `step_output`, for several."""
        for each in outputs:
            self.step_output(each)

    def __call__(self) -> Any:
        """The results of all steps, [steps, ...]: one variable, or a list of several."""
        if self._results is None:
            raise UserError(
                "a StaticRNN gives something when its step is filled", hint="with rnn.step(): ..."
            )
        if not self._results:
            raise UserError("the step of this StaticRNN gives nothing", hint="rnn.step_output(variable)")
        return self._results[0] if len(self._results) == 1 else self._results
