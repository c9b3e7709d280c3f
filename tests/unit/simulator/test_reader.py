# SPDX-License-Identifier: Apache-2.0
"""PTX text to records: what LLVM prints, and what is wrong with a text."""

from __future__ import annotations

import pytest
from ptx_support import kernel, pointers, to_ptx

from ngmlir.simulator.inline import expand_calls
from ngmlir.simulator.program import Address, Integer, Pair, Real, Register, Sink, Symbol, Vector
from ngmlir.simulator.reader import read
from ngmlir.support.diagnostics import Limit, UserError

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def body(*statements: str) -> str:
    return HEADER + ".visible .entry k(.param .u64 p)\n{\n" + "\n".join(statements) + "\n}\n"


def first(statement: str):
    return (
        read(body(".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;", statement))
        .functions["k"]
        .instructions[0]
    )


def test_an_entry_of_llvm():
    program = read(kernel("  store i32 %t, ptr addrspace(1) %o", pointers("o"), threads=96))
    entry = program.entries["k"]
    assert (program.target, entry.directives["reqntid"]) == ("sm_90a", (96,))
    assert [(p.name, p.bytes, p.alignment) for p in entry.parameters] == [("k_param_0", 8, 8)]
    assert entry.instructions[-1].opcode == "ret"
    assert all(i.line > 0 and i.text for i in entry.instructions)


def test_operands():
    assert first("mov.b32 %r1, -7;").operands == (Register("%r1"), Integer(-7))
    assert first("prmt.b32 %r1, %r2, 0, 0x7701U;").operands[3] == Integer(0x7701)
    assert first("mov.b32 %r1, 0f3F800000;").operands[1] == Real(0x3F800000, 4)
    assert first("mov.b64 %rd1, 0d3FF0000000000000;").operands[1] == Real(0x3FF0000000000000, 8)
    assert first("ld.global.v2.b32 {%r1, _}, [%rd1+-16];").operands == (
        Vector((Register("%r1"), Sink())),
        Address(Register("%rd1"), -16),
    )
    assert first("ld.param.b64 %rd1, [p+8];").operands[1] == Address(Symbol("p"), 8)
    assert first("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;").operands[0] == Pair(
        Register("%r1"), Register("%p1")
    )
    assert first("selp.b32 %r1, 1, 2, !%p1;").operands[3] == Register("%p1", negated=True)
    copy = first("cp.async.bulk.tensor.2d.shared::cta.global.tile [%rd1], [%rd2, {%r1, %r2}], [%rd3];")
    assert copy.operands[1] == Address(Register("%rd2"), 0, (Register("%r1"), Register("%r2")))
    assert "shared::cta" in copy.modifiers


def test_guards_labels_and_branch_tables():
    program = read(body(
        ".reg .pred %p<2>; .reg .b32 %r<2>;",
        "$L_table: .branchtargets $L0, $L1;",
        "@!%p1 bra $L1;",
        "$L0: brx.idx %r1, $L_table;",
        "$L1: ret;",
    ))  # fmt: skip
    entry = program.entries["k"]
    assert entry.labels == {"$L0": 1, "$L1": 2}
    assert entry.branch_tables == {"$L_table": ("$L0", "$L1")}
    assert entry.instructions[0].guard == Register("%p1", negated=True)


def test_names_of_inner_scopes_are_their_own():
    program = read(body(
        ".reg .pred p; .reg .b32 %r<2>;",
        "{ .reg .pred p; setp.ne.b32 p, %r0, 0; }",
        "{ .reg .pred p; setp.ne.b32 p, %r1, 0; }",
        "setp.eq.b32 p, %r1, 0;",
        "ret;",
    ))  # fmt: skip
    names = [i.operands[0].name for i in program.entries["k"].instructions[:3]]
    assert len(set(names)) == 3 and names[2] == "p"


def test_variables_and_initial_values():
    ptx = to_ptx("""
@table = internal addrspace(4) constant [3 x float] [float 1.0, float 0x7FF0000000000000, float -0.0]
@bytes = addrspace(1) global [4 x i16] [i16 1, i16 -2, i16 3, i16 0]
@pointer = addrspace(1) global ptr addrspace(1) @bytes
@shared = external addrspace(3) global [0 x i8], align 1024
define ptx_kernel void @k(ptr addrspace(1) %o, i32 %i) {
  %p = getelementptr float, ptr addrspace(4) @table, i32 %i
  %v = load float, ptr addrspace(4) %p
  %q = getelementptr float, ptr addrspace(3) @shared, i32 %i
  store float %v, ptr addrspace(3) %q
  ret void
}""")
    variables = read(ptx).variables
    assert variables["table"].initial == bytes.fromhex("0000803f0000807f00000080")
    assert (variables["table"].space, variables["table"].bytes) == ("const", 12)
    assert variables["bytes"].initial.ljust(8, b"\0") == bytes.fromhex("0100feff03000000")
    assert variables["pointer"].relocations == ((0, "bytes", 0),)
    assert (variables["shared"].space, variables["shared"].bytes, variables["shared"].alignment) == (
        "shared",
        0,
        1024,
    )


def test_calls_are_expanded():
    ptx = to_ptx("""
define internal i32 @twice(i32 %x) noinline {
  %y = add i32 %x, %x
  ret i32 %y
}
define ptx_kernel void @k(ptr addrspace(1) %o, i32 %i) {
  %a = call i32 @twice(i32 %i)
  %b = call i32 @twice(i32 %a)
  store i32 %b, ptr addrspace(1) %o
  ret void
}""")
    program = read(ptx)
    flat = expand_calls(program, program.entries["k"])
    assert not [i for i in flat.instructions if i.head == "call"]
    assert len([i for i in flat.instructions if i.opcode == "shl.b32" or i.opcode == "add.s32"]) == 2


def test_recursion_and_missing_functions():
    recursive = (
        HEADER
        + """
.func f() { call.uni f, (); ret; }
.visible .entry k() { call.uni f, (); ret; }"""
    )
    program = read(recursive)
    with pytest.raises(Limit, match="calls itself"):
        expand_calls(program, program.entries["k"])
    program = read(HEADER + ".visible .entry k() {\n call.uni vprintf, ();\n ret; }")
    with pytest.raises(UserError, match="'vprintf' is called but the PTX does not define it") as caught:
        expand_calls(program, program.entries["k"])
    assert caught.value.diagnostics[0].location.line == 5


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("add.s32 %r1, %r2", "expected ','"),
        ("add.s32 %r1 %r2;", "expected ','"),
        ("ld.global.b32 %r1, [;", "expected a name"),
        (".nonsense 3;", "unknown directive '.nonsense'"),
        ("mov.b32 %r1, \x01;", "cannot read"),
        (".shared .align 4 buffer[4];", "needs a type"),
    ],
)
def test_errors_name_the_line(statement, message):
    with pytest.raises(UserError, match=message) as caught:
        read(body(".reg .b32 %r<9>;", statement))
    assert caught.value.diagnostics[0].location.line in (7, 8)


def test_a_text_that_ends_early():
    with pytest.raises(UserError, match="ends within a statement"):
        read(HEADER + ".visible .entry k(\n")
