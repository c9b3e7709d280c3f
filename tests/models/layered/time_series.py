#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""A recurrent network goes on with a curve of which it saw the beginning: python time_series.py -b cpu -z 16 -t 800

What comes next is predicted from a window (`--predict_seq` at every step of it), and then from what was predicted.
"""

from contextlib import closing

import numpy as np
from data import waves

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    LSTM,
    Adam,
    Affine,
    ArrayIterator,
    GlorotInit,
    Identity,
    Layer,
    Logistic,
    NgraphArgparser,
    Sequential,
    Tanh,
    loop_eval,
    loop_train,
    make_bound_computation,
    make_default_callbacks,
)

parser = NgraphArgparser(description=__doc__)
parser.add_argument("--predict_seq", action="store_true", help="predict the next point at every step")
parser.add_argument("--seq_len", type=int, default=20, help="steps of a window")
args = parser.parse_args()
np.random.seed(args.rng_seed)
recurrent_units, feature_dim = 32, 2

series = waves(1500, feature_dim)
windows = np.stack([series[start : start + args.seq_len + 1] for start in range(len(series) - args.seq_len)])
before, after = windows[:, :-1], windows[:, 1:] if args.predict_seq else windows[:, -1]
held = len(before) * 4 // 5
target_axes = ("batch", "REC", "Fo") if args.predict_seq else ("batch", "Fo")


def part(chosen):
    return {
        "X": {"data": before[chosen], "axes": ("batch", "REC", "F")},
        "y": {"data": after[chosen], "axes": target_axes},
    }


train_set = ArrayIterator(
    part(slice(held)), args.batch_size, total_iterations=args.num_iterations, shuffle=True
)
valid_set = ArrayIterator(part(slice(held, None)), args.batch_size)
inputs = train_set.make_placeholders()
out_axis = inputs["y"].axes["Fo"]

init = GlorotInit()
seq1 = Sequential(
    [
        LSTM(
            nout=recurrent_units, init=init, backward=False, activation=Tanh(), gate_activation=Logistic(),
            return_sequence=args.predict_seq,
        ),
        Affine(weight_init=init, bias_init=init, activation=Identity(), axes=out_axis),
    ]
)  # fmt: skip

optimizer = Adam(learning_rate=0.01)
predicted = seq1(inputs["X"])
loss = ng.squared_L2(predicted - inputs["y"])
batch_cost = ng.sequential([optimizer(loss), ng.mean(loss, out_axes=())])
with Layer.inference_mode_on():
    inference = seq1(inputs["X"])
eval_loss = ng.squared_L2(inference - inputs["y"])

with closing(ngt.make_transformer()) as transformer:
    train_computation = make_bound_computation(transformer, dict(batch_cost=batch_cost), inputs)
    loss_computation = make_bound_computation(transformer, dict(l2_loss=eval_loss), inputs)
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

    # The curve goes on from what was predicted.
    predict = transformer.computation(inference, inputs["X"])
    window = np.repeat(before[held][None], args.batch_size, axis=0)
    curve = []
    for _ in range(20):
        found = predict(window)
        point = (found[:, -1, 0] if args.predict_seq else found[:, 0]).reshape(feature_dim)
        curve.append(point)
        window = np.concatenate([window[:, 1:], np.broadcast_to(point, (args.batch_size, 1, feature_dim))], 1)
    drift = np.abs(np.array(curve) - series[held + args.seq_len : held + args.seq_len + 20]).mean()
