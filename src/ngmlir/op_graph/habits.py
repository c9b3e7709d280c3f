# SPDX-License-Identifier: Apache-2.0
"""How functions answer to arguments that other libraries have: one place for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..support.spelling import did_you_mean, nearest
from .errors import WrongCall, fail

#: Other words of the arguments that say which axes are meant.
_AXES = ("axis", "dim", "axes", "dims")

_KEPT = "leave it out: tensors are matched by the names of axes, so that x - ng.max(x, axis=1) fits as it is"

#: Arguments that no function has, and what is written in their place.
_WRITE = {
    "out": "nothing is computed into another tensor: ng.assign(out, {call})",
    **dict.fromkeys(("keepdims", "keepdim"), _KEPT),
    "dtype": "ng.cast(x, dtype) before it, or ng.cast({call}, dtype) after it",
    "device": 'ng.transformers.make_transformer("cuda") or ng.compile(..., target="cuda"): graphs have no device',
    "requires_grad": "ng.variable makes what is trained, ng.stop_gradient(x) what has no gradient",
    "reduction": "ng.mean(loss, out_axes=()) or ng.sum(loss, out_axes=())",
    **dict.fromkeys(("shape", "size"), "axes: ng.make_axis(length, name) makes one"),
    "training": "build two graphs, one without it: they share the variables",
    "inplace": "leave it out: memory is planned, and nothing is copied that need not be",
    "p": "keep=1 - p: the share that stays",
    **dict.fromkeys(
        ("ddof", "correction", "unbiased"), "the variance is divided by n: multiply by n / (n - ddof)"
    ),
}


#: Arguments of functions of arrays that are about memory, and what is written in their place.
_ARRAYS = {
    "out": "write y = f(x): arrays of a graph are values",
    "where": "write where(condition, f(x), y), which also says what the other elements are",
    **dict.fromkeys(
        ("order", "copy", "subok", "like", "device"),
        "leave {word}= out: arrays of a graph are values, row by row",
    ),
}


def about_memory(words: Iterable[str]) -> str:
    """What is written in the place of the first such word that is about memory; or ''."""
    return next((f"{_ARRAYS[word].format(word=word)}; " for word in words if word in _ARRAYS), "")


#: Arguments of layers and optimizers elsewhere, and those here that may be meant.
_LAYERS = {
    "lr": "learning_rate", "momentum": "momentum_coef", "weight_decay": "wdecay", "eps": "epsilon eps", "beta1": "beta_1",
    "beta2": "beta_2", "betas": "beta_1", "rho": "decay_rate", "alpha": "decay_rate", "clipnorm": "gradient_clip_norm",
    "clipvalue": "gradient_clip_value", "units": "nout", "out_features": "nout", "hidden_size": "nout",
    "kernel_size": "filter_shape pool_shape", "stride": "strides", "bias": "bias_init", "rate": "keep", "p": "keep",
    "kernel_initializer": "weight_init filter_init init", "num_embeddings": "vocab_size", "embedding_dim": "embed_dim",
    "padding_idx": "pad_idx", "return_sequences": "return_sequence", "go_backwards": "backward",
}  # fmt: skip


def meant_by(word: str, known: Iterable[str]) -> str:
    """The argument that is meant by a word of another library, or looks most like it; or ''."""
    known = [*known]
    return next((here for here in _LAYERS.get(word, "").split() if here in known), nearest(word, known))


def accepting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that says which arguments there are, below those that hand all on."""
    at: Any = function
    while hasattr(at, "__wrapped__"):
        code = getattr(at, "__code__", None)
        if code is not None and not code.co_flags & inspect.CO_VARKEYWORDS:
            break
        at = at.__wrapped__
    return at


def understood(
    function: Callable[..., Any], own: Sequence[str], known: Iterable[str], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by name under the names that a function has for them; WrongCall for what it has none for."""
    made = dict(named)
    for word in [w for w in named if w not in known]:
        value = made.pop(word)
        if word in ("keepdims", "keepdim") and not value:
            continue  # as it is
        mine = next((w for w in ("axis", "reduction_axes") if w in own and w not in made), None)
        if word in _AXES and mine is not None:
            made[mine] = value
            continue
        call = f"ng.{function.__name__}(...)"
        arguments = f"its arguments are {', '.join(own)}"
        hint = _WRITE[word].format(call=call) if word in _WRITE else did_you_mean(word, own, arguments)
        fail(WrongCall, f"{function.__name__} has no argument {word!r}", hint)
    return made
