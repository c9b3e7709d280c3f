# SPDX-License-Identifier: Apache-2.0
"""Convolutions to test with: sizes and axes that fit, and what they and their gradients are in plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..op_graph.axes import make_axes, make_axis
from ..op_graph.errors import UserError, fail
from ..ops.sliding import count_of, covered_by, span_of

Array = np.ndarray[Any, Any]


class ConvParams:
    """Sizes of a convolution with five axes (of a deconvolution with `deconv`), and the axes and parameters that go with them.

    `conv_params` is what `ng.convolution` takes; `ax_i`, `ax_f` and `ax_o` are the axes of inputs (C, D, H, W, N), filters
    (C, T, R, S, K) and result; `dimI`, `dimF` and `dimO` their lengths. C counts the channels of the inputs and K those of
    the result, of a deconvolution too: its filters are (K, T, R, S, C).
    """

    def __init__(
        self,
        C: int = 1, N: int = 1, K: int = 1, D: int = 1, H: int = 1, W: int = 1, T: int = 1, R: int = 1, S: int = 1,
        pad_d: int = 0, pad_h: int = 0, pad_w: int = 0, str_d: int = 1, str_h: int = 1, str_w: int = 1,
        dil_d: int = 1, dil_h: int = 1, dil_w: int = 1, deconv: bool = False,
    ):  # fmt: skip
        self.conv_params = {
            "K": K, "T": T, "R": R, "S": S, "pad_d": pad_d, "pad_h": pad_h, "pad_w": pad_w,
            "str_d": str_d, "str_h": str_h, "str_w": str_w, "dil_d": dil_d, "dil_h": dil_h, "dil_w": dil_w,
        }  # fmt: skip
        made: list[int] = []
        for name, length, taps in zip("dhw", (D, H, W), (T, R, S), strict=True):
            stride, dilation, pad = (self.conv_params[f"{kind}_{name}"] for kind in ("str", "dil", "pad"))
            span = span_of(taps, dilation)
            count = (
                covered_by(length, span, stride) - 2 * pad
                if deconv
                else count_of(length + 2 * pad, span, stride)
            )
            if count < 0:
                fail(UserError, f"{taps} taps along {name} do not fit {length} elements with padding {pad}")
            made.append(count)
        self.dimI = (C, D, H, W, N)
        self.dimF = (K, T, R, S, C) if deconv else (C, T, R, S, K)
        self.dimO = (K, *made, N)
        self.batch_axis = make_axis(N, "N")
        self.ax_i = make_axes([*map(make_axis, self.dimI[:4], "CDHW"), self.batch_axis])
        self.ax_f = make_axes(list(map(make_axis, self.dimF, "CTRSK")))
        self.ax_o = make_axes([*map(make_axis, self.dimO[:4], "CDHW"), self.batch_axis])


def _settings(conv_params: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """(stride, dilation, padding) along depth, height and width."""
    return [(conv_params[f"str_{d}"], conv_params[f"dil_{d}"], conv_params[f"pad_{d}"]) for d in "dhw"]


def _taps(
    long: Sequence[int], taps: Sequence[int], short: Sequence[int], conv_params: Mapping[str, int]
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]]:
    """For each tap: its position, and the elements of the long side that it multiplies for those of the short side (slices
    without the padding)."""
    settings = _settings(conv_params)
    for place in product(*map(range, taps)):
        mine: list[slice] = []
        theirs: list[slice] = []
        for tap, n, count, (stride, dilation, pad) in zip(place, long, short, settings, strict=True):
            met = [o for o in range(count) if 0 <= o * stride + tap * dilation - pad < n]
            first = met[0] if met else 0
            at = first * stride + tap * dilation - pad
            mine.append(slice(at, at + (len(met) - 1) * stride + 1, stride) if met else slice(0, 0))
            theirs.append(slice(first, first + len(met)))
        yield place, (slice(None), *mine), (slice(None), *theirs)


def _convolved(
    inputs: Array, filters: Array, lengths: Sequence[int], conv_params: Mapping[str, int]
) -> Array:
    """(K, M, P, Q, N) of inputs (C, D, H, W, N) and filters (C, T, R, S, K)."""
    out = np.zeros((filters.shape[4], *lengths, inputs.shape[4]))
    for place, long, short in _taps(inputs.shape[1:4], filters.shape[1:4], lengths, conv_params):
        out[short] += np.einsum("cdhwn,ck->kdhwn", inputs[long], filters[(slice(None), *place)])
    return out


def _spread(delta: Array, filters: Array, lengths: Sequence[int], conv_params: Mapping[str, int]) -> Array:
    """The adjoint of `_convolved` by its inputs: (C, D, H, W, N) of delta (K, M, P, Q, N)."""
    out = np.zeros((filters.shape[0], *lengths, delta.shape[4]))
    for place, long, short in _taps(lengths, filters.shape[1:4], delta.shape[1:4], conv_params):
        out[long] += np.einsum("kdhwn,ck->cdhwn", delta[short], filters[(slice(None), *place)])
    return out


def _by_filters(inputs: Array, delta: Array, taps: Sequence[int], conv_params: Mapping[str, int]) -> Array:
    """The adjoint of `_convolved` by its filters."""
    out = np.zeros((inputs.shape[0], *taps, delta.shape[0]))
    for place, long, short in _taps(inputs.shape[1:4], taps, delta.shape[1:4], conv_params):
        out[(slice(None), *place)] = np.einsum("cdhwn,kdhwn->ck", inputs[long], delta[short])
    return out


def reference_conv(
    dimI: Sequence[int], dimF: Sequence[int], dimO: Sequence[int], conv_params: Mapping[str, int],
    valI: Any, valF: Any, valE: Any,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(result, gradient by the inputs, gradient by the filters) of a convolution, for the error `valE` of the result.

    The lengths are those of `ConvParams`; values are arrays of these lengths. Sums are made in float64.
    """
    inputs, filters, error = (
        np.asarray(v, np.float64).reshape(d) for v, d in ((valI, dimI), (valF, dimF), (valE, dimO))
    )
    return (
        _convolved(inputs, filters, dimO[1:4], conv_params),
        _spread(error, filters, dimI[1:4], conv_params),
        _by_filters(inputs, error, dimF[1:4], conv_params),
    )


def reference_deconv_fprop(conv_params: Mapping[str, int], valI: Any, valF: Any) -> Array:
    """A deconvolution of inputs (K, M, P, Q, N) by filters (C, T, R, S, K): (C, D, H, W, N), the adjoint of a convolution."""
    inputs, filters = np.asarray(valI, np.float64), np.asarray(valF, np.float64)
    lengths = [
        covered_by(n, span_of(taps, dilation), stride) - 2 * pad
        for n, taps, (stride, dilation, pad) in zip(
            inputs.shape[1:4], filters.shape[1:4], _settings(conv_params), strict=True
        )
    ]
    return _spread(inputs, filters, lengths, conv_params)


def reference_deconv_bprop(
    conv_params: Mapping[str, int], valE: Any, valI: Any, valF: Any
) -> tuple[Array, Array]:
    """(gradient by the inputs, gradient by the filters) of a deconvolution, for the error `valE` of its result."""
    error, inputs, filters = (np.asarray(v, np.float64) for v in (valE, valI, valF))
    return (
        _convolved(error, filters, inputs.shape[1:4], conv_params),
        _by_filters(error, inputs, filters.shape[1:4], conv_params),
    )
