# SPDX-License-Identifier: Apache-2.0
"""What users of NumPy and PyTorch write first, and what is written here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from ..support.spelling import did_you_mean
from .errors import UserError, fail

_WORDS = {
    "matmul mm bmm tensordot inner einsum": "ng.dot(x, y, batch_axes=...), which contracts the axes that both hold",
    "grad gradient backward autograd vjp": "ng.deriv(y, x)",
    "clamp": "ng.clip(x, low, high)",
    "concatenate concat cat hstack vstack": "ng.concat_along_axis([x, y], axis)",
    "transpose permute swapaxes moveaxis": "ng.axes_with_order(x, axes)",
    "reshape view ravel": "ng.flatten(x), ng.unflatten(x) or ng.cast_axes(x, axes)",
    "squeeze": "x[0], which drops an axis",
    "unsqueeze newaxis": "ng.expand_dims(x, axis, position)",
    "zeros zeros_like empty": "ng.constant(0, axes)",
    "ones ones_like": "ng.constant(1, axes)",
    "full full_like": "ng.constant(number, axes)",
    "eye": "ng.one_hot(ng.iota([axis], axis), other_axis)",
    "arange linspace": "ng.constant(array, [axis]) or ng.iota",
    "array asarray tensor": "ng.constant(array, axes)",
    "astype to type": "ng.cast(x, dtype)",
    "numpy item tolist eval": "ng.compile(x)(), which computes it",
    "detach": "ng.stop_gradient(x)",
    "rand": "ng.uniform(x)",
    "randn": "ng.normal(x)",
    "var": "ng.variance(x)",
    "std": "ng.sqrt(ng.variance(x))",
    "abs": "ng.absolute(x)",
    "pow": "ng.power(x, y)",
    "ndim": "len(x.axes)",
    "size numel": "x.axes.size",
    "parameters": "x.variables()",
    "no_grad": "ng.stop_gradient(x)",
    "requires_grad Parameter": "ng.variable(axes, initial_value=...), which loss.variables() finds",
    "manual_seed": "seed=... where numbers are drawn: ng.uniform(x, seed=0)",
    "state_dict": "transformer.state(), which np.savez(file, **state) writes",
    "load_state_dict": "transformer.load_state(state)",
    "nn optim Module Linear Conv2d": "import ngmlir.frontends.neon, where layers and optimizers are",
    "cross_entropy nll_loss": "ng.cross_entropy_multi(ng.softmax(x), ng.one_hot(y, axis))",
    "mse_loss": "ng.mean(ng.square(x - y), out_axes=())",
    "logsumexp": "ng.log(ng.sum(ng.exp(x - m), axis)) + m, with m = ng.max(x, axis)",
    "gelu": "0.5 * x * (1 + ng.erf(x / 2**0.5))",
    "masked_fill": "ng.where(mask, value, x)",
    "eq": "ng.equal(x, y)",
    "cumsum": "ng.cumulative_sum(x, axis)",
    "cumprod": "ng.cumulative_prod(x, axis)",
    "index_select take": "ng.gather(x, indices, axis)",
    "split chunk": "ng.slice_along_axis(x, axis, slice(start, stop))",
    "outer": "ng.dot(x, y), where no axis is held by both",
    "norm": "ng.L2_norm(x)",
    "jit": "ng.compile(results, inputs)",
    "cuda device": 'ng.transformers.make_transformer("cuda")',
    "fori_loop": "ng.scan or ng.while_loop",
}
_WRITE = {word: here for words, here in _WORDS.items() for word in words.split()}


def missing(what: str, name: str, known: Iterable[str]) -> AttributeError:
    """What to raise where `what` has no attribute of that name: it says which one does the same, or looks the same."""
    here = _WRITE.get(name)
    hint = f"write {here}" if here else did_you_mean(name, [k for k in known if not k.startswith("_")])
    return AttributeError(f"{what} has no attribute '{name}'" + (f"; {hint}" if hint else ""))


class Sameness(int):
    """What `x == y` gives of two tensors: whether they are the same node. It is 0 or 1, and refused as a number of a graph."""

    def __repr__(self) -> str:
        return str(bool(self))


def refuse_sameness(value: Any) -> None:
    """UserError for what `x == y` gave."""
    if isinstance(value, Sameness):
        fail(
            UserError,
            "== and != ask whether two tensors are the same node, and the answer is no tensor",
            "compare elements with ng.equal(x, y) or ng.not_equal(x, y)",
        )


#: Ufuncs whose function of named axes has another name.
UFUNCS = {
    "matmul": "dot", "floor_divide": "floordivide", "remainder": "mod", "rint": "round", "invert": "logical_not",
    **{f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
}  # fmt: skip


class Foreign:
    """How a tensor answers to NumPy and to Python: functions of NumPy that have a namesake here make graph, others say
    that no value is there yet."""

    @property
    def family(self) -> Any: ...

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        refuse_sameness(Sameness(0) if name in ("equal", "not_equal") else None)
        function = getattr(self.family, self.family.UFUNCS.get(name, name), None)
        if method == "__call__" and options.keys() <= self.family.UFUNC_OPTIONS and function is not None:
            return function(*inputs, **options)
        self._no_array(f"numpy.{name}", name)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if (namesake := self.family.of_numpy(function)) is not None:
            return namesake(*args, **options)
        self._no_array(f"numpy.{function.__name__}", function.__name__)

    def _no_array(self, function: str, name: str) -> NoReturn:
        here = _WRITE.get(name) or (f"ng.{name}" if name in self.family.__all__ else "")
        fail(
            UserError,
            f"{function} takes arrays, and {self!r} has no elements while the graph is built",
            f"write {here}" if here else "ng.compile(x)() gives the array",
        )

    def _no_value(self, *_: Any, **options: Any) -> Any:
        fail(
            UserError,
            f"{self!r} has no value while the graph is built",
            "ng.compile(x)(), or a computation that returns it, gives the value",
        )

    __array__ = __float__ = __int__ = __round__ = _no_value
