# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of tokenizer.json, and what tokenizer_config.json and config.json say about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ...support.diagnostics import Limit, UserError
from ..decoders.tokens.pairs import ByteTokenizer, TextPairTokenizer
from ..decoders.tokens.splits import GPT2
from ..decoders.tokens.tokenizer import Tokenizer, Vocabulary
from ..gguf.vocabulary import STOPS
from .files import json_of

#: Numbers of tokens are below this, so that a table of them is bounded.
_MOST = 1 << 24


def tokenizer_of(folder: Path, config: Mapping[str, Any], size: int) -> tuple[Tokenizer | None, str | None]:
    """The tokenizer of a folder (None: it has none) and its template for conversations. Limit for a tokenizer that is not supported."""
    about = json_of(folder / "tokenizer_config.json") or {}
    template = about.get("chat_template")
    beside = folder / "chat_template.jinja"
    if not isinstance(template, str):
        template = beside.read_text(encoding="utf-8") if beside.is_file() else None
    found = json_of(folder / "tokenizer.json")
    if found is None:
        return None, template
    try:
        return _Reader(folder, found, about, config, size).tokenizer(), template
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, (UserError, Limit)):
            raise
        raise UserError(f"'{folder / 'tokenizer.json'}' is damaged: {type(error).__name__} {error}") from None


class _Reader:
    def __init__(
        self,
        folder: Path,
        found: Mapping[str, Any],
        about: Mapping[str, Any],
        config: Mapping[str, Any],
        size: int,
    ):
        self.folder, self.found, self.about, self.given, self.size = folder, found, about, config, size

    def tokenizer(self) -> Tokenizer:
        model = self.found["model"]
        if model.get("type", "BPE") != "BPE" or "merges" not in model:
            raise Limit(
                f"'{self.folder}' has a tokenizer of kind {model.get('type')!r}, which is not supported",
                hint="supported: BPE",
            )
        vocabulary = self.vocabulary(model)
        pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
        ranks = {cast("tuple[str, str]", pair): i for i, pair in reversed([*enumerate(pairs)])}
        if any(len(pair) != 2 for pair in ranks):
            raise UserError(f"'{self.folder}' has a merge that is not of two tokens")
        normal, splits = _steps(self.found.get("normalizer")), _steps(self.found.get("pre_tokenizer"))
        if any(step["type"] == "ByteLevel" for step in splits):
            return self.of_bytes(vocabulary, ranks, normal, splits, bool(model.get("ignore_merges")))
        return self.of_text(vocabulary, ranks, normal, splits)

    def of_bytes(
        self,
        vocabulary: Vocabulary,
        ranks: Mapping[tuple[str, str], int],
        normal: Sequence[Mapping[str, Any]],
        splits: Sequence[Mapping[str, Any]],
        whole: bool,
    ) -> ByteTokenizer:
        self._known(normal, ("NFC",))
        patterns: list[str] = []
        prefix = False
        for step in splits:
            match step["type"]:
                case "ByteLevel":
                    patterns += [GPT2] if step.get("use_regex", True) else []
                    prefix = prefix or bool(step.get("add_prefix_space"))
                case "Split" if (
                    step["behavior"] == "Isolated" and not step["invert"] and "Regex" in step["pattern"]
                ):
                    patterns.append(step["pattern"]["Regex"])
                case "Digits" if step["individual_digits"]:
                    patterns.append(r"\p{N}")
                case _:
                    self._refused(step)
        return ByteTokenizer(vocabulary, ranks, patterns, whole=whole, prefix=prefix, composed=bool(normal))

    def of_text(
        self,
        vocabulary: Vocabulary,
        ranks: Mapping[tuple[str, str], int],
        normal: Sequence[Mapping[str, Any]],
        splits: Sequence[Mapping[str, Any]],
    ) -> TextPairTokenizer:
        prefix, once, always = False, False, True
        for step in normal:
            match step["type"]:
                case "Prepend" if step["prepend"] == "\u2581":
                    prefix = True
                case "Replace" if step["pattern"] == {"String": " "} and step["content"] == "\u2581":
                    pass
                case _:
                    self._refused(step)
        for step in splits:
            match step["type"]:
                case "Metaspace" if not step.get("split", True):
                    scheme = step.get("prepend_scheme", "always")
                    prefix, once, always = scheme != "never", True, scheme == "always"
                case "Split" if step["pattern"] == {"String": " "}:
                    pass  # after the normalizer there are no spaces
                case _:
                    self._refused(step)
        return TextPairTokenizer(vocabulary, ranks, prefix=prefix, once=once, after_special=always)

    def _known(self, steps: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
        for step in steps:
            if step["type"] not in names:
                self._refused(step)

    def _refused(self, step: Mapping[str, Any]) -> None:
        raise Limit(
            f"'{self.folder}' has a tokenizer with the step {step['type']!r} as {dict(step)}, which is not supported"
        )

    def vocabulary(self, model: Mapping[str, Any]) -> Vocabulary:
        table: dict[str, int] = dict(model["vocab"])
        added: list[Mapping[str, Any]] = self.found.get("added_tokens") or []
        numbers = {**table, **{each["content"]: each["id"] for each in added}}
        if any(not isinstance(i, int) or not 0 <= i < _MOST for i in numbers.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"'{self.folder}' has numbers of tokens that are out of range")
        if max(numbers.values(), default=0) >= self.size:
            raise UserError(
                f"'{self.folder}' has a token {max(numbers.values())}, and embeddings for {self.size} tokens"
            )
        tokens = [""] * self.size
        for text, i in numbers.items():
            tokens[i] = text

        def those(key: str) -> frozenset[int]:
            return frozenset(each["id"] for each in added if each.get(key))

        begin, end = self.token("bos_token", numbers), self.token("eos_token", numbers)
        control = those("special")
        stops = {i for i in control if tokens[i] in STOPS}
        given: Any = self.given.get("eos_token_id")
        several = cast("list[Any]", given) if isinstance(given, list) else [given]
        stops |= {each for each in several if isinstance(each, int)}
        first = self.begins(numbers)
        return Vocabulary(
            tokens,
            control,
            frozenset(each["id"] for each in added) - control,
            first if first is not None else begin,
            end,
            first is not None,
            False,
            frozenset(stops | ({end} if end is not None else set())),
            numbers.get(str(model.get("unk_token"))),
            those("lstrip"),
            those("rstrip"),
        )

    def token(self, name: str, numbers: Mapping[str, int]) -> int | None:
        """A token that tokenizer_config.json names, else that config.json has the number of."""
        found: Any = self.about.get(name)
        found = cast("dict[str, Any]", found).get("content") if isinstance(found, dict) else found
        if isinstance(found, str):
            return numbers.get(found)
        number = self.given.get(f"{name}_id")
        return number if isinstance(number, int) and 0 <= number < self.size else None

    def begins(self, numbers: Mapping[str, int]) -> int | None:
        """The token that the tokenizer puts before a text."""
        for step in _steps(self.found.get("post_processor"), "processors"):
            for piece in step.get("single", ()) if step["type"] == "TemplateProcessing" else ():
                if "Sequence" in piece:
                    break
                return numbers.get(piece["SpecialToken"]["id"])
        return None


def _steps(found: Any, inner: str = "") -> list[Mapping[str, Any]]:
    """The steps of a sequence, or the one step that there is."""
    if found is None:
        return []
    if found["type"] == "Sequence":
        lists = [found[key] for key in (inner, "normalizers", "pretokenizers", "processors") if key in found]
        return [step for each in lists[:1] for step in each]
    return [found]
