# SPDX-License-Identifier: Apache-2.0
"""The base class of transformers and its parts, under the import path that existing programs use."""

from __future__ import annotations

from ..op_graph.computation import Computation as Computation
from ..op_graph.errors import UnsupportedTransformerException as UnsupportedTransformerException
from . import allocate_transformer as allocate_transformer
from . import make_transformer as make_transformer
from . import make_transformer_factory as make_transformer_factory
from . import set_transformer_factory as set_transformer_factory
from . import transformer_choices as transformer_choices
from .computations import DeviceComputation as DeviceComputation
from .storage import DeviceBufferStorage as DeviceBufferStorage
from .storage import DeviceTensor as DeviceTensor
from .transformer import Transformer as Transformer

#: Views of a buffer have the same class as tensors.
DeviceTensorView = DeviceTensor
