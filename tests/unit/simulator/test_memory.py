# SPDX-License-Identifier: Apache-2.0
"""State spaces, vectors, atomic operations, calls, branch tables, and mbarriers."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_support import HEAD, Machine, kernel, pointers, to_ptx

from ngmlir.simulator.fault import SimulationFault
from ngmlir.simulator.memory import DeviceMemory

SEEDS = [None, 0, 1]
I32 = np.dtype(np.int32)


def run(ptx: str, inputs: list[np.ndarray], result: np.ndarray, threads: int = 32, grid=(1, 1, 1), **options):
    machine = Machine(ptx)
    addresses = [machine.put(v) for v in (*inputs, result)]
    machine.module.launch("k", grid, threads, addresses, **options)
    return machine.get(addresses[-1], result.dtype, result.shape)


@pytest.mark.parametrize(
    ("kind", "count"), [("i32", 4), ("float", 2), ("double", 2), ("i16", 8), ("i8", 16), ("half", 8)]
)
def test_vectors_go_through_global_and_shared_memory(kind, count):
    dtype = {"i32": "i4", "float": "f4", "double": "f8", "i16": "i2", "i8": "i1", "half": "f2"}[kind]
    add = "fadd" if kind in ("float", "double", "half") else "add"
    vector = f"<{count} x {kind}>"
    body = f"""  %p = getelementptr {vector}, ptr addrspace(1) %a, i32 %t
  %v = load {vector}, ptr addrspace(1) %p, align 16
  %m = xor i32 %t, 33
  %s = getelementptr {vector}, ptr addrspace(3) @s, i32 %t
  store {vector} %v, ptr addrspace(3) %s, align 16
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %u = getelementptr {vector}, ptr addrspace(3) @s, i32 %m
  %w = load {vector}, ptr addrspace(3) %u, align 16
  %x = {add} {vector} %v, %w
  %q = getelementptr {vector}, ptr addrspace(1) %o, i32 %t
  store {vector} %x, ptr addrspace(1) %q, align 16"""
    head = f"@s = internal addrspace(3) global [64 x {vector}] undef, align 16"
    x = np.random.default_rng(0).integers(-50, 50, (64, count)).astype(dtype)
    for seed in SEEDS:
        actual = run(kernel(body, pointers("a", "o"), 64, head), [x], np.zeros_like(x), 64, seed=seed)
        assert np.array_equal(actual, x + x[np.arange(64) ^ 33])


def test_generic_addresses_reach_every_space():
    body = """  %own = alloca i32
  store volatile i32 %t, ptr %own
  %s = getelementptr i32, ptr addrspace(3) @s, i32 %t
  store i32 100, ptr addrspace(3) %s
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %t
  %g0 = addrspacecast ptr addrspace(1) %p to ptr
  %g1 = addrspacecast ptr addrspace(3) %s to ptr
  %k = urem i32 %t, 3
  %z = icmp eq i32 %k, 0
  %y = icmp eq i32 %k, 1
  %h = select i1 %z, ptr %g0, ptr %g1
  %w = select i1 %y, ptr %own, ptr %h
  %v = load volatile i32, ptr %w
  %n = add i32 %v, 1000
  store volatile i32 %n, ptr %w
  %r = load volatile i32, ptr %w
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %r, ptr addrspace(1) %q"""
    head = "@s = internal addrspace(3) global [32 x i32] undef, align 4"
    t = np.arange(32, dtype=I32)
    ptx = kernel(body, pointers("a", "o"), head=head)
    assert "ld.volatile.b32" in ptx
    expected = np.choose(t % 3, [t * 7, t, np.full(32, 100)]) + 1000
    for seed in SEEDS:
        assert run(ptx, [t * 7], np.zeros(32, I32), seed=seed).tolist() == expected.tolist()


def test_local_arrays_are_private():
    body = """  %own = alloca [8 x i32]
  %i = and i32 %t, 7
  %p = getelementptr i32, ptr %own, i32 %i
  store volatile i32 %t, ptr %p
  %v = load volatile i32, ptr %p
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %v, ptr addrspace(1) %q"""
    assert run(kernel(body, pointers("o"), 64), [], np.zeros(64, I32), 64).tolist() == list(range(64))


def test_tables_in_constant_memory():
    body = """  %i = and i32 %t, 3
  %p = getelementptr float, ptr addrspace(4) @table, i32 %i
  %v = load float, ptr addrspace(4) %p
  %q = getelementptr float, ptr addrspace(1) %o, i32 %t
  store float %v, ptr addrspace(1) %q"""
    head = "@table = internal addrspace(4) constant [4 x float] [float 1.0, float -2.0, float 0x7FF0000000000000, float 0.5]"
    actual = run(kernel(body, pointers("o"), head=head), [], np.zeros(32, np.float32))
    assert actual.tolist() == [1.0, -2.0, np.inf, 0.5] * 8


def test_arguments_by_value():
    ptx = to_ptx(f"""{HEAD}
define ptx_kernel void @k(i8 %a, i16 %b, double %c, float %d, ptr byval([3 x i32]) align 8 %e, ptr addrspace(1) %o) {{
  %ax = sext i8 %a to i32
  %bx = sext i16 %b to i32
  %cx = fptosi double %c to i32
  %dx = fptosi float %d to i32
  %p = getelementptr i32, ptr %e, i32 2
  %ex = load i32, ptr %p
  %s1 = add i32 %ax, %bx
  %s2 = add i32 %s1, %cx
  %s3 = add i32 %s2, %dx
  %s4 = add i32 %s3, %ex
  store i32 %s4, ptr addrspace(1) %o
  ret void
}}""")
    machine = Machine(ptx)
    out = machine.put(np.zeros(1, I32))
    block = np.array([1, 2, 70000], I32).tobytes()
    machine.module.launch(
        "k", (1, 1, 1), 1, [-3, np.int16(-200), np.float64(5000.0), np.float32(10.0), block, out]
    )
    assert machine.get(out, I32, (1,)).tolist() == [-3 - 200 + 5000 + 10 + 70000]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("space", [1, 3])
@pytest.mark.parametrize(
    ("operation", "expected"), [("add", 2016), ("max", 63), ("umin", 0), ("or", 63), ("xor", 0)]
)
def test_atomic_operations(operation, expected, space, seed):
    """All threads meet at one word; the values before are those of some order."""
    start = 0 if operation != "umin" else 50
    body = f"""  %word = select i1 true, ptr addrspace({space}) {"%o" if space == 1 else "@w"}, ptr addrspace({space}) {"%o" if space == 1 else "@w"}
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %init, label %go
init:
  store i32 {start}, ptr addrspace({space}) %word
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %old = atomicrmw {operation} ptr addrspace({space}) %word, i32 %t monotonic
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %v = load i32, ptr addrspace({space}) %word
  %i = add i32 %t, 1
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %i
  store i32 %old, ptr addrspace(1) %q
  br i1 %zero, label %last, label %end
last:
  %z = getelementptr i32, ptr addrspace(1) %o, i32 65
  store i32 %v, ptr addrspace(1) %z
  br label %end
end:"""
    ptx = kernel(body, pointers("o"), 64, "@w = internal addrspace(3) global i32 undef, align 4")
    actual = run(ptx, [], np.zeros(66, I32), 64, seed=seed)
    assert actual[65] == expected
    if operation == "add":  # each thread saw another value, and each difference is a thread's number
        seen = np.sort(np.append(actual[1:65], expected))
        assert sorted(np.diff(seen).tolist()) == list(range(64)) or len(set(actual[1:65].tolist())) == 63


def test_atomic_float_addition_and_exchange():
    body = """  %r = atomicrmw fadd ptr addrspace(1) %o, float 0.5 monotonic
  %w = getelementptr float, ptr addrspace(1) %o, i32 1
  %x = atomicrmw xchg ptr addrspace(1) %w, i32 %t monotonic
  %y = getelementptr float, ptr addrspace(1) %o, i32 2
  %c = cmpxchg ptr addrspace(1) %y, i32 0, i32 1 monotonic monotonic
  %old = extractvalue {i32, i1} %c, 0
  %z = getelementptr i32, ptr addrspace(1) %y, i32 1
  %n = sub i32 1, %old
  %s = atomicrmw add ptr addrspace(1) %z, i32 %n monotonic"""
    actual = run(kernel(body, pointers("o"), 64), [], np.zeros(4, np.float32), 64, (3, 1, 1))
    assert actual[0] == 96.0
    assert actual.view(I32)[1] == 63 and actual.view(I32)[2:].tolist() == [1, 1]


def test_calls_with_structures_and_arrays():
    ptx = to_ptx(f"""{HEAD}
define internal {{i32, i64}} @split(i64 %x, <4 x i32> %v) noinline {{
  %a = trunc i64 %x to i32
  %e = extractelement <4 x i32> %v, i32 2
  %s = add i32 %a, %e
  %b = lshr i64 %x, 32
  %r0 = insertvalue {{i32, i64}} undef, i32 %s, 0
  %r1 = insertvalue {{i32, i64}} %r0, i64 %b, 1
  ret {{i32, i64}} %r1
}}
define ptx_kernel void @k({pointers("o")}) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %odd = trunc i32 %t to i1
  br i1 %odd, label %call, label %end
call:
  %w = zext i32 %t to i64
  %h = mul i64 %w, 4294967297
  %v = insertelement <4 x i32> zeroinitializer, i32 1000, i32 2
  %r = call {{i32, i64}} @split(i64 %h, <4 x i32> %v)
  %a = extractvalue {{i32, i64}} %r, 0
  %b = extractvalue {{i32, i64}} %r, 1
  %c = trunc i64 %b to i32
  %s = mul i32 %a, %c
  br label %end
end:
  %z = phi i32 [-1, %0], [%s, %call]
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %z, ptr addrspace(1) %q
  ret void
}}""")
    assert "call.uni" in ptx
    for seed in SEEDS:
        actual = run(ptx, [], np.zeros(32, I32), seed=seed)
        assert actual.tolist() == [(t + 1000) * t if t & 1 else -1 for t in range(32)]


def test_a_switch():
    cases = "\n".join(f"    i32 {n}, label %c{n}" for n in range(6))
    blocks = "\n".join(
        f"c{n}:\n  store volatile i32 {n * n}, ptr addrspace(1) %q\n  br label %end" for n in range(6)
    )
    body = f"""  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  switch i32 %t, label %end [
{cases}
  ]
{blocks}
end:"""
    ptx = kernel(body, pointers("o"))
    assert "brx.idx" in ptx
    for seed in SEEDS:
        assert run(ptx, [], np.full(32, -5, I32), seed=seed).tolist() == [n * n for n in range(6)] + [-5] * 26


# ---- mbarriers

MBARRIER = """@bar = internal addrspace(3) global i64 undef, align 8
@word = internal addrspace(3) global [64 x i32] undef, align 4
declare void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3), i32)
declare i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3))
declare i1 @llvm.nvvm.mbarrier.test.wait.shared(ptr addrspace(3), i64)
declare i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3), i32)"""


def handshake(arrivals: int, parity: int = 0) -> str:
    """Each warp writes its half, arrives, waits and reads the other half."""
    return kernel(
        f"""  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %init, label %go
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @bar, i32 {arrivals})
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %p = getelementptr i32, ptr addrspace(3) @word, i32 %t
  store i32 %t, ptr addrspace(3) %p
  %s = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) @bar)
  br label %wait
wait:
  %w = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) @bar, i32 {parity})
  br i1 %w, label %done, label %wait
done:
  %m = xor i32 %t, 32
  %u = getelementptr i32, ptr addrspace(3) @word, i32 %m
  %v = load i32, ptr addrspace(3) %u
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %v, ptr addrspace(1) %q""",
        pointers("o"),
        64,
        MBARRIER,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_mbarriers_order_what_was_written_before_the_arrival(seed):
    actual = run(handshake(64), [], np.zeros(64, I32), 64, seed=seed)
    assert actual.tolist() == [t ^ 32 for t in range(64)]


@pytest.mark.parametrize(("arrivals", "parity"), [(65, 0), (32, 0), (64, 1)])
@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_mbarriers(arrivals, parity, seed):
    """Too many awaited, too few, the wrong phase: somebody waits for ever, or reads what is not there yet."""
    with pytest.raises(SimulationFault) as caught:
        run(handshake(arrivals, parity), [], np.zeros(64, I32), 64, seed=seed)
    assert caught.value.kind in (("deadlock",) if arrivals == 65 else ("deadlock", "race"))


def test_an_mbarrier_must_be_initialised():
    ptx = kernel(
        "  %s = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) @bar)",
        pointers("o"),
        head=MBARRIER,
    )
    with pytest.raises(SimulationFault, match="not initialised"):
        run(ptx, [], np.zeros(1, I32))


# ---- the allocator


def test_freed_memory_is_used_again_and_read_as_poison():
    memory = DeviceMemory(1 << 12)
    addresses = [memory.allocate(1000) for _ in range(8)]
    assert all(address % 256 == 0 for address in addresses) and len(set(addresses)) == 8
    memory.bytes_at(addresses[3], 1000)[:] = 7
    for address in addresses[2:5]:
        memory.free(address)
    again = memory.allocate(3000)
    assert again == addresses[2] and (memory.bytes_at(again, 3000) == 0xFF).all()
    top = memory.top
    memory.allocate(0)
    for _ in range(100):
        memory.free(memory.allocate(500))
    assert memory.top <= top + 1024
    with pytest.raises(ValueError, match="was not allocated"):
        memory.free(addresses[3])
    with pytest.raises(ValueError, match="within one allocation"):
        memory.bytes_at(addresses[0], 1001)
