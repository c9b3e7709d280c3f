# SPDX-License-Identifier: Apache-2.0
"""Whole kernels as LLVM IR: a tiled matrix product, a row softmax, and a pipelined copy."""

from __future__ import annotations

from ptx_support import HEAD, kernel, pointers, to_ptx

ALL = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"


def matmul(m: int, n: int, k: int, tile: int = 16) -> str:
    """C[m, n] = A[m, k] @ B[k, n] with 16x16 blocks, one element per thread; any sizes."""
    size = tile * tile
    return to_ptx(f"""{HEAD}
@left = internal addrspace(3) global [{size} x float] undef, align 16
@right = internal addrspace(3) global [{size} x float] undef, align 16
declare float @llvm.fma.f32(float, float, float)
define ptx_kernel void @matmul({pointers("a", "b", "c")}) #0 {{
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %x = and i32 %t, {tile - 1}
  %y = lshr i32 %t, {tile.bit_length() - 1}
  %row0 = mul i32 %by, {tile}
  %row = add i32 %row0, %y
  %column0 = mul i32 %bx, {tile}
  %column = add i32 %column0, %x
  %rowin = icmp slt i32 %row, {m}
  %columnin = icmp slt i32 %column, {n}
  %slotl = getelementptr float, ptr addrspace(3) @left, i32 %t
  %slotr = getelementptr float, ptr addrspace(3) @right, i32 %t
  br label %loop
loop:
  %k0 = phi i32 [0, %entry], [%k1, %latch]
  %sum0 = phi float [0.0, %entry], [%sum1, %latch]
  %ka = add i32 %k0, %x
  %kain = icmp slt i32 %ka, {k}
  %loada = and i1 %rowin, %kain
  br i1 %loada, label %geta, label %gota
geta:
  %ra = mul i32 %row, {k}
  %ia = add i32 %ra, %ka
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %ia
  %va = load float, ptr addrspace(1) %pa
  br label %gota
gota:
  %fa = phi float [0.0, %loop], [%va, %geta]
  store float %fa, ptr addrspace(3) %slotl
  %kb = add i32 %k0, %y
  %kbin = icmp slt i32 %kb, {k}
  %loadb = and i1 %columnin, %kbin
  br i1 %loadb, label %getb, label %gotb
getb:
  %rb = mul i32 %kb, {n}
  %ib = add i32 %rb, %column
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %ib
  %vb = load float, ptr addrspace(1) %pb
  br label %gotb
gotb:
  %fb = phi float [0.0, %gota], [%vb, %getb]
  store float %fb, ptr addrspace(3) %slotr
  {ALL}
  br label %inner
inner:
  %j = phi i32 [0, %gotb], [%j1, %inner]
  %sum = phi float [%sum0, %gotb], [%sumn, %inner]
  %la = mul i32 %y, {tile}
  %lb = add i32 %la, %j
  %pl = getelementptr float, ptr addrspace(3) @left, i32 %lb
  %vl = load float, ptr addrspace(3) %pl
  %ma = mul i32 %j, {tile}
  %mb = add i32 %ma, %x
  %pr = getelementptr float, ptr addrspace(3) @right, i32 %mb
  %vr = load float, ptr addrspace(3) %pr
  %sumn = call float @llvm.fma.f32(float %vl, float %vr, float %sum)
  %j1 = add i32 %j, 1
  %more = icmp ult i32 %j1, {tile}
  br i1 %more, label %inner, label %latch
latch:
  %sum1 = phi float [%sumn, %inner]
  {ALL}
  %k1 = add i32 %k0, {tile}
  %again = icmp slt i32 %k1, {k}
  br i1 %again, label %loop, label %end
end:
  %in = and i1 %rowin, %columnin
  br i1 %in, label %put, label %done
put:
  %rc = mul i32 %row, {n}
  %ic = add i32 %rc, %column
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %ic
  store float %sum1, ptr addrspace(1) %pc
  br label %done
done:
  ret void
}}
attributes #0 = {{ nounwind "nvvm.reqntid"="{size}" }}
""")


def softmax(columns: int, threads: int = 128) -> str:
    """Softmax of each row: a block per row, warp shuffles, one shared word per warp, two barriers per reduction."""
    warps, each = threads // 32, columns // threads
    lines: list[str] = []
    number = iter(range(10**6))

    def op(text: str) -> str:
        name = f"%v{next(number)}"
        lines.append(f"  {name} = {text}")
        return name

    def combine(name: str, a: str, b: str) -> str:
        if name == "max":
            return op(f"call float @llvm.maxnum.f32(float {a}, float {b})")
        return op(f"fadd float {a}, {b}")

    def reduce(name: str, value: str) -> str:
        for distance in (16, 8, 4, 2, 1):
            other = op(
                f"call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float {value}, i32 {distance}, i32 31)"
            )
            value = combine(name, value, other)
        slot = op(f"getelementptr float, ptr addrspace(3) @parts, i32 {warp}")
        label = f"l{next(number)}"
        lines.append(f"  br i1 {leads}, label %put{label}, label %go{label}\nput{label}:")
        lines.append(f"  store float {value}, ptr addrspace(3) {slot}\n  br label %go{label}\ngo{label}:")
        lines.append(f"  {ALL}")
        index = op(f"and i32 {lane}, {warps - 1}")
        value = op(
            f"load float, ptr addrspace(3) {op(f'getelementptr float, ptr addrspace(3) @parts, i32 {index}')}"
        )
        for distance in [2**e for e in range(warps.bit_length() - 1)]:
            other = op(
                f"call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float {value}, i32 {distance}, i32 31)"
            )
            value = combine(name, value, other)
        lines.append(f"  {ALL}")
        return value

    lane, warp = op("and i32 %t, 31"), op("lshr i32 %t, 5")
    leads = op(f"icmp eq i32 {lane}, 0")
    row = op(f"mul i32 %b, {columns}")
    places, values = [], []
    for part in range(each):
        places.append(op(f"add i32 {op(f'add i32 {row}, {part * threads}')}, %t"))
        values.append(
            op(
                f"load float, ptr addrspace(1) {op(f'getelementptr float, ptr addrspace(1) %a, i32 {places[-1]}')}"
            )
        )
    most = values[0]
    for value in values[1:]:
        most = combine("max", most, value)
    most = reduce("max", most)
    raised = []
    for value in values:
        scaled = op(f"fmul float {op(f'fsub float {value}, {most}')}, 0x3FF7154760000000")
        raised.append(op(f"call float @llvm.nvvm.ex2.approx.f(float {scaled})"))
    total = raised[0]
    for value in raised[1:]:
        total = combine("add", total, value)
    total = reduce("add", total)
    for place, value in zip(places, raised, strict=True):
        target = op(f"getelementptr float, ptr addrspace(1) %o, i32 {place}")
        lines.append(f"  store float {op(f'fdiv float {value}, {total}')}, ptr addrspace(1) {target}")
    head = f"""
@parts = internal addrspace(3) global [{warps} x float] undef, align 16
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.nvvm.ex2.approx.f(float)
"""
    return kernel("\n".join(lines), pointers("a", "o"), threads, head)


def pipeline(stages: int, steps: int, threads: int = 64) -> str:
    """o[i] += a[i] over `steps` rows, fetched `stages - 1` ahead with cp.async; neighbours' elements are read."""
    size = 4 * threads * stages
    return to_ptx(f"""{HEAD}
@ring = internal addrspace(3) global [{size} x i8] undef, align 16
declare void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32 immarg)
define ptx_kernel void @pipeline({pointers("a", "o")}) #0 {{
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %mirror = sub i32 {threads - 1}, %t
  br label %fill
fill:
  %f = phi i32 [0, %entry], [%f1, %fill]
  %fslot = mul i32 %f, {threads}
  %fi = add i32 %fslot, %t
  %fd = getelementptr float, ptr addrspace(3) @ring, i32 %fi
  %fs = getelementptr float, ptr addrspace(1) %a, i32 %fi
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %fd, ptr addrspace(1) %fs)
  call void @llvm.nvvm.cp.async.commit.group()
  %f1 = add i32 %f, 1
  %fm = icmp ult i32 %f1, {stages - 1}
  br i1 %fm, label %fill, label %loop
loop:
  %i = phi i32 [0, %fill], [%i1, %latch]
  %s = phi float [0.0, %fill], [%s1, %latch]
  call void @llvm.nvvm.cp.async.wait.group(i32 {stages - 2})
  {ALL}
  %ahead = add i32 %i, {stages - 1}
  %any = icmp ult i32 %ahead, {steps}
  br i1 %any, label %fetch, label %use
fetch:
  %slot = urem i32 %ahead, {stages}
  %so = mul i32 %slot, {threads}
  %si = add i32 %so, %t
  %sd = getelementptr float, ptr addrspace(3) @ring, i32 %si
  %go = mul i32 %ahead, {threads}
  %gi = add i32 %go, %t
  %gs = getelementptr float, ptr addrspace(1) %a, i32 %gi
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %sd, ptr addrspace(1) %gs)
  br label %use
use:
  call void @llvm.nvvm.cp.async.commit.group()
  %rslot = urem i32 %i, {stages}
  %ro = mul i32 %rslot, {threads}
  %ri = add i32 %ro, %mirror
  %rp = getelementptr float, ptr addrspace(3) @ring, i32 %ri
  %v = load float, ptr addrspace(3) %rp
  %s1 = fadd float %s, %v
  br label %latch
latch:
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, {steps}
  br i1 %more, label %loop, label %end
end:
  %op = getelementptr float, ptr addrspace(1) %o, i32 %t
  store float %s1, ptr addrspace(1) %op
  ret void
}}
attributes #0 = {{ nounwind "nvvm.reqntid"="{threads}" }}
""")
