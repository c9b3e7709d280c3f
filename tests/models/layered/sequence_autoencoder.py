#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""An LSTM puts a sequence of letters into its states, another one writes it again from there, backwards.

python sequence_autoencoder.py -b cpu -z 32 -t 1000
"""

from contextlib import closing

import numpy as np
from data import Sentences

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    LSTM,
    Adam,
    Affine,
    GlorotInit,
    Logistic,
    NgraphArgparser,
    Preprocess,
    ProgressBar,
    SequentialArrayIterator,
    Softmax,
    Tanh,
    ax,
    make_bound_computation,
)

parser = NgraphArgparser(description=__doc__)
parser.add_argument("--hidden", type=int, default=64, help="numbers in a state")
args = parser.parse_args()
np.random.seed(args.rng_seed)
time_steps = 6

dataset = Sentences(args.data_dir)
train_set = SequentialArrayIterator(
    {key: dataset.train["inp_txt"] for key in ("inp_txt", "tgt_txt")},
    batch_size=args.batch_size,
    time_steps=time_steps,
    stride=1,
    total_iterations=args.num_iterations,
    get_prev_target=True,
    reverse_target=True,
)
inputs = train_set.make_placeholders()
ax.Y.length = len(dataset.vocab)


def expand_onehot(x):
    return ng.one_hot(x, axis=ax.Y)


init = GlorotInit()
lstm = dict(activation=Tanh(), gate_activation=Logistic(), reset_cells=True)
encoder = LSTM(args.hidden, init, return_sequence=False, name="encoder", **lstm)
decoder = LSTM(args.hidden, init, return_sequence=True, name="decoder", **lstm)
one_hot = Preprocess(functor=expand_onehot)
answer = Affine(init, activation=Softmax(), bias_init=0.0, axes=(ax.Y,), name="answer")

# The states after the last letter are those before the first one of the decoder, which is given each target one step late.
enc_h, enc_c = encoder(one_hot(inputs["inp_txt"]), return_cell_state=True)
dec = decoder(one_hot(inputs["prev_tgt"]), init_state={"h": enc_h, "c": enc_c})
output_prob = answer(dec)

loss = ng.cross_entropy_multi(output_prob, ng.one_hot(inputs["tgt_txt"], axis=ax.Y))
mean_cost = ng.mean(loss, out_axes=[])
right = ng.equal(ng.argmax(output_prob, reduction_axes=[ax.Y]), inputs["tgt_txt"])
optimizer = Adam(learning_rate=0.01, gradient_clip_norm=5)
train_outputs = dict(
    batch_cost=ng.sequential([optimizer(loss), mean_cost]), right=ng.mean(right, out_axes=())
)

costs, right = [], []
with closing(ngt.make_transformer()) as transformer:
    train_computation = make_bound_computation(transformer, train_outputs, inputs)
    progress_bar = ProgressBar(unit="iterations", ncols=100, total=args.num_iterations)
    for batch in progress_bar(train_set):
        found = train_computation(batch)
        costs.append(float(found["batch_cost"]))
        right.append(float(found["right"]))
        progress_bar.set_description(f"Training {costs[-1]:0.4f}")

print(f"Letters written again: {np.mean(right[-20:]):.1%}")
