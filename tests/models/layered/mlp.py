#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""A network of one hidden layer on handwritten digits: python mlp.py -b cpu -z 64 -t 2000 -r 0"""

from contextlib import closing

import numpy as np
from data import Digits

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    Affine,
    ArrayIterator,
    GaussianInit,
    GradientDescentMomentum,
    Layer,
    Logistic,
    NgraphArgparser,
    Preprocess,
    Rectlin,
    Saver,
    Sequential,
    ax,
    loop_train,
    make_bound_computation,
    make_default_callbacks,
)

parser = NgraphArgparser(description=__doc__)
parser.add_argument("--save_file", type=str, default=None, help="file that the weights are saved to")
parser.add_argument("--load_file", type=str, default=None, help="file that weights are loaded from")
args = parser.parse_args()
np.random.seed(args.rng_seed)

train_data, valid_data = Digits(path=args.data_dir).load_data()
train_set = ArrayIterator(train_data, args.batch_size, total_iterations=args.num_iterations)
valid_set = ArrayIterator(valid_data, args.batch_size)

inputs = train_set.make_placeholders()
ax.Y.length = 10

seq1 = Sequential(
    [
        Preprocess(functor=lambda x: x / 255.0),
        Affine(nout=100, weight_init=GaussianInit(), activation=Rectlin()),
        Affine(axes=ax.Y, weight_init=GaussianInit(), activation=Logistic()),
    ]
)

optimizer = GradientDescentMomentum(0.1, 0.9)
output_prob = seq1(inputs["image"])
errors = ng.not_equal(ng.argmax(output_prob, out_axes=[ax.N]), inputs["label"])
loss = ng.cross_entropy_binary(output_prob, ng.one_hot(inputs["label"], axis=ax.Y))
mean_cost = ng.mean(loss, out_axes=())
updates = optimizer(loss)
train_outputs = dict(batch_cost=ng.sequential([updates, mean_cost]), updates=updates)

with Layer.inference_mode_on():
    inference_prob = seq1(inputs["image"])
errors = ng.not_equal(ng.argmax(inference_prob, out_axes=[ax.N]), inputs["label"])
eval_loss = ng.cross_entropy_binary(inference_prob, ng.one_hot(inputs["label"], axis=ax.Y))
loss_outputs = dict(cross_ent_loss=eval_loss, misclass_pct=errors)

with closing(ngt.make_transformer()) as transformer:
    train_computation = make_bound_computation(transformer, train_outputs, inputs)
    loss_computation = make_bound_computation(transformer, loss_outputs, inputs)

    weight_saver = Saver()
    if args.save_file is not None:
        weight_saver.setup_save(transformer=transformer, computation=train_outputs)
    if args.load_file is not None:
        weight_saver.setup_restore(
            transformer=transformer, computation=train_outputs, filename=args.load_file
        )
        weight_saver.restore()

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
    callback_data = loop_train(train_set, train_computation, cbs)
    if args.save_file is not None:
        weight_saver.save(filename=args.save_file)

costs = callback_data["cost/train"]
misclassified = callback_data["loss/misclass_pct"]
