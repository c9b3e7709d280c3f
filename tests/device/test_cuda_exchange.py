# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries on a GPU, their streams, results that stay there or come later, and several GPUs."""

from __future__ import annotations

import ctypes
import gc
import importlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import Machine

import ngmlir as ng
from ngmlir.runtime import dlpack
from ngmlir.runtime.cuda import DeviceLost
from ngmlir.runtime.gpu import DeviceArray
from ngmlir.support.diagnostics import UserError

N, C = ng.make_axis(6, name="N"), ng.make_axis(8, name="C")
HOST = np.arange(48, dtype=np.float32).reshape(6, 8)


class Library:
    """Another library on the same GPU, with a stream of its own."""

    def __init__(self, ordinal: int = 0):
        self.d: Any = importlib.import_module("cuda.bindings.driver")
        self.ordinal = ordinal
        self.ok(self.d.cuInit(0))
        self.context = self.ok(self.d.cuDevicePrimaryCtxRetain(ordinal))
        self.ok(self.d.cuCtxPushCurrent(self.context))
        self.stream = self.ok(self.d.cuStreamCreate(1))
        self._pinned: list[Any] = []

    def ok(self, answer: tuple[Any, ...]) -> Any:
        assert answer[0] == 0, answer
        return answer[1] if len(answer) > 1 else None

    def wait(self, waits: Any, on: Any) -> None:
        """One stream waits for another."""
        event = self.ok(self.d.cuEventCreate(0))
        self.ok(self.d.cuEventRecord(event, on))
        self.ok(self.d.cuStreamWaitEvent(waits, event, 0))

    def array(self, values: np.ndarray, offset: int = 0, **how: Any) -> Theirs:
        """On the GPU some time: the copy is not waited for."""
        base = int(self.ok(self.d.cuMemAlloc(values.nbytes + offset)))
        self.write(base + offset, values)
        return Theirs(self, base + offset, values, **how)

    def write(self, address: int, values: np.ndarray) -> None:
        held = (ctypes.c_uint8 * values.nbytes).from_buffer_copy(np.ascontiguousarray(values).tobytes())
        self._pinned.append(held)
        self.ok(self.d.cuMemcpyHtoDAsync(address, ctypes.addressof(held), values.nbytes, self.stream))

    def read(self, address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """What work in the stream of this library sees."""
        array = np.empty(shape, dtype)
        self.ok(self.d.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, self.stream))
        return array


class Theirs:
    """An array of another library: of DLPack, or of `__cuda_array_interface__`."""

    def __init__(
        self, library: Library, address: int, like: np.ndarray, by: str = "dlpack", read_only: bool = False
    ):
        self.library, self.address, self.like, self.by, self.read_only = library, address, like, by, read_only
        self.shape, self.dtype = like.shape, like.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.library.ordinal) if self.by == "dlpack" else (1, 0)

    def __dlpack__(self, *, stream: int | None = None) -> object:
        self.library.wait(stream, self.library.stream)
        steps = [s // self.like.itemsize for s in self.like.strides]
        names = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "int64": "i64"}
        place = (2, self.library.ordinal)
        return dlpack.capsule(self.address, self.shape, steps, names[self.dtype.name], place, self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.by == "dlpack":
            raise AttributeError
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.read_only),
            "strides": None if self.like.flags.c_contiguous else self.like.strides,
            "version": 3,
            "stream": int(self.library.stream),
        }


def doubled(target: str = "cuda") -> Any:
    x = ng.placeholder([N, C])
    return ng.compile(x + x, [x], target=target)


@pytest.mark.parametrize("by", ["dlpack", "interface"])
def test_arrays_of_others_are_used_where_they_lie(machine: Machine, by: str) -> None:
    library, double = Library(), doubled()
    double(HOST)
    x = library.array(HOST, by=by)
    before = machine.counts.copy()
    for n in (1, 2, 3, 4):
        assert np.array_equal(double(x), 2 * n * HOST)
        library.write(x.address, (n + 1) * HOST)
    copies = (machine.counts - before)["cuMemcpyHtoDAsync"], (machine.counts - before)["cuMemcpyDtoDAsync"]
    assert copies == (4, 0)  # their own


@pytest.mark.parametrize("by", ["dlpack", "interface"])
def test_what_is_not_aligned_is_copied_on_the_device(machine: Machine, by: str) -> None:
    library, double = Library(), doubled()
    x = library.array(HOST, offset=4, by=by)
    for _ in range(3):
        assert np.array_equal(double(x), 2 * HOST)
    assert machine.counts["cuMemcpyDtoDAsync"] == 3


def test_bfloat16_comes_by_dlpack(machine: Machine) -> None:
    x = Library().array(HOST.astype(ml_dtypes.bfloat16))
    p = ng.placeholder([N, C], dtype="bf16")
    assert np.array_equal(ng.compile(p + p, [p], target="cuda")(x), 2 * HOST)
    y = ng.compile(ng.cast(p, "bf16"), [p], target="cuda").on_device(x)
    assert y.dtype == ml_dtypes.bfloat16 and np.array_equal(y.numpy(), HOST.astype(y.dtype))
    assert not hasattr(y, "__cuda_array_interface__")
    assert dlpack.opened(y.__dlpack__()).dtype == "bf16"


def test_what_does_not_fit_is_refused(machine: Machine) -> None:
    library, double = Library(), doubled()
    for values, what in (
        (HOST.astype(np.float64), r"it is float64 of shape \(6, 8\), on the device"),
        (HOST[:, :3], r"it is float32 of shape \(6, 3\)"),
        (HOST.reshape(8, 6).T, "it is not contiguous"),
    ):
        for by in ("dlpack", "interface"):
            with pytest.raises(UserError, match=what):
                double(library.array(values, by=by))
    with pytest.raises(UserError, match="lies on GPU 1, and the program runs on GPU 0"):
        double(Library(1).array(HOST))
    with pytest.raises(UserError, match="lies on GPU 1, and the program runs on GPU 0"):
        double(Library(1).array(HOST, by="interface"))


def test_results_stay_on_the_device(machine: Machine) -> None:
    double = doubled()
    y = double.on_device(HOST)
    z = double.on_device(double.on_device(y))
    assert machine.launched == [] and isinstance(z, DeviceArray)
    assert (z.shape, z.dtype, z.ndim, z.nbytes, len(z)) == ((6, 8), np.float32, 2, 192, 6)
    assert machine.counts["cuMemcpyHtoDAsync"] == 1
    assert np.array_equal(np.asarray(z), 8 * HOST) and np.array_equal(y, 2 * HOST)
    assert "cuda:0" in repr(z)


@pytest.mark.parametrize("by", ["dlpack", "interface"])
def test_others_take_results_in_their_stream(machine: Machine, by: str) -> None:
    library, double = Library(), doubled()
    y = double.on_device(HOST)
    if by == "dlpack":
        capsule = y.__dlpack__(stream=int(library.stream))
        tensor = dlpack.opened(capsule)
        assert (tensor.shape, tensor.strides, tensor.dtype) == ((6, 8), (8, 1), "f32")
        address = tensor.address
    else:
        interface = y.__cuda_array_interface__
        capsule = y
        library.wait(library.stream, interface["stream"])
        address = interface["data"][0]
    del y
    gc.collect()
    double(HOST)
    assert np.array_equal(library.read(address, (6, 8), np.float32), 2 * HOST)
    del capsule


@pytest.mark.parametrize("by", ["dlpack", "interface"])
def test_what_others_still_use_is_not_freed(machine: Machine, by: str) -> None:
    library, double = Library(), doubled()
    y = double.on_device(HOST)
    given = y.__dlpack__(stream=int(library.stream)) if by == "dlpack" else y.__cuda_array_interface__
    address = dlpack.opened(given).address if by == "dlpack" else given["data"][0]
    if by == "interface":
        library.wait(library.stream, given["stream"])
    pinned = int(library.ok(library.d.cuMemHostAlloc(192, 0)))
    library.ok(library.d.cuMemcpyDtoHAsync(pinned, address, 192, library.stream))  # not waited for
    del y, given
    gc.collect()
    double.on_device(HOST).numpy()
    found = np.frombuffer((ctypes.c_float * 48).from_address(pinned), np.float32)
    assert np.array_equal(found, 2 * HOST.reshape(-1))


def test_variables_are_seen_by_others(machine: Machine) -> None:
    library = Library()
    with ng.transformers.make_transformer("cuda") as transformer:
        w = ng.variable([N, C], initial_value=HOST)
        step = transformer.computation(ng.assign(w, w + 1))
        step()
        tensor = transformer.get_op_tensor_view(w[2:4, 1])
        interface = tensor.__cuda_array_interface__
        assert (interface["shape"], interface["strides"]) == ((2,), (32,))
        capsule = transformer.get_op_tensor_view(w).__dlpack__(stream=int(library.stream))
        address = dlpack.opened(capsule).address
        assert interface["data"][0] - address == (2 * 8 + 1) * 4
        assert np.array_equal(library.read(address, (6, 8), np.float32), HOST + 1)


class Stream:
    def __init__(self, handle: Any):
        self.cuda_stream = int(handle)


def test_work_goes_between_that_of_the_callers_stream(machine: Machine) -> None:
    library, double = Library(), doubled()
    double(HOST)
    x = library.array(HOST)
    library.write(x.address, 5 * HOST)
    for stream in (int(library.stream), library.stream, Stream(library.stream)):
        y = double.on_device(x, stream=stream)
        found = library.read(y.buffer.address, (6, 8), np.float32)
        assert np.array_equal(found, 10 * HOST)
    with pytest.raises(UserError, match="is not a CUDA stream"):
        double.on_device(x, stream="mine")


def test_what_others_let_go_of_lives_until_the_work_is_done(machine: Machine) -> None:
    library, double = Library(), doubled()
    x = library.array(HOST)
    gone: list[int] = []
    x.on_its_way = type("Last", (), {"__del__": lambda self: gone.append(1)})()  # type: ignore[attr-defined]
    y = double.on_device(x)
    del x
    gc.collect()
    assert gone == []
    y.numpy()
    double.on_device(library.array(HOST)).numpy()
    gc.collect()
    assert gone == [1]


def test_results_come_later(machine: Machine) -> None:
    double = doubled()
    array, waited = HOST.copy(), machine.counts["cuStreamSynchronize"]
    first = double.call_async(array)
    array[:] = 0
    second = double.call_async(array + 1)
    assert machine.launched == [] and not first.done()
    assert np.array_equal(first.result(), 2 * HOST) and first.done()
    assert np.array_equal(second.result(), np.full((6, 8), 2)) and second.result() is second.result()
    third = double.call_async(HOST)
    asked = [third.done() for _ in range(9)]
    assert not asked[0] and asked[-1]  # it comes while one asks
    assert machine.counts["cuStreamSynchronize"] == waited


def test_memory_of_a_result_that_nobody_wants_is_free_only_after_its_copy(machine: Machine) -> None:
    n, k = ng.make_axis(250, name="N"), ng.make_axis(3, name="K")
    x, w = ng.placeholder([n]), ng.constant(np.array([1, 2, 3], np.float32), [k])
    layer = ng.compile(ng.axes_with_order(x * w, [n, k]), [x], target="cuda")
    layer.call_async(np.full(250, 7, np.float32))  # 3000 bytes on their way, for nobody
    gc.collect()
    values = np.arange(250, dtype=np.float32)
    assert np.array_equal(layer(values), np.outer(values, [1, 2, 3]))  # which go through 1000 + 3000 bytes
    held = len(machine.pinned)
    for _ in range(9):
        layer.call_async(values).result()
    assert len(machine.pinned) == held  # what is free again is taken again


@pytest.mark.parametrize("target", ["cpu", "numpy", "cuda-sim", "cuda"])
def test_every_target_can_be_asked_so(machine: Machine, target: str) -> None:
    x, w = ng.placeholder([N, C]), ng.variable([C], initial_value=1)
    step = ng.compile({"y": x * w, "w": ng.assign(w, w + 1)}, [x], target=target)
    later = [step.call_async(HOST) for _ in range(3)]
    assert [float(each.result()["y"][0, 1]) for each in later] == [1, 2, 3]
    y = step.on_device(HOST)["y"]
    assert np.array_equal(np.asarray(y), 4 * HOST) and np.array_equal(step(y)["y"], 20 * HOST)
    if target != "cuda":
        with pytest.raises(UserError, match="stream"):
            step.call_async(HOST, stream=1)


def test_a_kernel_that_fails_is_told_with_the_result(machine: Machine) -> None:
    from test_cuda_steps import far

    run, x = far(), np.arange(8, dtype=np.float32)
    good, bad = run.start([0, x]), run.start([1 << 40, x])
    assert good.result()[0].tolist() == x.tolist()
    with pytest.raises(DeviceLost, match="in the kernel far"):
        bad.result()
    with pytest.raises(DeviceLost):
        bad.done()


def test_programs_run_on_the_gpu_of_their_number(machine: Machine) -> None:
    first, second = doubled("cuda"), doubled("cuda:1")
    y = first.on_device(HOST)
    z = second.on_device(y)  # by way of the host
    assert (y.__dlpack_device__(), z.__dlpack_device__()) == ((2, 0), (2, 1))
    assert np.array_equal(z.numpy(), 4 * HOST)
    for _ in range(3):
        assert np.array_equal(first(second(HOST)), 4 * HOST)
    with ng.transformers.make_transformer("cuda:1") as transformer:
        assert transformer.target == "cuda:1"
        assert float(transformer.computation(ng.sum(ng.constant(HOST, [N, C]), out_axes=()))()) == HOST.sum()
    assert doubled("cuda:0").on_device(HOST).buffer.device is y.buffer.device
    with pytest.raises(UserError, match="no GPU number 2, this machine has 2"):
        doubled("cuda:2")
    for wrong in ("cuda:", "cuda:one", "cuda1"):
        with pytest.raises(UserError, match="there is no transformer"):
            doubled(wrong)


def test_an_error_on_one_gpu_leaves_the_other(machine: Machine) -> None:
    from test_cuda_steps import far

    double = doubled("cuda:1")
    with pytest.raises(DeviceLost):
        far()(1 << 40, np.ones(8, np.float32))
    assert np.array_equal(double(HOST), 2 * HOST)
