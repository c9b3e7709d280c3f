# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of real numbers, and their inverses."""

from __future__ import annotations

from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..spectral import transformed


def _checked(n: Node) -> None:
    if n.integer("signal_ndim") != 1 or not n.flag("onesided") or n.flag("normalized"):
        raise UserError(f"{n.op} is along one dimension, has one side, and is not normalised")


@contributed("Rfft", layer_normalized=0, onesided=1, signal_ndim=1)
def rfft(n: Node, x: Tensor) -> Tensor:
    """[..., n] -> [..., n // 2 + 1, 2]."""
    _checked(n)
    return transformed(x.with_axes([x.rank]), x.rank - 1, None, False, True)


@contributed("Irfft", layer_normalized=0, onesided=1, signal_ndim=int)
def irfft(n: Node, x: Tensor) -> Tensor:
    """[..., n // 2 + 1, 2] -> [..., n], for an even n."""
    _checked(n)
    return transformed(x, x.rank - 2, None, True, True).without_axes([-1])
