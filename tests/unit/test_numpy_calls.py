# SPDX-License-Identifier: Apache-2.0
"""Calls of `ng.numpy` beside the same calls of NumPy: values, shapes and element types are NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

DTYPES = ["bool", "int8", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64"]
_DRAW = np.random.default_rng(7)


def drawn(shape: Sequence[int], dtype: str, low: float = -3, high: float = 3) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return _DRAW.uniform(low, high, shape).astype(dtype)
    return _DRAW.integers(0 if kind in "ub" else int(low), 2 if kind == "b" else int(high) + 1, shape).astype(
        dtype
    )


#: What the calls below are made with.
ARRAYS: dict[str, Any] = {
    "f": drawn((3, 4), "float32"),
    "g": drawn((4, 5), "float32"),
    "p": drawn((3, 4), "float32", 0.1, 0.9),
    "d": drawn((2, 3, 4), "float64"),
    "i": drawn((3, 4), "int32"),
    "j": drawn((4,), "int64"),
    "u": drawn((3, 4), "uint8"),
    "b": drawn((3, 4), "bool"),
    "h": drawn((3, 4), "float16"),
    "v": drawn((4,), "float32"),
    "w": drawn((3, 1), "float64"),
    "n": np.array([[1, np.nan, -np.inf, 2], [np.inf, -0.0, 0, 3], [np.nan, 5, -5, 0.5]], np.float32),
    "e": np.zeros((0, 3), np.float32),
    "s": np.array(2.5),
    "q": drawn((5, 2, 3, 2), "float64"),
    "t": np.array([2, 0, 3, 3, 1]),
    "o": np.array([-2, -2, 0, 1, 1, 1, 4], np.float32),
}

CALLS = """
x.T; x.shape == (3, 4) and x + 0; f[1]; f[-1, ::2]; f[::-1]; f[::-2, 1:3]; f[..., 0]; f[None, :, None]; f[1:1]; f[5:]; f[-10:2, -1:-5:-2]
d[1, ..., 2]; d[..., None, 1:, ::-1]; d[0, 1, 2]; d[[1, 0]]; d[:, [2, 0, 0]]; d[[0, 1], [2, 1]]; d[[0, 1], :, [3, 0]]; d[:, [0, 2], [1, 3]]
d[np.array([[0], [1]]), np.array([0, 2])]; d[1, :, [0, 3]]; d[:, 1, [0, 3]]; q[:, [0], :, [1]]; q[1:4, 0, [2, 0], None]; q[[-1, 2], ..., 0]
f[b0]; d[:, b0]; d[d0]; f[np.array([True, False, True])]; q[[[0, 1], [2, 3]], 1]; q[..., np.array([1, 0]), 0]; f[[]]; f[np.array(1)]; d[t0, :, 1:][..., ::-1]
f[i1]; f[:, i1]; d[i1, 0]; d[0, i1, i1]; d[i1, :, i1]; f[i1, None, 1:3]; q[:, i1, [0, 2], i1]
m.take(f, [1, 0], axis=1); m.take(f, t[:2]); m.take(f, [[0, 11], [5, 2]]); m.take(f, [7, -9], axis=1, mode='wrap'); m.take(f, [7, -9], axis=0, mode='clip')
m.take_along_axis(f, m.argsort(f, axis=1), axis=1); m.take_along_axis(d, m.argmax(d, axis=0, keepdims=True), 0); m.take_along_axis(f, np.array([3, 9]), None)
m.where(b, f, i); m.where(f > 0, f, 0); m.where(b, 1, 2.5); m.where(v > 0, w, i); m.select([f > 1, f < -1], [f, i], 7); m.choose(i & 1, [f, p]); m.choose(i - 2, [f, p, f + p], mode="clip"); m.choose(i - 2, [f, p, f + p], mode="wrap"); m.compress([True, False, True], f, 0)
m.clip(f, -1, 1); m.clip(i, -1, 1); m.clip(f, None, 0.5); m.clip(f, v, None); m.clip(u, 1, 2); f.clip(0.25); m.nan_to_num(n); m.nan_to_num(n, nan=3, posinf=9)
m.sum(f); m.sum(f, axis=0); m.sum(d, axis=(0, 2), keepdims=True); m.sum(i); m.sum(u, axis=1); m.sum(b, axis=-1); m.sum(h); m.sum(i, dtype='float32'); m.sum(f, where=b); m.sum(f, axis=0, initial=3); m.sum(e, axis=0); m.sum(s)
m.prod(p); m.prod(i, axis=1); m.prod(u, axis=0); m.prod(p, axis=0, where=b); m.mean(f); m.mean(i, axis=0); m.mean(b); m.mean(h, axis=1); m.mean(d, axis=(1, 2), keepdims=True); m.mean(f, where=b); m.mean(i, dtype='float32')
m.var(f); m.var(d, axis=1, ddof=1); m.std(i, axis=0); m.std(f, keepdims=True); m.var(f, axis=1, where=b0x); m.std(d, correction=1); m.average(f, axis=1, weights=v); m.average(i); m.average(f, weights=p)
m.max(f); m.min(i, axis=0); m.max(b, axis=1); m.min(b); m.max(n); m.amax(d, axis=(0, 1)); m.amin(d, keepdims=True); m.ptp(f, axis=1); m.max(f, initial=2, where=b); m.max(e, axis=0, initial=0)
m.any(f > 2); m.all(b, axis=0); m.any(b, axis=(0, 1), keepdims=True); m.all(n); m.count_nonzero(i); m.count_nonzero(f > 0, axis=1); m.any(b, where=f > 0)
m.argmax(f); m.argmin(f, axis=0); m.argmax(n, axis=1); m.argmax(b, axis=1); m.argmin(i, axis=-1, keepdims=True); m.argmax(d)
m.nansum(n); m.nansum(n, axis=0); m.nanprod(n, axis=1); m.nanmean(n[2]); m.nanmax(n, axis=1); m.nanmin(n, axis=0); m.nanargmax(n, axis=1); m.nanargmin(n, axis=0); m.nanmean(f); m.nanvar(n[2]); m.nanstd(n[2], ddof=1); m.nancumsum(n[2]); m.nancumprod(n[2])
m.cumsum(f); m.cumsum(i, axis=1); m.cumsum(b, axis=0); m.cumprod(p, axis=-1); m.cumsum(u); f.cumsum(0); m.diff(f); m.diff(i, axis=0); m.diff(d, n=2); m.diff(f, prepend=0); m.diff(b); m.trapezoid(f); m.trapezoid(f, x=o[:4], axis=1)
f @ g; f.T @ f; d @ g; g.T @ d[0].T; f @ v; v @ g; v @ v; d @ d.transpose(0, 2, 1); i @ i.T; b @ b.T; q @ q.swapaxes(-1, -2); q[:1] @ q[:, :1].swapaxes(-1, -2); m.matmul(d, v); m.matmul(i, g); m.vecdot(f, p)
m.dot(f, g); m.dot(f, 2); m.dot(d, g); m.dot(v, v); m.inner(f, p); m.inner(v, f); m.outer(v, j); m.vdot(f, p); m.tensordot(d, q, axes=([1], [2])); m.tensordot(f, p); m.tensordot(f, g, 1); m.tensordot(v, v, 0); m.kron(f, p); m.kron(v, g); m.cross(f[:, :3], p[:, 1:]); m.cross(np.eye(3), v[:3])
m.einsum('ij,jk->ik', f, g); m.einsum('ij,ij->', f, p); m.einsum('ii->i', f[:, :3]); m.einsum('ii', f[:, :3]); m.einsum('ij->ji', f); m.einsum('ij', f); m.einsum('bij,jk', d, g); m.einsum('...j,j', d, v); m.einsum('...ij,...jk->...ik', d, g)
m.einsum('ij,jk,k->i', f, g, g[0]); m.einsum('i,j,k->ijk', v, v, v); m.einsum('ij,kj,lj,ml->mk', f, p, f, p[:, :3]); m.einsum('ij->', f); m.einsum('abc,abd->dc', d, d); m.einsum('i,i,i->i', v, v, v); m.einsum('iij->j', q[0, :, :2, :]); m.einsum('ij,ij->j', i, i); m.einsum('a...,a...->...', d, d)
m.convolve(v, o); m.convolve(v, o, 'same'); m.convolve(o, v, 'valid'); m.convolve(j, t)
f.reshape(4, 3); f.reshape(-1); f.reshape((2, -1, 3)); f.reshape(-1, 6); m.ravel(d); f.flatten(); m.transpose(d, (2, 0, 1)); d.transpose(); d.transpose(1, 0, 2); m.swapaxes(d, 0, -1); m.moveaxis(d, 0, -1); m.moveaxis(q, [0, 1], [-1, 0]); m.rollaxis(q, 2); m.rollaxis(q, 1, 4)
m.squeeze(w); m.squeeze(w, 1); m.squeeze(d[:1]); m.expand_dims(f, 1); m.expand_dims(f, (0, -1)); m.broadcast_to(v, (2, 3, 4)); m.broadcast_to(s, (2, 2)); m.broadcast_arrays(f, w)[1]; m.atleast_1d(s); m.atleast_2d(v); m.atleast_3d(f); m.matrix_transpose(d)
m.concatenate([f, p]); m.concatenate([f, i], axis=1); m.concatenate([f, d[0]], axis=None); m.concatenate([u, i]); m.stack([f, p]); m.stack([f, p], axis=-1); m.stack([i, u], axis=1); m.vstack([v, f]); m.hstack([f, w]); m.hstack([v, j]); m.dstack([f, p]); m.column_stack([v, j]); m.append(f, 3.5); m.append(f, p, axis=0)
m.split(f, 2, axis=1)[1]; m.split(o, [2, 3])[1]; m.array_split(o, 3)[0]; m.array_split(f, 2)[1]; m.hsplit(f, 2)[0]; m.vsplit(f, 3)[2]; m.dsplit(d, [1])[1]; m.unstack(d, axis=1)[2]
m.repeat(f, 2); m.repeat(f, 3, axis=1); m.repeat(f, [1, 0, 2], axis=0); m.tile(f, 2); m.tile(f, (2, 1, 3)); m.tile(v, (2, 1)); m.roll(f, 1); m.roll(f, -1, axis=1); m.roll(f, (1, 2), axis=(0, 1)); m.roll(d, 7, 2); m.flip(f); m.flip(f, 0); m.flip(d, (0, 2)); m.fliplr(f); m.flipud(f); m.rot90(f); m.rot90(f, 2); m.rot90(f, 3); m.rot90(d, 1, (1, 2)); m.rot90(f, -1)
m.pad(f, 1); m.pad(f, ((1, 0), (2, 3))); m.pad(f, 2, constant_values=9); m.pad(i, ((1, 2), (0, 1)), constant_values=((1, 2), (3, 4))); m.pad(f, 2, 'edge'); m.pad(f, ((2, 1), (3, 3)), 'reflect'); m.pad(f, 5, 'wrap'); m.pad(f, 3, 'symmetric'); m.pad(v, (7, 9), 'reflect'); m.pad(f, {0: 2}); m.pad(f, {-1: (0, 3)}, 'edge')
m.diagonal(f); m.diagonal(d, 1, 1, 2); m.diag(v); m.diag(f); m.diag(v, 1); m.diag(v, -2); m.diag(f, -1); m.diagflat(f); m.trace(f); m.trace(d, axis1=1, axis2=2); m.trace(i); m.tril(f); m.triu(f, 1); m.tril(d, -1); m.triu(i); m.tril(b)
m.sort(f); m.sort(f, axis=0); m.sort(n); m.sort(n, axis=None); m.argsort(f); m.argsort(i, axis=0, kind='stable'); m.argsort(n, kind='stable'); m.sort(b, axis=1); m.sort(u); m.sort(d, axis=1); m.argsort(t, kind='stable'); m.sort(e, axis=0); f.argsort(1); m.lexsort((i[0], u[0])); m.lexsort((i, u), axis=0)
m.searchsorted(o, f); m.searchsorted(o, [1, 4, 5, -7], side='right'); m.searchsorted(o, 1); m.searchsorted(t, 2, sorter=np.argsort(t)); m.digitize(f, o[1:3]); m.searchsorted(np.array([1, 2, np.nan, np.nan]), [np.nan, 3]); m.searchsorted(np.array([1, 2, np.nan, np.nan]), [np.nan, 3], 'right')
m.median(f); m.median(f, axis=0); m.median(d, axis=(0, 2)); m.median(n, axis=1); m.percentile(f, 30); m.quantile(f, [0.1, 0.5, 1], axis=1); m.quantile(d, 0.3, axis=1, keepdims=True); m.percentile(f, [25, 75], method='nearest'); m.quantile(i, 0.25, method='lower'); m.quantile(f, 0.7, method='midpoint'); m.median(i, keepdims=True); m.median(n, axis=0); m.median(n[:2, 1:], axis=0); m.median(e, axis=0); m.median(b)
m.interp([0.5, 9, -9, 1.5], [0, 1, 2], [3., 5, 4]); m.interp(f, np.arange(-2, 3), np.arange(5) ** 2, left=-1); m.bincount(np.array([2, 0, 2])); m.bincount(t, minlength=7); m.bincount(t, weights=np.arange(5.), minlength=4)
m.array([1, 2, 3]); m.array([[1.5, 2], [3, 4]]); m.asarray(2); m.asarray(True); m.asarray([1, 2], dtype='float32'); m.zeros(3); m.zeros((2, 3), 'int32'); m.ones((2,)); m.full((2, 2), 7); m.full((2, 2), 7.5, dtype='float32'); m.full(3, [1, 2, 3]); m.zeros_like(i); m.ones_like(f, dtype='int8'); m.full_like(f, 2.5); m.zeros_like(f, shape=(2, 2)); m.full_like(i, 3)
m.arange(5); m.arange(2, 9, 3); m.arange(1.5); m.arange(3, dtype='float32'); m.linspace(0, 1, 5); m.logspace(0, 2, 4); m.geomspace(1, 8, 4); m.eye(3); m.eye(2, 4, 1, dtype='int32'); m.identity(2); m.tri(3, 4, 1); m.indices((2, 3)); m.meshgrid(v, o)[0]; m.meshgrid(v, o)[1]; m.meshgrid(v, o, t, indexing='ij')[2]; m.meshgrid(v, o, t)[0]; m.hanning(5)
m.isnan(n); m.isinf(n); m.isfinite(n); m.isfinite(i); m.isposinf(n); m.isneginf(n); m.signbit(n); m.isclose(f, f + 1e-7); m.isclose(n, n, equal_nan=True); m.logical_and(f, b); m.logical_or(i, 0); m.logical_xor(b, i); m.logical_not(n); m.signbit(m.sign(n * 0)); m.signbit(m.sign(-f * 0))
m.round(f); m.round(f, 1); m.round(i, -1); m.around(d, 2); f.round(1); m.rint(f); m.fix(f); m.fmod(f, 1.3); m.fmod(i, 3); m.modf(f)[0]; m.modf(n)[1]; m.divmod(f, 1.5)[1]; m.fmax(n, 1); m.fmin(n, f); m.hypot(f, 2); m.hypot(n, 1); m.logaddexp(f, p); m.logaddexp2(f, 0); m.cbrt(f); m.cbrt(d * 1e200); m.float_power(p, 3); m.heaviside(n, 0.5); m.sinc(f); m.deg2rad(f); m.rad2deg(i); m.positive(f); m.degrees(f)
m.reciprocal(i | 1); m.reciprocal(np.array([1, -1, 127, -127, 5], np.int8)); m.reciprocal(np.array([1, 127, 255], np.uint8)); m.negative(u); m.sign(u); m.absolute(i); m.fabs(i); m.square(b); m.floor(i); m.floor(b); m.rint(i); m.invert(b); ~i; -f; +f; abs(f); f ** 2; 2 ** f; i ** 2; f // 1.5; i // 2; i % 3; f % 1.5; 7 // (i | 1); 5 - f; 1 / p; divmod(i, 2)[0]; i & 3; 3 | i; i ^ u; i << 1; u >> 1; b & b.T[:1].T; b ^ True; f < p; i >= 1; 0 < f; 2 > i; m.equal(u, -1); u < 300; i >= -(2**40); m.less(2**63, i); m.not_equal(b, 2)
f + i; u + 1; u + 1.5; f * 2; i * 2.5; h + 1; h + f; b + b; b + 1; b * 2.0; i + j; u + i; f + s; j + True; f + np.float64(1); f + np.array([1]); i / 2; u / u[:, ::-1].clip(1); j / 2; b / 2; m.add(f, i, dtype='float64'); m.multiply(f, [[1], [2], [3]]); m.maximum(b, False); m.minimum(f, 0); m.copysign(f, -1); m.arctan2(f, p)
m.linalg.norm(f); m.linalg.norm(f, axis=1); m.linalg.norm(f, 1); m.linalg.norm(f, np.inf); m.linalg.norm(f, 'fro', axis=(0, 1), keepdims=True); m.linalg.norm(v, 3); m.linalg.norm(v, 0); m.linalg.norm(v, -np.inf); m.linalg.norm(d, axis=(1, 2)); m.linalg.norm(i); m.linalg.norm(f, -1, axis=(0, 1)); m.linalg.matrix_power(f[:, :3], 5); m.linalg.vector_norm(d, axis=(0, 1)); m.linalg.matrix_norm(d)
m.digitize(f, o[2:0:-1]); m.digitize(f, o[::-1], right=True); m.digitize(f, np.array([1.5, -0.5])); m.digitize(f, [0.5]); m.bincount(np.array([9, 1]), minlength=3); n[2] // 1.5; n // 0; m.floor_divide(n, np.inf); m.divmod(n, -2)[0]
m.max(b, axis=1, initial=True); m.min(b, axis=1, initial=False); m.min(b, axis=1, where=b, initial=0); m.max(b, axis=1, where=~b, initial=3); m.select([b, f > 0], [u, b], 7); m.select([b], [f], 1.5); m.meshgrid(v, o, sparse=True)[1]; m.meshgrid(v, o, t, sparse=True, indexing='ij')[0]
m.quantile(f, [[0.1, 0.5], [0.9, 1]], axis=0, keepdims=True); m.quantile(d, [[0.3]], axis=(0, 2)); m.nanmedian(n); m.nanmedian(n, axis=1, keepdims=True); m.nanmedian(d, axis=(0, 2)); m.nanmedian(i, axis=0); m.nanquantile(n, 0.3, axis=1); m.nanquantile(n[:, 2:], [0.2, 0.7], axis=0, keepdims=True)
m.nanpercentile(n[2], [[10, 60]]); m.nanpercentile(n[2:, 1:], 25, method='lower'); m.nanquantile(n[2], 0.4, method='higher'); m.nanquantile(n[2], 0.5, method='nearest'); m.nanquantile(n[2], [0.5, 1], method='midpoint'); m.nanquantile(n * np.nan, 0.5, axis=0); m.nanquantile(i, 0.25)
m.piecewise(f, [f < -1, f > 1], [-1, lambda v: v * 2, 0]); m.astype(f, 'int32'); f.astype('bool'); f.astype(np.int8); i.astype('float16'); b.astype(int); f.ptp() if m is ng.numpy else m.ptp(f); m.std(f, 0, ddof=2); m.tile(e, (2, 2)); m.concatenate([e, e + 1]); e @ np.ones((3, 2)); m.sum(e @ np.ones((3, 2), np.float32))
m.allclose(f, f + 1e-7); m.allclose(f, p); m.allclose(n, n, equal_nan=True); m.isclose(u, u + 1, rtol=1.0); m.isclose(i, 2, atol=1); m.isclose(b, True); m.isclose(h, h * 1.001, 1e-2); m.array_equal(f, f); m.array_equal(f, v); m.array_equal(n, n); m.array_equal(n, n, equal_nan=True); m.array_equiv(v, m.broadcast_to(v, (3, 4))); m.array_equiv(f, g)
m.isin(i, [0, 2]); m.isin(f, f[1]); m.isin(n, n); m.isin(u, i, invert=True); m.isin(b, [True]); m.isin(b, np.arange(99) > 98); m.isin(i, np.arange(0, 200, 2)); m.isin(f, m.concatenate([f, f * 2, p, d], axis=None)[:100]); m.isin(n, m.tile(n, (6, 1))); m.isin(i, []); m.isin(s, 2.5)
m.cov(f); m.cov(f, p); m.cov(i, rowvar=False); m.cov(v); m.cov(f, bias=True); m.cov(f, ddof=0, dtype='float32'); m.cov(f, fweights=[1, 2, 0, 3]); m.cov(f, aweights=p[0]); m.cov(d[0], v, fweights=t[:4], aweights=[1.5, 2, 1, 1]); m.cov(f[:, :1]); m.corrcoef(f); m.corrcoef(v, p[0]); m.corrcoef(v); m.corrcoef(f, rowvar=False)
m.block([[f, p], [d[0], i]]); m.block([v, 1, s]); m.block([[m.eye(2), m.zeros((2, 3))], [m.ones((1, 5))]]); m.block(f); m.block([[[v]], [[v]]]); m.insert(f, 1, 9, axis=1); m.insert(f, [0, 2], v, axis=0); m.insert(v, 2, [7, 8]); m.insert(f, slice(0, 4, 2), [[1], [2], [3]], axis=1); m.insert(f, [1, 1, 0], [5, 6, 7]); m.insert(f, [2], p[:, :2], axis=1)
m.insert(f, np.array([True, False, True, False]), 0, axis=1); m.insert(d, 1, f, axis=0); m.insert(d, 2, v, axis=1); m.insert(v, [], 1); m.delete(f, 1, axis=1); m.delete(f, [0, -1], axis=0); m.delete(f, slice(None, None, 2)); m.delete(v, np.array([True, False, False, True])); m.delete(d, [], 2); m.resize(f, (5, 3)); m.resize(v, 9); m.resize(f, (2, 2)); m.resize(e, (2, 2))
m.polyval([1, 2, 3], f); m.polyval(v, i); m.polyval(i[0], p); m.polyval([], f); m.polyval([2], n); m.polyfit(np.arange(4), f.T, 2); m.polyfit(o, o * o - 1, 3, w=np.arange(7.)); m.vander(v); m.vander(t, 3); m.vander(v, 4, increasing=True); m.vander(b[0], 2); m.vander(v, 0); m.vander(i[0].astype('int8'), 3)
m.histogram(f)[0]; m.histogram(f, 4)[1]; m.histogram(f, 5, (-1, 2))[0]; m.histogram(f, 3, (-1, 2))[1]; m.histogram(i)[0]; m.histogram(i, 3)[1]; m.histogram(o, [-2, 0, 1, 4])[0]; m.histogram(o, 6)[0]; m.histogram(t, [0, 1.5, 3])[0]; m.histogram(o, 3, density=True)[0]; m.histogram(o, 3, weights=np.arange(7.))[0]; m.histogram(o, [0, 1, 9], weights=np.arange(7), density=True)[0]; m.histogram(e)[0]; m.histogram(s, 3)[1]; m.histogram(u, 4)[0]; m.histogram(f, 3, (2, 2))[1]; m.histogram(h, 4)[1]; m.histogram_bin_edges(d, 3)
m.unravel_index(t, (2, 2))[0]; m.unravel_index(j % 12, (2, 3, 2))[2]; m.unravel_index(j % 12, (3, 4), order='F')[1]; m.unravel_index(7, (2, 3, 2))[0]; m.ravel_multi_index((t % 3, t), (3, 4)); m.ravel_multi_index((i, j), (3, 4), mode='wrap'); m.ravel_multi_index((i, j), (3, 4), mode=('clip', 'wrap'), order='F'); m.ravel_multi_index((1, 2), (3, 4))
f[m.tril_indices(3, 0, 4)]; f[m.triu_indices_from(f, 1)]; m.diag_indices(3, 3)[2]; f[:, :3][m.diag_indices_from(f[:, :3])]; m.tril_indices_from(f, -1)[1]; f[m.ix_([0, 2], [1, 1, 3])]; m.ix_(np.array([True, False, True]), [5])[0]; m.ix_([], [1])[0]
m.gradient(v); m.gradient(f)[0]; m.gradient(f)[1]; m.gradient(f, axis=1, edge_order=2); m.gradient(i, 2, axis=0); m.gradient(f, 2.0, 0.5)[1]; m.gradient(o, o * 3 + np.arange(7)); m.gradient(o, np.arange(7.) * 2, edge_order=2); m.gradient(o, np.array([0, 1, 3, 4, 7, 8, 9.]), edge_order=2); m.gradient(d, axis=(0, 2))[1]; m.gradient(d, [0, 1, 4], axis=1); m.gradient(h, axis=0); m.gradient(v[:2]); m.gradient(v[:2], [1, 3]); m.gradient(v, p[0].cumsum(), edge_order=2)
m.ediff1d(f); m.ediff1d(t, to_end=[9, 8], to_begin=-1); m.ediff1d(s); m.unwrap(np.array([0, 0.78, 5.49, 6.28])); m.unwrap(f * 9); m.unwrap(d * 7, axis=1); m.unwrap(t * 5, period=4); m.unwrap(np.array([0, 3, -3, 3.]), period=6); m.unwrap(f * 9, discont=4); m.unwrap(np.array([0, 1, 6, 7, 0, 5]), period=5); m.unwrap(np.array([0, 2, 0, 2]), period=4); m.unwrap(e); m.unwrap(e, axis=0)
m.cumulative_sum(f, axis=1); m.cumulative_sum(v); m.cumulative_sum(i, axis=0, include_initial=True); m.cumulative_prod(u, axis=-1, include_initial=True); m.cumulative_sum(b, axis=0, dtype='float32', include_initial=True); m.matvec(d, v); m.vecmat(v[:3], d); m.matvec(q, q[..., 0, :]); m.correlate(v, o); m.correlate(o, v, 'same'); m.correlate(v, o, 'same'); m.correlate(o, v[:3], 'full'); m.correlate(v[:2], o, 'full'); m.correlate(t, j, 'same'); m.kaiser(5, 8.6)
m.apply_along_axis(lambda v: v[::2] * 2, 0, f); m.apply_along_axis(lambda v: m.sum(v), 1, d); m.apply_along_axis(lambda v, k: m.outer(v, v)[:k], -1, f, 2); m.apply_along_axis(lambda v: m.outer(v, v), 1, d)
m.mean(f, dtype=int); m.mean(f * 9, axis=0, dtype='int32'); m.mean(i, axis=1, dtype='int8', keepdims=True); m.mean(f * 9, dtype=int, where=b); m.mean(u, dtype='uint8', axis=0); m.mean(b, dtype='float32'); m.mean(h, dtype=int); m.var(f * 9, dtype=int); m.var(f * 9, axis=0, dtype='int32', ddof=1); m.var(i, axis=1, dtype='int64'); m.std(f * 9, dtype=int); m.var(b, dtype=int); m.var(h, axis=0); m.std(i, dtype='float32'); m.var(f * 9, dtype=int, where=b)
m.gcd(i, j); m.gcd(u, i); m.gcd(i[:, :1] * 6, 4); m.gcd(12, j * 10**15); m.gcd(np.array([-128, -128, 0], np.int8), np.array([0, -128, 0], np.int8)); m.lcm(i, j); m.lcm(i, 6); m.lcm(np.array([100, -128], np.int8), np.array([99, -128], np.int8)); m.lcm(u, u[:1]); m.gcd(e.astype(int), 3)
m.ldexp(f, i); m.ldexp(n, 2); m.ldexp(h, j - 12); m.ldexp(n, i * 60); m.ldexp(d, j * 400); m.ldexp(d, -1074); m.ldexp(f * 1e-30, j * 9 - 40); m.ldexp(f, b); m.ldexp(i, u); m.ldexp(s, np.int64(2**40)); m.ldexp(f, np.int64(-(2**40)))
m.frexp(n)[0]; m.frexp(n)[1]; m.frexp(f)[1]; m.frexp(h)[0]; m.frexp(i)[1]; m.frexp(d * 1e-310)[0]; m.frexp(d * 1e-310)[1]; m.frexp(f * 1e-40)[1]; m.nextafter(n, 0); m.nextafter(n, f); m.nextafter(d, np.inf); m.nextafter(h, -h); m.nextafter(f, d[0]); m.spacing(n); m.spacing(d); m.spacing(m.absolute(h)); m.spacing(i)
m.bitwise_count(i); m.bitwise_count(u * 51); m.bitwise_count(j * 2**40 - 1); m.bitwise_count(b); m.bitwise_count(np.array([-128, 127, -1], np.int8)); m.bitwise_count(np.uint64(2**64 - 1))
m.poly(v); m.poly(t); m.poly([]); m.poly(f[0]); m.polyadd(v, o); m.polyadd(t, 3); m.polysub(i[0], v); m.polysub(j, t); m.polymul(v, o); m.polymul([0, 0, 1, 2], [0, 3]); m.polymul(i[0] | 1, 2); m.polymul([0], [0, 0]); m.polydiv([1, 5, 6, 2], [1, 2])[0]; m.polydiv([1, 5, 6, 2], [1, 2])[1]; m.polydiv(o, p[0])[0]; m.polydiv(o, p[0])[1][-3:]; m.polydiv(v, [2])[0]; m.polydiv(v, o + 9)[0]; m.polydiv(v, o + 9)[1]
m.polyder(o); m.polyder(t, 2); m.polyder(v, 5); m.polyder(v, 0); m.polyint(v); m.polyint(t, 2, [5, 6]); m.polyint(t, 2, 1); m.polyint([]); m.polyint(v, 0); m.polyint(o, k=2)
m.apply_over_axes(m.sum, d, [0, 2]); m.apply_over_axes(m.max, q, -1); m.apply_over_axes(lambda x, axis: m.sum(x, axis, keepdims=True), d, (1,)); m.apply_over_axes(m.cumsum, f, [0, 1]); m.linspace(2, 3, 5, retstep=True)[1]; m.linspace(2, 3, 5, endpoint=False, retstep=True)[0]; m.indices((2, 3), sparse=True)[1]; m.indices((2, 3), dtype='float32')
m.modf(i)[0]; m.modf(u)[1]; m.modf(b)[0]; m.interp(f, [0, 1, 3], [1., -1, 2], period=4); m.interp(f, [5, 1, 3], v[:3], period=-2.5, left=9); m.roll(f, (1, 2), axis=1); m.roll(f, 1, axis=(0, 1)); m.clip(u, -1, 2); m.clip(u, 1, 300); m.clip(i, -(2**40), 2); m.quantile(f, []); m.percentile(i, [], axis=1); m.fmod(i, 2, dtype='float32'); m.hypot(i, j, dtype='float32'); m.logaddexp(u, i, dtype='float32'); m.logaddexp2(u, i, dtype='float64'); m.heaviside(i, 1, dtype='float32'); m.divmod(f, 2, dtype='float64')[1]; m.cbrt(u, dtype='float64'); m.deg2rad(i, dtype='float32')
m.quantile(f, 0.3, axis=1, method='hazen'); m.quantile(d, [0, 0.05, 0.4, 1], axis=(0, 2), method='weibull'); m.quantile(i, 0.9, method='median_unbiased'); m.quantile(f, 0.45, axis=0, method='normal_unbiased'); m.quantile(f, [0.01, 0.6], method='interpolated_inverted_cdf'); m.nanquantile(n, 0.3, axis=1, method='hazen'); m.nanquantile(f, [0.05, 0.9], method='weibull'); m.nanquantile(d, 0.2, axis=1, method='median_unbiased'); m.nanpercentile(n[2], 77, method='interpolated_inverted_cdf')
m.nansum(n, axis=0, initial=2, where=b); m.nanprod(n[2:], initial=3, keepdims=True); m.nanmax(n, axis=1, initial=-1, where=b); m.nanmin(n, initial=0); m.nanmax(n * np.nan, initial=1); m.nanmean(n[2], where=b[0]); m.nanmean(n, axis=0, where=[[False], [True], [True]]); m.nanvar(f, axis=1, where=b0x); m.nanstd(n[2], where=b0x[0]); m.nanmax(i, axis=0, initial=-5, where=b)
f.reshape(4, 3, order='F'); m.reshape(d, (-1, 6), order='F'); m.ravel(d, 'F'); f.flatten('F'); m.reshape(f, 12, order='F'); m.reshape(f, (2, -1), 'A'); f.astype('int32', copy=False); m.array([1, 2], copy=True)
m.einsum(f, [0, 1], g, [1, 2], [0, 2]); m.einsum(f, [1, 0]); m.einsum(d, [..., 30, 2], g, [2, 3], [..., 3, 30]); m.einsum('ij,jk,kl', f, g, g.T, optimize='greedy'); m.einsum(f, [0, 0 + 1], g, [1, 30])
m.add.outer(v, v); m.subtract.outer(f, v); m.multiply.outer(i, s); m.maximum.outer(j, u); m.less.outer(v, v); m.add.reduce(f); m.multiply.reduce(p, axis=1); m.maximum.reduce(d, axis=(0, 2)); m.logical_or.reduce(b, axis=1); m.add.accumulate(f); m.multiply.accumulate(p, axis=1)
m.maximum.accumulate(n, axis=1); m.minimum.accumulate(f); m.maximum.accumulate(b, axis=1); m.subtract.accumulate(d, axis=-2); m.divide.accumulate(p); m.logical_xor.accumulate(b); m.bitwise_or.accumulate(u, axis=1); m.hypot.accumulate(i); m.fmin.accumulate(n); m.maximum.accumulate(e); m.copysign.accumulate(f[:1]); m.less.accumulate(b)
m.subtract.reduce(f); m.divide.reduce(p, axis=1, keepdims=True); m.fmax.reduce(n, axis=(0, 1)); m.logaddexp.reduce(d, axis=None); m.hypot.reduce(f[:1]); m.gcd.reduce(i, axis=()); m.bitwise_and.reduce(u); m.bitwise_and.reduce(u[:0]); m.logical_xor.reduce(b, axis=1); m.bitwise_xor.reduce(i, axis=1, initial=3); m.logaddexp.reduce(e, axis=0); m.subtract.reduce(i, dtype="float32"); m.add.reduce(s); m.maximum.reduce(s, axis=-1)
m.imag(b); m.imag(n); np.maximum.accumulate(f, axis=1); np.fmax.reduce(n, axis=0); np.add.reduce(f); np.subtract.outer(v, v); np.maximum.reduce(f, axis=1); np.add.accumulate(f, axis=1)
m.abs(m.fft.fft(v)); m.absolute(m.fft.rfft(d)); m.angle(m.fft.rfft(p))[:, 1:2]; m.angle(p - 0.5); m.angle(v, deg=True); m.real(m.fft.fft(v)); m.imag(m.fft.fft(v)); m.conj(m.fft.fft(v)).imag; m.conjugate(f); m.real(i); m.imag(f); (m.fft.fft(v) * m.conj(m.fft.fft(v))).real
"""
LIST = [call for line in CALLS.strip().splitlines() for part in line.split("; ") if (call := part.strip())]


def environment(m: Any, given: dict[str, Any]) -> dict[str, Any]:
    known = {"b0": ARRAYS["b"], "d0": ARRAYS["d"] > 0, "t0": [1, 0, 1], "b0x": ARRAYS["p"] > 0.2}
    return {**given, **known, "m": m, "np": np, "ng": ng, "x": given["f"]}


def run(calls: Sequence[str], target: str) -> None:
    """Each call by NumPy, and all of them by one program."""
    inputs = {name: ng.numpy.placeholder(a.shape, a.dtype, name=name) for name, a in ARRAYS.items()}
    # Positions that are computed are tensors too.
    there = np.array([1, 0])
    at = ng.numpy.placeholder((2,), "int64")
    wanted: list[Any] = []
    made: list[ng.Tensor] = []
    for call in calls:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted.append(np.asarray(eval(call, environment(np, ARRAYS) | {"i1": there})))
        made.append(ng.numpy.asarray(eval(call, environment(ng.numpy, inputs) | {"i1": at})))
    got = ng.compile(made, [*inputs.values(), at], target=target)(*ARRAYS.values(), there)
    wrong: list[str] = []
    for call, one, want in zip(calls, got, wanted, strict=True):
        try:
            check(one, want)
        except AssertionError as error:
            wrong.append(
                f"{call}: {one.dtype} {one.shape}, wanted {want.dtype} {want.shape}: {str(error)[:300]}"
            )
    assert not wrong, "\n".join(wrong)


def check(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype, f"{got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{got.shape}, not {want.shape}"
    tolerance = {"float16": 4e-3, "float32": 2e-5}.get(want.dtype.name, 1e-12)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("part", range(8))
def test_calls(part: int) -> None:
    run(LIST[part::8], "numpy")


@pytest.mark.parametrize(("target", "every"), [("cpu", 9), ("cuda-sim", 25)])
def test_calls_on_other_targets(target: str, every: int) -> None:
    run(LIST[1::every], target)
