# SPDX-License-Identifier: Apache-2.0
"""How good a model is."""

from __future__ import annotations

import numpy

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ..registry import operator


@operator
def accuracy(out: Tensor, indices: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = out.type.shape[0]
    found = np.any(np.equal(indices, np.reshape(np.astype(label, indices.dtype), (rows, 1))), axis=-1)
    correct = np.reshape(np.sum(np.astype(found, np.int32), dtype=np.int32), [1])
    share = np.divide(np.astype(correct, np.float32), float(rows))
    return share, correct, np.asarray(numpy.asarray([rows], numpy.int32))
