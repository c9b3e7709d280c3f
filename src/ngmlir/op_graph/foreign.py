# SPDX-License-Identifier: Apache-2.0
"""What users of NumPy and PyTorch write first, and what is written here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, cast

from ..support.diagnostics import Diagnostic
from ..support.spelling import did_you_mean
from .errors import NoAttribute, UserError, fail
from .source import user_location

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
    "astype type": "ng.cast(x, dtype)",
    "to": 'ng.cast(x, dtype) for other elements; devices are those of transformers: ng.transformers.make_transformer("cuda"), or ng.compile(..., target="cuda")',
    "numpy item tolist eval": "ng.compile(x)(), which computes it",
    "detach": "ng.stop_gradient(x)",
    "rand": "ng.uniform(x)",
    "multinomial Categorical": "ng.categorical(logits, axis)",
    "fft rfft ifft": "ng.numpy.fft, of arrays by position",
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
    "cuda device": 'ng.transformers.make_transformer("cuda"), or ng.compile(..., target="cuda"): graphs have no device',
    "fori_loop": "ng.scan or ng.while_loop",
    "dim": "len(x.axes)",
    "t mT": "x.T, or nothing: tensors are matched by the names of axes",
    "contiguous clone copy cpu": "nothing: tensors of a graph are values, and memory is planned",
    "expand expand_as repeat tile": "nothing, since tensors are matched by the names of axes, or ng.broadcast(x, axes)",
    "float double half long int bool byte type_as": "ng.cast(x, dtype)",
    "requires_grad_ retain_grad grad_fn is_leaf register_hook zero_grad": "ng.variable makes what is trained, ng.deriv(y, x) a gradient",
    "data value read_value": "ng.compile(x)(), or transformer.get_tensor_view_value(x) of storage",
    "narrow": "ng.slice_along_axis(x, axis, slice(start, stop))",
    "unbind": "[ng.slice_along_axis(x, axis, i) for i in range(axis.length)]",
    "lt gt le ge ne": "x < y, x > y, x <= y, x >= y, ng.not_equal(x, y)",
    "topk": "ng.top_k(x, k, axis)",
    "nonzero": "ng.where(mask, x, 0): lengths cannot depend on values",
    "neg": "-x",
    "sub mul div": "x - y, x * y, x / y",
    "amax amin": "ng.max(x, axis=...), ng.min(x, axis=...)",
    "flip": "x[::-1], a slice that goes backwards",
    "roll": "ng.concat_along_axis of two slices",
    "tril triu": "ng.where(ng.iota(x.axes, row) >= ng.iota(x.axes, column), x, 0)",
    "isnan": "ng.not_equal(x, x)",
    "real": "x: elements are real numbers",
    "assign_add": "ng.assign(x, x + y)",
    "get_shape set_shape": "x.axes, and axis.length = ...",
    "initializer": "x.initializers",
    "strides nbytes itemsize": "x.tensor_description(), which says how it lies in memory",
    "assign fill set": "ng.assign(x, value), ng.fill(x, number), ng.set_item(x, item, value)",
    "scale": "a number times the gradient: ng.deriv(y * scale, x)",
    "sequential_op_factory": "ng.sequential([...])",
    "make_transformer": "ng.transformers.make_transformer",
    "seed": "seed=... where numbers are drawn: ng.uniform(x, seed=0)",
    "flex factory": "nothing: there is no 16-bit fixed point",
}
_WRITE = {word: here for words, here in _WORDS.items() for word in words.split()}


def missing(what: str, name: str, known: Iterable[str], here: str | None = None) -> NoAttribute:
    """What to raise where `what` has no attribute of that name: it says which one does the same (`here`, if it is known), or
    looks the same."""
    here = here or _WRITE.get(name)
    if here is None and name.endswith("_") and name.strip("_"):  # add_, fill_, ...
        here = "ng.assign(x, value): nothing else changes a tensor"
    hint = f"write {here}" if here else did_you_mean(name, [k for k in known if not k.startswith("_")])
    return NoAttribute(Diagnostic(f"{what} has no attribute '{name}'", user_location(), hint=hint))


class Sameness(int):
    """What `x == y` gives of two tensors: whether they are the same node. It is 0 or 1, and refused as a number."""

    def __repr__(self) -> str:
        return str(bool(self))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        refuse_sameness(self)
        raise AssertionError

    def _refused(self, *_: Any) -> NoReturn:
        refuse_sameness(self)
        raise AssertionError


#: Every operator: what it would compute of 0 or 1 is nothing that anyone means, and `(x == 1) | (x == 2)` would be a number.
_BINARY = "add sub mul truediv floordiv mod divmod pow and or xor lshift rshift"
_UNARY = "neg pos abs invert round float int getitem lt le gt ge"
for _name in (*_UNARY.split(), *_BINARY.split(), *(f"r{name}" for name in _BINARY.split())):
    setattr(Sameness, f"__{_name}__", Sameness._refused)  # pyright: ignore[reportPrivateUsage]


def refuse_sameness(*values: Any) -> None:
    """UserError for what `x == y` gave."""
    if any(isinstance(value, Sameness) for value in values):
        fail(
            UserError,
            "== and != ask whether two tensors are the same node, and the answer is not a tensor",
            "compare elements with ng.equal(x, y) or ng.not_equal(x, y); arrays with those of ng.numpy",
        )


#: Ufuncs whose function of named axes has another name.
UFUNCS = {
    "matmul": "dot", "floor_divide": "floordivide", "remainder": "mod", "rint": "round", "invert": "logical_not",
    **{f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
}  # fmt: skip


#: Methods of ufuncs, and the functions that do the same.
_METHODS = {
    ("add", "reduce"): "sum", ("multiply", "reduce"): "prod", ("maximum", "reduce"): "max", ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all", ("logical_or", "reduce"): "any", ("add", "accumulate"): "cumsum",
    ("multiply", "accumulate"): "cumprod", ("multiply", "outer"): "outer",
}  # fmt: skip

#: Arguments of ufuncs that are for memory, and what is written in their place.
_OPTIONS = {
    "out": "write y = {here}: tensors are values, and nothing is computed into another one",
    "where": "where(condition, {here}, y) also says what the other elements are",
    "dtype": "ng.cast({here}, dtype)",
}


def _not_implemented(*operands: Any) -> Any:
    return NotImplemented


class _Deferring:
    """Stands for a family whose operators leave the work to the other operand."""

    def __getattr__(self, name: str) -> Any:
        return _not_implemented


DEFERRING = _Deferring()


def defers(other: Any) -> bool:
    """Whether operators of arrays leave the work to an operand: its class says `__array_ufunc__ = None`, as for NumPy."""
    return getattr(type(cast("object", other)), "__array_ufunc__", other) is None


class Foreign:
    """How a tensor answers to NumPy and to Python: functions of NumPy that have a namesake here make graph, others say
    that no value is there yet."""

    @property
    def family(self) -> Any: ...

    @property
    def _module(self) -> str:
        return "ng.numpy" if self.family.__name__ == "ngmlir.numpy" else "ng"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        refuse_sameness(Sameness(0) if name in ("equal", "not_equal") else None)
        function = getattr(self.family, self.family.UFUNCS.get(name, name), None)
        if method != "__call__":
            if (own := getattr(function, method, None)) is not None:
                return own(*inputs, **options)
            self._no_array(f"numpy.{name}.{method}", _METHODS.get((name, method), ""))
        if function is None:
            self._no_array(f"numpy.{name}", name)
        for word in sorted(options.keys() - self.family.UFUNC_OPTIONS):
            hint = _OPTIONS.get(word, "leave {word}= out").format(
                word=word, here=f"{self._module}.{function.__name__}(x)"
            )
            fail(UserError, f"numpy.{name} of tensors has no argument {word!r}", hint)
        return function(*inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if (namesake := self.family.of_numpy(function)) is not None:
            return namesake(*args, **options)
        self._no_array(f"numpy.{function.__name__}", function.__name__)

    def _no_array(self, function: str, name: str) -> NoReturn:
        here = f"{self._module}.{name}" if name in self.family.__all__ else _WRITE.get(name)
        fail(
            UserError,
            f"{function} takes arrays, and {self!r} has no elements while the graph is built",
            f"write {here}" if here else "ng.compile(x)() gives the array",
        )

    def _no_value(self, *_: Any, **options: Any) -> Any:
        self._fail_without_value("")

    def __array__(self, *_: Any, **options: Any) -> Any:
        # NumPy asks arguments only for an array, and does not let them answer `numpy.asarray` otherwise.
        self._fail_without_value(
            "where functions of NumPy ask for an array, ng.numpy.asarray(x) leaves it in the graph; "
        )

    def _fail_without_value(self, instead: str) -> NoReturn:
        fail(
            UserError,
            f"{self!r} has no value while the graph is built",
            f"{instead}ng.compile(x)(), or a computation that returns it, gives the value",
        )

    __float__ = __int__ = __complex__ = _no_value

    def __format__(self, form: str) -> str:
        return self._no_value() if form else str(self)

    def __len__(self) -> int:
        shape = self.family.shape_of(self)
        if isinstance(shape, tuple) and shape:
            return cast("tuple[int, ...]", shape)[0]
        hint = "x.axes[0].length, len(x.axes), x.axes.size"
        fail(UserError, f"{self!r} has no first axis: its axes have names, or it is a number", hint)

    def __contains__(self, value: Any) -> bool:
        fail(
            UserError,
            f"{self!r} has no elements to look for anything among while the graph is built",
            "ng.any(ng.equal(x, value), out_axes=()), or `any(x is y for y in ops)` for the node itself",
        )

    def __delitem__(self, item: Any) -> NoReturn:
        fail(UserError, f"nothing can be taken out of {self!r}", "slices say what is left: x[1:]")

    def __round__(self, digits: int | None = None) -> Any:
        if digits:
            return self.family.divide(self.family.round(self.family.multiply(self, 10**digits)), 10**digits)
        return self.family.round(self)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        fail(
            UserError,
            f"{self!r} is a node of a graph, and cannot be copied or pickled by itself",
            "x.copy_with_args(x.args) makes an op again, ng.save(path, x) writes a graph; build a model twice for two",
        )
