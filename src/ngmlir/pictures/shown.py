# SPDX-License-Identifier: Apache-2.0
"""What has a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..ir.core import ModuleOp
from ..support.diagnostics import UserError
from .drawing import Drawing
from .modules import drawing_of
from .svg import svg_of


class Shown:
    """Something that notebooks show as a picture."""

    def _drawing_(self, others: Sequence[Shown] = ()) -> Drawing:
        """The drawing of it, and of others of its kind with it."""
        raise NotImplementedError

    def _repr_svg_(self) -> str:
        return svg_of(self._drawing_())

    def _repr_html_(self) -> str:
        return self._repr_svg_()


def drawing(what: object) -> Drawing:
    """The drawing of something that has one, or of several such; UserError for anything else."""
    if isinstance(what, Drawing):
        return what
    if isinstance(what, ModuleOp):
        return drawing_of(what)
    if isinstance(what, Shown):
        return what._drawing_()  # pyright: ignore[reportPrivateUsage]
    if isinstance(what, (list, tuple)):
        several = [*cast("Sequence[object]", what)]
        if several and all(isinstance(each, Shown) for each in several):
            first, *others = cast("list[Shown]", several)
            return first._drawing_(others)  # pyright: ignore[reportPrivateUsage]
    raise UserError(
        f"there is no picture of {what!r}",
        hint="pictures show tensors, ops, lists of them, computations, modules and memory plans",
    )


ModuleOp.drawn = lambda module: svg_of(drawing_of(module))
