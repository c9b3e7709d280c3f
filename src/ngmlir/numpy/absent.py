# SPDX-License-Identifier: Apache-2.0
"""Names of NumPy that `ng.numpy` does not have: why, and what to write."""

from __future__ import annotations

_DEPENDS = "unique_values unique_counts union1d intersect1d setdiff1d setxor1d extract trim_zeros"
_CHANGES = "copyto fill_diagonal place put putmask"
_COMPLEX = "iscomplex iscomplexobj isreal isrealobj real_if_close complex64 complex128 sort_complex"
_CALLS = "vectorize frompyfunc fromfunction fromiter"

#: Names of PyTorch and JAX, and what is written here of arrays.
_ELSEWHERE = {
    "unsqueeze": "x[:, None] or ng.numpy.expand_dims(x, axis)",
    "view view_as reshape_as": "x.reshape(shape)",
    "permute": "x.transpose(axes)",
    "cat": "ng.numpy.concatenate([x, y], axis)",
    "expand expand_as": "ng.numpy.broadcast_to(x, shape)",
    "chunk": "ng.numpy.array_split(x, count, axis)",
    "clamp": "ng.numpy.clip(x, low, high)",
    "equal not_equal eq ne": "ng.numpy.equal(x, y), ng.numpy.not_equal(x, y)",
    "masked_fill": "ng.numpy.where(mask, value, x)",
    "gather index_select": "ng.numpy.take_along_axis(x, indices, axis) or ng.numpy.take(x, indices, axis)",
    "topk": "ng.numpy.top_k(x, k)",
    "mm bmm": "x @ y",
    "unbind": "ng.numpy.unstack(x, axis)",
    "float double half long int bool byte type to type_as": "x.astype(dtype)",
    "amax amin": "x.max(axis), x.min(axis)",
    "vmap": "functions of whole arrays, which broadcast; ng.numpy.apply_along_axis(f, axis, x) calls f for each row",
}
WRITE = {word: here for words, here in _ELSEWHERE.items() for word in words.split()}

#: For names: what explains that they are not there, and what to write.
_WHY = {
    _DEPENDS: (
        ": the size of the result would depend on data",
        "unique(x, size=n) and nonzero(x, size=n) give n elements; use where(condition, x, y), or apply NumPy's function to the result of a computation",
    ),
    _CHANGES: (
        ": it would change its argument, and arrays of a graph are values",
        "x.at[item].set(value) gives a changed array, and v[item] = value assigns to storage",
    ),
    _COMPLEX: (": elements are real numbers", "complex arrays are pairs of arrays, ng.numpy.fft.Complex: z.real, z.imag, z.angle(), z.conj()"),
    _CALLS: ("", "functions of arrays make a graph as they are: f(ng.numpy.arange(n)); ng.numpy.apply_along_axis(f, axis, x) calls f for each row"),
    "roots": (": its results may be complex", "NumPy's function gives those of known coefficients; linalg.eigvalsh those of symmetric matrices"),
    "poly1d": ("", "polynomials are rows of coefficients: polyval(p, x), polyadd, polymul, polydiv, polyder, polyint"),
    "mgrid ogrid": ("", "indices(shape), indices(shape, sparse=True), or meshgrid of arange"),
    "r_ c_": ("", "concatenate([x, y]), column_stack([x, y])"),
    "s_ index_exp": ("", "x[1:, ::2], or numpy.s_[1:, ::2], which is a tuple of slices"),
    "ndarray matrix": ("", "array(values) makes an array; its class is ng.Tensor"),
}  # fmt: skip


def instead(name: str) -> tuple[str, str] | None:
    """Why there is no function of that name, and what to write; None for names that nothing is known about."""
    return next((why for names, why in _WHY.items() if name in names.split()), None)
