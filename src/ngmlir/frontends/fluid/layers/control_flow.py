# SPDX-License-Identifier: Apache-2.0
"""Loops and branches, and arrays of tensors that go with them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ....programs.vartypes import VarType
from ....support.diagnostics import Diagnostic, UserError
from ..framework import Block, Variable
from ..layer_helper import LayerHelper, one_op
from .sub_blocks import filled_by_user, new_block, step_scopes, used_outside, written_outside

__all__ = [
    "ConditionalBlock", "IfElse", "Switch", "While", "array_length", "array_read", "array_write", "create_array",
    "merge_lod_tensor", "split_lod_tensor",
]  # fmt: skip

#: How a condition is made.
_COMPARED = "layers.less_than(x, y) gives one"


class While:
    """A loop: `with While(cond).block():` runs its block as long as `cond`, one bool, holds. The block has to write `cond` again."""

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None):
        self.helper = LayerHelper("while", name=name)
        self.cond_var, self.is_test = _condition(cond, "While"), is_test

    @filled_by_user
    def block(self) -> Generator[None]:
        """The block; layers inside run in each iteration. Raises UserError where it never writes the condition."""
        program = self.helper.main_program
        with new_block(program) as inner:
            yield
            name = self.cond_var.name
            if name not in written_outside(inner):
                raise UserError(
                    Diagnostic(
                        f"the block of this loop never writes its condition '{name}': it would never end",
                        inner.view.operators[-1].location
                        if inner.view.operators
                        else self.cond_var.view.location,
                        hint=f"layers.less_than(counter, limit, cond={name}) at the end of the block",
                    )
                )
        inputs = {"X": [n for n in used_outside(inner) if n != name], "Condition": [self.cond_var]}
        outputs = {"Out": written_outside(inner), "StepScopes": [step_scopes(program.current_block())]}
        attrs = {"sub_block": inner, "is_test": self.is_test}
        self.helper.append_op(type="while", inputs=inputs, outputs=outputs, attrs=attrs)


class ConditionalBlock:
    """A branch: `with ConditionalBlock([x]).block():` runs its block where all inputs have elements, or, with
    `is_scalar_condition`, where the one input, a bool, holds. What it writes of outer variables stays."""

    def __init__(
        self, inputs: Sequence[Variable], is_scalar_condition: bool = False, name: str | None = None
    ):
        for each in inputs:
            if not isinstance(each, Variable):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UserError(f"a ConditionalBlock takes variables, not {each!r}")
        if is_scalar_condition:
            if len(inputs) != 1:
                raise UserError(f"a scalar condition is one variable, not {len(inputs)}")
            _condition(inputs[0], "ConditionalBlock")
        self.inputs, self.is_scalar_condition = list(inputs), is_scalar_condition
        self.helper = LayerHelper("conditional_block", name=name)
        self._inner: Block | None = None

    @filled_by_user
    def block(self) -> Generator[None]:
        """The block."""
        with new_block(self.helper.main_program) as inner:
            yield
        self._inner = inner
        self.complete()

    def complete(self) -> None:
        """Appends the operator that runs the block; `block()` does."""
        inner = self._inner
        if inner is None:
            raise UserError("a ConditionalBlock is complete when its block is", hint="with it.block(): ...")
        self._inner = None
        given = {v.name for v in self.inputs}
        inputs = {"X": self.inputs, "Params": [n for n in used_outside(inner) if n not in given]}
        outputs = {"Out": written_outside(inner), "Scope": [step_scopes(self.helper.block)]}
        attrs = {"sub_block": inner, "is_scalar_condition": self.is_scalar_condition}
        self.helper.append_op(type="conditional_block", inputs=inputs, outputs=outputs, attrs=attrs)


class Switch:
    """Cases, of which the first whose condition, one bool, holds runs:

    with Switch() as switch:
        with switch.case(condition): ...
        with switch.default(): ...
    """

    def __init__(self, name: str | None = None):
        self.helper = LayerHelper("switch", name=name)
        self._open: Variable | None = None  # whether no case before held
        self._is_inside = self._has_default = False

    def __enter__(self) -> Switch:
        self._is_inside = True
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_inside = False

    @filled_by_user
    def case(self, condition: Variable) -> Generator[None]:
        """What runs where the condition holds and that of no case before it."""
        self._check("case")
        _condition(condition, "Switch")
        before, none = self._open, one_op("logical_not", {"X": condition}, {"Out": "bool"})
        chosen = condition
        if before is not None:
            chosen = one_op("logical_and", {"X": before, "Y": condition}, {"Out": "bool"})
            none = one_op("logical_and", {"X": before, "Y": none}, {"Out": "bool"})
        self._open = none
        with ConditionalBlock([chosen], is_scalar_condition=True).block():
            yield

    @filled_by_user
    def default(self) -> Generator[None]:
        """What runs where no case does."""
        self._check("default")
        if self._open is None:
            raise UserError(
                "the default of a Switch comes behind its cases", hint="with switch.case(condition): ..."
            )
        self._has_default = True
        with ConditionalBlock([self._open], is_scalar_condition=True).block():
            yield

    def _check(self, what: str) -> None:
        if not self._is_inside:
            raise UserError(f"a {what} stands inside of its Switch", hint="with Switch() as switch: ...")
        if self._has_default:
            raise UserError(f"a {what} cannot come behind the default of its Switch")


class IfElse:
    """A choice row by row: rows of an input where `cond`, a bool for each row, holds go to the true block, the others to the
    false block; `ie()` gives the rows of their outputs, each at its place.

    Both blocks compute all rows. A row that is not of a branch is a copy of one that is, and its result is not used.
    """

    def __init__(self, cond: Variable, name: str | None = None):
        if not isinstance(cond, Variable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"IfElse takes a variable as its condition, not {cond!r}", hint=_COMPARED)
        if cond.dtype != VarType.BOOL or len(cond.shape) != 2 or cond.shape[1] != 1:
            raise UserError(
                f"the condition of IfElse is one bool for each row, [rows, 1], and '{cond.name}' is {cond.dtype.name} of shape {list(cond.shape)}"
            )
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = cond
        self._split: dict[str, tuple[Variable, Variable]] = {}
        self._outputs: dict[bool, list[Variable]] = {}
        self._branch: bool | None = None

    def input(self, x: Variable) -> Variable:
        """The rows of x that are of the branch whose block is being filled."""
        if self._branch is None:
            raise UserError(
                "the rows of a branch are taken inside of its block", hint="with ie.true_block(): ie.input(x)"
            )
        if x.name not in self._split:
            self._split[x.name] = split_lod_tensor(x, self.cond)
        return self._split[x.name][0 if self._branch else 1]

    def true_block(self) -> Any:
        """The block of the rows where the condition holds."""
        return self._block(True)

    def false_block(self) -> Any:
        """The block of the other rows."""
        return self._block(False)

    @filled_by_user
    def _block(self, branch: bool) -> Generator[None]:
        if branch in self._outputs:
            raise UserError(f"the {'true' if branch else 'false'} block of an IfElse is filled once")
        self._branch = branch
        try:
            yield
            if branch not in self._outputs:
                raise UserError("the block of a branch gives something", hint="ie.output(...) inside of it")
        finally:
            self._branch = None

    def output(self, *outs: Variable) -> None:
        """What the branch gives; both branches give as many variables."""
        if self._branch is None:
            raise UserError(
                "the result of a branch is given inside its block", hint="with ie.true_block(): ie.output(x)"
            )
        if self._branch in self._outputs:
            raise UserError("the results of a branch are given in one call", hint="ie.output(first, second)")
        self._outputs[self._branch] = list(outs)

    def __call__(self) -> list[Variable]:
        """The results: the rows of both branches, each at its place; of one branch alone, 0 in the other rows."""
        if not self._outputs:
            raise UserError("neither branch of this IfElse was filled", hint="with ie.true_block(): ...")
        counts = {branch: len(outs) for branch, outs in self._outputs.items()}
        if len(set(counts.values())) > 1:
            raise UserError(
                f"the true block gives {counts[True]} variables, the false block {counts[False]}",
                hint="ie.output(first, second) in both blocks, as many in each",
            )
        whole = list(self._outputs.values())
        pairs = zip(
            *[self._outputs.get(b) or [_zeros_like(v) for v in whole[0]] for b in (True, False)], strict=True
        )
        return [merge_lod_tensor(true, false, true, self.cond) for true, false in pairs]


def _zeros_like(x: Variable) -> Variable:
    return one_op("fill_zeros_like", {"X": x}, {"Out": x.dtype})


def _condition(cond: Variable, of: str) -> Variable:
    if not isinstance(cond, Variable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"{of} takes a variable as its condition, not {cond!r}", hint=_COMPARED)
    if cond.dtype != VarType.BOOL or cond.shape not in ((), (1,)):
        raise UserError(
            f"the condition of {of} is one bool, and '{cond.name}' is {cond.dtype.name} of shape {list(cond.shape)}",
            hint="layers.less_than(x, y) of variables of one element gives one",
        )
    return cond


# ---- rows of branches


def split_lod_tensor(input: Variable, mask: Variable, level: int = 0) -> tuple[Variable, Variable]:
    """The rows of input for the branch where mask holds, and for the other one."""
    outputs = {"OutTrue": input.dtype, "OutFalse": input.dtype}
    return one_op("split_lod_tensor", {"X": input, "Mask": mask}, outputs, {"level": level})


def merge_lod_tensor(
    in_true: Variable, in_false: Variable, x: Variable, mask: Variable, level: int = 0
) -> Variable:
    """The rows of two branches, each at its place: those of `in_true` where mask holds."""
    inputs = {"X": x, "Mask": mask, "InTrue": in_true, "InFalse": in_false}
    return one_op("merge_lod_tensor", inputs, {"Out": in_true.dtype}, {"level": level})


# ---- arrays


def create_array(dtype: Any) -> Variable:
    """An array of tensors, without elements."""
    helper = LayerHelper("array")
    return helper.create_variable(name=f"{helper.name}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=dtype)


def _is_array(array: Any, layer: str) -> Variable:
    if not isinstance(array, Variable) or array.type != VarType.LOD_TENSOR_ARRAY:
        said = f"the tensor '{array.name}'" if isinstance(array, Variable) else repr(array)
        raise UserError(f"{layer} takes an array, not {said}", hint="layers.create_array(dtype) makes one")
    return array


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """The array (a new one, where none is given) with x at position i, one integer; it grows as needed."""
    made = create_array(x.dtype) if array is None else _is_array(array, "array_write")
    LayerHelper("array_write").append_op(
        type="write_to_array", inputs={"X": [x], "I": [i]}, outputs={"Out": [made]}
    )
    return made


def array_read(array: Variable, i: Variable) -> Variable:
    """The element of an array at position i, one integer."""
    array = _is_array(array, "array_read")
    return one_op("read_from_array", {"X": array, "I": i}, {"Out": array.dtype})


def array_length(array: Variable) -> Variable:
    """How many elements an array has: int64, [1]."""
    made = one_op("lod_array_length", {"X": _is_array(array, "array_length")}, {"Out": "int64"})
    made.stop_gradient = True
    return made
