# SPDX-License-Identifier: Apache-2.0
"""Text that people write who know MLIR's newest spellings, or other languages: it is read, or answered with what to write."""

from __future__ import annotations

import pytest

from ngmlir.ir.printer import to_text
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("%c = ng.constant dense<[1.0, nan]> : tensor<2xf32>", "expected a number, found 'nan'", "NaN is 0x7FC00000, infinity is 0x7F800000"),
        ("%c = ng.constant dense<-inf> : tensor<f16>", "expected a number, found '-'", "-infinity is 0xFC00 in f16"),
        ("%c = ng.constant dense<inf> : tensor<f8E4M3FN>", "found 'inf'", "bits say it: NaN is 0x7F in f8E4M3FN"),
        ("%c = ng.constant NaN : f32", "found 'NaN'", "NaN is 0x7FC00000"),
        ("%c = ng.constant dense<-0x7FC00000> : tensor<f32>", "has more bits than f32", ""),
        ("%c = ng.constant dense<0x1.8p3> : tensor<f32>", "unexpected character '.'", "0x3F800000 is 1.0 of f32"),
        ('%c = ng.constant dense<"0x0000803F00"> : tensor<2xf32>', "5 bytes given for tensor<2xf32>, which has 8", ""),
        ("/* why */", "expected an op", "comments begin with //"),
        ("# why\n", "expected a name after '#'", "comments begin with //"),
        ("func.func private @f(Tensor<4xf32>)", "found 'Tensor'", "did you mean tensor?"),
        ("func.func private @f(INDEX)", "found 'INDEX'", "did you mean index?"),
        ('"a.b"() : () -> ()', "unknown op 'a.b'", 'keeps ops of other dialects in generic form, "a.b"(...)'),
        ("linalg.generic {}", "unknown op 'linalg.generic'", "ng.transpose, ng.broadcast, ng.sum or ng.dot"),
        ("#m = affine_map<(d0) -> (d0)>", "affine_map<(d0) -> (d0)> is not an attribute", "ops here name dimensions by number"),
        ("#m = sparse<[], []> : tensor<0xf32>", "is not an attribute", "hint: ngopt --allow-unregistered-dialect accepts"),
    ],
)  # fmt: skip
def test_what_is_answered(text: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        from_text(text, file="f.ngir")
    assert (
        message in str(caught.value)
        and hint in str(caught.value)
        and str(caught.value).startswith("f.ngir:1:")
    )


def test_targets_of_branches_begin_no_block() -> None:
    with pytest.raises(UserError) as caught:
        from_text("func.func @f(%x: i1) {\n  cf.cond_br %x, ^a, ^b\n^a:\n  return\n^b:\n  return\n}")
    assert len(caught.value.diagnostics) == 1 and "ng.if" in str(caught.value)


def test_hexadecimal_numbers_may_be_negative() -> None:
    module = from_text("%c = ng.constant dense<[0xFF, -0x10]> : tensor<2xi32>\n%d = ng.constant -0x80 : i8")
    text = to_text(module)
    assert "dense<[255, -16]>" in text and "-128 : i8" in text


@pytest.mark.parametrize("end", ["to :9", "to 4:9"])
def test_ranges_of_locations_are_kept_by_their_beginning(end: str) -> None:
    module = from_text(f'func.func private @f() loc("a.py":3:4 {end})')
    assert 'loc("a.py":3:4)' in to_text(module, locations=True)
