# SPDX-License-Identifier: Apache-2.0
"""Sums and differences of two 8-bit tensors on Cortex-M, in integers: no FPU is needed.

The form `Linear` of `binary_forms`, ((a + k) * ma + b * mb modulo 2**32) >> shift, takes two multiply-accumulates, a
shift and a saturation for each element. Helium widens sixteen bytes of each tensor by VMOVLB and VMOVLT, in the order
in which VQMOVNB and VQMOVNT narrow four vectors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import MVE, Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import mve
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature
from schedules.kernels.elementwise.binary_forms import Linear, QuantizedBinary, form_of
from schedules.kernels.elementwise.binary_workload import BINARY, binary_of, shapes_misfit, tensors_misfit
from schedules.kernels.epilogues.requantize import Requantization
from schedules.kernels.epilogues.requantize_mve import LANES, VECTOR, narrowed
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "binary_s8_m"

VECTOR_INSTRUCTIONS, SCALAR_INSTRUCTIONS = 44, 10
"""Instructions of sixteen elements on Helium, and of one element on other cores."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        vectors: Whether the core has the vectors of Helium.
    """

    vectors: bool


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept sums and differences of two tensors of one shape that have the form `Linear`, on Cortex-M."""
    if workload.composite not in BINARY:
        limit = ", ".join(BINARY)
        return declined(NAME, "composite is no sum or difference", limit, workload.composite, unfit=True)
    if not core.is_microcontroller:
        return missing_feature(NAME, "Cortex-M", core)
    misfit = tensors_misfit(NAME, workload, workload.operands) or shapes_misfit(NAME, workload)
    if misfit is not None:
        return misfit
    what = binary_of(workload)
    if _Terms.of(what) is None:
        form = type(form_of(what)).__name__.lower()
        return declined(NAME, "it has no integer form whose sums fit int32", "linear", form)
    return KernelMatch(f"sum of {math.prod(workload.output_shape)} pairs of bytes, in integers")


def default(workload: Workload, core: Core) -> Params:
    """Return the parameters for the core's instruction set."""
    return Params(core.isa.name == MVE.name)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the only parameters."""
    return (default(workload, core),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the instructions of one call."""
    elements = math.prod(workload.output_shape)
    vectors, rest = divmod(elements, VECTOR) if params.vectors else (0, elements)
    return vectors * VECTOR_INSTRUCTIONS + rest * SCALAR_INSTRUCTIONS


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return no constants: those of the form are in the code."""
    return ()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments.append((workload.output_shape, workload.output_dtype))
    places = [operand.index for operand in workload.operands]
    with kernel_function(workload.composite.replace(".", "_"), arguments, places) as function:
        sum_ = _Sum.of(workload, [function.buffers[place] for place in places], function.buffers[-1])
        count = math.prod(workload.output_shape)
        whole = count // VECTOR if params.vectors else 0
        if whole:
            with T.serial(i64(0), i64(whole)) as vector:
                sum_.sixteen(T.Bind(vector * VECTOR))
        with T.serial(i64(0), i64(count - whole * VECTOR)) as rest:
            sum_.one(T.Bind(rest + whole * VECTOR))
    assert function.prim_func is not None
    return function.prim_func


@dataclass(frozen=True)
class _Terms:
    """The form `Linear` as (constant + x * its factor + z * its factor) >> shift, in which no sum exceeds int32.

    Attributes:
        order: Positions of x and z among the operands.
        constant: The constant.
        factors: The factors of x and z.
        shift: The shift.
    """

    order: tuple[int, int]
    constant: int
    factors: tuple[int, int]
    shift: int

    @classmethod
    def of(cls, what: QuantizedBinary) -> "_Terms | None":
        """Return the terms of a function; None if it has no such form."""
        form = form_of(what)
        if not isinstance(form, Linear):
            return None
        factors, dtypes = (form.ma, form.mb), (what.a.dtype, what.b.dtype)
        spans = [_span(dtype, factor) for dtype, factor in zip(dtypes, factors, strict=True)]
        # The form knows the constant modulo 2**32: it is the one for which the whole sum fits.
        least = sum(low for low, _ in spans)
        constant = -_LIMIT - least + (form.k * form.ma + _LIMIT + least) % (2 * _LIMIT)
        for x, z in ((0, 1), (1, 0)):
            low, high = spans[x]
            some = (*spans[0], *spans[1], constant, constant + low, constant + high)
            if all(-_LIMIT <= value < _LIMIT for value in some):
                return cls((x, z), constant, (factors[x], factors[z]), form.shift)
        return None


_LIMIT = 1 << 31


def _span(dtype: str, factor: int) -> tuple[int, int]:
    """Return the least and the greatest product of a value of a dtype and a factor."""
    info = np.iinfo(dtype)
    low, high = sorted((int(info.min) * factor, int(info.max) * factor))
    return low, high


@dataclass(frozen=True)
class _Sum:
    """A sum or difference, and its flat buffers.

    Attributes:
        terms: Its terms.
        to: Quantisation of the result.
        operands: The two tensors.
        y: The result.
    """

    terms: _Terms
    to: Requantization
    operands: Sequence[tirx.Buffer]
    y: tirx.Buffer

    @classmethod
    def of(cls, workload: Workload, operands: Sequence[tirx.Buffer], y: tirx.Buffer) -> "_Sum":
        """Return the function that a workload computes."""
        what = binary_of(workload)
        terms = _Terms.of(what)
        assert terms is not None
        return cls(terms, Requantization(what.y.zero_point, what.low, what.high, what.y.dtype), operands, y)

    def _total(self, words: Sequence[ir.Expr], lanes: int) -> ir.Expr:
        """Emit the result of int32 elements before saturation."""

        def constant(value: int) -> ir.Expr:
            word = tirx.IntImm("int32", value)
            return word if lanes == 1 else tirx.Broadcast(word, lanes)

        total = constant(self.terms.constant)
        for place, factor in zip(self.terms.order, self.terms.factors, strict=True):
            total = T.Bind(total + words[place] * constant(factor))
        return T.Bind(total >> constant(self.terms.shift))

    def one(self, at: ir.Expr) -> None:
        """Emit the result of an element."""
        words = [T.Bind(tirx.Cast("int32", load(x, at, 1))) for x in self.operands]
        low, high = (tirx.IntImm("int32", limit) for limit in (self.to.low, self.to.high))
        value = tirx.min(tirx.max(self._total(words, 1), low), high)
        T.buffer_store(self.y, tirx.Cast(self.to.dtype, value), [at])

    def sixteen(self, at: ir.Expr) -> None:
        """Emit the results of sixteen elements on Helium."""
        words = [_words(load(x, at, VECTOR)) for x in self.operands]
        totals = [self._total(pair, LANES) for pair in zip(*words, strict=True)]
        store(self.y, narrowed(totals, self.to), at, VECTOR)


def _words(value: ir.Expr) -> list[ir.Expr]:
    """Emit four vectors of words of sixteen bytes, in the order of `requantize_mve.ORDER`."""
    halves = [
        T.Bind(tirx.Cast("int16x8", tirx.Shuffle([value], list(range(odd, VECTOR, 2))))) for odd in (0, 1)
    ]
    return [T.Bind(mve.vmovl(half, odd=odd)) for half in halves for odd in (False, True)]
