# SPDX-License-Identifier: Apache-2.0
"""One training step of programs, beside torch: the networks of `examples/programs`, and a ResNet-32 and a VGG-16 of full width.

    python bench/steps.py [--seconds 2] [--only REGEX] [--compiled] [--first]

Both train the same network on the same batch by the same update rule, on one thread, in one process. A step of ours is
`Executor.run` with its feeds, and fetches the loss; torch's makes tensors of the same arrays, and reads the loss as a number. Bursts
of both alternate, and the least CPU time counts. `ratio` is torch's time by ours: below 1 ours is slower. `--compiled` adds
torch.compile, which needs a C++ compiler; where torch is not installed, ours is measured alone. `--first` adds the seconds of the first step, in a process of its own with an empty cache,
and in a second one with what the first has left there.
"""

from __future__ import annotations

import os

# Before anything is imported.
os.environ["NGMLIR_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import nan
from typing import Any

import numpy as np

import ngmlir.frontends.fluid as fluid

layers = fluid.layers
Feeds = dict[str, np.ndarray[Any, Any]]
Step = Callable[[], Any]
rng = np.random.default_rng(0)


def images(batch: int, channels: int, side: int) -> Feeds:
    return {
        "x": rng.random((batch, channels, side, side), np.float32),
        "y": rng.integers(0, 10, (batch, 1)),
    }


# Ours: the feeds, and the loss.


def fit_a_line() -> tuple[Feeds, Any, Any]:
    feeds = {"x": rng.random((20, 13), np.float32), "y": rng.random((20, 1), np.float32)}
    x, y = layers.data("x", [13]), layers.data("y", [1])
    cost = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
    return feeds, cost, fluid.optimizer.SGD(0.01)


def classified(feeds: Feeds, network: Callable[[Any], Any], optimizer: Any) -> tuple[Feeds, Any, Any]:
    x, y = layers.data("x", list(feeds["x"].shape[1:])), layers.data("y", [1], dtype="int64")
    return feeds, layers.mean(layers.cross_entropy(network(x), y)), optimizer


def digits_mlp() -> tuple[Feeds, Any, Any]:
    def network(x: Any) -> Any:
        return layers.fc(layers.fc(layers.fc(x, 128, act="relu"), 64, act="relu"), 10, act="softmax")

    decay = fluid.regularizer.L2Decay(0.0005)
    return classified(images(64, 1, 8), network, fluid.optimizer.Momentum(0.1, 0.9, regularization=decay))


def digits_conv(side: int = 8, filter: int = 3, padding: int = 1) -> tuple[Feeds, Any, Any]:
    def network(x: Any) -> Any:
        for filters in (20, 50):
            x = fluid.nets.simple_img_conv_pool(x, filters, filter, 2, 2, conv_padding=padding, act="relu")
        return layers.fc(x, 10, act="softmax")

    return classified(images(64, 1, side), network, fluid.optimizer.Adam(0.002))


def conv_28() -> tuple[Feeds, Any, Any]:
    return digits_conv(28, 5, 0)


def normalized(x: Any, filters: int, size: int, stride: int, act: str | None = "relu") -> Any:
    made = layers.conv2d(x, filters, size, stride=stride, padding=size // 2, bias_attr=False)
    return layers.batch_norm(made, act=act)


def resnet(width: int, blocks: int) -> tuple[Feeds, Any, Any]:
    """Three groups of residual blocks, each of twice the width."""

    def network(x: Any) -> Any:
        x = normalized(x, width, 3, 1)
        for filters, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
            for number in range(blocks):
                by = stride if number == 0 else 1
                short = normalized(x, filters, 1, by, None) if x.shape[1] != filters else x
                made = normalized(normalized(x, filters, 3, by), filters, 3, 1, None)
                x = layers.elementwise_add(made, short, act="relu")
        return layers.fc(layers.pool2d(x, pool_type="avg", global_pooling=True), 10, act="softmax")

    return classified(images(32, 3, 32), network, fluid.optimizer.Adam(0.001))


def small_resnet() -> tuple[Feeds, Any, Any]:
    return resnet(8, 1)


def resnet_32() -> tuple[Feeds, Any, Any]:
    return resnet(16, 5)


#: Filters and convolutions of each group.
SMALL_VGG = ((8, 2), (16, 2), (32, 2))
VGG_16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def vgg(groups: Sequence[tuple[int, int]], hidden: int) -> tuple[Feeds, Any, Any]:
    """Groups of convolutions with batch normalization and dropout, and two layers."""

    def network(x: Any) -> Any:
        for filters, times in groups:
            x = fluid.nets.img_conv_group(
                x, [filters] * times, 2, pool_stride=2, conv_padding=1, conv_filter_size=3, conv_act="relu",
                conv_with_batchnorm=True, conv_batchnorm_drop_rate=[0.4] * (times - 1) + [0.0], pool_type="max",
            )  # fmt: skip
        x = layers.batch_norm(layers.fc(layers.dropout(x, 0.5), hidden), act="relu")
        return layers.fc(layers.dropout(x, 0.5), 10, act="softmax")

    return classified(images(32, 3, 32), network, fluid.optimizer.Adam(0.001))


def small_vgg() -> tuple[Feeds, Any, Any]:
    return vgg(SMALL_VGG, 64)


def vgg_16() -> tuple[Feeds, Any, Any]:
    return vgg(VGG_16, 512)


WORDS, EMBED, HIDDEN, WIDE = 1306, 32, 128, 100_000
#: What is known of a user and of an item: name -> how many values there are.
USER, ITEM = {"user_id": 1797, "label": 10}, {"item_id": 64, "row": 8, "column": 8}


def word2vec(is_sparse: bool = False, size: int = WORDS) -> tuple[Feeds, Any, Any]:
    names = ["first", "second", "third", "fourth", "next"]
    feeds = {name: rng.integers(0, WORDS, (100, 1)) for name in names}
    words = [layers.data(name, [1], dtype="int64") for name in names]
    vectors = [
        layers.embedding(word, [size, EMBED], is_sparse=is_sparse, param_attr="shared") for word in words[:-1]
    ]
    hidden = layers.fc(layers.concat(vectors, axis=1), HIDDEN, act="sigmoid")
    predicted = layers.fc(hidden, WORDS, act="softmax")
    return feeds, layers.mean(layers.cross_entropy(predicted, words[-1])), fluid.optimizer.SGD(0.001)


def word2vec_sparse() -> tuple[Feeds, Any, Any]:
    return word2vec(is_sparse=True)


def word2vec_wide() -> tuple[Feeds, Any, Any]:
    """With a table of many more rows than are looked up."""
    return word2vec(True, WIDE)


def recommender(is_sparse: bool = False) -> tuple[Feeds, Any, Any]:
    feeds: Feeds = {name: rng.integers(0, size, (256, 1)) for name, size in {**USER, **ITEM}.items()}
    feeds["score"] = rng.random((256, 1), np.float32) * 16

    def combined(features: dict[str, int]) -> Any:
        parts = []
        for name, size in features.items():
            number = layers.data(name, [1], dtype="int64")
            parts.append(layers.fc(layers.embedding(number, [size, EMBED], is_sparse=is_sparse), EMBED))
        return layers.fc(layers.concat(parts, axis=1), 200, act="tanh")

    similar = layers.scale(layers.cos_sim(combined(USER), combined(ITEM)), scale=16.0)
    cost = layers.mean(layers.square_error_cost(similar, layers.data("score", [1])))
    return feeds, cost, fluid.optimizer.SGD(0.2)


def recommender_sparse() -> tuple[Feeds, Any, Any]:
    return recommender(is_sparse=True)


def ours(model: Callable[[], tuple[Feeds, Any, Any]]) -> tuple[Feeds, Step]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        feeds, cost, optimizer = model()
        optimizer.minimize(cost)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    return feeds, lambda: exe.run(main, feed=feeds, fetch_list=[cost], scope=scope)


# The same in torch: the module, the cost of feeds, and the update rule.


def torch_model(name: str) -> tuple[Any, Callable[..., Any], Callable[[Any], Any]]:
    import torch.nn.functional as F
    from torch import cat, nn, optim

    def sequence(*parts: Any) -> Any:
        return nn.Sequential(*parts)

    def entropy(module: Any) -> Callable[..., Any]:
        return lambda x, y: F.cross_entropy(module(x), y[:, 0])

    def adam(p: Any) -> Any:
        return optim.Adam(p, 0.001, fused=True)

    if name == "fit_a_line":
        module = nn.Linear(13, 1)
        return module, lambda x, y: F.mse_loss(module(x), y), lambda p: optim.SGD(p, 0.01, fused=True)
    if name == "digits_mlp":
        module = sequence(
            nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
        )
        return (
            module,
            entropy(module),
            lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.0005, fused=True),
        )
    if name in ("digits_conv", "conv_28"):
        size, padding, left = (3, 1, 2) if name == "digits_conv" else (5, 0, 4)
        parts: list[Any] = []
        for ins, outs in ((1, 20), (20, 50)):
            parts += [nn.Conv2d(ins, outs, size, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        module = sequence(*parts, nn.Flatten(), nn.Linear(50 * left * left, 10))
        return module, entropy(module), adam
    is_sparse = not name.endswith(("word2vec", "recommender"))
    if name.startswith("word2vec"):

        class Words(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                size = WIDE if name == "word2vec_wide" else WORDS
                self.table = nn.Embedding(size, EMBED, sparse=is_sparse)
                self.hidden, self.out = nn.Linear(4 * EMBED, HIDDEN), nn.Linear(HIDDEN, WORDS)

            def forward(self, *words: Any) -> Any:
                return self.out(self.hidden(cat([self.table(w[:, 0]) for w in words], 1)).sigmoid())

        module = Words()
        return (
            module,
            lambda *f: F.cross_entropy(module(*f[:-1]), f[-1][:, 0]),
            lambda p: optim.SGD(p, 0.001, fused=not is_sparse),
        )
    if name.startswith("recommender"):

        class Side(nn.Module):
            def __init__(self, sizes: Sequence[int]) -> None:
                super().__init__()
                self.tables = nn.ModuleList([nn.Embedding(n, EMBED, sparse=is_sparse) for n in sizes])
                self.layers = nn.ModuleList([nn.Linear(EMBED, EMBED) for _ in sizes])
                self.out = nn.Linear(EMBED * len(sizes), 200)

            def forward(self, *ids: Any) -> Any:
                parts = [f(t(i[:, 0])) for f, t, i in zip(self.layers, self.tables, ids, strict=True)]
                return self.out(cat(parts, 1)).tanh()

        user, item = Side([*USER.values()]), Side([*ITEM.values()])
        return (
            nn.ModuleList([user, item]),
            lambda *f: F.mse_loss(16 * F.cosine_similarity(user(*f[:2]), item(*f[2:-1])), f[-1][:, 0]),
            lambda p: optim.SGD(p, 0.2, fused=not is_sparse),
        )
    if name in ("small_vgg", "vgg_16"):
        groups, hidden = (SMALL_VGG, 64) if name == "small_vgg" else (VGG_16, 512)
        parts, ins = [], 3
        for filters, times in groups:
            for i in range(times):
                parts += [nn.Conv2d(ins, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU()]
                parts += [nn.Dropout(0.4)] * (i < times - 1)
                ins = filters
            parts.append(nn.MaxPool2d(2))
        left = (32 >> len(groups)) ** 2
        parts += [nn.Flatten(), nn.Dropout(0.5), nn.Linear(ins * left, hidden), nn.BatchNorm1d(hidden)]
        module = sequence(*parts, nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, 10))
        return module, entropy(module), adam

    def normalized(ins: int, outs: int, size: int, stride: int) -> Any:
        return sequence(nn.Conv2d(ins, outs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outs))

    class Block(nn.Module):
        def __init__(self, ins: int, outs: int, stride: int) -> None:
            super().__init__()
            self.first, self.second = normalized(ins, outs, 3, stride), normalized(outs, outs, 3, 1)
            self.short = nn.Identity() if ins == outs else normalized(ins, outs, 1, stride)

        def forward(self, x: Any) -> Any:
            return F.relu(self.second(F.relu(self.first(x))) + self.short(x))

    width, blocks = (8, 1) if name == "small_resnet" else (16, 5)
    parts, ins = [normalized(3, width, 3, 1), nn.ReLU()], width
    for filters, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
        for number in range(blocks):
            parts.append(Block(ins, filters, stride if number == 0 else 1))
            ins = filters
    module = sequence(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ins, 10))
    return module, entropy(module), adam


def theirs(name: str, feeds: Feeds, compiled: bool) -> Step:
    import torch

    torch.set_num_threads(1)
    module, cost, rule = torch_model(name)
    optimizer = rule(module.parameters())
    if compiled:
        cost = torch.compile(cost)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = cost(*(torch.from_numpy(array) for array in feeds.values()))
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def least(steps: dict[str, Step], seconds: float) -> dict[str, float]:
    """Microseconds of CPU time of each, in bursts that alternate."""
    times = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        step()
        step()
    end = time.monotonic() + seconds * len(steps)
    while time.monotonic() < end:
        for name, step in steps.items():
            count, start = 0, time.process_time()
            while count == 0 or time.process_time() - start < 2e-3:
                step()
                count += 1
            times[name] = min(times[name], (time.process_time() - start) / count)
    return {name: 1e6 * t for name, t in times.items()}


def first_steps(name: str) -> tuple[float, float]:
    """Seconds of the first step of a new process: with an empty cache, and with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--first-step", name]
        environment = {**os.environ, "NGMLIR_CACHE_DIR": cache, "NGMLIR_CACHE": "1"}
        runs = [
            float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
            for _ in range(2)
        ]
    return runs[0], runs[1]


MODELS = {
    model.__name__: model
    for model in (
        fit_a_line, digits_mlp, digits_conv, conv_28, small_resnet, small_vgg, word2vec, word2vec_sparse, word2vec_wide,
        recommender, recommender_sparse, resnet_32, vgg_16,
    )
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--first-step", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first_step:
        _, step = ours(MODELS[arguments.first_step])
        start = time.perf_counter()
        step()
        print(time.perf_counter() - start)
        return
    for name, model in MODELS.items():
        if not re.search(arguments.only, name):
            continue
        feeds, step = ours(model)
        steps = {"ngmlir": step}
        if find_spec("torch"):
            steps["torch"] = theirs(name, feeds, False)
            if arguments.compiled:
                steps["compiled"] = theirs(name, feeds, True)
        times = least(steps, arguments.seconds)
        ratio = min((t for who, t in times.items() if who != "ngmlir"), default=nan) / times["ngmlir"]
        shown = "  ".join(f"{who} {t:9.1f}" for who, t in times.items())
        first = "  first {:.2f} s, cached {:.2f} s".format(*first_steps(name)) if arguments.first else ""
        print(f"{name:12} {ratio:5.2f}  {shown} us{first}", flush=True)


if __name__ == "__main__":
    main()
