# SPDX-License-Identifier: Apache-2.0
"""The inner loops of products in low precision, as assembly: of each program the loop with the most products in it.

    python bench/inner_loops.py [--target cpu]

Programs: `bits` a f32 row by weights of 4 bits in blocks of 32 (sums of integers), `bytes` u8 by s8, `halves` bf16, `attention` f32.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]

import numpy as np  # noqa: E402

from ngmlir.compiler import emit_text  # noqa: E402
from ngmlir.frontends.decoders.formats import FORMATS  # noqa: E402
from ngmlir.frontends.decoders.weights import Weight  # noqa: E402
from ngmlir.ir.attributes import UnitAttr  # noqa: E402
from ngmlir.ir.core import Block, Module, module  # noqa: E402
from ngmlir.ir.types import TensorType, f32  # noqa: E402
from ngmlir.ops import func  # noqa: E402
from ngmlir.ops.builder import Builder, function  # noqa: E402
from ngmlir.ops.words import from_text  # noqa: E402
from ngmlir.passes.graph.integer_products import REASSOCIATES  # noqa: E402
from ngmlir.runtime.targets import resolve  # noqa: E402

PROGRAMS = {
    "bytes": """
func.func @main(%x: tensor<64x1024xui8>, %w: tensor<1024x512xi8>) -> tensor<64x512xi32> {
  %0 = ng.cast %x : (tensor<64x1024xui8>) -> tensor<64x1024xi32>
  %1 = ng.cast %w : (tensor<1024x512xi8>) -> tensor<1024x512xi32>
  %2 = ng.dot %0, %1 contract [1] x [0] : (tensor<64x1024xi32>, tensor<1024x512xi32>) -> tensor<64x512xi32>
  return %2 : tensor<64x512xi32>
}
""",
    "halves": """
func.func @main(%x: tensor<64x1024xbf16>, %w: tensor<1024x512xbf16>) -> tensor<64x512xf32> {
  %0 = ng.dot %x, %w contract [1] x [0] : (tensor<64x1024xbf16>, tensor<1024x512xbf16>) -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}
""",
    "attention": """
func.func @main(%q: tensor<8x512x64xf32>, %k: tensor<8x512x64xf32>, %v: tensor<8x512x64xf32>) -> tensor<8x512x64xf32> {
  %0 = ng.dot %q, %k contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<8x512x64xf32>, tensor<8x512x64xf32>) -> tensor<8x512x512xf32>
  %1 = ng.softmax %0 axes [2] : tensor<8x512x512xf32>
  %2 = ng.dot %1, %v contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<8x512x512xf32>, tensor<8x512x64xf32>) -> tensor<8x512x64xf32>
  return %2 : tensor<8x512x64xf32>
}
""",
}


def bits() -> Module:
    """One row by blocks of Q4_0."""
    draw, form = np.random.default_rng(0), FORMATS["Q4_0"]
    blocks = draw.integers(0, 128, (512 * 1024 // form.elements, form.bytes), dtype=np.uint8)
    block = Block([TensorType((1, 1024), f32)], ["x"])
    b = Builder(block)
    weight = Weight("weight", (512, 1024), form, blocks.reshape(-1).data).value(b)
    b.end(func.ReturnOp, b.dot(block.args[0], weight, lhs_contract=[1], rhs_contract=[1]))
    return module([function("main", block, {REASSOCIATES: UnitAttr()})])


_PRODUCT = re.compile(r"\bv?(pdpb|dpbf16|fmadd|pmadd)")


def loops(text: str) -> list[list[str]]:
    """The loops of an assembly text that have no other in them."""
    lines = [line.split("#")[0].rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line.strip() and not re.match(r"\s+\.", line)]
    places = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    found: list[list[str]] = []
    for i, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\S+)$", line)
        start = places.get(jump[1], i) if jump else i
        body = lines[start : i + 1]
        if start < i and not any(re.match(r"\s+j", each) for each in body[:-1]):
            found.append(body)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="cpu", help="a name that --target of ngopt takes")
    parser.add_argument("--only", default="", choices=["", "bits", *PROGRAMS])
    given = parser.parse_args()
    programs = {"bits": bits(), **{name: from_text(text) for name, text in PROGRAMS.items()}}
    for name, program in programs.items():
        if given.only in ("", name):
            made = loops(emit_text(program, resolve(given.target), "asm"))
            best = max(made, key=lambda body: sum(bool(_PRODUCT.search(line)) for line in body))
            count = sum(bool(_PRODUCT.search(line)) for line in best)
            print(f"{name}: {len(best) - 1} instructions, {count} of them products")
            print("\n".join(best), end="\n\n")


if __name__ == "__main__":
    main()
