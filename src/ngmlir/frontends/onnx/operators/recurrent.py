# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM as scans, in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.types import TensorType, i32
from ....support.diagnostics import UserError
from ....support.lengths import is_open
from ..emitter import Emitter
from ..nodes import Node, operator
from ..tensor import Tensor
from .layout import reverse_sequence
from .products import dot

Activation = Callable[[Tensor], Tensor]
#: The product of a tensor's last axis with the weights of some gates: the first of them, and that behind the last.
Product = Callable[[Tensor, int, int], Tensor]
#: The products with inputs and with states.
Products = tuple[Product, Product]
#: What ONNX takes where a node states no number.
_ALPHA = {
    "LeakyRelu": 0.01,
    "ThresholdedRelu": 1.0,
    "Elu": 1.0,
    "HardSigmoid": 0.2,
    "ScaledTanh": 1.0,
    "Affine": 1.0,
}
_BETA = {"HardSigmoid": 0.5, "ScaledTanh": 1.0, "Affine": 0.0}
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def _activation(n: Node, name: str, alpha: float, beta: float) -> Activation:
    v = n.verbs
    table: dict[str, Activation] = {
        "Sigmoid": v.sigmoid,
        "Tanh": v.tanh,
        "Relu": lambda x: x.maximum(0),
        "Affine": lambda x: x * alpha + beta,
        "LeakyRelu": lambda x: (x < 0).where(x * alpha, x),
        "ThresholdedRelu": lambda x: (x > alpha).where(x, 0),
        "ScaledTanh": lambda x: v.tanh(x * beta) * alpha,
        "HardSigmoid": lambda x: (x * alpha + beta).maximum(0).minimum(1),
        "Elu": lambda x: (x < 0).where(v.expm1(x) * alpha, x),
        "Softsign": lambda x: x / (v.absolute(x) + 1),
        "Softplus": v.softplus,
    }
    found = {key.lower(): each for key, each in table.items()}.get(name.lower())
    if found is None:
        raise UserError(f"there is no activation '{name}'")
    return found


def _activations(n: Node, directions: int) -> list[list[Activation]]:
    defaults = _DEFAULTS[n.op]
    names = n.texts("activations") or defaults * directions
    alphas, betas = list(n.floats("activation_alpha") or []), list(n.floats("activation_beta") or [])
    made: list[Activation] = []
    for name in names:
        alpha = alphas.pop(0) if name in _ALPHA and alphas else _ALPHA.get(name, 1.0)
        beta = betas.pop(0) if name in _BETA and betas else _BETA.get(name, 0.0)
        made.append(_activation(n, name, alpha, beta))
    each = len(defaults)
    if len(made) != each * directions:
        raise UserError(f"{len(made)} activations for {each * directions} places")
    return [made[i * each : (i + 1) * each] for i in range(directions)]


@operator("RNN", "GRU", "LSTM")
def recurrent(
    n: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
) -> list[Tensor]:
    for name, state in (("initial_h", h), ("initial_c", c)):
        if state is not None and not is_open(state.shape[2:]) and state.shape[2] != r.shape[2]:
            raise UserError(
                f"{name} has {state.shape[2]} elements for {r.shape[2]} hidden ones",
                hint="the operator has no projections, PyTorch's proj_size: export the cell in a loop",
            )
    batch_first = n.flag("layout")
    x = x.transpose([1, 0, 2]) if batch_first else x
    states = [s.transpose([1, 0, 2]) if s is not None and batch_first else s for s in (h, c)]
    products = [(_product(w.at(0, d)), _product(r.at(0, d))) for d in range(w.shape[0])]
    outputs = directed(n, x, products, w.shape[1], r.shape[2], b, lengths, states, p)
    if batch_first:
        outputs = [outputs[0].transpose([2, 0, 1, 3]), *(o.transpose([1, 0, 2]) for o in outputs[1:])]
    return outputs


def _product(weights: Tensor) -> Product:
    return lambda x, first, last: dot(x, weights.part(0, first, last), [x.rank - 1], [1])


def directed(
    n: Node,
    x: Tensor,
    products: Sequence[Products],
    gates: int,
    size: int,
    b: Tensor | None,
    lengths: Tensor | None,
    states: Sequence[Tensor | None],
    p: Tensor | None,
    together: bool = False,
) -> list[Tensor]:
    """All outputs and the last states of x[time, batch, elements], in one or both directions; `gates` are as many as the
    weights of a direction have rows, `size` is that of a state. `together`: products look at all sequences at once; so
    backwards each begins at its own end, and the states of those that ended before are zeros."""
    way = n.text("direction", "forward")
    directions, batch = 2 if way == "bidirectional" else 1, x.shape[1]
    zero = n.verbs.numbers(0, x.element, [batch, n.integer("hidden_size", size)])
    runs: list[list[Tensor]] = []
    for d, functions in enumerate(_activations(n, directions)):
        back = d == 1 or way == "reverse"
        bias = b.at(0, d) if b is not None else n.verbs.numbers(0, x.element, [2 * gates])
        state = [zero if s is None else s.at(0, d) for s in states[: 2 if n.op == "LSTM" else 1]]
        peepholes = p.at(0, d) if p is not None else None
        runs.append(
            _run(n, x, products[d], gates, bias, state, peepholes, lengths, functions, back, together)
        )
    # Each run: all of its outputs, then the last states.
    return [n.verbs.stacked([run[i] for run in runs], 1 if i == 0 else 0) for i in range(len(runs[0]))]


def _run(
    n: Node,
    x: Tensor,
    products: Products,
    gates: int,
    bias: Tensor,
    state: Sequence[Tensor],
    peepholes: Tensor | None,
    lengths: Tensor | None,
    functions: Sequence[Activation],
    back: bool,
    together: bool,
) -> list[Tensor]:
    """One direction."""
    emitter = n.verbs
    assert isinstance(emitter, Emitter)
    time, batch, _ = x.shape
    from_inputs, from_state = products
    size = state[0].shape[1]
    own, recurrent_bias = bias.part(0, 0, gates), bias.part(0, gates, 2 * gates)
    # The products with the inputs do not wait for each other; GRU adds one bias of a gate inside of a product.
    inputs = from_inputs(x, 0, gates) + own
    if n.op != "GRU":
        inputs = inputs + recurrent_bias
    steps = emitter.arange(time, i32)
    apart = lengths if together else None

    def turned(y: Tensor) -> Tensor:
        return y.reversed(0) if apart is None else reverse_sequence(n, y, apart)

    if back:
        inputs, steps = turned(inputs), steps.reversed(0) if apart is None else steps
    limit, linear = n.number("clip"), n.flag("linear_before_reset")

    def clipped(y: Tensor) -> Tensor:
        return y.maximum(-limit).minimum(limit) if "clip" in n.attributes else y

    def step(arguments: Sequence[Tensor]) -> list[Tensor]:
        *held, given, i = arguments
        before = list(held)
        if apart is not None:
            before[0] = (i <= apart.cast(i32)).reshape([batch, 1]).where(held[0], 0)
        if n.op == "RNN":
            made = [functions[0](clipped(given + from_state(held[0], 0, gates)))]
        elif n.op == "GRU":
            made = [_gru(held[0], given, from_state, recurrent_bias, functions, clipped, linear)]
        else:
            made = _lstm(before, given, from_state, peepholes, functions, clipped, n.flag("input_forget"))
        shown = made[0]
        if lengths is not None:
            inside = (i < lengths.cast(i32)).reshape([batch, 1])
            made = [inside.where(new, old) for new, old in zip(made, held, strict=True)]
            shown = inside.where(shown, 0)
        return [*made, shown]

    types = [*(s.type for s in state), TensorType(inputs.shape[1:], x.element), TensorType((), i32)]
    region, _ = emitter.region(types, step)
    results = [*(s.type for s in state), TensorType((time, batch, size), x.element)]
    *last, every = emitter.scan(state, [inputs, steps], types=results, regions=[region])
    return [turned(every) if back else every, *last]


def _gru(
    h: Tensor,
    given: Tensor,
    product: Product,
    bias: Tensor,
    functions: Sequence[Activation],
    clipped: Activation,
    linear: bool,
) -> Tensor:
    size = h.shape[1]
    f, g = functions
    both = product(h, 0, 2 * size) + bias.part(0, 0, 2 * size)
    gates = clipped(given.part(1, 0, 2 * size) + both)
    z, reset = f(gates.part(1, 0, size)), f(gates.part(1, size, 2 * size))
    bh = bias.part(0, 2 * size, 3 * size)
    if linear:
        inner = reset * (product(h, 2 * size, 3 * size) + bh)
    else:
        inner = product(reset * h, 2 * size, 3 * size) + bh
    new = g(clipped(given.part(1, 2 * size, 3 * size) + inner))
    return (1 - z) * new + z * h


def _lstm(
    held: Sequence[Tensor],
    given: Tensor,
    product: Product,
    p: Tensor | None,
    functions: Sequence[Activation],
    clipped: Activation,
    coupled: bool,
) -> list[Tensor]:
    h, c = held
    size = h.shape[1]
    gates = given + product(h, 0, 4 * size)
    i, o, f, g = (gates.part(1, k * size, (k + 1) * size) for k in range(4))
    pi, po, pf = (p.part(0, k * size, (k + 1) * size) if p is not None else None for k in range(3))
    i = functions[0](clipped(i if pi is None else i + pi * c))
    f = 1 - i if coupled else functions[0](clipped(f if pf is None else f + pf * c))
    new = f * c + i * functions[1](clipped(g))
    o = functions[0](clipped(o if po is None else o + po * new))
    return [o * functions[2](new), new]
