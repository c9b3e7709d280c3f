# SPDX-License-Identifier: Apache-2.0
"""Language models of folders with config.json, tokenizer.json and safetensors files: `load(path)` reads one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..decoders.model import LanguageModel

__all__ = ["load"]


def load(
    path: str | os.PathLike[str], *, context: int | None = None, threads: int | None = None
) -> LanguageModel:
    """A language model of a folder, as libraries of Hugging Face write them: `model_type` llama, mistral, qwen2, qwen3, phi3, gemma, gemma2 or
    gemma3_text; tensors of F32, F16 and BF16. Arguments as for `frontends.gguf.load`.

    Nothing is compiled yet. Raises UserError for files that are damaged, or whose numbers do not fit each other; Limit for what is not
    supported, with what is.
    """
    from ..decoders.model import LanguageModel
    from .folder import read

    found = read(path, context)
    return LanguageModel(
        found.config, found.weights, found.tokenizer, found.template, context=context, threads=threads
    )
