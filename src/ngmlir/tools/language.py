# SPDX-License-Identifier: Apache-2.0
"""`ngmlir generate` and `ngmlir chat`: what a language model writes, as it writes it."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..frontends import gguf, safetensors
from ..frontends.decoders.model import LanguageModel
from ..frontends.decoders.session import Session
from ..support.diagnostics import UserError
from .streams import Streams


def generate(found: Namespace, own: Streams) -> None:
    """Prints what follows on a prompt. Raises UserError for a prompt that is no text, or longer than the context."""
    prompt = found.prompt
    if prompt == "-":
        try:
            prompt = own.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"standard input is no text in UTF-8: {error.reason}") from None
    model = _model(found)
    session = model.session()
    pieces = model.generate(
        prompt, session=session, **_how(found)
    )  # says what is wrong before anything is compiled
    model.prepare()
    _shown(pieces, found, own, session)


def chat(found: Namespace, own: Streams) -> None:
    """Answers each line of standard input, until it ends."""
    model = _model(found)
    session = model.session()
    model.prepare(prompts=True)
    messages = [{"role": "system", "content": found.system}] if found.system else []
    while True:
        line = _line(own)
        if line is None:
            return
        if not line.strip():
            continue
        messages.append({"role": "user", "content": line})
        answer = model.chat(messages, session=session, **_how(found))
        text = _shown(answer, found, own, session)
        messages.append({"role": "assistant", "content": text})


def _model(found: Namespace) -> LanguageModel:
    load = safetensors.load if Path(found.file).is_dir() else gguf.load
    return load(found.file, context=found.context, threads=found.threads)


def _how(found: Namespace) -> dict[str, Any]:
    names = ("max_tokens", "stop", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    return {name: getattr(found, name) for name in names}


def _shown(pieces: Iterable[str], found: Namespace, own: Streams, session: Session) -> str:
    """Prints text as it comes, and then a line feed: the text."""
    made: list[str] = []
    started, first, before = time.perf_counter(), 0.0, 0
    for piece in pieces:
        if not made:
            first, before = time.perf_counter(), session.lengths[0]
        made.append(piece)
        own.write(piece)
    own.write("\n")
    if found.time and made:
        seconds, count = time.perf_counter() - first, session.lengths[0] - before
        rate = f", then {count / seconds:.1f} tokens per second" if count and seconds else ""
        own.say(f"{before} tokens in {first - started:.2f} s{rate}")
    return "".join(made)


def _line(own: Streams) -> str | None:
    """The next line of standard input; None at its end."""
    if own.stdin is None:
        return None
    if own.terminal and own.stdin.isatty():
        own.write("> ")
    line = own.stdin.readline()
    line = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return line.rstrip("\r\n") if line else None
