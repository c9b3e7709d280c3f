# SPDX-License-Identifier: Apache-2.0
"""Programs as text, and blocks as drawings."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ...pictures.dot import quoted
from .descs import ProgramDesc
from .framework import Block, Program

__all__ = ["draw_block_graphviz", "pprint_block_codes", "pprint_program_codes"]


def pprint_program_codes(program_desc: ProgramDesc | Program) -> None:
    """Prints the text of a program."""
    view = program_desc.view
    print(Program(view))


def pprint_block_codes(block: Block) -> None:
    """Prints the declarations and operators of a block."""
    print(block)


def draw_block_graphviz(
    block: Block, highlights: Collection[str] | None = None, path: str = "./temp.dot"
) -> None:
    """Writes a block as a graph in the language of Graphviz, which `dot -Tsvg` draws: operators are boxes, variables ellipses.

    Parameters are filled; variables that are named in `highlights` are red.
    """
    marked = set(highlights or ())
    names = dict.fromkeys(n for op in block.ops for n in (*op.input_arg_names, *op.output_arg_names))
    lines = ["digraph block {", "  rankdir = TB;"]
    for name in names:
        variable = block.view.find(name)
        style = ["shape = ellipse"]
        if variable is not None:
            lengths = "x".join("?" if n < 0 else str(n) for n in variable.shape)
            style.append(f"label = {quoted(f'{name} {variable.element} {lengths}'.rstrip())}")
            if variable.is_parameter:
                style += ["style = filled", 'fillcolor = "#dde8f6"']
        if name in marked:
            style += ['color = "red"', "penwidth = 2"]
        lines.append(f"  {quoted('v ' + name)} [{', '.join(style)}];")
    for at, op in enumerate(block.ops):
        lines.append(f"  op{at} [shape = box, label = {quoted(op.type)}];")
        lines += [f"  {quoted('v ' + name)} -> op{at};" for name in op.input_arg_names]
        lines += [f"  op{at} -> {quoted('v ' + name)};" for name in op.output_arg_names]
    Path(path).write_text("\n".join([*lines, "}"]) + "\n", encoding="utf-8")
