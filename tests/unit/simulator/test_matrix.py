# SPDX-License-Identifier: Apache-2.0
"""Matrix instructions, with the fragment layouts written down here from the PTX manual, element by element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ptx_support import BF16, Machine, kernel, pointers

# name -> (type of the elements, depth, LLVM type of the operands, intrinsic)
MMA = {
    "bf16 k16": (BF16, 16, "i32", "llvm.nvvm.mma.m16n8k16.row.col.bf16"),
    "bf16 k8": (BF16, 8, "i32", "llvm.nvvm.mma.m16n8k8.row.col.bf16"),
    "f16 k16": (np.dtype(np.float16), 16, "<2 x half>", "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"),
    "f16 k8": (np.dtype(np.float16), 8, "<2 x half>", "llvm.nvvm.mma.m16n8k8.row.col.f32.f32"),
    "tf32 k8": (np.dtype(np.float32), 8, "i32", "llvm.nvvm.mma.m16n8k8.row.col.tf32"),
    "tf32 k4": (np.dtype(np.float32), 4, "i32", "llvm.nvvm.mma.m16n8k4.row.col.tf32"),
    "s8 k32": (np.dtype(np.int8), 32, "i32", "llvm.nvvm.mma.m16n8k32.row.col.s8"),
    "s8 k16": (np.dtype(np.int8), 16, "i32", "llvm.nvvm.mma.m16n8k16.row.col.s8"),
}


def a_place(lane: int, index: int, per: int) -> tuple[int, int]:
    """Row and column in A of element `index` of a lane's registers, `per` elements to a register."""
    register, within = divmod(index, per)
    return lane // 4 + 8 * (register % 2), lane % 4 * per + within + 4 * per * (register // 2)


def b_place(lane: int, index: int, per: int) -> tuple[int, int]:
    register, within = divmod(index, per)
    return lane % 4 * per + within + 4 * per * register, lane // 4


def c_place(lane: int, index: int) -> tuple[int, int]:
    return lane // 4 + 8 * (index // 2), lane % 4 * 2 + index % 2


def fragments(matrix: np.ndarray, place, count: int) -> np.ndarray:
    """By lane: the elements that its registers hold."""
    out = np.empty((32, count), matrix.dtype)
    for lane in range(32):
        for index in range(count):
            out[lane, index] = matrix[place(lane, index)]
    return out


def mma_kernel(operand: str, intrinsic: str, a_count: int, b_count: int, accumulator: str) -> str:
    lines, arguments, types = [], [], []
    for name, count, kind in (("a", a_count, operand), ("b", b_count, operand), ("c", 4, accumulator)):
        for number in range(count):
            lines.append(f"  %{name}s{number} = mul i32 %t, {count}")
            lines.append(f"  %{name}i{number} = add i32 %{name}s{number}, {number}")
            lines.append(
                f"  %{name}p{number} = getelementptr i32, ptr addrspace(1) %{name}, i32 %{name}i{number}"
            )
            lines.append(f"  %{name}{number} = load {kind}, ptr addrspace(1) %{name}p{number}")
            arguments.append(f"{kind} %{name}{number}")
            types.append(kind)
    result = "{" + ", ".join([accumulator] * 4) + "}"
    lines.append(f"  %d = call {result} @{intrinsic}({', '.join(arguments)})")
    for number in range(4):
        lines.append(f"  %d{number} = extractvalue {result} %d, {number}")
        lines.append(f"  %q{number} = getelementptr i32, ptr addrspace(1) %o, i32 %ci{number}")
        lines.append(f"  store {accumulator} %d{number}, ptr addrspace(1) %q{number}")
    body = "\n".join(lines).replace("%b,", "%bb,").replace("ptr addrspace(1) %b,", "ptr addrspace(1) %bb,")
    return kernel(
        body, pointers("a", "bb", "c", "o"), head=f"declare {result} @{intrinsic}({', '.join(types)})"
    )


@pytest.mark.parametrize("name", MMA)
def test_mma(name):
    dtype, depth, operand, intrinsic = MMA[name]
    rng = np.random.default_rng(2)
    integer = dtype.kind == "i"
    per = 4 // dtype.itemsize
    accumulator = np.dtype(np.int32 if integer else np.float32)
    if integer:
        a, b = (rng.integers(-128, 128, s).astype(dtype) for s in ((16, depth), (depth, 8)))
        c = rng.integers(-1000, 1000, (16, 8)).astype(accumulator)
    else:
        # Small whole numbers: every order of summation gives the same.
        a, b = (rng.integers(-8, 9, s).astype(dtype) for s in ((16, depth), (depth, 8)))
        c = rng.integers(-8, 9, (16, 8)).astype(accumulator)
    a_parts = fragments(a, lambda lane, i: a_place(lane, i, per), 16 * depth // 32)
    b_parts = fragments(b, lambda lane, i: b_place(lane, i, per), depth * 8 // 32)
    c_parts = fragments(c, c_place, 4)
    ptx = mma_kernel(
        operand, intrinsic, a_parts.shape[1] // per, b_parts.shape[1] // per, "i32" if integer else "float"
    )
    machine = Machine(ptx)
    addresses = [machine.put(v) for v in (a_parts, b_parts, c_parts, np.zeros_like(c_parts))]
    machine.module.launch("k", (1, 1, 1), 32, addresses)
    actual = machine.get(addresses[-1], accumulator, (32, 4))
    wide = np.int64 if integer else np.float64
    exact = (a.astype(wide) @ b.astype(wide) + c).astype(accumulator)
    assert np.array_equal(actual, fragments(exact, c_place, 4))


def test_tf32_drops_the_low_bits():
    ptx = mma_kernel("i32", MMA["tf32 k4"][3], 2, 1, "float")
    machine = Machine(ptx)
    a = np.full((32, 2), 1 + 2.0**-11, np.float32)  # the bit below the ten that tf32 keeps
    b, c = np.ones((32, 1), np.float32), np.zeros((32, 4), np.float32)
    addresses = [machine.put(v) for v in (a, b, c, c)]
    machine.module.launch("k", (1, 1, 1), 32, addresses)
    assert (machine.get(addresses[-1], c.dtype, (32, 4)) == 4.0).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("seed", [None, 1])
def test_ldmatrix(count, transposed, seed):
    """Row r of matrix k lies at word 4 * (8 * k + r); lane 8 * k + r says so."""
    suffix = ".trans" if transposed else ""
    result = "i32" if count == 1 else "{" + ", ".join(["i32"] * count) + "}"
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{suffix}.b16.p3"
    store = []
    for number in range(count):
        value = "%d" if count == 1 else f"%e{number}"
        if count > 1:
            store.append(f"  {value} = extractvalue {result} %d, {number}")
        store.append(f"  %j{number} = add i32 %base, {number}")
        store.append(f"  %q{number} = getelementptr i32, ptr addrspace(1) %o, i32 %j{number}")
        store.append(f"  store i32 {value}, ptr addrspace(1) %q{number}")
    body = f"""  %p = getelementptr <4 x i32>, ptr addrspace(1) %a, i32 %t
  %v = load <4 x i32>, ptr addrspace(1) %p, align 16
  %s = getelementptr <4 x i32>, ptr addrspace(3) @rows, i32 %t
  store <4 x i32> %v, ptr addrspace(3) %s, align 16
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %d = call {result} @{name}(ptr addrspace(3) %s)
  %base = mul i32 %t, {count}
""" + "\n".join(store)
    head = f"@rows = internal addrspace(3) global [128 x i32] undef, align 16\ndeclare {result} @{name}(ptr addrspace(3))"
    machine = Machine(kernel(body, pointers("a", "o"), head=head))
    tiles = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    source, target = machine.put(tiles), machine.put(np.zeros((32, count), np.uint32))
    machine.module.launch("k", (1, 1, 1), 32, [source, target], seed=seed)
    actual = machine.get(target, np.dtype(np.uint16), (32, count, 2))
    for lane in range(32):
        for number in range(count):
            tile = tiles[number].T if transposed else tiles[number]
            assert actual[lane, number].tolist() == tile[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2].tolist()


def test_packed_conversion_puts_the_first_operand_high():
    head = "declare <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float, float)"
    body = """  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %x = load float, ptr addrspace(1) %p
  %y = fadd float %x, 1.0
  %v = call <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float %y, float %x)
  %q = getelementptr <2 x bfloat>, ptr addrspace(1) %o, i32 %t
  store <2 x bfloat> %v, ptr addrspace(1) %q"""
    machine = Machine(kernel(body, pointers("a", "o"), head=head))
    x = np.random.default_rng(0).standard_normal(32).astype(np.float32)
    source, target = machine.put(x), machine.put(np.zeros(64, np.uint16))
    machine.module.launch("k", (1, 1, 1), 32, [source, target])
    actual = machine.get(target, BF16, (32, 2))
    expected = np.stack([x, x + np.float32(1)], axis=1).astype(ml_dtypes.bfloat16)
    assert np.array_equal(actual.view(np.uint16), expected.view(np.uint16))
