# SPDX-License-Identifier: Apache-2.0
"""Layers for labels of sequences: conditional random fields, connectionist temporal classification, distances, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..framework import Variable
from ..layer_helper import LayerHelper, one_op
from .sequences import sequence_unpad
from .shaping import topk

__all__ = ["chunk_eval", "crf_decoding", "ctc_greedy_decoder", "edit_distance", "linear_chain_crf", "warpctc"]


def linear_chain_crf(
    input: Variable, label: Variable, param_attr: Any = None, length: Variable | None = None
) -> Variable:
    """The negative log likelihood of labels [sequences, 1], of weights [rows, K] for each label, and a parameter [K + 2, K]: weights
    of the first label, of the last one, and from each to each. With `length`, how many rows of each sequence count, labels are
    [sequences, most] and weights [sequences, most, K]."""
    helper = LayerHelper("linear_chain_crf", input=input, param_attr=param_attr)
    size = input.shape[-1]
    transition = helper.create_parameter(helper.param_attr, [size + 2, size], helper.input_dtype())
    made = {s: helper.create_tmp_variable(input.dtype) for s in ("Alpha", "EmissionExps", "TransitionExps")}
    loss = helper.create_tmp_variable(input.dtype)
    inputs = {"Emission": [input], "Transition": [transition], "Label": [label]}
    if length is not None:
        inputs["Length"] = [length]
    outputs = {**{slot: [v] for slot, v in made.items()}, "LogLikelihood": [loss]}
    helper.append_op(type="linear_chain_crf", inputs=inputs, outputs=outputs)
    return loss


def crf_decoding(
    input: Variable, param_attr: Any, label: Variable | None = None, length: Variable | None = None
) -> Variable:
    """The best labels [rows, 1], with `length` [sequences, most] and 0 behind; with `label` 1 where that is right, and 0 where not.
    `param_attr` names the parameter of `linear_chain_crf`. UserError where there is none of that name."""
    helper = LayerHelper("crf_decoding", input=input, param_attr=param_attr)
    transition = helper.get_parameter(helper.param_attr.name)
    inputs = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    return one_op("crf_decoding", inputs, {"ViterbiPath": "int64"})


def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple[Variable, ...]:
    """Evaluates predicted chunks: precision, recall, F1, and the numbers of predicted, labelled and correctly predicted chunks. With
    `seq_length`, how many labels of each sequence count, labels are [sequences, most]."""
    fields = {
        "num_chunk_types": num_chunk_types,
        "chunk_scheme": chunk_scheme,
        "excluded_chunk_types": list(excluded_chunk_types or ()),
    }
    outputs = {
        "Precision": "float32", "Recall": "float32", "F1-Score": "float32",
        "NumInferChunks": "int64", "NumLabelChunks": "int64", "NumCorrectChunks": "int64",
    }  # fmt: skip
    given = {"Inference": input, "Label": label, "SeqLength": seq_length}
    return one_op("chunk_eval", given, outputs, fields)


def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """How many insertions, deletions and replacements make each sequence that of the label, [sequences, 1], over the length of the
    label with `normalized`; and how many pairs there are. `ignored_tokens` are left out of both first. What has a length is
    [pairs, most]: so many of its elements count."""
    input, label = (
        v if length is None else sequence_unpad(v, length)
        for v, length in ((input, input_length), (label, label_length))
    )
    if ignored_tokens:
        tokens = {"tokens": list(ignored_tokens)}
        input, label = (one_op("sequence_erase", {"X": v}, {"Out": v.dtype}, tokens) for v in (input, label))
    outputs = {"Out": "float32", "SequenceNum": "int64"}
    return one_op("edit_distance", {"Hyps": input, "Refs": label}, outputs, {"normalized": normalized})


def ctc_greedy_decoder(input: Variable, blank: int, name: str | None = None) -> Variable:
    """The labels that the most probable class of each row stand for: repetitions merged, then blanks left out."""
    _, best = topk(input, 1)
    fields = {"merge_repeated": True, "blank": blank}
    return one_op("ctc_align", {"Input": best}, {"Output": "int64"}, fields, name)


def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """-log of the probability that rows, of what a softmax would be taken of, stand for labels, [sequences, 1]. With lengths, how many
    rows and labels count, rows are [most, sequences, classes] and labels [sequences, most]."""
    given = {"Logits": input, "Label": label, "LogitsLength": input_length, "LabelLength": label_length}
    outputs, fields = (
        {"Loss": input.dtype, "WarpCTCGrad": input.dtype},
        {"blank": blank, "norm_by_times": norm_by_times},
    )
    return one_op("warpctc", given, outputs, fields)[0]
