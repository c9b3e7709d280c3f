# SPDX-License-Identifier: Apache-2.0
"""A transformer runs computations, and holds the state that they share."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np

from ..decl.target_text import load_target
from ..ir.core import Module
from ..ir.types import DYNAMIC
from ..op_graph.calls import listed
from ..op_graph.computation import Computation, computation
from ..op_graph.errors import NotAssignable, UserError, fail
from ..op_graph.initial_values import known_initial_value
from ..op_graph.kept import initializers, kept, named
from ..op_graph.lift import Lifted, lift_ordered
from ..op_graph.node import Op
from ..op_graph.ordered import OrderedSet
from ..op_graph.state import AssignableTensorOp, doall
from ..op_graph.tensor import Tensor
from ..op_graph.writes import InitTensorOp
from ..ops import ng
from ..ops.memory_limit import checked_limit
from ..runtime.targets import device_named
from ..runtime.threads import checked_threads, using_threads
from ..runtime.timing import Profile, listening
from ..support.spelling import counted
from .backends import backend_for
from .checkpoints import State, load, saved
from .computations import DeviceComputation
from .layouts import Layouts
from .passes.graph import GraphPass
from .passes.registered import Passes, PassLike
from .programs import Program, joined
from .statistics import Watched
from .stepping import Stepper
from .storage import DeviceBufferStorage, DeviceTensor

T = TypeVar("T")


class ByOp(OrderedSet[T], Generic[T]):
    """An ordered set whose members can be looked up by their op."""

    __slots__ = ("_by_op",)

    def __init__(self, by_op: Mapping[Any, T], more: Iterable[T] = ()):
        super().__init__((*by_op.values(), *more))
        self._by_op = by_op

    def __getitem__(self, op: Op) -> T:
        return self._by_op[op]


class Transformer(Layouts, Watched):
    """Compiles and runs computations on one kind of device. Each transformer has its own state, which starts from the
    initial values."""

    transformer_name = ""
    #: The name of its backend (`backends.py`).
    target: str = ""
    #: The ops that its devices support: a table in `lowering/`; "" if all.
    table: ClassVar[str] = ""
    #: Name -> class, of all transformers.
    transformers: ClassVar[dict[str, type[Transformer]]] = {}
    default_rtol = 1e-5
    default_atol = 1e-8

    def __init_subclass__(cls) -> None:
        if "transformer_name" in cls.__dict__:
            Transformer.transformers[cls.transformer_name] = cls

    def __init__(
        self,
        passes: Iterable[PassLike] | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        #: How many threads its programs use on the CPU; None: from the environment.
        self.threads = None if threads is None else checked_threads(threads)
        #: How many bytes the temporaries of a computation may take at once; 0 for no limit.
        self.memory_limit = (
            0 if memory_limit is None else checked_limit(memory_limit, device_named(self.target).compiles)
        )
        self.lock = threading.RLock()  # held while programs are made
        self.closed = False
        self.to_allocate: list[DeviceBufferStorage] = []
        #: Gives all state its initial values: the initializers of the computations that existed at the first call.
        self.init_computation: DeviceComputation | None = None
        self._computations: dict[Computation, DeviceComputation] = {}
        self._storages: dict[AssignableTensorOp, DeviceBufferStorage] = {}
        self._of_other_shapes: dict[tuple[AssignableTensorOp, tuple[int, ...]], DeviceBufferStorage] = {}
        self._profile: Profile | None = None
        self._passes = Passes(passes or ())
        self._passed: set[Computation] = set()

    # ---- computations

    @property
    def computations(self) -> ByOp[DeviceComputation]:
        """All computations made so far; `computations[op]` is that of a computation op."""
        return ByOp(self._computations)

    @property
    def all_results(self) -> OrderedSet[Op]:
        """The results of the computations made so far."""
        return OrderedSet(op for computation in self._computations for op in computation.returns)

    def computation(self, results: Any, *parameters: Any, name: str | None = None) -> DeviceComputation:
        """A callable from values of `parameters` to values of `results`; compiled at its first call.

        `name` is the name of its function in text.
        """
        return self.add_computation(computation(results, *parameters, name=name))

    def stepped(self, results: Any, *parameters: Any) -> Stepper:
        """Runs a computation op by op: an existing one (`stepped(computation)`), or one of results and parameters.

        See `Stepper`: values of any op, breakpoints, and where the first NaN comes from.
        """
        if isinstance(results, DeviceComputation):
            return Stepper(results)
        made = results if isinstance(results, Computation) else computation(results, *parameters)
        return Stepper(self.add_computation(made))

    @classmethod
    def base_set(cls) -> frozenset[str]:
        """The primitive ops of this kind of device, by name (`ng.add`): standard transformations express every other op
        in terms of these, and leave these unchanged."""
        if not cls.table:
            return frozenset(ng.OPS)
        table = load_target(cls.table)
        return frozenset(name for name in table.ops if table.carries_out(name))

    def add_computation(self, op: Computation) -> DeviceComputation:
        """The callable of a computation op; the same one for the same op."""
        self.check_open()
        if op not in self._computations:
            made = self._computations[op] = DeviceComputation(self, op, self.memory_limit)
            if self._profile is not None:
                made.listen(self._profile)
        return self._computations[op]

    def profile(self) -> Profile:
        """Profiles computations from now on, by kernel, with source lines: on `cpu` measured times, on `cuda-sim`
        counts of instructions and memory accesses, with the lower bound of the time on a GPU that follows from
        them.

        Print it when they have run; `to_json()`, `trace()` and `write(path)` return the same as numbers. Programs
        that were compiled before are compiled again once; further calls return the same profile. Raises Limit on
        other targets.
        """
        self.check_open()
        with self.lock:
            if self._profile is None:
                from ..runtime.targets import profile_for

                self._profile = profile_for(self.target, self.threads)
                for computation in self._computations.values():
                    computation.listen(self._profile)
            return self._profile

    # ---- passes

    @property
    def graph_passes(self) -> list[GraphPass]:
        """The passes of this transformer, in order; those on modules run after those on ops."""
        return self._passes.listed

    def register_graph_pass(self, graph_pass: PassLike, position: int | None = None) -> None:
        """Adds a pass, at the end or at a position, for later compilations.

        A pass is a `GraphPass` (or a class of such), a function from module to module, or a pipeline in text. Raises
        UserError for anything else.
        """
        self._passes.add(graph_pass, position)

    def run_registered_graph_passes(self, ops: Iterable[Op]) -> None:
        """Runs the passes on everything that some results depend on. The graph changes: replaced ops forward to
        others."""
        with self.lock:
            self._passes.run(ops)

    def run_passes_on(self, op: Computation) -> None:
        """The same for a computation, once."""
        if op not in self._passed:
            with self.lock:
                self._passed.add(op)
                self.run_registered_graph_passes(op.returns)

    def transformed_module(self, module: Module) -> Module:
        """A module after those passes of this transformer that work on modules."""
        return self._passes.transformed(module, self.target)

    def transform_ordered_ops(self, ordered_ops: Sequence[Op], name: str = "main") -> Lifted:
        """The function of ops that run in this order: a computation and everything it needs."""
        return lift_ordered(ordered_ops, name)

    def compile(self, programs: Sequence[Program]) -> None:
        """Makes programs callable, as functions of one module; those that call Python functions get separate modules."""
        together = [p for p in programs if len(p.lifted.module.ops) == 1]
        for group in (together, *([p] for p in programs if p not in together)):
            if not group:
                continue
            module, names = joined(group)
            with using_threads(self.threads):
                bind = backend_for(self.target)(self.transformed_module(module))
                for program, name in zip(group, names, strict=True):
                    program.bind(bind, name)

    @property
    def module(self) -> Module:
        """The functions of all computations made so far, and `@initialize`, which gives state its initial values.

        Without computations for which a length must come from values, and those that call Python functions.
        """
        with self.lock:
            for computation in self._computations.values():
                self.run_passes_on(computation.computation_op)
            ready = [c for c in self._computations.values() if not c.lengths.follow_from_values()]
            first = self._initialization(self.ordered_initializers(self._ready_state()), "initialize")
            programs = [c.program for c in (first, *ready)]
            return joined([p for p in programs if len(p.lifted.module.ops) == 1])[0]

    # ---- initialisation

    @property
    def initialized(self) -> bool:
        """Whether state has its initial values: from the first call of any computation on."""
        return self.init_computation is not None

    def initialize(self) -> None:
        """Gives all state its initial values and compiles all computations made so far, as functions of one module.

        Calls do that automatically, each for its own computation. If a length must come from values, their first call
        does it.
        """
        self.check_open()
        with self.lock:
            self.begin()
            self._transform_computations()

    def _transform_computations(self) -> None:
        """Compiles the computations made so far that are not compiled yet."""
        with self.lock:
            for computation in self._computations.values():
                self.run_passes_on(computation.computation_op)
            made = [c.prepare() for c in self._computations.values()]
            with listening(self._profile):
                self.compile([program for program in made if program is not None])

    def begin(self) -> None:
        """At the first call of any computation: runs passes, and gives all state that computations use by now its
        initial values.

        State is initialised in the order of creation, so random initial values are the same whichever computation is
        called first. State whose lengths are not set waits for values that determine them.
        """
        with self.lock:
            if self.init_computation is not None:
                return
            self._passed.update(self._computations)
            self.run_registered_graph_passes(self.all_results)
            ops = Op.ordered_ops(self._computations)
            self.initialize_tensor_descriptions(ops)
            ready = self._ready_state()
            self.init_computation = self._initialization(self.ordered_initializers(ready))
            self.initialize_state(ready)
            self.start_transform_allocate()
            for op in ready:
                self.storage_of(op).transform_allocate()
            self.finish_transform_allocate()

    def ordered_initializers(self, ops: Iterable[Op]) -> list[InitTensorOp]:
        """The initializers of the storage among some ops, and of the storage that they read, in the order in which they
        run."""
        return initializers(ops)

    def initialize_state(self, ops: Iterable[AssignableTensorOp]) -> None:
        """Runs the initializers of storage that has no memory yet: known values are copied, others are computed."""
        with self.lock:
            fresh = [i for i in self.ordered_initializers(ops) if self._storage_for(i).reserve()]
            try:
                computed: list[Op] = []
                for init in fresh:
                    value = known_initial_value(init)
                    if value is None:
                        computed.append(init)
                    else:
                        self._storage_for(init).write(value)
                if computed:
                    self._initialization(computed)()
            except BaseException:
                for init in fresh:
                    self._storage_for(init).release()
                raise

    def _ready_state(self) -> list[AssignableTensorOp]:
        """The state of all computations that has an initial value, and known lengths."""
        found = kept(self._computations)
        return [op for op in found if op.initial_value is not None and None not in op.axes.lengths]

    def _initialization(self, initializers: Sequence[Op], name: str = "init") -> DeviceComputation:
        """The computation that runs initializers; it is not one of the user's, and passes do not run on it."""
        op = doall(initializers)
        op.update_forwards()
        made = computation(op, name=name)
        self._passed.add(made)
        return DeviceComputation(self, made)

    def _storage_for(self, init: InitTensorOp) -> DeviceBufferStorage:
        storage = init.written
        assert isinstance(storage, AssignableTensorOp)
        return self.storage_of(storage)

    # ---- memory

    def initialize_tensor_descriptions(self, ops: Iterable[Op]) -> None:
        """Creates the buffers of the storage among some ops; their memory is allocated later."""
        for op in ops:
            if isinstance(op, AssignableTensorOp):
                self.storage_of(op)

    def start_transform_allocate(self) -> None:
        """Starts collecting the buffers that `allocate_storage` allocates."""
        self.to_allocate = []

    def finish_transform_allocate(self) -> None:
        """Ends what `start_transform_allocate` began."""

    def allocate_storage(self) -> None:
        """Allocates the buffers whose allocation was registered (those of all storage known so far, if none was), with
        their initial values."""
        todo, self.to_allocate = self.to_allocate or [*self._storages.values()], []
        for storage in todo:
            storage.allocate()

    def allocate(self) -> None:
        """Allocates the state known so far, with its initial values."""
        for storage in self._storages.values():
            storage.allocate()

    @property
    def device_buffers(self) -> ByOp[DeviceBufferStorage]:
        """The buffers of all storage known so far; `device_buffers[op]` is that of a storage op."""
        return ByOp(self._storages, self._of_other_shapes.values())

    def close(self) -> None:
        """Frees all state; the transformer cannot be used afterwards."""
        for storage in self.device_buffers:
            storage.release()
        self._computations.clear()
        self.closed = True

    def check_open(self) -> None:
        if self.closed:
            fail(UserError, "the transformer is closed", "make another one")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        what = f"{type(self).__name__} holds machine code and memory, and cannot be copied or pickled"
        fail(
            UserError, what, "state() is its state as arrays, and load_state puts it into another transformer"
        )

    def __enter__(self) -> Transformer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- state

    def state(self) -> State:
        """The state of all computations made so far, by name; see `DeviceComputation.state`."""
        self.check_open()
        return saved(named(kept(self._computations)), self.storage_of)

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Restores what `state()` returned; see `DeviceComputation.load_state`."""
        self.check_open()
        load(state, named(kept(self._computations)), self.storage_of, strict)

    def storage_of(self, op: AssignableTensorOp) -> DeviceBufferStorage:
        """The buffer of a storage op in this transformer; for storage that is only fed, one for each shape."""
        found = self._storages.get(op)
        if found is None:
            found = self._storages[op] = DeviceBufferStorage(op, self)
        if op.is_persistent or found.shape in (None, shape := op.axes.shape) or DYNAMIC in shape:
            return found
        return self._of_other_shapes.setdefault((op, shape), DeviceBufferStorage(op, self))

    def get_op_tensor_view(self, op: Tensor) -> DeviceTensor:
        """A view of a variable, to read and to set (`view[...] = value`)."""
        self.check_open()
        found = getattr(op, "forwarded", None)
        if not isinstance(found, Tensor):
            fail(NotAssignable, f"{op!r} is not a tensor", "give a variable or a view of one")
        storage = found.storage_now
        if not isinstance(storage, AssignableTensorOp):
            fail(
                NotAssignable,
                f"{found.called} is computed, so it has no value between runs",
                "return it from a computation, or inspect it with transformer.stepped(computation)",
            )
        return DeviceTensor(self.storage_of(storage), found)

    def get_tensor_view_value(
        self, op: Tensor, host_tensor: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """A copy of the value of a variable, or of a view of one."""
        return self.get_op_tensor_view(op).get(host_tensor)

    def host_to_device(self, computation: Any, parameters: Any, args: Any) -> None:
        """Copies values to the storage of parameters of a computation; calls do that automatically for fed values.

        Raises UserError if there are not as many values as parameters, NotAssignable for ops that are not storage.
        """
        given, values = listed(parameters, "parameters"), listed(args, "values")
        if len(given) != len(values):
            fail(UserError, f"{counted(len(given), 'parameter')}, but {counted(len(values), 'value')}")
        for parameter, value in zip(given, values, strict=True):
            self.get_op_tensor_view(parameter)[...] = value

    def device_to_host(
        self, computation: Any, op: Tensor, tensor: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """A copy of the value of a variable, or of a view of one, that a computation uses; in `tensor`, if one is
        given."""
        return self.get_tensor_view_value(op, tensor)

    def get_default_tolerance(self, desired: Any) -> tuple[float, float]:
        """(relative, absolute) tolerance for comparing results of this transformer."""
        return self.default_rtol, self.default_atol
