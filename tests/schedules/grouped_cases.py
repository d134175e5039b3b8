# SPDX-License-Identifier: Apache-2.0
"""Workloads of weights of 4 bits with a scale a group, and the float32 workloads that they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx

from schedules.composites.workload import Operand, Workload
from schedules.kernels.gemm import gemm_w4
from schedules.numerics.grouped import packed, weights
from tests.schedules import float_cases
from tests.schedules.programs import Array, linear


def grouped(m: int, n: int, k: int, group: int, steps: Sequence[str] = ()) -> Workload:
    """A linear workload of weights of 4 bits; its further constants come behind bytes and scales."""
    full = linear(m, n, k, steps)
    moved = [
        replace(s, operand=replace(s.operand, index=s.operand.index + 1))
        if s.operand and s.operand.kind == "constant"
        else s
        for s in full.epilogue
    ]
    held = Operand((-(-k // 2), n), "int8", "constant", 0)
    scales = Operand((-(-k // group), n), "float32", "constant", 1)
    return replace(
        full,
        composite=gemm_w4.COMPOSITE,
        attributes=(("group", str(group)),),
        operands=(full.operands[0], held, scales),
        epilogue=tuple(moved),
    )


class Case:
    """Operands of a workload, and what it should give.

    Attributes:
        full: The same with float32 weights.
        expected: Sums in float64.
        bound: Of the error.
    """

    def __init__(self, m: int, n: int, k: int, group: int, steps: Sequence[str] = ()) -> None:
        rng = np.random.default_rng(5)
        self.workload = grouped(m, n, k, group, steps)
        self.full = float_cases.Case(linear(m, n, k, steps))
        integers = rng.integers(-8, 8, (k, n)).astype(np.int8)
        scales = rng.normal(size=(-(-k // group), n)).astype(np.float32)
        self.inputs = self.full.inputs
        self.constants = [packed(integers), scales, *self.full.constants[1:]]
        self.full.constants[0] = weights(*self.constants[:2], group, k)
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
