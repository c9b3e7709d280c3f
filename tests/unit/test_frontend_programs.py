# SPDX-License-Identifier: Apache-2.0
"""Whole programs as users of layers write them: only their import lines and their data are ours."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends.neon import (
    LSTM,
    Adam,
    Affine,
    ArrayIterator,
    BatchNorm,
    BiRNN,
    ConstantInit,
    Convolution,
    Deconvolution,
    Dropout,
    GaussianInit,
    GlorotInit,
    GradientDescentMomentum,
    KaimingInit,
    Layer,
    Linear,
    Logistic,
    LookupTable,
    NgraphArgparser,
    Pooling,
    Preprocess,
    Rectlin,
    Recurrent,
    ResidualModule,
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

BOTH = pytest.mark.parametrize("backend", ["numpy", "cpu"])


def digits(count: int, side: int, classes: int) -> dict[str, Any]:
    """Pictures of bright bars, as bytes: a bar's place is its class."""
    rng = np.random.RandomState(0)
    labels = rng.randint(0, classes, count)
    images = rng.randint(0, 100, (count, 1, side, side))
    images[np.arange(count), 0, labels] += 120
    return {
        "image": {"data": images.astype(np.uint8), "axes": ("batch", "C", "H", "W")},
        "label": {"data": labels.astype(np.uint8), "axes": ("batch",)},
    }


@pytest.mark.parametrize("backend", ["numpy", "cpu", "cuda-sim"])
def test_mnist_mlp(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = NgraphArgparser(description="Train simple mlp on mnist dataset")
    before = ngt.make_transformer().transformer_name
    iterations, size = ("6", "8") if backend == "cuda-sim" else ("150", "16")
    args = parser.parse_args(
        ["-b", backend, "-t", iterations, "-z", size, "-r", "0", "--iter_interval", iterations]
    )
    np.random.seed(args.rng_seed)

    data = digits(200, 8, 8)
    train_set = ArrayIterator(data, args.batch_size, total_iterations=args.num_iterations)
    valid_set = ArrayIterator({k: {**v, "data": v["data"][:16]} for k, v in data.items()}, args.batch_size)

    inputs = train_set.make_placeholders()
    ax.Y.length = 8

    seq1 = Sequential(
        [
            Preprocess(functor=lambda x: x / 255.0),
            Affine(nout=20, weight_init=GaussianInit(std=0.1), activation=Rectlin()),
            Affine(axes=ax.Y, weight_init=GaussianInit(std=0.1), activation=Logistic()),
        ]
    )

    optimizer = GradientDescentMomentum(0.1, 0.9)
    train_prob = seq1(inputs["image"])
    train_loss = ng.cross_entropy_binary(train_prob, ng.one_hot(inputs["label"], axis=ax.Y))
    batch_cost = ng.sequential([optimizer(train_loss), ng.mean(train_loss, out_axes=())])
    train_outputs = dict(batch_cost=batch_cost)

    with Layer.inference_mode_on():
        inference_prob = seq1(inputs["image"])
    errors = ng.not_equal(ng.argmax(inference_prob, out_axes=[ax.N]), inputs["label"])
    eval_loss = ng.cross_entropy_binary(inference_prob, ng.one_hot(inputs["label"], axis=ax.Y))
    eval_outputs = dict(cross_ent_loss=eval_loss, misclass_pct=errors)

    try:
        with closing(ngt.make_transformer()) as transformer:
            assert transformer.transformer_name == backend
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
            noted = loop_train(train_set, cbs)
    finally:
        ngt.set_transformer_factory(ngt.make_transformer_factory(before))
    assert "misclass_pct" in capsys.readouterr().out
    if backend == "cuda-sim":
        assert noted["cost/train"][-1] < noted["cost/train"][0]
    else:
        assert noted["loss/misclass_pct"][-1] == 0 and noted["cost/train"][-1] < 0.3


def cifar_mean_subtract(x: Any) -> Any:
    bgr_mean = ng.persistent_tensor(axes=[x.axes.channel_axis()], initial_value=np.array([50.0]))
    return (x - bgr_mean) / 255.0


@BOTH
@pytest.mark.parametrize("use_batch_norm", [False, True])
def test_cifar_conv(backend: str, use_batch_norm: bool) -> None:
    np.random.seed(0)
    train_set = ArrayIterator(digits(100, 8, 4), batch_size=20, total_iterations=80)
    inputs = train_set.make_placeholders(include_iteration=True)
    ax.Y.length = 4
    init_uni = UniformInit(-0.3, 0.3)
    seq1 = Sequential(
        [
            Preprocess(functor=cifar_mean_subtract),
            Convolution((3, 3, 4), filter_init=init_uni, activation=Rectlin(), batch_norm=use_batch_norm),
            Pooling((2, 2), strides=2),
            Convolution((2, 2, 8), filter_init=init_uni, activation=Rectlin(), batch_norm=use_batch_norm),
            Affine(nout=20, weight_init=init_uni, activation=Rectlin(), batch_norm=use_batch_norm),
            Dropout(0.9, seed=1),
            Affine(axes=ax.Y, weight_init=init_uni, activation=Softmax()),
        ]
    )
    learning_rate_policy = {"name": "schedule", "schedule": [60, 70], "gamma": 0.5, "base_lr": 0.1}
    optimizer = GradientDescentMomentum(
        learning_rate=learning_rate_policy, momentum_coef=0.9, wdecay=0.0001, iteration=inputs["iteration"]
    )
    label_indices = inputs["label"]
    train_loss = ng.cross_entropy_multi(seq1(inputs["image"]), ng.one_hot(label_indices, axis=ax.Y))
    batch_cost = ng.sequential([optimizer(train_loss), ng.mean(train_loss, out_axes=())])
    with closing(ngt.make_transformer(backend)) as transformer:
        train = make_bound_computation(transformer, dict(batch_cost=batch_cost), inputs)
        costs = [float(train(batch)["batch_cost"]) for batch in train_set]
    assert np.mean(costs[-5:]) < 0.3 < costs[0]


@BOTH
def test_cifar_resnet(backend: str) -> None:
    np.random.seed(0)
    train_set = ArrayIterator(digits(64, 8, 4), batch_size=16, total_iterations=25)
    inputs = train_set.make_placeholders()
    ax.Y.length = 4

    def conv_params(size: int, maps: int, strides: int = 1, relu: bool = True) -> Any:
        return dict(
            filter_shape=(size, size, maps), strides=strides, padding=size // 2, batch_norm=True,
            activation=Rectlin() if relu else None, filter_init=KaimingInit(),
        )  # fmt: skip

    def module(maps: int, strides: int = 1) -> Any:
        main = Sequential(
            [Convolution(**conv_params(3, maps, strides)), Convolution(**conv_params(3, maps, relu=False))]
        )
        side = None if strides == 1 else Convolution(**conv_params(1, maps, strides, relu=False))
        return Sequential([ResidualModule(main, side), Rectlin()])

    layers = [
        Preprocess(functor=cifar_mean_subtract),
        Convolution(**conv_params(3, 4)),
        module(4),
        module(8, 2),
        BatchNorm(),
        Pooling([4, 4], pool_type="avg"),
        Affine(axes=ax.Y, weight_init=KaimingInit(), batch_norm=True, activation=Softmax()),
    ]
    resnet = Sequential(layers)
    loss = ng.cross_entropy_multi(resnet(inputs["image"]), ng.one_hot(inputs["label"], axis=ax.Y))
    cost = ng.sequential([Adam(0.02)(loss), ng.mean(loss, out_axes=())])
    with closing(ngt.make_transformer(backend)) as transformer:
        train = make_bound_computation(transformer, dict(batch_cost=cost), inputs)
        costs = [float(train(batch)["batch_cost"]) for batch in train_set]
    assert np.mean(costs[-4:]) < 0.3 * costs[0]


@BOTH
@pytest.mark.parametrize("layer_type", ["rnn", "lstm", "table"])
def test_char_rnn(backend: str, layer_type: str) -> None:
    np.random.seed(0)
    text = "now is the time for all good men to come to the aid of their party. " * 30
    vocabulary = sorted(set(text))
    indices = np.array([vocabulary.index(c) for c in text])
    data = {
        "inp_txt": {"data": indices[:-1], "axes": ("REC",)},
        "tgt_txt": {"data": indices[1:], "axes": ("REC",)},
    }
    time_steps, batch_size, hidden_size = 10, 8, 24
    train_set = SequentialArrayIterator(
        data, batch_size=batch_size, time_steps=time_steps, total_iterations=100, shuffle=False
    )
    inputs = train_set.make_placeholders()
    ax.Y.length = len(vocabulary)

    init = UniformInit(low=-0.3, high=0.3)
    if layer_type == "table":
        layer_0: Any = LookupTable(len(vocabulary), 12, init, update=True)
    else:
        layer_0 = Preprocess(functor=lambda x: ng.one_hot(x, axis=ax.Y))
    if layer_type == "lstm":
        rlayer: Any = LSTM(
            hidden_size, init, activation=Tanh(), gate_activation=Logistic(), return_sequence=True
        )
    else:
        rlayer = Recurrent(hidden_size, init, activation=Tanh(), reset_cells=False)
    seq1 = Sequential([layer_0, rlayer, Affine(init, activation=Softmax(), bias_init=init, axes=(ax.Y,))])

    optimizer = RMSProp(learning_rate=0.05 if layer_type == "lstm" else 0.02, gradient_clip_value=1)
    output_prob = seq1(inputs["inp_txt"])
    loss = ng.cross_entropy_multi(output_prob, ng.one_hot(inputs["tgt_txt"], axis=ax.Y), usebits=True)
    mean_cost = ng.mean(loss, out_axes=[])
    cost_calc = ng.sequential([optimizer(loss), mean_cost])
    with closing(ngt.make_transformer(backend)) as transformer:
        train = make_bound_computation(transformer, dict(batch_cost=cost_calc), inputs)
        costs = [float(train(batch)["batch_cost"]) for batch in train_set]
    assert np.mean(costs[-5:]) < 1.5 < 4 < costs[0]


@BOTH
def test_imdb_rnn(backend: str) -> None:
    """Which of two words stands in a text, wherever: BiRNN over a table, one step of output."""
    rng = np.random.RandomState(0)
    np.random.seed(0)
    words = rng.randint(2, 10, (80, 6))
    labels = rng.randint(0, 2, 80)
    words[np.arange(80), rng.randint(0, 6, 80)] = labels
    train_set = ArrayIterator(
        {"review": {"data": words, "axes": ("N", "REC")}, "label": {"data": labels, "axes": ("N",)}}, 20,
        total_iterations=60,
    )  # fmt: skip
    inputs = train_set.make_placeholders()
    ax.Y.length = 2
    init = GlorotInit()
    layers = [
        LookupTable(10, 8, UniformInit(-0.5, 0.5), pad_idx=0),
        BiRNN(8, init=init, activation=Tanh(), reset_cells=True, return_sequence=False, sum_out=True),
        Affine(init, activation=Softmax(), bias_init=ConstantInit(0), axes=(ax.Y,)),
    ]
    loss = ng.cross_entropy_multi(
        Sequential(layers)(inputs["review"]), ng.one_hot(inputs["label"], axis=ax.Y)
    )
    cost = ng.sequential(
        [RMSProp(decay_rate=0.95, learning_rate=0.05, epsilon=1e-6)(loss), ng.mean(loss, out_axes=())]
    )
    with closing(ngt.make_transformer(backend)) as transformer:
        train = make_bound_computation(transformer, dict(batch_cost=cost), inputs)
        costs = [float(train(batch)["batch_cost"]) for batch in train_set]
    assert np.mean(costs[-4:]) < 0.2


@BOTH
def test_wgan_with_a_gradient_penalty(backend: str) -> None:
    """Two networks, two optimizers, and a cost that holds a derivative."""
    np.random.seed(0)
    rng = np.random.RandomState(1)
    N, F, Z = ng.make_axis(16, "N"), ng.make_axis(2, "F"), ng.make_axis(3, "Z")
    real, noise = ng.placeholder([F, N]), ng.placeholder([Z, N])
    init = GlorotInit()
    generator = Sequential(
        [Affine(init, nout=8, activation=Rectlin()), Affine(init, axes=[F])], name="Generator"
    )
    discriminator = Sequential(
        [Affine(init, nout=16, activation=Tanh()), Linear(init, nout=1)], name="Discriminator"
    )
    generated = generator(noise)
    d_real, d_fake = discriminator(real), discriminator(generated)
    x = 0.5 * real + 0.5 * generated
    slope = ng.deriv(ng.sum(discriminator(x), out_axes=[N]), x)
    penalty = ng.square(ng.L2_norm(slope) - 1)
    d_cost = ng.mean(ng.mean(d_fake) - ng.mean(d_real) + 10 * penalty, out_axes=())
    g_cost = ng.mean(-ng.mean(d_fake), out_axes=())
    train_d = ng.sequential([Adam(0.02, beta_1=0.5)(d_cost, subgraph=discriminator), d_cost])
    train_g = ng.sequential([Adam(0.02, beta_1=0.5)(g_cost, subgraph=generator), g_cost])
    assert len(generator.variables) == 4 and len(discriminator.variables) == 3
    with closing(ngt.make_transformer(backend)) as transformer:
        step_d = transformer.computation(train_d, real, noise)
        step_g = transformer.computation(train_g, noise)
        make = transformer.computation(generated, noise)
        for _ in range(150):
            for _ in range(2):
                step_d(rng.normal(3, 0.1, (2, 16)), rng.normal(size=(3, 16)))
            step_g(rng.normal(size=(3, 16)))
        assert np.abs(make(rng.normal(size=(3, 16))).mean(1) - 3).max() < 1.5


@BOTH
def test_autoencoder(backend: str) -> None:
    np.random.seed(0)
    train_set = ArrayIterator(digits(40, 8, 8), batch_size=20, total_iterations=80)
    inputs = train_set.make_placeholders()
    init = KaimingInit()
    layers = Sequential(
        [
            Preprocess(lambda x: x / 255.0),
            Convolution(
                (4, 4, 8), init, strides=2, padding=1, bias_init=ConstantInit(), activation=Rectlin()
            ),
            Deconvolution(
                (4, 4, 1), init, strides=2, padding=1, bias_init=ConstantInit(), activation=Logistic()
            ),
        ]
    )
    made = layers(inputs["image"])
    loss = ng.cross_entropy_binary(made, inputs["image"] / 255.0)
    assert made.axes.names == inputs["image"].axes.names and made.axes.lengths == inputs["image"].axes.lengths
    error = ng.mean(ng.square(made - inputs["image"] / 255.0), out_axes=())
    with closing(ngt.make_transformer(backend)) as transformer:
        train = make_bound_computation(
            transformer, dict(batch_cost=ng.sequential([Adam(0.02)(loss), error])), {"image": inputs["image"]}
        )
        costs = [float(train(batch)["batch_cost"]) for batch in train_set]
    assert costs[-1] < 0.01 < 0.05 < costs[0]


@pytest.mark.slow  # kernels of a GPU, simulated
def test_layers_of_all_kinds_are_the_same_everywhere() -> None:
    init = UniformInit(-0.5, 0.5)

    def costs(backend: str) -> list[float]:
        np.random.seed(0)
        N, REC, F = ng.make_axis(3, "N"), ng.make_axis(4, "REC"), ng.make_axis(2, "F")
        picture = ng.placeholder([ng.make_axis(2, "C"), ng.make_axis(5, "H"), ng.make_axis(4, "W"), N])
        series, labels = ng.placeholder([F, REC, N]), ng.placeholder([N], dtype="i32")
        ax.Y.length = 4
        seeing = Sequential(
            [
                Convolution((3, 3, 3), init, padding=1, batch_norm=True, activation=Rectlin()),
                Pooling((2, 2), strides=2),
                Dropout(0.8, seed=1),
                Affine(init, axes=ax.Y, activation=Softmax()),
            ]
        )
        lstm = LSTM(4, init, activation=Tanh(), gate_activation=Logistic(), return_sequence=False)
        hearing = Sequential([lstm, Affine(init, axes=ax.Y, activation=Softmax())])
        target = ng.one_hot(labels, axis=ax.Y)
        loss = ng.cross_entropy_multi(seeing(picture), target) + ng.cross_entropy_multi(
            hearing(series), target
        )
        cost = ng.sequential([Adam(0.01, gradient_clip_norm=1.0)(loss), ng.mean(loss, out_axes=())])
        rng = np.random.RandomState(1)
        values = rng.rand(2, 5, 4, 3), rng.rand(2, 4, 3), [0, 3, 1]
        with closing(ngt.make_transformer(backend)) as transformer:
            step = transformer.computation(cost, picture, series, labels)
            return [float(step(*values)) for _ in range(2)]

    reference = costs("numpy")
    assert len(set(reference)) == 2  # it learns, and drops other elements
    for backend in ("cpu", "cuda-sim"):
        np.testing.assert_allclose(costs(backend), reference, rtol=1e-5)
