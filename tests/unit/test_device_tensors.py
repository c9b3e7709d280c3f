# SPDX-License-Identifier: Apache-2.0
"""State as tensors in buffers: where they lie, and how much is copied to read and to write them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.runtime import dlpack
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.support.strides import Part
from ngmlir.transformers import DeviceBufferStorage, DeviceTensor

TARGETS = ["numpy", "cpu", "cuda-sim"]
A, B = ng.make_axis(6, "A"), ng.make_axis(8, "B")


@pytest.fixture(params=TARGETS)
def transformer(request: Any) -> Any:
    with ng.transformers.make_transformer(request.param) as made:
        yield made


def stored(transformer: Any) -> ng.Tensor:
    """A variable that holds 0, 1, 2 ... and lies where programs of the transformer use it."""
    w = ng.variable([A, B], initial_value=np.arange(48).reshape(6, 8), name="w")
    transformer.computation(ng.sum(w))()
    return w


def test_a_tensor_says_where_it_lies(transformer: Any) -> None:
    w = stored(transformer)
    whole = transformer.get_op_tensor_view(w)
    assert isinstance(whole, DeviceTensor)
    assert (whole.offset, whole.shape, whole.strides, whole.dtype) == (0, (6, 8), (32, 4), np.float32)
    part = transformer.get_op_tensor_view(w[2:5, 3])
    assert (part.offset, part.shape, part.strides) == ((2 * 8 + 3) * 4, (3,), (32,))
    turned = transformer.get_op_tensor_view(ng.Transpose(w))
    assert (turned.offset, turned.strides, turned.c_contiguous) == (0, (4, 32), False)
    back = transformer.get_op_tensor_view(w[::-1])
    assert (back.offset, back.strides) == (5 * 32, (-32, 4))
    repeated = transformer.get_op_tensor_view(ng.broadcast(w[0], [A, B]))
    assert repeated.strides == (0, 4)


def test_tensors_belong_to_one_buffer(transformer: Any) -> None:
    w = stored(transformer)
    views = [transformer.get_op_tensor_view(v) for v in (w, w[0], w[1:3])]
    buffer = transformer.device_buffers[w]
    assert isinstance(buffer, DeviceBufferStorage)
    assert all(view.device_buffer is buffer and view in buffer.tensors for view in views)
    assert (buffer.bytes, buffer.shape, buffer.dtype, buffer.is_allocated) == (192, (6, 8), np.float32, True)
    del views
    gc.collect()
    assert not buffer.tensors


def test_a_buffer_is_allocated_when_it_is_needed(transformer: Any) -> None:
    w = ng.variable([A, B], initial_value=1)
    transformer.computation(w)
    buffer = transformer.storage_of(w)
    assert not buffer.is_allocated
    assert buffer.bytes == 0
    transformer.allocate_storage()
    assert buffer.is_allocated


@pytest.mark.parametrize(
    "item",
    [
        0,
        -1,
        (2, 3),
        slice(1, 5, 2),
        (slice(None), 3),
        (slice(None, None, -2), slice(5, 1, -1)),
        (Ellipsis, 0),
        ([0, 3], [1, 1]),
        np.arange(48).reshape(6, 8) % 3 == 0,
        slice(3, 3),
    ],
    ids=str,
)  # fmt: skip
def test_parts_are_read_and_written_as_numpy_does(transformer: Any, item: Any) -> None:
    w = stored(transformer)
    for view, like in ((w, np.s_[:]), (w[::-1, 2:], np.s_[::-1, 2:]), (ng.Transpose(w), None)):
        tensor = transformer.get_op_tensor_view(view)
        want = np.array(transformer.get_tensor_view_value(w))
        shown = want.T if like is None else want[like]
        try:
            expected = shown[item]
        except IndexError:
            with pytest.raises((IndexError, ng.UserError)):
                _ = tensor[item]
            continue
        found = tensor[item]
        assert np.array_equal(found, expected)
        assert np.shape(found) == np.shape(expected)
        tensor[item] = expected * 2 + 1
        shown[item] = expected * 2 + 1
        assert np.array_equal(transformer.get_tensor_view_value(w), want)


def counted(monkeypatch: Any) -> list[int]:
    """The bytes of every copy from and to a simulated GPU from now on."""
    sizes: list[int] = []
    plain_in, plain_out = CudaSimDevice.copy_all_in, CudaSimDevice.copy_all_out

    def copy_all_in(self: Any, wanted: Any) -> None:
        sizes.extend(array.nbytes for _, array in wanted)
        plain_in(self, wanted)

    def copy_all_out(self: Any, wanted: Any) -> None:
        sizes.extend(array.nbytes for _, array in wanted)
        plain_out(self, wanted)

    monkeypatch.setattr(CudaSimDevice, "copy_all_in", copy_all_in)
    monkeypatch.setattr(CudaSimDevice, "copy_all_out", copy_all_out)
    return sizes


def test_two_of_four_million_elements_are_two(monkeypatch: Any) -> None:
    rows, columns = ng.make_axis(2000, "R"), ng.make_axis(2000, "K")
    transformer = ng.transformers.make_transformer("cuda-sim")
    w = ng.variable([rows, columns], initial_value=1)
    transformer.computation(ng.sum(w[:1, :1]))()
    sizes = counted(monkeypatch)
    column = transformer.get_op_tensor_view(w[5:7, 3])
    assert column.get().tolist() == [1, 1]
    assert sizes == [4, 4]
    column[...] = [2, 3]
    assert sizes == [4] * 4
    row = transformer.get_op_tensor_view(w)
    assert row[5:7, 3].tolist() == [2, 3]
    row[9, 9:11] = 7
    assert row[9, 9:11].tolist() == [7, 7]
    assert sizes == [4] * 6 + [8] * 2
    del sizes[:]
    row[:, 3] = np.arange(2000)  # a piece for each row would take longer than what lies between
    assert len(sizes) < 10
    assert row[:, 3].tolist() == [*range(2000)]


def test_state_on_the_host_is_seen_where_it_lies() -> None:
    transformer = ng.transformers.make_transformer("cpu")
    w = stored(transformer)
    seen = np.from_dlpack(transformer.get_op_tensor_view(w[1:3, ::2]))
    assert seen.tolist() == [[8, 10, 12, 14], [16, 18, 20, 22]]
    transformer.get_op_tensor_view(w)[1, 0] = -1
    assert seen[0, 0] == -1
    copy = np.from_dlpack(transformer.get_op_tensor_view(w), copy=True)
    transformer.get_op_tensor_view(w)[...] = 0
    assert copy[1, 0] == -1


class FromElsewhere:
    """An array of another library, which knows DLPack and nothing else."""

    def __init__(self, array: Any):
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


def test_arrays_of_other_libraries_are_taken(transformer: Any) -> None:
    w = stored(transformer)
    tensor = transformer.get_op_tensor_view(w[0])
    tensor[...] = FromElsewhere(np.arange(8, dtype=np.float32) * 3)
    assert np.array_equal(tensor.get(), np.arange(8) * 3)
    x = ng.placeholder([B])
    assert transformer.computation(x + 1, x)(FromElsewhere(np.zeros(8, np.float32))).tolist() == [1] * 8
    assert transformer.computation(x + 1, x)(tensor).tolist() == (np.arange(8) * 3 + 1).tolist()


def test_dlpack_of_each_transformer(transformer: Any) -> None:
    w = stored(transformer)
    tensor = transformer.get_op_tensor_view(w[2])
    assert tensor.__dlpack_device__() == (1, 0)
    assert np.array_equal(np.from_dlpack(tensor), np.arange(16, 24))
    with pytest.raises(BufferError, match="cannot be moved to"):
        tensor.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("dtype", ["i1", "i8", "i32", "i64", "ui8", "ui64", "f16", "f32", "f64"])
def test_capsules(dtype: str) -> None:
    from ngmlir.runtime.buffers import DTYPES

    array = np.arange(24).reshape(4, 6).astype(DTYPES[dtype])
    view = array[1:, ::2]
    steps = [s // array.itemsize for s in view.strides]

    class Holder:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (dlpack.CPU, 0)

        def __dlpack__(self, **options: Any) -> object:
            return dlpack.capsule(view.ctypes.data, view.shape, steps, dtype, (dlpack.CPU, 0), array)

    held = len(dlpack._held)
    seen = np.from_dlpack(Holder())
    assert seen.dtype == array.dtype
    assert np.array_equal(seen, view)
    assert np.shares_memory(seen, array)
    unused = Holder().__dlpack__()
    assert len(dlpack._held) == held + 2
    del unused, seen
    gc.collect()
    assert len(dlpack._held) == held


def test_values_go_to_and_from_the_device(transformer: Any) -> None:
    w, x = ng.variable([B], initial_value=0), ng.placeholder([B], initial_value=0)
    computation = transformer.computation(w + x)
    transformer.host_to_device(computation, [w, x], [np.arange(8), 1])
    assert computation().tolist() == [*range(1, 9)]
    assert transformer.device_to_host(computation, w).tolist() == [*range(8)]
    into = np.empty(8, np.float64)
    assert transformer.device_to_host(computation, w, into) is into
    assert into.tolist() == [*range(8)]
    with pytest.raises(ng.UserError, match="1 parameter, but 2 values"):
        transformer.host_to_device(computation, [w], [1, 2])
    with pytest.raises(ng.NotAssignable, match="is computed"):
        transformer.device_to_host(computation, w + x)


def test_what_is_no_view_is_read_and_not_written(transformer: Any) -> None:
    w = stored(transformer)
    mixed = ng.flatten(ng.Transpose(w))
    tensor = transformer.get_op_tensor_view(mixed)
    assert np.array_equal(tensor.get(), np.arange(48).reshape(6, 8).T.reshape(-1))
    with pytest.raises(ng.NotAssignable, match="not a strided view"):
        tensor[...] = 0
    with pytest.raises(ng.NotAssignable):
        _ = tensor.strides
    with pytest.raises(ng.UserError, match="cannot be put at"):
        transformer.get_op_tensor_view(w)[0] = np.zeros(3)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_hold_what_a_view_holds(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    base = np.zeros(tuple(numbers.integers(1, 6, 3)), np.int32)
    picks = [slice(None, None, int(numbers.choice([-3, -2, -1, 1, 2]))) for _ in range(3)]
    view = base[tuple(picks)].transpose(numbers.permutation(3))
    view[...] = 1
    part = Part(view, base)
    octets = np.zeros(base.nbytes, np.uint8)
    for begin, end in part.pieces():
        octets[begin:end] = 1
    touched = octets.view(np.uint32).reshape(base.shape) != 0
    assert np.array_equal(touched, base != 0) if part.exact else np.all(touched >= base)
