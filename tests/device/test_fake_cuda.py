# SPDX-License-Identifier: Apache-2.0
"""The fake driver itself: it finds what programs may not do, each here by the bindings alone."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_cuda import Machine

PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry fill(.param .u64 .ptr .global .align 4 p, .param .u32 v)
.reqntid 32
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.b64 %rd1, [p];
  ld.param.b32 %r1, [v];
  mov.u32 %r2, %tid.x;
  mad.wide.u32 %rd2, %r2, 4, %rd1;
  st.global.b32 [%rd2], %r1;
  ret;
}
"""


class Raw:
    """The driver as the bindings give it, a context, two streams and a kernel that fills 32 words."""

    def __init__(self) -> None:
        self.d: Any = importlib.import_module("cuda.bindings.driver")
        self.ok(self.d.cuInit(0))
        self.context = self.ok(self.d.cuDevicePrimaryCtxRetain(0))
        self.ok(self.d.cuCtxPushCurrent(self.context))
        self.a, self.b = self.ok(self.d.cuStreamCreate(1)), self.ok(self.d.cuStreamCreate(1))
        self.event = self.ok(self.d.cuEventCreate(0))
        self.module = self.ok(self.d.cuModuleLoadDataEx(PTX.encode() + b"\0", 0, [], []))
        self.kernel = self.ok(self.d.cuModuleGetFunction(self.module, b"fill"))
        place = self.d.CUmemLocation()
        place.type, place.id = self.d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
        properties = self.d.CUmemPoolProps()
        properties.allocType, properties.location = (
            self.d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED,
            place,
        )
        self.pool = self.ok(self.d.cuMemPoolCreate(properties))

    def ok(self, answer: tuple[Any, ...]) -> Any:
        assert answer[0] == 0, answer
        return answer[1] if len(answer) > 1 else None

    def memory(self, stream: Any = None) -> int:
        """128 bytes."""
        return int(self.ok(self.d.cuMemAllocFromPoolAsync(128, self.pool, stream or self.a)))

    def fill(
        self, address: int, stream: Any = None, value: int = 7, threads: int = 32, shared: int = 0
    ) -> Any:
        values = np.array([address, value], np.uint64)
        places = values.ctypes.data + 8 * np.arange(2, dtype=np.uint64)
        answer = self.d.cuLaunchKernel(
            self.kernel, 1, 1, 1, threads, 1, 1, shared, stream or self.a, places.ctypes.data, 0
        )
        return answer[0].name

    def pinned(self) -> np.ndarray:
        import ctypes

        address = int(self.ok(self.d.cuMemHostAlloc(128, 0)))
        return np.frombuffer((ctypes.c_uint8 * 128).from_address(address), np.uint32)

    def captured(self, address: int) -> Any:
        mode = self.d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.ok(self.d.cuStreamBeginCapture(self.b, mode))
        self.fill(address, self.b)
        return self.ok(self.d.cuGraphInstantiate(self.ok(self.d.cuStreamEndCapture(self.b)), 0))


def test_what_is_right_is_done(machine: Machine) -> None:
    raw = Raw()
    memory, out = raw.memory(), raw.pinned()
    assert raw.fill(memory) == "CUDA_SUCCESS"
    raw.ok(raw.d.cuEventRecord(raw.event, raw.a))
    raw.ok(raw.d.cuStreamWaitEvent(raw.b, raw.event, 0))
    raw.ok(raw.d.cuMemcpyDtoHAsync(out.ctypes.data, memory, 128, raw.b))
    raw.ok(raw.d.cuMemFreeAsync(memory, raw.b))
    assert machine.launched == [] and (out == 0xA5A5A5A5).all()  # nobody has waited
    raw.ok(raw.d.cuStreamSynchronize(raw.b))
    assert machine.launched == ["fill"] and (out == 7).all()


def test_graphs_do_again_what_was_captured(machine: Machine) -> None:
    raw = Raw()
    memory, out = raw.memory(), np.zeros(32, np.uint32)
    graph = raw.captured(memory)
    assert machine.launched == []
    for _ in range(3):
        raw.ok(raw.d.cuGraphLaunch(graph, raw.a))
    raw.ok(raw.d.cuMemcpyDtoHAsync(out.ctypes.data, memory, 128, raw.a))
    assert machine.launched == ["fill"] * 3 and (out == 7).all()


def test_what_is_pinned_is_read_late(machine: Machine) -> None:
    raw = Raw()
    memory, out = raw.memory(), np.zeros(32, np.uint32)
    late, early = raw.pinned(), np.ones(32, np.uint32)
    late[:] = 1
    for source in (late, early):
        raw.ok(raw.d.cuMemcpyHtoDAsync(memory, source.ctypes.data, 128, raw.a))
        source[:] = 2
        raw.ok(raw.d.cuMemcpyDtoHAsync(out.ctypes.data, memory, 128, raw.a))
        assert (out == (2 if source is late else 1)).all()
    (noted,) = machine.violations
    assert re.search("the host changed pinned memory at .* which cuMemcpyHtoDAsync still reads", noted)
    machine.violations.clear()


def no_context(raw: Raw) -> None:
    raw.d.cuCtxPopCurrent()
    raw.d.cuMemAlloc(4)


def other_device(raw: Raw) -> None:
    raw.d.cuCtxPushCurrent(raw.ok(raw.d.cuDevicePrimaryCtxRetain(1)))
    raw.d.cuStreamSynchronize(raw.a)


def freed_twice(raw: Raw) -> None:
    memory = raw.memory()
    raw.d.cuMemFreeAsync(memory, raw.a)
    raw.d.cuMemFreeAsync(memory, raw.a)


def used_after_free(raw: Raw) -> None:
    memory = raw.memory()
    raw.d.cuMemFreeAsync(memory, raw.a)
    raw.fill(memory)


def freed_before_its_use_is_done(raw: Raw) -> None:
    memory = int(raw.ok(raw.d.cuMemAlloc(128)))
    raw.fill(memory, raw.b)
    raw.d.cuMemFreeAsync(memory, raw.a)


def used_before_it_is_allocated(raw: Raw) -> None:
    raw.fill(raw.memory(raw.a), raw.b)


def read_while_written(raw: Raw) -> None:
    memory, out = int(raw.ok(raw.d.cuMemAlloc(128))), raw.pinned()
    array = np.ones(32, np.uint32)
    raw.d.cuMemcpyHtoDAsync(memory, array.ctypes.data, 128, raw.a)
    raw.d.cuMemcpyDtoHAsync(out.ctypes.data, memory, 128, raw.b)


def host_memory_given_to_two_copies(raw: Raw) -> None:
    memory, piece = raw.memory(), raw.pinned()
    raw.ok(raw.d.cuMemcpyDtoHAsync(piece.ctypes.data, memory, 128, raw.a))
    raw.d.cuMemcpyHtoDAsync(memory, piece[8:].ctypes.data, 32, raw.a)


def host_memory_of_a_graph_that_runs(raw: Raw) -> None:
    memory, piece = raw.memory(), raw.pinned()
    mode = raw.d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    raw.ok(raw.d.cuStreamBeginCapture(raw.b, mode))
    raw.ok(raw.d.cuMemcpyDtoHAsync(piece.ctypes.data, memory, 128, raw.b))
    graph = raw.ok(raw.d.cuGraphInstantiate(raw.ok(raw.d.cuStreamEndCapture(raw.b)), 0))
    raw.ok(raw.d.cuMemcpyHtoDAsync(memory, piece.ctypes.data, 128, raw.a))
    raw.ok(raw.d.cuStreamSynchronize(raw.a))
    raw.ok(raw.d.cuGraphLaunch(graph, raw.a))
    raw.d.cuMemcpyHtoDAsync(memory, piece.ctypes.data, 128, raw.a)


def host_memory_written_under_a_copy(raw: Raw) -> None:
    memory, piece = raw.memory(), raw.pinned()
    raw.ok(raw.d.cuMemcpyDtoHAsync(piece.ctypes.data, memory, 128, raw.a))
    piece[3] = 1
    raw.d.cuStreamSynchronize(raw.a)


def host_memory_freed_under_a_copy(raw: Raw) -> None:
    memory, piece = raw.memory(), raw.pinned()
    raw.ok(raw.d.cuMemcpyDtoHAsync(piece.ctypes.data, memory, 128, raw.a))
    raw.d.cuMemFreeHost(piece.ctypes.data)


def freed_under_a_graph(raw: Raw) -> None:
    memory = raw.memory()
    raw.ok(raw.d.cuStreamSynchronize(raw.a))
    raw.ok(raw.d.cuGraphLaunch(raw.captured(memory), raw.b))
    raw.d.cuMemFreeAsync(memory, raw.a)


def unloaded_under_a_kernel(raw: Raw) -> None:
    raw.fill(raw.memory())
    raw.d.cuModuleUnload(raw.module)


def unloaded_before_a_launch(raw: Raw) -> None:
    memory = raw.memory()
    raw.ok(raw.d.cuStreamSynchronize(raw.a))
    graph = raw.captured(memory)
    raw.ok(raw.d.cuModuleUnload(raw.module))
    raw.d.cuGraphLaunch(graph, raw.a)


def copied_too_far(raw: Raw) -> None:
    array = np.ones(33, np.uint32)
    raw.d.cuMemcpyHtoDAsync(raw.memory(), array.ctypes.data, 132, raw.a)


def an_address_of_the_host(raw: Raw) -> None:
    raw.d.cuMemcpyHtoDAsync(np.ones(9).ctypes.data, np.ones(9).ctypes.data, 8, raw.a)


def too_few_threads(raw: Raw) -> None:
    raw.fill(raw.memory(), threads=16)


def shared_memory_that_was_not_asked_for(raw: Raw) -> None:
    raw.fill(raw.memory(), shared=100_000)


def graph_after_free(raw: Raw) -> None:
    memory = raw.memory()
    raw.d.cuStreamSynchronize(raw.a)
    graph = raw.captured(memory)
    raw.d.cuMemFreeAsync(memory, raw.a)
    raw.d.cuGraphLaunch(graph, raw.a)


def graph_that_is_gone(raw: Raw) -> None:
    graph = raw.captured(raw.memory())
    raw.d.cuGraphExecDestroy(graph)
    raw.d.cuGraphLaunch(graph, raw.a)


def waiting_while_captured(raw: Raw) -> None:
    raw.d.cuStreamBeginCapture(raw.a, raw.d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    raw.d.cuStreamSynchronize(raw.a)


def allocating_while_captured(raw: Raw) -> None:
    raw.d.cuStreamBeginCapture(raw.a, raw.d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    raw.d.cuMemAlloc(4)


def an_event_that_is_gone(raw: Raw) -> None:
    raw.d.cuEventDestroy(raw.event)
    raw.d.cuEventRecord(raw.event, raw.a)


def time_that_is_not_known(raw: Raw) -> None:
    raw.d.cuEventRecord(raw.event, raw.a)
    raw.d.cuEventElapsedTime(raw.event, raw.event)


WRONG: list[tuple[Callable[[Raw], None], str]] = [
    (no_context, "no context is current"),
    (other_device, "stream of device 0 is used in a context of device 1"),
    (freed_twice, "is freed, but is free"),
    (used_after_free, "fill: .* is memory that was freed by cuMemFreeAsync"),
    (freed_before_its_use_is_done, "nothing orders cuMemFreeAsync after fill"),
    (used_before_it_is_allocated, "fill uses memory before the stream that allocates it has done so"),
    (read_while_written, "nothing orders cuMemcpyDtoHAsync after cuMemcpyHtoDAsync"),
    (host_memory_given_to_two_copies, "nobody has waited for cuMemcpyDtoHAsync, which uses it too"),
    (host_memory_of_a_graph_that_runs, "nobody has waited for cuMemcpyDtoHAsync, which uses it too"),
    (host_memory_written_under_a_copy, "which cuMemcpyDtoHAsync still overwrites"),
    (host_memory_freed_under_a_copy, "nobody has waited for cuMemcpyDtoHAsync, which uses pinned memory"),
    (freed_under_a_graph, "nothing orders cuMemFreeAsync after fill"),
    (unloaded_under_a_kernel, "nobody has waited for its kernel fill"),
    (unloaded_before_a_launch, "fill is a kernel of a module that was unloaded"),
    (copied_too_far, "132 bytes at .* are more than is left of 128"),
    (an_address_of_the_host, "is no memory of a device"),
    (too_few_threads, "launched with 16 threads"),
    (shared_memory_that_was_not_asked_for, "was not allowed 100000 bytes"),
    (graph_after_free, "fill: .* is memory that was freed"),
    (graph_that_is_gone, "cuGraphLaunch: .* is no _executable, or one that was destroyed"),
    (waiting_while_captured, "a stream that is captured is waited for"),
    (allocating_while_captured, "cuMemAlloc while a stream is captured"),
    (an_event_that_is_gone, "is no event, or one that was destroyed"),
    (time_that_is_not_known, "time between events that have not come"),
]


@pytest.mark.parametrize(("do", "wanted"), WRONG, ids=[do.__name__ for do, _ in WRONG])
def test_what_is_wrong_is_noted(machine: Machine, do: Callable[[Raw], None], wanted: str) -> None:
    do(Raw())
    assert len(machine.violations) == 1 and re.search(wanted, machine.violations.pop())


def test_a_kernel_that_fails_ends_the_context(machine: Machine) -> None:
    raw = Raw()
    memory = int(raw.ok(raw.d.cuMemAlloc(64)))  # half of what the kernel fills
    assert raw.fill(memory) == "CUDA_SUCCESS"
    (answer,) = raw.d.cuStreamSynchronize(raw.a)
    assert answer.name == "CUDA_ERROR_ILLEGAL_ADDRESS" and "out of bounds" in machine.faults[0]
    assert raw.d.cuMemAlloc(4)[0] == answer
    raw.ok(raw.d.cuDevicePrimaryCtxReset(0))
    raw.ok(raw.d.cuCtxPushCurrent(raw.ok(raw.d.cuDevicePrimaryCtxRetain(0))))
    raw.ok(raw.d.cuMemAlloc(4))


def test_memory_ends(machine: Machine) -> None:
    raw = Raw()
    assert raw.d.cuMemAlloc((1 << 30) + 1)[0].name == "CUDA_ERROR_OUT_OF_MEMORY"
