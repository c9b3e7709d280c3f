# SPDX-License-Identifier: Apache-2.0
"""A name is given once: a second op of it is refused, unless it is the same definition, executed again."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

KERNEL = """
tile.kernel @k ins(%x: memref<5xf32>) outs(%y: memref<5xf32>) {
  tile.copy %x, %y : memref<5xf32>, memref<5xf32>
  tile.return
}
"""


@ng.host_op
def registered_once(x: Any) -> Any:
    return x + 1


FIRST = registered_once


def test_a_second_op_of_a_name_is_refused_and_the_first_place_is_named() -> None:
    place = rf"test_registrations\.py:{FIRST.location.line}"
    for define in (ng.host_op, ng.composite_op):

        def registered_once(x: Any) -> Any:
            return x + 2

        with pytest.raises(ng.UserError, match="there is an op registered_once already") as error:
            define(registered_once)
        (found,) = error.value.diagnostics
        assert (
            found.location.file == __file__ and found.location.line == registered_once.__code__.co_firstlineno
        )
        assert "it was registered at " in found.hint
        assert re.search(place, found.hint)
    with pytest.raises(ng.UserError, match="there is an op registered_once already"):
        ng.tile_op("registered_once", KERNEL)
    x = ng.placeholder([ng.make_axis(2, "A")])
    assert ng.transformers.make_transformer("cpu").computation(FIRST(x), x)([1, 2]).tolist() == [2, 3]


def test_a_definition_that_runs_again_replaces_the_first() -> None:
    made: list[Any] = []
    for number in (1, 2):

        @ng.host_op
        def made_in_a_loop(x: Any, by: int = number) -> Any:
            return x + by

        made.append(made_in_a_loop)
        ng.tile_op("copied_in_a_loop", KERNEL)
    x = ng.placeholder([ng.make_axis(2, "A")])
    computed = ng.transformers.make_transformer("cpu").computation([f(x) for f in made], x)
    assert [each.tolist() for each in computed([1, 2])] == [[2, 3], [3, 4]]


def test_a_function_of_another_package_may_be_wrapped_twice() -> None:
    assert ng.host_op(np.tri) is not ng.host_op(np.tri)
    assert ng.host_op(np.negative) is not ng.host_op(np.negative)
    assert ng.host_op(lambda x: x) is not ng.host_op(lambda x: x)


def test_a_module_that_is_imported_again_may_define_its_ops_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "ops_of_a_module.py"
    text = "import ngmlir as ng\n@ng.composite_op\ndef of_a_module(x):\n    return x * 2\n"
    file.write_text(text)
    module = importlib.import_module("ops_of_a_module")
    try:
        file.write_text("# moved by a line\n" + text + f"ng.tile_op('copied_by_a_module', '''{KERNEL}''')\n")
        importlib.invalidate_caches()
        importlib.reload(module)
        assert module.of_a_module.location.line == 3
        file.write_text("# moved\n# by two\n" + text.replace("ng.composite_op", "ng.host_op") * 2)
        importlib.invalidate_caches()
        # It defines the op twice, which is no reload.
        with pytest.raises(ng.UserError, match="there is an op of_a_module already"):
            importlib.reload(module)
    finally:
        sys.modules.pop("ops_of_a_module", None)


def test_what_is_typed_may_be_typed_again() -> None:
    text = "import ngmlir as ng\n{}@ng.host_op\ndef typed(x):\n    return x\n"
    for number, cell in enumerate(["", "\n", "\n\n"]):
        exec(compile(text.format(cell), f"<cell {number}>", "exec"), {"__name__": "__main__"})


def test_names_of_this_package_are_free() -> None:
    @ng.host_op
    def printed(x: Any) -> Any:
        return x

    @ng.host_op
    def cholesky(x: Any) -> Any:
        return x

    @ng.composite_op
    def softmax(x: Any) -> Any:
        return x

    ng.PrintOp(printed(ng.placeholder([ng.make_axis(2, "A")])))
