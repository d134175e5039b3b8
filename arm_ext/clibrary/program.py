# SPDX-License-Identifier: Apache-2.0
"""A planned model as straight-line code: kernel calls and copies between buffers.

arena = alloc_storage(192)
a = alloc_tensor(arena, 64, …); k(x, const, a); y = alloc_tensor(…); l(a, y); return y
→
k(input 0, weights + 0, buffer 0)
l(buffer 0, output 0)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr, GenericConst, GlobalVar, TupleGetItem, Var
from tvm_ffi import structural_walk

from arm_ext.errors import ModelError
from arm_ext.pipeline.codegen import TASKS, allocations
from relay_passes import hoist_all, parallel_loops, parallel_parts, serial_loops
from relay_passes.ir.sources import sources_of
from relay_passes.memory.plan_arena import ALIGNMENT, VIEWS

_PACKED = ("tirx.tvm_call_packed", "tirx.tvm_call_cpacked")

Memory = Literal["buffer", "weights", "input", "output"]


@dataclass(frozen=True)
class Place:
    """Where a tensor begins.

    Attributes:
        memory: What it lies in.
        offset: In bytes.
        index: Of a buffer, input or output, which.
        stride: Of a place of which each thread has its own, the bytes from one to the next; else 0.
    """

    memory: Memory
    offset: int = 0
    index: int = 0
    stride: int = 0


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel.

    Attributes:
        kernel: Its name.
        arguments: Their places.
        sources: The source nodes that it computes.
        tasks: Of a parallel loop, how many iterations threads share; 0 of what one thread does.
    """

    kernel: str
    arguments: tuple[Place, ...]
    sources: tuple[str, ...]
    tasks: int = 0


@dataclass(frozen=True)
class Copy:
    """A copy of bytes, of a value that is an output without any kernel having written it there."""

    source: Place
    target: Place
    bytes: int


Step: TypeAlias = KernelCall | Copy


@dataclass(frozen=True)
class Program:
    """A model as straight-line code.

    Attributes:
        steps: In order.
        buffers: Bytes of each intermediate value and workspace, which `arrange` gives a place.
        weights: All constants, equal ones once, each aligned as in the arena.
        kernels: By name; each takes its buffers, inputs before outputs and workspaces, in a call's order.
    """

    steps: tuple[Step, ...]
    buffers: tuple[int, ...]
    weights: bytes
    kernels: Mapping[str, tirx.PrimFunc]


def straight_line(planned: tvm.IRModule) -> Program:
    """Return the program of a planned module.

    Args:
        planned: As the last phase leaves it.

    Raises:
        ModelError: It has control flow, sizes that are known at run time, or calls of a runtime.
    """
    reader = _Reader(planned)
    main = planned["main"]
    for index, param in enumerate(main.params):
        reader.tensors[param] = Place("input", index=index)
    results = reader.results(main)
    for index, result in enumerate(results):
        reader.name_output(result, index)
    for block in main.body.blocks:
        for binding in block.bindings:
            reader.read(binding)
    for index, result in enumerate(results):
        place = reader.place(result)
        if place != Place("output", index=index):
            reader.steps.append(Copy(place, Place("output", index=index), _bytes(result.ty)))
    kernels = {step.kernel: planned[step.kernel] for step in reader.steps if isinstance(step, KernelCall)}
    return Program(tuple(reader.steps), tuple(reader.buffers), b"".join(reader.weights.parts), kernels)


def with_workspaces(program: Program, threads: int = 1) -> Program:
    """Make buffers of what kernels allocate, one for each call, and split parallel kernels.

    Args:
        program: As `straight_line` returned it.
        threads: How many share a parallel loop at most.
    """
    parts: dict[str, list[tuple[str, int]]] = {}
    kernels: dict[str, tirx.PrimFunc] = {}
    workspaces: dict[str, list[tuple[int, int]]] = {}
    for name, func in program.kernels.items():
        lowered = allocations(tvm.IRModule({name: func.with_attr("global_symbol", name)}))
        whole, spaces = hoist_all(lowered[name])
        divided = parallel_parts(whole) if threads > 1 else None
        if divided is None:
            whole, spaces = hoist_all(serial_loops(lowered)[name])
            divided = [whole]
        parts[name] = []
        for number, part in enumerate(divided):
            tasks = sum(int(loop.extent) for loop in parallel_loops(part.body))
            label = name if len(divided) == 1 else f"{name}_part_{number}"
            parts[name].append((label, tasks))
            kernels[label] = part.with_attr(TASKS, tasks) if tasks else part
        strides = [_aligned(space.bytes) if space.is_local else 0 for space in spaces]
        workspaces[name] = [
            (stride * (threads - 1) + space.bytes, stride)
            for space, stride in zip(spaces, strides, strict=True)
        ]
    buffers = list(program.buffers)
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Copy):
            steps.append(step)
            continue
        places = [
            Place("buffer", index=len(buffers) + number, stride=stride)
            for number, (_, stride) in enumerate(workspaces[step.kernel])
        ]
        buffers += [size for size, _ in workspaces[step.kernel]]
        steps += (
            replace(step, kernel=label, arguments=(*step.arguments, *_for(tasks, places)), tasks=tasks)
            for label, tasks in parts[step.kernel]
        )
    return replace(program, steps=tuple(steps), buffers=tuple(buffers), kernels=kernels)


def _for(tasks: int, places: list[Place]) -> list[Place]:
    """Return the places of a part of a kernel: what one thread does has none of each thread's."""
    return places if tasks else [replace(place, stride=0) for place in places]


class _Weights:
    """Constants one after the other, equal ones once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._end = 0
        self._offsets: dict[bytes, int] = {}

    def offset_of(self, constant: GenericConst) -> int:
        data = np.ascontiguousarray(constant.value.numpy()).tobytes()
        if data not in self._offsets:
            padding = -self._end % ALIGNMENT
            self.parts += [bytes(padding), data]
            self._offsets[data] = self._end + padding
            self._end += padding + len(data)
        return self._offsets[data]


class _Reader:
    """Follows a function's bindings, and notes down where each variable is."""

    def __init__(self, planned: tvm.IRModule) -> None:
        self._mod = planned
        self.tensors: dict[Var, Place | tuple[Expr, ...]] = {}
        self.steps: list[Step] = []
        self.buffers: list[int] = []
        self.weights = _Weights()
        self._outputs: dict[Var, int] = {}
        self._bound: dict[Var, Expr] = {}

    def results(self, main: relax.Function) -> list[Expr]:
        """Return what `main` returns, tensor by tensor."""
        self._bound = {
            binding.var: binding.value
            for block in main.body.blocks
            for binding in block.bindings
            if isinstance(binding, relax.VarBinding)
        }
        result = main.body.body
        while isinstance(result, Var) and isinstance(self._bound.get(result), Var | relax.Tuple):
            result = self._bound[result]
        if isinstance(result, relax.Tuple):
            return list(result.fields)
        if isinstance(result.ty, relax.TupleType):
            raise _refusal(self._bound.get(result, result), "returns a tuple that is decided at run time")
        return [result]

    def name_output(self, result: Expr, index: int) -> None:
        """Have the tensor that is returned allocated in the caller's output, if it is allocated by itself."""
        while isinstance(result, Var) and result in self._bound:
            value = self._bound[result]
            if _operator(value) == "relax.builtin.alloc_tensor":
                self._outputs.setdefault(result, index)
                return
            if isinstance(value, TupleGetItem):
                whole = self._bound.get(value.tuple_value, value.tuple_value)
                result = whole.fields[value.index] if isinstance(whole, relax.Tuple) else value
            else:
                result = value.args[0] if _operator(value) in VIEWS else value

    def read(self, binding: relax.Binding) -> None:
        """Note down what a binding does."""
        var, value = binding.var, binding.value
        operator = _operator(value)
        if operator == "relax.memory.alloc_storage":
            return  # the package's plan; a library's own is of workspaces, inputs and outputs, too
        if operator in ("relax.memory.alloc_tensor", "relax.builtin.alloc_tensor"):
            self.tensors[var] = (
                Place("output", index=self._outputs[var])
                if var in self._outputs
                else self._allocated(_bytes(var.ty))
            )
        elif operator in VIEWS:
            self.tensors[var] = self._viewed(value)
        elif isinstance(value, relax.Tuple):
            self.tensors[var] = tuple(value.fields)
        elif isinstance(value, TupleGetItem | Var | GenericConst):
            self.tensors[var] = self._known(value)
        elif isinstance(value, Call) and isinstance(value.op, relax.ExternFunc) and _is_copy(value):
            self.tensors[var] = self.place(value.args[0])
        else:
            self.steps.append(self._call(value))

    def place(self, expr: Expr) -> Place:
        """Return where a tensor is."""
        found = self._known(expr)
        if not isinstance(found, Place):
            raise _refusal(expr, "passes a tuple")
        return found

    def _known(self, expr: Expr) -> Place | tuple[Expr, ...]:
        if isinstance(expr, GenericConst):
            return Place("weights", self.weights.offset_of(expr))
        if isinstance(expr, TupleGetItem):
            fields = self._known(expr.tuple_value)
            assert isinstance(fields, tuple)
            return self._known(fields[expr.index])
        if isinstance(expr, relax.Tuple):
            return tuple(expr.fields)
        if expr not in self.tensors:
            raise _refusal(self._bound.get(expr, expr), "is computed by the run time")
        return self.tensors[expr]

    def _viewed(self, view: Call) -> Place:
        base = self.place(view.args[0])
        is_offset = _operator(view) == "relax.memory.view" and len(view.args) > 3
        moved = view.args[3] if is_offset else None
        by = _int(moved) if isinstance(moved, tirx.IntImm) else 0
        return Place(base.memory, base.offset + by, base.index)

    def _call(self, value: Expr) -> KernelCall:
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
            what = "decides at run time what is computed" if isinstance(value, relax.If) else None
            raise _refusal(value, what or f"calls {getattr(value, 'op', value)} of the run time")
        name = str(value.op.name_hint)
        func = self._mod[name]
        if not isinstance(func, tirx.PrimFunc):
            raise _refusal(value, "is part of a loop or a branch, which a C library does not have yet")
        if len(func.params) != len(value.args):
            raise _refusal(value, "takes sizes that are known at run time")
        if asked := _runtime_functions(func):
            raise _refusal(value, f"calls {', '.join(asked)} of TVM's runtime")
        return KernelCall(name, tuple(self.place(arg) for arg in value.args), sources_of(value))

    def _allocated(self, size: int) -> Place:
        """Return a new buffer."""
        self.buffers.append(size)
        return Place("buffer", index=len(self.buffers) - 1)


def _runtime_functions(func: tirx.PrimFunc) -> list[str]:
    """Return the functions of TVM's runtime that a kernel calls, such as to sort."""
    calls: list[Call] = []
    structural_walk(func.body, [(Call, calls.append)])
    packed = (call for call in calls if _operator(call).startswith(_PACKED))
    return list(dict.fromkeys(str(call.args[0].value) for call in packed))


def _refusal(value: Expr, why: str) -> ModelError:
    names = ", ".join(sources_of(value)) or "the model"
    return ModelError(
        f"{names}: {why}; a C library is straight-line code. Compile it as a package, or cut that part out of the model"
    )


def _operator(value: Expr) -> str:
    return str(getattr(value.op, "name", "")) if isinstance(value, Call) else ""


def _is_copy(call: Call) -> bool:
    return str(call.op.global_symbol) == "vm.builtin.to_device"


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _int(expr: Expr) -> int:
    return int(getattr(expr, "value", expr))


def _bytes(ty: relax.Type) -> int:
    return math.prod(int(dim) for dim in ty.shape.values) * np.dtype(str(ty.dtype)).itemsize
