# SPDX-License-Identifier: Apache-2.0
"""Programs that random ones seldom are: each holds what some arm of a pass looks for."""

from __future__ import annotations

from fused_gathers import FUSED_GATHERS

#: What makes it hard to choose kernels -> a program (without loops, if a GPU is to take it too).
HARD = {
    **FUSED_GATHERS,
    "samples and steps that a target moves": """(%x: tensor<4x5x3xf32, #ng.axes<N, REC, _0>>, %w: tensor<3x6xf32, #ng.axes<_1, _0>>) -> (tensor<4x5x6xf32, #ng.axes<N, REC, _0>>, tensor<5x4xf32, #ng.axes<REC, N>>, tensor<4x15xf32, #ng.axes<N, _0>>) {
        %0 = ng.cast_axes %x : (tensor<4x5x3xf32, #ng.axes<N, REC, _0>>) -> tensor<4x5x3xf32, #ng.axes<N, REC, _k>>
        %1 = ng.cast_axes %w : (tensor<3x6xf32, #ng.axes<_1, _0>>) -> tensor<3x6xf32, #ng.axes<_k, _0>>
        %2 = ng.dot %0, %1 contract [2] x [0] : (tensor<4x5x3xf32, #ng.axes<N, REC, _k>>, tensor<3x6xf32, #ng.axes<_k, _0>>) -> tensor<4x5x6xf32, #ng.axes<N, REC, _0>>
        %3 = ng.square %2 : tensor<4x5x6xf32, #ng.axes<N, REC, _0>>
        %4 = ng.max %3 axes [2] : (tensor<4x5x6xf32, #ng.axes<N, REC, _0>>) -> tensor<4x5xf32, #ng.axes<N, REC>>
        %5 = ng.transpose %4 perm [1, 0] : (tensor<4x5xf32, #ng.axes<N, REC>>) -> tensor<5x4xf32, #ng.axes<REC, N>>
        %6 = ng.square %x : tensor<4x5x3xf32, #ng.axes<N, REC, _0>>
        %7 = ng.reshape %6 : (tensor<4x5x3xf32, #ng.axes<N, REC, _0>>) -> tensor<4x15xf32, #ng.axes<N, _0>>
        return %3, %5, %7 : tensor<4x5x6xf32, #ng.axes<N, REC, _0>>, tensor<5x4xf32, #ng.axes<REC, N>>, tensor<4x15xf32, #ng.axes<N, _0>> }""",
    "weights that are decoded: in blocks of codes of 4 bits, by rows, on the left, by super-blocks and not at all": """(%x: tensor<3x80xf32>, %z: tensor<40x9xf32>) -> (tensor<3x8xf32>, tensor<16x3xf32>, tensor<8x9xf32>) {
        %a = ng.iota {dimension = 1 : i64} : tensor<8x80xui8>
        %f = ng.constant dense<[[7], [9]]> : tensor<2x1xui8>
        %g = ng.constant dense<15> : tensor<8x80xui8>
        %0 = ng.bitwise_and %a, %g : tensor<8x80xui8>
        %k = ng.constant dense<4> : tensor<8x80xui8>
        %h = ng.shift_right_logical %a, %k : tensor<8x80xui8>
        %o = ng.bitwise_or %0, %h : tensor<8x80xui8>
        %1 = ng.cast %o : (tensor<8x80xui8>) -> tensor<8x80xi32>
        %2 = ng.iota {dimension = 1 : i64} : tensor<8x5xi8>
        %3 = ng.broadcast %2 dims [0, 1] : (tensor<8x5xi8>) -> tensor<8x5x16xi8>
        %4 = ng.reshape %3 : (tensor<8x5x16xi8>) -> tensor<8x80xi8>
        %5 = ng.cast %4 : (tensor<8x80xi8>) -> tensor<8x80xi32>
        %6 = ng.subtract %1, %5 : tensor<8x80xi32>
        %7 = ng.cast %6 : (tensor<8x80xi32>) -> tensor<8x80xf32>
        %8 = ng.iota {dimension = 0 : i64} : tensor<3x8xf16>
        %9 = ng.transpose %8 perm [1, 0] : (tensor<3x8xf16>) -> tensor<8x3xf16>
        %10 = ng.broadcast %9 dims [0, 1] : (tensor<8x3xf16>) -> tensor<8x3x32xf16>
        %11 = ng.reshape %10 : (tensor<8x3x32xf16>) -> tensor<8x96xf16>
        %12 = ng.slice %11 from [0, 0] to [8, 80] step [1, 1] : (tensor<8x96xf16>) -> tensor<8x80xf16>
        %13 = ng.cast %12 : (tensor<8x80xf16>) -> tensor<8x80xf32>
        %14 = ng.multiply %7, %13 : tensor<8x80xf32>
        %15 = ng.dot %x, %14 contract [1] x [1] : (tensor<3x80xf32>, tensor<8x80xf32>) -> tensor<3x8xf32>
        %16 = ng.iota {dimension = 1 : i64} : tensor<80x16xi8>
        %17 = ng.cast %16 : (tensor<80x16xi8>) -> tensor<80x16xf32>
        %18 = ng.iota {dimension = 0 : i64} : tensor<16xf32>
        %19 = ng.broadcast %18 dims [1] : (tensor<16xf32>) -> tensor<80x16xf32>
        %20 = ng.multiply %19, %17 : tensor<80x16xf32>
        %21 = ng.dot %20, %x contract [0] x [1] : (tensor<80x16xf32>, tensor<3x80xf32>) -> tensor<16x3xf32>
        %22 = ng.iota {dimension = 0 : i64} : tensor<8x40xbf16>
        %23 = ng.cast %22 : (tensor<8x40xbf16>) -> tensor<8x40xf32>
        %24 = ng.dot %23, %z contract [1] x [0] : (tensor<8x40xf32>, tensor<40x9xf32>) -> tensor<8x9xf32>
        return %15, %21, %24 : tensor<3x8xf32>, tensor<16x3xf32>, tensor<8x9xf32> }""",
    "borders of a tensor's own elements": """(%x: tensor<3x7x40xf32>, %y: tensor<2x5x19xi8>, %z: tensor<5xf32>) -> (tensor<3x13x48xf32>, tensor<9x5x19xi8>, tensor<2x8x57xi8>, tensor<9xf32>, tensor<12x7x40xf32>) {
        %a = ng.border_pad %x low [0, 4, 5] high [0, 2, 3] {border = "reflect"} : (tensor<3x7x40xf32>) -> tensor<3x13x48xf32>
        %b = ng.border_pad %y low [4, 0, 0] high [3, 0, 0] {border = "edge"} : (tensor<2x5x19xi8>) -> tensor<9x5x19xi8>
        %c = ng.border_pad %y low [0, 1, 19] high [0, 2, 19] {border = "symmetric"} : (tensor<2x5x19xi8>) -> tensor<2x8x57xi8>
        %d = ng.border_pad %z low [3] high [1] {border = "edge"} : (tensor<5xf32>) -> tensor<9xf32>
        %e = ng.border_pad %x low [3, 0, 0] high [3, 0, 0] {border = "wrap"} : (tensor<3x7x40xf32>) -> tensor<9x7x40xf32>
        %f = ng.border_pad %e low [0, 0, 0] high [3, 0, 0] {border = "wrap"} : (tensor<9x7x40xf32>) -> tensor<12x7x40xf32>
        return %a, %b, %c, %d, %f : tensor<3x13x48xf32>, tensor<9x5x19xi8>, tensor<2x8x57xi8>, tensor<9xf32>, tensor<12x7x40xf32> }""",
    "a product's side is added to it": """(%a: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %x = ng.square %a : tensor<8x8xf32>
        %y = ng.dot %x, %w contract [1] x [0] : tensor<8x8xf32>
        %z = ng.add %y, %x : tensor<8x8xf32>
        return %z : tensor<8x8xf32> }""",
    "a residual in another shape, which rows read too": """(%x: tensor<2x3x8xf32>, %o: tensor<6x8xf32>, %w: tensor<8x8xf32>) -> (tensor<2x3xf32>, tensor<2x3x8xf32>) {
        %d = ng.dot %o, %w contract [1] x [0] : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
        %r = ng.reshape %d : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
        %y = ng.add %x, %r : tensor<2x3x8xf32>
        %s = ng.sum %x axes [2] : (tensor<2x3x8xf32>) -> tensor<2x3xf32>
        return %s, %y : tensor<2x3xf32>, tensor<2x3x8xf32> }""",
    "halves that are widened for several, after a product, and given as halves too": """(%x: tensor<6x8xbf16>, %w: tensor<8x8xbf16>) -> (tensor<6xf32>, tensor<6x8xf32>, tensor<6x8xbf16>) {
        %d = ng.dot %x, %w contract [1] x [0] : (tensor<6x8xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
        %c = ng.cast %d : (tensor<6x8xbf16>) -> tensor<6x8xf32>
        %m = ng.max %c axes [1] : (tensor<6x8xf32>) -> tensor<6xf32>
        %e = ng.dot %d, %w contract [1] x [1] : (tensor<6x8xbf16>, tensor<8x8xbf16>) -> tensor<6x8xf32>
        %f = ng.add %e, %c : tensor<6x8xf32>
        return %m, %f, %d : tensor<6xf32>, tensor<6x8xf32>, tensor<6x8xbf16> }""",
    "windows of halves that were widened before, and what else reads them": """(%x: tensor<2x6x4xf16>, %w: tensor<3x4x5xf16>) -> (tensor<2x6x5xf32>, tensor<2x8x4xf32>) {
        %0 = ng.cast %x : (tensor<2x6x4xf16>) -> tensor<2x6x4xf32>
        %1 = ng.cast %w : (tensor<3x4x5xf16>) -> tensor<3x4x5xf32>
        %2 = ng.pad %0 low [0, 1, 0] high [0, 1, 0] {value = 0.5 : f32} : (tensor<2x6x4xf32>) -> tensor<2x8x4xf32>
        %3 = ng.windows %2 axes [1] steps [1] dilations [1] : (tensor<2x8x4xf32>) -> tensor<3x2x6x4xf32>
        %4 = ng.dot %3, %1 contract [0, 3] x [0, 1] : (tensor<3x2x6x4xf32>, tensor<3x4x5xf32>) -> tensor<2x6x5xf32>
        return %4, %2 : tensor<2x6x5xf32>, tensor<2x8x4xf32> }""",
    "a product's sides are repeated by its epilogue": """(%c: tensor<4x4xi1>) -> tensor<4x4xf32> {
        %k = ng.constant dense<2.0> : tensor<4x4xf32>
        %i = ng.iota {dimension = 1 : i64} : tensor<4x4xf32>
        %y = ng.dot %k, %i contract [1] x [1] : tensor<4x4xf32>
        %s = ng.select %c, %y, %k : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        %z = ng.add %s, %i : tensor<4x4xf32>
        return %z : tensor<4x4xf32> }""",
    "a product that is written moved, and then moved again without a change": """(%x: tensor<4x6xf32>, %y: tensor<6x8xf32>) -> tensor<4x1x1x1x8xf32> {
        %d = ng.dot %x, %y contract [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
        %r = ng.reshape %d : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
        %t = ng.transpose %r perm [2, 0, 1, 3] : (tensor<1x1x4x8xf32>) -> tensor<4x1x1x8xf32>
        %v = ng.reshape %t : (tensor<4x1x1x8xf32>) -> tensor<4x1x1x1x8xf32>
        %p = ng.pad %v low [0, 0, 0, 0, 0] high [0, 0, 0, 0, 0] : (tensor<4x1x1x1x8xf32>) -> tensor<4x1x1x1x8xf32>
        return %p : tensor<4x1x1x1x8xf32> }""",
    "rows cut in one way, columns in another, and both met": """(%x: tensor<12x12xf32>, %p: tensor<2x6xf32>, %v: tensor<6xf32>, %w: tensor<4xf32>) -> tensor<12xf32> {
        %0 = ng.broadcast %v dims [1] : (tensor<6xf32>) -> tensor<2x6xf32>
        %1 = ng.add %p, %0 : tensor<2x6xf32>
        %2 = ng.reshape %1 : (tensor<2x6xf32>) -> tensor<12xf32>
        %3 = ng.broadcast %2 dims [1] : (tensor<12xf32>) -> tensor<12x12xf32>
        %4 = ng.add %x, %3 : tensor<12x12xf32>
        %5 = ng.sum %4 axes [1] : (tensor<12x12xf32>) -> tensor<12xf32>
        %6 = ng.reshape %5 : (tensor<12xf32>) -> tensor<3x4xf32>
        %7 = ng.broadcast %w dims [1] : (tensor<4xf32>) -> tensor<3x4xf32>
        %8 = ng.add %6, %7 : tensor<3x4xf32>
        %9 = ng.reshape %8 : (tensor<3x4xf32>) -> tensor<12xf32>
        %r = ng.add %9, %2 : tensor<12xf32>
        return %r : tensor<12xf32> }""",
    "long rows in their order, along both axes, and the first few of them": """(%x: tensor<70x3xi32>, %y: tensor<3x70xi64>, %z: tensor<130xi16>) -> (tensor<70x3xi32>, tensor<3x70xi64>, tensor<5x3xi32>, tensor<3x5xi32>, tensor<20xi32>, tensor<130xi32>) {
        %0 = ng.argsort %x axis 0 : (tensor<70x3xi32>) -> tensor<70x3xi32>
        %1 = ng.argsort %y axis 1 : (tensor<3x70xi64>) -> tensor<3x70xi64>
        %2 = ng.argsort %x axis 0 : (tensor<70x3xi32>) -> tensor<5x3xi32>
        %3 = ng.argsort %y axis 1 : (tensor<3x70xi64>) -> tensor<3x5xi32>
        %4 = ng.argsort %z axis 0 : (tensor<130xi16>) -> tensor<20xi32>
        %5 = ng.argsort %z axis 0 : (tensor<130xi16>) -> tensor<130xi32>
        return %0, %1, %2, %3, %4, %5 : tensor<70x3xi32>, tensor<3x70xi64>, tensor<5x3xi32>, tensor<3x5xi32>, tensor<20xi32>, tensor<130xi32> }""",
    "short rows in their order, and the first of them": """(%x: tensor<7x3xi64>, %y: tensor<3x8xi8>) -> (tensor<7x3xi64>, tensor<2x3xi32>, tensor<3x3xi32>) {
        %0 = ng.argsort %x axis 0 : (tensor<7x3xi64>) -> tensor<7x3xi64>
        %1 = ng.argsort %x axis 0 : (tensor<7x3xi64>) -> tensor<2x3xi32>
        %2 = ng.argsort %y axis 1 : (tensor<3x8xi8>) -> tensor<3x3xi32>
        return %0, %1, %2 : tensor<7x3xi64>, tensor<2x3xi32>, tensor<3x3xi32> }""",
    "the gradient of a depthwise convolution with steps": """(%g: tensor<4x5x6x1xf32>, %w: tensor<4x1x3x2xf32>) -> tensor<4x11x8xf32> {
        %d = ng.dot %g, %w contract [3] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<4x5x6x1xf32>, tensor<4x1x3x2xf32>) -> tensor<4x5x6x3x2xf32>
        %t = ng.transpose %d perm [3, 4, 0, 1, 2] : (tensor<4x5x6x3x2xf32>) -> tensor<3x2x4x5x6xf32>
        %o = ng.overlap_add %t axes [1, 2] steps [2, 1] dilations [1, 2] : (tensor<3x2x4x5x6xf32>) -> tensor<4x11x8xf32>
        return %o : tensor<4x11x8xf32> }""",
    "windows as large as what they are cut from, of one channel": """(%x: tensor<3x1x5x5xf32>, %w: tensor<4x1x5x5xf32>) -> tensor<4x3x1x1xf32> {
        %u = ng.windows %x axes [2, 3] steps [1, 1] dilations [1, 1] : (tensor<3x1x5x5xf32>) -> tensor<5x5x3x1x1x1xf32>
        %d = ng.dot %w, %u contract [1, 2, 3] x [3, 0, 1] : (tensor<4x1x5x5xf32>, tensor<5x5x3x1x1x1xf32>) -> tensor<4x3x1x1xf32>
        return %d : tensor<4x3x1x1xf32> }""",
    "neighbours, the far end and every other one, and the whole beside them": """(%x: tensor<10xf32>, %y: tensor<5xf32>) -> (tensor<8xf32>, tensor<10xf32>, tensor<5xf32>) {
        %e = ng.square %x : tensor<10xf32>
        %a = ng.slice %e from [0] to [8] step [1] : (tensor<10xf32>) -> tensor<8xf32>
        %b = ng.slice %e from [2] to [10] step [1] : (tensor<10xf32>) -> tensor<8xf32>
        %m = ng.maximum %a, %b : tensor<8xf32>
        %r = ng.slice %x from [9] to [-1] step [-1] : tensor<10xf32>
        %s = ng.subtract %x, %r : tensor<10xf32>
        %o = ng.slice %e from [1] to [10] step [2] : (tensor<10xf32>) -> tensor<5xf32>
        %t = ng.add %o, %y : tensor<5xf32>
        return %m, %s, %t : tensor<8xf32>, tensor<10xf32>, tensor<5xf32> }""",
    "slices go back to where they were: beside each other, over each other, with gaps, and to all": """(%x: tensor<1x4xf32>, %y: tensor<2x4xf32>, %z: tensor<5x2xf32>, %w: tensor<5x4xf32>, %i: tensor<2xi32>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<7xi32>) {
        %0 = ng.pad %x low [4, 0] high [0, 0] : (tensor<1x4xf32>) -> tensor<5x4xf32>
        %1 = ng.pad %y low [1, 0] high [2, 0] : (tensor<2x4xf32>) -> tensor<5x4xf32>
        %2 = ng.pad %y low [2, 0] high [1, 0] : (tensor<2x4xf32>) -> tensor<5x4xf32>
        %3 = ng.pad %x low [0, 0] high [4, 0] : (tensor<1x4xf32>) -> tensor<5x4xf32>
        %a = ng.add %0, %1 : tensor<5x4xf32>
        %b = ng.add %2, %a : tensor<5x4xf32>
        %c = ng.add %b, %3 : tensor<5x4xf32>
        %d = ng.add %c, %w : tensor<5x4xf32>
        %e = ng.pad %z low [0, 2] high [0, 0] : (tensor<5x2xf32>) -> tensor<5x4xf32>
        %n = ng.negative %y : tensor<2x4xf32>
        %s = ng.slice %n from [0, 0] to [2, 1] step [1, 1] : (tensor<2x4xf32>) -> tensor<2x1xf32>
        %f = ng.pad %s low [1, 0] high [2, 3] : (tensor<2x1xf32>) -> tensor<5x4xf32>
        %g = ng.pad %s low [3, 1] high [0, 2] : (tensor<2x1xf32>) -> tensor<5x4xf32>
        %h = ng.add %w, %e : tensor<5x4xf32>
        %j = ng.add %h, %f : tensor<5x4xf32>
        %k = ng.add %j, %g : tensor<5x4xf32>
        %l = ng.add %w, %0 : tensor<5x4xf32>
        %m = ng.add %l, %1 : tensor<5x4xf32>
        %o = ng.add %m, %2 : tensor<5x4xf32>
        %p = ng.pad %i low [0] high [5] : (tensor<2xi32>) -> tensor<7xi32>
        %q = ng.pad %i low [5] high [0] {value = 0 : i32} : (tensor<2xi32>) -> tensor<7xi32>
        %r = ng.pad %i low [2] high [3] : (tensor<2xi32>) -> tensor<7xi32>
        %t = ng.add %p, %q : tensor<7xi32>
        %u = ng.add %t, %r : tensor<7xi32>
        return %d, %k, %o, %u : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<7xi32> }""",
    "a border under sums, a product and its own slice": """(%x: tensor<4x6xf32>, %v: tensor<7x3xf32>, %w: tensor<3x9xf32>) -> (tensor<7x9xf32>, tensor<7xf32>, tensor<9xf32>, tensor<7x7xf32>) {
        %p = ng.pad %x low [2, 1] high [1, 2] {value = -0.0 : f32} : (tensor<4x6xf32>) -> tensor<7x9xf32>
        %d = ng.dot %v, %w contract [1] x [0] : (tensor<7x3xf32>, tensor<3x9xf32>) -> tensor<7x9xf32>
        %a = ng.add %d, %p : tensor<7x9xf32>
        %r = ng.sum %p axes [1] : (tensor<7x9xf32>) -> tensor<7xf32>
        %c = ng.max %p axes [0] : (tensor<7x9xf32>) -> tensor<9xf32>
        %s = ng.slice %p from [0, 1] to [7, 8] step [1, 1] : (tensor<7x9xf32>) -> tensor<7x7xf32>
        %n = ng.negative %s : tensor<7x7xf32>
        return %a, %r, %c, %n : tensor<7x9xf32>, tensor<7xf32>, tensor<9xf32>, tensor<7x7xf32> }""",
    "windows in steps under sums and greatest elements, with borders and without": """(%x: tensor<2x9x7x5xf32>, %y: tensor<2x5x9x7xi8>, %v: tensor<3x2x5xf32>) -> (tensor<2x5x7x5xf32>, tensor<2x5x5x4xi8>, tensor<2x4x6x5xf32>, tensor<2x2xf32>) {
        %p = ng.pad %x low [0, 1, 1, 0] high [0, 1, 1, 0] {value = 0xFF800000 : f32} : (tensor<2x9x7x5xf32>) -> tensor<2x11x9x5xf32>
        %a = ng.windows %p axes [1, 2] steps [2, 1] dilations [1, 1] : (tensor<2x11x9x5xf32>) -> tensor<3x3x2x5x7x5xf32>
        %m = ng.max %a axes [0, 1] : (tensor<3x3x2x5x7x5xf32>) -> tensor<2x5x7x5xf32>
        %q = ng.pad %y low [0, 0, 1, 1] high [0, 0, 1, 1] : (tensor<2x5x9x7xi8>) -> tensor<2x5x11x9xi8>
        %b = ng.windows %q axes [2, 3] steps [2, 2] dilations [1, 1] : (tensor<2x5x11x9xi8>) -> tensor<3x3x2x5x5x4xi8>
        %s = ng.sum %b axes [0, 1] : (tensor<3x3x2x5x5x4xi8>) -> tensor<2x5x5x4xi8>
        %c = ng.windows %x axes [1, 2] steps [2, 1] dilations [1, 1] : (tensor<2x9x7x5xf32>) -> tensor<3x2x2x4x6x5xf32>
        %w = ng.broadcast %v dims [0, 1, 5] : (tensor<3x2x5xf32>) -> tensor<3x2x2x4x6x5xf32>
        %d = ng.multiply %c, %w : tensor<3x2x2x4x6x5xf32>
        %t = ng.sum %d axes [0, 1] : (tensor<3x2x2x4x6x5xf32>) -> tensor<2x4x6x5xf32>
        %n = ng.sum %d axes [1, 3, 4, 5] : (tensor<3x2x2x4x6x5xf32>) -> tensor<3x2xf32>
        %o = ng.slice %n from [0, 0] to [3, 2] step [2, 1] : (tensor<3x2xf32>) -> tensor<2x2xf32>
        return %m, %s, %t, %o : tensor<2x5x7x5xf32>, tensor<2x5x5x4xi8>, tensor<2x4x6x5xf32>, tensor<2x2xf32> }""",
    "short rows of results, of which each has a factor": """(%x: tensor<4x5x70xf32>, %y: tensor<4x5x70x2xf32>, %z: tensor<9x3xf32>, %u: tensor<6x9xf32>) -> (tensor<5x70x2xf32>, tensor<9x3xf32>) {
        %0 = ng.broadcast %x dims [0, 1, 2] : (tensor<4x5x70xf32>) -> tensor<4x5x70x2xf32>
        %1 = ng.multiply %0, %y : tensor<4x5x70x2xf32>
        %2 = ng.sum %1 axes [0] : (tensor<4x5x70x2xf32>) -> tensor<5x70x2xf32>
        %3 = ng.broadcast %u dims [0, 1] : (tensor<6x9xf32>) -> tensor<6x9x3xf32>
        %4 = ng.max %3 axes [0] : (tensor<6x9x3xf32>) -> tensor<9x3xf32>
        %5 = ng.add %4, %z : tensor<9x3xf32>
        return %2, %5 : tensor<5x70x2xf32>, tensor<9x3xf32> }""",
    "products of windows with both sides, and of windows that are summed": """(%x: tensor<2x7x6x3xf32>, %w: tensor<3x2x3x5xf32>) -> (tensor<2x4x5x5xf32>, tensor<3x2x3x5xf32>, tensor<2x4x6x3xf32>) {
        %p = ng.pad %x low [0, 1, 0, 0] high [0, 1, 1, 0] {value = -1.0 : f32} : (tensor<2x7x6x3xf32>) -> tensor<2x9x7x3xf32>
        %n = ng.windows %p axes [1, 2] steps [2, 1] dilations [1, 2] : (tensor<2x9x7x3xf32>) -> tensor<3x2x2x4x5x3xf32>
        %d = ng.dot %n, %w contract [0, 1, 5] x [0, 1, 2] : (tensor<3x2x2x4x5x3xf32>, tensor<3x2x3x5xf32>) -> tensor<2x4x5x5xf32>
        %z = ng.constant dense<0.0> : tensor<2x4x5x5xf32>
        %e = ng.maximum %d, %z : tensor<2x4x5x5xf32>
        %g = ng.dot %n, %e contract [2, 3, 4] x [0, 1, 2] : (tensor<3x2x2x4x5x3xf32>, tensor<2x4x5x5xf32>) -> tensor<3x2x3x5xf32>
        %h = ng.dot %e, %w contract [3] x [3] : (tensor<2x4x5x5xf32>, tensor<3x2x3x5xf32>) -> tensor<2x4x5x3x2x3xf32>
        %t = ng.transpose %h perm [3, 4, 0, 1, 2, 5] : (tensor<2x4x5x3x2x3xf32>) -> tensor<3x2x2x4x5x3xf32>
        %o = ng.overlap_add %t axes [1, 2] steps [1, 1] dilations [1, 2] : (tensor<3x2x2x4x5x3xf32>) -> tensor<2x6x7x3xf32>
        %s = ng.slice %o from [0, 1, 0, 0] to [2, 5, 7, 3] step [1, 1, 1, 1] : (tensor<2x6x7x3xf32>) -> tensor<2x4x7x3xf32>
        %c = ng.slice %s from [0, 0, 1, 0] to [2, 4, 7, 3] step [1, 1, 1, 1] : (tensor<2x4x7x3xf32>) -> tensor<2x4x6x3xf32>
        return %e, %g, %c : tensor<2x4x5x5xf32>, tensor<3x2x3x5xf32>, tensor<2x4x6x3xf32> }""",
    "windows on the right that lie along the depth, and sides that only partly are runs": """(%x: tensor<3x6x7x5xf32>, %y: tensor<60x3xf32>, %z: tensor<8x5xf32>, %u: tensor<4x4xf32>, %v: tensor<2x3x4xf32>) -> (tensor<3x5x3x2xf32>, tensor<6x4xf32>, tensor<2x2x3xf32>, tensor<6x7xf32>) {
        %n = ng.windows %x axes [1, 2] steps [1, 1] dilations [1, 1] : (tensor<3x6x7x5xf32>) -> tensor<3x2x3x4x6x5xf32>
        %r = ng.slice %y from [0, 0] to [48, 3] step [1, 1] : (tensor<60x3xf32>) -> tensor<48x3xf32>
        %a = ng.pad %r low [12, 0] high [12, 0] : (tensor<48x3xf32>) -> tensor<72x3xf32>
        %b = ng.reshape %a : (tensor<72x3xf32>) -> tensor<3x4x6x3xf32>
        %d = ng.dot %b, %n contract [0, 1, 2] x [2, 3, 4] : (tensor<3x4x6x3xf32>, tensor<3x2x3x4x6x5xf32>) -> tensor<3x3x2x5xf32>
        %t = ng.transpose %d perm [0, 3, 1, 2] : (tensor<3x3x2x5xf32>) -> tensor<3x5x3x2xf32>
        %w = ng.windows %z axes [0] steps [1] dilations [1] : (tensor<8x5xf32>) -> tensor<4x5x5xf32>
        %e = ng.transpose %w perm [1, 0, 2] : (tensor<4x5x5xf32>) -> tensor<5x4x5xf32>
        %f = ng.reshape %e : (tensor<5x4x5xf32>) -> tensor<25x4xf32>
        %h = ng.slice %f from [0, 0] to [6, 4] step [1, 1] : (tensor<25x4xf32>) -> tensor<6x4xf32>
        %g = ng.dot %h, %u contract [1] x [0] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
        %i = ng.dot %v, %v contract [1, 2] x [1, 2] : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x2xf32>
        %j = ng.broadcast %i dims [0, 1] : (tensor<2x2xf32>) -> tensor<2x2x3xf32>
        %k = ng.dot %g, %v contract [1] x [2] : (tensor<6x4xf32>, tensor<2x3x4xf32>) -> tensor<6x2x3xf32>
        %l = ng.transpose %k perm [1, 0, 2] : (tensor<6x2x3xf32>) -> tensor<2x6x3xf32>
        %o = ng.overlap_add %l axes [0] steps [1] dilations [1] : (tensor<2x6x3xf32>) -> tensor<7x3xf32>
        %c = ng.transpose %o perm [1, 0] : (tensor<7x3xf32>) -> tensor<3x7xf32>
        %s = ng.concatenate %c, %c axis 0 : (tensor<3x7xf32>, tensor<3x7xf32>) -> tensor<6x7xf32>
        return %t, %g, %j, %s : tensor<3x5x3x2xf32>, tensor<6x4xf32>, tensor<2x2x3xf32>, tensor<6x7xf32> }""",
    "windows that the left side makes, turned round, and such as stay sums": """(%w: tensor<2x3x4xf32>, %y: tensor<9x3xf32>, %v: tensor<3x4x5xf32>, %q: tensor<40x33xf32>, %k: tensor<2x33x6xf32>) -> (tensor<4x10xf32>, tensor<19x5xf32>, tensor<10x4xf32>, tensor<39x6xf32>) {
        %d = ng.dot %w, %y contract [1] x [1] : (tensor<2x3x4xf32>, tensor<9x3xf32>) -> tensor<2x4x9xf32>
        %o = ng.overlap_add %d axes [1] steps [1] dilations [1] : (tensor<2x4x9xf32>) -> tensor<4x10xf32>
        %e = ng.dot %y, %v contract [1] x [0] : (tensor<9x3xf32>, tensor<3x4x5xf32>) -> tensor<9x4x5xf32>
        %t = ng.transpose %e perm [1, 0, 2] : (tensor<9x4x5xf32>) -> tensor<4x9x5xf32>
        %s = ng.overlap_add %t axes [0] steps [2] dilations [1] : (tensor<4x9x5xf32>) -> tensor<20x5xf32>
        %c = ng.slice %s from [1, 0] to [20, 5] step [1, 1] : (tensor<20x5xf32>) -> tensor<19x5xf32>
        %g = ng.transpose %o perm [1, 0] : (tensor<4x10xf32>) -> tensor<10x4xf32>
        %n = ng.windows %q axes [0] steps [1] dilations [1] : (tensor<40x33xf32>) -> tensor<2x39x33xf32>
        %f = ng.dot %n, %k contract [0, 2] x [0, 1] : (tensor<2x39x33xf32>, tensor<2x33x6xf32>) -> tensor<39x6xf32>
        return %o, %c, %g, %f : tensor<4x10xf32>, tensor<19x5xf32>, tensor<10x4xf32>, tensor<39x6xf32> }""",
    "products of windows that lie across, of narrow elements, in groups and on the right": """(%y: tensor<1x3x6x7xi32>, %v: tensor<4x3x2x2xi32>, %b: tensor<40x6xbf16>, %k: tensor<3x6x5xbf16>, %q: tensor<9x2x3xf32>, %u: tensor<3x2x3x4xf32>, %l: tensor<6x33xf32>) -> (tensor<1x4x5x6xi32>, tensor<19x5xbf16>, tensor<2x7x4xf32>, tensor<6x30xf32>) {
        %m = ng.windows %y axes [2, 3] steps [1, 1] dilations [1, 1] : (tensor<1x3x6x7xi32>) -> tensor<2x2x1x3x5x6xi32>
        %d = ng.dot %m, %v contract [0, 1, 3] x [2, 3, 1] : (tensor<2x2x1x3x5x6xi32>, tensor<4x3x2x2xi32>) -> tensor<1x5x6x4xi32>
        %t = ng.transpose %d perm [0, 3, 1, 2] : (tensor<1x5x6x4xi32>) -> tensor<1x4x5x6xi32>
        %w = ng.windows %b axes [0] steps [2] dilations [1] : (tensor<40x6xbf16>) -> tensor<3x19x6xbf16>
        %e = ng.dot %w, %k contract [0, 2] x [0, 1] : (tensor<3x19x6xbf16>, tensor<3x6x5xbf16>) -> tensor<19x5xbf16>
        %r = ng.windows %q axes [0] steps [1] dilations [1] : (tensor<9x2x3xf32>) -> tensor<3x7x2x3xf32>
        %g = ng.dot %r, %u contract [0, 3] x [0, 2] {lhs_batch = array<i64: 2>, rhs_batch = array<i64: 1>} : (tensor<3x7x2x3xf32>, tensor<3x2x3x4xf32>) -> tensor<2x7x4xf32>
        %n = ng.windows %l axes [1] steps [1] dilations [1] : (tensor<6x33xf32>) -> tensor<4x6x30xf32>
        %a = ng.slice %u from [0, 0, 0, 0] to [3, 2, 1, 4] step [1, 1, 1, 1] : (tensor<3x2x3x4xf32>) -> tensor<3x2x1x4xf32>
        %f = ng.reshape %a : (tensor<3x2x1x4xf32>) -> tensor<6x4xf32>
        %h = ng.dot %f, %n contract [0, 1] x [1, 0] : (tensor<6x4xf32>, tensor<4x6x30xf32>) -> tensor<30xf32>
        %i = ng.broadcast %h dims [1] : (tensor<30xf32>) -> tensor<6x30xf32>
        return %t, %e, %g, %i : tensor<1x4x5x6xi32>, tensor<19x5xbf16>, tensor<2x7x4xf32>, tensor<6x30xf32> }""",
    "windows that leave, summed back with phases that some taps miss": """(%x: tensor<3x2x2x4x3xf32>, %y: tensor<1x15xi16>, %z: tensor<5x20xi32>) -> (tensor<3x2x2x4x3xf32>, tensor<2x10x9x3xf32>, tensor<100xi16>, tensor<103xi32>) {
        %a = ng.negative %x : tensor<3x2x2x4x3xf32>
        %e = ng.broadcast %a dims [0, 2, 3, 4, 5] : (tensor<3x2x2x4x3xf32>) -> tensor<3x2x2x2x4x3xf32>
        %b = ng.overlap_add %e axes [1, 2] steps [7, 2] dilations [1, 2] : (tensor<3x2x2x2x4x3xf32>) -> tensor<2x10x9x3xf32>
        %c = ng.overlap_add %y axes [0] steps [7] dilations [1] : (tensor<1x15xi16>) -> tensor<100xi16>
        %d = ng.overlap_add %z axes [0] steps [4] dilations [6] : (tensor<5x20xi32>) -> tensor<103xi32>
        return %a, %b, %c, %d : tensor<3x2x2x4x3xf32>, tensor<2x10x9x3xf32>, tensor<100xi16>, tensor<103xi32> }""",
    "borders of narrow elements, in long rows and short ones": """(%x: tensor<3x300xi8>, %y: tensor<5x302xi8>, %z: tensor<6x5xi8>) -> (tensor<5x302xi8>, tensor<5xi8>, tensor<6x7xi8>, tensor<302xi8>) {
        %p = ng.pad %x low [1, 1] high [1, 1] {value = 7 : i8} : (tensor<3x300xi8>) -> tensor<5x302xi8>
        %a = ng.add %p, %y : tensor<5x302xi8>
        %m = ng.max %p axes [1] : (tensor<5x302xi8>) -> tensor<5xi8>
        %r = ng.slice %p from [4, 301] to [-1, -1] step [-1, -1] : tensor<5x302xi8>
        %s = ng.bitwise_xor %a, %r : tensor<5x302xi8>
        %q = ng.pad %z low [0, 1] high [0, 1] : (tensor<6x5xi8>) -> tensor<6x7xi8>
        %n = ng.negative %q : tensor<6x7xi8>
        %c = ng.min %s axes [0] : (tensor<5x302xi8>) -> tensor<302xi8>
        return %s, %m, %n, %c : tensor<5x302xi8>, tensor<5xi8>, tensor<6x7xi8>, tensor<302xi8> }""",
    "a border along one dimension, and what is seen in two shapes and moved in one": """(%x: tensor<6x5xf32>, %y: tensor<24xf32>, %z: tensor<4x6xf32>) -> (tensor<6x7xf32>, tensor<24xf32>, tensor<4xf32>, tensor<2x3xf32>) {
        %p = ng.pad %x low [0, 1] high [0, 1] : (tensor<6x5xf32>) -> tensor<6x7xf32>
        %a = ng.sign %p : tensor<6x7xf32>
        %v = ng.reshape %y : (tensor<24xf32>) -> tensor<4x6xf32>
        %s = ng.slice %v from [3, 0] to [-1, 6] step [-1, 1] : tensor<4x6xf32>
        %b = ng.add %s, %v : tensor<4x6xf32>
        %c = ng.reshape %b : (tensor<4x6xf32>) -> tensor<24xf32>
        %t = ng.slice %z from [0, 0] to [4, 5] step [1, 1] : (tensor<4x6xf32>) -> tensor<4x5xf32>
        %u = ng.reshape %t : (tensor<4x5xf32>) -> tensor<2x10xf32>
        %w = ng.slice %u from [0, 3] to [2, 6] step [1, 1] : (tensor<2x10xf32>) -> tensor<2x3xf32>
        %d = ng.negative %w : tensor<2x3xf32>
        %f = ng.sign %t : tensor<4x5xf32>
        %g = ng.sum %f axes [1] : (tensor<4x5xf32>) -> tensor<4xf32>
        return %a, %c, %g, %d : tensor<6x7xf32>, tensor<24xf32>, tensor<4xf32>, tensor<2x3xf32> }""",
    "attention of two heads, its sides parts of one product": """(%x: tensor<2x5x8xf32>, %w: tensor<8x24xf32>, %p: tensor<8x7xf32>, %y: tensor<2x5x2x4xf32>) -> (tensor<2x5x7xf32>, tensor<2x5x2x4xf32>) {
        %a = ng.dot %x, %w contract [2] x [0] : (tensor<2x5x8xf32>, tensor<8x24xf32>) -> tensor<2x5x24xf32>
        %q = ng.slice %a from [0, 0, 0] to [2, 5, 8] step [1, 1, 1] : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
        %k = ng.slice %a from [0, 0, 8] to [2, 5, 16] step [1, 1, 1] : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
        %v = ng.slice %a from [0, 0, 16] to [2, 5, 24] step [1, 1, 1] : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
        %q4 = ng.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
        %k4 = ng.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
        %v4 = ng.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
        %qt = ng.transpose %q4 perm [0, 2, 1, 3] : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
        %kt = ng.transpose %k4 perm [0, 2, 1, 3] : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
        %vt = ng.transpose %v4 perm [0, 2, 1, 3] : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
        %s = ng.dot %qt, %kt contract [3] x [3] {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x5xf32>
        %e = ng.sign %s : tensor<2x2x5x5xf32>
        %o = ng.dot %e, %vt contract [3] x [2] {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
        %n = ng.negative %o : tensor<2x2x5x4xf32>
        %ot = ng.transpose %n perm [0, 2, 1, 3] : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
        %z = ng.add %ot, %y : tensor<2x5x2x4xf32>
        %h = ng.reshape %ot : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
        %r = ng.dot %h, %p contract [2] x [0] : (tensor<2x5x8xf32>, tensor<8x7xf32>) -> tensor<2x5x7xf32>
        return %r, %z : tensor<2x5x7xf32>, tensor<2x5x2x4xf32> }""",
    "sides that are parts of matrices, and turned, or no matrix where they lie": """(%x: tensor<7x9xf32>, %y: tensor<6x8xf32>, %z: tensor<4x3x2xf32>, %m: tensor<8xf32>) -> (tensor<5x4xf32>, tensor<4x8xf32>, tensor<6x4xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>) {
        %a = ng.slice %x from [1, 0] to [6, 6] step [1, 1] : (tensor<7x9xf32>) -> tensor<5x6xf32>
        %b = ng.slice %y from [0, 3] to [6, 7] step [1, 1] : (tensor<6x8xf32>) -> tensor<6x4xf32>
        %p = ng.dot %a, %b contract [1] x [0] : (tensor<5x6xf32>, tensor<6x4xf32>) -> tensor<5x4xf32>
        %c = ng.slice %y from [0, 4] to [6, 8] step [1, 1] : (tensor<6x8xf32>) -> tensor<6x4xf32>
        %q = ng.dot %c, %y contract [0] x [0] : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
        %t = ng.transpose %z perm [1, 2, 0] : (tensor<4x3x2xf32>) -> tensor<3x2x4xf32>
        %u = ng.reshape %t : (tensor<3x2x4xf32>) -> tensor<6x4xf32>
        %v = ng.dot %a, %a contract [0] x [0] : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<6x6xf32>
        %r = ng.dot %v, %u contract [1] x [0] : (tensor<6x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
        %d = ng.transpose %z perm [0, 2, 1] : (tensor<4x3x2xf32>) -> tensor<4x2x3xf32>
        %w = ng.slice %x from [0, 0] to [2, 5] step [1, 1] : (tensor<7x9xf32>) -> tensor<2x5xf32>
        %f = ng.dot %d, %w contract [1] x [0] : (tensor<4x2x3xf32>, tensor<2x5xf32>) -> tensor<4x3x5xf32>
        %g = ng.slice %x from [0, 8] to [5, -1] step [1, -3] : (tensor<7x9xf32>) -> tensor<5x3xf32>
        %h = ng.slice %x from [0, 0] to [6, 6] step [2, 2] : (tensor<7x9xf32>) -> tensor<3x3xf32>
        %i = ng.dot %g, %h contract [1] x [0] : (tensor<5x3xf32>, tensor<3x3xf32>) -> tensor<5x3xf32>
        return %p, %q, %r, %f, %i : tensor<5x4xf32>, tensor<4x8xf32>, tensor<6x4xf32>, tensor<4x3x5xf32>, tensor<5x3xf32> }""",
    "sides of a batch that lies among them, before them and behind them": """(%x: tensor<2x5x3x4xf32>, %y: tensor<2x3x4x6xf32>, %u: tensor<4x5x2xf32>, %v: tensor<2x4x3xf32>, %m: tensor<3x2x4xf32>, %n: tensor<12x5xf32>) -> (tensor<2x3x5x6xf32>, tensor<2x5x3xf32>, tensor<2x5xf32>) {
        %t = ng.transpose %x perm [0, 2, 1, 3] : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
        %a = ng.dot %t, %y contract [3] x [2] {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>} : (tensor<2x3x5x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x5x6xf32>
        %w = ng.transpose %u perm [2, 1, 0] : (tensor<4x5x2xf32>) -> tensor<2x5x4xf32>
        %b = ng.dot %w, %v contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x5x4xf32>, tensor<2x4x3xf32>) -> tensor<2x5x3xf32>
        %o = ng.transpose %m perm [1, 0, 2] : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
        %p = ng.reshape %o : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
        %c = ng.dot %p, %n contract [1] x [0] : (tensor<2x12xf32>, tensor<12x5xf32>) -> tensor<2x5xf32>
        return %a, %b, %c : tensor<2x3x5x6xf32>, tensor<2x5x3xf32>, tensor<2x5xf32> }""",
    "products that are moved and cannot be written so": """(%x: tensor<2x6x5xf32>, %w: tensor<2x5x4xf32>, %a: tensor<7x5xf32>, %b: tensor<5x6xf32>) -> (tensor<2x3x2x4xf32>, tensor<4x3x4xf32>, tensor<4x6xf32>, tensor<2x4x6xf32>) {
        %p = ng.dot %x, %w contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x6x5xf32>, tensor<2x5x4xf32>) -> tensor<2x6x4xf32>
        %p4 = ng.reshape %p : (tensor<2x6x4xf32>) -> tensor<2x2x3x4xf32>
        %r = ng.transpose %p4 perm [0, 2, 1, 3] : (tensor<2x2x3x4xf32>) -> tensor<2x3x2x4xf32>
        %y = ng.negative %x : tensor<2x6x5xf32>
        %q = ng.dot %y, %w contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x6x5xf32>, tensor<2x5x4xf32>) -> tensor<2x6x4xf32>
        %q3 = ng.reshape %q : (tensor<2x6x4xf32>) -> tensor<3x4x4xf32>
        %s = ng.transpose %q3 perm [1, 0, 2] : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>
        %d = ng.dot %a, %b contract [1] x [0] : (tensor<7x5xf32>, tensor<5x6xf32>) -> tensor<7x6xf32>
        %e = ng.slice %d from [1, 0] to [5, 6] step [1, 1] : (tensor<7x6xf32>) -> tensor<4x6xf32>
        %z = ng.square %x : tensor<2x6x5xf32>
        %g = ng.dot %z, %w contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x6x5xf32>, tensor<2x5x4xf32>) -> tensor<2x6x4xf32>
        %h = ng.negative %g : tensor<2x6x4xf32>
        %i = ng.transpose %h perm [0, 2, 1] : (tensor<2x6x4xf32>) -> tensor<2x4x6xf32>
        return %r, %s, %e, %i : tensor<2x3x2x4xf32>, tensor<4x3x4xf32>, tensor<4x6xf32>, tensor<2x4x6xf32> }""",
    "moves of moves": """(%x: tensor<4x6xf32>, %y: tensor<6x4xf32>, %z: tensor<3x8xf32>) -> (tensor<2x6xf32>, tensor<4x8xf32>, tensor<3x8xf32>, tensor<12xf32>) {
        %s = ng.slice %x from [1, 0] to [3, 6] step [1, 1] : (tensor<4x6xf32>) -> tensor<2x6xf32>
        %p = ng.pad %s low [1, 1] high [1, 1] : (tensor<2x6xf32>) -> tensor<4x8xf32>
        %a = ng.sign %p : tensor<4x8xf32>
        %b = ng.negative %s : tensor<2x6xf32>
        %h = ng.reshape %x : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
        %t = ng.transpose %h perm [1, 0, 2] : (tensor<4x2x3xf32>) -> tensor<2x4x3xf32>
        %u = ng.reshape %t : (tensor<2x4x3xf32>) -> tensor<3x8xf32>
        %c = ng.add %u, %z : tensor<3x8xf32>
        %v = ng.slice %t from [1, 0, 0] to [2, 4, 3] step [1, 1, 1] : (tensor<2x4x3xf32>) -> tensor<1x4x3xf32>
        %w = ng.reshape %v : (tensor<1x4x3xf32>) -> tensor<12xf32>
        %d = ng.square %w : tensor<12xf32>
        return %b, %a, %c, %d : tensor<2x6xf32>, tensor<4x8xf32>, tensor<3x8xf32>, tensor<12xf32> }""",
    "a slice of rows and of what is repeated, beside a product": """(%a: tensor<6x5xf32>, %w: tensor<5x4xf32>, %c: tensor<9x4xf32>, %l: tensor<30xf32>, %v: tensor<6xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<3x4xf32>) {
        %y = ng.dot %a, %w contract [1] x [0] : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
        %s = ng.slice %c from [2, 0] to [8, 4] step [1, 1] : (tensor<9x4xf32>) -> tensor<6x4xf32>
        %e = ng.sign %s : tensor<6x4xf32>
        %x = ng.add %y, %e : tensor<6x4xf32>
        %k = ng.slice %l from [3] to [27] step [1] : (tensor<30xf32>) -> tensor<24xf32>
        %m = ng.reshape %k : (tensor<24xf32>) -> tensor<6x4xf32>
        %z = ng.multiply %x, %m : tensor<6x4xf32>
        %b = ng.broadcast %v dims [0] : (tensor<6xf32>) -> tensor<6x4xf32>
        %t = ng.slice %b from [3, 0] to [6, 4] step [1, 1] : (tensor<6x4xf32>) -> tensor<3x4xf32>
        %n = ng.negative %t : tensor<3x4xf32>
        return %x, %z, %n : tensor<6x4xf32>, tensor<6x4xf32>, tensor<3x4xf32> }""",
    "a product of one row": """(%a: tensor<1x5xf32>, %w: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<1x7xf32> {
        %y = ng.dot %a, %w contract [1] x [0] : (tensor<1x5xf32>, tensor<5x7xf32>) -> tensor<1x7xf32>
        %c = ng.broadcast %b dims [1] : (tensor<7xf32>) -> tensor<1x7xf32>
        %z = ng.add %y, %c : tensor<1x7xf32>
        return %z : tensor<1x7xf32> }""",
    "a product of one number": """(%a: tensor<6x5xf32>) -> tensor<f32> {
        %y = ng.dot %a, %a contract [0, 1] x [0, 1] : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<f32>
        %z = ng.negative %y : tensor<f32>
        return %z : tensor<f32> }""",
    "the product of nothing, in a short type": """(%a: tensor<0x3xf16>) -> (tensor<3xf16>, tensor<3xf16>, tensor<3xf16>) {
        %p = ng.product %a axes [0] : (tensor<0x3xf16>) -> tensor<3xf16>
        %s = ng.sum %a axes [0] : (tensor<0x3xf16>) -> tensor<3xf16>
        %m = ng.max %a axes [0] : (tensor<0x3xf16>) -> tensor<3xf16>
        return %p, %s, %m : tensor<3xf16> }""",
    "nothing scattered": """(%a: tensor<3xf32>, %i: tensor<0xi32>, %u: tensor<0xf32>) -> tensor<3xf32> {
        %b = ng.scatter %a[%i], %u axis 0 : (tensor<3xf32>, tensor<0xi32>, tensor<0xf32>) -> tensor<3xf32>
        %c = ng.add %b, %b : tensor<3xf32>
        return %c : tensor<3xf32> }""",
    "a value on both sides of a transpose": """(%a: tensor<6x6xf32>) -> tensor<6x6xf32> {
        %b = ng.square %a : tensor<6x6xf32>
        %c = ng.transpose %b perm [1, 0] : tensor<6x6xf32>
        %d = ng.subtract %b, %c : tensor<6x6xf32>
        return %d : tensor<6x6xf32> }""",
    "a value under uneven shapes": """(%a: tensor<2x3x4xf32>) -> tensor<24xf32> {
        %b = ng.square %a : tensor<2x3x4xf32>
        %c = ng.reshape %b : (tensor<2x3x4xf32>) -> tensor<8x3xf32>
        %d = ng.max %c axes [1] : (tensor<8x3xf32>) -> tensor<8xf32>
        %e = ng.broadcast %d dims [0] : (tensor<8xf32>) -> tensor<8x3xf32>
        %f = ng.reshape %e : (tensor<8x3xf32>) -> tensor<24xf32>
        %g = ng.reshape %b : (tensor<2x3x4xf32>) -> tensor<24xf32>
        %h = ng.subtract %f, %g : tensor<24xf32>
        return %h : tensor<24xf32> }""",
    "sums over either dimension, each needing the other": """(%a: tensor<6x6xf32>) -> tensor<6x6xf32> {
        %r = ng.sum %a axes [1] : (tensor<6x6xf32>) -> tensor<6xf32>
        %s = ng.broadcast %r dims [0] : (tensor<6xf32>) -> tensor<6x6xf32>
        %b = ng.subtract %a, %s : tensor<6x6xf32>
        %c = ng.sum %b axes [0] : (tensor<6x6xf32>) -> tensor<6xf32>
        %t = ng.broadcast %c dims [1] : (tensor<6xf32>) -> tensor<6x6xf32>
        %d = ng.add %b, %t : tensor<6x6xf32>
        %e = ng.subtract %d, %s : tensor<6x6xf32>
        return %e : tensor<6x6xf32> }""",
    "rows that are summed meet": """(%a: tensor<8x16xf32>, %b: tensor<8x16xf32>) -> tensor<8xf32> {
        %x = ng.square %a : tensor<8x16xf32>
        %s = ng.sum %x axes [1] : (tensor<8x16xf32>) -> tensor<8xf32>
        %y = ng.negative %b : tensor<8x16xf32>
        %t = ng.sum %y axes [1] : (tensor<8x16xf32>) -> tensor<8xf32>
        %u = ng.add %s, %t : tensor<8xf32>
        return %u : tensor<8xf32> }""",
    "the diagonal of a broadcast": """(%a: tensor<4xf32>) -> tensor<4x4xf32> {
        %x = ng.broadcast %a dims [0] : (tensor<4xf32>) -> tensor<4x4xf32>
        %y = ng.broadcast %a dims [1] : (tensor<4xf32>) -> tensor<4x4xf32>
        %z = ng.subtract %x, %y : tensor<4x4xf32>
        return %z : tensor<4x4xf32> }""",
    "what is made of one line, spread both ways": """(%i: tensor<4xf32>, %k: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
        %t = ng.add %i, %i : tensor<4xf32>
        %e = ng.multiply %i, %i : tensor<4xf32>
        %a = ng.broadcast %t dims [0] : (tensor<4xf32>) -> tensor<4x4xf32>
        %s = ng.multiply %a, %k : tensor<4x4xf32>
        %b = ng.broadcast %e dims [1] : (tensor<4xf32>) -> tensor<4x4xf32>
        %c = ng.subtract %s, %b : tensor<4x4xf32>
        %m = ng.max %c axes [1] : (tensor<4x4xf32>) -> tensor<4xf32>
        return %c, %m : tensor<4x4xf32>, tensor<4xf32> }""",
    "shapes that share no loops meet": """(%a: tensor<8xf32>, %b: tensor<6xf32>, %c: tensor<24xf32>) -> tensor<24xf32> {
        %p = ng.broadcast %a dims [0] : (tensor<8xf32>) -> tensor<8x3xf32>
        %q = ng.broadcast %b dims [0] : (tensor<6xf32>) -> tensor<6x4xf32>
        %x = ng.reshape %p : (tensor<8x3xf32>) -> tensor<24xf32>
        %y = ng.reshape %q : (tensor<6x4xf32>) -> tensor<24xf32>
        %z = ng.fma %x, %y, %c : tensor<24xf32>
        return %z : tensor<24xf32> }""",
    "an uneven reshape beside its source": """(%a: tensor<6x4xf32>, %b: tensor<8x3xf32>) -> tensor<8x3xf32> {
        %n = ng.sum %a axes [1] : (tensor<6x4xf32>) -> tensor<6xf32>
        %m = ng.broadcast %n dims [0] : (tensor<6xf32>) -> tensor<6x4xf32>
        %x = ng.reshape %m : (tensor<6x4xf32>) -> tensor<8x3xf32>
        %r = ng.sum %b axes [1] : (tensor<8x3xf32>) -> tensor<8xf32>
        %s = ng.broadcast %r dims [0] : (tensor<8xf32>) -> tensor<8x3xf32>
        %y = ng.add %x, %s : tensor<8x3xf32>
        return %y : tensor<8x3xf32> }""",
    "the greatest of an uneven reshape": """(%a: tensor<6x4xf32>) -> tensor<8xf32> {
        %n = ng.sum %a axes [1] : (tensor<6x4xf32>) -> tensor<6xf32>
        %m = ng.broadcast %n dims [0] : (tensor<6xf32>) -> tensor<6x4xf32>
        %x = ng.reshape %m : (tensor<6x4xf32>) -> tensor<8x3xf32>
        %r = ng.max %x axes [1] : (tensor<8x3xf32>) -> tensor<8xf32>
        return %r : tensor<8xf32> }""",
    "a product in equal blocks of rows": """(%a: tensor<26x256xf32>, %w: tensor<256x256xf32>) -> tensor<26x256xf32> {
        %y = ng.dot %a, %w contract [1] x [0] : (tensor<26x256xf32>, tensor<256x256xf32>) -> tensor<26x256xf32>
        return %y : tensor<26x256xf32> }""",
    "a row's sum goes to rows of another length": """(%a: tensor<8x16xf32>, %b: tensor<8x5xf32>) -> tensor<8x5xf32> {
        %s = ng.sum %a axes [1] : (tensor<8x16xf32>) -> tensor<8xf32>
        %w = ng.broadcast %s dims [0] : (tensor<8xf32>) -> tensor<8x5xf32>
        %r = ng.add %w, %b : tensor<8x5xf32>
        return %r : tensor<8x5xf32> }""",
    "a table of which few rows change": """(%t: tensor<640x8xf32>, %i: tensor<9xi32>, %u: tensor<9x8xf32>) -> tensor<640x8xf32> {
        %0 = ng.constant dense<0.0> : tensor<640x8xf32>
        %1 = ng.scatter %0[%i], %u axis 0 {combine = "add"} : (tensor<640x8xf32>, tensor<9xi32>, tensor<9x8xf32>) -> tensor<640x8xf32>
        %2 = ng.constant dense<0.5> : tensor<640x8xf32>
        %3 = ng.multiply %2, %1 : tensor<640x8xf32>
        %r = ng.subtract %t, %3 : tensor<640x8xf32>
        return %r : tensor<640x8xf32> }""",
    "elements scattered in whole tiles": """(%a: tensor<10xf32>, %i: tensor<256xi32>, %u: tensor<256xf32>) -> tensor<10xf32> {
        %r = ng.scatter %a[%i], %u axis 0 {combine = "add"} : (tensor<10xf32>, tensor<256xi32>, tensor<256xf32>) -> tensor<10xf32>
        return %r : tensor<10xf32> }""",
    "a product beside far columns, not packed": """(%a: tensor<10x600xf32>, %w: tensor<600x400xf32>) -> tensor<10x400xf32> {
        %y = ng.dot %a, %w contract [1] x [0] : (tensor<10x600xf32>, tensor<600x400xf32>) -> tensor<10x400xf32>
        return %y : tensor<10x400xf32> }""",
    "a shallow product of many columns": """(%a: tensor<16x8xf32>, %w: tensor<8x20000xf32>) -> tensor<16x20000xf32> {
        %y = ng.dot %a, %w contract [1] x [0] : (tensor<16x8xf32>, tensor<8x20000xf32>) -> tensor<16x20000xf32>
        return %y : tensor<16x20000xf32> }""",
    "an epilogue that would cut the rows of a product": """(%a: tensor<6x5xf32>, %w: tensor<5x4xf32>, %c: tensor<2xf32>) -> tensor<2x3x4xf32> {
        %y = ng.dot %a, %w contract [1] x [0] : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
        %z = ng.reshape %y : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
        %b = ng.broadcast %c dims [0] : (tensor<2xf32>) -> tensor<2x3x4xf32>
        %r = ng.add %z, %b : tensor<2x3x4xf32>
        return %r : tensor<2x3x4xf32> }""",
    "constants that are too long to fold": """(%a: tensor<40xf32>) -> tensor<40xf32> {
        %k = ng.constant dense<2.0> : tensor<40x40xf32>
        %n = ng.sum %k axes [1] : (tensor<40x40xf32>) -> tensor<40xf32>
        %r = ng.add %n, %a : tensor<40xf32>
        return %r : tensor<40xf32> }""",
    "a transpose of what is repeated": """(%a: tensor<6xf32>, %b: tensor<6x4xf32>) -> tensor<6x4xf32> {
        %w = ng.broadcast %a dims [1] : (tensor<6xf32>) -> tensor<4x6xf32>
        %x = ng.square %w : tensor<4x6xf32>
        %y = ng.transpose %x perm [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %r = ng.add %y, %b : tensor<6x4xf32>
        return %r : tensor<6x4xf32> }""",
    "a variable that is free before its update": """(%a: tensor<6x5xf32>, %b: tensor<5x6xf32>) -> (tensor<6x5xf32>, tensor<6x6xf32>) attributes {ng.tied = array<i64: 0, 0>} {
        %p = ng.dot %a, %b contract [1] x [0] : (tensor<6x5xf32>, tensor<5x6xf32>) -> tensor<6x6xf32>
        %s = ng.cumulative_sum %p axis 0 : tensor<6x6xf32>
        %n = ng.dot %s, %b contract [1] x [1] : (tensor<6x6xf32>, tensor<5x6xf32>) -> tensor<6x5xf32>
        return %n, %s : tensor<6x5xf32>, tensor<6x6xf32> }""",
    "the sum of many short columns": """(%a: tensor<3x40000xf32>) -> tensor<40000xf32> {
        %s = ng.sum %a axes [0] : (tensor<3x40000xf32>) -> tensor<40000xf32>
        return %s : tensor<40000xf32> }""",
    "far columns over two loops": """(%a: tensor<5x3x20x900xf32>) -> tensor<3x900xf32> {
        %s = ng.sum %a axes [0, 2] : (tensor<5x3x20x900xf32>) -> tensor<3x900xf32>
        return %s : tensor<3x900xf32> }""",
    "products and truths of rows": """(%a: tensor<5x9xui8>, %b: tensor<5x9xi1>) -> (tensor<5xui8>, tensor<5xi1>, tensor<5xi1>, tensor<5xui8>, tensor<9xui8>) {
        %p = ng.product %a axes [1] : (tensor<5x9xui8>) -> tensor<5xui8>
        %q = ng.all %b axes [1] : (tensor<5x9xi1>) -> tensor<5xi1>
        %r = ng.any %b axes [1] : (tensor<5x9xi1>) -> tensor<5xi1>
        %m = ng.max %a axes [1] : (tensor<5x9xui8>) -> tensor<5xui8>
        %l = ng.min %a axes [0] : (tensor<5x9xui8>) -> tensor<9xui8>
        return %p, %q, %r, %m, %l : tensor<5xui8>, tensor<5xi1>, tensor<5xi1>, tensor<5xui8>, tensor<9xui8> }""",
    "running sums from either end": """(%a: tensor<3x13xi32>) -> (tensor<3x13xi32>, tensor<3x13xi32>, tensor<3x13xi32>) {
        %x = ng.cumulative_sum %a axis 1 {reverse = true} : tensor<3x13xi32>
        %y = ng.cumulative_sum %a axis 1 {exclusive = true} : tensor<3x13xi32>
        %z = ng.cumulative_max %a axis 0 {reverse = true} : tensor<3x13xi32>
        return %x, %y, %z : tensor<3x13xi32> }""",
    "segments of rows": """(%a: tensor<13x5xf32>, %b: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<13x5xf32>, tensor<13x5xf32>, tensor<13x5xf32>) {
        %o = ng.constant dense<[0, 4, 4, 13]> : tensor<4xi32>
        %r0 = ng.segment_reduce %a by %o axis 0 : (tensor<13x5xf32>, tensor<4xi32>) -> tensor<3x5xf32>
        %r1 = ng.segment_reduce %a by %o axis 0 {combine = "product"} : (tensor<13x5xf32>, tensor<4xi32>) -> tensor<3x5xf32>
        %r2 = ng.segment_reduce %a by %o axis 0 {combine = "max"} : (tensor<13x5xf32>, tensor<4xi32>) -> tensor<3x5xf32>
        %r3 = ng.segment_reduce %a by %o axis 0 {combine = "first"} : (tensor<13x5xf32>, tensor<4xi32>) -> tensor<3x5xf32>
        %r4 = ng.segment_reduce %a by %o axis 0 {combine = "last"} : (tensor<13x5xf32>, tensor<4xi32>) -> tensor<3x5xf32>
        %c0 = ng.segment_cumulative %a by %o axis 0 : (tensor<13x5xf32>, tensor<4xi32>) -> tensor<13x5xf32>
        %c1 = ng.segment_cumulative %a by %o axis 0 {combine = "max", exclusive = true, reverse = true} : (tensor<13x5xf32>, tensor<4xi32>) -> tensor<13x5xf32>
        %e = ng.segment_expand %b by %o axis 0 : (tensor<3x5xf32>, tensor<4xi32>) -> tensor<13x5xf32>
        return %r0, %r1, %r2, %r3, %r4, %c0, %c1, %e : tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<13x5xf32>, tensor<13x5xf32>, tensor<13x5xf32> }""",
    "segments of single elements": """(%f32: tensor<76xf32>, %i32: tensor<76xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<76xf32>, tensor<76xf32>, tensor<76xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<76xi32>, tensor<76xi32>, tensor<76xi32>) {
        %o = ng.constant dense<[0, 70, 70, 75, 76]> : tensor<5xi32>
        %f32r0 = ng.segment_reduce %f32 by %o axis 0 : (tensor<76xf32>, tensor<5xi32>) -> tensor<4xf32>
        %f32r1 = ng.segment_reduce %f32 by %o axis 0 {combine = "first"} : (tensor<76xf32>, tensor<5xi32>) -> tensor<4xf32>
        %f32r2 = ng.segment_reduce %f32 by %o axis 0 {combine = "last"} : (tensor<76xf32>, tensor<5xi32>) -> tensor<4xf32>
        %f32r3 = ng.segment_reduce %f32 by %o axis 0 {combine = "min"} : (tensor<76xf32>, tensor<5xi32>) -> tensor<4xf32>
        %f32c0 = ng.segment_cumulative %f32 by %o axis 0 : (tensor<76xf32>, tensor<5xi32>) -> tensor<76xf32>
        %f32c1 = ng.segment_cumulative %f32 by %o axis 0 {exclusive = true, reverse = true} : (tensor<76xf32>, tensor<5xi32>) -> tensor<76xf32>
        %f32e = ng.segment_expand %f32r0 by %o axis 0 : (tensor<4xf32>, tensor<5xi32>) -> tensor<76xf32>
        %i32r0 = ng.segment_reduce %i32 by %o axis 0 : (tensor<76xi32>, tensor<5xi32>) -> tensor<4xi32>
        %i32r1 = ng.segment_reduce %i32 by %o axis 0 {combine = "first"} : (tensor<76xi32>, tensor<5xi32>) -> tensor<4xi32>
        %i32r2 = ng.segment_reduce %i32 by %o axis 0 {combine = "last"} : (tensor<76xi32>, tensor<5xi32>) -> tensor<4xi32>
        %i32r3 = ng.segment_reduce %i32 by %o axis 0 {combine = "min"} : (tensor<76xi32>, tensor<5xi32>) -> tensor<4xi32>
        %i32c0 = ng.segment_cumulative %i32 by %o axis 0 : (tensor<76xi32>, tensor<5xi32>) -> tensor<76xi32>
        %i32c1 = ng.segment_cumulative %i32 by %o axis 0 {exclusive = true, reverse = true} : (tensor<76xi32>, tensor<5xi32>) -> tensor<76xi32>
        %i32e = ng.segment_expand %i32r0 by %o axis 0 : (tensor<4xi32>, tensor<5xi32>) -> tensor<76xi32>
        return %f32r0, %f32r1, %f32r2, %f32r3, %f32c0, %f32c1, %f32e, %i32r0, %i32r1, %i32r2, %i32r3, %i32c0, %i32c1, %i32e : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<76xf32>, tensor<76xf32>, tensor<76xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<76xi32>, tensor<76xi32>, tensor<76xi32> }""",
    "segments of nothing": """(%a: tensor<0x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
        %o = ng.constant dense<0> : tensor<3xi32>
        %s = ng.segment_reduce %a by %o axis 0 : (tensor<0x3xf32>, tensor<3xi32>) -> tensor<2x3xf32>
        %p = ng.segment_reduce %a by %o axis 0 {combine = "product"} : (tensor<0x3xf32>, tensor<3xi32>) -> tensor<2x3xf32>
        %m = ng.segment_reduce %a by %o axis 0 {combine = "max"} : (tensor<0x3xf32>, tensor<3xi32>) -> tensor<2x3xf32>
        return %s, %p, %m : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32> }""",
    "the power of unsigned numbers": """(%a: tensor<7xui8>, %b: tensor<7xui8>) -> tensor<7xui8> {
        %p = ng.power %a, %b : tensor<7xui8>
        return %p : tensor<7xui8> }""",
    "positions that are unsigned": """(%a: tensor<5x3xf32>, %i: tensor<4xui64>, %j: tensor<4x3xui64>, %u: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<5x3xf32>) {
        %x = ng.gather %a[%i] axis 0 : (tensor<5x3xf32>, tensor<4xui64>) -> tensor<4x3xf32>
        %y = ng.gather_elements %a[%j] axis 0 : (tensor<5x3xf32>, tensor<4x3xui64>) -> tensor<4x3xf32>
        %z = ng.scatter %a[%i], %u axis 0 {combine = "max"} : (tensor<5x3xf32>, tensor<4xui64>, tensor<4x3xf32>) -> tensor<5x3xf32>
        return %x, %y, %z : tensor<4x3xf32>, tensor<4x3xf32>, tensor<5x3xf32> }""",
    "nothing at the end of a concatenation, or first": """(%a: tensor<3x2xf32>, %e: tensor<3x0xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x4xf32>) {
        %x = ng.concatenate %a, %e axis 1 : (tensor<3x2xf32>, tensor<3x0xf32>) -> tensor<3x2xf32>
        %y = ng.concatenate %e, %a axis 1 : (tensor<3x0xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
        %z = ng.concatenate %e, %x, %y axis 1 : (tensor<3x0xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
        return %x, %y, %z : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x4xf32> }""",
    "products and ends of nothing": """(%a: tensor<3x0xf32>, %b: tensor<0x2xf32>, %u: tensor<0xui8>, %i: tensor<2xi32>) -> (tensor<3x2xf32>, tensor<ui8>, tensor<ui8>, tensor<2x2xf32>) {
        %p = ng.dot %a, %b contract [1] x [0] : (tensor<3x0xf32>, tensor<0x2xf32>) -> tensor<3x2xf32>
        %m = ng.max %u axes [0] : (tensor<0xui8>) -> tensor<ui8>
        %n = ng.min %u axes [0] : (tensor<0xui8>) -> tensor<ui8>
        %w = ng.pad %b low [1, 0] high [1, 0] : (tensor<0x2xf32>) -> tensor<2x2xf32>
        return %p, %m, %n, %w : tensor<3x2xf32>, tensor<ui8>, tensor<ui8>, tensor<2x2xf32> }""",
    "one number moved": """(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
        %p = ng.pad %a low [] high [] : tensor<f32>
        %s = ng.slice %p from [] to [] step [] : tensor<f32>
        %t = ng.transpose %a perm [] : tensor<f32>
        return %p, %s, %t : tensor<f32> }""",
    "transposes that a product takes over": """(%a: tensor<4x5xf32>, %w: tensor<5x6xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
        %x = ng.dot %a, %w contract [1] x [0] : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>
        %y = ng.negative %x : tensor<4x6xf32>
        %z = ng.transpose %y perm [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %p = ng.dot %w, %a contract [0] x [1] : (tensor<5x6xf32>, tensor<4x5xf32>) -> tensor<6x4xf32>
        return %z, %p : tensor<6x4xf32> }""",
    "transposes of what costs nothing": """(%a: tensor<4x6xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
        %i = ng.iota {dimension = 0 : i64} : tensor<4x6xf32>
        %k = ng.constant dense<2.0> : tensor<4x6xf32>
        %t = ng.transpose %a perm [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %b = ng.transpose %t perm [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
        %x = ng.multiply %i, %k : tensor<4x6xf32>
        %y = ng.add %x, %i : tensor<4x6xf32>
        %z = ng.transpose %y perm [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %c = ng.add %b, %k : tensor<4x6xf32>
        %d = ng.transpose %c perm [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
        return %z, %d : tensor<6x4xf32> }""",
    "transposes under products and sums": """(%a: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> (tensor<3x2x5xf32>, tensor<4xf32>, tensor<3x2xf32>, tensor<2x4xf32>) {
        %t = ng.transpose %a perm [1, 0, 2] : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
        %x = ng.dot %t, %w contract [2] x [0] : (tensor<3x2x4xf32>, tensor<4x5xf32>) -> tensor<3x2x5xf32>
        %y = ng.sum %t axes [0, 1] : (tensor<3x2x4xf32>) -> tensor<4xf32>
        %z = ng.max %t axes [2] : (tensor<3x2x4xf32>) -> tensor<3x2xf32>
        %u = ng.min %t axes [0] : (tensor<3x2x4xf32>) -> tensor<2x4xf32>
        return %x, %y, %z, %u : tensor<3x2x5xf32>, tensor<4xf32>, tensor<3x2xf32>, tensor<2x4xf32> }""",
    "places in long rows": """(%a: tensor<3x100xf32>, %b: tensor<2x70xf64>) -> (tensor<3xi64>, tensor<2xi32>, tensor<2xi64>) {
  %0 = ng.argmax %a axes [1] : (tensor<3x100xf32>) -> tensor<3xi64>
  %1 = ng.argmin %b axes [1] : (tensor<2x70xf64>) -> tensor<2xi32>
  %2 = ng.argmax %b axes [1] : (tensor<2x70xf64>) -> tensor<2xi64>
  func.return %0, %1, %2 : tensor<3xi64>, tensor<2xi32>, tensor<2xi64>
}""",
    "arguments that change places": """(%a: tensor<6xf32>, %b: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) attributes {ng.tied = array<i64: 0, 0, 1, 1>} {
        return %b, %a : tensor<6xf32> }""",
    "a scan over rows of rows": """(%a: tensor<3x4x5xf32>, %z: tensor<5xf32>) -> (tensor<5xf32>, tensor<3x4x5xf32>) {
        %l, %r = ng.scan iter(%s = %z) over(%x: tensor<4x5xf32> = %a) -> (tensor<5xf32>, tensor<3x4x5xf32>) {
          %m, %q = ng.scan iter(%u = %s) over(%y: tensor<5xf32> = %x) -> (tensor<5xf32>, tensor<4x5xf32>) {
            %v = ng.add %u, %y : tensor<5xf32>
            ng.yield %v, %v : tensor<5xf32>
          }
          ng.yield %m, %q : tensor<5xf32>, tensor<4x5xf32>
        }
        return %l, %r : tensor<5xf32>, tensor<3x4x5xf32> }""",
}
WITH_LOOPS = {
    "slices go back to where they were, in a loop and around it": """(%xs: tensor<3x2xf32>, %y: tensor<2xf32>) -> tensor<6xf32> {
        %z = ng.pad %y low [4] high [0] : (tensor<2xf32>) -> tensor<6xf32>
        %o = ng.pad %y low [0] high [4] : (tensor<2xf32>) -> tensor<6xf32>
        %v = ng.add %z, %o : tensor<6xf32>
        %r = ng.scan iter(%c = %o) over(%x: tensor<2xf32> = %xs) -> tensor<6xf32> {
          %a = ng.pad %x low [2] high [2] : (tensor<2xf32>) -> tensor<6xf32>
          %b = ng.add %z, %a : tensor<6xf32>
          %d = ng.add %b, %o : tensor<6xf32>
          %e = ng.multiply %c, %d : tensor<6xf32>
          %f = ng.add %v, %a : tensor<6xf32>
          %g = ng.subtract %e, %f : tensor<6xf32>
          ng.yield %g : tensor<6xf32>
        }
        %q = ng.pad %y low [2] high [2] : (tensor<2xf32>) -> tensor<6xf32>
        %s = ng.add %z, %q : tensor<6xf32>
        %t = ng.add %s, %o : tensor<6xf32>
        %u = ng.add %t, %r : tensor<6xf32>
        return %u : tensor<6xf32> }""",
    "a loop between two maps over one space": """(%a: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
        %0 = ng.constant dense<0> : tensor<i32>
        %1 = ng.constant dense<1> : tensor<i32>
        %3 = ng.constant dense<3> : tensor<i32>
        %b = ng.square %a : tensor<6xf32>
        %m = ng.max %b axes [0] : (tensor<6xf32>) -> tensor<f32>
        %k, %c, %n = ng.while iter(%i = %0, %x = %b, %y = %m) -> (tensor<i32>, tensor<6xf32>, tensor<f32>) {
          %t = ng.less %i, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          ng.yield %t : tensor<i1>
        } do {
          %j = ng.add %i, %1 : tensor<i32>
          %u = ng.negative %x : tensor<6xf32>
          %unused = ng.negative %y : tensor<f32>
          %w = ng.add %y, %y : tensor<f32>
          ng.yield %j, %u, %w : tensor<i32>, tensor<6xf32>, tensor<f32>
        }
        %d = ng.negative %c : tensor<6xf32>
        %e = ng.subtract %d, %b : tensor<6xf32>
        return %d, %e : tensor<6xf32> }""",
    "nothing goes round, in branches and loops in a loop": """(%a: tensor<4x3xf32>, %c: tensor<4xi1>, %e: tensor<0xf32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
        %0 = ng.constant dense<0> : tensor<i32>
        %1 = ng.constant dense<1> : tensor<i32>
        %2 = ng.constant dense<2> : tensor<i32>
        %z = ng.constant dense<0.0> : tensor<3xf32>
        %s, %n, %r = ng.scan iter(%t = %z, %m = %e) over(%x: tensor<3xf32> = %a, %f: tensor<i1> = %c) -> (tensor<3xf32>, tensor<0xf32>, tensor<4x3xf32>) {
          %y = ng.if %f -> tensor<3xf32> {
            %v = ng.add %t, %x : tensor<3xf32>
            ng.yield %v : tensor<3xf32>
          } else {
            ng.yield %t : tensor<3xf32>
          }
          %k, %w = ng.while iter(%i = %0, %p = %y) -> (tensor<i32>, tensor<3xf32>) {
            %b = ng.less %i, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
            ng.yield %b : tensor<i1>
          } do {
            %j = ng.add %i, %1 : tensor<i32>
            %q = ng.subtract %p, %x : tensor<3xf32>
            ng.yield %j, %q : tensor<i32>, tensor<3xf32>
          }
          %d = ng.negative %m : tensor<0xf32>
          ng.yield %w, %d, %y : tensor<3xf32>, tensor<0xf32>, tensor<3xf32>
        }
        return %s, %r : tensor<3xf32>, tensor<4x3xf32> }""",
    "floats of 8 bits and integers of 4 in a branch and in padding": """(%c: tensor<i1>, %x: tensor<3xf32>) -> (tensor<5xf32>, tensor<4xf32>, tensor<3xi8>, tensor<3xi1>, tensor<2xf64>, tensor<4xf16>) {
        %a = ng.cast %x : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
        %r = ng.if %c -> tensor<5xf8E4M3FN> {
          %p = ng.pad %a low [1] high [1] {value = -2.5 : f8E4M3FN} : (tensor<3xf8E4M3FN>) -> tensor<5xf8E4M3FN>
          ng.yield %p : tensor<5xf8E4M3FN>
        } else {
          %q = ng.pad %a low [0] high [2] : (tensor<3xf8E4M3FN>) -> tensor<5xf8E4M3FN>
          ng.yield %q : tensor<5xf8E4M3FN>
        }
        %s = ng.cast %r : (tensor<5xf8E4M3FN>) -> tensor<5xf32>
        %k = ng.constant dense<[1.0, 0.5]> : tensor<2xf8E8M0FNU>
        %l = ng.pad %k low [1] high [1] : (tensor<2xf8E8M0FNU>) -> tensor<4xf8E8M0FNU>
        %m = ng.cast %l : (tensor<4xf8E8M0FNU>) -> tensor<4xf32>
        %i = ng.bitcast %a : (tensor<3xf8E4M3FN>) -> tensor<3xi8>
        %j = ng.cast %i : (tensor<3xi8>) -> tensor<3xi4>
        %f = ng.bitcast %j : (tensor<3xi4>) -> tensor<3xf4E2M1FN>
        %g = ng.cast %f : (tensor<3xf4E2M1FN>) -> tensor<3xi1>
        %d = ng.constant 3 : ui4
        %e = ng.constant -1.5 : f8E5M2
        %n = ng.constant dense<[1.0001, -7.3]> : tensor<2xf64>
        %o = ng.cast %n : (tensor<2xf64>) -> tensor<2xf8E5M2FNUZ>
        %t = ng.cast %o : (tensor<2xf8E5M2FNUZ>) -> tensor<2xf64>
        %u = ng.cast %m : (tensor<4xf32>) -> tensor<4xui2>
        %v = ng.cast %u : (tensor<4xui2>) -> tensor<4xf8E8M0FNU>
        %w = ng.cast %v : (tensor<4xf8E8M0FNU>) -> tensor<4xf16>
        return %s, %m, %i, %g, %t, %w : tensor<5xf32>, tensor<4xf32>, tensor<3xi8>, tensor<3xi1>, tensor<2xf64>, tensor<4xf16> }""",
    "a function with branches is called": """(%c: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
        %x = func.call @choose(%c, %a) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
        %n = ng.bitwise_not %c : tensor<i1>
        %y = func.call @choose(%n, %x) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
        return %y : tensor<4xf32> }
      func.func private @choose(%c: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
        %r = ng.if %c -> tensor<4xf32> {
          %b = ng.negative %a : tensor<4xf32>
          ng.yield %b : tensor<4xf32>
        } else {
          ng.yield %a : tensor<4xf32>
        }
        return %r : tensor<4xf32> }
      func.func private @elsewhere(%a: tensor<4xf32>) -> tensor<4xf32>""",
}

#: What only its size makes hard: programs that are lowered, not run.
LARGE = {
    "small windows": """(%a: tensor<64x64x57x57xf32>) -> tensor<64x64x28x28xf32> {
        %w = ng.windows %a axes [2, 3] steps [2, 2] dilations [1, 1] : (tensor<64x64x57x57xf32>) -> tensor<3x3x64x64x28x28xf32>
        %r = ng.max %w axes [0, 1] : (tensor<3x3x64x64x28x28xf32>) -> tensor<64x64x28x28xf32>
        return %r : tensor<64x64x28x28xf32> }""",
    "moves of many short rows": """(%a: tensor<100003x5x3xi8>, %b: tensor<8x114x114x32xf32>, %c: tensor<401x10000xf32>) -> (tensor<100003x7x5xi8>, tensor<3x3x8x112x112x32xf32>, tensor<1600241xf32>) {
        %0 = ng.pad %a low [0, 1, 1] high [0, 1, 1] : (tensor<100003x5x3xi8>) -> tensor<100003x7x5xi8>
        %1 = ng.windows %b axes [1, 2] steps [1, 1] dilations [1, 1] : (tensor<8x114x114x32xf32>) -> tensor<3x3x8x112x112x32xf32>
        %2 = ng.overlap_add %c axes [0] steps [160] dilations [1] : (tensor<401x10000xf32>) -> tensor<1600241xf32>
        return %0, %1, %2 : tensor<100003x7x5xi8>, tensor<3x3x8x112x112x32xf32>, tensor<1600241xf32> }""",
    "depths without a divisor": """(%a: tensor<17x10007xf32>, %b: tensor<10007x17xf32>, %c: tensor<4x10007x24xf32>) -> (tensor<17x17xf32>, tensor<17x24xf32>) {
        %0 = ng.dot %a, %b contract [1] x [0] : (tensor<17x10007xf32>, tensor<10007x17xf32>) -> tensor<17x17xf32>
        %1 = ng.slice %c from [1, 0, 0] to [2, 10007, 24] step [1, 1, 1] : (tensor<4x10007x24xf32>) -> tensor<1x10007x24xf32>
        %2 = ng.reshape %1 : (tensor<1x10007x24xf32>) -> tensor<10007x24xf32>
        %3 = ng.dot %a, %2 contract [1] x [0] : (tensor<17x10007xf32>, tensor<10007x24xf32>) -> tensor<17x24xf32>
        return %0, %3 : tensor<17x17xf32>, tensor<17x24xf32> }""",
    "long lines": """(%a: tensor<4096x20000xf32>, %b: tensor<100000003xf32>, %c: tensor<3x1000003xf32>, %w: tensor<1000003xf32>, %d: tensor<20481xf32>, %e: tensor<200003x17xf32>) -> (tensor<4096x20000xf32>, tensor<100000003xf32>, tensor<3xf32>, tensor<f32>, tensor<20481xf32>, tensor<200003x17xf32>) {
        %0 = ng.softmax %a axes [1] : tensor<4096x20000xf32>
        %1 = ng.cumulative_sum %b axis 0 {exclusive = true} : tensor<100000003xf32>
        %k = ng.constant dense<2.0> : tensor<3x1000003xf32>
        %2 = ng.broadcast %w dims [1] : (tensor<1000003xf32>) -> tensor<3x1000003xf32>
        %3 = ng.multiply %c, %2 : tensor<3x1000003xf32>
        %4 = ng.add %3, %k : tensor<3x1000003xf32>
        %5 = ng.sum %4 axes [1] : (tensor<3x1000003xf32>) -> tensor<3xf32>
        %6 = ng.max %c axes [0, 1] : (tensor<3x1000003xf32>) -> tensor<f32>
        %7 = ng.broadcast %5 dims [0] : (tensor<3xf32>) -> tensor<3x1000003xf32>
        %8 = ng.subtract %c, %7 : tensor<3x1000003xf32>
        %9 = ng.max %8 axes [1] : (tensor<3x1000003xf32>) -> tensor<3xf32>
        %10 = ng.cumulative_max %d axis 0 {reverse = true} : tensor<20481xf32>
        %11 = ng.cumulative_sum %e axis 0 : tensor<200003x17xf32>
        return %0, %1, %9, %6, %10, %11 : tensor<4096x20000xf32>, tensor<100000003xf32>, tensor<3xf32>, tensor<f32>, tensor<20481xf32>, tensor<200003x17xf32> }""",
    "axes side by side": """(%a: tensor<3x1000x1001xf32>, %b: tensor<3x1001x1000x5xf32>, %i: tensor<200xui64>, %u: tensor<200x5xf32>, %x: tensor<70x5xf32>) -> (tensor<3xf32>, tensor<3x5xf32>, tensor<70x5xf32>) {
        %0 = ng.sum %a axes [1, 2] : (tensor<3x1000x1001xf32>) -> tensor<3xf32>
        %1 = ng.sum %b axes [1, 2] : (tensor<3x1001x1000x5xf32>) -> tensor<3x5xf32>
        %2 = ng.scatter %x[%i], %u axis 0 {combine = "add"} : (tensor<70x5xf32>, tensor<200xui64>, tensor<200x5xf32>) -> tensor<70x5xf32>
        return %0, %1, %2 : tensor<3xf32>, tensor<3x5xf32>, tensor<70x5xf32> }""",
    "a kernel as long as may be": "(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"
    + "\n".join(
        f"        %{v}{n} = ng.{'maximum' if n % 2 else 'add'} %{v if n == 0 else f'{v}{n - 1}'}, %{'yx'[v == 'y']} : tensor<64x64xf32>"
        for v, count in (("x", 300), ("y", 230))
        for n in range(count)
    )
    + "\n        %r = ng.subtract %x299, %y229 : tensor<64x64xf32>\n        return %r : tensor<64x64xf32> }",
}
