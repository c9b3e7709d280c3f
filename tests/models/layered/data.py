# SPDX-License-Identifier: Apache-2.0
"""Data in the place of what the programs beside this file would download: digits of scikit-learn, text and waves made here.

The classes have the interfaces that such programs know: `load_data`, `load_split`, `train`, `valid`, `char_to_index`.
"""

from __future__ import annotations

import numpy as np


class Digits:
    """The 8 x 8 digits of scikit-learn as bytes, three quarters to train on and one to validate with."""

    def __init__(self, path=None):
        self.path = path

    def load_data(self):
        """({"image": ..., "label": ...} to train on, the same to validate with)."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        order = np.random.RandomState(0).permutation(len(labels))
        images = (pixels[order] * 15.9375).astype(np.uint8).reshape(-1, 1, 8, 8)
        labels = labels[order].astype(np.uint8)
        held = len(labels) * 3 // 4

        def part(chosen):
            return {
                "image": {"data": images[chosen], "axes": ("batch", "C", "H", "W")},
                "label": {"data": labels[chosen], "axes": ("batch",)},
            }

        return part(slice(held)), part(slice(held, None))


class Sentences:
    """Sentences of a small grammar as one long sequence of letters."""

    NAMES = ("the old king", "a young queen", "the grey cat", "a small dog", "the tall tree")
    VERBS = ("sees", "hears", "follows", "finds")

    def __init__(self, path=None, sentences=400):
        rng = np.random.RandomState(1)
        text = "".join(
            f"{rng.choice(self.NAMES)} {rng.choice(self.VERBS)} {rng.choice(self.NAMES)}. "
            for _ in range(sentences)
        )
        self.vocab = sorted(set(text))
        self.token_to_index = {letter: place for place, letter in enumerate(self.vocab)}
        self.index_to_token = dict(enumerate(self.vocab))
        indices = np.array([self.token_to_index[letter] for letter in text], np.int32)
        cut = len(indices) * 9 // 10
        self.train, self.valid = (
            {
                "inp_txt": {"data": part[:-1], "axes": ("REC",)},
                "tgt_txt": {"data": part[1:], "axes": ("REC",)},
            }
            for part in (indices[:cut], indices[cut:])
        )


class Reviews:
    """Reviews of twelve words; the words that say what is thought of a film stand anywhere among others. 0 is no word."""

    def __init__(self, path=None, vocab_size=30, sentence_length=12, samples=480):
        rng = np.random.RandomState(2)
        reviews = rng.randint(5, vocab_size, (samples, sentence_length))
        labels = rng.randint(0, 2, samples)
        for row, label in enumerate(labels):
            places = rng.choice(sentence_length, 2, replace=False)
            reviews[row, places] = 1 + 2 * label + rng.randint(0, 2, 2)
            reviews[row, : rng.randint(0, 4)] = 0
            reviews[row, places] = 1 + 2 * label
        self.data = reviews.astype(np.int32), labels.astype(np.int32)

    def load_data(self):
        """The same as `Digits.load_data` gives, of reviews."""
        reviews, labels = self.data
        held = len(labels) * 3 // 4

        def part(chosen):
            return {
                "review": {"data": reviews[chosen], "axes": ("batch", "REC")},
                "label": {"data": labels[chosen], "axes": ("batch",)},
            }

        return part(slice(held)), part(slice(held, None))


def waves(steps, features=2, periods=12):
    """A Lissajous curve with a little noise: (steps, features)."""
    t = np.linspace(0, 2 * np.pi * periods, steps)
    curve = np.stack([np.sin(3 * t), np.cos(2 * t)], 1)[:, :features]
    return (curve + np.random.RandomState(3).normal(0, 0.02, curve.shape)).astype(np.float32)
