# SPDX-License-Identifier: Apache-2.0
"""The architecture-specific functions of the thread pool as LLVM IR: clock, pause, and the rounding mode of a thread."""

from __future__ import annotations

#: Only the modes of MXCSR are copied (mask 0xFFC0): the flags below them belong to each thread.
_X86 = """
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.x86.rdtsc()
define internal i64 @clock() nounwind {
  %now = call i64 @llvm.x86.rdtsc()
  ret i64 %now
}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal void @pause() nounwind {
  call void @llvm.x86.sse2.pause()
  ret void
}
define internal i64 @get_rounding() nounwind {
  %place = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %word = load i32, ptr %place
  %modes = and i32 %word, 65472
  %wide = zext i32 %modes to i64
  ret i64 %wide
}
define internal void @set_rounding(i64 %wide) nounwind {
  %place = alloca i32, align 4
  %word = trunc i64 %wide to i32
  store i32 %word, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
"""

_AARCH64 = """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.read_volatile_register.i64(metadata)
!counter = !{!0}
!0 = !{!"cntvct_el0"}
define internal i64 @clock() nounwind {
  %now = call i64 @llvm.read_volatile_register.i64(metadata !0)
  ret i64 %now
}
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal void @pause() nounwind {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
define internal i64 @get_rounding() nounwind {
  %word = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %word
}
define internal void @set_rounding(i64 %word) nounwind {
  call void @llvm.aarch64.set.fpcr(i64 %word)
  ret void
}
"""

#: Architecture -> number of the futex system call, and the functions above.
MACHINES = {"x86_64": (202, _X86), "aarch64": (98, _AARCH64)}
