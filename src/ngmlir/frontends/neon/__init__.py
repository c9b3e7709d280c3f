# SPDX-License-Identifier: Apache-2.0
"""Layers, optimizers, batches and training loops: programs of layers are written with these names."""

from __future__ import annotations

from ...op_graph.answers import answer_all
from .activation import Explin, Identity, Logistic, Normalizer, Rectlin, Rectlinclip, Softmax, Tanh
from .argparser import NgraphArgparser
from .arrayiterator import ArrayIterator, SequentialArrayIterator
from .axis import (
    ax,
    is_shadow_axis,
    make_shadow_axis,
    reorder_spatial_axes,
    shadow_axes_map,
)
from .callbacks import (
    Callback,
    CallbackContainer,
    CallbackData,
    CallbackPhase,
    LossCallback,
    ProgressCallback,
    RunTimerCallback,
    TrainCostCallback,
    TrainLoggerCallback,
    loop_eval,
    loop_train,
    make_default_callbacks,
)
from .early_stopping import EarlyStopping
from .graph import ComputationalGraph, SubGraph, scope_ops
from .initializer import ConstantInit, GaussianInit, GlorotInit, KaimingInit, UniformInit, XavierInit
from .layer import (
    GRU,
    LSTM,
    Activation,
    Affine,
    BaseRNNCell,
    BatchNorm,
    Bias,
    BiRNN,
    ConvBase,
    Convolution,
    DeconvBase,
    Deconvolution,
    Dropout,
    GRUCell,
    Layer,
    Linear,
    LookupTable,
    LSTMCell,
    PoolBase,
    Pooling,
    Preprocess,
    Recurrent,
    RNNCell,
    make_conv,
    unroll,
)
from .logging import PBStreamHandler, ProgressBar
from .loss import CrossEntropyBinary, CrossEntropyMulti, MeanSquared, SmoothL1, SumSquared
from .model import BoundComputation, Container, Parallel, ResidualModule, Sequential, make_bound_computation
from .optimizer import (
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    GradientDescentMomentum,
    LearningRateOptimizer,
    LossScale,
    Optimizer,
    RMSProp,
    clip_gradient_norm,
    clip_gradient_value,
    clip_weight_value,
)
from .saver import Saver
from .saverfile import SaverFile

__all__ = [
    "GRU", "LSTM", "Activation", "Adadelta", "Adagrad", "Adam", "AdamW", "Affine", "ArrayIterator", "BaseRNNCell",
    "BatchNorm", "BiRNN", "Bias", "BoundComputation", "Callback", "CallbackContainer", "CallbackData", "CallbackPhase",
    "ComputationalGraph", "ConstantInit", "Container", "ConvBase", "Convolution", "CrossEntropyBinary", "CrossEntropyMulti",
    "DeconvBase", "Deconvolution", "Dropout", "EarlyStopping", "Explin", "GRUCell", "GaussianInit", "GlorotInit", "GradientDescentMomentum", "Identity",
    "KaimingInit", "LSTMCell", "Layer", "LearningRateOptimizer", "Linear", "Logistic", "LookupTable", "LossCallback", "LossScale", "MeanSquared",
    "NgraphArgparser", "Normalizer", "Optimizer", "PBStreamHandler", "Parallel", "PoolBase", "Pooling", "Preprocess", "ProgressBar", "ProgressCallback", "RMSProp",
    "RNNCell", "Rectlin", "Rectlinclip", "Recurrent", "ResidualModule", "RunTimerCallback", "Saver", "SaverFile",
    "Sequential", "SequentialArrayIterator", "SmoothL1", "Softmax", "SubGraph", "SumSquared", "Tanh", "TrainCostCallback",
    "TrainLoggerCallback", "UniformInit", "XavierInit", "ax", "clip_gradient_norm", "clip_gradient_value",
    "clip_weight_value", "is_shadow_axis", "loop_eval", "loop_train", "make_bound_computation", "make_conv", "make_default_callbacks",
    "make_shadow_axis", "reorder_spatial_axes", "scope_ops", "shadow_axes_map", "unroll",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


answer_all(globals(), __all__, "neon")
