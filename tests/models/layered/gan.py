#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""A generator and a discriminator of points on a ring, with a progress bar: python gan.py -b cpu -z 64 -t 2000 -r 0"""

from contextlib import closing

import numpy as np

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    Adam,
    Affine,
    ArrayIterator,
    GlorotInit,
    Linear,
    NgraphArgparser,
    ProgressBar,
    Rectlin,
    Sequential,
    ax,
    make_bound_computation,
)

parser = NgraphArgparser(description=__doc__)
parser.add_argument("--dim", type=int, default=32, help="width of the hidden layers")
parser.add_argument("--lam", type=float, default=1.0, help="weight of the gradient penalty")
parser.add_argument(
    "--num_critic", type=int, default=3, help="steps of the discriminator for each of the generator"
)
args = parser.parse_args()
np.random.seed(args.rng_seed)
noise_dim = 2

rng = np.random.RandomState(4)
angles = rng.uniform(0, 2 * np.pi, 4096)
points = np.stack([np.cos(angles), np.sin(angles)], 1) + rng.normal(0, 0.03, (4096, 2))
noise_data = rng.normal(size=(4096, noise_dim))
train_set = ArrayIterator(
    {
        "data_sample": {"data": points, "axes": ("batch", "sample")},
        "noise": {"data": noise_data, "axes": ("batch", "noise")},
    },
    args.batch_size,
    total_iterations=args.num_iterations * args.num_critic,
    shuffle=True,
)
inputs = train_set.make_placeholders()
sample_axis = inputs["data_sample"].axes["sample"]


def make_generator(out_axis):
    return Sequential(
        [
            Affine(nout=args.dim, weight_init=GlorotInit(), bias_init=None, activation=Rectlin()),
            Affine(nout=args.dim, weight_init=GlorotInit(), bias_init=None, activation=Rectlin()),
            Affine(axes=out_axis, weight_init=GlorotInit(), bias_init=None),
        ],
        name="Generator",
    )


def make_discriminator():
    return Sequential(
        [
            Affine(nout=args.dim, weight_init=GlorotInit(), bias_init=None, activation=Rectlin(slope=0.1)),
            Affine(nout=args.dim, weight_init=GlorotInit(), bias_init=None, activation=Rectlin(slope=0.1)),
            Linear(nout=1, init=GlorotInit()),
        ],
        name="Discriminator",
    )


generator, discriminator = make_generator(sample_axis), make_discriminator()
generated = generator(inputs["noise"])
D1, D2 = discriminator(inputs["data_sample"]), discriminator(generated)

# The slope of the discriminator between real points and others is to be one.
eps = ng.uniform(ng.constant(0, [ax.N]), low=0.0, high=1.0)
between = eps * inputs["data_sample"] + (1 - eps) * generated
slope = ng.deriv(ng.sum(discriminator(between), out_axes=[ax.N]), between, error=ng.constant(1, [ax.N]))
penalty = ng.square(ng.L2_norm(slope) - 1)

loss_d = ng.mean(D2, out_axes=[ax.N]) - ng.mean(D1, out_axes=[ax.N]) + args.lam * penalty
loss_g = -ng.mean(D2, out_axes=[ax.N])
mean_cost_d, mean_cost_g = ng.mean(loss_d, out_axes=[]), ng.mean(loss_g, out_axes=[])
optimizer = dict(learning_rate=5e-3, beta_1=0.5, beta_2=0.9)
updates_d = Adam(**optimizer)(loss_d, subgraph=discriminator)
updates_g = Adam(**optimizer)(loss_g, subgraph=generator)

discriminator_train_outputs = {"batch_cost": ng.sequential([updates_d, mean_cost_d])}
generator_train_outputs = {"batch_cost": ng.sequential([updates_g, mean_cost_g]), "generated": generated}

radii = []
with closing(ngt.make_transformer()) as transformer:
    train_computation_g = make_bound_computation(
        transformer, generator_train_outputs, {"noise": inputs["noise"]}
    )
    train_computation_d = make_bound_computation(transformer, discriminator_train_outputs, inputs)
    progress_bar = ProgressBar(unit="iterations", ncols=100, total=args.num_iterations)
    for mb_idx in progress_bar(range(args.num_iterations)):
        for _ in range(args.num_critic):
            output_d = train_computation_d(next(train_set))
        output_g = train_computation_g({"noise": rng.normal(size=(args.batch_size, noise_dim))})
        progress_bar.set_description(
            "Disc_cost {:0.4e}, Gen_cost {:0.4e}".format(output_d["batch_cost"], output_g["batch_cost"])
        )
        radii.append(np.linalg.norm(output_g["generated"], axis=0).mean())
        if (mb_idx + 1) % args.iter_interval == 0:
            progress_bar.write(f"mean radius {np.mean(radii[-args.iter_interval :]):.3f}")
