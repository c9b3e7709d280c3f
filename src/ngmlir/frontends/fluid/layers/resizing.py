# SPDX-License-Identifier: Apache-2.0
"""Layers that give images another size: interpolated, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.diagnostics import UserError
from ..framework import Variable
from ..layer_helper import LayerHelper, one_op
from .tensor import fill_constant

__all__ = ["image_resize", "image_resize_short", "random_crop", "resize_bilinear"]


def image_resize(
    input: Variable,
    out_shape: Sequence[int] | Variable | None = None,
    scale: float | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
) -> Variable:
    """Images of other lengths: of `out_shape`, which may be a variable of two integers, or each times `scale`, by linear interpolation."""
    if resample != "BILINEAR":
        raise UserError(f"resample is BILINEAR, not {resample!r}")
    if out_shape is None and scale is None:
        raise UserError("image_resize takes out_shape or scale")
    size = None
    if isinstance(out_shape, Variable):
        size, (rows, columns) = out_shape, (1, 1)
    elif out_shape is not None:
        rows, columns = out_shape
    else:
        assert scale is not None
        rows, columns = (int(length * scale) for length in input.shape[2:])
    return one_op(
        "bilinear_interp",
        {"X": input, "OutSize": size},
        {"Out": input.dtype},
        {"out_h": int(rows), "out_w": int(columns)},
        name,
    )


def resize_bilinear(
    input: Variable,
    out_shape: Sequence[int] | Variable | None = None,
    scale: float | None = None,
    name: str | None = None,
) -> Variable:
    """As `image_resize`."""
    return image_resize(input, out_shape, scale, name)


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """Images whose shorter side has a length; the other one keeps the proportion."""
    lengths = list(input.shape[2:])
    short = lengths.index(min(lengths))
    made = [0, 0]
    made[short] = out_short_len
    made[1 - short] = int(lengths[1 - short] * (out_short_len / lengths[short]) + 0.5)
    return image_resize(input, made, resample=resample)


def random_crop(x: Variable, shape: Sequence[int], seed: int | Variable | None = None) -> Variable:
    """A part of each item, of the last dimensions, at a place that is drawn: the same at each run for a `seed` that is not 0."""
    helper = LayerHelper("random_crop")
    if not isinstance(seed, Variable):
        seed = fill_constant([1], "int64", 0 if seed is None else seed)
    made, after = helper.create_tmp_variable(x.dtype), helper.create_tmp_variable("int64")
    inputs = {"X": [x], "Seed": [seed]}
    helper.append_op(
        type="random_crop",
        inputs=inputs,
        outputs={"Out": [made], "SeedOut": [after]},
        attrs={"shape": list(shape)},
    )
    return made
