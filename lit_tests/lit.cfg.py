# SPDX-License-Identifier: Apache-2.0
"""lit's configuration. `./run test` runs it; `./run lit FOLDER` runs a part."""

import os
import shutil
import sys
from pathlib import Path

import lit.formats

root = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(root / "src"))

from ngmlir.runtime import ptxas  # noqa: E402

config.name = "ngmlir"  # noqa: F821
config.test_source_root = str(root / "lit_tests")  # noqa: F821
config.test_exec_root = os.environ.get("NGMLIR_LIT_OUTPUT", str(root / "build" / "lit"))  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".ngir", ".py", ".test"]  # noqa: F821
config.excludes = ["lit.cfg.py", "Inputs"]  # noqa: F821
config.environment["PYTHONPATH"] = str(root / "src")  # noqa: F821
config.environment["NO_COLOR"] = "1"  # noqa: F821
for name in ("NGMLIR_CACHE_DIR", "NGMLIR_CPU", "XDG_CACHE_HOME", "HOME", "TMPDIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]  # noqa: F821


def mlir_opt() -> str | None:
    """The stock tool, for the tests that compare with it."""
    return shutil.which("mlir-opt") or shutil.which("mlir-opt", path="/usr/lib/llvm-19/bin")


python = sys.executable
config.substitutions += [  # noqa: F821
    (r"\bngopt\b", f"{python} -m ngmlir.tools.ngopt"),
    (r"\bngmlir\b(?=\s)", f"{python} -m ngmlir"),
    (r"\bFileCheck\b", f"{python} -m filecheck"),
    (r"%python", python),
    (r"%mlir-opt", mlir_opt() or "mlir-opt"),
    (r"%ptxas", str(ptxas.find() or "ptxas")),
]
features = {
    "mlir-opt": mlir_opt() is not None,
    "ptxas": ptxas.find() is not None,
    "cuda": Path("/dev/nvidiactl").exists(),
}
config.available_features.update(name for name, present in features.items() if present)  # noqa: F821
