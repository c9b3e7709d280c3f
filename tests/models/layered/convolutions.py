#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Convolutions with batch normalization on handwritten digits: python convolutions.py -b cpu -z 32 -t 400 --use_batch_norm"""

from contextlib import closing

import numpy as np
from data import Digits

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    Affine,
    ArrayIterator,
    Convolution,
    Dropout,
    GradientDescentMomentum,
    KaimingInit,
    Layer,
    NgraphArgparser,
    Parallel,
    Pooling,
    Preprocess,
    Rectlin,
    ResidualModule,
    Sequential,
    Softmax,
    ax,
    loop_eval,
    loop_train,
    make_bound_computation,
    make_default_callbacks,
)

parser = NgraphArgparser(description=__doc__)
parser.add_argument("--use_batch_norm", action="store_true", help="whether to use batch normalization")
args = parser.parse_args()
np.random.seed(args.rng_seed)

train_data, valid_data = Digits(args.data_dir).load_data()
train_set = ArrayIterator(
    train_data, batch_size=args.batch_size, total_iterations=args.num_iterations, shuffle=True
)
valid_set = ArrayIterator(valid_data, batch_size=args.batch_size)
inputs = train_set.make_placeholders(include_iteration=True)
ax.Y.length = 10


def mean_subtract(x):
    mean = ng.persistent_tensor(axes=[x.axes.channel_axis()], initial_value=np.array([78.0]))
    return (x - mean) / 255.0


init = KaimingInit()


def conv(size, maps, strides=1, relu=True):
    return Convolution(
        (size, size, maps), filter_init=init, strides=strides, padding=size // 2, activation=Rectlin() if relu else None,
        batch_norm=args.use_batch_norm,
    )  # fmt: skip


seq1 = Sequential(
    [
        Preprocess(functor=mean_subtract),
        conv(3, 8),
        ResidualModule(Sequential([conv(3, 8), conv(3, 8, relu=False)])),
        Rectlin(),
        Parallel([conv(1, 4), conv(3, 8), Sequential([Pooling((3, 3), padding=1), conv(1, 4)])]),
        Pooling((2, 2), strides=2, pool_type="avg"),
        Affine(nout=48, weight_init=init, batch_norm=args.use_batch_norm, activation=Rectlin()),
        Dropout(keep=0.9),
        Affine(axes=ax.Y, weight_init=init, activation=Softmax()),
    ]
)

schedule = [args.num_iterations // 2, args.num_iterations * 3 // 4]
learning_rate_policy = {"name": "schedule", "schedule": schedule, "gamma": 0.3, "base_lr": 0.05}
optimizer = GradientDescentMomentum(
    learning_rate=learning_rate_policy, momentum_coef=0.9, wdecay=0.0001, iteration=inputs["iteration"]
)
label_indices = inputs["label"]
train_loss = ng.cross_entropy_multi(seq1(inputs["image"]), ng.one_hot(label_indices, axis=ax.Y))
batch_cost = ng.sequential([optimizer(train_loss), ng.mean(train_loss, out_axes=())])

with Layer.inference_mode_on():
    inference_prob = seq1(inputs["image"])
errors = ng.not_equal(ng.argmax(inference_prob, out_axes=[ax.N]), label_indices)
eval_loss = ng.cross_entropy_multi(inference_prob, ng.one_hot(label_indices, axis=ax.Y))

with closing(ngt.make_transformer()) as transformer:
    train_computation = make_bound_computation(transformer, dict(batch_cost=batch_cost), inputs)
    loss_computation = make_bound_computation(
        transformer, dict(cross_ent_loss=eval_loss, misclass=errors), inputs
    )
    cbs = make_default_callbacks(
        transformer, args.output_file, args.iter_interval, train_computation, args.num_iterations,
        use_progress_bar=args.progress_bar,
    )  # fmt: skip
    costs = loop_train(train_set, train_computation, cbs)["cost/train"]
    evaluated = loop_eval(valid_set, loss_computation)

print("Misclassified: {misclass:.3f}, cross entropy: {cross_ent_loss:.3f}".format(**evaluated))
