# SPDX-License-Identifier: Apache-2.0
"""`ngmlir env`: what ngmlir found on this machine, and the environment variables that it reads."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from importlib.util import find_spec

from ..support.diagnostics import NgmlirError
from ..support.version import version

#: Environment variable -> what it does. tests/unit/test_tools.py compares the names with the sources.
VARIABLES = {
    "FLAGS_check_nan_inf": "1: executors of the fluid front end look for NaNs and infinities after each operator (slow)",
    "NGMLIR_CACHE": "0: turn off the cache of compiled code",
    "NGMLIR_CACHE_DIR": "folder of the cache",
    "NGMLIR_CACHE_WEIGHTS": "largest size of packed weights in the cache, in MiB (default 2048; 0: none)",
    "NGMLIR_CHECK": "1: check bounds at run time; errors name the op and its line (slow)",
    "NGMLIR_COMPILE_PROCESSES": "number of compiler processes (0: compile in this process)",
    "NGMLIR_CUDA_BLOCKING": "1: wait for each GPU kernel, so that errors name the kernel that failed (slow)",
    "NGMLIR_CPU": "x86-64-v2, x86-64-v3 ...: use only the instructions of this CPU",
    "NGMLIR_NUM_THREADS": "number of threads of a program on the CPU (default: all cores)",
    "NGMLIR_ONNX_TARGET": "target of the ONNX backend interface for device CPU (cpu or numpy)",
    "NGMLIR_PROFILE": "folder for shared libraries with debug information, for perf, gdb and VTune (0: none)",
    "NGMLIR_TIMING": "1: print compile and kernel times at exit; FILE.json: write a trace for Perfetto",
    "NGMLIR_PTXAS": "path of ptxas",
    "NO_COLOR": "no colours in messages; FORCE_COLOR: colours, also in files",
}
_PACKAGES = ("llvmlite", "numpy", "ml_dtypes", "platformdirs", "cuda-bindings")


def table() -> str:
    """Each fact on a separate line."""
    rows = [
        ("ngmlir", version()),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
    ]
    rows += [(name, _installed(name)) for name in _PACKAGES]
    rows += [("system", f"{platform.system()} {platform.release()} {platform.machine()}"), *_cpu(), *_gpu()]
    rows += [("cache", _cache())]
    rows += [(name, f"{os.environ.get(name, 'not set'):12} {meaning}") for name, meaning in VARIABLES.items()]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:{width}}  {text}\n" for name, text in rows)


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> list[tuple[str, str]]:
    from ..llvm import machine

    target = machine.host_target()
    chosen = [f.removeprefix("+") for f in target.features.split(",") if f.startswith("+")]
    sizes = f"{target.vector_bytes * 8}-bit vectors, L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB"
    return [
        ("llvm", machine.version()),
        ("cpu", f"{target.cpu}, {target.cores} cores, {sizes}"),
        ("cpu features", " ".join(chosen) or "none reported"),
    ]


def _gpu() -> list[tuple[str, str]]:
    from ..runtime import ptxas
    from ..runtime.cuda import CudaDevice

    assembler = ptxas.find()
    found = (
        "not found (optional: the driver compiles PTX, cuda-sim runs it)"
        if assembler is None
        else str(assembler)
    )
    if find_spec("cuda") is None:
        return [("gpu", "cuda-bindings is not installed: pip install 'ngmlir[cuda]'"), ("ptxas", found)]
    try:
        facts = CudaDevice().describe()
        gpu = f"{facts.name}, sm_{''.join(map(str, facts.capability))}, {facts.memory_bytes >> 30} GiB"
    except NgmlirError as error:
        gpu = error.diagnostics[0].message
    return [("gpu", gpu), ("ptxas", found)]


def _cache() -> str:
    from ..runtime.cache import default_cache

    cache = default_cache()
    return "off" if cache is None else str(cache.folder)
