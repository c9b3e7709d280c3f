# SPDX-License-Identifier: Apache-2.0
"""Random nodes of com.microsoft: attention, caches, positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from microsoft_draw import Array, Case, Draw, case
from onnx import TensorProto

F16, F32 = np.float16, np.float32
I32 = np.int32


def _sizes(d: Draw) -> tuple[int, int, int, int]:
    """Sequences, queries, heads, elements of a head."""
    return d.pick(1, 2, 3), d.pick(1, 2, 3, 5, 7), d.pick(1, 2, 3), d.pick(2, 3, 4, 5, 8)


def _mask(d: Draw, b: int, s: int, t: int, kinds: str) -> Array | None:
    """Lengths, lengths and starts, one of each key, one of each query and key; each query sees a key."""
    kind = d.pick(*kinds.split())
    ends = d.rng.integers(1, t + 1, b).astype(I32)
    if kind == "none":
        return None
    if kind == "ends":
        return ends
    if kind == "both":
        return np.concatenate([ends, (ends - 1 - d.rng.integers(0, t, b)).clip(0).astype(I32)]).astype(I32)
    if kind == "keys":
        return (np.arange(t)[None] < ends[:, None]).astype(I32)
    seen = (d.rng.random((b, s, t)) < 0.7).astype(I32)
    seen[:, :, 0] = 1
    return seen


def _more(d: Draw, heads: int, causal: bool = True) -> dict[str, Any]:
    more: dict[str, Any] = {"num_heads": heads}
    if causal and d.chance(0.4):
        more["unidirectional"] = 1
    if d.chance(0.2):
        more["scale"] = 0.3
    if d.chance(0.2):
        more["mask_filter_value"] = -50.0
    return more


def _bias(d: Draw, b: int, n: int, s: int, t: int) -> Array:
    return d.floats(d.pick(1, b), d.pick(1, n), s, t)


@case("Attention")
def _attention(d: Draw) -> Case:
    b, s, n, h = _sizes(d)
    width, more = d.pick(2, 3, 5, 7), _more(d, n)
    past = d.pick(None, None, 0, 1, 3)
    kept = past is not None
    values = h if kept or d.chance(0.7) else h + 1
    if values != h or d.chance(0.2):
        more["qkv_hidden_sizes"] = [n * h, n * h, n * values]
    t = (past or 0) + s
    total = n * (2 * h + values)
    kinds = "none keys each ends both" if not kept else "none keys each"
    inputs = [
        d.floats(b, s, width), d.floats(width, total), d.maybe(lambda: d.floats(total), 0.8), _mask(d, b, s, t, kinds),
        d.floats(2, b, n, past, h) if past is not None else None, d.maybe(lambda: _bias(d, b, n, s, t), 0.3),
    ]  # fmt: skip
    outputs = (0, 1) if kept or (d.chance(0.3) and values == h) else (0,)
    return Case(inputs, more, outputs, tolerance=1e-4)


@case("QAttention")
def _qattention(d: Draw) -> Case:
    b, s, n, h = _sizes(d)
    width, more, past = d.pick(2, 3, 5, 7), _more(d, n), d.pick(None, None, 0, 1, 3)
    a_type, w_type = d.pick((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    columns = d.pick((), (3 * n * h,))
    zero = d.maybe(lambda: np.zeros(columns, w_type) if w_type is np.int8 else d.zero(w_type, *columns))
    inputs = [
        d.codes(b, s, width, dtype=a_type), d.codes(width, 3 * n * h, dtype=w_type), d.floats(3 * n * h),
        d.real() / 8, d.scale(*columns) / 8, _mask(d, b, s, (past or 0) + s, "none keys ends" if past is None else "none keys"),
        d.maybe(lambda: d.zero(a_type)), zero, d.floats(2, b, n, past, h) if past is not None else None,
    ]  # fmt: skip
    return Case(inputs, more, (0, 1) if past is not None else (0,), tolerance=1e-4)


@case("MultiHeadAttention")
def _multi_head(d: Draw) -> Case:
    b, s, n, h = _sizes(d)
    kind = d.pick("self", "cross", "past", "kept")
    length = s if kind in ("self", "past") else d.pick(1, 3, 5)
    past = d.pick(0, 1, 3) if kind == "past" else 0
    values = h if kind in ("past", "kept") or d.chance(0.7) else h + 1
    t = past + length
    more = _more(d, n, kind in ("self", "past"))
    kept = kind == "kept"
    key = d.floats(b, n, length, h) if kept else d.floats(b, length, n * h)
    value = d.floats(b, n, length, values) if kept else d.floats(b, length, n * values)
    inputs = [
        d.floats(b, s, n * h), key, value,
        None if kept else d.maybe(lambda: d.floats(n * (2 * h + values))),
        _mask(d, b, s, t, "none keys each ends" if kind != "past" else "none keys each"),
        d.maybe(lambda: _bias(d, b, n, s, t), 0.3),
        *((d.floats(b, n, past, h), d.floats(b, n, past, h)) if kind == "past" else ()),
    ]  # fmt: skip
    outputs = [0]
    if kind == "past" or (not kept and d.chance(0.3)):
        outputs += [1, 2]
    if d.chance(0.2) and len(outputs) == 3:
        outputs.append(3)
    return Case(inputs, more, outputs, tolerance=1e-4, types={3: TensorProto.FLOAT})


@case("DecoderMaskedMultiHeadAttention")
def _decoder_masked(d: Draw) -> Case:
    b, _, n, h = _sizes(d)
    past = d.pick(1, 3, 5)
    shared = int(d.chance())
    more = {**_more(d, n, False), "past_present_share_buffer": shared}
    whole = past + d.pick(1, 2, 4) if shared else past
    inputs = [
        d.floats(b, 1, n * h), d.floats(b, 1, n * h), d.floats(b, 1, n * h), _mask(d, b, 1, past + 1, "none keys"),
        d.maybe(lambda: _bias(d, b, n, 1, past + 1), 0.3),
        d.floats(b, n, whole, h), d.floats(b, n, whole, h),
        np.array([past], I32) if shared else None, None, None, d.maybe(lambda: d.floats(3 * n * h)),
    ]  # fmt: skip
    # Behind what was written the buffer is whatever it was.
    written = (np.arange(whole if shared else past + 1) <= past)[None, None, :, None]
    return Case(inputs, more, (0, 1, 2), tolerance=1e-4, valid={1: written, 2: written})


@case("GroupQueryAttention")
def _grouped(d: Draw) -> Case:
    b, s, shared = d.pick(1, 1, 2, 3), d.pick(1, 1, 2, 3, 5), d.pick(1, 2)
    n, h = shared * d.pick(1, 2, 3), d.pick(16, 16, 32)
    kind = d.pick("prompt", "token", "chunk", "padded")
    more: dict[str, Any] = {"num_heads": n, "kv_num_heads": shared}
    if d.chance(0.3):
        more["scale"] = 0.3
    if d.chance(0.3):
        more["local_window_size"] = d.pick(1, 2, 3, 4)
    if d.chance(0.3):
        more["softcap"] = 2.0
    if d.chance(0.2):
        more["smooth_softmax"] = 1
    if kind != "padded" and "local_window_size" not in more and d.chance(0.2):
        more["causal"] = 0
    if kind == "token":
        s = 1
    if kind == "chunk":
        b, s = 1, d.pick(2, 3, 5)
    new = np.full(b, s)
    if kind == "padded":
        new = d.rng.integers(1, s + 1, b)
    if kind == "prompt":
        lengths, before = d.rng.integers(1, s + 1, b), d.pick(0, 0, s + 3)
        lengths[0], total = s, s
    else:
        lengths = d.rng.integers(s + 1, s + 6, b) if b > 1 else np.array([s + d.pick(1, 3, 4)])
        total = int(lengths.max())
        # A cache that grows, or one buffer.
        before = max(total - s, int((lengths - new).max())) if d.chance() else total + 2
    turned = d.chance(0.6)
    more |= {"do_rotary": int(turned), "rotary_interleaved": int(d.chance())}
    dtype = d.pick(F32, F32, F16)
    angles = d.rng.uniform(-3, 3, (32, h // 2))
    q, k, v = d.floats(b, s, n * h), d.floats(b, s, shared * h), d.floats(b, s, shared * h)
    if d.chance(0.3):
        q, k, v = np.concatenate([q, k, v], 2), None, None
    caches = (
        [d.floats(b, shared, before, h).astype(dtype) for _ in range(2)]
        if before or d.chance()
        else [None, None]
    )
    whole = max(total, before)
    ends = lengths[:, None, None, None]
    inputs: list[Any] = [
        q.astype(dtype), *(None if x is None else x.astype(dtype) for x in (k, v)), *caches,
        (lengths - 1).astype(I32), np.array(total, I32),
        *((np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)) if turned else (None, None)),
        None, d.maybe(lambda: d.floats(d.pick(1, b), d.pick(1, n), s, total).astype(dtype), 0.2),
        d.maybe(lambda: d.floats(n).astype(dtype), 0.2),
    ]  # fmt: skip
    if kind == "token" and turned and d.chance(0.3):
        inputs[9] = (lengths - 1)[:, None].astype(np.int64)
    if kind == "padded":
        inputs += [*[None] * (16 - len(inputs)), new.astype(I32)]
    # Rows behind the end of a sequence, and what no call has written yet, mean nothing.
    starts = np.zeros_like(lengths) if kind == "prompt" else lengths - new
    rows = np.arange(s) < (lengths if kind == "prompt" else new)[:, None]
    places = np.arange(whole)[None, None, :, None] < ends
    valid = {0: rows[:, :, None], 1: places, 2: places}
    if d.chance(0.2):
        more["qk_output"] = d.pick(1, 2)
        last = (
            starts[:, None] + np.arange(s) if more.get("causal", 1) else np.repeat(lengths[:, None] - 1, s, 1)
        )
        seen = np.arange(total) <= last[:, :, None]
        valid[3] = (rows[:, :, None] & seen)[:, None] if "local_window_size" not in more else np.array(False)
    outputs = (0, 1, 2, 3) if "qk_output" in more else (0, 1, 2)
    return Case(inputs, more, outputs, tolerance=1e-4, valid=valid)


@case("RotaryEmbedding")
def _rotary(d: Draw) -> Case:
    b, s, n, h = d.pick(1, 2, 3), d.pick(1, 2, 5), d.pick(1, 2, 3), d.pick(2, 4, 6, 8)
    more: dict[str, Any] = {"interleaved": int(d.chance())}
    part = h
    if h > 4 and d.chance(0.4):
        part = 4
        more |= {"rotary_embedding_dim": part, "num_heads": n}
    angles = d.rng.uniform(-3, 3, (11, part // 2))
    dtype = d.pick(F32, F32, F16)
    places = d.rng.integers(0, 11, (b, s)) if d.chance() else np.array([d.rng.integers(0, 11 - s)])
    x = d.floats(b, n, s, h) if d.chance(0.4) else d.floats(b, s, n * h)
    return Case(
        [
            x.astype(dtype),
            places.astype(np.int64),
            np.cos(angles).astype(dtype),
            np.sin(angles).astype(dtype),
        ],
        more,
    )


@case("RelativePositionBias")
def _relative(d: Draw) -> Case:
    both = int(d.chance())
    s = d.pick(1, 5, 37)
    length = np.array([s], np.int64)
    return Case(
        [d.floats(d.pick(8, 16), d.pick(1, 3)), length, length],
        {"is_bidirectional": both, "max_distance": 20},
        fed=frozenset({0}),
    )


@case("GatedRelativePositionBias")
def _gated_relative(d: Draw) -> Case:
    b, s, n, h = _sizes(d)
    half = d.length()
    inputs = [
        d.floats(b, s, n * h), d.floats(n * h), d.floats(1, n, s, s), d.floats(h, 2 * half), d.floats(2 * half),
        d.floats(1, n, 1, 1),
    ]  # fmt: skip
    return Case(inputs, {"num_heads": n})


def _tokens(d: Draw) -> tuple[int, int, int, Array, Array]:
    """Sequences, the longest, tokens, their offsets, where each sequence ends."""
    b, s = d.pick(1, 2, 3), d.pick(2, 3, 5)
    counts = d.rng.integers(1, s + 1, b)
    inside = np.arange(s) < counts[:, None]
    flat = np.arange(b * s).reshape(b, s)
    offsets = np.concatenate([flat[inside], flat[~inside]]).reshape(b, s).astype(I32)
    return b, s, int(counts.sum()), offsets, np.concatenate([[0], np.cumsum(counts)]).astype(I32)


@case("PackedAttention")
def _packed(d: Draw) -> Case:
    b, s, tokens, offsets, ends = _tokens(d)
    n, h, width = d.pick(1, 2), d.pick(2, 3), d.length()
    inputs = [d.floats(tokens, width), d.floats(width, 3 * n * h), d.floats(3 * n * h), offsets, ends,
              d.maybe(lambda: _bias(d, b, n, s, s))]  # fmt: skip
    return Case(inputs, {"num_heads": n}, tolerance=1e-4)


@case("PackedMultiHeadAttention")
def _packed_heads(d: Draw) -> Case:
    b, s, tokens, offsets, ends = _tokens(d)
    n, h = d.pick(1, 2), d.pick(2, 3)
    parts: list[Any] = [d.floats(tokens, n * h) for _ in range(3)]
    if d.chance():
        parts = [d.floats(tokens, n, 3, h), None, None]
    inputs = [
        *parts,
        d.maybe(lambda: d.floats(3 * n * h)),
        offsets,
        ends,
        d.maybe(lambda: _bias(d, b, n, s, s)),
    ]
    return Case(inputs, {"num_heads": n}, tolerance=1e-4)


@case("RemovePadding")
def _remove_padding(d: Draw) -> Case:
    b, s, _, _, ends = _tokens(d)
    return Case([d.floats(b, s, d.length()), np.diff(ends).astype(I32)], {}, (0, 1, 2, 3))


@case("RestorePadding")
def _restore_padding(d: Draw) -> Case:
    _, _, tokens, offsets, _ = _tokens(d)
    return Case([d.floats(tokens, d.length()), offsets])


@case("QEmbedLayerNormalization")
def _qembed(d: Draw) -> Case:
    b, s, h, dtype = d.length(), d.length(), d.pick(2, 3, 5, 7), d.byte()
    segments = d.chance()
    tables = [(13, h), (9, h), (3, h), (h,), (h,)]
    present = [segments or i != 2 for i in range(5)]
    inputs = [
        d.rng.integers(0, 13, (b, s)).astype(I32), d.rng.integers(0, 3, (b, s)).astype(I32) if segments else None,
        *(d.codes(*t, dtype=dtype) if p else None for t, p in zip(tables, present, strict=True)),
        d.maybe(lambda: (np.arange(s)[None] < d.rng.integers(1, s + 1, (b, 1))).astype(I32)),
        *(d.real() if p else None for p in present), *(d.zero(dtype) if p else None for p in present),
    ]  # fmt: skip
    return Case(inputs, {"epsilon": 1e-5}, (0, 1), tolerance=1e-4)
