# SPDX-License-Identifier: Apache-2.0
"""Language models of GGUF files: `load(path)` reads one.

model = ngmlir.frontends.gguf.load("model.gguf")
for text in model.generate("Once upon a time", max_tokens=50):
    print(text, end="", flush=True)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..decoders.model import LanguageModel
    from .writer import Tensors

__all__ = ["load", "write"]


def load(
    path: str | os.PathLike[str], *, context: int | None = None, threads: int | None = None
) -> LanguageModel:
    """A language model of a GGUF file: architectures llama, qwen2, qwen3, phi3, gemma, gemma2 and gemma3; tensors of F32, F16, BF16, Q4_0,
    Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL and IQ4_XS.

    Args:
        path: the file, which is mapped: it must not be written over while the model is in use.
        context: how many tokens a session has room for (by default as many as the model was trained for). Where a model has factors
            of positions for short and for long contexts, those for this one are taken.
        threads: how many threads its programs use (by default as `ng.compile` does).

    Nothing is compiled yet. Raises UserError for a file that is damaged, or whose numbers do not fit each other; Limit for what is not
    supported, with what is.
    """
    from ..decoders.model import LanguageModel, checked_context
    from .architectures import decoder_of
    from .container import Container, explained
    from .vocabulary import tokenizer_of

    if context is not None:
        checked_context(context)
    with explained(path):
        file = Container(path)
        config, weights = decoder_of(file, context)
        tokenizer = tokenizer_of(file)
    template = file.metadata.get("tokenizer.chat_template")
    return LanguageModel(
        config,
        weights,
        tokenizer,
        template if isinstance(template, str) else None,
        context=context,
        threads=threads,
    )


def write(path: str | os.PathLike[str], metadata: dict[str, Any], tensors: Tensors) -> None:
    """Writes a GGUF file of metadata and tensors by name: arrays of float32, float16 or bfloat16, or weights of a model that was read.

    Raises UserError for values of other kinds; then nothing is written, and a file that is there stays.
    """
    from .writer import write as written

    written(path, metadata, tensors)
