# SPDX-License-Identifier: Apache-2.0
"""Tokenizers: merges by scores and by ranks, words, special tokens, and back to text."""

from __future__ import annotations

import unicodedata
from typing import Any

import gguf_files
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ngmlir as ng
from ngmlir.frontends.decoders.tokens.merging import merged
from ngmlir.frontends.decoders.tokens.pairs import ByteTokenizer, TextPairTokenizer, _byte_letters
from ngmlir.frontends.decoders.tokens.scores import ScoreTokenizer
from ngmlir.frontends.decoders.tokens.splits import GPT2, KINDS, compiled, kind_of, words
from ngmlir.frontends.decoders.tokens.tokenizer import Decoding, Tokenizer, Vocabulary

LETTERS = _byte_letters()
MERGES = [
    ("h", "e"),
    ("l", "l"),
    ("he", "ll"),
    ("hell", "o"),
    ("\u0120", "w"),
    ("o", "r"),
    ("\u0120w", "or"),
    ("\u00c3", "\u00a9"),
]


def of_bytes(**how: Any) -> ByteTokenizer:
    tokens = [*LETTERS, *(a + b for a, b in MERGES), "<|end|>", "<|mark|>", "hellx"]
    known = Vocabulary(tokens, frozenset([264]), frozenset([265]), begin=264, stops=frozenset([264]))
    return ByteTokenizer(known, {pair: i for i, pair in enumerate(MERGES)}, (GPT2,), **how)


def of_scores(**how: Any) -> ScoreTokenizer:
    tokens = gguf_files.vocabulary()
    scores = [-float(max(i - 258, 0)) for i in range(len(tokens))]
    known = Vocabulary(tokens, frozenset([1, 2]), begin=1, end=2, add_begin=True, unknown=0)
    return ScoreTokenizer(known, scores, hidden=[0], **how)


def slowly_merged(parts: list[str], rank: Any) -> list[str]:
    """The same by looking at all pairs again after each merge."""
    parts = [*parts]
    while True:
        found = [(r, i) for i in range(len(parts) - 1) if (r := rank(parts[i], parts[i + 1])) is not None]
        if not found:
            return parts
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@settings(max_examples=200, deadline=None)
@given(
    st.text("abc", max_size=14),
    st.dictionaries(st.text("abc", min_size=2, max_size=4), st.integers(0, 5), max_size=12),
)
def test_merges_are_those_of_the_best_pair_again_and_again(text: str, ranks: dict[str, int]) -> None:
    def rank(left: str, right: str) -> float | None:
        return ranks.get(left + right)

    assert merged([*text], rank) == slowly_merged([*text], rank)


def test_merges_by_rank() -> None:
    known = of_bytes()
    assert [known.vocabulary.tokens[t] for t in known.encode("hello world")] == [
        "hello",
        "\u0120wor",
        "l",
        "d",
    ]
    assert [known.vocabulary.tokens[t] for t in known.encode("\u00e9")] == ["\u00c3\u00a9"]
    assert [known.vocabulary.tokens[t] for t in known.encode("hellx")] == ["hell", "x"]
    assert [known.vocabulary.tokens[t] for t in of_bytes(whole=True).encode("hellx")] == ["hellx"]
    assert of_bytes(prefix=True).encode("world") == known.encode(" world")
    assert of_bytes(composed=True).encode("e\u0301") == known.encode("\u00e9")


def test_merges_by_score() -> None:
    known = of_scores()
    tokens = known.vocabulary.tokens
    assert [tokens[t] for t in known.encode("abc")] == ["<s>", "\u2581ab", "c"]
    assert [tokens[t] for t in of_scores(prefix=False).encode("abc cde", begin=False)] == [
        "abc",
        "\u2581",
        "cde",
    ]
    assert [tokens[t] for t in known.encode("\u00e9\u65e5", begin=False)] == [
        "\u2581",
        "\u00e9",
        "<0xE6>",
        "<0x97>",
        "<0xA5>",
    ]
    assert 3 + 0x41 not in known.encode("<0x41>")[:2]  # text that looks like a byte is text
    without = ScoreTokenizer(Vocabulary(["?", "a"], unknown=0), [0.0, 0.0], prefix=False)
    assert without.encode("aba") == [1, 0, 1]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_text_comes_back(text: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in text):
        return
    assert of_bytes().decode(of_bytes().encode(text, special=False), special=True) == text
    spaced = text.replace("\u2581", " ")
    assert of_scores().decode(of_scores().encode(spaced, special=False)) == spaced


def test_special_tokens() -> None:
    known = of_bytes()
    assert known.encode("hello<|end|><|mark|>hello") == [259, 264, 265, 259]
    assert known.encode("hello<|mark|>", special=False) == [259, 265]
    assert 264 not in known.encode("<|end|>", special=False)
    assert known.encode("hello", begin=True) == [264, 259]
    assert known.decode([264, 259, 265]) == "hello<|mark|>"
    assert known.decode([264, 259, 265], special=True) == "<|end|>hello<|mark|>"
    stripping = Vocabulary(known.vocabulary.tokens, strips_left=frozenset([264]), strips_right=frozenset([265]),
                           control=frozenset([264]), added=frozenset([265]))  # fmt: skip
    other = ByteTokenizer(stripping, known.ranks, known.patterns)
    assert other.encode("hello  <|end|> hello<|mark|>  hello") == [
        259,
        264,
        *known.encode(" hello"),
        265,
        259,
    ]
    # Text after a special token begins as text does.
    assert of_scores().encode("</s>a") == [1, 2, *of_scores().encode("a", begin=False)]
    assert of_scores().encode("") == [1]


def test_texts_of_pairs() -> None:
    tokens = ["<unk>", "\u2581", "a", "b", "\u2581a", "ab", "<0xC3>", "<0xA9>"]
    ranks = {("\u2581", "a"): 0, ("a", "b"): 1}

    def encoded(text: str, **how: Any) -> list[str]:
        made = TextPairTokenizer(Vocabulary(tokens, control=frozenset([0])), ranks, **how).encode(text)
        return [tokens[t] for t in made]

    assert encoded("ab") == ["\u2581a", "b"]
    assert encoded("ab", prefix=False) == ["ab"]
    assert encoded(" ab") == ["\u2581", "\u2581a", "b"]
    assert encoded(" ab", once=True) == ["\u2581a", "b"]
    assert encoded("b\u00e9", prefix=False) == ["b", "<0xC3>", "<0xA9>"]
    assert encoded("b<unk>ab", after_special=False) == ["\u2581", "b", "<unk>", "ab"]


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_the_whole_text(kind: str) -> None:
    text = "It's 12345 caf\u00e9s\u2003\u3000x\n\n  y\t\u0664\u0665!?<= \u65e5\u672c IT'LL\x1c.\r\n "
    made = words(text, kind_of(kind))
    assert "".join(made) == text and all(made)


def test_words() -> None:
    assert words("Hello world, it's 2024!\n\n  x", kind_of("gpt-2")) == [
        "Hello",
        " world",
        ",",
        " it",
        "'s",
        " 2024",
        "!",
        "\n\n ",
        " x",
    ]
    assert words("abc12345'LL  y\r\nz", kind_of("llama-bpe")) == [
        "abc",
        "123",
        "45",
        "'LL",
        " ",
        " y",
        "\r\n",
        "z",
    ]
    assert words("a12 b", kind_of("qwen2")) == ["a", "1", "2", " b"]
    assert words("HelloWorld", kind_of("gpt-4o")) == ["Hello", "World"]
    # \u0905\u0930\u094d\u0925 has a combining mark; one that ends a word there begins the next one elsewhere.
    assert words("\u0905\u0930\u094d\u0925 x1", kind_of("qwen35")) == ["\u0905\u0930\u094d\u0925", " x", "1"]
    assert words("\u0905\u0930\u094d\u0925", kind_of("qwen2")) == ["\u0905\u0930", "\u094d\u0925"]
    assert words("x = [1234,\n5]", kind_of("deepseek-v3")) == ["x", " =", " [", "123", "4", ",\n", "5", "]"]
    assert words("ab\u65e5\u672cx 12", kind_of("deepseek-llm")) == ["ab", "\u65e5\u672c", "x", " ", "12"]
    assert words("\u0561 b", kind_of("deepseek-llm")) == [
        "\u0561",
        " b",
    ]  # lower case, of a block it does not know
    assert words("it's\n12", kind_of("deepseek-coder")) == ["it", "'", "s", "\n", "1", "2"]
    assert words("a+=`b` 1234", kind_of("falcon")) == ["a", "+=`", "b", "`", " ", "123", "4"]
    assert words("a, b\u3002c(1", kind_of("viking")) == ["a", ",", " b", "\u3002", "c", "(", "1"]
    assert words("\u0664x \u2160", (r"\p{N}",)) == ["\u0664", "x ", "\u2160"]
    with pytest.raises(ng.Limit, match="by the method 'other'"):
        kind_of("other")


def test_classes_are_those_of_unicode() -> None:
    for name in ("L", "Lu", "N", "P", "M"):
        pattern = compiled(rf"\p{{{name}}}")
        for code in (*range(0x3000), 0x1D400, 0x1F600, 0x10FFFF):
            assert bool(pattern.fullmatch(chr(code))) == unicodedata.category(chr(code)).startswith(name)


def test_characters_appear_when_they_are_whole() -> None:
    known = of_bytes()
    decoding = Decoding(known)
    parts = [decoding.push(known.vocabulary.numbers[LETTERS[b]]) for b in "\U0001f600".encode()]
    assert parts == ["", "", "", "\U0001f600"] and decoding.rest() == ""
    decoding = Decoding(known)
    assert decoding.push(known.vocabulary.numbers[LETTERS[0xF0]]) == "" and decoding.rest() == "\ufffd"
    for token in (-1, len(known.vocabulary)):
        with pytest.raises(ng.UserError, match="is no token"):
            known.decode([token])


def test_tokenizers_are_tokenizers() -> None:
    assert isinstance(of_bytes(), Tokenizer) and isinstance(of_scores(), Tokenizer)
