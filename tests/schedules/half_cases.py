# SPDX-License-Identifier: Apache-2.0
"""Workloads of 16-bit floats and of int8 weights, what they should give, in float64, and the bound of the error."""

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from tvm import tirx

from schedules.composites.workload import Operand, Step, Workload
from schedules.kernels.gemm import product_float
from schedules.kernels.gemm.widen_s8 import FRACTION
from schedules.kernels.tiles import fmla_f16_tile
from tests.schedules.float_cases import HALF_ULP, _product
from tests.schedules.programs import Array

DTYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
}
# Unit roundoffs.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 0.0}


def halved(full: Workload, dtype: str, *, cast: bool = True) -> Workload:
    """A float32 workload as graphs of 16 bits have it: float16 is what follows the cast, bfloat16 the product alone."""
    follows = dtype if dtype == "float16" and cast else "float32"
    steps = tuple(
        replace(step, operand=replace(step.operand, dtype=follows)) if step.operand else step
        for step in full.epilogue
    )
    casts = (Step(product_float.CAST),) if cast else ()
    return replace(
        full,
        composite=full.composite + product_float.SUFFIXES[dtype],
        operands=tuple(replace(operand, dtype=dtype) for operand in full.operands),
        epilogue=(*casts, *steps) if dtype == "float16" else (*steps, *casts),
        output_dtype=dtype if cast else "float32",
    )


def weight_only(full: Workload, dtype: str) -> Workload:
    """A float32 linear workload of int8 weights, whose data is of the given dtype."""
    scale = Step(product_float.SCALE, Operand((full.output_shape[-1],), "float32", "constant", 2))
    whole = halved(full, "float16") if dtype == "float16" else full
    x, w = whole.operands
    return replace(
        whole,
        composite=product_float.WEIGHT_ONLY,
        operands=(x, replace(w, dtype="int8")),
        epilogue=(scale, *whole.epilogue),
    )


class Case:
    """Operands of a workload and what it should give."""

    def __init__(self, workload: Workload, *, data_scale: float = 1.0) -> None:
        rng = np.random.default_rng(7)
        operands = (*workload.operands, *(s.operand for s in workload.epilogue if s.operand))
        values = {(o.kind, o.index): _values(rng, o) for o in operands}
        x = workload.operands[0]
        values[x.kind, x.index] = (values[x.kind, x.index] * data_scale).astype(DTYPES[x.dtype])
        self.workload = workload
        self.inputs = [values["input", i] for i in range(len(workload.inputs))]
        self.constants = [values["constant", i] for i in range(len(values) - len(self.inputs))]
        self.reference(values)

    def reference(self, values: dict[tuple[str, int], Array]) -> None:
        """Sets `expected` and `bound`."""
        workload, full = self.workload, product_float.in_full(self.workload)
        w = self.constants[0].astype(np.float64)
        scale = workload.step(product_float.SCALE)
        if scale is not None and scale.operand is not None:
            w = w * self.constants[scale.operand.index].astype(np.float64)
        x = self.inputs[workload.operands[0].index].astype(np.float64)
        expected, magnitude = _product(full, x, w), _product(full, np.abs(x), np.abs(w))
        bound = self._sum_bound(magnitude, w, float(np.abs(x).max(initial=0)))
        for step in full.epilogue:
            if step.name == "prelu" and step.operand is not None:
                slopes = values["constant", step.operand.index].astype(np.float64)
                steep = np.maximum(1, np.abs(slopes))
                expected = np.where(expected > 0, expected, expected * slopes)
                magnitude, bound = magnitude * steep, bound * steep
            elif step.operand is not None:
                other = values[step.operand.kind, step.operand.index].astype(np.float64)
                expected, magnitude = expected + other, magnitude + np.abs(other)
            else:
                expected = np.clip(expected, *(step.bounds or (0.0, np.inf)))
        bound = bound + (len(workload.epilogue) + 1) * HALF_ULP * magnitude
        # The result's own rounding, of a value that is off by so much already; 2^-25 where it is no normal float16.
        bound = bound + ROUNDING[workload.output_dtype] * (np.abs(expected) + bound) + 2.0**-25
        self.expected, self.bound = expected, bound

    def _sum_bound(self, magnitude: Array, w: Array, largest: float) -> Array:
        """Of the sum, as the tiles' modules state it."""
        depth = math.prod(w.shape) // w.shape[-1 if w.ndim == 2 else 0]
        if self.workload.operands[0].dtype == "float32":
            return depth * HALF_ULP * magnitude
        if self.workload.operands[0].dtype == "bfloat16":
            return (depth / 2 + 2) * 2.0**-23 * magnitude
        chunk = (1 + ROUNDING["float16"]) ** fmla_f16_tile.CHUNK - 1
        # Below 2^-14 binary16 has steps of 2^-24: of weights and of sums, both scaled.
        scaled_back = 4 * np.abs(w).sum(axis=0 if w.ndim == 2 else (1, 2, 3))
        if self.workload.operands[1].dtype == "int8":
            scaled_back = self.constants[2].astype(np.float64) * 2.0**FRACTION
        tiny = depth * 2.0**-25 * (1 + largest) * scaled_back
        return (chunk + depth * HALF_ULP) * magnitude + tiny

    def call(self, kernel: Any, params: Any) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
        """For `programs.model_so`."""
        func = kernel.build(self.workload, params)
        arguments = [*self.inputs, *kernel.pack(self.workload, params, self.constants)]
        return func, arguments, self.workload.output_shape, self.workload.output_dtype

    def check(self, actual: Array) -> None:
        assert actual.shape == self.expected.shape
        assert actual.dtype == DTYPES[self.workload.output_dtype]
        error = np.abs(actual.astype(np.float64) - self.expected)
        assert (error <= self.bound).all(), (self.workload, float((error / self.bound).max()))


def _values(rng: np.random.Generator, operand: Operand) -> Array:
    if operand.dtype == "int8":
        return rng.integers(-128, 128, operand.shape).astype(np.int8)
    return rng.normal(size=operand.shape).astype(DTYPES[operand.dtype])
