# SPDX-License-Identifier: Apache-2.0
"""Exports architectures with torch's exporter (random weights), runs them by ngmlir, and compares with torch.

    python bench/models_zoo.py [--filter REGEX] [--targets cpu,numpy] [--cache FOLDER] [--json results.json]

Each model is exported once into the cache, and then read, compiled and run in a process of its own. `error` is the
greatest difference from torch in double precision over the greatest value; beside it ONNX Runtime's, where it is installed.
Times are those of the processor.
Needs torch, torchvision, transformers, onnx, onnxscript; no weights are loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))


def export(name: str, folder: Path) -> None:
    """Writes model.onnx and inputs and results (in double precision where that works) into the folder."""
    import copy

    import torch
    from zoo_models import MODELS

    torch.manual_seed(0)
    module, inputs, *dynamic = MODELS[name]()
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1 or not parameter.any():  # ones and zeros would hide mistakes
                parameter.add_(torch.randn_like(parameter) * 0.05)
        _settle_norms(module, inputs)
        single = _arrays(module(*inputs))
        try:
            double = copy.deepcopy(module).double()
            given = [i.double() if i.is_floating_point() else i for i in inputs]
            exact = _arrays(double(*given))
        except Exception:  # some models make floats of their own
            exact = single
        options = {"dynamic_shapes": dynamic[0]} if dynamic else {}
        torch.onnx.export(
            module, inputs, str(folder / "model.onnx"), dynamo=True, verbose=False, optimize=True, **options
        )
    arrays = {f"in{i}": x.numpy() for i, x in enumerate(inputs)}
    np.savez(
        folder / "arrays.npz",
        **arrays,
        **{f"single{i}": x for i, x in enumerate(single)},
        **{f"exact{i}": x for i, x in enumerate(exact)},
    )


def _settle_norms(module: Any, inputs: Any) -> None:
    """Batch norms with the statistics of the inputs: else values grow from layer to layer."""
    import torch

    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None

        def note(norm: Any, given: Any) -> None:
            x = given[0]
            axes = [d for d in range(x.dim()) if d != 1]
            norm.running_mean.copy_(x.mean(axes))
            norm.running_var.copy_(x.var(axes, unbiased=False) + 0.1)

        handle = norm.register_forward_pre_hook(note)
        norm._zoo = handle
    if norms:
        module(*inputs)
    for norm in norms:
        norm._zoo.remove()
        del norm._zoo


def _arrays(made: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(made, (list, tuple)):
        return [a for each in made for a in _arrays(each)]
    return [made.detach().numpy()]


def difference(got: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> float:
    """Greatest difference over greatest value; infinite where shapes or places of NaN differ."""
    got, exact = np.asarray(got), np.asarray(exact)
    if got.shape != exact.shape:
        return float("inf")
    if got.size == 0:
        return 0.0
    a, b = got.astype(np.float64), exact.astype(np.float64)
    plain = np.isfinite(b)
    if not np.array_equal(a[~plain], b[~plain], equal_nan=True):
        return float("inf")
    size = max(float(np.abs(b[plain]).max(initial=0.0)), 1e-30)
    worst = np.abs(a[plain] - b[plain]).max(initial=0.0) / size
    return float("inf") if np.isnan(worst) else float(worst)


def _best(call: Any) -> float:
    """Milliseconds of the processor that a call takes: other jobs of the machine do not lengthen them."""
    taken: list[float] = []
    for _ in range(5):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return round(1000 * min(taken), 2)


def measure(name: str, folder: Path, targets: list[str]) -> dict[str, Any]:
    """What became of one model."""
    import ngmlir as ng
    from ngmlir.frontends import onnx

    held = np.load(folder / "arrays.npz")
    inputs = [held[f"in{i}"] for i in range(sum(k.startswith("in") for k in held))]
    exact = [held[f"exact{i}"] for i in range(sum(k.startswith("exact") for k in held))]
    row: dict[str, Any] = {"model": name}
    row["torch"] = max(difference(held[f"single{i}"], e) for i, e in enumerate(exact))
    for target in targets:
        start = time.process_time()
        model = onnx.load(folder / "model.onnx")
        row[f"{target}_load_s"] = round(time.process_time() - start, 2)
        wanted = inputs[: len(model.input_names)]
        run = ng.compile(model, target=target)
        made = run(*wanted)
        row[f"{target}_first_s"] = round(time.process_time() - start, 2)
        row[f"{target}_ms"] = _best(lambda run=run, wanted=wanted: run(*wanted))
        row[target] = max(difference(m, e) for m, e in zip(made, exact, strict=True))
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        start = time.process_time()
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        feed = dict(zip((i.name for i in session.get_inputs()), inputs, strict=False))
        made = session.run(None, feed)
        row["ort_first_s"] = round(time.process_time() - start, 2)
        row["ort_ms"] = _best(lambda: session.run(None, feed))
        row["ort"] = max(difference(m, e) for m, e in zip(made, exact, strict=True))
    except Exception as error:
        row["ort"] = f"{type(error).__name__}: {str(error)[:100]}"
    return row


def step(name: str, what: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """One step in a process of its own, which may hang or die."""
    command = [
        sys.executable, __file__, "--one", name, "--step", what, "--cache", str(folder.parent), "--targets", given.targets,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=given.limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"{what}: not done after {given.limit} s"}
    told = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if told:
        return json.loads(told[-1])
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return {"failed": f"{what}: {lines[-1][:300]}"}


def one(name: str, what: str, folder: Path, targets: list[str]) -> None:
    try:
        row = measure(name, folder, targets) if what == "run" else {}
        if what == "export":
            export(name, folder)
    except Exception as error:
        text = traceback.format_exc()
        (folder / f"{what}.log").write_text(text)
        row = {
            "failed": f"{what}: {type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error).strip() else ''}"
        }
    print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filter", default="")
    parser.add_argument("--targets", default="cpu")
    parser.add_argument("--cache", default="/tmp/ngmlir-zoo")
    parser.add_argument("--json", default="")
    parser.add_argument("--limit", type=int, default=240)
    parser.add_argument("--export-only", action="store_true")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--step", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    cache = Path(given.cache)
    if given.one:
        one(given.one, given.step, cache / given.one, given.targets.split(","))
        return
    names = _names(cache, given)
    rows: list[dict[str, Any]] = []
    for name in names:
        folder = cache / name
        folder.mkdir(parents=True, exist_ok=True)
        failed = {} if (folder / "arrays.npz").exists() else step(name, "export", folder, given)
        row = failed or ({} if given.export_only else step(name, "run", folder, given))
        rows.append({"model": name, **row})
        print(_line(rows[-1], given.targets.split(",")), flush=True)
        if given.json:
            Path(given.json).write_text(json.dumps(rows, indent=1))
    good = [r for r in rows if "failed" not in r]
    print(f"{len(good)} of {len(rows)} ran")


def _names(cache: Path, given: argparse.Namespace) -> list[str]:
    try:
        from zoo_models import MODELS

        names = list(MODELS)
    except ImportError:  # without torch: what was exported elsewhere
        names = sorted(p.parent.name for p in cache.glob("*/arrays.npz"))
    return [n for n in names if re.search(given.filter, n)]


def _line(row: dict[str, Any], targets: list[str]) -> str:
    if "failed" in row:
        return f"{row['model']:34s} FAILED {row['failed']}"
    ort = row.get("ort", "")
    told = f"{ort:.1e} {row['ort_ms']:8.2f} ms" if isinstance(ort, float) else str(ort)
    mine = "  ".join(
        f"{t} {row[t]:.1e} {row[f'{t}_first_s']:6.2f} s {row[f'{t}_ms']:9.2f} ms" for t in targets if t in row
    )
    return f"{row['model']:34s} {mine}  | torch {row.get('torch', 0):.1e} | ort {told}"


if __name__ == "__main__":
    main()
