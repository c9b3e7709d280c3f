# SPDX-License-Identifier: Apache-2.0
"""Layers: functions from tensors to tensors that keep their parameters."""

from __future__ import annotations

from .base import Activation, Layer, Preprocess
from .cells import BaseRNNCell, GRUCell, LSTMCell, RNNCell
from .linear import LABELS, Affine, Bias, Linear, LookupTable
from .normalization import BatchNorm, Dropout
from .recurrent import GRU, LSTM, BiRNN, Recurrent, unroll
from .windows import ConvBase, Convolution, DeconvBase, Deconvolution, PoolBase, Pooling, make_conv

__all__ = [
    "GRU",
    "LABELS",
    "LSTM",
    "Activation",
    "Affine",
    "BaseRNNCell",
    "BatchNorm",
    "BiRNN",
    "Bias",
    "ConvBase",
    "Convolution",
    "DeconvBase",
    "Deconvolution",
    "Dropout",
    "GRUCell",
    "LSTMCell",
    "Layer",
    "Linear",
    "LookupTable",
    "PoolBase",
    "Pooling",
    "Preprocess",
    "RNNCell",
    "Recurrent",
    "make_conv",
    "unroll",
]
