# SPDX-License-Identifier: Apache-2.0
"""From LLVM IR text to optimised IR, assembler text or an object file, by llvmlite.

This module imports nothing from this package, since it is also a program: `child` runs it in another process. There it
answers requests, pickled tuples on its standard input, until end of file. llvmlite is imported by the functions that
need it: a process that finds all code in the cache does not load LLVM.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import llvmlite.binding as llvm

Optimise: TypeAlias = Literal["none", "cleanup", "speed"]

#: The kinds of result; a listing is assembly with the names of blocks as comments, and `host` needs no text.
Form: TypeAlias = Literal["object", "assembly", "listing", "ir", "host"]

#: Written by a process that serves requests before its first answer.
GREETING = b"ngmlir: LLVM is ready\n"


class Rejected(Exception):
    """LLVM's parser or verifier rejects the text."""


@cache
def prepare_llvm() -> None:
    """Registers LLVM's targets, once per process."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


def host() -> list[str]:
    """LLVM's version, and this machine's triple, processor and features as LLVM names them."""
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    # The features are as LLVM and the operating system describe them.
    features = llvm.get_host_cpu_features().flatten()
    return [version, llvm.get_process_triple(), llvm.get_host_cpu_name(), features]


def generate(form: Form, text: str, triple: str, cpu: str, features: str, optimise: Optimise) -> bytes | str:
    """The text as an object file (bytes), as assembler text, as a listing, or as IR after the passes.

    Raises `Rejected` for errors that LLVM reports; it reports some errors by ending the process.
    """
    import llvmlite.binding as llvm

    if form == "host":
        return "\n".join(host())
    machine = _machine(triple, cpu, features)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        # The passes use these for the sizes of types and the costs of instructions.
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise Rejected(str(error).strip()) from error
    _optimise(module, machine, optimise)
    if form == "ir":
        return str(module)
    if form == "object":
        return machine.emit_object(module)
    machine.set_asm_verbosity(form == "listing")
    return machine.emit_assembly(module)


@lru_cache(maxsize=16)
def _machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    import llvmlite.binding as llvm

    prepare_llvm()
    # Hard-float calls must be requested on RISC-V, whose default keeps floats in integer registers.
    convention = "lp64d" if triple.startswith("riscv64") else ""
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", abiname=convention
    )


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, optimise: Optimise) -> None:
    import llvmlite.binding as llvm

    if optimise == "none":
        return
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = optimise == "speed"
    builder = llvm.create_pass_builder(machine, options)
    # A pass manager can run only once: LLVM ends the process on the second run.
    if optimise == "speed":
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        # For CPUs the code generator finds the remaining simplifications by itself, and these passes would take a sixth
        # of all the time.
        thorough = machine.triple.startswith("nvptx")
        passes.add_sroa_pass()
        if thorough:
            passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        if thorough:
            passes.add_new_gvn_pass()
        passes.add_dead_code_elimination_pass()
    passes.run(module, builder)


def _serve() -> None:
    """Reads requests and writes answers: ("done", result) or ("rejected", message)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    prepare_llvm()
    # Output of LLVM must not mix with the answers: standard output becomes standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answers.write(GREETING)
    answers.flush()
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = ("done", generate(*request))
        except (Rejected, RuntimeError) as error:
            answer = ("rejected", str(error))
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    _serve()
