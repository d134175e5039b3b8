# SPDX-License-Identifier: Apache-2.0
"""Emission of a nest's expressions, as scalars or as vectors along an axis."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import A64, THUMB, InstructionSet
from schedules.generic import functions_f32, quotient
from schedules.generic.expressions import (
    BINARY,
    CONDITIONAL,
    UnsupportedError,
    call_name,
    children,
    element,
    lanes_of,
    rebuild,
    step_of,
    uses,
    with_children,
)
from schedules.intrinsics.registers import VECTOR
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.epilogues import table_lookup
from schedules.tir.emit import i64, load

STRIDES = (-1, 2)
"""Steps between the elements of a lane and the next that are loaded as whole vectors, and shuffled."""

_LIMITS = {prim.Max: "maximum", prim.Min: "minimum"}


@dataclass(frozen=True)
class VectorPosition:
    """The element, or vector of consecutive elements, that an expression is emitted for.

    Attributes:
        at: Value of each axis; for `along`, that of the first lane.
        buffers: For each flat tensor of the nest, the buffer in the emitted code.
        isa: The instruction set.
        along: The axis that the lanes follow.
        lanes: Number of lanes.
        bind: Whether loads are bound to variables; loads under a condition must not be.
    """

    at: Mapping[ir.Var, ir.Expr]
    buffers: Mapping[ir.Var, tirx.Buffer]
    isa: InstructionSet
    along: ir.Var | None = None
    lanes: int = 1
    bind: bool = True

    def lane(self, number: int) -> "VectorPosition":
        """Return the scalar position of one lane."""
        if self.along is None:
            return self
        at = {**self.at, self.along: self.at[self.along] + i64(number)}
        return replace(self, at=at, along=None, lanes=1)


def compute(expr: ir.Expr, place: VectorPosition) -> ir.Expr:
    """Emit an expression: a vector of `place.lanes` lanes, or a scalar if all lanes are equal."""
    if isinstance(expr, ir.Var):
        value = place.at.get(expr, expr)
        is_axis = place.along is not None and expr.same_as(place.along)
        return tirx.Ramp(value, 1, place.lanes) if is_axis and place.lanes > 1 else value
    if isinstance(expr, TensorLoad):
        return _load(expr, place)
    name = call_name(expr)
    if name == CONDITIONAL:
        return _conditional(expr, place)
    rounded = quotient.rounded_quotient(expr) if place.isa.name == A64.name else None
    if rounded is not None:
        return _rounded_quotient(expr, rounded, place)
    quotient_of_run = quotient.limited_quotient(expr) if place.isa.name == A64.name and place.bind else None
    if quotient_of_run is not None and not _varies(quotient_of_run.args[0].b, place):
        return _limited_quotient(expr, quotient_of_run, place)
    operands = [compute(child, place) for child in children(expr)]
    lanes = max((lanes_of(operand) for operand in operands), default=1)
    if lanes > 1:
        operands = [splat(operand, lanes) for operand in operands]
    return _apply(expr, operands, lanes, place)


def splat(value: ir.Expr, lanes: int) -> ir.Expr:
    """Broadcast a scalar to `lanes` lanes; return a vector unchanged."""
    return tirx.Broadcast(value, lanes) if lanes_of(value) == 1 and lanes > 1 else value


def store(buffer: tirx.Buffer, offset: ir.Expr, value: ir.Expr, lanes: int) -> None:
    """Store a vector of `lanes` lanes at consecutive elements; a scalar is broadcast first."""
    T.buffer_store(buffer, splat(value, lanes), [offset if lanes == 1 else tirx.Ramp(offset, 1, lanes)])


def _rounded_quotient(expr: ir.Expr, rounded: quotient.Rounded, place: VectorPosition) -> ir.Expr:
    x = _bound(compute(rounded.x, place), place)
    lanes = lanes_of(x)
    whole = _rounded(quotient.compute(Vector(lanes), x, rounded))
    if call_name(expr) in quotient.ROUNDINGS:
        return whole
    integer = tirx.Cast("int32" if lanes == 1 else f"int32x{lanes}", whole)
    moved = integer + splat(tirx.IntImm("int32", rounded.zero_point), lanes)
    return tirx.Cast(element(expr) if lanes == 1 else f"{element(expr)}x{lanes}", moved)


def _varies(expr: ir.Expr, place: VectorPosition) -> bool:
    return place.along is not None and uses(expr, place.along)


def _limited_quotient(expr: ir.Expr, rounding: ir.Call, place: VectorPosition) -> ir.Expr:
    """Emit an expression that contains a rounded quotient, whose divisor is the same for all lanes."""
    division = rounding.args[0]
    x, divisor = _bound(compute(division.a, place), place), _bound(compute(division.b, place), place)
    whole = _bound(_rounded(T.Bind(quotient.divide(Vector(lanes_of(x)), x, divisor))), place)
    known = tirx.Var("whole", "float32")
    around = rebuild(expr, lambda inner: known if inner.same_as(rounding) else None)
    return compute(around, replace(place, at={**place.at, known: whole}))


def _rounded(value: ir.Expr) -> ir.Expr:
    """Emit rounding half to even; LLVM merges it with a conversion to integers."""
    shape = f"v{lanes_of(value)}" if lanes_of(value) > 1 else ""
    bits = element(value).removeprefix("float")
    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), f"llvm.roundeven.{shape}f{bits}", value)


def _rounded_by_addition(x: ir.Expr) -> ir.Expr:
    """Emit rounding half to even by addition and subtraction of 2**23, where the core has no instruction for it."""
    whole = tirx.const(2.0**23, "float32")  # from which all binary32 are integers
    bits = T.Bind(tirx.reinterpret("uint32", x))
    sign = bits & tirx.const(1 << 31, "uint32")
    magnitude = T.Bind(tirx.reinterpret("float32", bits & tirx.const((1 << 31) - 1, "uint32")))
    # Through memory, which LLVM removes: TVM's simplifier would replace x + c - c by x.
    total = T.alloc_buffer((1,), "float32", layout=None)
    store(total, i64(0), magnitude + whole, 1)
    rounded = tirx.reinterpret("uint32", load(total, i64(0), 1) - whole)
    return tirx.Select(magnitude < whole, tirx.reinterpret("float32", rounded | sign), x)


def _apply(expr: ir.Expr, operands: list[ir.Expr], lanes: int, place: VectorPosition) -> ir.Expr:
    name, dtype = call_name(expr), element(expr)
    wide = dtype if lanes == 1 else f"{dtype}x{lanes}"
    is_float = dtype.startswith("float")
    if type(expr) in _LIMITS and is_float:
        return functions_f32.extremum(_LIMITS[type(expr)], operands[0], operands[1], place.isa)
    if name in functions_f32.FUNCTIONS and dtype == "float32":
        return T.Bind(functions_f32.FUNCTIONS[name](Vector(lanes), _bound(operands[0], place)))
    if name == "rsqrt":
        root = tirx.call_intrin(wide, "tirx.sqrt", operands[0])
        return splat(tirx.const(1.0, dtype), lanes) / root
    if name in quotient.ROUNDINGS and place.isa.rounds:
        return _rounded(operands[0])
    if (
        name in quotient.ROUNDINGS
        and place.isa.machine == THUMB.machine
        and dtype == "float32"
        and lanes == 1
    ):
        return _rounded_by_addition(_bound(operands[0], place))
    if isinstance(expr, prim.Cast):
        if lanes > 1 and element(operands[0]) == "bool":
            # Not bound to a variable: TVM's analysis fails for a cast of a comparison with a broadcast vector.
            one, zero = (splat(tirx.const(number, dtype), lanes) for number in (1, 0))
            return tirx.Select(operands[0], one, zero)
        return tirx.Cast(wide, operands[0])
    if isinstance(expr, ir.Call):
        return tirx.call_intrin(wide, expr.op, *operands)
    if isinstance(expr, (*BINARY, prim.Not, prim.Select)):
        return with_children(expr, operands)
    return expr


def _bound(value: ir.Expr, place: VectorPosition) -> ir.Expr:
    return value if isinstance(value, ir.Var) else T.Bind(value)


def _conditional(expr: ir.Expr, place: VectorPosition) -> ir.Expr:
    """Emit a conditional expression: one branch if all lanes share the condition, else one branch per lane."""
    condition, yes, no = expr.args
    if place.along is not None and uses(condition, place.along):
        return _by_lane(expr, place)
    guarded = replace(place, bind=False)
    branches = [compute(yes, guarded), compute(no, guarded)]
    lanes = max(lanes_of(branch) for branch in branches)
    return tirx.if_then_else(compute(condition, guarded), *(splat(branch, lanes) for branch in branches))


def _by_lane(expr: ir.Expr, place: VectorPosition) -> ir.Expr:
    if place.along is None:
        raise UnsupportedError("a vector expression without a vector axis")
    scalars = [compute(expr, place.lane(number)) for number in range(place.lanes)]
    return scalars[0] if place.lanes == 1 else tirx.Shuffle(scalars, list(range(place.lanes)))


def _load(expr: TensorLoad, place: VectorPosition) -> ir.Expr:
    offset, buffer = expr.indices[0], place.buffers[expr.source]
    step = 0 if place.along is None else step_of(offset, place.along)
    stride = shuffled_stride(expr, place.along)
    if stride is not None and place.lanes > 1:
        return _strided(buffer, compute(offset, replace(place, along=None, lanes=1)), stride, place.lanes)
    if step not in {0, 1}:
        looked_up = _look_up(expr, buffer, place)
        return _by_lane(expr, place) if looked_up is None else looked_up
    first = replace(place, along=None, lanes=1)
    start = compute(offset, first)
    lanes = place.lanes if step else 1
    if place.bind:
        return load(buffer, start, lanes)
    return buffer.vload([start], buffer.dtype if lanes == 1 else f"{buffer.dtype}x{lanes}")


def shuffled_stride(load: TensorLoad, along: ir.Var | None) -> int | None:
    """Return the stride of a load along an axis if it is emitted as vector loads and a shuffle; else None."""
    # A vector of Booleans has one bit per element, and memory one byte.
    step = None if along is None or element(load) == "bool" else step_of(load.indices[0], along)
    return step if step in STRIDES else None


def _strided(buffer: tirx.Buffer, start: ir.Expr, stride: int, lanes: int) -> ir.Expr:
    """Emit the load of elements from `start` on with one of STRIDES; nothing outside of these elements is read."""
    dtype = f"{buffer.dtype}x{lanes}"
    if stride == -1:
        return tirx.Shuffle([buffer.vload([start - i64(lanes - 1)], dtype)], list(range(lanes))[::-1])
    # The second load ends with the last element that is needed; its first element is not used.
    halves = [buffer.vload([first], dtype) for first in (start, start + i64(lanes - 1))]
    return tirx.Shuffle(halves, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])


def _look_up(expr: TensorLoad, buffer: tirx.Buffer, place: VectorPosition) -> ir.Expr | None:
    """Emit a load from a table of 256 bytes, indexed by a vector of bytes, as TBL; return None for other loads."""
    byte = table_index(expr)
    if place.isa.name != A64.name or byte is None or place.lanes != VECTOR or not place.bind:
        return None
    table = table_lookup.registers(buffer)
    value = _bound(compute(byte, place), place)
    if lanes_of(value) == 1:
        return None
    if str(byte.ty.dtype) == "int8":
        # Entry 0 is for -128: the index is the value with its sign bit flipped.
        flip = tirx.Broadcast(tirx.IntImm("uint8", 128), place.lanes)
        value = tirx.reinterpret(f"uint8x{place.lanes}", value) ^ flip
    return T.Bind(table_lookup.look_up16(table, value))


def table_index(load: TensorLoad) -> ir.Expr | None:
    """Return the 8-bit index of a load from a table of 256 bytes; None for other loads."""
    tensor = load.source.ty
    is_table = math.prod(int(d) for d in tensor.shape) == table_lookup.SIZE
    return _byte_index(load.indices[0]) if is_table and str(tensor.dtype) in {"int8", "uint8"} else None


def _byte_index(offset: ir.Expr) -> ir.Expr | None:
    """Return b of an offset `b - (minimum of b's dtype)`, where b has 8 bits; None for other offsets."""
    base = 0
    if isinstance(offset, prim.Add) and isinstance(offset.b, prim.IntImm):
        base, offset = int(offset.b), offset.a
    while isinstance(offset, prim.Cast):
        offset = offset.value
    return offset if {"int8": 128, "uint8": 0}.get(str(offset.ty.dtype)) == base else None
