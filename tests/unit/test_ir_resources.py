# SPDX-License-Identifier: Apache-2.0
"""Long constants stand behind the program, in MLIR's resource section."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.ir.core import Module
from ngmlir.ir.elements import ElementsAttr, elements
from ngmlir.ir.printer import to_text
from ngmlir.ir.types import TensorType, f32, i1
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError

PROGRAM = """func.func @main() -> tensor<{n}x{t}> {{
  %0 = ng.constant {literal} : tensor<{n}x{t}>
  return %0 : tensor<{n}x{t}>
}}
"""


def with_section(body: str, literal: str = "dense_resource<w>", n: int = 2, t: str = "f32") -> str:
    return PROGRAM.format(literal=literal, n=n, t=t) + body


def section(members: str) -> str:
    return "{-#\n  dialect_resources: {\n    builtin: {\n" + members + "\n    }\n  }\n#-}\n"


def constant_of(module: Module) -> ElementsAttr:
    value = module.ops[0].block.ops[0].attributes["value"]
    assert isinstance(value, ElementsAttr)
    return value


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "?", "i1", "i8", "u1", "u8"])
def test_long_constants_round_trip_once_each(dtype: str) -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, 200 * np.dtype(dtype).itemsize, dtype=np.uint8)
    array = (raw % 2).view("?") if dtype == "?" else raw.view(dtype)
    literal = elements(array)
    text = PROGRAM.format(n=200, t=literal.type.element, literal="dense<0>" if dtype[0] in "iu" else "dense<0.0>" if dtype[0] == "f" else "dense<false>")  # fmt: skip
    module = from_text(text)
    (function,) = module.ops
    constant, end = function.block.ops
    made = constant.rebuilt(attributes={"value": literal})
    block = function.block.emptied()
    block.ops += [
        made,
        constant.rebuilt(attributes={"value": elements(array.copy())}),
        end.rebuilt([made.results[0]]),
    ]
    module = module.with_ops([function.with_blocks(lambda _: block)])
    for generic in (False, True):
        printed = to_text(module, generic=generic)
        assert printed.count("dense_resource<constant_0>") == 2 and printed.count('"0x40000000') == 1
        back = from_text(printed)
        assert constant_of(back) == literal
        assert to_text(back, generic=generic) == printed


def test_what_others_write_is_read() -> None:
    # Another alignment, a quoted name, resources of other dialects and tools, comments, a trailing comma.
    text = with_section(
        """{-#
      // weights
      dialect_resources: {
        other: { blob: "0x08000000FF" },
        builtin: { "a b": "0x080000000000803F00000040", unused: "0x04000000" }
      },
      external_resources: { mlir_reproducer: { pipeline: "builtin.module(cse)", disable_threading: true } }
    #-}
    """,
        literal='dense_resource<"a b">',
    )
    np.testing.assert_array_equal(constant_of(from_text(text)).array(), np.array([1, 2], np.float32))


def test_equal_elements_become_one() -> None:
    module = from_text(with_section(section('      w: "0x040000000000803F0000803F"')))
    assert constant_of(module) == elements(np.ones(2, np.float32)) and constant_of(module).splat
    assert "dense<1.0>" in to_text(module)


@pytest.mark.parametrize(
    "body, message",
    [
        ("", "there is no resource 'w'"),
        (section('      w: "0x04000000"'), "resource 'w' has 0 bytes, but tensor<2xf32> has 8"),
        (section('      w: "0x040000"'), "does not begin with its alignment"),
        (section('      w: "0x0400000000000Z3F0000803F"'), "expected hexadecimal digits"),
        (section('      w: "040000000000803F"'), "expected hexadecimal digits"),
        (section("      w: 3.5"), "expected the hexadecimal digits of the resource 'w'"),
        (section('      w: "0x04000000",\n      w: "0x04000000"'), "given twice"),
        (section('      w "0x04000000"'), "expected ':' in the resource section"),
        ("{-#\n", "expected a name in the resource section"),
        ("{-# dialect_resources: {\n", "expected a name in the resource section"),
        ("{-# dialect_resources: { builtin: { w: \n", "expected the hexadecimal digits"),
        (
            section('      w: "0x040000000000803F0000803F"') + "func.func @g()",
            "expected the end of the text",
        ),
        (section('      w: "0x0400'), "expected a name, a string or"),
    ],
)
def test_bad_sections_are_answered_at_their_place(body: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        from_text(with_section(body), file="p.ngir")
    (found, *_) = caught.value.diagnostics
    assert found.location.file == "p.ngir" and found.location.line > 1


def test_elided_constants_are_seen_and_not_read() -> None:
    module = from_text(with_section(section('      w: "0x040000000000803F00000040"')))
    text = to_text(module, elide=1)
    assert "dense_resource<__elided__> : tensor<2xf32>" in text and "{-#" not in text
    assert "dense<[1.0, 2.0]>" in to_text(module, elide=2)
    with pytest.raises(UserError, match="were omitted"):
        from_text(text)


def test_booleans_are_zero_or_one() -> None:
    text = with_section(section('      w: "0x040000000002"'), t="i1")
    with pytest.raises(UserError, match="no i1"):
        from_text(text)
    assert constant_of(from_text(text.replace("0002", "0001"))) == elements(
        np.array([False, True]), TensorType((2,), i1)
    )


def test_one_op_alone_keeps_its_elements() -> None:
    module = from_text(PROGRAM.format(n=100, t="f32", literal="dense<0.0>"))
    op = (
        module.ops[0]
        .block.ops[0]
        .rebuilt(attributes={"value": elements(np.arange(100, dtype=np.float32), TensorType((100,), f32))})
    )
    assert 'dense<"0x' in to_text(op)
