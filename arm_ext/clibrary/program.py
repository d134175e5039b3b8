# SPDX-License-Identifier: Apache-2.0
"""A planned model as steps of a C program: kernel calls, copies, branches and loops between buffers.

arena = alloc_storage(192)
a = alloc_tensor(arena, 64, …); k(x, const, a); y = alloc_tensor(…); l(a, y); return y
→
k(input 0, weights + 0, buffer 0)
l(buffer 0, output 0)

Functions are inlined where they are called. Both sides of a branch write what it gives to the same buffers; what a
round of a loop gives the next one is in buffers of the loop.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr, GenericConst, GlobalVar, PrimType, TupleGetItem, Var

from arm_ext.clibrary.lengths import Length, c_text, is_open, most, product_text
from arm_ext.clibrary.npu import NpuRegion
from arm_ext.clibrary.sort import Sort, packed_calls, sort_of
from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.loops import is_loop
from arm_ext.native.build import NPU_RUN
from arm_ext.pipeline.codegen import TASKS, allocations
from relay_passes import Workspace, hoist_all, parallel_loops, parallel_parts, serial_loops
from relay_passes.ir.sources import sources_of
from relay_passes.lengths.fix_length import dims_of, length_argument
from relay_passes.memory.plan_arena import ALIGNMENT, VIEWS, aligned
from relay_passes.memory.write_in_place import CHANGED

Value: TypeAlias = "TensorPlace | tuple[Value, ...]"
"""The place of a tensor, or the places of a tuple's tensors."""

Memory = Literal["buffer", "weights", "shared", "input", "output"]


@dataclass(frozen=True)
class TensorPlace:
    """The memory and offset at which a tensor begins.

    Attributes:
        memory: Kind of memory that the tensor lies in; "shared" stands for weights that other models of the
            library read, too.
        offset: Bytes from the start of that buffer, input, output or block of weights.
        index: Which buffer, input or output it is; for shared weights, which part of them.
        stride: Bytes from one thread's copy to the next if each thread has its own; else 0.
    """

    memory: Memory
    offset: int = 0
    index: int = 0
    stride: int = 0


@dataclass(frozen=True)
class KernelStep:
    """A call of a kernel.

    Attributes:
        kernel: Name of the kernel.
        arguments: Places of the arguments.
        sources: The source nodes that it computes.
        tasks: Number of iterations of a parallel loop that threads share, possibly a C expression; 0 for a
            call that one thread makes.
        sort: Description of the sort, if the kernel is one of the library's own sorting functions in C.
        length: The length that the kernel takes as a further argument, if sizes of its buffers follow from
            it.
        region: Number of the region, if the call offers one to an NPU; its arguments are then the payload, the
            inputs, the outputs, the scratch if it is in the arena, and, if the CPU can compute the region, too, a bool
            that tells whether the outputs were written.
    """

    kernel: str
    arguments: tuple[TensorPlace, ...]
    sources: tuple[str, ...]
    tasks: int | str = 0
    sort: Sort | None = None
    length: Length | None = None
    region: int | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether the kernel is compiled from the model, and is not C code of the library itself."""
        return self.sort is None and self.region is None


@dataclass(frozen=True)
class Copy:
    """A copy of a tensor to a location where no kernel can write it directly.

    Attributes:
        source: Where the tensor is.
        target: Where it is needed.
        bytes: A number, or a C expression.
        unless_same: Whether the caller may give both the same memory, which then is not copied.
    """

    source: TensorPlace
    target: TensorPlace
    bytes: int | str
    unless_same: bool = False


@dataclass(frozen=True)
class Branch:
    """A branch whose condition is computed at run time.

    Attributes:
        condition: Place of the bool that decides.
        then: Steps that run if it is true.
        otherwise: Steps that run if it is false.
    """

    condition: TensorPlace
    then: "tuple[Step, ...]"
    otherwise: "tuple[Step, ...]"


@dataclass(frozen=True)
class Loop:
    """A loop: while a bool is true, which is tested before each iteration, its steps run.

    Attributes:
        condition: Place of the bool.
        body: The steps of one round.
    """

    condition: TensorPlace
    body: "tuple[Step, ...]"


Step: TypeAlias = KernelStep | Copy | Branch | Loop


def calls_of(steps: Iterable[Step]) -> Iterator[KernelStep]:
    """Yield the kernel calls in order, including those of branches and loops."""
    for step in steps:
        if isinstance(step, KernelStep):
            yield step
        elif isinstance(step, Branch):
            yield from calls_of((*step.then, *step.otherwise))
        elif isinstance(step, Loop):
            yield from calls_of(step.body)


def mapped(
    steps: Iterable[Step],
    change: Callable[[KernelStep | Copy], Iterable[Step]],
    place: Callable[[TensorPlace], TensorPlace] = lambda it: it,
) -> tuple[Step, ...]:
    """Return the steps with `change` applied to each call and copy, and `place` to the location of each condition."""
    changed: list[Step] = []
    for step in steps:
        if isinstance(step, Branch):
            sides = (mapped(side, change, place) for side in (step.then, step.otherwise))
            changed.append(Branch(place(step.condition), *sides))
        elif isinstance(step, Loop):
            changed.append(Loop(place(step.condition), mapped(step.body, change, place)))
        else:
            changed += change(step)
    return tuple(changed)


@dataclass(frozen=True)
class Program:
    """A function of a model as steps in execution order, with the buffers that they use.

    Attributes:
        steps: The steps in execution order.
        buffers: Bytes of each intermediate value and workspace; `arrange` decides where they lie.
        weights: Constants of this program and of the programs read before it, without shared ones; equal ones
            are stored once, each aligned as in the arena.
        kernels: Name → kernel, for kernels that are compiled. A kernel's parameters are its inputs, outputs
            and workspaces, in the order of a call's arguments.
        in_place: Indices of inputs that become an output in the same memory, if the caller gives them the same.
    """

    steps: tuple[Step, ...]
    buffers: tuple[int, ...]
    weights: bytes
    kernels: Mapping[str, tirx.PrimFunc]
    in_place: tuple[int, ...] = ()


def read_program(
    planned: tvm.IRModule,
    function: str = "main",
    constants: "ConstantPool | None" = None,
    largest: int = 0,
    npu: Sequence[NpuRegion] = (),
) -> Program:
    """Return the program of a function of a planned module.

    Args:
        planned: The module after the last phase.
        function: Name of the function.
        constants: Constants of other functions; those of this function are added to them.
        largest: The greatest length, for a function that takes a length.
        npu: Regions that an NPU may compute.

    Raises:
        ModelError: The program has sizes that are known at run time, or calls of a runtime.
    """
    reader = _ProgramReader(planned, constants or ConstantPool(), largest, npu)
    main = planned[function]
    values = reader.inlined(main, [TensorPlace("input", index=index) for index in range(len(main.params))])
    targets = [TensorPlace("output", index=index) for index in range(len(_leaves(values)))]
    changed = tuple(map(int, main.attrs.get(CHANGED, [])))
    sources = reader.changed_in_outputs(changed, _leaves(values), _types(main.ret_ty))
    reader.deliver(sources, targets, _types(main.ret_ty))
    kernels = {step.kernel: planned[step.kernel] for step in calls_of(reader.steps) if step.is_compiled}
    return Program(
        tuple(reader.steps), tuple(reader.buffers), b"".join(reader.weights.parts), kernels, changed
    )


def with_workspaces(program: Program, threads: int = 1) -> Program:
    """Turn the memory that kernels allocate into buffers, one for each call, and split parallel kernels.

    Args:
        program: The program that `read_program` returned.
        threads: Most threads that share a parallel loop.
    """
    parts: dict[str, list[tuple[str, Expr | None]]] = {}
    kernels: dict[str, tirx.PrimFunc] = {}
    workspaces: dict[str, list[tuple[int, int]]] = {}
    calls = list(calls_of(program.steps))
    for name, func in program.kernels.items():
        of_kernel = [step for step in calls if step.kernel == name]
        lowered = allocations(tvm.IRModule({name: func.with_attr("global_symbol", name)}))
        whole, spaces = _hoisted(lowered[name], of_kernel)
        divided = parallel_parts(whole) if threads > 1 else None
        if divided is None:
            whole, spaces = _hoisted(serial_loops(lowered)[name], of_kernel)
            divided = [whole]
        parts[name] = []
        for number, part in enumerate(divided):
            extents = [loop.extent for loop in parallel_loops(part.body)]
            label = name if len(divided) == 1 else f"{name}_part_{number}"
            parts[name].append((label, *(extents or [None])))
            kernels[label] = part.with_attr(TASKS, True) if extents else part
        strides = [aligned(space.bytes) if space.is_local else 0 for space in spaces]
        workspaces[name] = [
            (stride * (threads - 1) + space.bytes, stride)
            for space, stride in zip(spaces, strides, strict=True)
        ]
    buffers = list(program.buffers)

    def extended(step: KernelStep | Copy) -> Iterator[Step]:
        if isinstance(step, Copy) or not step.is_compiled:
            yield step
            return
        places = [
            TensorPlace("buffer", index=len(buffers) + number, stride=stride)
            for number, (_, stride) in enumerate(workspaces[step.kernel])
        ]
        buffers.extend(size for size, _ in workspaces[step.kernel])
        for label, extent in parts[step.kernel]:
            tasks = _tasks(extent, step.length)
            arguments = (*step.arguments, *_for(tasks, places))
            yield replace(step, kernel=label, arguments=arguments, tasks=tasks)

    steps = mapped(program.steps, extended)
    return replace(program, steps=steps, buffers=tuple(buffers), kernels=kernels)


def _hoisted(func: tirx.PrimFunc, calls: Sequence[KernelStep]) -> tuple[tirx.PrimFunc, list[Workspace]]:
    """Return a kernel that takes its workspaces as arguments, and workspaces that are large enough for all calls."""
    longest = max((step.length.most for step in calls if step.length is not None), default=0)
    try:
        return hoist_all(func, longest)
    except ValueError as err:
        names = ", ".join(dict.fromkeys(name for step in calls for name in step.sources)) or "the model"
        raise ModelError(
            f"{names}: needs workspaces of {err}, which a C library cannot allocate. Compile a package, or list "
            "the sizes that "
            "occur in place of a bound"
        ) from err


def _tasks(extent: Expr | None, length: Length | None) -> int | str:
    """Return the number of iterations of a kernel's parallel loop: a number or a C expression.

    0 without such a loop.
    """
    if extent is None or isinstance(extent, tirx.IntImm):
        return 0 if extent is None else int(extent)
    assert length is not None
    return f"(size_t)({c_text(extent, length.text)})"


def _for(tasks: int | str, places: list[TensorPlace]) -> list[TensorPlace]:
    """Return the arguments of a part of a kernel; if a single thread computes it, without strides per thread."""
    return places if tasks else [replace(place, stride=0) for place in places]


class ConstantPool:
    """The constants of a library in one array, which holds equal constants once."""

    def __init__(
        self, alignment: int = ALIGNMENT, shared: Mapping[bytes, TensorPlace] = MappingProxyType({})
    ) -> None:
        """Start without constants.

        Args:
            alignment: Alignment of each constant in bytes.
            shared: Constants that are stored elsewhere, because other models read them, too.
        """
        self.alignment = alignment
        self.parts: list[bytes] = []
        self._end = 0
        self._offsets: dict[bytes, int] = {}
        self._shared = shared

    @property
    def offsets(self) -> Mapping[bytes, int]:
        """Value of a constant → its offset."""
        return self._offsets

    def place_of(self, constant: GenericConst) -> TensorPlace:
        """Return the location of a constant; add the constant unless it is stored already."""
        data = np.ascontiguousarray(constant.value.numpy()).tobytes()
        return self._shared.get(data) or TensorPlace("weights", self.add(data))

    def add(self, data: bytes) -> int:
        """Return the offset of a constant's bytes; add them unless they are stored already."""
        if data not in self._offsets:
            padding = -self._end % self.alignment
            self.parts += [bytes(padding), data]
            self._offsets[data] = self._end + padding
            self._end += padding + len(data)
        return self._offsets[data]


class _ProgramReader:
    """Visitor of functions' bindings that records the steps, and the location of each variable."""

    def __init__(
        self, planned: tvm.IRModule, constants: ConstantPool, largest: int, npu: Sequence[NpuRegion]
    ) -> None:
        self._mod, self._largest, self._npu = planned, largest, npu
        self._never_on_cpu: set[Var] = set()
        self.steps: list[Step] = []
        self.buffers: list[int] = []
        self._exact: list[int | str] = []
        self.weights = constants
        self._values: dict[Var, Value] = {}
        self._bound: dict[Var, Expr] = {}
        self._entered: list[str] = []

    def inlined(self, func: relax.Function, arguments: Sequence[Value]) -> Value:
        """Add the steps of a function, and return the location of its result."""
        self._values.update(zip(func.params, arguments, strict=True))
        return self._sequence(func.body)

    def changed_in_outputs(
        self, changed: Sequence[int], values: Sequence[TensorPlace], types: Sequence[relax.Type]
    ) -> list[TensorPlace]:
        """Let kernels change outputs in place of the inputs that these are copied from; return the places of `values`.

        Args:
            changed: Indices of the inputs that kernels change; each is an output.
            values: Places of the outputs' values.
            types: Types of the outputs.
        """
        found = list(values)
        for index in changed:
            source = TensorPlace("input", index=index)
            target = TensorPlace("output", index=found.index(source))
            copy = Copy(source, target, _size(types[target.index]), unless_same=True)

            def moved(
                place: TensorPlace, source: TensorPlace = source, to: TensorPlace = target
            ) -> TensorPlace:
                return to if place == source else place

            self.steps = [copy, *_relocated(self.steps, moved)]
            found = list(map(moved, found))
        return found

    def deliver(
        self,
        sources: Sequence[TensorPlace],
        targets: Sequence[TensorPlace],
        types: Sequence[relax.Type],
        since: int = 0,
    ) -> None:
        """Make values end up at target locations: they are computed there if possible, else copied.

        Args:
            sources: Places of the values.
            targets: Places that the values must end up in.
            types: Types of the values.
            since: Buffers before this one are in use elsewhere than in `steps`.
        """
        found = list(sources)
        for number, (target, type_) in enumerate(zip(targets, types, strict=True)):
            source = found[number]
            if source == target:
                continue
            is_own = source.memory == "buffer" and source.index >= since
            if is_own and not source.offset and self._exact[source.index] == _size(type_):
                moved = partial(_moved, source.index, target)
                self.steps = list(_relocated(self.steps, moved))
                found = list(map(moved, found))
            else:
                self.steps.append(Copy(source, target, _size(type_)))

    def _sequence(self, sequence: relax.SeqExpr) -> Value:
        for block in sequence.blocks:
            for binding in block.bindings:
                self._bound[binding.var] = binding.value
                self._read(binding.var, binding.value)
        return self._known(sequence.body)

    def _read(self, var: Var, value: Expr) -> None:
        """Add the steps of a binding."""
        operator = _operator(value)
        if operator == "relax.memory.alloc_storage":
            # The package's memory plan is ignored: a library plans anew, with workspaces, inputs and outputs.
            return
        if operator in ("relax.memory.alloc_tensor", "relax.builtin.alloc_tensor"):
            self._values[var] = self._allocated(var.ty)
        elif operator in VIEWS:
            self._values[var] = self._viewed(value)
        elif isinstance(value, relax.Tuple | TupleGetItem | Var | GenericConst):
            self._values[var] = self._known(value)
        elif isinstance(value, Call) and isinstance(value.op, relax.ExternFunc) and _is_copy(value):
            self._values[var] = self._place(value.args[0])
        elif isinstance(value, Call) and isinstance(value.op, relax.ExternFunc) and _is_offer(value):
            self._offer(var, value)
        elif isinstance(value, relax.If) and value.cond in self._never_on_cpu:
            self._values[var] = self._sequence(value.true_branch)
        elif isinstance(value, relax.If):
            self._values[var] = self._branch(value, var.ty)
        elif isinstance(value, Call) and isinstance(value.op, GlobalVar):
            func = self._mod[value.op]
            if isinstance(func, relax.Function):
                self._values[var] = self._called(value, func)
            else:
                self.steps.append(self._kernel_call(value, func))
        else:
            raise _refusal(value, f"calls {getattr(value, 'op', value)} of the run time")

    def _offer(self, var: Var, call: Call) -> None:
        """Add a step that offers a region to an NPU; `var` tells whether the NPU computed it."""
        number, _, payload, *tensors = call.args
        region = self._npu[_int(number)]
        places = [self._place(payload), *map(self._place, tensors)]
        if region.scratch_bytes:
            places.append(self._buffer(region.scratch_bytes))
        if region.has_fallback:
            self._values[var] = taken = self._buffer(_bytes("bool"))
            places.append(taken)
        else:
            self._never_on_cpu.add(var)
        self.steps.append(KernelStep(NPU_RUN, tuple(places), sources_of(call), region=_int(number)))

    def _called(self, call: Call, func: relax.Function) -> Value:
        name = str(call.op.name_hint)
        if name in self._entered:
            raise _refusal(call, "calls itself")
        self._entered.append(name)
        arguments = [self._known(arg) for arg in call.args]
        value = (self._loop if is_loop(call.op, func) else self.inlined)(func, arguments)
        self._entered.pop()
        return value

    def _branch(self, choice: relax.If, ty: relax.Type) -> Value:
        condition = self._place(choice.cond)
        types = _types(ty)
        targets = [self._allocated(type_) for type_ in types]
        sides = []
        outer = self.steps
        for side in (choice.true_branch, choice.false_branch):
            self.steps, since = [], len(self.buffers)
            self.deliver(_leaves(self._sequence(side)), targets, types, since)
            sides.append(tuple(self.steps))
        self.steps = [*outer, Branch(condition, *sides)]
        return _like(ty, iter(targets))

    def _loop(self, func: relax.Function, arguments: Sequence[Value]) -> Value:
        """Repeat the steps of a function that ends by calling itself; its arguments are the loop's states."""
        choice = func.body.blocks[0].bindings[0]
        *rounds, again = [b for block in choice.value.true_branch.blocks for b in block.bindings]
        changed = []
        for param, argument, following in zip(func.params, arguments, again.value.args, strict=True):
            self._values[param] = argument
            if not following.same_as(param):
                state = self._allocated(param.ty)
                self.steps += [Copy(place, state, _size(param.ty)) for place in _leaves(argument)]
                self._values[param] = state
                changed.append((following, state, param.ty))
        condition = self._place(choice.value.cond)
        outer, self.steps = self.steps, []
        for binding in rounds:
            self._bound[binding.var] = binding.value
            self._read(binding.var, binding.value)
        self._pass_on([(self._place(following), state, ty) for following, state, ty in changed])
        self.steps = [*outer, Loop(condition, tuple(self.steps))]
        self._values[choice.var] = self._sequence(choice.value.false_branch)
        return self._known(func.body.body)

    def _pass_on(self, moves: Sequence[tuple[TensorPlace, TensorPlace, relax.Type]]) -> None:
        """Copy values to the states of the next iteration.

        Those that are states of this one are copied to a buffer first.
        """
        states = {target for _, target, _ in moves}
        last = []
        for source, target, ty in moves:
            kept = self._allocated(ty) if source in states else source
            if kept is not source:
                self.steps.append(Copy(source, kept, _size(ty)))
            last.append(Copy(kept, target, _size(ty)))
        self.steps += last

    def _place(self, expr: Expr) -> TensorPlace:
        """Return the location of a tensor."""
        found = self._known(expr)
        if not isinstance(found, TensorPlace):
            raise _refusal(expr, "passes a tuple")
        return found

    def _known(self, expr: Expr) -> Value:
        if isinstance(expr, GenericConst):
            return self.weights.place_of(expr)
        if isinstance(expr, TupleGetItem):
            fields = self._known(expr.tuple_value)
            assert isinstance(fields, tuple)
            field: Value = fields[expr.index]
            return field
        if isinstance(expr, relax.Tuple):
            return tuple(self._known(field) for field in expr.fields)
        if expr not in self._values:
            raise _refusal(self._bound.get(expr, expr), "is computed by the run time")
        return self._values[expr]

    def _viewed(self, view: Call) -> TensorPlace:
        base = self._place(view.args[0])
        is_offset = _operator(view) == "relax.memory.view" and len(view.args) > 3
        moved = view.args[3] if is_offset else tirx.IntImm("int64", 0)
        if isinstance(moved, Expr) and isinstance(moved.ty, PrimType) and not isinstance(moved, tirx.IntImm):
            raise _refusal(view, "looks at a place that is known at run time")
        by = _int(moved) if isinstance(moved, tirx.IntImm) else 0
        return TensorPlace(base.memory, base.offset + by, base.index)

    def _kernel_call(self, call: Call, func: tirx.PrimFunc) -> KernelStep:
        if len(func.params) != len(call.args):
            raise _refusal(call, "takes sizes that are known at run time")
        length, tensors = self._length(call, func)
        if (sort := sort_of(func, length.text if length else "")) is not None:
            return self._sort(call, sort, tensors)
        if asked := [name for name, _ in packed_calls(func)]:
            raise _refusal(call, f"calls {', '.join(dict.fromkeys(asked))} of TVM's runtime")
        places = tuple(map(self._place, tensors))
        return KernelStep(str(call.op.name_hint), places, sources_of(call), length=length)

    def _length(self, call: Call, func: tirx.PrimFunc) -> tuple[Length | None, list[Expr]]:
        """Return the run-time length of a call, or None, and those of its arguments that are tensors."""
        variable, length = length_argument(func), None
        tensors = []
        for param, arg in zip(func.params, call.args, strict=True):
            if not isinstance(param.ty, PrimType):
                tensors.append(arg)
                pairs = list(zip(dims_of(param.ty), dims_of(arg.ty), strict=True))
            elif param.same_as(variable):
                pairs = [(param, arg)]
            else:
                raise _refusal(call, "takes numbers that are known at run time")
            found = (given for own, given in pairs if variable is not None and own.same_as(variable))
            length = next(found, length)
        if length is None:
            return None, tensors
        return Length(c_text(length), most([length], self._largest)), tensors

    def _sort(self, call: Call, sort: Sort, tensors: Sequence[Expr]) -> KernelStep:
        """Return a call of the library's sort function; an output that the kernel does not have gets a buffer."""
        source, *results = map(self._place, tensors)
        wanted = most(dims_of(tensors[-1].ty), self._largest)
        values = results.pop(0) if sort.has_values else self._buffer(wanted * _bytes(sort.dtype))
        indices = results.pop(0) if sort.has_indices else self._buffer(wanted * _bytes(sort.index))
        return KernelStep(sort.function, (source, values, indices), sources_of(call), sort=sort)

    def _allocated(self, ty: relax.Type) -> TensorPlace:
        """Return a new buffer for a tensor."""
        exact = _size(ty)
        return self._buffer(most(dims_of(ty), self._largest) * _bytes(str(ty.dtype)), exact)

    def _buffer(self, bytes: int, exact: int | str | None = None) -> TensorPlace:
        """Return a new buffer of a size; for smaller lengths, only its first `exact` bytes are used."""
        self.buffers.append(bytes)
        self._exact.append(bytes if exact is None else exact)
        return TensorPlace("buffer", index=len(self.buffers) - 1)


def _leaves(value: Value) -> list[TensorPlace]:
    return (
        [value] if isinstance(value, TensorPlace) else [place for field in value for place in _leaves(field)]
    )


def _types(ty: relax.Type) -> list[relax.Type]:
    return (
        [leaf for field in ty.fields for leaf in _types(field)] if isinstance(ty, relax.TupleType) else [ty]
    )


def _like(ty: relax.Type, places: Iterator[TensorPlace]) -> Value:
    """Return locations in the tuple structure of a type."""
    if isinstance(ty, relax.TupleType):
        return tuple(_like(field, places) for field in ty.fields)
    return next(places)


def _moved(buffer: int, target: TensorPlace, place: TensorPlace) -> TensorPlace:
    """Return a location; if it is in the given buffer, return the same offset from the target instead."""
    if (place.memory, place.index) != ("buffer", buffer):
        return place
    return replace(target, offset=target.offset + place.offset)


def _relocated(steps: Iterable[Step], change: Callable[[TensorPlace], TensorPlace]) -> tuple[Step, ...]:
    return mapped(steps, lambda step: [_rewritten(step, change)], change)


def _rewritten(step: KernelStep | Copy, change: Callable[[TensorPlace], TensorPlace]) -> KernelStep | Copy:
    if isinstance(step, Copy):
        return replace(step, source=change(step.source), target=change(step.target))
    return replace(step, arguments=tuple(map(change, step.arguments)))


def _refusal(value: Expr, why: str) -> ModelError:
    names = ", ".join(sources_of(value)) or "the model"
    return ModelError(
        f"{names}: {why}, which a C library does not have. Compile it as a package, or cut that part out of the model"
    )


def _operator(value: Expr) -> str:
    return str(getattr(value.op, "name", "")) if isinstance(value, Call) else ""


def _is_offer(call: Call) -> bool:
    return str(call.op.global_symbol) == NPU_RUN


def _is_copy(call: Call) -> bool:
    return str(call.op.global_symbol) == "vm.builtin.to_device"


def _int(expr: Expr) -> int:
    return int(getattr(expr, "value", expr))


def _bytes(dtype: str) -> int:
    return np.dtype(dtype).itemsize


def _size(ty: relax.Type) -> int | str:
    """Return the size of a tensor in bytes: a number, or a C expression if it is known only at run time."""
    if not isinstance(ty.shape, relax.ShapeExpr):
        raise ModelError(
            f"a C library does not support {ty}, whose size is known only at run time; compile a package"
        )
    text = product_text(dims_of(ty), _bytes(str(ty.dtype)))
    return text if is_open(dims_of(ty)) else int(text)
