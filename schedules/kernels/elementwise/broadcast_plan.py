# SPDX-License-Identifier: Apache-2.0
"""Parsing of functions of two 8-bit tensors, one broadcast or constant: operands, loops and affine form."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedules.composites.workload import Workload
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.registers import VECTOR
from schedules.kernels.common.contract import declined
from schedules.kernels.elementwise import binary_workload
from schedules.kernels.elementwise.affine_forms import (
    Affine,
    Array,
    BroadcastFunction,
    RescaledBroadcastFunction,
    of_constant,
    of_values,
)
from schedules.kernels.elementwise.binary_forms import Per, QuantizedBinary, Rescaled
from schedules.kernels.elementwise.binary_workload import BINARY, is_rescaled, per_of, scale_of
from schedules.kernels.epilogues.requantize import Requantization
from schedules.numerics import tosa
from schedules.numerics.tosa.binary import Term

LONG = 288
"""Runs below this length are repeated up to it, until 16 divides them. LLVM unrolls loops of eight trips or fewer, of
two vectors each, and would then keep more of what is read along than there are registers."""


LEAST = 64
"""Elements for which one run numbers, where there are several, from which on making it ready is cheap beside them."""

FEW = 4
"""Runs from which on it pays to look up m and k of each value of a run."""


@dataclass(frozen=True)
class BroadcastPlan:
    """How a function with a broadcast or constant operand is computed.

    A run of `inner` contiguous elements of this operand is used for `repeats` consecutive runs of the tensor.

    Attributes:
        function: The function of the tensor and the broadcast operand.
        whole: Index, among the operands of the composite, of the operand that has the output's shape.
        other: Quantisation of the broadcast operand; None for a constant.
        outer: (extent, stride of the broadcast operand in elements) of each axis outside of the repeats.
        repeats: Number of runs of the tensor for which a run of the other operand is used.
        inner: Number of elements of a run.
        form: `Affine.shift` and `Affine.lift` of the affine form; None if the function has none (because of ties).
    """

    function: BroadcastFunction
    whole: int
    other: Per | None
    outer: tuple[tuple[int, int], ...]
    repeats: int
    inner: int
    form: tuple[int, int] | None = None

    @property
    def copies(self) -> int:
        """Number of copies of a run in the table, such that their length is a multiple of a vector."""
        if self.inner >= LONG:
            return 1
        whole = VECTOR // math.gcd(self.inner, VECTOR)
        return whole * -(-min(LONG, self.repeats * self.inner) // (whole * self.inner))

    @property
    def period(self) -> int:
        """Number of elements of all copies of a run in the table."""
        return self.inner * self.copies

    @property
    def to(self) -> Requantization:
        """Requantisation to the output."""
        return Requantization(self.function.y.zero_point, *self.function.limits, self.function.y.dtype)

    @property
    def what(self) -> QuantizedBinary:
        """The function as one of two run-time tensors; ValueError if an operand is constant."""
        if self.other is None:
            raise ValueError("one of the two is a constant")
        return self.function.pair(self.other)

    def affine(self, constants: Sequence[Array]) -> Affine | None:
        """Return the affine form for each value of the broadcast operand, or each element of the constant."""
        return (
            of_values(self.function, self.other) if self.other else of_constant(self.function, constants[0])
        )


def read(workload: Workload) -> BroadcastPlan | Diagnostic:
    """Parse a workload of `BINARY`."""
    if workload.composite not in BINARY:
        return _no(
            "composite is no function of two tensors", ", ".join(BINARY), workload.composite, unfit=True
        )
    dtypes = {o.dtype for o in workload.operands if o.kind == "input"} | {workload.output_dtype}
    if not dtypes <= {"int8", "uint8"}:
        return _no("a tensor is not of 8 bits", "int8, uint8", ", ".join(sorted(dtypes)), unfit=True)
    shape = workload.output_shape
    if math.prod(shape) == 0:
        return _no("a dimension is 0", "1 or more", str(shape))
    shapes = [operand.shape for operand in workload.operands]
    kinds = [operand.kind for operand in workload.operands]
    full = [i for i, own in enumerate(shapes) if kinds[i] == "input" and _padded(own, len(shape)) == shape]
    if not full:
        return _no("both operands broadcast", str(shape), " and ".join(map(str, shapes)))
    if len(full) == len(shapes):
        return _no("no operand broadcasts", "a broadcast or constant operand", str(shape), unfit=True)
    whole = full[0]
    function, other = _function(workload, whole)
    outer, repeats, inner = _axes(shape, _padded(shapes[1 - whole], len(shape)))
    if other and outer and repeats * inner < LEAST:
        return _no(
            "the unchanged operand is read for too few elements", f"{LEAST} or more", str(repeats * inner)
        )
    plan = BroadcastPlan(function, whole, other, outer, repeats, inner, workload.affine)
    if other is not None:
        form = of_values(function, other) if repeats >= FEW else None
        plan = replace(plan, form=(form.shift, form.lift)) if form else plan
    return plan if plan.form else _without_form(plan)


def _without_form(plan: BroadcastPlan) -> BroadcastPlan | Diagnostic:
    """Return `plan`, which has no affine form, if computing its function step by step is exact; else a rejection."""
    if not isinstance(plan.function, RescaledBroadcastFunction):
        return plan
    if plan.other is None:
        return _no("a value of the constant has no exact affine form", "one for each of its numbers", "none")
    what = plan.what
    if isinstance(what, Rescaled) and not what.exact():
        return _no(*binary_workload.overflow(what))
    return plan


def affine_form(workload: Workload, constants: Sequence[Array]) -> tuple[int, int] | None:
    """Return the right shift of the sum and the left shift of the input (`Affine.shift` and `Affine.lift`).

    Returns:
        None if the workload is not a function of a tensor and a constant, or has no affine form.
    """
    kinds = [operand.kind for operand in workload.operands]
    if workload.composite not in BINARY or kinds.count("constant") != 1:
        return None
    whole = kinds.index("input")
    if not {workload.operands[whole].dtype, workload.output_dtype} <= {"int8", "uint8"}:
        return None
    form = of_constant(_function(workload, whole)[0], constants[0])
    return None if form is None else (form.shift, form.lift)


def _function(workload: Workload, whole: int) -> tuple[BroadcastFunction, Per | None]:
    """Return the function whose tensor is operand `whole`, and the other operand's quantisation (None: a constant)."""
    attributes, other = dict(workload.attributes), None
    # If one operand is a constant, operand 0 is the tensor, even if it is the function's second operand.
    quantised = [name for name in "ab" if f"{name}_zero_point" in attributes]
    names = quantised if len(quantised) > 1 else quantised * len(workload.operands)
    dtypes = [operand.dtype for operand in workload.operands]
    own, y = per_of(workload, names[whole], dtypes[whole]), per_of(workload, "y", workload.output_dtype)
    limits = int(attributes["low"]), int(attributes["high"])
    what = BINARY[workload.composite], names[whole] == "a", own, y, limits
    if len(quantised) > 1:
        other = per_of(workload, names[1 - whole], dtypes[1 - whole])
    if not is_rescaled(workload):
        return BroadcastFunction(*what), other
    # A constant already has the scale of the operator, so its RESCALE is 1.
    term = (
        Term(other.zero_point, scale_of(workload, names[1 - whole])) if other else Term(0, tosa.scale_of(1))
    )
    return RescaledBroadcastFunction(
        *what, scale_of(workload, names[whole]), term, scale_of(workload, "y")
    ), other


def _axes(shape: Sequence[int], other: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], int, int]:
    """Return `outer`, `repeats` and `inner` of a `BroadcastPlan` for the shapes of both operands."""
    groups: list[tuple[int, bool]] = []
    for extent, own in zip(shape, other, strict=True):
        if extent == 1:
            continue
        if groups and groups[-1][1] == (own > 1):
            groups[-1] = (groups[-1][0] * extent, own > 1)
        else:
            groups.append((extent, own > 1))
    inner = groups.pop()[0] if groups and groups[-1][1] else 1
    repeats = groups.pop()[0] if groups else 1
    steps = [inner * math.prod(e for e, along in groups[at + 1 :] if along) for at in range(len(groups))]
    outer = tuple((e, step if along else 0) for (e, along), step in zip(groups, steps, strict=True))
    return outer, repeats, inner


def _padded(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + tuple(shape)


def _no(reason: str, limit: str, actual: str, *, unfit: bool = False) -> Diagnostic:
    return declined("broadcast_s8", reason, limit, actual, unfit)
