# SPDX-License-Identifier: Apache-2.0
"""Workloads of products of data quantised at run time, with the bit-exact results of the definition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

from schedules.composites.attributes import encoded
from schedules.composites.workload import Operand, Step, Workload
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.accumulator_bounds import magnitude_of_dynamic
from schedules.numerics.qdq import dynamic
from tests.schedules.products import convolution_sums, weights

# Steps that are computed to the bit: sums and limits.
STEPS = ("bias", "relu", "residual", "clip")
_CLIP = (-3.0, 5.0)


@dataclass(frozen=True)
class Window:
    """Window of a convolution; `pads` are top, left, bottom, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """Attributes of the workload."""
        layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC"}
        numbers = {"strides": self.strides, "dilation": self.dilation, "padding": self.pads}
        lists = {name: encoded(value) for name, value in numbers.items()}
        return tuple(sorted({**layouts, **lists, "groups": str(self.groups)}.items()))


class Case:
    """A workload, its operands, and the expected result.

    Attributes:
        workload: [*rows, depth] of int8 or uint8 by [depth, columns], or of images [*rows, depth] by a kernel.
        expected: Result of the definition.
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
        nine_bits: bool = False,
        constant_zero: bool = False,
        offset: bool = False,
        sums: bool = False,
        window: "Window | None" = None,
    ) -> None:
        rng, x_shape, shape = np.random.default_rng(5), (*rows, depth), (*rows, columns)
        one = (*rows, 1) if by_row and window is None else ()
        info, self.window = np.iinfo(dtype), window
        self.inputs: list[Array] = [rng.integers(info.min, info.max + 1, x_shape).astype(dtype)]
        self.zero = np.asarray(rng.integers(info.min, info.max + 1, () if constant_zero else one), np.int32)
        if constant_zero and window is not None and any(window.pads):
            self.zero = np.int32(0)  # with another one `dynamic_products` pads the data before
        self.constants: list[Array] = [self.zero] if constant_zero else []
        if not constant_zero:
            self.inputs.append(self.zero)
        w_shape = (depth, columns) if window is None else (columns, *window.kernel, depth // window.groups)
        self.weights = weights(rng, w_shape, 1 if window is None else 0, nine_bits=nine_bits)
        self.constants.append(self.weights)
        acc = self._sums()
        shape = acc.shape
        epilogue = (
            [] if sums else [Step("cast"), Step("row_scale", self._input(rng.uniform(1e-3, 1e-2, one)))]
        )
        if offset:
            # More bits than float32 has.
            self.constants.append(rng.integers(-(2**28), 2**28, columns, np.int32))
            acc = acc + self.constants[-1]
            held = Operand((columns,), "int32", "constant", len(self.constants) - 1)
            epilogue.insert(0, Step("offset", held))
        if scaled and not sums:
            epilogue.append(Step("scale", self._constant(rng.uniform(1e-3, 1e-2, columns))))
        for name in steps:
            bounds = {"relu": None, "clip": _CLIP}.get(name)
            epilogue.append(Step(name, self._operand(name, rng, shape), bounds))
        operands = (
            Operand(x_shape, dtype, "input", 0),
            Operand(self.zero.shape, "int32", *(("constant", 0) if constant_zero else ("input", 1))),
            Operand(w_shape, str(self.weights.dtype), "constant", int(constant_zero)),
        )
        self.workload = Workload(
            ("arm.linear_dynamic" if window is None else "arm.conv2d_dynamic") + "_sums" * sums,
            operands,
            () if window is None else window.attributes,
            tuple(epilogue),
            shape,
            "int32" if sums else "float32",
            magnitude=magnitude_of_dynamic(self.weights),
        )
        self.expected = acc.astype(np.int32) if sums else self._reference(acc)

    def call(self, kernel: Any, params: Any) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
        """For `programs.model_so`."""
        arguments = [*self.inputs, *kernel.pack(self.workload, params, self.constants)]
        output = (self.workload.output_shape, self.workload.output_dtype)
        return kernel.build(self.workload, params), arguments, *output

    def _sums(self) -> Array:
        if self.window is None:
            return dynamic.accumulators(self.inputs[0], self.weights, self.zero)
        top, left, bottom, right = self.window.pads
        x = np.pad(
            self.inputs[0].astype(np.int64) - self.zero, ((0, 0), (top, bottom), (left, right), (0, 0))
        )
        w, window = self.weights.astype(np.int64), self.window
        return convolution_sums(x, w, window.strides, window.dilation, window.groups)

    def _operand(self, name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> Operand | None:
        if name == "bias":
            return self._constant(rng.standard_normal(shape[-1]))
        if name == "residual":
            return self._input(rng.standard_normal(shape, np.float32))
        return None

    def _input(self, value: Array) -> Operand:
        self.inputs.append(np.asarray(value, np.float32))
        return Operand(value.shape, "float32", "input", len(self.inputs) - 1)

    def _constant(self, value: Array) -> Operand:
        self.constants.append(np.asarray(value, np.float32))
        return Operand(value.shape, "float32", "constant", len(self.constants) - 1)

    def _reference(self, acc: Array) -> Array:
        others = dict.fromkeys(("row_scale", "scale", "bias", "residual"))
        for step in self.workload.epilogue:
            if step.name in others and step.operand is not None:
                held = self.constants if step.operand.kind == "constant" else self.inputs
                others[step.name] = held[step.operand.index]
        scale, columns, bias, residual = others.values()
        y = dynamic.real(
            acc,
            np.ones(1, np.float32) if scale is None else scale,
            np.ones(1, np.float32) if columns is None else columns,
            np.zeros(1, np.float32) if bias is None else bias,
        )
        for step in self.workload.epilogue:
            match step.name:
                case "relu":
                    y = np.maximum(y, 0)
                case "residual":
                    y = y + residual
                case "clip":
                    y = np.clip(y, *_CLIP)
        return np.asarray(y, np.float32)
