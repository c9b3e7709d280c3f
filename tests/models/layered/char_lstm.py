#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""An LSTM that reads letters and writes some: python char_lstm.py -b cpu -z 32 -t 600 --layer_type lstm"""

from contextlib import closing

import numpy as np
from data import Sentences

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    LSTM,
    Affine,
    Layer,
    Logistic,
    LookupTable,
    NgraphArgparser,
    Preprocess,
    Recurrent,
    RMSProp,
    Sequential,
    SequentialArrayIterator,
    Softmax,
    Tanh,
    UniformInit,
    ax,
    loop_train,
    make_bound_computation,
    make_default_callbacks,
)

parser = NgraphArgparser(description=__doc__)
parser.add_argument("--layer_type", default="lstm", choices=["rnn", "lstm"], help="which layer reads")
parser.add_argument("--use_lut", action="store_true", help="a table of letters in the place of one-hot ones")
parser.add_argument("--time_steps", type=int, default=24)
args = parser.parse_args()
np.random.seed(args.rng_seed)
hidden_size, gradient_clip_value = 48, 5

dataset = Sentences(args.data_dir)
train_set = SequentialArrayIterator(
    dataset.train,
    batch_size=args.batch_size,
    time_steps=args.time_steps,
    total_iterations=args.num_iterations,
)
valid_set = SequentialArrayIterator(
    dataset.valid, batch_size=args.batch_size, time_steps=args.time_steps, shuffle=False
)
inputs = train_set.make_placeholders()
ax.Y.length = len(dataset.vocab)


def expand_onehot(x):
    return ng.one_hot(x, axis=ax.Y)


init = UniformInit(low=-0.1, high=0.1)
first = (
    LookupTable(len(dataset.vocab), hidden_size, init, update=True)
    if args.use_lut
    else Preprocess(functor=expand_onehot)
)
if args.layer_type == "rnn":
    rlayer = Recurrent(hidden_size, init, activation=Tanh(), reset_cells=True)
else:
    rlayer = LSTM(
        hidden_size,
        init,
        activation=Tanh(),
        gate_activation=Logistic(),
        return_sequence=True,
        reset_cells=True,
    )
seq1 = Sequential([first, rlayer, Affine(init, activation=Softmax(), bias_init=init, axes=(ax.Y,))])

optimizer = RMSProp(learning_rate=0.01, gradient_clip_value=gradient_clip_value)
output_prob = seq1(inputs["inp_txt"])
loss = ng.cross_entropy_multi(output_prob, ng.one_hot(inputs["tgt_txt"], axis=ax.Y), usebits=True)
mean_cost = ng.mean(loss, out_axes=[])
train_outputs = dict(batch_cost=ng.sequential([optimizer(loss), mean_cost]))

with Layer.inference_mode_on():
    inference_prob = seq1(inputs["inp_txt"])
eval_loss = ng.cross_entropy_multi(inference_prob, ng.one_hot(inputs["tgt_txt"], axis=ax.Y), usebits=True)

# One sequence, of which each letter is guessed from those before it.
single = ng.placeholder(
    [ng.make_axis(1, name="N"), ng.make_axis(args.time_steps, name="REC")], name="written"
)
with Layer.inference_mode_on():
    written_prob = seq1(single)

with closing(ngt.make_transformer()) as transformer:
    train_computation = make_bound_computation(transformer, train_outputs, inputs)
    loss_computation = make_bound_computation(transformer, dict(cross_ent_loss=eval_loss), inputs)
    cbs = make_default_callbacks(
        transformer=transformer,
        output_file=args.output_file,
        frequency=args.iter_interval,
        train_computation=train_computation,
        total_iterations=args.num_iterations,
        eval_set=valid_set,
        loss_computation=loss_computation,
        use_progress_bar=args.progress_bar,
    )
    costs = loop_train(train_set, train_computation, cbs)["cost/train"]

    write = transformer.computation(written_prob, single)
    text = list("the old ")
    while len(text) < args.time_steps:
        seed = np.zeros((1, args.time_steps))
        seed[0, : len(text)] = [dataset.token_to_index[letter] for letter in text]
        chances = write(seed)[:, len(text) - 1, 0]
        text.append(dataset.index_to_token[int(np.argmax(chances))])
    generated = "".join(text)

print("Generated:", generated)
