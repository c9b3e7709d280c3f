# SPDX-License-Identifier: Apache-2.0
"""Gradients as operators of the program: for each operator, from the last to the first, what its gradient maker gives.

A variable that several operators read has several contributions to its gradient, `x@GRAD@RENAME@0` and so on, which one `sum`
adds up before the gradient is read. An operator of a gradient is left out where nothing it gives is wanted, or where none of the
gradients that it reads is there; then what it would have given is not there either, and so on. Where an operator of a user's own
maker reads a gradient that is not there, zeros are. Where a value that a gradient needs is overwritten, a copy is kept. Gradients that the
program had before stay: those of the same variables get other names, `x@GRAD_0` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ..ir.attributes import DictAttr
from ..ir.types import FloatType
from ..support.diagnostics import Diagnostic, Location, UserError
from .attributes import OpRole, completed
from .catalogue import REGISTRY
from .checkpoints import mark_checkpoints
from .definition import Definition, GradientOp
from .descriptions import BlockView, Operator, Variable
from .infer import infer_types, raggedness_of, read_inputs, types_of
from .names import EMPTY, GRADIENT, contribution_name, gradient_name
from .vartypes import number_of

#: Called with the block and what is known: after each operator is appended, that `operator`; and, when all contributions to a
#: gradient are there and nothing has read it yet, its name as `finished`.
Callback = Callable[[BlockView, Mapping[str, Any]], None]


def append_backward(
    loss: Variable,
    parameters: Sequence[str] | None = None,
    no_gradient: Collection[str] = (),
    callbacks: Sequence[Callback] = (),
    checkpoints: Sequence[str] = (),
) -> list[tuple[Variable, Variable]]:
    """Appends what computes the gradients of `loss` to its program: pairs of a parameter and its gradient.

    Parameters are the trainable ones that the loss depends on, or those named. What is computed between `checkpoints` is not kept
    for the gradients, but computed again. Raises UserError where the loss has several elements, and where nothing computes it or a
    checkpoint.
    """
    shape = loss.type.shape
    if shape != (1,):
        raise UserError(
            Diagnostic(
                f"the loss '{loss.name}' has the shape {list(shape)}, and gradients are of one number",
                loss.location,
                hint="layers.mean(loss) makes one number of it",
            )
        )
    block = loss.block
    maker = next((o for o in reversed(block.operators) if loss.name in o.writes), None)
    if maker is None:
        raise UserError(
            Diagnostic(f"no operator of block {block.index} computes the loss '{loss.name}'", loss.location)
        )
    if checkpoints:
        mark_checkpoints(block, checkpoints)
    _set_role(maker, OpRole.Forward | OpRole.Loss)
    walk = Backward(block, no_gradient, callbacks)
    walk.seed(loss.name, None, OpRole.Backward | OpRole.Loss)
    walk.run([loss.name])
    named = walk.renamed()
    wanted = [v for v in block.program.top.variables.values() if v.is_parameter]
    if parameters is not None:
        wanted = [block.visible(name) for name in parameters]
    pairs: list[tuple[Variable, Variable]] = []
    for parameter in wanted:
        info = parameter.parameter
        name = gradient_name(parameter.name)
        name = named.get(name, name)
        found = block.find(name)
        if (
            found is not None
            and parameter.name in walk.given
            and (info is None or info.get("trainable", True))
        ):
            pairs.append((parameter, found))
            walk.mark(parameter.name, name)
    return pairs


def append_gradients(
    targets: Sequence[Variable],
    inputs: Sequence[Variable],
    target_gradients: Sequence[Variable | None],
    no_gradient: Collection[str] = (),
) -> list[Variable | None]:
    """Appends what computes the gradients of some variables by others; None for one that no target depends on.

    The gradient of a target is the variable given for it, or ones.
    """
    block = targets[0].block
    walk = Backward(block, no_gradient)
    for target, gradient in zip(targets, target_gradients, strict=True):
        walk.seed(target.name, gradient, OpRole.Backward)
    walk.run([t.name for t in targets], {v.name for v in inputs})
    named = walk.renamed()
    gradients = [gradient_name(v.name) if v.name in walk.given else None for v in inputs]
    return [None if g is None else block.find(named.get(g, g)) for g in gradients]


def gradient_ops(operator: Operator, no_gradient: Collection[str]) -> list[GradientOp]:
    """What computes the gradients of an operator's inputs; [] where it has none.

    Inputs that hold no floats, and those of `no_gradient` (names of variables or of gradients), get none: they are
    replaced by `@EMPTY@`.
    """
    definition = REGISTRY.find(operator.type)
    if definition is None or not definition.has_gradient:
        return []

    def kept(names: Sequence[str]) -> list[str]:
        return [n if _is_wanted(operator.block, n, no_gradient) else EMPTY for n in names]

    made = definition.maker(operator) if definition.maker is not None else [_default(operator, definition)]
    found: list[GradientOp] = []
    for op in made:
        outputs = {slot: kept(names) for slot, names in op.outputs.items()}
        outputs = {slot: names for slot, names in outputs.items() if any(n != EMPTY for n in names)}
        if outputs:
            found.append(GradientOp(op.type, op.inputs, outputs, op.attributes))
    return found


def _is_wanted(block: BlockView, gradient: str, no_gradient: Collection[str]) -> bool:
    if gradient in no_gradient or not gradient.endswith(GRADIENT):
        return gradient not in no_gradient and gradient != EMPTY
    name = gradient.removesuffix(GRADIENT)
    variable = block.find(name)
    if name in no_gradient or variable is None:
        return variable is None and name != EMPTY and name not in no_gradient
    return isinstance(variable.element, FloatType) and not variable.flag("stop_gradient")


def _default(operator: Operator, definition: Definition) -> GradientOp:
    """`<type>_grad`: it reads what the operator reads and writes and the gradients of that, and gives those of its inputs."""
    entry = definition.entry
    given = {s.name: operator.outputs[s.name] for s in entry.outputs if s.name in operator.outputs}
    errors = {
        s.name + GRADIENT: [gradient_name(n) for n in given[s.name]]
        for s in entry.outputs
        if s.name in given and not s.intermediate
    }
    wanted = entry.gradient
    outputs = {
        slot + GRADIENT: [gradient_name(n) for n in names]
        for slot, names in operator.inputs.items()
        if wanted is None or slot in wanted
    }
    return GradientOp(
        f"{entry.type}_grad", {**operator.inputs, **given, **errors}, outputs, operator.attributes
    )


@dataclass
class _Contribution:
    """A name under which a gradient, or a part of it, is written, and by which operator."""

    name: str
    operator: Operator | None


@dataclass
class Backward:
    """The walk over a block from its last operator to its first. `given` are the variables that have a gradient at the end."""

    block: BlockView
    no_gradient: Collection[str] = ()
    callbacks: Sequence[Callback] = ()
    given: dict[str, str] = field(default_factory=dict[str, str])
    _parts: dict[str, list[_Contribution]] = field(default_factory=dict[str, list[_Contribution]])
    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    _made: list[Operator] = field(default_factory=list[Operator])
    _makers: dict[str, Operator] = field(default_factory=dict[str, Operator])

    def __post_init__(self) -> None:
        self._before = set(self.block.variables)
        self.forward = list(self.block.operators)
        self.no_gradient = {*self.no_gradient, *(n for b in self.block.around() for n in _stopped(b))}

    def seed(self, target: str, gradient: Variable | None, role: int) -> None:
        """The gradient of a target: the value of a variable, or ones."""
        name = gradient_name(target)
        variable = self.block.visible(target)
        if gradient is not None:
            if gradient.type.shape != variable.type.shape:
                message = f"the gradient of '{target}' has its shape {list(variable.shape)}, not {list(gradient.shape)}"
                raise UserError(Diagnostic(message, gradient.location))
            made = self._append(GradientOp("assign", {"X": [gradient.name]}, {"Out": [name]}), role)
        elif variable.type.static:
            fields = {"shape": list(variable.shape), "value": 1.0, "dtype": number_of(variable.element)}
            made = self._append(GradientOp("fill_constant", {}, {"Out": [name]}, fields), role)
        else:
            made = self._append(GradientOp("fill_ones_like", {"X": [target]}, {"Out": [name]}), role)
        self._parts[name] = [_Contribution(name, made)]

    def run(self, targets: Sequence[str], sources: Collection[str] | None = None) -> None:
        """Appends the gradients of all operators that targets depend on."""
        path, versions = self._path(targets, sources)
        for at in reversed(path):
            self._one(self.forward[at], versions[at])
        for name in list(self._parts):
            self._summed(name)
            self.given[name.removesuffix(GRADIENT)] = name

    def _path(
        self, targets: Sequence[str], sources: Collection[str] | None
    ) -> tuple[list[int], list[dict[str, int]]]:
        """The operators that targets depend on (and that depend on sources, where these are given), by number; and for each
        operator how often each variable that it uses had been written by its end."""
        writes: dict[str, int] = {}
        versions: list[dict[str, int]] = []
        reached = None if sources is None else set(sources)
        depends: list[bool] = []
        for operator in self.forward:
            seen = {name: writes.get(name, 0) for name in operator.reads}
            written = [name for name in operator.writes if name != EMPTY]
            for name in written:
                writes[name] = writes.get(name, 0) + 1
            versions.append({**{name: writes[name] for name in written}, **seen})
            depends.append(reached is None or any(name in reached for name in operator.reads))
            if reached is not None and depends[-1]:
                reached.update(operator.writes)
        self.writes = writes
        needed = set(targets)
        path: list[int] = []
        for at in range(len(self.forward) - 1, -1, -1):
            operator = self.forward[at]
            if depends[at] and any(name in needed for name in operator.writes):
                path.append(at)
                needed.update(operator.reads)
        return path[::-1], versions

    def _one(self, operator: Operator, versions: Mapping[str, int]) -> None:
        """Appends the gradient of one operator."""
        errors = [gradient_name(n) for n in operator.writes]
        there = [g for g in errors if g in self._parts]
        made = gradient_ops(operator, self.no_gradient) if there else []
        for gradient in dict.fromkeys(there):
            self._summed(gradient)
        # These gradients belong to this operator's outputs: earlier readers of the variables accumulate new ones.
        for gradient in dict.fromkeys(there):
            if made or gradient.removesuffix(GRADIENT) not in operator.reads:
                self.given[gradient.removesuffix(GRADIENT)] = gradient
            del self._parts[gradient]
        for op in made:
            made_op = self._add(self._with_zeros(op, operator, errors, there), operator.location)
            self._keep(made_op, versions)

    def _with_zeros(
        self, op: GradientOp, operator: Operator, errors: Sequence[str], there: Collection[str]
    ) -> GradientOp:
        """The operator without the gradients that are not there, or with zeros in their place, where it has to read them."""
        missing = {g for g in errors if g not in there}
        if not any(n in missing for names in op.inputs.values() for n in names):
            return op
        inputs: dict[str, list[str]] = {}
        definition = REGISTRY.find(op.type)
        is_derivative = definition is not None and definition.build is None
        for slot, names in op.inputs.items():
            if not any(n in missing for n in names):
                inputs[slot] = list(names)
            elif is_derivative:
                left = [EMPTY if n in missing else n for n in names]
                if any(n != EMPTY for n in left):
                    inputs[slot] = left
            else:
                inputs[slot] = list(names)
                for name in dict.fromkeys(n for n in names if n in missing):
                    source = {"X": [name.removesuffix(GRADIENT)]}
                    self._append(
                        GradientOp("fill_zeros_like", source, {"Out": [name]}),
                        OpRole.Backward,
                        operator.location,
                    )
        return GradientOp(op.type, inputs, op.outputs, op.attributes)

    def _keep(self, made: Operator, versions: Mapping[str, int]) -> None:
        """Has the gradient of an operator read what its variables held there, where they have been overwritten since: copies are
        taken before that."""
        changed = [
            n for n in dict.fromkeys(made.reads) if n in versions and versions[n] != self.writes.get(n, 0)
        ]
        if not changed:
            return
        used = read_inputs(
            made.type, types_of(made), made.dictionary, tuple(made.outputs), raggedness_of(made)
        )
        for slot, names in list(made.inputs.items()):
            if any(n in changed and (slot, i) in used for i, n in enumerate(names)):
                kept = [
                    self._saved(n, versions[n]) if n in changed and (slot, i) in used else n
                    for i, n in enumerate(names)
                ]
                made.set_slot("inputs", slot, kept)

    def _saved(self, name: str, version: int) -> str:
        """A copy of what a variable held after so many writes; made before the next one."""
        saved = f"{name}@SAVED@{version}"
        if saved not in self.block.variables:
            writer = [o for o in self.forward if name in o.writes][version]
            self._declare(saved, name)
            entry = REGISTRY.get("assign").entry
            at = writer.index
            self.block.insert(
                at, "assign", {"X": [name]}, {"Out": [saved]}, completed(entry, {}), writer.location
            )
            self.block.visible(saved).type = self.block.visible(name).type
        return saved

    # ---- contributions

    def _add(self, op: GradientOp, location: Location) -> Operator:
        """Appends an operator, whose outputs are contributions to gradients: under the gradient's own name until there are two."""
        every = [n for names in op.outputs.values() for n in names]
        outputs = {
            slot: [self._named(n, every.count(n)) for n in names] for slot, names in op.outputs.items()
        }
        made = self._append(GradientOp(op.type, op.inputs, outputs, op.attributes), OpRole.Backward, location)
        for slot, names in op.outputs.items():
            for name, written in zip(names, outputs[slot], strict=True):
                if name != EMPTY:
                    self._parts.setdefault(name, []).append(_Contribution(written, made))
        return made

    def _named(self, gradient: str, count: int) -> str:
        """What one of `count` new contributions to a gradient is called."""
        parts = self._parts.get(gradient, [])
        if gradient == EMPTY or (count == 1 and not parts):
            return gradient
        if len(parts) == 1 and parts[0].name == gradient:
            (first,) = parts
            assert first.operator is not None
            first.name = self._next(gradient)
            first.operator.rename("outputs", gradient, first.name)
            infer_types(first.operator)
        return self._next(gradient)

    def _next(self, gradient: str) -> str:
        number = self._numbers.get(gradient, 0)
        self._numbers[gradient] = number + 1
        name = contribution_name(gradient, number)
        self._declare(name, gradient)
        return name

    def _summed(self, gradient: str) -> None:
        """One `sum` of all contributions, where there are several; the gradient is finished."""
        parts = self._parts[gradient]
        if len(parts) > 1:
            names = [part.name for part in parts]
            made = self._append(GradientOp("sum", {"X": names}, {"Out": [gradient]}), OpRole.Backward)
            self._parts[gradient] = [_Contribution(gradient, made)]
        for callback in self.callbacks:
            callback(self.block, {"finished": gradient})

    # ---- appending

    def _append(self, op: GradientOp, role: int, location: Location | None = None) -> Operator:
        entry = REGISTRY.get(op.type).entry
        known = {a.name for a in entry.attributes}
        fields: DictAttr = completed(
            entry, {**{k: v for k, v in op.attributes.items() if k in known}, "op_role": int(role)}
        )
        for names in op.outputs.values():
            for name in names:
                self._declare(name, name)
        made = self.block.insert(len(self.block.operators), op.type, op.inputs, op.outputs, fields, location)
        self._made.append(made)
        infer_types(made)
        for callback in self.callbacks:
            callback(self.block, {"operator": made, "gradients": dict(self.given)})
        return made

    def _declare(self, name: str, gradient: str) -> None:
        if name == EMPTY or name in self.block.variables:
            return
        source = self.block.find(gradient.removesuffix(GRADIENT))
        if source is None:
            self.block.declare(name)
        else:
            self.block.declare(name, source.type, ragged=source.ragged, location=source.location)

    def renamed(self) -> dict[str, str]:
        """The new names of gradients whose names variables had before: these are not written again."""
        names: dict[str, str] = {}
        for made in self._made:
            for name in names.keys() & set(made.reads):
                made.rename("inputs", name, names[name])
            taken = [name for name in dict.fromkeys(made.writes) if name in self._before and name != EMPTY]
            for name in taken:
                if name not in names:
                    numbered = (f"{name}_{number}" for number in count())
                    names[name] = next(each for each in numbered if each not in self.block.variables)
                    self._declare(names[name], name)
                made.rename("outputs", name, names[name])
            if taken:
                infer_types(made)
            self._makers.update(dict.fromkeys(made.writes, made))
        return names

    def mark(self, parameter: str, gradient: str) -> None:
        """Has the operator that gives a parameter's gradient say so."""
        maker = self._makers[gradient]
        pairs = [*(maker.attribute("op_role_var") or []), parameter, gradient]
        entry = REGISTRY.get(maker.type).entry
        maker.set_attributes(completed(entry, {**maker.attributes, "op_role_var": pairs}))


def _stopped(block: BlockView) -> Iterable[str]:
    return (name for name, v in block.variables.items() if v.flag("stop_gradient"))


def _set_role(operator: Operator, role: int) -> None:
    entry = REGISTRY.get(operator.type).entry
    operator.set_attributes(completed(entry, {**operator.attributes, "op_role": int(role)}))
