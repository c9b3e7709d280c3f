# SPDX-License-Identifier: Apache-2.0
"""Programs as they are written in Python: `Program`, `Block`, and the default programs.

All are views of a module of the dialect `program` (`ngmlir.programs`): what one changes, the module says, and every other view.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ...ir.core import Module
from ...op_graph.answers import answer_methods
from ...programs import names
from ...programs.attributes import OpRole, completed
from ...programs.catalogue import REGISTRY
from ...programs.descriptions import BlockView
from ...programs.descriptions import Operator as OperatorView
from ...programs.descriptions import Program as ProgramView
from ...programs.infer import infer_types
from ...programs.prune import inference_form, pruned, test_form
from ...programs.text import parse_bytes, program_bytes, program_text, read_program
from ...programs.vartypes import VarType, vartype
from ...programs.verify import operator_violations
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean
from .descs import BlockDesc, ProgramDesc
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


class Block:
    """A block of a program: variables by name, operators in order. `program.global_block()`, `program.create_block()`."""

    def __init__(self, program: Program, idx: int):
        self.program = program
        self._idx = idx
        self._variables: dict[int, Variable] = {}
        self._operators: dict[int, Operator] = {}

    @property
    def view(self) -> BlockView:
        return self.program.view.block(self._idx)

    @property
    def desc(self) -> BlockDesc:
        """The description under it."""
        return BlockDesc(self.view)

    @property
    def idx(self) -> int:
        """Its number; 0 for the global block."""
        return self._idx

    @property
    def parent_idx(self) -> int:
        """The number of the block around it; -1 of the global block."""
        parent = self.view.parent
        return -1 if parent is None else parent.index

    @property
    def forward_block_idx(self) -> int:
        """The number of the block whose gradient it computes; -1 for none."""
        return -1

    # ---- variables

    @property
    def vars(self) -> Mapping[str, Variable]:
        """The variables that it declares, by name."""
        return {name: self._variable(name) for name in self.view.variables}

    def _variable(self, name: str) -> Variable:
        view = self.view.variables[name]
        found = self._variables.get(id(view))
        if found is None or found.view is not view:
            found = self._variables[id(view)] = Variable.of(self, view)
        return found

    def _keep(self, variable: Variable) -> Variable:
        return self._variables.setdefault(id(variable.view), variable)

    def var(self, name: str | bytes) -> Variable:
        """The variable of that name in this block. Raises ValueError where there is none, TypeError for what is no name."""
        if not isinstance(name, (str, bytes)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a variable is found by its name, not by {name!r}")
        name = names.text(name)
        if name not in self.view.variables:
            hint = did_you_mean(name, self.view.variables, "block.has_var(name) tells")
            raise UserError(f"block {self.idx} has no variable '{name}'", hint=hint)
        return self._variable(name)

    def var_recursive(self, name: str | bytes) -> Variable:
        """The variable of that name in this block or in those around it; ValueError where there is none."""
        view = self.view.visible(names.text(name))
        return self.program.block(view.block.index).var(view.name)

    def has_var(self, name: str | bytes) -> bool:
        """Whether this block declares a variable of that name."""
        return names.text(name) in self.view.variables

    def has_var_recursive(self, name: str | bytes) -> bool:
        """Whether this block, or one around it, declares a variable of that name."""
        return self.view.find(names.text(name)) is not None

    def create_var(self, *args: Any, **kwargs: Any) -> Variable:
        """A variable of this block: `create_var(name="x", shape=[-1, 4], dtype="float32")`; that of the name, where there is
        one that is described the same. Raises ValueError where it was described otherwise."""
        made = self._keep(Variable(self, *args, **kwargs))
        initializer = kwargs.get("initializer")
        if initializer is not None:
            initializer(made, self)
        return made

    def create_parameter(self, *args: Any, **kwargs: Any) -> Parameter:
        """A parameter, which lies in the global block."""
        initializer = kwargs.pop("initializer", None)
        whole = self.program.global_block()
        made = Parameter(whole, *args, **kwargs)
        whole._keep(made)
        if initializer is not None:
            initializer(made, self)
        return made

    def all_parameters(self) -> list[Parameter]:
        """The parameters that it declares."""
        return list(self.iter_parameters())

    def iter_parameters(self) -> Iterator[Parameter]:
        """The parameters that it declares, one after the other."""
        return (v for v in self.vars.values() if isinstance(v, Parameter))

    def rename_var(self, name: str, new_name: str) -> Variable:
        """Gives a variable another name, in every operator of the block too."""
        self.view.rename(names.text(name), names.text(new_name))
        return self.var(new_name)

    # ---- operators

    @property
    def ops(self) -> list[Operator]:
        """The operators, in order."""
        return [self._operator(view) for view in self.view.operators]

    def _operator(self, view: OperatorView) -> Operator:
        found = self._operators.get(id(view))
        if found is None or found.view is not view:
            found = self._operators[id(view)] = Operator(self, view)
        return found

    def append_op(self, *args: Any, **kwargs: Any) -> Operator:
        """Appends an operator: `append_op(type="mul", inputs={"X": x, "Y": y}, outputs={"Out": out}, attrs={...})`.

        A slot takes a variable, a name, or a list of them. Types and shapes of outputs are inferred. Raises ValueError for a type, slot
        or attribute that there is not, that lacks, or that has a wrong value, and where shapes do not fit.
        """
        return self._insert(len(self.view.operators), *args, **kwargs)

    def prepend_op(self, *args: Any, **kwargs: Any) -> Operator:
        """As `append_op`, in front of all others."""
        return self._insert(0, *args, **kwargs)

    _prepend_op = prepend_op

    def insert_op(self, index: int, *args: Any, **kwargs: Any) -> Operator:
        """As `append_op`, at a place among the others."""
        return self._insert(index, *args, **kwargs)

    _insert_op = insert_op

    def remove_op(self, index: int) -> None:
        """Removes the operator at a place."""
        self.view.remove_operators(index, index + 1)

    _remove_op = remove_op

    def _insert(
        self,
        at: int,
        type: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        if not type:
            raise UserError("an operator has a type", hint='append_op(type="mul", ...)')
        entry = REGISTRY.get(type).entry
        attributes = {name: value for name, value in (attrs or {}).items() if value is not None}
        block = attributes.pop("sub_block", None)
        program, own = self.program, self.view
        role = attributes.pop("op_role", program.op_role)
        if int(role):
            attributes["op_role"] = int(role)
        if program.op_role_var and "op_role_var" not in attributes:
            attributes["op_role_var"] = program.op_role_var
        view = own.insert(at, type, _slots(inputs), _slots(outputs), completed(entry, attributes))
        try:
            found = list(operator_violations(view, attributes=False))
            if found:
                raise UserError(found)
            if block is not None:
                view.attach(block.view)
            infer_types(view)
        except Exception:
            own.remove_operators(view.index, view.index + 1)
            raise
        made = self._operator(view)
        for name in view.writes:
            if name in own.variables:
                self._variable(name)._maker = made  # pyright: ignore[reportPrivateUsage]
        return made

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """The declarations and operators, as the text of the program has them."""
        _ = self.program.module
        return "\n".join(str(op) for op in self.view.body.ops)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return repr(self.view)


def _slots(given: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Slots with the names of their variables."""
    found: dict[str, list[str]] = {}
    for slot, value in (given or {}).items():
        if isinstance(value, (list, tuple)):
            found[slot] = [_name(v) for v in cast("Sequence[Any]", value)]
        elif value is not None:
            found[slot] = [_name(value)]
    return found


def _name(value: Any) -> str:
    if isinstance(value, Variable):
        return value.view.name
    if isinstance(value, (str, bytes)):
        return names.text(value)
    raise UserError(
        f"a slot of an operator takes variables, not {value!r}",
        hint="layers.assign(array) makes a variable of an array",
    )


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

    # ---- programs from programs

    def clone(self, for_test: bool = False) -> Program:
        """An equal program, which is edited by itself. With `for_test` as models are used, not trained: `is_test` is set where an
        operator has it, and what computes and uses gradients is left out."""
        return Program(test_form(self.view) if for_test else self.view.copy())

    def prune(self, targets: Any) -> Program:
        """The program with the operators that targets need: variables, operators, or a list of them."""
        views: list[OperatorView | str] = []
        for target in listed(targets):
            if isinstance(target, Operator):
                if target.block.program is not self:
                    raise UserError(f"the operator {target.type} is of another program")
                views.append(target.view)
            else:
                if isinstance(target, Variable) and target.block.program is not self:
                    raise UserError(f"the variable '{target.name}' is of another program")
                views.append(_name(target))
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


answer_methods(Block, Program, called="fluid")

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
