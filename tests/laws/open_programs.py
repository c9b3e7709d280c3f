# SPDX-License-Identifier: Apache-2.0
"""Programs whose sizes follow from lengths that calls say, one for each way in which kernels meet them: as rows, columns and depth of
products, along reductions, scans and moves, alone and several at once."""

#: By name: a function of text.
OPEN: dict[str, str] = {
    "add": """
    func.func @main(%x: tensor<[N]x40xf32>, %y: tensor<40xf32>) -> tensor<[N]x40xf32> {
      %1 = ng.broadcast %y dims [1] : (tensor<40xf32>) -> tensor<[N]x40xf32>
      %r = ng.add %x, %1 : tensor<[N]x40xf32>
      return %r : tensor<[N]x40xf32>
    }
    """,
    "add1": """
    func.func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
      %r = ng.exp %x : tensor<[N]xf32>
      return %r : tensor<[N]xf32>
    }
    """,
    "addcols": """
    func.func @main(%x: tensor<7x[N]xf32>) -> tensor<7x[N]xf32> {
      %r = ng.exp %x : tensor<7x[N]xf32>
      return %r : tensor<7x[N]xf32>
    }
    """,
    "add2": """
    func.func @main(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> {
      %r = ng.exp %x : tensor<[M]x[N]xf32>
      return %r : tensor<[M]x[N]xf32>
    }
    """,
    "sumcols": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<40xf32> {
      %r = ng.sum %x axes [0] : (tensor<[N]x40xf32>) -> tensor<40xf32>
      return %r : tensor<40xf32>
    }
    """,
    "sumcols2": """
    func.func @main(%x: tensor<40x[N]xf32>) -> tensor<[N]xf32> {
      %r = ng.sum %x axes [0] : (tensor<40x[N]xf32>) -> tensor<[N]xf32>
      return %r : tensor<[N]xf32>
    }
    """,
    "sumrows": """
    func.func @main(%x: tensor<12x[N]xf32>) -> tensor<12xf32> {
      %r = ng.sum %x axes [1] : (tensor<12x[N]xf32>) -> tensor<12xf32>
      return %r : tensor<12xf32>
    }
    """,
    "sumrows2": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<[N]xf32> {
      %r = ng.sum %x axes [1] : (tensor<[N]x40xf32>) -> tensor<[N]xf32>
      return %r : tensor<[N]xf32>
    }
    """,
    "max2": """
    func.func @main(%x: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> {
      %r = ng.max %x axes [1] : (tensor<[M]x[N]xf32>) -> tensor<[M]xf32>
      return %r : tensor<[M]xf32>
    }
    """,
    "sumall": """
    func.func @main(%x: tensor<[M]x[N]xf32>) -> tensor<f32> {
      %r = ng.sum %x axes [0, 1] : (tensor<[M]x[N]xf32>) -> tensor<f32>
      return %r : tensor<f32>
    }
    """,
    "softmax_r": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<[N]x40xf32> {
      %m = ng.max %x axes [1] : (tensor<[N]x40xf32>) -> tensor<[N]xf32>
      %w = ng.broadcast %m dims [0] : (tensor<[N]xf32>) -> tensor<[N]x40xf32>
      %d = ng.subtract %x, %w : tensor<[N]x40xf32>
      %e = ng.exp %d : tensor<[N]x40xf32>
      %s = ng.sum %e axes [1] : (tensor<[N]x40xf32>) -> tensor<[N]xf32>
      %q = ng.broadcast %s dims [0] : (tensor<[N]xf32>) -> tensor<[N]x40xf32>
      %r = ng.divide %e, %q : tensor<[N]x40xf32>
      return %r : tensor<[N]x40xf32>
    }
    """,
    "softmax_c": """
    func.func @main(%x: tensor<12x[N]xf32>) -> tensor<12x[N]xf32> {
      %m = ng.max %x axes [1] : (tensor<12x[N]xf32>) -> tensor<12xf32>
      %w = ng.broadcast %m dims [0] : (tensor<12xf32>) -> tensor<12x[N]xf32>
      %d = ng.subtract %x, %w : tensor<12x[N]xf32>
      %e = ng.exp %d : tensor<12x[N]xf32>
      %s = ng.sum %e axes [1] : (tensor<12x[N]xf32>) -> tensor<12xf32>
      %q = ng.broadcast %s dims [0] : (tensor<12xf32>) -> tensor<12x[N]xf32>
      %r = ng.divide %e, %q : tensor<12x[N]xf32>
      return %r : tensor<12x[N]xf32>
    }
    """,
    "softmax_2": """
    func.func @main(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> {
      %m = ng.max %x axes [1] : (tensor<[M]x[N]xf32>) -> tensor<[M]xf32>
      %w = ng.broadcast %m dims [0] : (tensor<[M]xf32>) -> tensor<[M]x[N]xf32>
      %d = ng.subtract %x, %w : tensor<[M]x[N]xf32>
      %e = ng.exp %d : tensor<[M]x[N]xf32>
      %s = ng.sum %e axes [1] : (tensor<[M]x[N]xf32>) -> tensor<[M]xf32>
      %q = ng.broadcast %s dims [0] : (tensor<[M]xf32>) -> tensor<[M]x[N]xf32>
      %r = ng.divide %e, %q : tensor<[M]x[N]xf32>
      return %r : tensor<[M]x[N]xf32>
    }
    """,
    "softmax_0": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<[N]x40xf32> {
      %m = ng.max %x axes [0] : (tensor<[N]x40xf32>) -> tensor<40xf32>
      %w = ng.broadcast %m dims [1] : (tensor<40xf32>) -> tensor<[N]x40xf32>
      %d = ng.subtract %x, %w : tensor<[N]x40xf32>
      %e = ng.exp %d : tensor<[N]x40xf32>
      %s = ng.sum %e axes [0] : (tensor<[N]x40xf32>) -> tensor<40xf32>
      %q = ng.broadcast %s dims [1] : (tensor<40xf32>) -> tensor<[N]x40xf32>
      %r = ng.divide %e, %q : tensor<[N]x40xf32>
      return %r : tensor<[N]x40xf32>
    }
    """,
    "dot_rows": """
    func.func @main(%a: tensor<[N]x64xf32>, %b: tensor<64x48xf32>, %c: tensor<48xf32>) -> tensor<[N]x48xf32> {
      %r0 = ng.dot %a, %b contract [1] x [0] : (tensor<[N]x64xf32>, tensor<64x48xf32>) -> tensor<[N]x48xf32>
      %w = ng.broadcast %c dims [1] : (tensor<48xf32>) -> tensor<[N]x48xf32>
      %s = ng.add %r0, %w : tensor<[N]x48xf32>
      %r = ng.tanh %s : tensor<[N]x48xf32>
      return %r : tensor<[N]x48xf32>
    }
    """,
    "dot_rows_big": """
    func.func @main(%a: tensor<[N]x300xf32>, %b: tensor<300x500xf32>, %c: tensor<500xf32>) -> tensor<[N]x500xf32> {
      %r0 = ng.dot %a, %b contract [1] x [0] : (tensor<[N]x300xf32>, tensor<300x500xf32>) -> tensor<[N]x500xf32>
      %w = ng.broadcast %c dims [1] : (tensor<500xf32>) -> tensor<[N]x500xf32>
      %s = ng.add %r0, %w : tensor<[N]x500xf32>
      %r = ng.tanh %s : tensor<[N]x500xf32>
      return %r : tensor<[N]x500xf32>
    }
    """,
    "dot_cols": """
    func.func @main(%a: tensor<48x64xf32>, %b: tensor<64x[N]xf32>) -> tensor<48x[N]xf32> {
      %r = ng.dot %a, %b contract [1] x [0] : (tensor<48x64xf32>, tensor<64x[N]xf32>) -> tensor<48x[N]xf32>
      return %r : tensor<48x[N]xf32>
    }
    """,
    "dot_colsT": """
    func.func @main(%a: tensor<48x64xf32>, %b: tensor<[N]x64xf32>) -> tensor<48x[N]xf32> {
      %r = ng.dot %a, %b contract [1] x [1] : (tensor<48x64xf32>, tensor<[N]x64xf32>) -> tensor<48x[N]xf32>
      return %r : tensor<48x[N]xf32>
    }
    """,
    "dot_depth": """
    func.func @main(%a: tensor<[N]x64xf32>, %b: tensor<[N]x48xf32>) -> tensor<64x48xf32> {
      %r = ng.dot %a, %b contract [0] x [0] : (tensor<[N]x64xf32>, tensor<[N]x48xf32>) -> tensor<64x48xf32>
      return %r : tensor<64x48xf32>
    }
    """,
    "dot_depth2": """
    func.func @main(%a: tensor<64x[N]xf32>, %b: tensor<[N]x48xf32>) -> tensor<64x48xf32> {
      %r = ng.dot %a, %b contract [1] x [0] : (tensor<64x[N]xf32>, tensor<[N]x48xf32>) -> tensor<64x48xf32>
      return %r : tensor<64x48xf32>
    }
    """,
    "dot_all": """
    func.func @main(%a: tensor<[M]x[K]xf32>, %b: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> {
      %r = ng.dot %a, %b contract [1] x [0] : (tensor<[M]x[K]xf32>, tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32>
      return %r : tensor<[M]x[N]xf32>
    }
    """,
    "dot_vec": """
    func.func @main(%a: tensor<[N]x64xf32>, %b: tensor<64x1xf32>) -> tensor<[N]x1xf32> {
      %r = ng.dot %a, %b contract [1] x [0] : (tensor<[N]x64xf32>, tensor<64x1xf32>) -> tensor<[N]x1xf32>
      return %r : tensor<[N]x1xf32>
    }
    """,
    "dot_1row": """
    func.func @main(%a: tensor<1x64xf32>, %b: tensor<64x[N]xf32>) -> tensor<1x[N]xf32> {
      %r = ng.dot %a, %b contract [1] x [0] : (tensor<1x64xf32>, tensor<64x[N]xf32>) -> tensor<1x[N]xf32>
      return %r : tensor<1x[N]xf32>
    }
    """,
    "dot_1rowT": """
    func.func @main(%a: tensor<1x64xf32>, %b: tensor<[N]x64xf32>) -> tensor<1x[N]xf32> {
      %r = ng.dot %a, %b contract [1] x [1] : (tensor<1x64xf32>, tensor<[N]x64xf32>) -> tensor<1x[N]xf32>
      return %r : tensor<1x[N]xf32>
    }
    """,
    "dot_1depth": """
    func.func @main(%a: tensor<1x[N]xf32>, %b: tensor<[N]x64xf32>) -> tensor<1x64xf32> {
      %r = ng.dot %a, %b contract [1] x [0] : (tensor<1x[N]xf32>, tensor<[N]x64xf32>) -> tensor<1x64xf32>
      return %r : tensor<1x64xf32>
    }
    """,
    "bdot": """
    func.func @main(%a: tensor<[B]x[N]x64xf32>, %b: tensor<[B]x[M]x64xf32>) -> tensor<[B]x[N]x[M]xf32> {
      %r = ng.dot %a, %b contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<[B]x[N]x64xf32>, tensor<[B]x[M]x64xf32>) -> tensor<[B]x[N]x[M]xf32>
      return %r : tensor<[B]x[N]x[M]xf32>
    }
    """,
    "bdot2": """
    func.func @main(%a: tensor<[B]x[N]x[M]xf32>, %b: tensor<[B]x[M]x64xf32>) -> tensor<[B]x[N]x64xf32> {
      %r = ng.dot %a, %b contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<[B]x[N]x[M]xf32>, tensor<[B]x[M]x64xf32>) -> tensor<[B]x[N]x64xf32>
      return %r : tensor<[B]x[N]x64xf32>
    }
    """,
    "bdot4": """
    func.func @main(%a: tensor<4x[N]x64xf32>, %b: tensor<4x[N]x64xf32>) -> tensor<4x[N]x[N]xf32> {
      %r = ng.dot %a, %b contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<4x[N]x64xf32>, tensor<4x[N]x64xf32>) -> tensor<4x[N]x[N]xf32>
      return %r : tensor<4x[N]x[N]xf32>
    }
    """,
    "dot_bf16": """
    func.func @main(%a: tensor<[N]x64xbf16>, %b: tensor<64x48xbf16>, %c: tensor<48xbf16>) -> tensor<[N]x48xbf16> {
      %r0 = ng.dot %a, %b contract [1] x [0] : (tensor<[N]x64xbf16>, tensor<64x48xbf16>) -> tensor<[N]x48xbf16>
      %w = ng.broadcast %c dims [1] : (tensor<48xbf16>) -> tensor<[N]x48xbf16>
      %s = ng.add %r0, %w : tensor<[N]x48xbf16>
      %r = ng.tanh %s : tensor<[N]x48xbf16>
      return %r : tensor<[N]x48xbf16>
    }
    """,
    "dot_f64": """
    func.func @main(%a: tensor<[N]x64xf64>, %b: tensor<64x48xf64>, %c: tensor<48xf64>) -> tensor<[N]x48xf64> {
      %r0 = ng.dot %a, %b contract [1] x [0] : (tensor<[N]x64xf64>, tensor<64x48xf64>) -> tensor<[N]x48xf64>
      %w = ng.broadcast %c dims [1] : (tensor<48xf64>) -> tensor<[N]x48xf64>
      %s = ng.add %r0, %w : tensor<[N]x48xf64>
      %r = ng.tanh %s : tensor<[N]x48xf64>
      return %r : tensor<[N]x48xf64>
    }
    """,
    "transpose": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<40x[N]xf32> {
      %r = ng.transpose %x perm [1, 0] : (tensor<[N]x40xf32>) -> tensor<40x[N]xf32>
      return %r : tensor<40x[N]xf32>
    }
    """,
    "transpose2": """
    func.func @main(%x: tensor<[N]x4x8xf32>) -> tensor<4x[N]x8xf32> {
      %r = ng.transpose %x perm [1, 0, 2] : (tensor<[N]x4x8xf32>) -> tensor<4x[N]x8xf32>
      return %r : tensor<4x[N]x8xf32>
    }
    """,
    "reshape": """
    func.func @main(%x: tensor<[N]x[M]x8xf32>) -> tensor<[N*M]x8xf32> {
      %1 = ng.exp %x : tensor<[N]x[M]x8xf32>
      %r = ng.reshape %1 : (tensor<[N]x[M]x8xf32>) -> tensor<[N*M]x8xf32>
      return %r : tensor<[N*M]x8xf32>
    }
    """,
    "concat": """
    func.func @main(%x: tensor<[N]x40xf32>, %y: tensor<3x40xf32>) -> tensor<[N + 3]x40xf32> {
      %r = ng.concatenate %x, %y axis 0 : (tensor<[N]x40xf32>, tensor<3x40xf32>) -> tensor<[N + 3]x40xf32>
      return %r : tensor<[N + 3]x40xf32>
    }
    """,
    "concat1": """
    func.func @main(%x: tensor<40x[N]xf32>, %y: tensor<40x1xf32>) -> tensor<40x[N + 1]xf32> {
      %r = ng.concatenate %x, %y axis 1 : (tensor<40x[N]xf32>, tensor<40x1xf32>) -> tensor<40x[N + 1]xf32>
      return %r : tensor<40x[N + 1]xf32>
    }
    """,
    "iota": """
    func.func @main(%x: tensor<[N]xi64>) -> tensor<[N]xi64> {
      %1 = ng.iota {dimension = 0 : i64} : tensor<[N]xi64>
      %r = ng.add %x, %1 : tensor<[N]xi64>
      return %r : tensor<[N]xi64>
    }
    """,
    "cumsum": """
    func.func @main(%x: tensor<[N]x5xf32>) -> tensor<[N]x5xf32> {
      %r = ng.cumulative_sum %x axis 0 : tensor<[N]x5xf32>
      return %r : tensor<[N]x5xf32>
    }
    """,
    "cumsum1": """
    func.func @main(%x: tensor<5x[N]xf32>) -> tensor<5x[N]xf32> {
      %r = ng.cumulative_sum %x axis 1 : tensor<5x[N]xf32>
      return %r : tensor<5x[N]xf32>
    }
    """,
    "argmax": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<[N]xi64> {
      %r = ng.argmax %x axes [1] : (tensor<[N]x40xf32>) -> tensor<[N]xi64>
      return %r : tensor<[N]xi64>
    }
    """,
    "argmax1": """
    func.func @main(%x: tensor<40x[N]xf32>) -> tensor<40xi64> {
      %r = ng.argmax %x axes [1] : (tensor<40x[N]xf32>) -> tensor<40xi64>
      return %r : tensor<40xi64>
    }
    """,
    "argmax0": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<40xi64> {
      %r = ng.argmax %x axes [0] : (tensor<[N]x40xf32>) -> tensor<40xi64>
      return %r : tensor<40xi64>
    }
    """,
    "pad": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<[N + 3]x40xf32> {
      %r = ng.pad %x low [1, 0] high [2, 0] : (tensor<[N]x40xf32>) -> tensor<[N + 3]x40xf32>
      return %r : tensor<[N + 3]x40xf32>
    }
    """,
    "scan": """
    func.func @main(%x: tensor<[N]x8xf32>, %c: tensor<8xf32>) -> tensor<[N]x8xf32> {
      %l, %r = ng.scan iter(%s = %c) over(%i: tensor<8xf32> = %x) -> (tensor<8xf32>, tensor<[N]x8xf32>) {
        %n = ng.add %s, %i : tensor<8xf32>
        %t = ng.tanh %n : tensor<8xf32>
        ng.yield %t, %t : tensor<8xf32>, tensor<8xf32>
      }
      return %r : tensor<[N]x8xf32>
    }
    """,
    "gather": """
    func.func @main(%x: tensor<50x33xf32>, %i: tensor<[N]xi32>) -> tensor<[N]x33xf32> {
      %r = ng.gather %x[%i] axis 0 : (tensor<50x33xf32>, tensor<[N]xi32>) -> tensor<[N]x33xf32>
      return %r : tensor<[N]x33xf32>
    }
    """,
    "gather2": """
    func.func @main(%x: tensor<[N]x33xf32>, %i: tensor<5xi32>) -> tensor<5x33xf32> {
      %r = ng.gather %x[%i] axis 0 : (tensor<[N]x33xf32>, tensor<5xi32>) -> tensor<5x33xf32>
      return %r : tensor<5x33xf32>
    }
    """,
    "gatherE": """
    func.func @main(%x: tensor<[N]x7xf32>, %i: tensor<[N]x7xi32>) -> tensor<[N]x7xf32> {
      %r = ng.gather_elements %x[%i] axis 1 : (tensor<[N]x7xf32>, tensor<[N]x7xi32>) -> tensor<[N]x7xf32>
      return %r : tensor<[N]x7xf32>
    }
    """,
    "gather_times": """
    func.func @main(%x: tensor<50x33xf32>, %i: tensor<[N]xi32>, %e: tensor<[N]xf32>) -> (tensor<[N]x33xf32>, tensor<[N]xf32>) {
      %g = ng.gather %x[%i] axis 0 : (tensor<50x33xf32>, tensor<[N]xi32>) -> tensor<[N]x33xf32>
      %b = ng.broadcast %e dims [0] : (tensor<[N]xf32>) -> tensor<[N]x33xf32>
      %m = ng.multiply %g, %b : tensor<[N]x33xf32>
      %s = ng.sum %m axes [1] : (tensor<[N]x33xf32>) -> tensor<[N]xf32>
      return %m, %s : tensor<[N]x33xf32>, tensor<[N]xf32>
    }
    """,
    "gather_sum": """
    func.func @main(%x: tensor<[M]x33xf32>, %i: tensor<7x[N]xi64>) -> tensor<7x33xf32> {
      %g = ng.gather %x[%i] axis 0 : (tensor<[M]x33xf32>, tensor<7x[N]xi64>) -> tensor<7x[N]x33xf32>
      %s = ng.sum %g axes [1] : (tensor<7x[N]x33xf32>) -> tensor<7x33xf32>
      return %s : tensor<7x33xf32>
    }
    """,
    "gather_columns": """
    func.func @main(%x: tensor<6x[M]xf32>, %i: tensor<[N]xi64>) -> tensor<6x[N]xf32> {
      %g = ng.gather %x[%i] axis 1 : (tensor<6x[M]xf32>, tensor<[N]xi64>) -> tensor<6x[N]xf32>
      %r = ng.exp %g : tensor<6x[N]xf32>
      return %r : tensor<6x[N]xf32>
    }
    """,
    "gather_long_rows": """
    func.func @main(%x: tensor<9x[N]xf32>, %i: tensor<5xi64>) -> tensor<5x[N]xf32> {
      %g = ng.gather %x[%i] axis 0 : (tensor<9x[N]xf32>, tensor<5xi64>) -> tensor<5x[N]xf32>
      %r = ng.exp %g : tensor<5x[N]xf32>
      return %r : tensor<5x[N]xf32>
    }
    """,
    "scatter": """
    func.func @main(%x: tensor<200x3xf32>, %i: tensor<[N]xi32>, %u: tensor<[N]x3xf32>) -> tensor<200x3xf32> {
      %r = ng.scatter %x[%i], %u axis 0 {combine = "add"} : (tensor<200x3xf32>, tensor<[N]xi32>, tensor<[N]x3xf32>) -> tensor<200x3xf32>
      return %r : tensor<200x3xf32>
    }
    """,
    "slice": """
    func.func @main(%x: tensor<[N]x40xf32>) -> tensor<[N - 1]x40xf32> {
      %1 = ng.exp %x : tensor<[N]x40xf32>
      %r = ng.slice %1 from [1, 0] to [[N], 40] step [1, 1] : (tensor<[N]x40xf32>) -> tensor<[N - 1]x40xf32>
      return %r : tensor<[N - 1]x40xf32>
    }
    """,
    "causal": """
    func.func @main(%x: tensor<[N]x[N]xf32>) -> tensor<[N]x[N]xf32> {
      %i = ng.iota {dimension = 0 : i64} : tensor<[N]x[N]xi32>
      %j = ng.iota {dimension = 1 : i64} : tensor<[N]x[N]xi32>
      %c = ng.less %i, %j : (tensor<[N]x[N]xi32>, tensor<[N]x[N]xi32>) -> tensor<[N]x[N]xi1>
      %z = ng.constant dense<0.0> : tensor<[N]x[N]xf32>
      %r = ng.select %c, %z, %x : (tensor<[N]x[N]xi1>, tensor<[N]x[N]xf32>, tensor<[N]x[N]xf32>) -> tensor<[N]x[N]xf32>
      return %r : tensor<[N]x[N]xf32>
    }
    """,
    "dots": """
    func.func @main(%x: tensor<[N]x64xf32>, %w: tensor<64x80xf32>, %v: tensor<80x10xf32>) -> tensor<[N]x10xf32> {
      %a = ng.dot %x, %w contract [1] x [0] : (tensor<[N]x64xf32>, tensor<64x80xf32>) -> tensor<[N]x80xf32>
      %t = ng.tanh %a : tensor<[N]x80xf32>
      %r = ng.dot %t, %v contract [1] x [0] : (tensor<[N]x80xf32>, tensor<80x10xf32>) -> tensor<[N]x10xf32>
      return %r : tensor<[N]x10xf32>
    }
    """,
    "conv": """
    func.func @main(%x: tensor<[N]x6x12x12xf32>, %w: tensor<8x6x3x3xf32>) -> tensor<[N]x8x10x10xf32> {
      %1 = ng.windows %x axes [2, 3] steps [1, 1] dilations [1, 1] : (tensor<[N]x6x12x12xf32>) -> tensor<3x3x[N]x6x10x10xf32>
      %2 = ng.transpose %1 perm [3, 0, 1, 2, 4, 5] : (tensor<3x3x[N]x6x10x10xf32>) -> tensor<6x3x3x[N]x10x10xf32>
      %3 = ng.reshape %2 : (tensor<6x3x3x[N]x10x10xf32>) -> tensor<54x[100*N]xf32>
      %4 = ng.reshape %w : (tensor<8x6x3x3xf32>) -> tensor<8x54xf32>
      %5 = ng.dot %4, %3 contract [1] x [0] : (tensor<8x54xf32>, tensor<54x[100*N]xf32>) -> tensor<8x[100*N]xf32>
      %6 = ng.reshape %5 : (tensor<8x[100*N]xf32>) -> tensor<8x[N]x10x10xf32>
      %r = ng.transpose %6 perm [1, 0, 2, 3] : (tensor<8x[N]x10x10xf32>) -> tensor<[N]x8x10x10xf32>
      return %r : tensor<[N]x8x10x10xf32>
    }
    """,
    "conv_of_open_images": """
    func.func @main(%x: tensor<6x[N]x[M]xf32>, %w: tensor<8x54xf32>) -> tensor<8x[N]x[M]xf32> {
      %0 = ng.pad %x low [0, 1, 1] high [0, 1, 1] : (tensor<6x[N]x[M]xf32>) -> tensor<6x[N + 2]x[M + 2]xf32>
      %1 = ng.windows %0 axes [1, 2] steps [1, 1] dilations [1, 1] : (tensor<6x[N + 2]x[M + 2]xf32>) -> tensor<3x3x6x[N]x[M]xf32>
      %2 = ng.reshape %1 : (tensor<3x3x6x[N]x[M]xf32>) -> tensor<54x[N*M]xf32>
      %3 = ng.dot %w, %2 contract [1] x [0] : (tensor<8x54xf32>, tensor<54x[N*M]xf32>) -> tensor<8x[N*M]xf32>
      %r = ng.reshape %3 : (tensor<8x[N*M]xf32>) -> tensor<8x[N]x[M]xf32>
      return %r : tensor<8x[N]x[M]xf32>
    }
    """,
    "conv_inside_open_images": """
    func.func @main(%x: tensor<6x[N + 2]x[M + 2]xf32>, %w: tensor<8x54xf32>) -> tensor<8x[N*M]xf32> {
      %1 = ng.windows %x axes [1, 2] steps [1, 1] dilations [1, 1] : (tensor<6x[N + 2]x[M + 2]xf32>) -> tensor<3x3x6x[N]x[M]xf32>
      %2 = ng.reshape %1 : (tensor<3x3x6x[N]x[M]xf32>) -> tensor<54x[N*M]xf32>
      %r = ng.dot %w, %2 contract [1] x [0] : (tensor<8x54xf32>, tensor<54x[N*M]xf32>) -> tensor<8x[N*M]xf32>
      return %r : tensor<8x[N*M]xf32>
    }
    """,
    "conv_of_batches_of_open_images": """
    func.func @main(%x: tensor<6x2x[N]x[M]xf32>, %w: tensor<8x54xf32>) -> tensor<8x[2*N*M]xf32> {
      %0 = ng.pad %x low [0, 0, 1, 1] high [0, 0, 1, 1] : (tensor<6x2x[N]x[M]xf32>) -> tensor<6x2x[N + 2]x[M + 2]xf32>
      %1 = ng.windows %0 axes [2, 3] steps [1, 1] dilations [1, 1] : (tensor<6x2x[N + 2]x[M + 2]xf32>) -> tensor<3x3x6x2x[N]x[M]xf32>
      %2 = ng.reshape %1 : (tensor<3x3x6x2x[N]x[M]xf32>) -> tensor<54x[2*N*M]xf32>
      %r = ng.dot %w, %2 contract [1] x [0] : (tensor<8x54xf32>, tensor<54x[2*N*M]xf32>) -> tensor<8x[2*N*M]xf32>
      return %r : tensor<8x[2*N*M]xf32>
    }
    """,
    "conv_of_open_rows": """
    func.func @main(%x: tensor<[N]x[M]x6xf32>, %w: tensor<54x8xf32>) -> tensor<[N]x[M]x8xf32> {
      %0 = ng.pad %x low [1, 1, 0] high [1, 1, 0] : (tensor<[N]x[M]x6xf32>) -> tensor<[N + 2]x[M + 2]x6xf32>
      %1 = ng.windows %0 axes [0, 1] steps [1, 1] dilations [1, 1] : (tensor<[N + 2]x[M + 2]x6xf32>) -> tensor<3x3x[N]x[M]x6xf32>
      %2 = ng.transpose %1 perm [2, 3, 0, 1, 4] : (tensor<3x3x[N]x[M]x6xf32>) -> tensor<[N]x[M]x3x3x6xf32>
      %3 = ng.reshape %2 : (tensor<[N]x[M]x3x3x6xf32>) -> tensor<[N*M]x54xf32>
      %4 = ng.dot %3, %w contract [1] x [0] : (tensor<[N*M]x54xf32>, tensor<54x8xf32>) -> tensor<[N*M]x8xf32>
      %r = ng.reshape %4 : (tensor<[N*M]x8xf32>) -> tensor<[N]x[M]x8xf32>
      return %r : tensor<[N]x[M]x8xf32>
    }
    """,
    "windows_of_rows": """
    func.func @main(%x: tensor<[N]x8xf32>, %w: tensor<24x5xf32>) -> tensor<[N + 1]x5xf32> {
      %0 = ng.pad %x low [0, 0] high [3, 0] : (tensor<[N]x8xf32>) -> tensor<[N + 3]x8xf32>
      %1 = ng.windows %0 axes [0] steps [1] dilations [1] : (tensor<[N + 3]x8xf32>) -> tensor<3x[N + 1]x8xf32>
      %2 = ng.transpose %1 perm [1, 0, 2] : (tensor<3x[N + 1]x8xf32>) -> tensor<[N + 1]x3x8xf32>
      %3 = ng.reshape %2 : (tensor<[N + 1]x3x8xf32>) -> tensor<[N + 1]x24xf32>
      %r = ng.dot %3, %w contract [1] x [0] : (tensor<[N + 1]x24xf32>, tensor<24x5xf32>) -> tensor<[N + 1]x5xf32>
      return %r : tensor<[N + 1]x5xf32>
    }
    """,
    "weights_of_windows_of_rows": """
    func.func @main(%x: tensor<[N]x8xf32>, %g: tensor<[N + 1]x5xf32>) -> tensor<24x5xf32> {
      %0 = ng.pad %x low [0, 0] high [3, 0] : (tensor<[N]x8xf32>) -> tensor<[N + 3]x8xf32>
      %1 = ng.windows %0 axes [0] steps [1] dilations [1] : (tensor<[N + 3]x8xf32>) -> tensor<3x[N + 1]x8xf32>
      %2 = ng.transpose %1 perm [0, 2, 1] : (tensor<3x[N + 1]x8xf32>) -> tensor<3x8x[N + 1]xf32>
      %3 = ng.reshape %2 : (tensor<3x8x[N + 1]xf32>) -> tensor<24x[N + 1]xf32>
      %r = ng.dot %3, %g contract [1] x [0] : (tensor<24x[N + 1]xf32>, tensor<[N + 1]x5xf32>) -> tensor<24x5xf32>
      return %r : tensor<24x5xf32>
    }
    """,
    "weights_of_conv": """
    func.func @main(%x: tensor<[N]x6x6x3xf32>, %g: tensor<[16*N]x5xf32>) -> tensor<27x5xf32> {
      %1 = ng.windows %x axes [1, 2] steps [1, 1] dilations [1, 1] : (tensor<[N]x6x6x3xf32>) -> tensor<3x3x[N]x4x4x3xf32>
      %2 = ng.transpose %1 perm [0, 1, 5, 2, 3, 4] : (tensor<3x3x[N]x4x4x3xf32>) -> tensor<3x3x3x[N]x4x4xf32>
      %3 = ng.reshape %2 : (tensor<3x3x3x[N]x4x4xf32>) -> tensor<27x[16*N]xf32>
      %r = ng.dot %3, %g contract [1] x [0] : (tensor<27x[16*N]xf32>, tensor<[16*N]x5xf32>) -> tensor<27x5xf32>
      return %r : tensor<27x5xf32>
    }
    """,
    "weights_of_conv_of_open_images": """
    func.func @main(%x: tensor<[N]x[M]x3xf32>, %g: tensor<[N*M]x5xf32>) -> tensor<27x5xf32> {
      %0 = ng.pad %x low [1, 1, 0] high [1, 1, 0] : (tensor<[N]x[M]x3xf32>) -> tensor<[N + 2]x[M + 2]x3xf32>
      %1 = ng.windows %0 axes [0, 1] steps [1, 1] dilations [1, 1] : (tensor<[N + 2]x[M + 2]x3xf32>) -> tensor<3x3x[N]x[M]x3xf32>
      %2 = ng.transpose %1 perm [0, 1, 4, 2, 3] : (tensor<3x3x[N]x[M]x3xf32>) -> tensor<3x3x3x[N]x[M]xf32>
      %3 = ng.reshape %2 : (tensor<3x3x3x[N]x[M]xf32>) -> tensor<27x[N*M]xf32>
      %r = ng.dot %3, %g contract [1] x [0] : (tensor<27x[N*M]xf32>, tensor<[N*M]x5xf32>) -> tensor<27x5xf32>
      return %r : tensor<27x5xf32>
    }
    """,
    "scan_backwards": """
    func.func @main(%x: tensor<5x[N]xf32>) -> tensor<5x[N]xf32> {
      %r = ng.cumulative_sum %x axis 1 {reverse = true} : tensor<5x[N]xf32>
      return %r : tensor<5x[N]xf32>
    }
    """,
    "scan_columns_backwards": """
    func.func @main(%x: tensor<[N]x5xf32>) -> tensor<[N]x5xf32> {
      %r = ng.cumulative_sum %x axis 0 {reverse = true} : tensor<[N]x5xf32>
      return %r : tensor<[N]x5xf32>
    }
    """,
    "gather_known_rows": """
    func.func @main(%x: tensor<[N]x7xf32>) -> tensor<2x7xf32> {
      %i = ng.constant dense<[1, 0]> : tensor<2xi32>
      %r = ng.gather %x[%i] axis 0 : (tensor<[N]x7xf32>, tensor<2xi32>) -> tensor<2x7xf32>
      return %r : tensor<2x7xf32>
    }
    """,
    "gather_known_row": """
    func.func @main(%x: tensor<[N]x7xf32>) -> tensor<1x7xf32> {
      %i = ng.constant dense<[1]> : tensor<1xi32>
      %r = ng.gather %x[%i] axis 0 : (tensor<[N]x7xf32>, tensor<1xi32>) -> tensor<1x7xf32>
      return %r : tensor<1x7xf32>
    }
    """,
    "costly_twice": """
    func.func @main(%x: tensor<40x[N]xf32>) -> tensor<40xf32> {
      %e = ng.exp %x : tensor<40x[N]xf32>
      %s = ng.sum %e axes [1] : (tensor<40x[N]xf32>) -> tensor<40xf32>
      %b = ng.broadcast %s dims [0] : (tensor<40xf32>) -> tensor<40x[N]xf32>
      %d = ng.divide %e, %b : tensor<40x[N]xf32>
      %q = ng.multiply %d, %d : tensor<40x[N]xf32>
      %r = ng.sum %q axes [1] : (tensor<40x[N]xf32>) -> tensor<40xf32>
      return %r : tensor<40xf32>
    }
    """,
    "sum_of_whole_tiles": """
    func.func @main(%x: tensor<40x[N]x64xf32>) -> tensor<[64*N]xf32> {
      %l = ng.reshape %x : (tensor<40x[N]x64xf32>) -> tensor<40x[64*N]xf32>
      %r = ng.sum %l axes [0] : (tensor<40x[64*N]xf32>) -> tensor<[64*N]xf32>
      return %r : tensor<[64*N]xf32>
    }
    """,
    "sum_of_long_rows": """
    func.func @main(%x: tensor<[N]x5000xf32>) -> tensor<5000xf32> {
      %r = ng.sum %x axes [0] : (tensor<[N]x5000xf32>) -> tensor<5000xf32>
      return %r : tensor<5000xf32>
    }
    """,
    "turned_extent": """
    func.func @main(%x: tensor<5x[N]xf32>) -> tensor<5x[N]xf32> {
      %e = ng.extent {value = [3*N] : i64} : tensor<[N]x5xf32>
      %t = ng.transpose %x perm [1, 0] : (tensor<5x[N]xf32>) -> tensor<[N]x5xf32>
      %m = ng.divide %t, %e : tensor<[N]x5xf32>
      %a = ng.exp %m : tensor<[N]x5xf32>
      %r = ng.transpose %a perm [1, 0] : (tensor<[N]x5xf32>) -> tensor<5x[N]xf32>
      return %r : tensor<5x[N]xf32>
    }
    """,
    "sum_of_joined_rows": """
    func.func @main(%x: tensor<[N]x40xf32>, %y: tensor<[M]x40xf32>) -> tensor<[N + M]xf32> {
      %c = ng.concatenate %x, %y axis 0 : (tensor<[N]x40xf32>, tensor<[M]x40xf32>) -> tensor<[N + M]x40xf32>
      %r = ng.sum %c axes [1] : (tensor<[N + M]x40xf32>) -> tensor<[N + M]xf32>
      return %r : tensor<[N + M]xf32>
    }
    """,
    "pad_columns": """
    func.func @main(%x: tensor<7x[N]xf32>) -> tensor<7x[4*N]xf32> {
      %r = ng.pad %x low [0, 0] high [0, [3*N]] : (tensor<7x[N]xf32>) -> tensor<7x[4*N]xf32>
      return %r : tensor<7x[4*N]xf32>
    }
    """,
    "pad_twice": """
    func.func @main(%x: tensor<[N]xi64>, %m: tensor<[2*M + 1]xi64>) -> tensor<7x[N + M]x1xi64> {
      %y = ng.reshape %x : (tensor<[N]xi64>) -> tensor<1x[N]xi64>
      %z = ng.pad %y low [0, 0] high [6, [M]] : (tensor<1x[N]xi64>) -> tensor<7x[N + M]xi64>
      %r = ng.reshape %z : (tensor<7x[N + M]xi64>) -> tensor<7x[N + M]x1xi64>
      return %r : tensor<7x[N + M]x1xi64>
    }
    """,
    "argsort": """
    func.func @main(%x: tensor<[16*N]xi32>) -> tensor<[16*N]xi32> {
      %r = ng.argsort %x axis 0 : (tensor<[16*N]xi32>) -> tensor<[16*N]xi32>
      return %r : tensor<[16*N]xi32>
    }
    """,
    "argsort_select": """
    func.func @main(%x: tensor<3x[80*N]xi32>) -> tensor<3x40xi32> {
      %r = ng.argsort %x axis 1 : (tensor<3x[80*N]xi32>) -> tensor<3x40xi32>
      return %r : tensor<3x40xi32>
    }
    """,
    "argsort_first": """
    func.func @main(%x: tensor<[N]x5xi64>) -> tensor<2x5xi32> {
      %r = ng.argsort %x axis 0 : (tensor<[N]x5xi64>) -> tensor<2x5xi32>
      return %r : tensor<2x5xi32>
    }
    """,
    "segment_sum": """
    func.func @main(%x: tensor<[M]x40xf32>, %z: tensor<[N]xf32>) -> tensor<[N]x40xf32> {
      %i = ng.iota {dimension = 0 : i64} : tensor<[N + 1]xi32>
      %m = ng.extent {value = [M] : i64} : tensor<[N + 1]xi32>
      %n = ng.extent {value = [N] : i64} : tensor<[N + 1]xi32>
      %p = ng.multiply %i, %m : tensor<[N + 1]xi32>
      %o = ng.floor_divide %p, %n : tensor<[N + 1]xi32>
      %r = ng.segment_reduce %x by %o axis 0 : (tensor<[M]x40xf32>, tensor<[N + 1]xi32>) -> tensor<[N]x40xf32>
      return %r : tensor<[N]x40xf32>
    }
    """,
    "segment_columns": """
    func.func @main(%x: tensor<[M]x[K]xf32>, %z: tensor<[N]xf32>) -> tensor<[M]x[K]xf32> {
      %i = ng.iota {dimension = 0 : i64} : tensor<[N + 1]xi32>
      %m = ng.extent {value = [M] : i64} : tensor<[N + 1]xi32>
      %n = ng.extent {value = [N] : i64} : tensor<[N + 1]xi32>
      %p = ng.multiply %i, %m : tensor<[N + 1]xi32>
      %o = ng.floor_divide %p, %n : tensor<[N + 1]xi32>
      %s = ng.segment_reduce %x by %o axis 0 : (tensor<[M]x[K]xf32>, tensor<[N + 1]xi32>) -> tensor<[N]x[K]xf32>
      %r = ng.segment_expand %s by %o axis 0 : (tensor<[N]x[K]xf32>, tensor<[N + 1]xi32>) -> tensor<[M]x[K]xf32>
      return %r : tensor<[M]x[K]xf32>
    }
    """,
    "segments_of_numbers": """
    func.func @main(%x: tensor<[M]xf32>, %z: tensor<[N]xf32>) -> tensor<[M]xf32> {
      %i = ng.iota {dimension = 0 : i64} : tensor<[N + 1]xi32>
      %m = ng.extent {value = [M] : i64} : tensor<[N + 1]xi32>
      %n = ng.extent {value = [N] : i64} : tensor<[N + 1]xi32>
      %p = ng.multiply %i, %m : tensor<[N + 1]xi32>
      %o = ng.floor_divide %p, %n : tensor<[N + 1]xi32>
      %s = ng.segment_cumulative %x by %o axis 0 : (tensor<[M]xf32>, tensor<[N + 1]xi32>) -> tensor<[M]xf32>
      %t = ng.segment_reduce %s by %o axis 0 {combine = "max"} : (tensor<[M]xf32>, tensor<[N + 1]xi32>) -> tensor<[N]xf32>
      %u = ng.segment_expand %t by %o axis 0 : (tensor<[N]xf32>, tensor<[N + 1]xi32>) -> tensor<[M]xf32>
      %r = ng.subtract %s, %u : tensor<[M]xf32>
      return %r : tensor<[M]xf32>
    }
    """,
    "rows_put_in_order": """
    func.func @main(%x: tensor<[N]x3xf32>, %y: tensor<[N]xi32>) -> tensor<[N]x3xf32> {
      %a = ng.argsort %y axis 0 : (tensor<[N]xi32>) -> tensor<[N]xi32>
      %r = ng.scatter %x[%a], %x axis 0 {combine = "set"} : (tensor<[N]x3xf32>, tensor<[N]xi32>, tensor<[N]x3xf32>) -> tensor<[N]x3xf32>
      return %r : tensor<[N]x3xf32>
    }
    """,
    "columns_side_by_side": """
    func.func @main(%x: tensor<4x[N]xi64>, %y: tensor<[N]xi64>) -> tensor<[N]x4xi64> {
      %t = ng.transpose %x perm [1, 0] : (tensor<4x[N]xi64>) -> tensor<[N]x4xi64>
      %b = ng.broadcast %y dims [0] : (tensor<[N]xi64>) -> tensor<[N]x4xi64>
      %r = ng.add %t, %b : tensor<[N]x4xi64>
      return %r : tensor<[N]x4xi64>
    }
    """,
    "dot_of_all": """
    func.func @main(%x: tensor<[N]x4xf32>, %y: tensor<[N]x4xf32>) -> tensor<f32> {
      %r = ng.dot %x, %y contract [0, 1] x [0, 1] : (tensor<[N]x4xf32>, tensor<[N]x4xf32>) -> tensor<f32>
      return %r : tensor<f32>
    }
    """,
    "dot_of_vectors": """
    func.func @main(%x: tensor<[N]xi64>, %y: tensor<[N]xi64>) -> tensor<i64> {
      %r = ng.dot %x, %y contract [0] x [0] : (tensor<[N]xi64>, tensor<[N]xi64>) -> tensor<i64>
      return %r : tensor<i64>
    }
    """,
    "dot_of_short_rows": """
    func.func @main(%x: tensor<[N]xf32>, %y: tensor<5x[N]xf32>) -> tensor<5xf32> {
      %r = ng.dot %x, %y contract [0] x [1] : (tensor<[N]xf32>, tensor<5x[N]xf32>) -> tensor<5xf32>
      return %r : tensor<5xf32>
    }
    """,
    "border_pad": """
    func.func @main(%x: tensor<2x[N]x[M]xf32>) -> tensor<2x[N + 1]x[M + 2]xf32> {
      %r = ng.border_pad %x low [0, 0, 1] high [0, 1, 1] {border = "symmetric"} : (tensor<2x[N]x[M]xf32>) -> tensor<2x[N + 1]x[M + 2]xf32>
      return %r : tensor<2x[N + 1]x[M + 2]xf32>
    }
    """,
    "border_pad1": """
    func.func @main(%x: tensor<[N]xf32>) -> tensor<[N + 4]xf32> {
      %r = ng.border_pad %x low [3] high [1] {border = "edge"} : (tensor<[N]xf32>) -> tensor<[N + 4]xf32>
      return %r : tensor<[N + 4]xf32>
    }
    """,
    "decoded": """
    func.func @main(%x: tensor<[N]x64xf32>) -> (tensor<[N]x5xf32>, tensor<[N]x5xf32>) attributes {ng.reassoc} {
      %i = ng.iota {dimension = 0 : i64} : tensor<5x64xi8>
      %j = ng.iota {dimension = 1 : i64} : tensor<5x64xi8>
      %q = ng.subtract %j, %i : tensor<5x64xi8>
      %h = ng.cast %q : (tensor<5x64xi8>) -> tensor<5x64xf16>
      %0 = ng.cast %h : (tensor<5x64xf16>) -> tensor<5x64xf32>
      %1 = ng.cast %q : (tensor<5x64xi8>) -> tensor<5x64xf32>
      %s = ng.constant dense<[0.5, 0.25, 1.0, 2.0, -0.125]> : tensor<5xf32>
      %2 = ng.broadcast %s dims [0] : (tensor<5xf32>) -> tensor<5x64xf32>
      %3 = ng.multiply %1, %2 : tensor<5x64xf32>
      %y = ng.dot %x, %0 contract [1] x [1] : (tensor<[N]x64xf32>, tensor<5x64xf32>) -> tensor<[N]x5xf32>
      %z = ng.dot %x, %3 contract [1] x [1] : (tensor<[N]x64xf32>, tensor<5x64xf32>) -> tensor<[N]x5xf32>
      return %y, %z : tensor<[N]x5xf32>, tensor<[N]x5xf32>
    }
    """,
    "bytes": """
    func.func @main(%x: tensor<[N]x[M]xui8>) -> tensor<[M*N]xi8> {
      %0 = ng.reshape %x : (tensor<[N]x[M]xui8>) -> tensor<[M*N]xui8>
      %1 = ng.cast %0 : (tensor<[M*N]xui8>) -> tensor<[M*N]xf32>
      %2 = ng.sin %1 : tensor<[M*N]xf32>
      %3 = ng.constant dense<1.0e+2> : tensor<[M*N]xf32>
      %4 = ng.multiply %2, %3 : tensor<[M*N]xf32>
      %r = ng.cast %4 : (tensor<[M*N]xf32>) -> tensor<[M*N]xi8>
      return %r : tensor<[M*N]xi8>
    }
    """,
    "bytes_of_table": """
    func.func @main(%x: tensor<[N]xui8>, %i: tensor<[M]xui8>) -> tensor<[M]xui8> {
      %r = ng.gather %x[%i] axis 0 : (tensor<[N]xui8>, tensor<[M]xui8>) -> tensor<[M]xui8>
      return %r : tensor<[M]xui8>
    }
    """,
}
