# SPDX-License-Identifier: Apache-2.0
"""Families of loop nests without scalar code; a function of such nests is reported under the name of its family.

    elementwise    vectors along the axis that is stored contiguously: every load is a vector (also reversed or of
                   every second element), a splat, or TBL of a byte
    transpose      reads along another axis than it writes: blocks are transposed in registers
    pool           sums and extrema with vectors along an axis of the result, accumulators in registers: windows, planes
    reduction      sums and extrema across lanes, over rows that are long compared with the final additions of lanes

All other nests are "generic": products, loads and stores of single elements, functions without vector code, short
vectors, and functions that are not scheduled at all. One such nest makes its whole function generic. So profiles show
under the name "generic" the instructions for which no schedule was written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_equal

from schedules.cores import A64, InstructionSet
from schedules.diagnostic import Diagnostic
from schedules.generic import elementwise, functions_f32, quotient, reduce
from schedules.generic.expressions import (
    CONDITIONAL,
    FUNCTIONS,
    bits_of,
    call_name,
    children,
    element,
    loads,
    step_of,
    uses,
    walk,
)
from schedules.generic.fusion import values_of
from schedules.generic.loops import lanes_for
from schedules.generic.stages import Axis, Stage
from schedules.generic.transpose import interleaved_values, is_interleaved, transposition
from schedules.generic.vector import shuffled_stride, table_index
from schedules.kernels.common.contract import KernelMatch, declined

GENERIC = "generic"

REGISTER_BITS = 128

LONG_ROW = 4 * reduce.LANES
"""Minimum length of a row that is reduced across lanes: the number of instructions that combine its lanes."""

SMALL = 256
"""Number of elements up to which a result is too small for its code to matter: single stores are accepted."""

_VECTOR_FUNCTIONS = frozenset(
    (
        *functions_f32.FUNCTIONS,
        *quotient.ROUNDINGS,
        *("sqrt", "rsqrt", "floor", "ceil", "trunc", "fabs", "isnan", "reinterpret", CONDITIONAL, "likely"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"),
    )
)
"""Functions of `expressions.FUNCTIONS` that are vector instructions or polynomials."""


@dataclass(frozen=True)
class Where:
    """The context of a nest.

    Attributes:
        rows: Number of times that the nest is executed.
        isa: The instruction set.
    """

    rows: int
    isa: InstructionSet


@dataclass(frozen=True)
class Family:
    """A named family of nests.

    Attributes:
        name: Name of the family in reports.
        matches: Returns whether a nest, in its context, belongs to the family.
    """

    name: str
    matches: Callable[[Stage, Where], KernelMatch | Diagnostic]


def name_of(nests: Sequence[Stage], where: Where) -> tuple[str, tuple[Diagnostic, ...]]:
    """Return a function's family name, by its nests, and no reasons; or "generic" and why a nest has no family."""
    names = set()
    for nest in nests:
        answers = {family.name: family.matches(nest, where) for family in FAMILIES}
        taken = [name for name, answer in answers.items() if isinstance(answer, KernelMatch)]
        if not taken:
            return GENERIC, tuple(answer for answer in answers.values() if isinstance(answer, Diagnostic))
        names.add(taken[0])
    # Elementwise nests before and after a pool or a transpose do not change the function's family.
    return next((family.name for family in reversed(FAMILIES) if family.name in names), GENERIC), ()


def _elementwise(nest: Stage, where: Where) -> KernelMatch | Diagnostic:
    if nest.reduction:
        return declined("elementwise", "it reduces", "no reduction", nest.reduction.kind, unfit=True)
    along = elementwise.stored_along(nest)
    turned = along is not None and transposition(nest, along) is not None
    if turned:
        return declined(
            "elementwise", "it reads along another axis than it writes", "one axis", "two", unfit=True
        )
    return _whole("elementwise", nest, along, where) or KernelMatch("elementwise")


def _transpose(nest: Stage, where: Where) -> KernelMatch | Diagnostic:
    along = elementwise.stored_along(nest)
    read = None if nest.reduction or along is None else transposition(nest, along)
    if along is None or read is None:
        return declined(
            "transpose",
            "it does not read along one axis and write along another",
            "two axes",
            "one",
            unfit=True,
        )
    if is_interleaved(nest, along, read):
        rows = [replace(nest, value=value) for value in interleaved_values(nest, along)]
        answers = (_whole("transpose", row, read, where) for row in rows)
        return next((answer for answer in answers if answer is not None), KernelMatch("interleaved"))
    short = min(along.extent, read.extent)
    if short < REGISTER_BITS // bits_of(nest.value) and nest.size * where.rows > SMALL:
        return declined(
            "transpose",
            "a block has no whole register",
            str(REGISTER_BITS // bits_of(nest.value)),
            str(short),
        )
    return _whole("transpose", nest, read, where) or KernelMatch("blocks")


def _pool(nest: Stage, where: Where) -> KernelMatch | Diagnostic:
    along = _reduced_along("pool", nest)
    if isinstance(along, Diagnostic):
        return along
    if nest.reduction and any(axis is along for axis in nest.reduction.axes):
        return declined(
            "pool", "it reduces across lanes", "along an axis of the result", "a reduced axis", unfit=True
        )
    return _whole("pool", nest, along, where) or KernelMatch("pool")


def _reduction(nest: Stage, where: Where) -> KernelMatch | Diagnostic:
    along = _reduced_along("reduction", nest)
    if isinstance(along, Diagnostic):
        return along
    if nest.reduction and not any(axis is along for axis in nest.reduction.axes):
        return declined(
            "reduction", "it does not reduce across lanes", "a reduced axis", "one of the result", unfit=True
        )
    if along.extent < LONG_ROW and nest.work * where.rows > SMALL:
        return declined("reduction", "rows are short", str(LONG_ROW), str(along.extent))
    return _whole("reduction", nest, along, where) or KernelMatch("reduction")


def _reduced_along(name: str, nest: Stage) -> Axis | Diagnostic:
    if nest.reduction is None:
        return declined(name, "it does not reduce", "a reduction", "none", unfit=True)
    if nest.reduction.kind == "product" or _multiplies(nest.reduction.term):
        return declined(name, "it multiplies what it reduces", "sum, max, min of one tensor", "a product")
    along = reduce.vector_axis(nest, nest.reduction)
    return along or declined(name, "every axis is of one step", "2 or more", "1")


def _multiplies(expr: ir.Expr) -> bool:
    """Whether an expression multiplies different elements; a square or GELU multiplies an element by itself."""

    def subset(left: Sequence[TensorLoad], right: Sequence[TensorLoad]) -> bool:
        return all(any(structural_equal(load, other) for other in right) for load in left)

    products = [(loads(inner.a), loads(inner.b)) for inner in walk(expr) if isinstance(inner, prim.Mul)]
    return any(a and b and not (subset(a, b) and subset(b, a)) for a, b in products)


def _whole(name: str, nest: Stage, along: Axis | None, where: Where) -> Diagnostic | None:
    """Return why a nest has no full vectors along an axis; None if it has."""
    if along is None:
        few = nest.work * where.rows <= SMALL
        return None if few else declined(name, "it stores single elements", "a contiguous axis", "none")
    values = values_of(nest)
    lanes = lanes_for(along.extent, elementwise.LANES if where.isa.vector_bytes else 1)
    widest = max(bits_of(value) for value in values)
    if lanes * widest < REGISTER_BITS and nest.work * where.rows > SMALL:
        return declined(name, "vectors are shorter than a register", str(REGISTER_BITS), str(lanes * widest))
    for value in values:
        found = _single(value, along, lanes, where.isa)
        if found is not None:
            return declined(name, found, "vectors", "single elements")
    return None


def _single(expr: ir.Expr, along: Axis, lanes: int, isa: InstructionSet) -> str | None:
    """Return why an expression, without its indices, is computed lane by lane; None if it is vector code."""
    if isinstance(expr, TensorLoad):
        if step_of(expr.indices[0], along.var) in {0, 1} or shuffled_stride(expr, along.var) is not None:
            return None
        byte = table_index(expr) if isa.name == A64.name and lanes == elementwise.LANES else None
        return "it gathers single elements" if byte is None else _single(byte, along, lanes, isa)
    name = call_name(expr)
    if name == CONDITIONAL and uses(expr.args[0], along.var):
        return "a condition changes inside of a vector"
    if name in FUNCTIONS and name not in _VECTOR_FUNCTIONS:
        return f"{name} has no vector code"
    divides = isinstance(expr, (prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod))
    if divides and "float" not in element(expr) and uses(expr, along.var) and not _shifts(expr):
        return "integers are divided"
    return next((found for child in children(expr) if (found := _single(child, along, lanes, isa))), None)


def _shifts(expr: prim.Div | prim.Mod | prim.FloorDiv | prim.FloorMod) -> bool:
    """Whether a division by a constant is an arithmetic shift, or its remainder a mask."""
    divisor = int(expr.b) if isinstance(expr.b, prim.IntImm) else 0
    return isinstance(expr, (prim.FloorDiv, prim.FloorMod)) and divisor > 0 and divisor & (divisor - 1) == 0


FAMILIES = (
    Family("elementwise", _elementwise),
    Family("transpose", _transpose),
    Family("reduction", _reduction),
    Family("pool", _pool),
)
"""Families in ascending order of precedence for a function's name; a nest belongs to the first family that matches."""

NAMES = tuple(family.name for family in FAMILIES)
