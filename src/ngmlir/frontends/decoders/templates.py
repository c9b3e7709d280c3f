# SPDX-License-Identifier: Apache-2.0
"""Conversations as prompts: by the template of a model (Jinja, through the package jinja2), or, without that package, by
one of the well-known ones that it resembles."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, cast

from ...support.diagnostics import Limit, UserError

#: Messages of a conversation: `{"role": "user", "content": "..."}`; roles are `system`, `user` and `assistant`.
Messages = Sequence[Mapping[str, str]]
ROLES = ("system", "user", "assistant")


def prompt_of(messages: Messages, template: str | None, begin: str = "", end: str = "") -> str:
    """The text after which the model answers. `begin` and `end` are the texts of its tokens that begin and end a text.

    Without a template each message is a line with the name of its role. Raises UserError for messages that are none, or that the template
    refuses; Limit for a template that is not known, where jinja2 is missing.
    """
    checked(messages)
    if template is None:
        lines = [f"{each['role']}: {each['content']}\n" for each in messages]
        return "".join(lines) + "assistant:"
    if find_spec("jinja2") is not None:
        return _rendered(messages, template, begin, end)
    for mark, known in _KNOWN.items():
        if mark in template:
            return known(messages, begin, end)
    raise Limit(
        "the model has a template for conversations that is not known", hint="pip install ngmlir[gguf]"
    )


def checked(messages: Messages) -> None:
    """UserError for what is no conversation."""
    for number, each in enumerate(cast("Sequence[Any]", messages)):
        found: Mapping[Any, Any] = cast("Mapping[Any, Any]", each) if isinstance(each, Mapping) else {}
        if found.get("role") not in ROLES or not isinstance(found.get("content"), str):
            raise UserError(
                f"message {number} is {each!r}",
                hint=f'{{"role": ..., "content": "text"}}, with a role of {", ".join(ROLES)}',
            )
    if not messages:
        raise UserError("a conversation has at least one message")


def _rendered(messages: Messages, template: str, begin: str, end: str) -> str:
    import jinja2
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refused(message: str) -> Any:
        raise jinja2.TemplateError(message)

    def dumped(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    class Generation(Extension):
        """`{% generation %}` ... `{% endgeneration %}` marks for training what the model is to say, and leaves it as it is."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    # A template comes with a file from anywhere: it sees nothing but what it is given.
    known = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    cast("Any", known).filters["tojson"] = dumped  # that of Jinja is for HTML, and writes < as an escape
    given: dict[str, Any] = {"raise_exception": refused, "strftime_now": datetime.now(UTC).strftime}
    try:
        return known.from_string(template).render(
            messages=[dict(each) for each in messages],
            bos_token=begin,
            eos_token=end,
            add_generation_prompt=True,
            tools=None,
            **given,
        )
    except Exception as error:  # whatever a template of somebody else's does
        raise UserError(f"the model's template for conversations refuses these messages: {error}") from None


def _chatml(messages: Messages, begin: str, end: str) -> str:
    turns = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages]
    return "".join(turns) + "<|im_start|>assistant\n"


def _llama3(messages: Messages, begin: str, end: str) -> str:
    def head(role: str) -> str:
        return f"<|start_header_id|>{role}<|end_header_id|>\n\n"

    turns = [f"{head(m['role'])}{m['content'].strip()}<|eot_id|>" for m in messages]
    return begin + "".join(turns) + head("assistant")


def _gemma(messages: Messages, begin: str, end: str) -> str:
    made, system = begin, ""
    for m in messages:
        if m["role"] == "system":
            system = m["content"].strip() + "\n\n"
            continue
        role = "model" if m["role"] == "assistant" else "user"
        made += f"<start_of_turn>{role}\n{system}{m['content'].strip()}<end_of_turn>\n"
        system = ""
    return made + "<start_of_turn>model\n"


def _llama2(messages: Messages, begin: str, end: str) -> str:
    made, system = "", ""
    for m in messages:
        if m["role"] == "system":
            system = f"<<SYS>>\n{m['content'].strip()}\n<</SYS>>\n\n"
        elif m["role"] == "user":
            made += f"{begin}[INST] {system}{m['content'].strip()} [/INST]"
            system = ""
        else:
            made += f" {m['content'].strip()} {end}"
    return made


def _phi3(messages: Messages, begin: str, end: str) -> str:
    return begin + "".join(f"<|{m['role']}|>\n{m['content']}<|end|>\n" for m in messages) + "<|assistant|>\n"


#: Templates by what only they contain.
_KNOWN: Mapping[str, Callable[[Messages, str, str], str]] = {
    "<|im_start|>": _chatml,
    "<|start_header_id|>": _llama3,
    "<start_of_turn>": _gemma,
    "[INST]": _llama2,
    "<|assistant|>": _phi3,
}
