# SPDX-License-Identifier: Apache-2.0
"""Programs that gather, with ops that compute the indices and that read the result: the gather is in the kernels of these, where it
can be."""

from __future__ import annotations

#: What is gathered, and what reads it -> a program.
FUSED_GATHERS = {
    "rows times numbers, and their sum": """(%t: tensor<50x33xf32>, %i: tensor<7xi64>, %e: tensor<7xf32>) -> (tensor<7x33xf32>, tensor<7xf32>) {
        %g = ng.gather %t[%i] axis 0 : (tensor<50x33xf32>, tensor<7xi64>) -> tensor<7x33xf32>
        %b = ng.broadcast %e dims [0] : (tensor<7xf32>) -> tensor<7x33xf32>
        %m = ng.multiply %g, %b : tensor<7x33xf32>
        %s = ng.sum %m axes [1] : (tensor<7x33xf32>) -> tensor<7xf32>
        return %m, %s : tensor<7x33xf32>, tensor<7xf32> }""",
    "sums of rows, forward and with a number in front": """(%t: tensor<50x70xf32>, %i: tensor<9x5xi32>) -> (tensor<9x70xf32>, tensor<70xf32>) {
        %g = ng.gather %t[%i] axis 0 : (tensor<50x70xf32>, tensor<9x5xi32>) -> tensor<9x5x70xf32>
        %s = ng.sum %g axes [1] : (tensor<9x5x70xf32>) -> tensor<9x70xf32>
        %x = ng.absolute %s : tensor<9x70xf32>
        %h = ng.gather %x[%i] axis 0 : (tensor<9x70xf32>, tensor<9x5xi32>) -> tensor<9x5x70xf32>
        %m = ng.max %h axes [0, 1] : (tensor<9x5x70xf32>) -> tensor<70xf32>
        return %s, %m : tensor<9x70xf32>, tensor<70xf32> }""",
    "an axis in the middle, whose neighbours are reduced": """(%t: tensor<4x20x6xf64>, %i: tensor<3xi64>) -> (tensor<3xf64>, tensor<3x6xf64>, tensor<4x3xf64>, tensor<4x18xf64>) {
        %g = ng.gather %t[%i] axis 1 : (tensor<4x20x6xf64>, tensor<3xi64>) -> tensor<4x3x6xf64>
        %a = ng.sum %g axes [0, 2] : (tensor<4x3x6xf64>) -> tensor<3xf64>
        %b = ng.sum %g axes [0] : (tensor<4x3x6xf64>) -> tensor<3x6xf64>
        %c = ng.max %g axes [2] : (tensor<4x3x6xf64>) -> tensor<4x3xf64>
        %r = ng.reshape %g : (tensor<4x3x6xf64>) -> tensor<4x18xf64>
        %n = ng.negative %r : tensor<4x18xf64>
        return %a, %b, %c, %n : tensor<3xf64>, tensor<3x6xf64>, tensor<4x3xf64>, tensor<4x18xf64> }""",
    "rows reduced over loops around and inside": """(%t: tensor<20x6xf32>, %i: tensor<3x5xi64>, %y: tensor<5xf32>) -> (tensor<5xf32>, tensor<3x5x6xf32>) {
        %g = ng.gather %t[%i] axis 0 : (tensor<20x6xf32>, tensor<3x5xi64>) -> tensor<3x5x6xf32>
        %x = ng.absolute %g : tensor<3x5x6xf32>
        %a = ng.max %x axes [0, 2] : (tensor<3x5x6xf32>) -> tensor<5xf32>
        %b = ng.broadcast %a dims [1] : (tensor<5xf32>) -> tensor<3x5x6xf32>
        %d = ng.subtract %x, %b : tensor<3x5x6xf32>
        return %a, %d : tensor<5xf32>, tensor<3x5x6xf32> }""",
    "indices that are computed, of what is read in order too": """(%t: tensor<40xf32>, %i: tensor<40xi32>) -> (tensor<40xf32>, tensor<40xf32>) {
        %two = ng.constant dense<2> : tensor<40xi32>
        %j = ng.multiply %i, %two : tensor<40xi32>
        %g = ng.gather %t[%j] axis 0 : (tensor<40xf32>, tensor<40xi32>) -> tensor<40xf32>
        %d = ng.subtract %t, %g : tensor<40xf32>
        %n = ng.negative %t : tensor<40xf32>
        %h = ng.gather %n[%j] axis 0 : (tensor<40xf32>, tensor<40xi32>) -> tensor<40xf32>
        %e = ng.add %h, %n : tensor<40xf32>
        return %d, %e : tensor<40xf32>, tensor<40xf32> }""",
    "a softmax of rows, and the element of each": """(%x: tensor<6x100xf32>, %i: tensor<6x1xi64>) -> (tensor<6x1xf32>, tensor<6x100xf32>) {
        %m = ng.max %x axes [1] : (tensor<6x100xf32>) -> tensor<6xf32>
        %b = ng.broadcast %m dims [0] : (tensor<6xf32>) -> tensor<6x100xf32>
        %d = ng.subtract %x, %b : tensor<6x100xf32>
        %e = ng.absolute %d : tensor<6x100xf32>
        %s = ng.sum %e axes [1] : (tensor<6x100xf32>) -> tensor<6xf32>
        %l = ng.log %s : tensor<6xf32>
        %c = ng.broadcast %l dims [0] : (tensor<6xf32>) -> tensor<6x100xf32>
        %r = ng.subtract %d, %c : tensor<6x100xf32>
        %g = ng.gather_elements %r[%i] axis 1 : (tensor<6x100xf32>, tensor<6x1xi64>) -> tensor<6x1xf32>
        %n = ng.negative %g : tensor<6x1xf32>
        return %n, %r : tensor<6x1xf32>, tensor<6x100xf32> }""",
    "elements along each axis": """(%x: tensor<3x17x5xi16>, %i: tensor<2x17x5xi8>, %j: tensor<3x4x5xi64>, %k: tensor<3x17x9xui8>) -> (tensor<2x17x5xi16>, tensor<3x5xi16>, tensor<3x17xi16>) {
        %a = ng.gather_elements %x[%i] axis 0 : (tensor<3x17x5xi16>, tensor<2x17x5xi8>) -> tensor<2x17x5xi16>
        %p = ng.negative %a : tensor<2x17x5xi16>
        %b = ng.gather_elements %x[%j] axis 1 : (tensor<3x17x5xi16>, tensor<3x4x5xi64>) -> tensor<3x4x5xi16>
        %q = ng.max %b axes [1] : (tensor<3x4x5xi16>) -> tensor<3x5xi16>
        %c = ng.gather_elements %x[%k] axis 2 : (tensor<3x17x5xi16>, tensor<3x17x9xui8>) -> tensor<3x17x9xi16>
        %r = ng.min %c axes [2] : (tensor<3x17x9xi16>) -> tensor<3x17xi16>
        return %p, %q, %r : tensor<2x17x5xi16>, tensor<3x5xi16>, tensor<3x17xi16> }""",
    "what a product adds to, and multiplies": """(%t: tensor<30x24xf32>, %i: tensor<20xi64>, %x: tensor<20x24xf32>, %w: tensor<24x24xf32>) -> (tensor<20x24xf32>, tensor<20x24xf32>) {
        %g = ng.gather %t[%i] axis 0 : (tensor<30x24xf32>, tensor<20xi64>) -> tensor<20x24xf32>
        %p = ng.dot %x, %w contract [1] x [0] : (tensor<20x24xf32>, tensor<24x24xf32>) -> tensor<20x24xf32>
        %s = ng.add %p, %g : tensor<20x24xf32>
        %n = ng.absolute %g : tensor<20x24xf32>
        %q = ng.dot %n, %w contract [1] x [0] : (tensor<20x24xf32>, tensor<24x24xf32>) -> tensor<20x24xf32>
        return %s, %q : tensor<20x24xf32>, tensor<20x24xf32> }""",
    "one index, and rows of one": """(%t: tensor<30x24xf32>, %u: tensor<1x30x1xf32>, %i: tensor<i64>, %j: tensor<4x1xi32>) -> (tensor<24xf32>, tensor<1x4x1x1xf32>) {
        %g = ng.gather %t[%i] axis 0 : (tensor<30x24xf32>, tensor<i64>) -> tensor<24xf32>
        %a = ng.absolute %g : tensor<24xf32>
        %h = ng.gather %u[%j] axis 1 : (tensor<1x30x1xf32>, tensor<4x1xi32>) -> tensor<1x4x1x1xf32>
        %b = ng.absolute %h : tensor<1x4x1x1xf32>
        return %a, %b : tensor<24xf32>, tensor<1x4x1x1xf32> }""",
    "columns of what is transposed, cut and padded": """(%t: tensor<30x9xbf16>, %i: tensor<14xi64>) -> (tensor<9x14xf32>, tensor<14x5xbf16>, tensor<14x9xbf16>) {
        %y = ng.transpose %t perm [1, 0] : (tensor<30x9xbf16>) -> tensor<9x30xbf16>
        %g = ng.gather %y[%i] axis 1 : (tensor<9x30xbf16>, tensor<14xi64>) -> tensor<9x14xbf16>
        %c = ng.cast %g : (tensor<9x14xbf16>) -> tensor<9x14xf32>
        %a = ng.absolute %c : tensor<9x14xf32>
        %s = ng.slice %t from [3, 1] to [27, 6] step [1, 1] : (tensor<30x9xbf16>) -> tensor<24x5xbf16>
        %h = ng.gather %s[%i] axis 0 : (tensor<24x5xbf16>, tensor<14xi64>) -> tensor<14x5xbf16>
        %b = ng.negative %h : tensor<14x5xbf16>
        %p = ng.pad %t low [2, 0] high [0, 0] : (tensor<30x9xbf16>) -> tensor<32x9xbf16>
        %k = ng.gather %p[%i] axis 0 : (tensor<32x9xbf16>, tensor<14xi64>) -> tensor<14x9xbf16>
        %d = ng.negative %k : tensor<14x9xbf16>
        return %a, %b, %d : tensor<9x14xf32>, tensor<14x5xbf16>, tensor<14x9xbf16> }""",
    "many short rows": """(%t: tensor<300x3xf32>, %i: tensor<70000xi32>, %e: tensor<3xf32>) -> (tensor<70000x3xf32>, tensor<70000x3xf32>, tensor<70000xf32>) {
        %g = ng.gather %t[%i] axis 0 : (tensor<300x3xf32>, tensor<70000xi32>) -> tensor<70000x3xf32>
        %b = ng.broadcast %e dims [1] : (tensor<3xf32>) -> tensor<70000x3xf32>
        %h = ng.gather %t[%i] axis 0 : (tensor<300x3xf32>, tensor<70000xi32>) -> tensor<70000x3xf32>
        %m = ng.multiply %h, %b : tensor<70000x3xf32>
        %s = ng.sum %m axes [1] : (tensor<70000x3xf32>) -> tensor<70000xf32>
        return %g, %m, %s : tensor<70000x3xf32>, tensor<70000x3xf32>, tensor<70000xf32> }""",
    "parts beside each other of what is read by index": """(%a: tensor<30x8xf32>, %b: tensor<30x8xf32>, %i: tensor<50xi64>) -> tensor<50x16xf32> {
        %c = ng.concatenate %a, %b axis 1 : (tensor<30x8xf32>, tensor<30x8xf32>) -> tensor<30x16xf32>
        %g = ng.gather %c[%i] axis 0 : (tensor<30x16xf32>, tensor<50xi64>) -> tensor<50x16xf32>
        %n = ng.negative %g : tensor<50x16xf32>
        return %n : tensor<50x16xf32> }""",
    "an index of what is widened, and of a sum": """(%a: tensor<24x16xf16>, %w: tensor<16x8xf16>, %i: tensor<9xi64>) -> (tensor<9x8xf32>, tensor<9xf32>) {
        %p = ng.dot %a, %w contract [1] x [0] : (tensor<24x16xf16>, tensor<16x8xf16>) -> tensor<24x8xf16>
        %c = ng.cast %p : (tensor<24x8xf16>) -> tensor<24x8xf32>
        %g = ng.gather %c[%i] axis 0 : (tensor<24x8xf32>, tensor<9xi64>) -> tensor<9x8xf32>
        %n = ng.negative %g : tensor<9x8xf32>
        %s = ng.sum %c axes [1] : (tensor<24x8xf32>) -> tensor<24xf32>
        %h = ng.gather %s[%i] axis 0 : (tensor<24xf32>, tensor<9xi64>) -> tensor<9xf32>
        %m = ng.absolute %h : tensor<9xf32>
        return %n, %m : tensor<9x8xf32>, tensor<9xf32> }""",
    "a few rows of what is transposed, and of its own numbers": """(%t: tensor<6x40x31xf32>, %i: tensor<2x3xi64>, %n: tensor<9x8xi32>) -> (tensor<31x2x3x6xf32>, tensor<40x31xf32>, tensor<8x9x9xi32>) {
        %p = ng.transpose %t perm [2, 1, 0] : (tensor<6x40x31xf32>) -> tensor<31x40x6xf32>
        %g = ng.gather %p[%i] axis 1 : (tensor<31x40x6xf32>, tensor<2x3xi64>) -> tensor<31x2x3x6xf32>
        %m = ng.negative %g : tensor<31x2x3x6xf32>
        %k = ng.constant dense<4> : tensor<i64>
        %h = ng.gather %p[%k] axis 2 : (tensor<31x40x6xf32>, tensor<i64>) -> tensor<31x40xf32>
        %f = ng.transpose %h perm [1, 0] : (tensor<31x40xf32>) -> tensor<40x31xf32>
        %u = ng.transpose %n perm [1, 0] : (tensor<9x8xi32>) -> tensor<8x9xi32>
        %v = ng.slice %u from [0, 0] to [1, 1] step [1, 1] : (tensor<8x9xi32>) -> tensor<1x1xi32>
        %w = ng.gather %u[%v] axis 0 : (tensor<8x9xi32>, tensor<1x1xi32>) -> tensor<1x1x9xi32>
        %z = ng.gather %u[%u] axis 0 : (tensor<8x9xi32>, tensor<8x9xi32>) -> tensor<8x9x9xi32>
        %x = ng.reshape %w : (tensor<1x1x9xi32>) -> tensor<9xi32>
        %y = ng.broadcast %x dims [2] : (tensor<9xi32>) -> tensor<8x9x9xi32>
        %q = ng.add %z, %y : tensor<8x9x9xi32>
        return %m, %f, %q : tensor<31x2x3x6xf32>, tensor<40x31xf32>, tensor<8x9x9xi32> }""",
}
