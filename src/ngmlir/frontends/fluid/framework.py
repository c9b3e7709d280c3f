# SPDX-License-Identifier: Apache-2.0
"""Programs as they are written in Python: `Program`, `Block`, and the default programs.

All are views of a module of the dialect `program` (`ngmlir.programs`): a change through one is a change of the module, and visible in all others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...ir.core import Module
from ...op_graph.answers import answer_methods
from ...programs import names
from ...programs.attributes import OpRole
from ...programs.descriptions import Operator as OperatorView
from ...programs.descriptions import Program as ProgramView
from ...programs.prune import inference_form, pruned, test_form
from ...programs.text import parse_bytes, program_bytes, program_text, read_program
from ...programs.vartypes import VarType, vartype
from ...support.diagnostics import UserError
from .blocks import Block, name_of
from .descs import ProgramDesc
from .lists import listed
from .operators import Operator
from .protos import OpProtoHolder, get_all_op_protos
from .variables import Parameter, Variable

EMPTY_VAR_NAME = names.EMPTY
TEMP_VAR_NAME = names.TEMPORARY
GRAD_VAR_SUFFIX = names.GRADIENT
ZERO_VAR_SUFFIX = names.ZERO

__all__ = [
    "Block", "OpProtoHolder", "Operator", "Parameter", "Program", "Variable", "convert_np_dtype_to_dtype_", "default_main_program",
    "default_startup_program", "get_all_op_protos", "get_var", "grad_var_name", "name_scope", "program_guard", "switch_main_program",
    "switch_startup_program",
]  # fmt: skip


def grad_var_name(var_name: str | bytes) -> str:
    """What the gradient of a variable is called."""
    return names.gradient_name(names.text(var_name))


def convert_np_dtype_to_dtype_(np_dtype: Any) -> VarType:
    """The number of an element type; UserError for one that no variable has."""
    return vartype(np_dtype)


class Program:
    """A program: blocks of variables and operators. Block 0 is the global block.

    `print(program)` shows its text, which `ngopt` reads too. Layers take `random_seed` as the seed of the random operators that they
    append, which then give the same numbers at each run. Operators that were appended while it was 0 give other numbers at each
    run, from a state in the scope that begins with the seed that the program has when it first runs there; 0 for any.
    """

    def __init__(self, view: ProgramView | None = None):
        self.view = ProgramView() if view is None else view
        self._blocks: dict[int, Block] = {}
        self._current = 0
        self.op_role: int = OpRole.Forward
        self.op_role_var: list[str] = []
        self.stage: int | None = None

    @property
    def module(self) -> Module:
        """The module that the program is."""
        return self.view.module

    @property
    def desc(self) -> ProgramDesc:
        """The description under it."""
        return ProgramDesc(self.view)

    def get_desc(self) -> ProgramDesc:
        """The description under it."""
        return self.desc

    # ---- blocks

    @property
    def num_blocks(self) -> int:
        return len(self.view.blocks)

    @property
    def blocks(self) -> list[Block]:
        return [self.block(view.index) for view in self.view.blocks]

    def block(self, index: int) -> Block:
        """The block of a number; UserError where there is none."""
        self.view.block(index)
        found = self._blocks.get(index)
        if found is None:
            found = self._blocks[index] = Block(self, index)
        return found

    def global_block(self) -> Block:
        """Block 0, which is around all others."""
        return self.block(0)

    def current_block(self) -> Block:
        """The block that layers append to."""
        return self.block(self._current)

    def create_block(self, parent_idx: int | None = None) -> Block:
        """A new block below the current one (or the one named), which becomes the current one."""
        parent = self.view.block(self._current if parent_idx is None else parent_idx)
        self._current = parent.append_block().index
        return self.current_block()

    def rollback(self) -> None:
        """Makes the block around the current one the current one."""
        self._current = self.current_block().parent_idx

    def make_current(self, block: Block) -> None:
        """Has layers append to a block of the program from now on."""
        self._current = block.idx

    # ---- seeds and roles

    @property
    def random_seed(self) -> int:
        return self.view.random_seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if not isinstance(seed, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"a seed is an integer, not {seed!r}")
        self.view.random_seed = seed

    @contextmanager
    def optimized_guard(self, param_and_grads: Sequence[Variable | str]) -> Generator[None]:
        """Operators that are appended inside are of the optimization of a parameter with its gradient."""
        with self.role(OpRole.Optimize, [v.name if isinstance(v, Variable) else v for v in param_and_grads]):
            yield

    @contextmanager
    def role(self, role: int, variables: Sequence[str] = ()) -> Generator[None]:
        """Operators that are appended inside have this role."""
        outer = self.op_role, self.op_role_var
        self.op_role, self.op_role_var = role, list(variables)
        try:
            yield
        finally:
            self.op_role, self.op_role_var = outer

    @contextmanager
    def pipeline_stage(self, number: int) -> Generator[None]:
        """Operators that are appended inside are of this stage of a pipeline."""
        if not isinstance(number, int) or number < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"stages are counted from 0, and one is no {number!r}")
        outer, self.stage = self.stage, number
        try:
            yield
        finally:
            self.stage = outer

    # ---- programs from programs

    def clone(self, for_test: bool = False) -> Program:
        """An equal program, which is edited by itself. With `for_test` as models are used, not trained: `is_test` is set where an
        operator has it, and what computes and uses gradients is left out."""
        return Program(test_form(self.view) if for_test else self.view.copy())

    def prune(self, targets: Any) -> Program:
        """The program with the operators that targets need: operators, variables (a clone also takes those of its program), or a list of
        them."""
        views: list[OperatorView | str] = []
        for target in listed(targets):
            if isinstance(target, Operator):
                if target.block.program is not self:
                    raise UserError(f"the operator {target.type} is of another program")
                views.append(target.view)
            else:
                # A clone has the variables of its program, by name.
                is_own = not isinstance(target, Variable) or target.block.program is self
                if not is_own and self.view.top.find(name_of(target)) is None:
                    raise UserError(f"the variable '{name_of(target)}' is of another program")
                views.append(name_of(target))
        return Program(pruned(self.view, views))

    def inference_optimize(self, export_for_deployment: bool = True) -> Program:
        """A copy in which `is_test` is set where an operator has it; with `export_for_deployment` without what reads files."""
        return Program(inference_form(self.view))

    # ---- text and bytes

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """The text of the program; `with_details` with the place of each operator."""
        return program_text(self.view, locations=with_details)

    def __str__(self) -> str:
        return self.to_string()

    def serialize_to_string(self) -> bytes:
        """The program as bytes: its text with locations, and a checksum."""
        return program_bytes(self.view)

    @staticmethod
    def parse_from_string(binary_str: bytes | str) -> Program:
        """The program of `serialize_to_string`, or of a text; UserError where it is none, altered or cut short."""
        if isinstance(binary_str, str):
            return Program(read_program(binary_str))
        return Program(parse_bytes(binary_str))

    # ---- variables

    def list_vars(self) -> Iterator[Variable]:
        """All variables of all blocks."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Parameter]:
        """All parameters."""
        return self.global_block().all_parameters()

    def copy_data_info_from(self, other: Program) -> None:
        """Marks as data what is data in another program of the same variables."""
        for variable in other.global_block().vars.values():
            if variable.is_data and self.global_block().has_var(variable.name):
                self.global_block().var(variable.name).view.set_flag("data", True)

    def __repr__(self) -> str:
        return f"<Program of {self.num_blocks} blocks, {len(self.view.top.operators)} operators in the first>"


answer_methods(Program, called="fluid")

_main, _startup = Program(), Program()


def default_main_program() -> Program:
    """The program that layers are appended to."""
    return _main


def default_startup_program() -> Program:
    """The program that initializes what the main program keeps."""
    return _startup


def switch_main_program(program: Program) -> Program:
    """Makes another program the main program; gives the one before."""
    global _main
    old, _main = _main, program
    return old


def switch_startup_program(program: Program) -> Program:
    """Makes another program the start-up program; gives the one before."""
    global _startup
    old, _startup = _startup, program
    return old


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Generator[None]:
    """Layers inside are appended to these programs; the ones before come back, also after an exception."""
    for program in (main_program, startup_program):
        if program is not None and not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"program_guard takes programs, not {program!r}")
    main = switch_main_program(main_program)
    startup = None if startup_program is None else switch_startup_program(startup_program)
    try:
        yield
    finally:
        switch_main_program(main)
        if startup is not None:
            switch_startup_program(startup)


@contextmanager
def name_scope(prefix: str | None = None) -> Generator[None]:
    """Groups the layers inside under a name. Names of variables do not change."""
    yield


def get_var(name: str, program: Program | None = None) -> Variable:
    """The variable of that name in the global block of a program (by default the main program)."""
    return (default_main_program() if program is None else program).global_block().var(name)
