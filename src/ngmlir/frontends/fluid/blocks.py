# SPDX-License-Identifier: Apache-2.0
"""Blocks of a program, as they are written in Python: variables by name, operators in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ...op_graph.answers import answer_methods
from ...op_graph.errors import fail
from ...programs import names
from ...programs.attributes import completed
from ...programs.catalogue import REGISTRY
from ...programs.descriptions import BlockView
from ...programs.descriptions import Operator as OperatorView
from ...programs.infer import infer_types
from ...programs.verify import operator_violations
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean
from .descs import BlockDesc
from .lists import listed
from .operators import Operator
from .variables import Parameter, Variable

#: A `Program`, of a module that imports this one.
Owner: TypeAlias = Any


class Block:
    """A block of a program: variables by name, operators in order. `program.global_block()`, `program.create_block()`."""

    def __init__(self, program: Owner, idx: int):
        self.program = program
        self._idx = idx
        self._variables: dict[int, Variable] = {}
        self._operators: dict[int, Operator] = {}
        #: The programs of `eval` by targets, and the number of edits that they were made after.
        self._evaluated: dict[tuple[str, ...], tuple[int, Owner]] = {}

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
        """Creates a parameter, in the global block."""
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

    def eval(
        self, targets: Any, executor: Any, feed: Mapping[str, Any] | None = None, scope: Any = None
    ) -> list[Any]:
        """The values of variables, as `executor.run` gives them, by the operators that these need and no others; state that
        the others would write does not change.

        Raises ValueError for a block that is not the global one, for a variable of another program, and as `executor.run`.
        """
        if self.idx:
            raise UserError(
                f"block {self.idx} runs within the operator that has it",
                hint="program.global_block().eval(...)",
            )
        wanted = [name_of(each) for each in listed(targets)]
        edits, program = self._evaluated.get(tuple(wanted), (-1, None))
        if edits != self.program.view.edits:
            program = self.program.prune(targets)
            self._evaluated[tuple(wanted)] = self.program.view.edits, program
        return executor.run(program, feed=feed, fetch_list=wanted, scope=scope)

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
        if program.stage is not None and "stage" not in attributes and not int(role):
            attributes["stage"] = program.stage
        if program.op_role_var and "op_role_var" not in attributes:
            attributes["op_role_var"] = program.op_role_var
        view = own.insert(at, type, _slots(inputs), _slots(outputs), completed(entry, attributes))
        found = list(operator_violations(view, attributes=False))
        if found:
            self._refuse_foreign(inputs, outputs)
            raise UserError(found)
        if block is not None:
            view.attach(block.view)
        infer_types(view)
        made = self._operator(view)
        for name in view.writes:
            if name in own.variables:
                self._variable(name)._maker = made  # pyright: ignore[reportPrivateUsage]
        return made

    def _refuse_foreign(self, *slots: Mapping[str, Any] | None) -> None:
        """UserError for a variable of another program that this one has none like."""
        for value in (v for given in slots for each in (given or {}).values() for v in listed(each)):
            is_own = not isinstance(value, Variable) or value.block.program is self.program
            if not is_own and self.view.find(value.name) is None:
                fail(
                    UserError,
                    f"the variable '{value.name}' is of another program",
                    "fluid.program_guard(program) says which program layers are appended to; each has variables of its own",
                )

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
            found[slot] = [name_of(v) for v in cast("Sequence[Any]", value)]
        elif value is not None:
            found[slot] = [name_of(value)]
    return found


def name_of(value: Any) -> str:
    """The name of a variable, or a name itself; UserError for what is neither."""
    if isinstance(value, Variable):
        return value.view.name
    if isinstance(value, (str, bytes)):
        return names.text(value)
    raise UserError(
        f"a slot of an operator takes variables, not {value!r}",
        hint="layers.assign(array) makes a variable of an array",
    )


answer_methods(Block, called="fluid", undone=True)
