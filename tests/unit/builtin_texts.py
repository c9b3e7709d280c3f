# SPDX-License-Identifier: Apache-2.0
"""Random texts of MLIR's builtin types, attributes and ops in generic form, as stock mlir-opt takes them. What they hold is
drawn by `random`, so a seed gives the same text everywhere."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

FLOATS = ("f16", "bf16", "f32", "f64", "tf32", "f80", "f128", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ")
COMPUTED = ("f16", "bf16", "f32", "f64", "f8E5M2", "f8E4M3FN")
WIDTHS = (1, 2, 3, 4, 7, 8, 16, 32, 33, 64, 65, 128, 200)
SIGNS = ("", "", "s", "u")
WORDS = ("a", "b1", "x.y", "_z", "i32", "true", "loc", "$odd", "a b", 'q"\\', "tab\t", "ä", "0")


class Texts:
    """Draws parts of a text."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.depth = 0

    def pick(self, *choices: Callable[[], str]) -> str:
        """One of several, simple ones where the text is deep already: those come first."""
        self.depth += 1
        most = len(choices) if self.depth < 5 else max(1, len(choices) // 3)
        made = choices[self.random.randrange(most)]()
        self.depth -= 1
        return made

    def some(self, one: Callable[[], str], least: int = 0, most: int = 3) -> list[str]:
        return [one() for _ in range(self.random.randint(least, most))]

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    # -- words

    def string(self) -> str:
        body = "".join(
            self.random.choice('ab "\\\n\t\x00\x7f{}<>,ä') for _ in range(self.random.randint(0, 6))
        )
        return quoted(body)

    def key(self) -> str:
        word = self.random.choice(WORDS)
        bare = word.replace(".", "").replace("_", "").isalnum() and word.isascii() and not word[0].isdigit()
        return word if bare else quoted(word)

    def symbol(self) -> str:
        def one() -> str:
            return "@" + self.random.choice(("a", "b.c", "_d", quoted("a b"), quoted("ä")))

        return "::".join(self.some(one, 1, 3))

    # -- types

    def scalar(self) -> str:
        return self.pick(
            lambda: f"{self.random.choice(SIGNS)}i{self.random.choice(WIDTHS)}",
            lambda: self.random.choice(FLOATS),
            lambda: "index",
        )

    def complex(self) -> str:
        return f"complex<{self.random.choice(('f32', 'f64', 'bf16', 'i32', 'i1'))}>"

    def foreign_type(self) -> str:
        return self.random.choice(
            (
                "!d.t",
                "!llvm.ptr",
                "!d.t<i32, 4 x f32>",
                "!llvm.func<void (i32, ...)>",
                "!d.t<a -> b ~ & $ ; | `x`>",
                '!d.t<"a > b", [1, {c}]>',
                "!d.t<%v @s ^b #x !y>",
            )
        )

    def shape(self, dynamic: bool, least: int = 0) -> str:
        def one() -> str:
            return "?" if dynamic and self.chance(4) else str(self.random.randint(least, 5))

        return "".join(f"{size}x" for size in self.some(one))

    def vector(self) -> str:
        sizes = self.shape(False, 1)
        if self.chance(4):
            sizes += f"[{self.random.choice((2, 4))}]x"
        return f"vector<{sizes}{self.scalar()}>"

    def tensor(self) -> str:
        element = self.pick(self.scalar, self.scalar, self.complex, self.foreign_type, self.vector)
        sizes = "*x" if self.chance(6) else self.shape(True)
        encoding = f", {self.encoding()}" if self.chance(5) and sizes != "*x" else ""
        return f"tensor<{sizes}{element}{encoding}>"

    def encoding(self) -> str:
        return self.pick(
            self.string, self.integer, lambda: "#d.x<1, ... -> ~>", lambda: "#d.x", self.dictionary
        )

    def memref(self) -> str:
        element = self.pick(self.scalar, self.scalar, self.complex, self.vector)
        if self.chance(6):
            return f"memref<*x{element}{self.space()}>"
        sizes = self.shape(True)
        rank = sizes.count("x")
        layout = ""
        if self.chance(3):

            def stride() -> str:
                return "?" if self.chance(3) else str(self.random.choice((-3, -1, 1, 2, 7)))

            strides = ", ".join(stride() for _ in range(rank))
            offset = self.random.choice(("", ", offset: ?", ", offset: 3", ", offset: -1"))
            layout = f", strided<[{strides}]{offset}>"
        elif rank == 2 and self.chance(3):
            layout = ", affine_map<(d0, d1) -> (d1 floordiv 4, d0, d1 mod 4)>"
        return f"memref<{sizes}{element}{layout}{self.space()}>"

    def space(self) -> str:
        choices = ("", "", "", ", 1", ", 3", ", 0", ", 2 : i32", ", 0 : i32", ', "shared"', ", {a}")
        return self.random.choice(choices)

    def function(self) -> str:
        results = self.some(self.type)
        return f"({', '.join(self.some(self.type))}) -> ({', '.join(results)})"

    def type(self) -> str:
        return self.pick(
            self.scalar,
            self.scalar,
            lambda: "none",
            self.tensor,
            self.vector,
            self.memref,
            self.complex,
            self.foreign_type,
            lambda: f"tuple<{', '.join(self.some(self.type))}>",
            self.function,
        )

    # -- attributes

    def integer(self) -> str:
        width, sign = self.random.choice(WIDTHS), self.random.choice(SIGNS)
        if width == 1 and not sign:
            return self.random.choice(("true", "false", "1 : i1", "-1 : i1"))
        low = 0 if sign == "u" else -(1 << (width - 1))
        high = (1 << (width if sign == "u" else width - 1)) - 1
        value = self.random.choice((low, high, 0, self.random.randint(low, high)))
        return f"{value} : {sign}i{width}"

    def number(self) -> str:
        return self.random.choice(("0.0", "-0.0", "1.0", "0.1", "-3.5e-2", "1.5e+01", "448.0"))

    def float(self) -> str:
        special = {"f16": "0x7C00", "bf16": "0xFF80", "f32": "0x7FC00001", "f64": "0xFFF0000000000000"}
        kind = self.random.choice(FLOATS)
        if kind not in COMPUTED:  # kept as spelled, so their numbers are ones that no type rounds
            return f"{self.random.choice(('0.0', '1.0', '-2.0', '1.5e+01'))} : {kind}"
        return f"{special[kind] if kind in special and self.chance(3) else self.number()} : {kind}"

    def dense(self) -> str:
        element = self.random.choice(
            ("i1", "si1", "ui1", "i4", "i8", "ui8", "i64", "index", "f16", "f32", "f8E5M2")
        )
        shape = self.random.choice(((), (0,), (1,), (3,), (2, 2), (2, 0), (1, 2, 1)))
        of = self.random.choice(("tensor", "tensor", "vector"))
        if of == "vector" and (0 in shape):
            of = "tensor"

        def one() -> str:
            if element in ("i1", "si1", "ui1"):
                return self.random.choice(("true", "false"))
            return self.number() if "f" in element else str(self.random.randint(0, 7))

        def listed(sizes: tuple[int, ...]) -> str:
            return f"[{', '.join(listed(sizes[1:]) for _ in range(sizes[0]))}]" if sizes else one()

        empty = 0 in shape
        body = "" if empty else one() if self.chance(2) else listed(shape)
        return f"dense<{body}> : {of}<{''.join(f'{n}x' for n in shape)}{element}>"

    def array(self) -> str:
        element = self.random.choice(("i1", "i8", "i16", "i32", "i64", "f32", "f64"))

        def one() -> str:
            if element == "i1":
                return self.random.choice(("true", "false"))
            return self.number() if element[0] == "f" else str(self.random.randint(-128, 127))

        values = self.some(one)
        return f"array<{element}{': ' if values else ''}{', '.join(values)}>"

    def other(self) -> str:
        return self.random.choice(
            (
                "unit",
                "affine_map<(d0, d1)[s0] -> (d0 + s0 * 2, d1 ceildiv 3)>",
                "affine_map<() -> ()>",
                "affine_set<(d0) : (d0 - 1 >= 0, d0 - 3 == 0)>",
                "strided<[?, 1, -1], offset: 4>",
                "#d.x",
                "#d.x<1, ... -> ~>",
                '#d.x<"a>", [b]>',
                "sparse<[[0, 1], [1, 0]], [1.0, 2.0]> : tensor<2x2xf32>",
                "dense<(1.0,2.0)> : tensor<2xcomplex<f32>>",
                'dense<["a", "b"]> : tensor<2x!d.string>',
                'dense<"a"> : tensor<2x!d.string>',
                'loc("file":1:2)',
                "loc(unknown)",
                'loc(callsite("f" at fused<"x">["g":3:4, "h":5:6]))',
            )
        )

    def dictionary(self) -> str:
        names = dict.fromkeys(self.some(self.key))
        return (
            f"{{{', '.join(name if self.chance(5) else f'{name} = {self.attribute()}' for name in names)}}}"
        )

    def attribute(self) -> str:
        return self.pick(
            self.integer,
            self.float,
            self.string,
            self.symbol,
            self.type,
            self.dense,
            self.array,
            self.other,
            lambda: f"{self.string()} : {self.scalar()}",
            lambda: f"[{', '.join(self.some(self.attribute))}]",
            self.dictionary,
        )

    # -- ops

    def op(self, indent: str = "  ") -> str:
        """An op that nothing knows, without operands."""
        text = f'{indent}"{self.random.choice(("d.op", "e.op", "d.x.y"))}"()'
        if self.chance(3):
            text += f" <{self.dictionary()}>"
        self.depth += 1
        if self.chance(4) and self.depth < 4:
            inner = "\n".join(self.some(lambda: self.op(indent + "  "), 1, 2))
            text += f" ({{\n{inner}\n{indent}}})"
        self.depth -= 1
        if self.chance(2):
            text += f" {self.dictionary()}"
        results = self.some(self.type, 0, 2)
        return f"{text} : () -> ({', '.join(results)})"

    def program(self) -> str:
        return "\n".join(self.some(self.op, 1, 4))


def quoted(text: str) -> str:
    """A string as MLIR writes it."""
    plain = "".join(
        chr(b) if 0x20 <= b < 0x7F and b not in b'"\\' else f"\\{b:02X}" for b in text.encode("utf-8")
    )
    return f'"{plain}"'
