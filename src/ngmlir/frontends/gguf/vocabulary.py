# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of GGUF files, from their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...support.diagnostics import Limit, UserError
from ..decoders.tokens.pairs import ByteTokenizer
from ..decoders.tokens.scores import ScoreTokenizer
from ..decoders.tokens.splits import kind_of
from ..decoders.tokens.tokenizer import Tokenizer, Vocabulary
from .container import Container

_UNKNOWN, _CONTROL, _ADDED, _UNUSED = 2, 3, 4, 5
#: Kinds whose words are looked up whole before anything is merged.
_WHOLE = ("llama-bpe", "llama3", "llama-v3", "tekken")
#: Tokens that end an answer, where the file does not say which do.
STOPS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "</s>")


def tokenizer_of(file: Container) -> Tokenizer | None:
    """The tokenizer of a file; None where it has none. UserError for metadata that is damaged, Limit for a kind that is not
    supported."""
    metadata = file.metadata
    kind = metadata.get("tokenizer.ggml.model")
    if kind is None:
        return None
    known = _vocabulary(file)
    if kind == "llama":
        scores = file.numbers("tokenizer.ggml.scores")
        if scores is None or len(scores) != len(known):
            raise UserError(f"'{file.path}' has {len(known)} tokens, and no score for each")
        if not np.isfinite(scores).all():
            raise UserError(f"'{file.path}' has scores of tokens that are not finite")
        hidden = np.flatnonzero(np.isin(_types(file, len(known)), (_UNKNOWN, _UNUSED))).tolist()
        prefix = _flag(metadata, "tokenizer.ggml.add_space_prefix", True)
        return ScoreTokenizer(known, scores.tolist(), prefix=prefix, hidden=hidden)
    if kind == "gpt2":
        split = metadata.get("tokenizer.ggml.pre", "default")
        return ByteTokenizer(
            known,
            _ranks(file),
            kind_of(split if isinstance(split, str) else "?"),
            whole=split in _WHOLE,
            prefix=_flag(metadata, "tokenizer.ggml.add_space_prefix", False),
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

    def number(key: str) -> int | None:
        found = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if found is None:
            return None
        if not isinstance(found, int) or not 0 <= found < len(tokens):
            raise UserError(
                f"'{file.path}' has {found!r} for tokenizer.ggml.{key}_token_id, which is no token"
            )
        return found

    begin, end = number("bos"), number("eos")
    control = {int(i) for i in np.flatnonzero(types == _CONTROL)}
    stops = {found for key in ("eos", "eot", "eom") if (found := number(key)) is not None}
    stops |= {i for i in control if tokens[i] in STOPS}
    scored = metadata.get("tokenizer.ggml.model") == "llama"
    return Vocabulary(
        tokens,
        frozenset(control),
        frozenset(int(i) for i in np.flatnonzero(types == _ADDED)),
        begin,
        end,
        _flag(
            metadata, "tokenizer.ggml.add_bos_token", scored or metadata.get("tokenizer.ggml.pre") in _WHOLE
        ),
        _flag(metadata, "tokenizer.ggml.add_eos_token", False),
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


def _flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    return bool(metadata.get(key, default))


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
