# SPDX-License-Identifier: Apache-2.0
"""Language models: tokens per second, memory, and how long a model takes to start.

    python bench/language_models.py            # 1.1 billion parameters in Q4_0, one thread
    python bench/language_models.py --format Q8_0 --layers 4 --prompts 128,512
    python bench/language_models.py --layers 4 --prompts 256 --beside-llama-cpp   # needs llama-cpp-python

A model of random weights is written to a temporary folder. Times are the least CPU time of several calls. With one thread, those of
prompts are printed beside the rates of large products of f32 and of bytes (u8 by s8) in the same run: operations are two for each weight of
a layer and each token. With `--beside-llama-cpp` calls of both alternate; the logits of random blocks are not compared.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ngmlir.compiler import compile_artifact
from ngmlir.frontends import gguf
from ngmlir.frontends.decoders.formats import FORMATS
from ngmlir.frontends.decoders.programs import Key
from ngmlir.frontends.decoders.weights import Weight
from ngmlir.ops.words import from_text
from ngmlir.runtime.cpu import load
from ngmlir.runtime.threads import using_threads

WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, VOCABULARY = 2048, 8192, 32, 8, 64, 32000


def drawn(draw: np.random.Generator, name: str, shape: tuple[int, ...], kind: str) -> Weight:
    """Random blocks with small scales."""
    form = FORMATS[kind]
    if kind == "F32":
        return Weight(
            name, shape, form, (draw.standard_normal(prod(shape), np.float32) * 0.02).data.cast("B")
        )
    count = prod(shape) // form.elements
    blocks = draw.integers(0, 256, (count, form.bytes), dtype=np.uint8)
    for at in form.scales:
        scales = (draw.random(count) * 0.003 + 0.001).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    return Weight(name, shape, form, blocks.reshape(-1).data)


def written(path: Path, kind: str, layers: int) -> int:
    """Writes a model; how many parameters it has."""
    draw = np.random.default_rng(0)
    metadata: dict[str, Any] = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "no_vocab",
        "llama.vocab_size": VOCABULARY,
        "llama.context_length": 4096,
        "llama.embedding_length": WIDTH,
        "llama.block_count": layers,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }
    keys = KV_HEADS * HEAD_SIZE
    matrices = {"attn_q": (WIDTH, WIDTH), "attn_k": (keys, WIDTH), "attn_v": (keys, WIDTH), "attn_output": (WIDTH, WIDTH),
                "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}  # fmt: skip
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output.weight": (VOCABULARY, WIDTH)}
    shapes |= {f"blk.{i}.{name}.weight": shape for i in range(layers) for name, shape in matrices.items()}
    tensors: dict[str, Any] = {name: drawn(draw, name, shape, kind) for name, shape in shapes.items()}
    norms = ["output_norm", *(f"blk.{i}.{name}" for i in range(layers) for name in ("attn_norm", "ffn_norm"))]
    tensors |= {f"{name}.weight": np.ones(WIDTH, np.float32) for name in norms}
    gguf.write(path, metadata, tensors)
    return sum(prod(shape) for shape in shapes.values())


def megabytes() -> str:
    """The memory of this process: what is its own, and pages of files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    pairs = (line.partition(":") for line in lines)
    known = {key: int(rest.split()[0]) for key, _, rest in pairs if key in ("RssAnon", "RssFile", "VmHWM")}
    return f"{known['RssAnon'] / 1e3:.0f} MB and {known['RssFile'] / 1e3:.0f} MB of files, at most {known['VmHWM'] / 1e3:.0f} MB"


def main() -> None:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument(
        "--format", default="Q4_0", choices=["F32", *(name for name, f in FORMATS.items() if f.decode)]
    )
    known.add_argument("--layers", type=int, default=16)
    known.add_argument("--threads", type=int, default=1)
    known.add_argument("--prompts", default="", help="numbers of tokens, such as 128,512")
    known.add_argument("--beside-llama-cpp", action="store_true", help="compare with llama.cpp")
    found = known.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        if (child := os.fork()) == 0:  # what it takes to write a model is not what it takes to run one
            print(f"{written(path, found.format, found.layers) / 1e9:.2f} billion parameters", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(f"{found.format}: {path.stat().st_size / 1e6:.0f} MB")
        started = time.perf_counter()
        model = gguf.load(path, context=2048, threads=found.threads)
        print(f"read and checked in {time.perf_counter() - started:.2f} s")
        session = model.session()
        for name, size in (("single tokens", 1), ("prompts", 64)):
            started = time.perf_counter()
            model.programs().code(Key(size == 1, False))
            print(f"{name}: compiled and prepared in {time.perf_counter() - started:.2f} s; {megabytes()}")
            least = min(
                _seconds(lambda size=size: session.feed([[1] * size])) for _ in range(8 if size > 1 else 20)
            )
            print(f"calls of {size}: {least * 1e3:.1f} ms, {size / least:.1f} tokens per second")
        if found.prompts:
            prompts(model, found, [int(n) for n in found.prompts.split(",")])
        if found.beside_llama_cpp:
            beside(path, model, found, [1, *(int(n) for n in found.prompts.split(",") if n)])
        for length in (3, 17, 50, 129, 200):
            for _ in zip(range(40), model.generate_tokens([1] * length, max_tokens=40), strict=False):
                pass
        print(
            f"{model.programs().compiled} programs after prompts of 5 lengths and 200 tokens; {megabytes()}"
        )


def prompts(model: Any, found: argparse.Namespace, lengths: list[int]) -> None:
    """Prints how fast prompts are computed, and how fast products are."""
    keys = KV_HEADS * HEAD_SIZE
    weights = found.layers * (2 * WIDTH * (WIDTH + keys) + 3 * WIDTH * HIDDEN)
    products = {name: product(*types) for name, types in PRODUCTS.items()}
    rates = {name: min(_seconds(call) for _ in range(8)) for name, call in products.items()}
    for length in lengths:
        least = min(_seconds(lambda length=length: model.session().feed([[1] * length])) for _ in range(4))
        rate = 2 * weights * length / least
        shares = (f"{rate * s / PRODUCT_OPERATIONS:.2f} of {name}" for name, s in rates.items())
        print(
            f"prompt of {length}: {length / least:.1f} tokens per second, {rate / 1e9:.0f} G operations a second; {', '.join(shares)}"
        )


def beside(path: Path, model: Any, found: argparse.Namespace, lengths: list[int]) -> None:
    """Prints how fast tokens are computed here and by llama.cpp, calls in turn."""
    import llama_cpp

    other = llama_cpp.Llama(
        str(path), n_ctx=2048, n_batch=256, n_ubatch=256, n_threads=found.threads, n_threads_batch=found.threads, verbose=False
    )  # fmt: skip
    for length in lengths:
        tokens, session, times = [1] * length, model.session(), []
        for _ in range(20 if length == 1 else 5):
            if length > 1:
                session = model.session()
                other.reset()
            times.append(
                (
                    _seconds(lambda s=session, t=tokens: s.feed([t])),
                    _seconds(lambda t=tokens: other.eval(t)),
                )
            )
        mine, least = (min(each) for each in zip(*times, strict=True))
        print(
            f"calls of {length}: {length / mine:.1f} tokens per second, llama.cpp {length / least:.1f}; {least / mine:.2f} times as fast"
        )


#: Of a product of 512 rows by a layer's widest matrix.
PRODUCT_OPERATIONS = 2 * 512 * WIDTH * HIDDEN
PRODUCTS = {"f32": ("f32", "f32", "f32"), "bytes": ("ui8", "i8", "i32")}


def product(left: str, right: str, total: str) -> Any:
    """A call that multiplies 512 rows and a matrix, on one thread."""
    draw = np.random.default_rng(0)
    shapes = (512, WIDTH), (WIDTH, HIDDEN)
    given = [draw.integers(0, 100, s).astype(NUMPY[e]) for s, e in zip(shapes, (left, right), strict=True)]
    one, other, made = (f"tensor<{m}x{n}x" for m, n in (*shapes, (512, HIDDEN)))
    text = f"""
    func.func @main(%x: {one}{left}>, %w: {other}{right}>) -> {made}{total}> {{
      %0 = ng.cast %x : ({one}{left}>) -> {one}{total}>
      %1 = ng.cast %w : ({other}{right}>) -> {other}{total}>
      %2 = ng.dot %0, %1 contract [1] x [0] : ({one}{total}>, {other}{total}>) -> {made}{total}>
      return %2 : {made}{total}>
    }}"""
    with using_threads(1):
        run = load(compile_artifact(from_text(text), "cpu"))
    return lambda: run(*given)


NUMPY = {"f32": np.float32, "ui8": np.uint8, "i8": np.int8}


def _seconds(call: Any) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


if __name__ == "__main__":
    main()
