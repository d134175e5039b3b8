# SPDX-License-Identifier: Apache-2.0
"""Linear layers of data quantised at run time as workloads, with what the definition gives, bit for bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx

from schedules.composites.workload import Operand, Step, Workload
from schedules.kernels.common.contract import Array
from schedules.numerics.qdq import dynamic

# Steps that are computed to the bit: sums and limits.
STEPS = ("bias", "relu", "residual", "clip")
_CLIP = (-3.0, 5.0)


class Case:
    """A workload, its operands, and what it should give.

    Attributes:
        workload: [*rows, depth] of int8 or uint8 by int8 [depth, columns].
        expected: From the definition.
    """

    def __init__(
        self,
        rows: Sequence[int],
        depth: int,
        columns: int,
        *,
        dtype: str = "int8",
        by_row: bool = True,
        scaled: bool = True,
        steps: Sequence[str] = (),
    ) -> None:
        rng, x_shape, shape = np.random.default_rng(5), (*rows, depth), (*rows, columns)
        one = (*rows, 1) if by_row else ()
        info = np.iinfo(dtype)
        self.inputs: list[Array] = [
            rng.integers(info.min, info.max + 1, x_shape).astype(dtype),
            np.asarray(rng.integers(info.min, info.max + 1, one), np.int32),
            np.asarray(rng.uniform(1e-3, 1e-2, one), np.float32),
        ]
        self.constants: list[Array] = [rng.integers(-128, 128, (depth, columns)).astype(np.int8)]
        epilogue = [Step("cast"), Step("row_scale", Operand(one, "float32", "input", 2))]
        if scaled:
            epilogue.append(Step("scale", self._constant(rng.uniform(1e-3, 1e-2, columns))))
        for name in steps:
            bounds = {"relu": None, "clip": _CLIP}.get(name)
            epilogue.append(Step(name, self._operand(name, rng, shape), bounds))
        operands = (
            Operand(x_shape, dtype, "input", 0),
            Operand(one, "int32", "input", 1),
            Operand((depth, columns), "int8", "constant", 0),
        )
        self.workload = Workload("arm.linear_dynamic", operands, (), tuple(epilogue), shape, "float32")
        self.expected = self._reference()

    def call(self, kernel: Any, params: Any) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
        """For `programs.model_so`."""
        arguments = [*self.inputs, *kernel.pack(self.workload, params, self.constants)]
        return kernel.build(self.workload, params), arguments, self.workload.output_shape, "float32"

    def _operand(self, name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> Operand | None:
        if name == "bias":
            return self._constant(rng.standard_normal(shape[-1]))
        if name == "residual":
            self.inputs.append(rng.standard_normal(shape, np.float32))
            return Operand(shape, "float32", "input", 3)
        return None

    def _constant(self, value: Array) -> Operand:
        self.constants.append(np.asarray(value, np.float32))
        return Operand(value.shape, "float32", "constant", len(self.constants) - 1)

    def _reference(self) -> Array:
        (q, zero, scale), others = self.inputs[:3], dict.fromkeys(("scale", "bias"))
        for step in self.workload.epilogue:
            if step.name in others and step.operand is not None:
                others[step.name] = self.constants[step.operand.index]
        columns, bias = others["scale"], others["bias"]
        y = dynamic.real(
            dynamic.accumulators(q, self.constants[0], zero),
            scale,
            np.ones(1, np.float32) if columns is None else columns,
            np.zeros(1, np.float32) if bias is None else bias,
        )
        for step in self.workload.epilogue:
            match step.name:
                case "relu":
                    y = np.maximum(y, 0)
                case "residual":
                    y = y + self.inputs[3]
                case "clip":
                    y = np.clip(y, *_CLIP)
        return np.asarray(y, np.float32)
