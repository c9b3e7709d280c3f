# SPDX-License-Identifier: Apache-2.0
"""Loading and calling object code: every element type, odd shapes, state in place, threads, errors."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest

from ngmlir.llvm.machine import assemble, assembly, cpu_target, host_target
from ngmlir.llvm.text import Argument, Function, Module
from ngmlir.llvm.types import OF_DTYPE, Value, bits_of, constant, f32, f64, i64, is_float, ptr
from ngmlir.runtime import entry
from ngmlir.runtime.buffers import DTYPES, aligned_copy, aligned_empty
from ngmlir.runtime.cpu import Call, CpuExecutable, load
from ngmlir.runtime.layout import layout
from ngmlir.support.artifact import Artifact, Constant, Entry
from ngmlir.support.diagnostics import Bug, Location, UserError
from ngmlir.support.memory import HUGE_PAGE, empty_bytes
from ngmlir.support.signature import ITEM_BYTES, Parameter, Signature

Body = Callable[[Function, list[Value], Value, Value], None]


def artifact(
    body: Body,
    arguments: Sequence[Parameter],
    results: Sequence[Parameter],
    *,
    tied: tuple[tuple[int, int], ...] = (),
    arena_bytes: int = 0,
    constants: bytes = b"",
) -> Artifact:
    """A program of one function: `body` gets the pointers to all buffers, the arena and the one constant."""
    names = ("buffers", "arena", "constants")
    b = Module().function("main.entry", "void", [Argument(ptr, name) for name in names])
    table, arena, fixed = b.arguments
    count = len(arguments) + len(results)
    pointers = [b.load(ptr, b.getelementptr(ptr, table, i), align=8) for i in range(count)]
    body(b, pointers, arena, b.load(ptr, fixed, align=8) if constants else fixed)
    b.ret()
    signature = Signature("main", tuple(arguments), tuple(results), tied, arena_bytes)
    code = assemble(b.module.text(), host_target())
    table_of_constants = (Constant(constants),) if constants else ()
    return Artifact("object", code, (Entry(signature),), host_target().key, table_of_constants)


def each(b: Function, n: int, type: str, source: Value, to: Value, change: Callable[[Value], Value]) -> None:
    size = bits_of(type) // 8
    with b.loop(0, n) as loop:
        item = b.load(type, b.getelementptr(type, source, loop.index), align=size)
        b.store(change(item), b.getelementptr(type, to, loop.index), align=size)


def scaled(n: int = 5, **options: object) -> Artifact:
    """y = a * x + b"""

    def body(b: Function, pointers: list[Value], arena: Value, constants: Value) -> None:
        a, x, shift, y = pointers
        factor, offset = b.load(f32, a, align=4), b.load(f32, shift, align=4)
        each(b, n, f32, x, y, lambda item: b.fma(item, factor, offset))

    where = Location("model.py", 7, 3)
    arguments = (Parameter("a", "f32", ()), Parameter("x", "f32", (n,), where), Parameter("b", "f32", ()))
    return artifact(body, arguments, (Parameter("y", "f32", (n,)),))


def stepping(n: int = 4) -> Artifact:
    """state += x, in place; the result 'before' is the state as it was; needs its arena for that."""

    def body(b: Function, pointers: list[Value], arena: Value, constants: Value) -> None:
        x, state, before, after = pointers
        each(b, n, f64, state, arena, lambda item: item)
        with b.loop(0, n) as loop:
            places = [b.getelementptr(f64, p, loop.index) for p in (x, state, after)]
            step, old = b.load(f64, places[0], align=8), b.load(f64, places[1], align=8)
            b.store(b.fadd(old, step), places[2], align=8)
        each(b, n, f64, arena, before, lambda item: item)

    kind = ("f64", (n,))
    arguments = (Parameter("x", *kind), Parameter("state", *kind))
    results = (Parameter("before", *kind), Parameter("after", *kind))
    return artifact(body, arguments, results, tied=((1, 1),), arena_bytes=8 * n)


def slow_way(executable: CpuExecutable) -> Call:
    """The way round the builtin, which must do the same."""
    return Call(executable.program, {})


Way = Callable[[CpuExecutable], Callable[..., tuple[np.ndarray, ...]]]


@pytest.fixture(params=["fast", "slow"])
def way(request: pytest.FixtureRequest) -> Way:
    """The builtin, or the Python code behind it."""
    return slow_way if request.param == "slow" else lambda executable: executable


def test_this_python_is_known():
    assert layout() is not None
    executable = load(scaled())
    assert type(executable.__call__).__name__ == "builtin_function_or_method"
    assert callable(executable)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 5), (0,), (4, 0, 2)])
def test_every_type_and_shape(way: Way, dtype: str, shape: tuple[int, ...]):
    narrow = dtype != "i1" and dtype not in OF_DTYPE  # bytes that go through as they are
    kind = OF_DTYPE.get(dtype, "i8") if dtype != "i1" else "i8"
    n = int(np.prod(shape))

    def body(b: Function, pointers: list[Value], arena: Value, constants: Value) -> None:
        def changed(item: Value) -> Value:
            if dtype == "i1" or narrow:
                return b.xor(item, 1) if dtype == "i1" else item
            return b.fneg(item) if is_float(kind) else b.sub(constant(kind, 0), item)

        with b.loop(0, n) as loop:
            x, y = (b.getelementptr(kind, p, loop.index) for p in pointers)
            b.store(changed(b.load(kind, x, align=1)), y, align=1)

    code = artifact(body, (Parameter("x", dtype, shape),), (Parameter("y", dtype, shape),))
    call = way(load(code))
    generator = np.random.default_rng(3)
    x = generator.integers(0, 100, shape).astype(DTYPES[dtype])
    if dtype == "i1":
        x = generator.random(shape) < 0.5
    before = x.copy()
    (y,) = call(x)
    assert y.dtype == DTYPES[dtype] and y.shape == shape and type(y) is np.ndarray
    if narrow:
        np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))
    else:
        floats = is_float(kind)
        expected = ~x if dtype == "i1" else (-x.astype(np.float64)).astype(x.dtype) if floats else 0 - x
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(x, before)
    assert y.flags.owndata and y.flags.writeable


def test_item_sizes_agree():
    assert {name: kind.itemsize for name, kind in DTYPES.items()} == ITEM_BYTES


def test_whatever_numpy_can_assign():
    call = load(scaled())
    x = np.arange(5, dtype=np.float32)
    expected = 2 * x + 0.5
    read_only = x.copy()
    read_only.flags.writeable = False
    bytes_ = np.zeros(21, np.uint8)
    misaligned = bytes_[1:].view(np.float32)
    misaligned[:] = x

    class Own(np.ndarray):
        pass

    for given in (
        x, [0, 1, 2, 3, 4], (0.0, 1, 2, 3, 4), range(5), x.astype(np.float64), x.astype(np.float16),
        x.astype(ml_dtypes.bfloat16), x.astype(">f4"), x.astype(np.int64), np.repeat(x, 2)[::2],
        x[::-1][::-1], read_only, misaligned, x.view(Own), x.data,
    ):  # fmt: skip
        (y,) = call(2, given, np.float64(0.5))
        assert y.tolist() == expected.tolist()
    (y,) = call(np.array(2, np.float32), x, True)
    assert y.tolist() == (2 * x + 1).tolist()


def test_precision_is_lost_as_in_an_assignment():
    (y,) = load(scaled(1))(1.0, [0.1], 1e-300)
    assert y[0] == np.float32(0.1)


def test_numbers_that_do_not_fit_are_refused():
    def body(b: Function, pointers: list[Value], arena: Value, constants: Value) -> None:
        b.memcpy(pointers[1], pointers[0], 2)

    call = load(artifact(body, (Parameter("x", "i8", (2,)),), (Parameter("y", "i8", (2,)),)))
    assert call([-128, 127.0])[0].tolist() == [-128, 127]
    for value in ([300, 1], (1, -129), [2**70, 1]):
        with pytest.raises(UserError, match="argument 'x' must be int8"):
            call(value)
    for value, first in (
        (np.array([3, -129]), r"-129 at \[1\]"),
        (np.array([300, 129], np.uint16), r"300 at \[0\]"),
        (np.array([1, np.nan]), r"nan at \[1\]"),
        (np.array([-np.inf, 1], np.float16), r"-inf at \[0\]"),
        (np.array([1, 128], ml_dtypes.bfloat16), r"128 at \[1\]"),
        ([np.int64(2**40), 1], r"1099511627776 at \[0\]"),
    ):
        with pytest.raises(
            UserError, match=f"'x' must be int8 of shape .* but it holds {first}\nhint: int8 holds"
        ):
            call(value)
    for value in (np.array([127, -128]), np.array([127, -128], np.float32), np.array([1, 0], np.uint64)):
        assert call(value)[0].tolist() == value.astype(int).tolist()
    for value in (np.array([1, 0.5]), np.array([126.5, 1], np.float16), [1, 0.25]):
        with pytest.raises(UserError, match="int8 holds integers: round first"):
            call(value)


def test_masked_arrays_are_refused():
    call = load(scaled(1))
    for value in (np.ma.masked_array([0.1], [True]), np.ma.masked_array([0.1])):
        with pytest.raises(UserError, match=r"its mask would be lost\nhint: use x.filled"):
            call(1.0, value, 1.0)
    assert call(1.0, np.ma.masked_array([0.1], [True]).filled(2), 1.0)[0][0] == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((2, [1, 2], 3), r"argument 'x' must be float32 of shape \(5,\), but it has shape \(2,\)"),
        ((2, np.ones((5, 1), np.float32), 3), r"it has shape \(5, 1\)\nhint: reshape it"),
        (
            (np.ones(5, np.float32), np.ones(5, np.float32), 3),
            r"argument 'a' .* shape \(\), but it has shape",
        ),
        ((2, [1, 2], 3, 4), r"main takes 3 arguments \(a, x, b\), but 4 were given"),
        ((), r"main takes 3 arguments \(a, x, b\), but 0 were given"),
        ((2, ["1", "2", "3", "4", "5"], 3), r"its elements are <U1\nhint: convert it to float32"),
        ((2, [1, 2, 3, 4, 5j], 3), r"its elements are complex128"),
        ((2, [1, 2, 3, 4, None], 3), r"its elements are object"),
        ((2, [[1], [2, 3]], 3), r"this value is not an array"),
        ((2, None, 3), r"it has shape \(\)"),
    ],
)
def test_errors_name_the_argument(given: tuple[object, ...], message: str):
    for call in (load(scaled()), slow_way(load(scaled()))):
        with pytest.raises(UserError, match=message):
            call(*given)


def test_errors_say_where_the_argument_comes_from():
    with pytest.raises(UserError, match=r"^model.py:7:3: error: argument 'x' must be"):
        load(scaled())(1, 2, 3)


def test_an_overwritten_argument_is_copied(way: Way):
    call = way(load(stepping()))
    x, state = np.ones(4), np.arange(4.0)
    before, after = call(x, state)
    assert state.tolist() == before.tolist() == [0, 1, 2, 3]
    assert after.tolist() == [1, 2, 3, 4]
    assert not np.may_share_memory(after, state)
    # One array for both: the copy is made before anything is written.
    before, after = call(state, state)
    assert (before + state).tolist() == after.tolist() == [0, 2, 4, 6]


def test_bound_state_changes_in_place():
    executable = load(stepping())
    state = np.zeros(4)
    step = executable.bind({1: state})
    for count in range(1, 4):
        (before,) = step(np.ones(4))
        assert before.tolist() == [count - 1] * 4
        assert state.tolist() == [count] * 4
    (before,) = step([1, 0, 0, 0])
    assert state.tolist() == [4, 3, 3, 3]
    with pytest.raises(UserError, match=r"main takes 1 argument \(x\), but 2 were given"):
        step(1, 2)


def test_bound_state_may_be_passed_as_well():
    """The argument lies in the state that changes: it is copied first."""
    executable = load(stepping())
    memory = np.arange(8.0)
    for call in (executable.bind({1: memory[:4]}), Call(executable.program, {1: memory[:4]})):
        memory[:] = np.arange(8.0)
        call(memory[2:6])
        assert memory.tolist() == [2, 4, 6, 8, 4, 5, 6, 7]
        call(memory[4:])
        assert memory.tolist() == [6, 9, 12, 15, 4, 5, 6, 7]


def test_everything_bound():
    x, state = np.ones(4), np.zeros(4)
    step = load(stepping()).bind({0: x, 1: state})
    step()
    x[:] = 5
    step()
    assert state.tolist() == [6] * 4


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ({1: [1, 2, 3, 4]}, r"argument 'state' must be float64 of shape \(4,\), but a list cannot be bound"),
        ({1: np.zeros(4, np.float32)}, r"it is float32 of shape \(4,\)"),
        ({1: np.zeros(3)}, r"it is float64 of shape \(3,\)"),
        ({1: np.zeros(8)[::2]}, r"it is not contiguous in memory"),
        ({1: np.broadcast_to(0.0, 4)}, r"not contiguous"),
        ({7: np.zeros(4)}, r"main has 2 arguments, so argument 7 cannot be bound"),
    ],
)
def test_what_cannot_be_bound(bound: dict[int, np.ndarray], message: str):
    with pytest.raises(UserError, match=message):
        load(stepping()).bind(bound)


def test_read_only_memory_is_bound_only_for_reading():
    fixed = np.zeros(4)
    fixed.flags.writeable = False
    with pytest.raises(UserError, match=r"it is read-only, but the program changes it"):
        load(stepping()).bind({1: fixed})
    state = np.ones(4)
    load(stepping()).bind({0: fixed, 1: state})()
    assert state.tolist() == [1] * 4


def test_two_bindings_of_one_memory():
    memory = np.zeros(6)
    with pytest.raises(UserError, match=r"'state' changes, but 'x' is bound to the same memory"):
        load(stepping()).bind({0: memory[:4], 1: memory[2:]})


def test_constants_arrive_aligned():
    values = np.array([3.0, 4.0, 5.0])

    def body(b: Function, pointers: list[Value], arena: Value, constants: Value) -> None:
        each(b, 3, f64, constants, pointers[0], lambda item: item)
        for index, address in enumerate((arena, constants)):
            low = b.and_(b.cast("ptrtoint", address, i64), 63)
            b.store(low, b.getelementptr(i64, pointers[1], index), align=8)

    results = (Parameter("y", "f64", (3,)), Parameter("low", "i64", (2,)))
    code = artifact(body, (), results, constants=values.tobytes(), arena_bytes=100)
    y, low = load(code)()
    assert y.tolist() == values.tolist()
    assert low.tolist() == [0, 0]


def test_functions_without_results():
    assert load(artifact(lambda *_: None, (), ()))() == ()


@pytest.mark.parametrize("release_gil", [False, True])
def test_threads_share_an_executable(release_gil: bool):
    n = 2000
    executable = load(stepping(n), release_gil=release_gil)
    failures: list[str] = []

    def caller(seed: int) -> None:
        x, state = np.full(n, float(seed)), np.arange(n, dtype=np.float64)
        for _ in range(200):
            before, after = executable(x, state)
            if not (np.array_equal(before, state) and np.array_equal(after, state + seed)):
                failures.append(f"thread {seed}")

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert executable.program.arena.busy.value == 0


def test_a_busy_arena_gives_a_fresh_one(way: Way):
    executable = load(stepping())
    executable.program.arena.busy.value = 1
    before, after = way(executable)(np.ones(4), np.zeros(4))
    assert (before.tolist(), after.tolist()) == ([0] * 4, [1] * 4)
    assert executable.program.arena.busy.value == 1


def test_no_memory_for_a_fresh_arena():
    executable = load(stepping())
    executable.program.arena.busy.value = 1
    executable.program.context.arena_bytes = 1 << 60
    for call in (executable, slow_way(executable)):
        with pytest.raises(MemoryError, match="bytes of temporaries"):
            call(np.ones(4), np.zeros(4))


def test_large_calls_release_the_lock():
    assert not load(scaled()).release_gil
    assert load(scaled(100_000)).release_gil
    assert not load(scaled(100_000), release_gil=False).release_gil


def test_chunks_run_in_the_pool():
    n, chunks = 1000, 10

    def body(b: Function, pointers: list[Value], arena: Value, constants: Value) -> None:
        chunk = b.module.function("chunk", "void", [Argument(ptr, "data"), Argument(i64, "index")])
        data, index = chunk.arguments
        first = chunk.mul(index, n // chunks)
        with chunk.loop(first, chunk.add(first, n // chunks)) as loop:
            chunk.store(loop.index, chunk.getelementptr(i64, data, loop.index), align=8)
        chunk.ret()
        b.call("void", "ngmlir_parallel", chunk.address, pointers[0], constant(i64, chunks))

    (y,) = load(artifact(body, (), (Parameter("y", "i64", (n,)),)))()
    assert y.tolist() == list(range(n))


def test_nothing_leaks():
    executable = load(stepping())
    bound = executable.bind({1: np.zeros(4)})
    x, state = np.ones(4), np.zeros(4)
    executable(x, state)
    bound(x)

    def references() -> list[int]:
        gc.collect()
        return [sys.getrefcount(o) for o in (x, state, x.dtype, None, ())]

    before, blocks = references(), sys.getallocatedblocks()
    for _ in range(1000):
        executable(x, state)
        bound(x)
        executable([1, 2, 3, 4], state)
    after, more = references(), sys.getallocatedblocks()
    assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True))
    assert more - blocks < 500


def test_an_executable_is_freed_and_its_call_keeps_what_it_needs():
    executable = load(stepping())
    program = weakref.ref(executable.program)
    state = np.zeros(4)
    step = executable.bind({1: state})
    own = executable.__call__
    del executable
    gc.collect()
    assert own(np.ones(4), np.zeros(4))[1].tolist() == [1] * 4
    step(np.ones(4))
    held = weakref.ref(state)
    del own, state
    gc.collect()
    step(np.ones(4))
    held_array = held()
    assert held_array is not None and held_array.tolist() == [2] * 4
    del step, held_array
    gc.collect()
    assert program() is None and held() is None


def test_an_unknown_python_takes_the_slow_way(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entry, "layout", lambda: None)
    executable = load(scaled())
    assert isinstance(executable.__call__, Call)
    assert executable(2, [1, 2, 3, 4, 5], 1)[0].tolist() == [3, 5, 7, 9, 11]
    assert executable.bind({0: np.array(3, np.float32)})([1, 2, 3, 4, 5], 0)[0][4] == 15


def test_the_builtin_assembles_for_other_machines():
    known = layout()
    assert known is not None
    for name in ("aarch64", "riscv64", "x86-64-v3"):
        assert "PyObject_Vectorcall" in assembly(entry.entry_text(known), cpu_target(name))


def test_bad_artifacts():
    good = scaled()
    with pytest.raises(Bug, match="ptx code cannot be loaded by the CPU"):
        load(Artifact("ptx", b"", good.entries, ""))
    with pytest.raises(Bug, match="the object code cannot be linked"):
        load(Artifact("object", b"nonsense" * 20, good.entries, ""))
    signature = good.entry().signature
    renamed = Signature("other", signature.arguments, signature.results)
    with pytest.raises(Bug, match=r"cannot be linked: .*other"):
        load(Artifact("object", good.code, (Entry(renamed),), ""))
    with pytest.raises(UserError, match=r"no entry @absent"):
        load(good, entry="absent")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory map of Linux")
def test_code_is_never_writable_and_executable():
    program = load(scaled()).program
    address = program.context.code
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= address < end:
                assert line.split()[1] == "r-xp"
                return
    pytest.fail("the code is not mapped")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_executables_work_in_a_forked_child():
    executable = load(stepping())
    executable(np.ones(4), np.zeros(4))
    child = os.fork()
    if child == 0:
        os._exit(0 if executable(np.ones(4), np.zeros(4))[1].tolist() == [1] * 4 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("count", [1, 100, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5])
def test_memory_is_aligned(count: int):
    memory = empty_bytes(count)
    assert memory.nbytes == count
    assert memory.ctypes.data % (HUGE_PAGE if count >= HUGE_PAGE else 64) == 0
    memory[...] = 7
    assert memory.flags.writeable


@pytest.mark.parametrize("dtype", DTYPES)
def test_aligned_arrays(dtype: str):
    array = aligned_empty((3, 5), dtype)
    assert (array.shape, array.dtype) == ((3, 5), DTYPES[dtype])
    assert array.ctypes.data % 64 == 0
    source = np.arange(30).reshape(5, 6)[::2, ::3].astype(DTYPES[dtype])
    copy = aligned_copy(source)
    assert copy.tobytes() == source.tobytes()
    assert aligned_empty((), dtype).shape == ()
    assert aligned_empty((0, 4), dtype).size == 0


def test_the_pointer_table_is_as_documented():
    """One pointer per argument, then one per result, tied ones twice."""

    def body(b: Function, pointers: list[Value], arena: Value, constants: Value) -> None:
        for index, pointer in enumerate(pointers):
            slot = b.getelementptr(i64, pointers[2], index)
            b.store(b.cast("ptrtoint", pointer, i64), slot, align=8)

    arguments = (Parameter("x", "f32", (2,)), Parameter("state", "f32", (2,)))
    results = (Parameter("addresses", "i64", (4,)), Parameter("after", "f32", (2,)))
    executable = load(artifact(body, arguments, results, tied=((1, 1),)))
    x, state = np.zeros(2, np.float32), np.zeros(2, np.float32)
    addresses, after = executable(x, state)
    expected = [x.ctypes.data, after.ctypes.data, addresses.ctypes.data, after.ctypes.data]
    assert addresses.tolist() == expected
    (addresses,) = executable.bind({1: state})(x)
    assert addresses.tolist() == [x.ctypes.data, state.ctypes.data, addresses.ctypes.data, state.ctypes.data]
