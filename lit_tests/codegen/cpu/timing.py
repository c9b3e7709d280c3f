# RUN: %python %s | FileCheck %s
"""A timed program reads the clock before each launch and notes it afterwards, if the table of notes has room; kernels stay as they are."""

from dataclasses import replace

from ngmlir.compiler import emit, resolve
from ngmlir.ops.words import from_text

PROGRAM = """
tile.kernel @k ins(%x: memref<16xf32>) outs(%y: memref<16xf32>) {
  %c0 = ng.constant 0 : index
  %v = tile.load %x[%c0] : memref<16xf32>, vector<16xf32>
  tile.store %v, %y[%c0] : vector<16xf32>, memref<16xf32>
  tile.return
}
func.func @main(%x: memref<16xf32>, %y: memref<16xf32>, %arena: memref<0xi8>) attributes {ng.arguments = 1 : i64, ng.results = 1 : i64} {
  tile.launch @k ins(%x) outs(%y)
  tile.launch @k ins(%x) outs(%y)
  return
}
"""

# CHECK-LABEL: define internal void @k.program(
# CHECK-NOT: call
# CHECK-LABEL: define internal i64 @ngmlir_clock()
# CHECK: call i32 @clock_gettime(
# CHECK-LABEL: define internal void @ngmlir_note(ptr %table, i64 %number, i64 %begin)
# CHECK: call i64 @ngmlir_clock()
# CHECK: icmp slt i64
# CHECK-LABEL: define void @main.entry(
# CHECK: [[FIRST:%v[0-9]+]] = call i64 @ngmlir_clock()
# CHECK: call void @k.program(
# CHECK: call void @ngmlir_note(ptr {{.*}}, i64 0, i64 [[FIRST]])
# CHECK: [[SECOND:%v[0-9]+]] = call i64 @ngmlir_clock()
# CHECK: call void @k.program(
# CHECK: call void @ngmlir_note(ptr {{.*}}, i64 1, i64 [[SECOND]])
print(emit(from_text(PROGRAM), replace(resolve("x86-64-v3"), timed=True)).llvm)
