# SPDX-License-Identifier: Apache-2.0
"""The command line that training programs share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ...transformers import make_transformer_factory, set_transformer_factory, transformer_choices


class NgraphArgparser(argparse.ArgumentParser):
    """A parser with the arguments of training programs. A program adds its own; one of the same name takes the place of that
    here. `parse_args` makes the transformer that was asked for (`-b cuda`) the one that `make_transformer()` gives.

    Args: those of `argparse.ArgumentParser`.
    """

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **{"conflict_handler": "resolve", **named})
        self.setup_default_args()

    @staticmethod
    def backend_names() -> list[str]:
        """What `--backend` may be."""
        return [*transformer_choices()]

    def setup_default_args(self) -> None:
        """Adds the arguments."""
        add = self.add_argument
        add("-v", "--verbose", action="count", default=1, help="say more")
        add("--no_progress_bar", dest="progress_bar", action="store_false", help="show no progress bar")
        add("-w", "--data_dir", default=None, help="the folder that data is in")
        add("-e", "--epochs", type=int, default=10, help="passes over the data")
        add("-z", "--batch_size", type=int, default=128, help="samples in a batch")
        add("-t", "--num_iterations", type=int, default=2000, help="batches to train on")
        add("--iter_interval", type=int, default=200, help="batches between reports")
        add("-b", "--backend", choices=self.backend_names(), default="cpu", help="what runs the program")
        add("-o", "--output_file", default=None, help="the .npz that costs are written to")
        add("-r", "--rng_seed", type=int, default=None, help="the seed for numpy.random.seed")
        add("--save_file", default=None, help="the file that weights are saved to")
        add("--model_file", default=None, help="the file that weights are loaded from")

    @staticmethod
    def make_and_set_transformer_factory(args: Any) -> None:
        """Makes the transformer of `args.backend` the one that `make_transformer()` gives."""
        set_transformer_factory(make_transformer_factory(args.backend))

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = super().parse_args(args, namespace)
        if hasattr(found, "backend"):
            self.make_and_set_transformer_factory(found)
        return found
