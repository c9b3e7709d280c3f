# SPDX-License-Identifier: Apache-2.0
"""ngopt with one more pass, which duplicates every function."""

from __future__ import annotations

import sys

from ngmlir.ir.core import Module
from ngmlir.support.target import Target
from ngmlir.tools import ngopt


def broken(module: Module, target: Target) -> Module:
    """Makes a module that is not valid."""
    return module.with_ops([*module.ops, *module.ops])


ngopt.PASSES["broken"] = broken
code = ngopt.main(sys.argv[1:])
print(f"exit code {code}", file=sys.stderr)
