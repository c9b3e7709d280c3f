# SPDX-License-Identifier: Apache-2.0
"""Programs as text and as bytes. The bytes are the text, with locations, and a checksum of all of it as the last line."""

from __future__ import annotations

from hashlib import sha256

from ..ir.attributes import IntegerAttr
from ..ir.core import Module
from ..ir.printer import to_text
from ..ops.words import from_text
from ..support.diagnostics import Diagnostic, Location, UserError
from .descriptions import VERSION, Program
from .verify import check_program

_SUM = "// sha256 "


def program_text(program: Program, *, locations: bool = False) -> str:
    """The text of a program, which `read_program` reads."""
    return to_text(program.module, locations=locations)


def read_program(text: str, *, file: str = "<program>") -> Program:
    """The program that a text spells, checked; UserError with file:line:col where it is none, or of a later version."""
    return program_of(from_text(text, file=file))


def program_of(module: Module) -> Program:
    """A module as a program, checked."""
    version = module.attributes.get("program.version")
    if not isinstance(version, IntegerAttr):
        raise UserError(
            Diagnostic(
                "this module is no program",
                module.location,
                hint="a program has the attribute program.version",
            )
        )
    if version.value != VERSION:
        message = f"this program is of version {version.value}; this release reads version {VERSION}"
        raise UserError(Diagnostic(message, module.location))
    program = Program(module)
    check_program(program)
    return program


def program_bytes(program: Program) -> bytes:
    """The program with its locations, to be stored or sent."""
    body = program_text(program, locations=True).encode("utf-8")
    return body + f"{_SUM}{sha256(body).hexdigest()}\n".encode()


def parse_bytes(data: bytes, *, file: str = "<program>") -> Program:
    """The program of `program_bytes`; UserError where bytes are missing or altered."""
    body, mark, digest = data.rpartition(_SUM.encode())
    if not mark:
        raise UserError(
            f"{file}: the bytes of a program end with its checksum, and there is none: they are cut short"
        )
    if sha256(body).hexdigest().encode() != digest.strip():
        raise UserError(f"{file}: the bytes of this program were altered: their checksum is another")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        before = body[: error.start].decode("utf-8")
        place = Location(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise UserError(f"byte 0x{body[error.start]:02X} is not UTF-8 text", place) from None
    return read_program(text, file=file)
