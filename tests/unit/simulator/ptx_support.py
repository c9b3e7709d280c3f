# SPDX-License-Identifier: Apache-2.0
"""Kernels for the simulator's tests: LLVM IR to PTX, PTX to results."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from ngmlir.llvm.machine import assembly
from ngmlir.simulator.memory import DeviceMemory
from ngmlir.simulator.module import Module
from ngmlir.support.target import Target

BF16 = np.dtype(ml_dtypes.bfloat16)

#: LLVM type -> NumPy type.
TYPES = {
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "half": np.dtype(np.float16), "bfloat": BF16, "float": np.dtype(np.float32), "double": np.dtype(np.float64),
}  # fmt: skip

SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}

HEAD = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
"""


@cache
def to_ptx(ir: str, cpu: str = "sm_90a", features: str = "+ptx80") -> str:
    target = Target("test", "nvptx64-nvidia-cuda", cpu, features)
    return assembly(ir, target)


def kernel(body: str, parameters: str, threads: int = 32, head: str = "") -> str:
    """PTX of one kernel `k`, whose body begins with %t, the thread, and %b, the block."""
    return to_ptx(f"""{HEAD}{head}
define ptx_kernel void @k({parameters}) #0 {{
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
{body}
  ret void
}}
attributes #0 = {{ nounwind "nvvm.reqntid"="{threads}" }}
!0 = !{{}}
""")


def pointers(*names: str) -> str:
    return ", ".join(f"ptr addrspace(1) align 16 %{name}" for name in names)


class Machine:
    """A simulated device with a loaded program."""

    def __init__(self, ptx: str):
        self.memory = DeviceMemory()
        self.module = Module(ptx, self.memory)

    def put(self, array: np.ndarray) -> int:
        address = self.memory.allocate(array.nbytes)
        flat = np.ascontiguousarray(array).reshape(-1)
        self.memory.bytes_at(address, array.nbytes)[:] = flat.view(np.uint8)
        return address

    def get(self, address: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.memory.bytes_at(address, count).view(dtype).reshape(shape).copy()


def apply(
    ptx: str, inputs: list[np.ndarray], result: np.dtype, *, threads: int = 32, **options
) -> np.ndarray:
    """Runs `k(inputs..., out)` with one thread per element; sizes are multiples of the block."""
    machine = Machine(ptx)
    count = len(inputs[0])
    out = np.zeros(count, result)
    arguments = [machine.put(array) for array in (*inputs, out)]
    machine.module.launch("k", (count // threads, 1, 1), threads, arguments, **options)
    return machine.get(arguments[-1], result, (count,))


def elementwise(expression: str, operands: list[str], result: str, head: str = "") -> str:
    """PTX that computes `expression` of %x0, %x1, ... into %r for each element."""
    lines = ["  %base = mul i32 %b, 32", "  %i = add i32 %base, %t"]
    for number, kind in enumerate(operands):
        lines.append(f"  %p{number} = getelementptr {kind}, ptr addrspace(1) %a{number}, i32 %i")
        lines.append(f"  %x{number} = load {kind}, ptr addrspace(1) %p{number}")
    lines.append(expression)
    lines.append(f"  %q = getelementptr {result}, ptr addrspace(1) %o, i32 %i")
    lines.append(f"  store {result} %r, ptr addrspace(1) %q")
    names = [f"a{number}" for number in range(len(operands))]
    return kernel("\n".join(lines), pointers(*names, "o"), head=head)


def samples(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Values of every sort: limits, zeros of both signs, infinities, NaN, denormals, and random ones."""
    dtype = TYPES[kind]
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        special = np.array([0, 1, -1, 2, -2, 3, 7, info.min, info.min + 1, info.max, info.max - 1], dtype)
        small = rng.integers(-9, 10, 21).astype(dtype)
        wide = rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)
        return np.concatenate([special, small, wide])
    info = ml_dtypes.finfo(dtype)
    tiny, least, most = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 3.0, 127.5, 255.5]
    special += [tiny, -tiny, least, -least, 3 * least, most, -most, 0.75 * tiny]
    whole = rng.integers(-70000, 70000, 20).astype(np.float64)
    normal = rng.standard_normal(54)
    with np.errstate(all="ignore"):
        return np.concatenate([special, whole, normal]).astype(dtype)


def pairs(kind: str, count: int = 96) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays in which each special value meets each other one."""
    rng = np.random.default_rng(7)
    values = samples(kind, rng)
    special = values[:22]
    left, right = np.repeat(special, len(special)), np.tile(special, len(special))
    left = np.concatenate([left, rng.permutation(values)])
    right = np.concatenate([right, rng.permutation(values)])
    usable = len(left) // 32 * 32
    return left[:usable], right[:usable]


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits, the sign of zero included; any NaN equals any NaN."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    unsigned = np.dtype(f"u{actual.dtype.itemsize}")
    same = actual.view(unsigned) == expected.view(unsigned)
    if actual.dtype.kind != "i":
        with np.errstate(all="ignore"):
            same |= np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    wrong = np.flatnonzero(~same)
    assert not len(wrong), (
        f"{len(wrong)} differ, first {wrong[0]}: {actual[wrong[0]]} != {expected[wrong[0]]}"
    )
