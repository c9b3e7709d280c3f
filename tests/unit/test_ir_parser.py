# SPDX-License-Identifier: Apache-2.0
"""Text to module: every complaint has its place, and no text, however bad, is worse than a complaint."""

from __future__ import annotations

import random
import re
import time

import pytest
from examples import OPS, wrapped

from ngmlir.ir.attributes import FloatAttr, IntegerAttr, StringAttr, UnitAttr
from ngmlir.ir.core import UnregisteredOp, op_name
from ngmlir.ir.cursor import MAX_DEPTH
from ngmlir.ir.lexer import tokenize
from ngmlir.ir.types import MemRefType, TensorType, f32, i8
from ngmlir.ops import ng
from ngmlir.ops.words import from_text, to_text
from ngmlir.support.diagnostics import UserError

HEAD = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"


def complaint(text: str, **options: bool) -> str:
    """What the parser says, its first line."""
    with pytest.raises(UserError) as caught:
        from_text(text, file="f.ngir", **options)
    return str(caught.value).split("\n")[0]


#: Text, and the start of what is said about it.
BAD = (
    (HEAD + '  %s = "not closed\n}', '2:8: error: string is not closed on its line'),
    (HEAD + "  %y = ng.expp %x : tensor<4xf32>\n}", "2:8: error: unknown op 'ng.expp'"),
    (HEAD + "  return %z : tensor<4xf32>\n}", "2:10: error: value %z is not defined"),
    (HEAD + "  %y = ng.add %x %x : tensor<4xf32>\n}", "2:18: error: expected ',', found '%x'"),
    (HEAD + "  %y = ng.add %x, %x : tensor<5xf32>\n}", "2:15: error: value %x is tensor<4xf32>, but tensor<5xf32> is stated here"),
    (HEAD + "  %y = ng.add %x, %x : tensor<4xf33>\n}", "2:33: error: expected a type, found 'f33'"),
    (HEAD + "  return %x : tensor<4xf32>", "2:28: error: expected an op or '}', found the end of the text"),
    (HEAD + "  %x = ng.exp %x : tensor<4xf32>\n}", "2:3: error: value %x is defined twice"),
    (HEAD + "  %a, %b = ng.exp %x : tensor<4xf32>\n}", "2:3: error: ng.exp has 1 result, but 2 are named"),
    (HEAD + "  %a = ng.exp %x\n}", "3:1: error: expected ':' and the op's type, found '}'"),
    (HEAD + "  %a = ng.constant 1\n}", "3:1: error: expected ':' and the op's type, found '}'"),
    (HEAD + "  %a = ng.constant -1e5 : f32\n}", "2:22: error: expected ':' and the op's type, found 'e5'"),
    (HEAD + "  %a = ng.sum %x axes [x] : tensor<4xf32>\n}", "2:24: error: expected an integer, found 'x'"),
    (HEAD + "  \x01\n}", "2:3: error: unexpected character '\\x01'"),
    (HEAD + "  %\n}", "2:3: error: expected a name after '%'"),
    ("func.func @f() attributes {a = 1 : i8, a}", "1:40: error: attribute 'a' is given twice"),
    ("func.func @f() attributes {a = #x} {return}", "1:32: error: attribute alias #x is not defined"),
    ("func.func @f() attributes {a = [1, }", "1:36: error: expected an attribute, found '}'"),
    ("func.func @f(%x: !t) {return}", "1:18: error: type alias !t is not defined"),
    ("func.func @f(%x: f33) {return}", "1:18: error: expected a type, found 'f33'"),
    ("func.func @f(%x: tensor<4x3xf32, #ng.axes<N>>)", "1:18: error: 2 dimensions but 1 axis names"),
    ("func.func @f(%x: tensor<4x3xf32, #ng.axes<N, N>>)", "1:34: error: an axis name appears twice in one tensor"),
    ("func.func @f(%x: tensor<99999999999999999999xf32>)", "1:25: error: the shape has too many elements"),
    ("func.func @f(%x: tensor<4xtensor<3xf32>>)", "1:18: error: tensor<3xf32> cannot be an element type"),
    ("func.func @f(%x: vector<?xf32>)", "1:18: error: a vector has no dynamic dimensions"),
    ("func.func @f(%x: memref<4xf32, strided<[1, 2]>>)", "1:18: error: 1 dimensions but 2 strides"),
    ("func.func @f(%x: !d.t<<1>)", "1:22: error: '<' is not closed"),
    ("func.func @f(tensor<4xf32>) {return}", "1:29: error: a function with a body needs names"),
    ("%c = ng.constant 300 : i8", "1:18: error: 300 does not fit in i8"),
    ("%c = ng.constant -1 : ui8", "1:18: error: -1 does not fit in ui8"),
    ("%c = ng.constant 1.5 : i8", "1:18: error: expected an integer, found '1.5'"),
    ("%c = ng.constant 1.0e39 : f32", "1:18: error: 1.0e39 does not fit in f32"),
    ("%c = ng.constant 70000.0 : f16", "1:18: error: 70000.0 does not fit in f16"),
    ("%c = ng.constant 0x1FFFFFFFF : f32", "1:18: error: 0x1FFFFFFFF has more bits than f32"),
    ("%c = ng.constant 1.0 : f80", "1:18: error: there are no literals of type f80"),
    ("%c = ng.constant 1 : tensor<4xi8>", "1:18: error: tensor<4xi8> is not a number type"),
    ("%c = ng.constant dense<[1, 2, 3]> : tensor<2xi32>", "1:18: error: 3 elements given for tensor<2xi32>"),
    ("%c = ng.constant dense<[[1, 2], [3]]> : tensor<4xi32>", "1:36: error: rows of different shape"),
    ("%c = ng.constant dense<[[1, 2]]> : tensor<2x1xi32>", "1:18: error: elements of shape [1, 2] given for tensor<2x1xi32>"),
    ('%c = ng.constant dense<"0x010"> : tensor<2xi32>', "1:24: error: expected hexadecimal digits after 0x"),
    ("%c = ng.constant dense<1> : tensor<?xi32>", "1:18: error: dense<...> needs a static shape"),
    ("%c = ng.constant dense<1 : tensor<2xi32>", "1:23: error: '<' is not closed"),
    ('"foo.bar"() : () -> ()', "1:1: error: unknown op 'foo.bar'"),
    ('"ng.exp"(%a) : (f32) -> f32', "1:10: error: value %a is not defined"),
    ('"ng.iota"() : f32', "1:15: error: expected a function type"),
    ("{", "1:1: error: expected an op, found '{'"),
    ("func.func @f() {return}\n\ud800", "2:1: error: '\\ud800' is an incomplete UTF-16 surrogate pair"),
    ('"\ud800"() : () -> ()', "1:1: error: string is not closed on its line"),
    ("func.func @f(%c: i1) {\n^a:\n  return\n^a:\n  return\n}", "4:1: error: block ^a is defined twice"),
    ("func.func @f(%x: vector<0xf32>)", "1:18: error: a vector has no dimension of length 0"),
    ("#a = 1 : i32\n#a = 2 : i32", "2:1: error: alias #a is defined twice"),
    ("func.func private @f() loc(#nope)", "1:28: error: the location #nope is not defined"),
    ("#a = 1 : i8\nfunc.func private @f() loc(#a)", "2:28: error: the location #a is not defined"),
    ('func.func @f() attributes {"" = 1 : i8}', "1:28: error: an attribute needs a name"),
    ('"ng.constant"() <{value = 1 : i8}> {value = 2 : i8} : () -> i8', "1:36: error: attribute 'value' is given twice"),
    ("%c = ng.constant 255 : si8", "1:18: error: 255 does not fit in si8"),
    ("func.func private @f(memref<4xf32, strided<[-1]>>)", "1:22: error: memref<4xf32, strided<[-1]>> is not a type that ngmlir knows"),
    ("func.func private @f(memref<4xf32, 2 : i32>)", "1:22: error: memref<4xf32, 2 : i32> is not a type that ngmlir knows"),
    ("func.func private @f(!d.t<a ... b>)", "1:22: error: !d.t<a ... b> is not a type that ngmlir knows"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), BAD)
def test_complaints_have_a_place(text: str, wanted: str) -> None:
    assert complaint(text).startswith(f"f.ngir:{wanted}")


#: Text whose error has a note, and where the note stands and what it says.
NOTED = (
    ("%c = ng.constant 1 : i8\n%c = ng.constant 2 : i8", "1:1", "previously defined here"),
    (HEAD + "  %y = ng.exp %x : tensor<5xf32>\n}", "1:14", "previously defined here"),
    (HEAD + "  %y = ng.exp %z : tensor<4xf32>\n  %z = ng.constant 1 : i8\n}", "2:15", "previously used here"),
    ("#a = 1 : i32\n#a = 2 : i32", "1:1", "previously defined here"),
    ("func.func @f() {\n^a:\n  return\n^a:\n  return\n}", "2:1", "previously defined here"),
    ("func.func @f() {return}\nfunc.func @f() {return}", "1:1", "previously defined here"),
)


@pytest.mark.parametrize(("text", "where", "note"), NOTED)
def test_notes_say_what_stands_elsewhere(text: str, where: str, note: str) -> None:
    with pytest.raises(UserError) as caught:
        from_text(text, file="f.ngir")
    (said,) = caught.value.diagnostics[0].notes
    assert (str(said.location), said.message) == (f"f.ngir:{where}", note)


def test_a_byte_order_mark_is_no_text() -> None:
    text = "func.func private @f()"
    assert to_text(from_text("\ufeff" + text)) == to_text(from_text(text))
    assert complaint("\ufeff{") == "f.ngir:1:1: error: expected an op, found '{'"


def test_every_odd_character_is_found() -> None:
    """Reading goes on behind a character that starts no token."""
    with pytest.raises(UserError) as caught:
        from_text(HEAD + "  ~\n  %y = ng.exp %x & : tensor<4xf32>\n  return %x : tensor<4xf32>\n}")
    assert [d.message for d in caught.value.diagnostics] == [
        "unexpected character '~'",
        "unexpected character '&'",
    ]


def test_complaints_show_the_line_and_help() -> None:
    with pytest.raises(UserError) as caught:
        from_text("func.func @f(%x: f32) {\n\t%y = ng.expp %x : f32\n}", file="f.ngir")
    assert str(caught.value).split("\n")[1:] == [
        "  \t%y = ng.expp %x : f32",
        "  \t     ^^^^^^^",
        "hint: did you mean ng.exp?",
    ]
    with pytest.raises(UserError, match="did you mean %alpha"):
        from_text("func.func @f(%alpha: f32) {\n  %y = ng.exp %alpa : f32\n  return\n}")
    with pytest.raises(UserError, match=re.escape("a constant of tensor<2xi8> is dense<1>")):
        from_text("%c = ng.constant 1 : tensor<2xi8>")


def test_control_characters_are_not_sent_to_the_terminal() -> None:
    with pytest.raises(UserError) as caught:
        from_text("\x1b[31m \ud800 // \t\x07")
    assert str(caught.value).split("\n")[1] == "  \ufffd[31m \ufffd // \t\ufffd"


def test_long_lines_are_shown_in_part() -> None:
    text = "// " + "x" * 5000 + '"\nfunc.func @f() attributes {a = "' + "y" * 100_000
    with pytest.raises(UserError) as caught:
        from_text(text)
    message = str(caught.value)
    assert len(message) < 1000
    shown, caret = message.split("\n")[1:3]
    assert shown[caret.index("^")] == '"'


@pytest.mark.parametrize(
    "text",
    [
        "module {" * 3000,
        "func.func @f() attributes {a = " + "[" * 3000 + "]" * 3000 + "} {return}",
        "func.func @f() attributes {a = " + "{a = " * 3000 + "}",
        "func.func @f(%x: " + "(" * 3000 + ") -> ()" * 3000 + ") {return}",
        "%c = ng.constant dense<" + "[" * 3000 + "1" + "]" * 3000 + "> : tensor<1xi32>",
        "%c = ng.constant 1 : i32 loc(" + 'callsite("a" at ' * 3000,
        "func.func @f(%c: i1) {\n" + "ng.if %c {" * 3000,
        "func.func @f(%c: i1) {\n" + '"ng.if"(%c) ({' * 3000,
    ],
    ids=["modules", "arrays", "dictionaries", "types", "constants", "locations", "regions", "generic"],
)
def test_deep_nesting_is_refused_with_a_place(text: str) -> None:
    assert re.match(rf"f.ngir:\d+:\d+: error: nested deeper than {MAX_DEPTH} levels", complaint(text))


@pytest.mark.parametrize(
    "text",
    [
        '"' + "\\a" * 500_000,
        "%" * 500_000,
        '"' * 500_001,
        "0x" * 300_000,
        "((((" * 200_000,
        "//" + "x" * 2_000_000,
    ],
)
def test_bad_text_takes_linear_time(text: str) -> None:
    started = time.process_time()
    try:
        from_text(text)
    except UserError:
        pass
    assert time.process_time() - started < 5


def test_no_mutation_of_good_text_breaks_the_parser() -> None:
    """Words lost, doubled, swapped or cut: a module or a UserError, and a module prints and reads back."""
    rng = random.Random(7)
    texts = [wrapped(op) for op in OPS.values()]
    texts += [to_text(from_text(t), generic=True) for t in texts[::7]]
    words = sorted({t.text for text in texts for t in tokenize(text, len(text))[0] if t.text})
    words += [
        "0x7FC00000",
        "?",
        "-1",
        "9" * 30,
        "^bb7",
        "loc",
        "!tile.token",
        "f80",
        "f8E4M3FN",
        "si8",
        "i7",
        "#a",
        "none",
        "array",
    ]
    good = 0
    for _ in range(10_000):
        text = rng.choice(texts)
        tokens = tokenize(text, len(text))[0][:-1]
        token = rng.choice(tokens)
        new = rng.choice(
            ["", token.text * 2, token.text + " " + rng.choice(words), rng.choice(words), token.text[:-1]]
        )
        text = text[: token.start] + new + text[token.start + len(token.text) :]
        try:
            module = from_text(text)
        except UserError as error:
            assert error.diagnostics[0].location.known, text
            continue
        good += 1
        printed = to_text(module)
        assert to_text(from_text(printed)) == printed
    assert good > 50


def test_short_and_generic_spellings_mix() -> None:
    module = from_text(
        """
    // A comment.
    module @name attributes {x.note = "a"} {
      func.func private @g(tensor<4xf32>) -> tensor<4xf32>
      func.func @f(%x: tensor<4xf32> {ng.role = "input"}) -> (tensor<4xf32> {ng.role = "output"}) attributes {x.u} {
        %0 = "ng.exp"(%x) {x.extra = 3 : i8} : (tensor<4xf32>) -> tensor<4xf32>
        %1:2 = ng.if %c -> (tensor<4xf32>, tensor<4xf32>) {
          ng.yield %0, %x : tensor<4xf32>, tensor<4xf32>
        } else {
          ng.yield %x, %0 : tensor<4xf32>
        }
        %r = call @g(%1#1) : (tensor<4xf32>) -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
    }
    """.replace("%1:2", "%c = ng.constant true : i1\n        %1:2")
    )
    assert module.symbol == "name"
    declared, function = module.ops
    assert declared.attributes["sym_visibility"] is StringAttr("private")
    assert function.attributes["x.u"] is UnitAttr()
    exp = function.regions[0].block.ops[0]
    assert isinstance(exp, ng.ExpOp)
    assert exp.attributes["x.extra"] is IntegerAttr(3, i8)
    assert to_text(from_text(to_text(module))) == to_text(module)


def test_locations_are_those_of_the_text_or_stated() -> None:
    module = from_text(
        'func.func @f(%x: f32) -> f32 {\n  %y = ng.exp %x : f32\n  %z = ng.exp %y : f32 loc("model.py":7:3)\n  return %z : f32\n}',
        file="f.ngir",
    )
    y, z, _ = module.ops[0].regions[0].block.ops
    assert str(y.location) == "f.ngir:2:8" or str(y.location) == "f.ngir:2:3"
    assert str(z.location) == "model.py:7:3"
    again = from_text(to_text(module, locations=True), file="other")
    assert [o.location for o in again.walk()][1:] == [o.location for o in module.walk()][1:]


@pytest.mark.parametrize(
    "stated",
    [
        'callsite("a.py":1:2 at "b.py":3:4)',
        'fused["a.py":1:2, "b.py":3:4]',
        '"name"("a.py":1:2)',
        "#here",
        'fused<"x">[unknown, "a.py":1:2]',
    ],
)
def test_composite_locations(stated: str) -> None:
    module = from_text(f'#here = loc("a.py":1:2)\n%c = ng.constant 1 : i8 loc({stated})')
    assert str(module.ops[0].location) == "a.py:1:2"


def test_aliases() -> None:
    module = from_text(
        "!t = tensor<4x3xf32, #a>\n#b = 3 : i8".replace("#a", "#ng.axes<N, C>")
        + "\nfunc.func @f(%x: !t) attributes {x.n = #b} {return}"
    )
    argument = module.ops[0].regions[0].block.args[0].type
    assert isinstance(argument, TensorType)
    assert argument.axes == ("N", "C")
    assert module.ops[0].attributes["x.n"] is IntegerAttr(3, i8)


def test_types_as_mlir_spells_them() -> None:
    types = [
        "f32",
        "bf16",
        "i1",
        "si7",
        "ui64",
        "index",
        "none",
        "tensor<f32>",
        "tensor<0x?x3xi8>",
        "vector<4x8xf16>",
        "memref<?x4xf32>",
    ]
    types += [
        "memref<4x8xf32, strided<[16, 1], offset: 3>>",
        "memref<4xf32, strided<[?], offset: ?>, 3>",
        "memref<4xi8, 5>",
        "() -> ()",
    ]
    types += [
        "(f32, tensor<4xf32>) -> (f32, index)",
        "() -> (() -> f32)",
        "!d.t<4, [a]>",
        'tensor<4xf32, #ng.axes<"a b">>',
        "tensor<2xf32, #d.x<1>>",
        "complex<f32>",
        "tuple<tuple<>, tensor<2xf32>>",
        "tensor<*xf32>",
        "memref<*xi8, 3>",
        "vector<[4]xf32>",
        "vector<2x[8]xi1>",
        "tensor<0x?xcomplex<f64>>",
        "tensor<4x!d.t<(f32) -> f32>>",
        "memref<4xvector<2xf32>>",
        "memref<?xmemref<4xf32>>",
        "memref<4x8xf32, affine_map<(d0, d1) -> (d1 - 1, d0)>, 2 : i32>",
        "memref<4xf32, strided<[2], offset: ?>, #d.space<3>>",
        "!d<any thing>",
    ]
    for text in types:
        module = from_text(f"func.func private @f({text}) attributes {{x.t = {text}}}", unregistered=True)
        assert (
            to_text(module) == f"module {{\n  func.func private @f({text}) attributes {{x.t = {text}}}\n}}\n"
        )
    assert from_text("func.func private @f(memref< 4 x f32 , strided< [ 1 ] > , 3 : i64 >)").ops[
        0
    ].attributes["function_type"].type.inputs[0] is MemRefType((4,), f32, (1,), 0, 3)  # type: ignore[attr-defined]


def test_unknown_attributes_are_kept_when_asked() -> None:
    attributes = [
        "affine_map<(d0)[s0] -> (d0 floordiv 2 + s0)>",
        "affine_set<(d0) : (d0 - 1 >= 0, -d0 + 5 >= 0)>",
        "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>",
        "sparse<[[0]], [1.0]> : tensor<4xf32>",
        "strided<[1, 2], offset: 3>",
        "distinct[0]<unit>",
        "1.0 : f8E3M4",
        "dense<1.0> : tensor<3xf6E2M3FN>",
        '#d.x<{a = 1, b = "x>y"}>',
        "#d<x>",
    ]
    for text in attributes:
        whole = f"module {{\n  func.func private @f() attributes {{x.a = {text}, x.b = [{text}]}}\n}}\n"
        assert to_text(from_text(whole, unregistered=True)) == whole
        with pytest.raises(UserError):
            from_text(whole)


def test_aliases_in_what_is_kept_are_written_out() -> None:
    """Nothing else would remember what they stood for."""
    text = "#a = affine_map<(d0) -> (d0)>\n!t = tensor<4x!d.t<#a, tensor<2xf32, #a>>>\nfunc.func private @f(!t, memref<4xf32, #a>)"
    kept = "affine_map<(d0) -> (d0)>"
    wanted = f"@f(tensor<4x!d.t<{kept}, tensor<2xf32, {kept}>>>, memref<4xf32, {kept}>)"
    assert wanted in to_text(from_text(text, unregistered=True))


def test_an_alias_that_cannot_be_read_is_told_once() -> None:
    with pytest.raises(UserError) as caught:
        from_text(
            "!t = foo\n#a = [!t]\n#b = bar\nfunc.func private @f(!t) attributes {x.a = #b, x.b = #a}\nng.nothing"
        )
    messages = [d.message for d in caught.value.diagnostics]
    assert messages == [
        "expected a type, found 'foo'",
        "expected a type, found 'bar'",
        "unknown op 'ng.nothing'",
    ]


def test_unregistered_ops_are_kept_when_asked() -> None:
    text = '"foo.bar"() ({\n^bb0(%a: i1):\n  "x.jump"(%a)[^bb1, ^bb0] {n = 1 : i8} : (i1) -> ()\n^bb1:\n  "x.end"() : () -> ()\n}) : () -> ()'
    module = from_text(text, unregistered=True)
    assert isinstance(module.ops[0], UnregisteredOp)
    assert [op_name(o) for o in module.walk()][1:] == ["foo.bar", "x.jump", "x.end"]
    assert to_text(from_text(to_text(module), unregistered=True)) == to_text(module)


def test_values_may_be_used_before_they_are_defined() -> None:
    """In text; whether it dominates is the verifier's business."""
    text = "func.func @f() {\n  %b = ng.exp %a : f32\n  %a = ng.constant 1.0 : f32\n  return\n}"
    module = from_text(text, verify=False)
    b, a, _ = module.ops[0].regions[0].block.ops
    assert b.operands[0] is a.results[0]
    assert "does not dominate" in complaint(text)
    assert "was used as f32" in complaint(text.replace("1.0 : f32", "1 : i8"))


def test_floats_may_be_spelled_as_integers_or_bits() -> None:
    for text, bits in (
        ("1", 0x3F800000),
        ("-0.0", 0x80000000),
        ("0x7F800001", 0x7F800001),
        ("1.5e-3", 0x3AC49BA6),
    ):
        literal = from_text(f"%c = ng.constant {text} : f32").ops[0].attributes["value"]
        assert literal is FloatAttr(bits, f32)


def listed(numbers: str, element: str, count: int) -> bytes:
    (function,) = from_text(
        f"func.func @f() {{ %c = ng.constant dense<[{numbers}]> : tensor<{count}x{element}>\n return }}"
    ).ops
    return function.regions[0].blocks[0].ops[0].attributes["value"].data


@pytest.mark.parametrize(
    "element", "f16 f32 f64 bf16 f8E4M3FN i1 i4 i8 i16 i32 i64 ui8 ui16 ui32 ui64 index".split()
)
def test_numbers_of_a_list_are_those_read_one_by_one(element: str) -> None:
    """Numbers of a list are read at once, unless one of them has another spelling."""
    draw = random.Random(element)
    if "f" in element and element != "index":
        numbers = [
            "0.0",
            "-0.0",
            "1",
            "5.0e-8",
            "-2.5e-3",
            "0.1",
            "1.00048828125",
            *(str(draw.uniform(-9, 9)) for _ in range(20)),
        ]
        other = "0x1"
    else:
        width = 64 if element == "index" else int(element.strip("ui"))
        low, high = (0 if element[0] == "u" else -(1 << width - 1)), (1 << width) - 1
        high = high >> (element == "index")
        numbers = [str(n) for n in (low, high, 0, 1, *(draw.randint(low, high) for _ in range(20)))]
        other = "0x1"
    count = len(numbers)
    if element == "i1":
        numbers = [n if n in ("0", "1") else "true" for n in numbers]
    together, apart = (
        listed(", ".join(numbers), element, count),
        listed(", ".join([*numbers, other]), element, count + 1),
    )
    assert together == apart[: len(together)] and len(together) * (count + 1) == len(apart) * count


@pytest.mark.parametrize(
    ("numbers", "element", "wanted"),
    [
        ("1.0, 70000.0, 2.0", "f16", "1:47: error: 70000.0 does not fit in f16"),
        ("1, 256", "i8", "1:45: error: 256 does not fit in i8"),
        ("1, 2.5", "i32", "1:45: error: expected an integer, found '2.5'"),
        ("1, 1.0e400", "f64", "1:45: error: 1.0e400 does not fit in f64"),
        (f"1, {'9' * 5000}", "i64", "1:45: error: the number does not fit in i64"),
        ("1, 2,", "i32", ""),
        ("1 2", "i32", "1:44: error: expected ']', found '2'"),
        ("[1, 2], [3]", "i32", "1:53: error: rows of different shape, found ']'"),
    ],
)  # fmt: skip
def test_complaints_about_lists_have_a_place(numbers: str, element: str, wanted: str) -> None:
    if not wanted:
        assert len(listed(numbers, element, 2)) == 8
        return
    with pytest.raises(UserError, match=re.escape(wanted)):
        listed(numbers, element, 2)
