# SPDX-License-Identifier: Apache-2.0
"""Constants in a file beside the text: mapped, never copied, and never from outside the folder."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Module
from ngmlir.ir.elements import ElementsAttr, elements
from ngmlir.ir.printer import to_text
from ngmlir.ir.resource_files import ResourceWriter
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError
from ngmlir.tools import ngopt

PROGRAM = """func.func @main() -> tensor<{n}x{t}> {{
  %0 = ng.constant dense_resource<w> : tensor<{n}x{t}>
  return %0 : tensor<{n}x{t}>
}}
{{-# external_resources: {{ ngmlir: {{ w: "{entry}" }} }} #-}}
"""


def program(entry: str, n: int = 100, t: str = "f32") -> str:
    return PROGRAM.format(entry=entry, n=n, t=t)


def constant_of(module: Module) -> ElementsAttr:
    value = module.ops[0].block.ops[0].attributes["value"]
    assert isinstance(value, ElementsAttr)
    return value


def answer(*arguments: str, text: str = "") -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    return ngopt.main(arguments, io.StringIO(text), out, errors), out.getvalue(), errors.getvalue()


@pytest.fixture
def weights(tmp_path: Path) -> np.ndarray:
    made = np.random.default_rng(0).standard_normal(100, np.float32)
    made.tofile(tmp_path / "w.bin")
    return made


@pytest.mark.parametrize("entry", ["w.bin@0+400", "./w.bin@0+400"])
def test_a_file_is_mapped_where_it_lies(entry: str, weights: np.ndarray, tmp_path: Path) -> None:
    module = from_text(program(entry), resources=tmp_path)
    held = constant_of(module).array()
    np.testing.assert_array_equal(held, weights)
    weights[:] = 7
    (tmp_path / "w.bin").write_bytes(
        weights.tobytes()
    )  # the same file, in place: what is mapped changes with it
    np.testing.assert_array_equal(held, weights)
    assert not held.flags.writeable


def test_a_compiled_program_takes_it(weights: np.ndarray, tmp_path: Path) -> None:
    for at in (0, 4):  # the second is not aligned
        text = program(f"w.bin@{at}+{400 - at}", n=100 - at // 4)
        (result,) = compile_module(from_text(text, resources=tmp_path), "cpu")()
        np.testing.assert_array_equal(result, weights[at // 4 :])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u8", "?"])
def test_what_is_written_is_read(dtype: str, tmp_path: Path) -> None:
    raw = np.random.default_rng(1).integers(0, 2 if dtype == "?" else 256, 77 * np.dtype(dtype).itemsize)
    literals = [elements(raw.astype(np.uint8).view(dtype)), elements(raw[::-1].astype(np.uint8).view(dtype))]
    text = "".join(
        f"func.func @f{i}() -> {x.type} {{\n  %0 = ng.constant {x.literal} : {x.type}\n"
        f"  return %0 : {x.type}\n}}\n"
        for i, x in enumerate([*literals, literals[0]])
    )
    module = from_text(text)
    writer = ResourceWriter("sub/w.bin")
    written = to_text(module, file=writer)
    assert "dialect_resources" not in written and written.count("crc32:") == 2
    assert writer.size == len(literals[0].data) + -len(literals[0].data) % 64 + len(literals[1].data)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"".join(writer.pieces()))
    assert to_text(from_text(written, resources=tmp_path)) == to_text(module)


@pytest.mark.parametrize(
    "entry, message",
    [
        ("w.bin", "expected .file@first byte"),
        ("@0+400", "expected .file@first byte"),
        ("w.bin@0+-400", "expected .file@first byte"),
        ("w.bin@0+400 crc32:00", "expected .file@first byte"),
        ("w.bin@0+400 crc32:00000000", "'w.bin' does not match this text: wrong checksum"),
        ("w.bin@0+396", "resource 'w' has 396 bytes, but tensor<100xf32> has 400"),
        ("w.bin@4+400", "'w.bin' ends at byte 400, but the constant at byte 404"),
        ("w.bin@9999999999999999999+400", "ends at byte 400"),
        ("w.bin@0+9999999999999999999", "ends at byte 400"),
        ("empty.bin@0+400", "ends at byte 0"),
        ("missing.bin@0+400", "cannot read 'missing.bin' in .*: No such file"),
        ("folder@0+400", "'folder' is not a file|Is a directory"),
        ("pipe@0+400", "'pipe' is not a file"),
        ("link@0+400", "is a link that leads outside"),
        ("/etc/passwd@0+400", "not allowed: it is not a path from the text's folder"),
        ("//host/w.bin@0+400", "not allowed"),
        ("C:/w.bin@0+400", "not allowed"),
        ("C:w.bin@0+400", "not allowed"),
        ("../w.bin@0+400", "not allowed: it leads outside the folder"),
        ("folder/../w.bin@0+400", "not allowed: it leads outside the folder"),
        ("folder\\\\..\\\\w.bin@0+400", "not allowed"),
        ("a\\\\b@0+400", "not allowed: it is not the name of a file"),
        ("w.bin\\00@0+400", "not allowed: it is not the name of a file"),
        (".@0+400", "not allowed: it is not the name of a file"),
        ("x" * 5000 + "@0+400", "cannot read"),
        ("loop@0+400", "cannot read|leads out"),
        ("\\FF\\FE@0+400", "cannot read"),
    ],
)
def test_other_entries_are_refused_at_their_line(
    entry: str, message: str, weights: np.ndarray, tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "w.bin").write_bytes(weights.tobytes())
    (inside / "empty.bin").touch()
    (inside / "folder").mkdir()
    os.mkfifo(inside / "pipe")
    (inside / "link").symlink_to(tmp_path / "w.bin")
    (inside / "loop").symlink_to(inside / "loop")
    with pytest.raises(UserError, match=message) as caught:
        from_text(program(entry), file="p.ngir", resources=inside)
    (found,) = caught.value.diagnostics
    assert found.location.file == "p.ngir" and found.location.line in (2, 5)


def test_a_link_inside_the_folder_is_followed(weights: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "link.bin").symlink_to("w.bin")
    module = from_text(program("link.bin@0+400"), resources=tmp_path)
    np.testing.assert_array_equal(constant_of(module).array(), weights)


def test_text_without_a_folder_names_no_files(weights: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder to look for 'w.bin' in"):
        from_text(program("w.bin@0+400"))
    code, _, said = answer(text=program("w.bin@0+400"))
    assert code == 1 and "<stdin>:5:" in said and "--resource-folder" in said
    code, printed, _ = answer(f"--resource-folder={tmp_path}", text=program("w.bin@0+400"))
    assert code == 0 and "dense_resource<constant_0>" in printed


def test_values_that_are_no_booleans_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes([0, 1] * 49 + [1, 2]))
    with pytest.raises(UserError, match="bytes that are no i1"):
        from_text(program("w.bin@0+100", t="i1"), resources=tmp_path)


# -- ngopt -----------------------------------------------------------------------------------------------------------


def test_ngopt_writes_and_reads_files(weights: np.ndarray, tmp_path: Path) -> None:
    source, target, beside = tmp_path / "in.ngir", tmp_path / "out.ngir", tmp_path / "out.bin"
    source.write_text(program("w.bin@0+400"))
    again = [str(source), "-o", str(target), f"--resources={beside}"]
    assert answer(*again)[0] == 0
    assert beside.read_bytes() == weights.tobytes() and '"out.bin@0+400 crc32:' in target.read_text()
    # In place: what is mapped while it is replaced stays what it was.
    assert answer(str(target), "-o", str(target), f"--resources={beside}")[0] == 0
    assert beside.read_bytes() == weights.tobytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.ngir", "out.bin", "out.ngir", "w.bin"]
    code, printed, _ = answer(str(target))
    assert code == 0 and 'constant_0: "0x40000000' in printed


def test_programs_of_one_file_share_it(tmp_path: Path) -> None:
    one = program("w.bin@0+400")
    (tmp_path / "in.ngir").write_text(f"{one}// -----\n{one.replace('@0+', '@400+')}// -----\n{one}")
    np.arange(200, dtype=np.float32).tofile(tmp_path / "w.bin")
    target = tmp_path / "out.ngir"
    arguments = [str(tmp_path / "in.ngir"), "--split-input-file", "-o", str(target)]
    assert answer(*arguments, f"--resources={tmp_path / 'out.bin'}")[0] == 0
    assert (tmp_path / "out.bin").stat().st_size == 448 + 400
    assert answer(*arguments)[0] == 0
    plain = target.read_text()
    assert answer(*arguments, f"--resources={tmp_path / 'out.bin'}")[0] == 0
    assert answer(str(target), "--split-input-file", "-o", str(target))[0] == 0
    assert target.read_text() == plain


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--resources=w.bin"], "--resources needs an output file"),
        (["--resources=w.bin", "-o", "x", "--emit=llvm"], "--resources needs an output file"),
        (["--resources=../w.bin", "-o", "x"], "leads outside the folder"),
        (["--resources=/tmp/w.bin", "-o", "x"], "leads outside the folder"),
        (["--resources=.", "-o", "x"], "it is not the name of a file"),
    ],
)
def test_files_that_the_output_cannot_name_are_refused(arguments: list[str], message: str) -> None:
    code, _, said = answer(*arguments, text="module {}")
    assert code == 1 and message in said


def test_elision(weights: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "in.ngir"
    path.write_text(program("w.bin@0+400"))
    for flag in ("--elide=99", "--mlir-elide-elementsattrs-if-larger=99", "-elide=99"):
        code, printed, said = answer(str(path), flag, "--shape", "--print-ir-after-all")
        assert code == 0 and all("dense_resource<__elided__>" in text for text in (printed, said))
        assert "{-#" not in printed + said
        code, _, said = answer("-p", "cpu", "--emit=llvm", text=printed)
        assert code == 1 and "the elements of this constant were omitted (elided) when it was printed" in said
    assert "__elided__" not in answer(str(path), "--elide=100")[1]
    for length, left in ((812, True), (811, False)):  # with quotes, as mlir-opt counts
        printed = answer(str(path), f"--mlir-elide-resource-strings-if-larger={length}")[1]
        assert "dense_resource<constant_0>" in printed and ('"0x40000000' in printed) == left
