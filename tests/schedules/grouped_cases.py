# SPDX-License-Identifier: Apache-2.0
"""Workloads of float data by weights in groups, and the float32 workloads that they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx

from schedules.composites.workload import Workload
from schedules.kernels.gemm import gemm_blocks_f32
from schedules.numerics.blocks import BlockWeights
from tests.schedules import float_cases
from tests.schedules.block_cases import workload_of
from tests.schedules.programs import Array, linear


def weights_of(
    n: int, k: int, group: int, bits: int = 4, offsets: bool = False, shift: int = 0, scale: str = "float32"
) -> BlockWeights:
    """Random weights."""
    rng = np.random.default_rng(5)
    integers = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k)).astype(np.int8)
    scales, more = rng.normal(size=(2, n, -(-k // group))).astype(scale)
    return BlockWeights.of(integers, scales, group, bits, more if offsets else None, shift)


def grouped(m: int, weights: BlockWeights, steps: Sequence[str] = ()) -> Workload:
    """A linear workload of such weights."""
    found = workload_of(m, len(weights.held), weights, steps)
    return replace(found, composite=gemm_blocks_f32.COMPOSITE)


class Case:
    """Operands of a workload, and what it should give.

    Attributes:
        full: The same with float32 weights.
        expected: Sums in float64.
        bound: Of the error.
    """

    def __init__(self, m: int, weights: BlockWeights, steps: Sequence[str] = ()) -> None:
        self.workload = grouped(m, weights, steps)
        self.full = float_cases.Case(linear(m, len(weights.held), weights.depth, steps))
        self.inputs = self.full.inputs
        self.constants = [*weights.constants, *self.full.constants[1:]]
        self.full.constants[0] = np.ascontiguousarray(weights.floats.T)
        self._reference()

    def _reference(self) -> None:
        """Sets `expected` and `bound`."""
        x, w = self.inputs[0].astype(np.float64), self.full.constants[0].astype(np.float64)
        expected, magnitude = x @ w, np.abs(x) @ np.abs(w)
        for step in self.full.workload.epilogue:
            if step.operand is not None:
                held = self.inputs if step.operand.kind == "input" else self.full.constants
                expected = expected + held[step.operand.index]
                magnitude = magnitude + np.abs(held[step.operand.index])
            else:
                expected = np.clip(expected, *(step.bounds or (0.0, np.inf)))
        self.expected = expected
        self.bound = (len(w) + len(self.workload.epilogue)) * float_cases.HALF_ULP * magnitude

    def call(self, kernel: Any, params: Any) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
        """For `programs.model_so`."""
        arguments = [*self.inputs, *kernel.pack(self.workload, params, self.constants)]
        return kernel.build(self.workload, params), arguments, self.workload.output_shape, "float32"

    def check(self, actual: Array) -> None:
        assert (np.abs(actual - self.expected) <= self.bound).all()
