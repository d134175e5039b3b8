# SPDX-License-Identifier: Apache-2.0
"""The generic schedule: vector code and threads for a function without a hand-written kernel."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tvm import ir, sym, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import THUMB, InstructionSet
from schedules.diagnostic import Diagnostic
from schedules.generic import elementwise, families, reduce
from schedules.generic.expressions import (
    CONDITIONAL,
    UnsupportedError,
    bits_of,
    call_name,
    children,
    element,
    loads,
)
from schedules.generic.fusion import cost, fuse, loop_cost
from schedules.generic.nest import nests
from schedules.generic.parse import parse
from schedules.generic.rows import RowLoops, share_rows
from schedules.generic.stages import Axis, Stage, StagedFunction, all_axes, each, shape_of
from schedules.generic.vector import VectorPosition
from schedules.kernels.common.threads import PARALLEL_CYCLES, each_of
from schedules.tir.emit import i64, in_root_block, kernel_function
from schedules.tir.wrapping_casts import hide_wrapping_casts

FIRST = "arm_ext.first_element"
"""Attribute of a function that copies some consecutive elements of its only input: the index of the first of them."""

_INSTRUCTIONS_PER_CYCLE = 2
"""Assumed for vector code on a core with two vector pipes; for reports and for the threshold of multithreading. A
Cortex-M executes one."""


_MOST_TENSORS = 300
"""Largest number of tensors of a function: TVM's IR builder nests a scope for each, and Python allows 1,000 nested
calls."""


@dataclass(frozen=True)
class Scheduled:
    """The result of scheduling a function.

    Attributes:
        func: The scheduled function, or the unchanged function.
        done: Description of the applied schedule, or why there is none.
        kernel: Name of the function's family; see `families`.
        cycles: Rough cycles of one call on one core; None if the function is unchanged.
        rejected: Why the function belongs to no family.
        moves: Whether the function only copies or rearranges elements.
    """

    func: tirx.PrimFunc
    done: str
    kernel: str = families.GENERIC
    cycles: float | None = None
    rejected: tuple[Diagnostic, ...] = ()
    moves: bool = False


def schedule(func: tirx.PrimFunc, isa: InstructionSet) -> Scheduled:
    """Schedule a PrimFunc of serial loops; other functions are returned unchanged, with the reason.

    Args:
        func: Fused loops as FuseTIR returns them; arguments are dense tensors.
        isa: The instruction set.
    """
    try:
        program = _hide_wrapping(fuse(parse(func)))
        first = _first_element(program)
        if first is not None and _count(program.params[0]) == _count(program.params[-1]):
            # Do not schedule a copy, so that the memory planner recognises it.
            return Scheduled(func, "unscheduled: a copy of consecutive elements", moves=True)
        rows = share_rows(program)
        scheduled, emitter = _emitted(rows, isa)
    except UnsupportedError as reason:
        return Scheduled(func, f"unscheduled: {reason}")
    kept = {str(name): func.attrs[name] for name in func.attrs.keys()} if func.attrs else {}  # noqa: SIM118
    kept |= {} if first is None else {FIRST: first}
    scheduled = scheduled.without_attr("global_symbol").with_attrs({**kept, "tirx.noalias": True})
    where = families.Where(math.prod(axis.extent for axis in rows.axes), isa)
    kernel, rejected = families.name_of(emitter.nests, where)
    cycles = where.rows * sum(_cycles(stage, isa) for stage in rows.program.stages)
    moves = all(stage.reduction is None and _is_move(stage.value) for stage in program.stages)
    return Scheduled(in_root_block(scheduled), emitter.description(), kernel, cycles, rejected, moves)


def _hide_wrapping(program: StagedFunction) -> StagedFunction:
    """Return a copy whose casts that may wrap around are hidden from TVM's simplifier; see `wrapping_casts`."""

    def hidden(stage: Stage) -> Stage:
        ranges = [(axis.var, ir.Range(0, axis.extent)) for axis in all_axes(stage)]
        return each(stage, lambda expr: hide_wrapping_casts(expr, ranges))

    return replace(program, stages=tuple(map(hidden, program.stages)))


def _is_move(value: ir.Expr) -> bool:
    """Whether a value is an element of a tensor, a constant, or a conditional between such values."""
    if call_name(value) == CONDITIONAL:
        return all(_is_move(branch) for branch in value.args[1:])
    return isinstance(value, (TensorLoad, prim.IntImm, prim.FloatImm))


def _first_element(program: StagedFunction) -> int | None:
    """Return the index of the first copied element; None unless the function copies consecutive elements."""
    stage = program.stages[0]
    if len(program.stages) > 1 or not isinstance(stage.value, TensorLoad) or program.temporaries:
        return None
    flat = {t: tirx.decl_buffer((_count(t),), str(t.ty.dtype), t.name) for t in program.params}
    found = list(nests(stage, flat))
    if len(found) != 1 or not isinstance(found[0].value, TensorLoad):
        return None
    (to,), (place,) = found[0].indices, found[0].value.indices
    distance = sym.Analyzer().simplify(place - to)
    return int(distance) if isinstance(distance, tirx.IntImm) else None


def _count(tensor: ir.Var) -> int:
    return math.prod(shape_of(tensor))


def _emitted(rows: RowLoops, isa: InstructionSet) -> "tuple[tirx.PrimFunc, _StageEmitter]":
    program = rows.program
    count = len(program.params) + len(program.temporaries)
    if count > _MOST_TENSORS:
        raise UnsupportedError(f"{count} tensors; at most {_MOST_TENSORS} are supported")
    flat = {
        tensor: tirx.decl_buffer((math.prod(shape_of(tensor)),), str(tensor.ty.dtype), tensor.name)
        for tensor in (*program.params, *program.temporaries)
    }
    arguments = [(shape_of(tensor), str(tensor.ty.dtype)) for tensor in program.params]
    with kernel_function("generic", arguments) as function:
        buffers = {flat[p]: buffer for p, buffer in zip(program.params, function.buffers, strict=True)}
        emitter = _StageEmitter(rows, flat, buffers, isa)
        if rows.axes:
            emitter.rows_in_tasks()
        else:
            emitter.allocate()
            emitter.stages({}, parallel=True)
    return function.prim_func, emitter


@dataclass
class _StageEmitter:
    """Emitter of the scheduled body; `done` has a description of each nest in `nests`."""

    rows: RowLoops
    flat: Mapping[ir.Var, tirx.Buffer]
    buffers: dict[ir.Var, tirx.Buffer]
    isa: InstructionSet
    done: list[str] = field(default_factory=list)
    nests: list[Stage] = field(default_factory=list)

    def description(self) -> str:
        """Return the description of the schedule, for reports."""
        rows = " x ".join(str(axis.extent) for axis in self.rows.axes)
        return (f"rows of {rows}: " if rows else "") + "; ".join(dict.fromkeys(self.done))

    def allocate(self) -> None:
        """Allocate the function's temporary tensors."""
        for tensor in self.rows.program.temporaries:
            size = math.prod(shape_of(tensor))
            self.buffers[self.flat[tensor]] = T.alloc_buffer((size,), str(tensor.ty.dtype), layout=None)

    def stages(self, at: Mapping[ir.Var, ir.Expr], parallel: bool) -> None:
        """Emit all stages, one after the other."""
        for stage in self.rows.program.stages:
            threads = parallel and _cycles(stage, self.isa) >= PARALLEL_CYCLES
            for nest in nests(stage, self.flat, self.rows.axes):
                self.nests.append(nest)
                emit = reduce.emit if nest.reduction else elementwise.emit
                self.done.append(emit(nest, VectorPosition(at, self.buffers, self.isa), threads))

    def rows_in_tasks(self) -> None:
        """Emit a loop over rows around all stages; the runtime's threads share it if it is long enough."""
        axes, program = self.rows.axes, self.rows.program
        count = math.prod(axis.extent for axis in axes)
        big = count * sum(_cycles(stage, self.isa) for stage in program.stages) >= PARALLEL_CYCLES
        with each_of(count, big) as index:
            self.allocate()
            at, rest = {}, index
            for axis in reversed(axes[1:]):
                at[axis.var] = T.Bind(tirx.floormod(rest, i64(axis.extent)))
                rest = T.Bind(tirx.floordiv(rest, i64(axis.extent)))
            at[axes[0].var] = rest
            self.stages(at, parallel=False)


def _cycles(stage: Stage, isa: InstructionSet) -> float:
    """Return a rough estimate of a stage's cycles on one core, for reports and for the choice of threads."""
    instructions = 2 + _instructions(stage.value, _innermost(stage))
    vectors = stage.size * instructions * _vectors(stage.value, isa)
    if stage.reduction:
        term = stage.reduction.term
        # Loads do not occupy the vector pipes of the arithmetic. Bytes are summed in 16 bits, so vectors hold twice as
        # many.
        narrow = 1 / 2 if isa.vector_bytes and reduce.byte_sum(stage) is not None else 1.0
        vectors += stage.work * (1 + cost(term)) * _vectors(term, isa) * narrow
    return vectors if isa.machine == THUMB.machine else vectors / _INSTRUCTIONS_PER_CYCLE


def _vectors(value: ir.Expr, isa: InstructionSet) -> float:
    """Return the fraction of a vector register that an element of a value occupies where it is widest."""
    if not isa.vector_bytes:
        return 1.0
    own = bits_of(value) / 8 / isa.vector_bytes
    if isinstance(value, TensorLoad):
        return own
    return max(
        [own, *(_vectors(child, isa) for child in children(value) if element(child).startswith("float"))]
    )


def _instructions(value: ir.Expr, along: Axis | None) -> float:
    """Return the instructions of an expression per iteration of the innermost loop, which is `along` unless None."""
    if along is None:
        return cost(value) + len(loads(value))
    spent = loop_cost(value, along.var)
    return spent.inside + spent.hoisted / along.extent


def _innermost(stage: Stage) -> Axis | None:
    """Return the axis of an elementwise stage's innermost loop; None for a reduction, or if no index is an axis."""
    long = {axis.var: axis for axis in stage.axes if axis.extent > 1}
    found = [long[index] for index in stage.indices if isinstance(index, ir.Var) and index in long]
    return None if stage.reduction or not found else found[-1]
