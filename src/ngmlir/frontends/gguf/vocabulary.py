# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of GGUF files, from their metadata."""

from __future__ import annotations

from reprlib import repr as shortened
from typing import Any, TypeVar

import numpy as np

from ...support.diagnostics import Limit, UserError
from ..decoders.tokens.pairs import ByteTokenizer
from ..decoders.tokens.scores import ScoreTokenizer
from ..decoders.tokens.splits import kind_of
from ..decoders.tokens.tokenizer import Tokenizer, Vocabulary
from .container import Container

T = TypeVar("T")

_UNKNOWN, _CONTROL, _ADDED, _UNUSED = 2, 3, 4, 5
#: Kinds that begin with a token where the file does not say so.
_BEGINNING = (
    "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"
)  # fmt: skip
#: Kinds whose words are looked up whole before anything is merged.
_WHOLE = (*_BEGINNING, "glm4")
#: Special tokens of tokenizers by scores, where the file does not say which they are: those that SentencePiece gives them.
_USUAL = {"unknown": 0, "bos": 1, "eos": 2}
#: Tokens that end an answer, where the file does not say which do.
STOPS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "</s>")


def tokenizer_of(file: Container) -> Tokenizer | None:
    """The tokenizer of a file; None where it has none. UserError for metadata that is damaged, Limit for a kind that is not
    supported."""
    kind = _text(file, "tokenizer.ggml.model", "none")
    if kind in ("none", "no_vocab"):
        return None
    known = _vocabulary(file)
    if kind == "llama":
        scores = file.numbers("tokenizer.ggml.scores")
        if scores is None or len(scores) != len(known):
            raise UserError(f"'{file.path}' has {len(known)} tokens, and no score for each")
        if not np.isfinite(scores).all():
            raise UserError(f"'{file.path}' has scores of tokens that are not finite")
        hidden = np.flatnonzero(np.isin(_types(file, len(known)), (_UNKNOWN, _UNUSED))).tolist()
        prefix = _flag(file, "tokenizer.ggml.add_space_prefix", True)
        return ScoreTokenizer(known, scores.tolist(), prefix=prefix, hidden=hidden)
    if kind == "gpt2":
        split = _text(file, "tokenizer.ggml.pre", "default")
        return ByteTokenizer(
            known,
            _ranks(file),
            kind_of(split),
            whole=split in _WHOLE,
            prefix=_flag(file, "tokenizer.ggml.add_space_prefix", False),
        )
    raise Limit(
        f"'{file.path}' has a tokenizer of kind {kind!r}, which is not supported",
        hint="supported kinds: llama (scores), gpt2 (merges)",
    )


def _vocabulary(file: Container) -> Vocabulary:
    metadata = file.metadata
    tokens = file.strings("tokenizer.ggml.tokens")
    if not tokens:
        raise UserError(f"'{file.path}' has a tokenizer without tokens")
    types = _types(file, len(tokens))
    scored = metadata.get("tokenizer.ggml.model") == "llama"

    def number(key: str) -> int | None:
        found = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if found is None:
            usual = _USUAL.get(key) if scored else None
            return usual if usual is not None and usual < len(tokens) else None
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < len(tokens):
            raise UserError(
                f"'{file.path}' has {shortened(found)} for tokenizer.ggml.{key}_token_id, which is no token"
            )
        return found

    begin, end = number("bos"), number("eos")
    control = {int(i) for i in np.flatnonzero(types == _CONTROL)}
    stops = {found for key in ("eos", "eot", "eom") if (found := number(key)) is not None}
    stops |= {i for i in control if tokens[i] in STOPS}
    begins = scored or _text(file, "tokenizer.ggml.pre", "default") in _BEGINNING
    return Vocabulary(
        tokens,
        frozenset(control),
        frozenset(int(i) for i in np.flatnonzero(types == _ADDED)),
        begin,
        end,
        _flag(file, "tokenizer.ggml.add_bos_token", begins),
        _flag(file, "tokenizer.ggml.add_eos_token", False),
        frozenset(stops),
        number("unknown"),
    )


def _types(file: Container, count: int) -> np.ndarray[Any, Any]:
    """The kind of each of so many tokens; without any all are normal."""
    if "tokenizer.ggml.token_type" not in file.metadata:
        return np.ones(count, np.int32)
    found = file.numbers("tokenizer.ggml.token_type")
    if found is None or len(found) != count:
        raise UserError(f"'{file.path}' has {count} tokens, and not a type for each")
    return found


def _flag(file: Container, key: str, default: bool) -> bool:
    return _of(file, key, default, bool)


def _text(file: Container, key: str, default: str) -> str:
    return _of(file, key, default, str)


def _of(file: Container, key: str, default: T, kind: type[T]) -> T:
    found = file.metadata.get(key, default)
    if not isinstance(found, kind):
        raise UserError(f"'{file.path}' has {key} = {shortened(found)}, not of type {kind.__name__}")
    return found


def _ranks(file: Container) -> dict[tuple[str, str], int]:
    merges = file.strings("tokenizer.ggml.merges")
    if merges is None:
        raise UserError(f"'{file.path}' has a tokenizer of merges without merges")
    made: dict[tuple[str, str], int] = {}
    for rank, each in enumerate(merges):
        # A merge is two tokens; the first letter may be the space between them where tokens have spaces.
        left, _, right = each[1:].partition(" ")
        left = each[:1] + left
        if not right:
            raise UserError(
                f"'{file.path}' has {each!r} among the merges of its tokenizer, which is not two tokens"
            )
        made.setdefault((left, right), rank)
    return made
