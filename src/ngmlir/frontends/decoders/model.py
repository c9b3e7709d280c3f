# SPDX-License-Identifier: Apache-2.0
"""A language model: a decoder, its tokenizer and its template for conversations."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from ...runtime.threads import checked_threads
from ...support.diagnostics import UserError
from ...support.progress import Progress
from .config import DecoderConfig, DecoderWeights
from .programs import Key, Programs
from .sampling import Sampler, Sampling
from .session import Session
from .templates import Messages, prompt_of
from .tokens.tokenizer import Decoding, Tokenizer

#: The default of the most tokens of an answer.
MOST = 256


class LanguageModel:
    """A model that was read; programs are compiled when they are first needed.

    `config` has its numbers, `tokenizer` (None: the file has none) makes tokens of text, `template` prompts of conversations.
    """

    def __init__(
        self,
        config: DecoderConfig,
        weights: DecoderWeights,
        tokenizer: Tokenizer | None = None,
        template: str | None = None,
        *,
        context: int | None = None,
        threads: int | None = None,
    ):
        self.config, self.weights, self.tokenizer, self.template = config, weights, tokenizer, template
        #: How many tokens a session has room for.
        self.context = checked_context(config.context if context is None else context)
        self.threads = None if threads is None else checked_threads(threads)
        self._programs: dict[int, Programs] = {}

    def programs(self, sequences: int = 1) -> Programs:
        """The programs for so many sequences at once."""
        if isinstance(sequences, bool) or not 1 <= sequences <= 1 << 16:
            raise UserError(f"there are {sequences!r} sequences", hint="a whole number, 1 or more")
        if sequences not in self._programs:
            self._programs[sequences] = Programs(self.config, self.weights, sequences, self.threads)
        return self._programs[sequences]

    def prepare(self, *, prompts: bool = False) -> None:
        """Compiles the program for single tokens, and that for prompts, which else is done when they are first needed; shows its
        progress on a terminal."""
        programs = self.programs()
        with Progress(1 + prompts, "compiling", after=0.0) as progress:
            progress.reach(0, "for single tokens")
            programs.code(Key(True, False))
            if prompts:
                progress.reach(1, "for prompts")
                programs.code(Key(False, False))
            progress.reach(1 + prompts)

    def session(self, sequences: int = 1, *, context: int | None = None) -> Session:
        """A run for some sequences, each of at most `context` tokens (by default as many as the model was loaded for)."""
        return Session(
            self.programs(sequences), self.context if context is None else checked_context(context)
        )

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        """The logits [tokens, vocabulary], f32, of each next token. Raises what `Session.feed` raises."""
        return self.session().feed_all([tokens])[0]

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text; UserError where the model has no tokenizer."""
        return self._tokenizer().encode(text, special=special)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        session: Session | None = None,
        **how: Any,
    ) -> Generator[str]:
        """What follows on a prompt, piece by piece, as text.

        Args:
            prompt: text, or tokens.
            max_tokens: how many tokens follow at most (256; fewer where the context has no room for them).
            stop: texts at which it ends; they are not part of it.
            session: where to go on; by default a new one. Afterwards it has the prompt and what followed.
            how: how tokens are chosen: `temperature`, `top_k`, `top_p`, `min_p`, `repetition_penalty`, `seed` (`Sampling`).

        Ends where the model ends its answer. Raises UserError for a prompt that the context has no room for, and for numbers out of
        range, before anything is computed.
        """
        stops = [stop] if isinstance(stop, str) else [*stop]
        if not all(stops):
            raise UserError("a stop is an empty text")
        tokenizer = self._tokenizer()
        tokens = self.generate_tokens(prompt, max_tokens=max_tokens, session=session, **how)
        return _text(tokens, tokenizer, stops)

    def generate_tokens(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        session: Session | None = None,
        **how: Any,
    ) -> Generator[int]:
        """As `generate`, but gives tokens, without the one that ends the answer."""
        begun = session is not None and session.lengths[0] > 0
        if isinstance(prompt, str):
            given = self._tokenizer().encode(prompt, begin=False if begun else None)
        else:
            given = [*prompt]
        if max_tokens is not None and max_tokens < 0:
            raise UserError(f"max_tokens is {max_tokens}", hint="0 or more")
        session = self.session() if session is None else session
        try:
            sampler = Sampler(Sampling(**how), given)
        except TypeError:
            unknown = sorted({*how} - {*Sampling.__dataclass_fields__})
            raise UserError(
                f"there is no way to choose tokens called {', '.join(unknown)}",
                hint=", ".join(Sampling.__dataclass_fields__),
            ) from None
        session.check([given])
        room = session.cache.context - session.cache.used - len(given)
        most = min(MOST if max_tokens is None else max_tokens, room)
        stops = self.tokenizer.vocabulary.stops if self.tokenizer is not None else frozenset[int]()
        return _tokens(session, given, sampler, most, stops)

    def prompt(self, messages: Messages) -> str:
        """The prompt of a conversation: messages are `{"role": "user", "content": "text"}`, with roles `system`, `user` and
        `assistant`. It begins with the token that begins a text."""
        known = self._tokenizer().vocabulary
        begin, end = ("" if i is None else known.tokens[i] for i in (known.begin, known.end))
        return prompt_of(messages, self.template, begin, end)

    def chat(self, messages: Messages, *, session: Session | None = None, **how: Any) -> Generator[str]:
        """The answer to a conversation, piece by piece; arguments as for `generate`. Of a `session` that has seen the beginning
        of the conversation only the rest is computed."""
        prompt, known = self.prompt(messages), self._tokenizer().vocabulary
        begins = known.begin is not None and prompt.startswith(known.tokens[known.begin])
        tokens = self._tokenizer().encode(prompt, begin=False if begins else None)
        if session is None:
            return self.generate(tokens, **how)
        pairs = zip(tokens[:-1], session.tokens[0], strict=False)
        session.cut(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
        return self.generate(tokens[session.lengths[0] :], session=session, **how)

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise UserError("the model has no tokenizer", hint="give tokens instead of text")
        return self.tokenizer


def checked_context(context: int) -> int:
    """A number of tokens; UserError for what is none."""
    if isinstance(context, bool) or not isinstance(context, int) or context < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"context is {context!r}", hint="a whole number of tokens, 1 or more")
    return context


def _tokens(
    session: Session, prompt: Sequence[int], sampler: Sampler, most: int, stops: Iterable[int]
) -> Generator[int]:
    waiting = [*prompt]
    ends = frozenset(stops)
    for _ in range(most):
        token = sampler.choose(session.feed([waiting])[0])
        if token in ends:
            return
        waiting = [token]
        yield token


def _text(tokens: Iterable[int], tokenizer: Tokenizer, stops: Sequence[str]) -> Generator[str]:
    """Text of tokens, up to a stop: text that may be the beginning of one waits for what follows."""
    decoding, held = Decoding(tokenizer), ""
    for token in tokens:
        held += decoding.push(token)
        found = [at for stop in stops if (at := held.find(stop)) >= 0]
        if found:
            if held := held[: min(found)]:
                yield held
            return
        sure = len(held) - max((_begun(held, stop) for stop in stops), default=0)
        if sure:
            yield held[:sure]
            held = held[sure:]
    if held := held + decoding.rest():
        yield held


def _begun(text: str, stop: str) -> int:
    """How many letters at the end of text are the beginning of a stop."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
