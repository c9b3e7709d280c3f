#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""What reviews say, by a bidirectional network: python bidirectional_rnn.py -b cpu -z 32 -t 300 --layer_type birnn"""

from contextlib import closing

import numpy as np
from data import Reviews

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    Affine,
    ArrayIterator,
    BiRNN,
    ConstantInit,
    GlorotInit,
    Layer,
    LookupTable,
    NgraphArgparser,
    Recurrent,
    RMSProp,
    Sequential,
    Softmax,
    Tanh,
    UniformInit,
    ax,
    loop_eval,
    loop_train,
    make_bound_computation,
    make_default_callbacks,
)

parser = NgraphArgparser(description=__doc__)
parser.add_argument("--layer_type", default="birnn", choices=["rnn", "birnn", "birnn_concat"])
args = parser.parse_args()
np.random.seed(args.rng_seed)
vocab_size, embed_size, hidden_size, pad_idx = 30, 12, 16, 0
gradient_clip_value = 15

train_data, valid_data = Reviews(args.data_dir, vocab_size).load_data()
train_set = ArrayIterator(train_data, batch_size=args.batch_size, total_iterations=args.num_iterations)
valid_set = ArrayIterator(valid_data, batch_size=args.batch_size)
inputs = train_set.make_placeholders()
ax.Y.length = 2

init = GlorotInit()
if args.layer_type == "rnn":
    rlayer = Recurrent(hidden_size, init, activation=Tanh(), reset_cells=True, return_sequence=False)
else:
    concat = args.layer_type == "birnn_concat"
    rlayer = BiRNN(
        hidden_size, init=init, activation=Tanh(), reset_cells=True, return_sequence=False,
        sum_out=not concat, concat_out=concat,
    )  # fmt: skip
seq1 = Sequential(
    [
        LookupTable(vocab_size, embed_size, UniformInit(-0.5, 0.5), update=True, pad_idx=pad_idx),
        rlayer,
        Affine(init, activation=Softmax(), bias_init=ConstantInit(0.0), axes=(ax.Y,)),
    ]
)

optimizer = RMSProp(
    decay_rate=0.95, learning_rate=2e-2, epsilon=1e-6, gradient_clip_value=gradient_clip_value
)
train_prob = seq1(inputs["review"])
train_loss = ng.cross_entropy_multi(train_prob, ng.one_hot(inputs["label"], axis=ax.Y), usebits=True)
batch_cost = ng.sequential([optimizer(train_loss), ng.mean(train_loss, out_axes=())])
train_outputs = dict(batch_cost=batch_cost)

with Layer.inference_mode_on():
    inference_prob = seq1(inputs["review"])
errors = ng.not_equal(ng.argmax(inference_prob, reduction_axes=[ax.Y]), inputs["label"])
eval_loss = ng.cross_entropy_multi(inference_prob, ng.one_hot(inputs["label"], axis=ax.Y), usebits=True)
eval_outputs = dict(cross_ent_loss=ng.mean(eval_loss, out_axes=()), misclass=errors)

with closing(ngt.make_transformer()) as transformer:
    train_computation = make_bound_computation(transformer, train_outputs, inputs)
    loss_computation = make_bound_computation(transformer, eval_outputs, inputs)
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
    evaluated = loop_eval(valid_set, loss_computation)
