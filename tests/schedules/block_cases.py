# SPDX-License-Identifier: Apache-2.0
"""Workloads of weights and data quantised in blocks, and what they should give to the bit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx

from schedules.composites.workload import Operand, Workload
from schedules.kernels.gemm import gather_blocks, gemm_blocks
from schedules.numerics.blocks import BlockWeights, linear_blocks
from tests.schedules.programs import Array, linear


def workload_of(m: int, n: int, weights: BlockWeights, steps: Sequence[str] = ()) -> Workload:
    """A linear workload of such weights; its further constants come behind them."""
    full = linear(m, n, weights.depth, steps)
    held = weights.constants
    moved = [
        replace(s, operand=replace(s.operand, index=s.operand.index + len(held) - 1))
        if s.operand and s.operand.kind == "constant"
        else s
        for s in full.epilogue
    ]
    constants = (Operand(each.shape, str(each.dtype), "constant", at) for at, each in enumerate(held))
    return replace(
        full,
        composite=gemm_blocks.COMPOSITE,
        attributes=tuple((name, str(value)) for name, value in weights.parameters.items()),
        operands=(full.operands[0], *constants),
        epilogue=tuple(moved),
    )


class Case:
    """Operands of a workload of `bits` weights in groups, with blocks of zeros and of very different sizes."""

    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        bits: int = 4,
        group: int = 32,
        scale: str = "float16",
        offsets: bool = False,
        steps: Sequence[str] = (),
        shift: int = 0,
    ) -> None:
        rng = np.random.default_rng(7)
        integers = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k))
        scales, more = rng.normal(size=(2, n, -(-k // group))).astype(scale)
        self.weights = BlockWeights.of(integers, scales, group, bits, more if offsets else None, shift)
        self.workload = workload_of(m, n, self.weights, steps)
        x = rng.normal(size=(m, k)) * 10.0 ** rng.uniform(-3, 3, (m, k))
        x[m // 2, : min(k, 32)] = 0
        self.inputs = [x.astype(np.float32)]
        self.inputs += [rng.normal(size=(m, n)).astype(np.float32)] * ("residual" in steps)
        self.constants = list(self.weights.constants)
        self.constants += [rng.normal(size=n).astype(np.float32)] * ("bias" in steps)

    @property
    def expected(self) -> Array:
        y = linear_blocks(self.inputs[0], self.weights)
        for step in self.workload.epilogue:
            if step.operand is not None:
                y = y + (self.inputs if step.operand.kind == "input" else self.constants)[step.operand.index]
            else:
                y = np.clip(y, *(step.bounds or (np.float32(0), np.float32(np.inf))))
        return y

    def call(
        self, params: Any, kernel: Any = gemm_blocks
    ) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
        """For `programs.model_so`."""
        arguments = [*self.inputs, *kernel.pack(self.workload, params, self.constants)]
        return kernel.build(self.workload, params), arguments, self.workload.output_shape, "float32"


def gathered(case: Case, count: int) -> Workload:
    """A workload that gathers `count` rows of a case's weights."""
    ids = Operand((count,), "int32", "input", 0)
    return replace(
        case.workload,
        composite=gather_blocks.COMPOSITE,
        operands=(ids, *case.workload.operands[1:]),
        epilogue=(),
        output_shape=(count, case.weights.depth),
    )


class Gather:
    """Rows of a case's weights, some indices of which are out of bounds."""

    def __init__(self, case: Case) -> None:
        rows = len(case.weights.held)
        self.inputs = [np.array([0, 5, rows - 1, 17, -3, rows], np.int32)]
        self.constants = list(case.weights.constants)
        self.workload = gathered(case, len(self.inputs[0]))
        self.expected = case.weights.floats[np.clip(self.inputs[0], 0, rows - 1)]

    def call(self, params: Any) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
        """For `programs.model_so`."""
        arguments = [*self.inputs, *gather_blocks.pack(self.workload, params, self.constants)]
        return gather_blocks.build(self.workload, params), arguments, self.workload.output_shape, "float32"
