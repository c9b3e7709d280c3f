# SPDX-License-Identifier: Apache-2.0
"""Saving variables of a scope, and putting them back bit for bit; programs for inference.

Files are written as a whole or not at all, and carry a checksum. Nothing in a scope changes where something is wrong with a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...op_graph.answers import answer_all
from ...programs.models import PROGRAM_FILE, fitting, kept_by, read_model, write_model
from ...programs.names import LEVEL
from ...programs.variable_files import Stored, file_name, read_variables, write_variables
from ...support.diagnostics import UserError
from .executor import Executor
from .feeding import offsets_of, with_io
from .framework import Parameter, Program, Variable, default_main_program
from .lists import listed
from .scope import global_scope

__all__ = [
    "get_inference_program", "get_parameter_value_by_name", "is_parameter", "is_persistable", "load_inference_model", "load_params",
    "load_persistables", "load_vars", "save_inference_model", "save_params", "save_persistables", "save_vars",
]  # fmt: skip


def is_parameter(var: Variable) -> bool:
    """Whether a variable is a parameter."""
    return isinstance(var, Parameter)


def is_persistable(var: Variable) -> bool:
    """Whether a variable is kept from run to run; lists of feeds and fetches do not count."""
    return var.persistable and var.view.holds == "tensor"


def _chosen(
    main_program: Program | None,
    vars: Sequence[Variable | str] | None,
    predicate: Callable[[Variable], bool] | None,
) -> list[Variable]:
    program = default_main_program() if main_program is None else main_program
    if vars is not None:
        block = program.global_block()
        return [block.var(v) if isinstance(v, str) else v for v in vars]
    wanted = predicate or is_persistable
    return [v for v in program.list_vars() if wanted(v)]


# ---- variables


def save_vars(
    executor: Executor,
    dirname: str,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Writes variables of the global scope to a folder, each to a file of its name, or all to `filename`: those listed, or those of a
    program (by default the main program) for which `predicate` holds."""
    scope = global_scope()
    values: dict[str, Stored] = {}
    for variable in _chosen(main_program, vars, predicate):
        tensor = scope.tensor(variable.name)
        values[variable.name] = Stored(tensor.get(), tensor.lod())
    folder = Path(dirname)
    if filename is not None:
        write_variables({folder / filename: values})
    else:
        write_variables({folder / file_name(name): {name: value} for name, value in values.items()})


def load_vars(
    executor: Executor,
    dirname: str,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Puts back what `save_vars` wrote. Raises UserError, and changes nothing, where a file or a variable in it is missing, where it was
    altered, and where a value has another shape or element type than its variable."""
    folder = Path(dirname)
    whole = None if filename is None else read_variables(folder / filename)
    found: dict[str, Stored] = {}
    for variable in _chosen(main_program, vars, predicate):
        path = folder / (filename or file_name(variable.name))
        held = read_variables(path) if whole is None else whole
        found[variable.name] = fitting(variable.view, held, path)
    _hold(found)


def _hold(values: Mapping[str, Stored]) -> None:
    """Puts values into the global scope."""
    scope = global_scope()
    for name, stored in values.items():
        tensor = scope.var(name).get_tensor()
        tensor.set(stored.array)
        tensor.set_lod(stored.offsets)


def save_params(
    executor: Executor, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    """As `save_vars`, of the parameters of a program."""
    save_vars(executor, dirname, main_program, None, is_parameter, filename)


def save_persistables(
    executor: Executor, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    """As `save_vars`, of all that a program keeps from run to run: a checkpoint."""
    save_vars(executor, dirname, main_program, None, is_persistable, filename)


def load_params(
    executor: Executor, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    """As `load_vars`, of the parameters of a program."""
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def load_persistables(
    executor: Executor, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    """As `load_vars`, of all that a program keeps from run to run: goes on from a checkpoint."""
    load_vars(executor, dirname, main_program, None, is_persistable, filename)


def get_parameter_value_by_name(name: str, executor: Executor, program: Program | None = None) -> Any:
    """The value of a parameter; UserError where there is none of that name."""
    found = (default_main_program() if program is None else program).global_block().var(name)
    if not isinstance(found, Parameter):
        raise UserError(f"the variable '{name}' is no parameter")
    return np.array(global_scope().tensor(name))


# ---- programs for inference


def get_inference_program(target_vars: Any, main_program: Program | None = None) -> Program:
    """What of a program some variables need, as it is used after training."""
    program = default_main_program() if main_program is None else main_program
    return program.clone(for_test=True).prune(
        [v.name if isinstance(v, Variable) else v for v in listed(target_vars)]
    )


def save_inference_model(
    dirname: str,
    feeded_var_names: Sequence[str] | str,
    target_vars: Any,
    executor: Executor,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
) -> list[str]:
    """Writes what some variables need, as it is used after training, to a folder: the program (`__model__`) and what it keeps. Gives
    the names of what is fetched. `ng.load` and `ngmlir run` take the folder, without this front end. With `export_for_deployment=False`
    the program is written as it is: one that trains goes on where it was, also without this front end.

    Raises UserError where something has to be fed that `feeded_var_names` lacks, and where a file cannot be written; then all
    files are as they were.
    """
    targets, feeds = listed(target_vars), listed(feeded_var_names)
    if export_for_deployment:
        program = get_inference_program(targets, main_program)
    else:
        program = default_main_program() if main_program is None else main_program
    needed = [v.name for v in program.global_block().vars.values() if v.is_data]
    missing = [name for name in needed if name not in feeds]
    if missing:
        raise UserError(
            f"the targets need '{missing[0]}', which is not among what is fed",
            hint=f"feed {', '.join(needed)}",
        )
    names = [v.name if isinstance(v, Variable) else v for v in targets]
    taken = [name for name in feeds if name in needed]
    taken += offsets_of(program.view, taken)
    shown = with_io(program.view, dict.fromkeys(taken), [*names, *offsets_of(program.view, names)])
    scope = global_scope()
    values = {v.name: scope.tensor(v.name) for v in kept_by(shown)}
    stored = {name: Stored(tensor.get(), tensor.lod()) for name, tensor in values.items()}
    write_model(Path(dirname) / (model_filename or PROGRAM_FILE), shown, stored, params_filename)
    return names


def load_inference_model(
    dirname: str, executor: Executor, model_filename: str | None = None, params_filename: str | None = None
) -> tuple[Program, list[str], list[Variable]]:
    """Reads what `save_inference_model` wrote: (program, names of what is fed, what is fetched). Its variables are in the global scope.

    Raises UserError, and changes nothing, for files that are missing, cut short, altered, or of another program.
    """
    stored = read_model(Path(dirname) / (model_filename or PROGRAM_FILE), params_filename)
    feeds, fetches = (
        [v.name for v in each if LEVEL not in v.name] for each in (stored.feeds, stored.fetches)
    )
    view = stored.program
    for at in range(len(view.top.operators) - 1, -1, -1):
        if view.top.operators[at].type in ("feed", "fetch"):
            view.top.remove_operators(at, at + 1)
    program = Program(view)
    _hold(stored.values)
    return program, feeds, [program.global_block().var(name) for name in fetches]


answer_all(globals(), __all__, "fluid.io")
