# SPDX-License-Identifier: Apache-2.0
"""Parser of functions and kernels: the header in its custom form, followed by a region."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from .attributes import ArrayAttr, Attribute, DictAttr, StringAttr, TypeAttr
from .core import Op, Region
from .definition import OpDefinition
from .kernel_header import read_clauses
from .recovery import RecoveringParser
from .types import FunctionType, Type


class FunctionParser(RecoveringParser):
    """A parser that also reads functions."""

    @abstractmethod
    def region(self, isolated: bool, arguments: Sequence[tuple[str, Type, int]] | None = None) -> Region:
        """The region at this token; `arguments` are those that the header names."""

    def function_op(self, cls: type[Op], definition: OpDefinition, start: int) -> Op:
        """`func.func [private] @name(%x: T {attributes}) -> (T) attributes {...} { body }`."""
        attributes: dict[str, Attribute] = {}
        if self.kind == "bare" and self.token.text in ("private", "public", "nested"):
            attributes["sym_visibility"] = StringAttr(self.take("bare").text)
        attributes["sym_name"] = StringAttr(self.symbol_name())
        arguments: list[tuple[str, Type, int]] = []
        inputs: list[Type] = []
        details: list[DictAttr] = []
        if definition.form and self.kind != "(":
            attributes |= read_clauses(
                self, lambda: self.function_arguments(arguments, [], details), arguments
            )
            details += [DictAttr(())] * (len(arguments) - len(details))
            inputs += [type for _, type, _ in arguments]
        else:
            self.function_arguments(arguments, inputs, details)
        results, result_details = self.function_results()
        if self.accept_word("attributes"):
            attributes.update(self.dictionary())
        for key, given in (("arg_attrs", details), ("res_attrs", result_details)):
            if any(d.items for d in given):
                attributes[key] = ArrayAttr(tuple(given))
        attributes["function_type"] = TypeAttr(FunctionType(tuple(inputs), tuple(results)))
        add_defaults(definition, attributes)
        region = Region()
        if self.kind == "{":
            if len(arguments) != len(inputs):
                raise self.error("a function with a body needs names for its arguments")
            region = self.region(True, arguments)
        return cls((), (), attributes, (region,), self.place(start))

    def function_arguments(
        self, arguments: list[tuple[str, Type, int]], inputs: list[Type], details: list[DictAttr]
    ) -> None:
        """`(%x: T {attributes}, ...)`, or the types alone."""
        self.expect("(")
        while self.kind != ")":
            if self.kind == "value":
                value = self.take("value")
                self.expect(":")
                inputs.append(self.type())
                arguments.append((value.text, inputs[-1], value.start))
            else:
                inputs.append(self.type())  # a declaration has no names
            details.append(DictAttr(tuple(self.dictionary().items()) if self.kind == "{" else ()))
            self.argument_location()
            if not self.accept(","):
                break
        self.expect(")")

    def function_results(self) -> tuple[list[Type], list[DictAttr]]:
        if not self.accept("->"):
            return [], []
        if self.kind != "(":
            return [self.type()], [DictAttr(())]
        return self.types_in_brackets()

    def types_in_brackets(self) -> tuple[list[Type], list[DictAttr]]:
        """`(T {attributes}, U)`."""
        types: list[Type] = []
        details: list[DictAttr] = []
        self.expect("(")
        while self.kind != ")":
            types.append(self.type())
            details.append(DictAttr(tuple(self.dictionary().items()) if self.kind == "{" else ()))
            if not self.accept(","):
                break
        self.expect(")")
        return types, details

    def argument_location(self) -> None:
        """`loc(...)` of an argument: read and dropped, since only ops have a place."""
        if self.kind == "bare" and self.token.text == "loc":
            self.location()


def add_defaults(definition: OpDefinition, attributes: dict[str, Attribute]) -> None:
    for field in definition.attributes:
        if field.name not in attributes and field.default is not None:
            attributes[field.name] = field.default
