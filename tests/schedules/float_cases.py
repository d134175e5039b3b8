# SPDX-License-Identifier: Apache-2.0
"""float32 workloads with operands, and what they should give, in float64 and with the bound of the error."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.vocabulary import CONV2D
from schedules.composites.workload import Operand, OperandPadding, Workload
from tests.schedules.programs import Array, float_step, run_on_host

# What an FMLA chain may be off by: k + steps roundings of at most 2**-24 each, of the sum of magnitudes.
HALF_ULP = 2.0**-24


def conv2d(
    data: tuple[int, int, int, int],
    outputs: int,
    kernel: tuple[int, int],
    steps: Sequence[str] = (),
    *,
    strides: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    groups: int = 1,
) -> Workload:
    """An `arm.conv2d` workload of data [N, H, W, C]; the residual, if it has one, is the second input."""
    _, height, width, _ = OperandPadding.spatial(padding, 0).padded(data)
    out_h = (height - (kernel[0] - 1) * dilation[0] - 1) // strides[0] + 1
    out_w = (width - (kernel[1] - 1) * dilation[1] - 1) // strides[1] + 1
    shape = (data[0], out_h, out_w, outputs)
    attributes = {
        "data_layout": "NHWC",
        "dilation": str(list(dilation)),
        "groups": str(groups),
        "kernel_layout": "OHWI",
        "out_dtype": "None",
        "out_layout": "NHWC",
        "padding": str(list(padding)),
        "strides": str(list(strides)),
    }
    x = Operand(data, "float32", "input", 0)
    w = Operand((outputs, *kernel, data[3] // groups), "float32", "constant", 0)
    epilogue = tuple(float_step(step, shape, (1, 1, 1, outputs)) for step in steps)
    return Workload(CONV2D.name, (x, w), tuple(attributes.items()), epilogue, shape, "float32")


class Case:
    """Operands of a workload and the expected result, with an error bound.

    A share of the weights is 0, including a whole column if it is above 0; the workload then counts nonzeros.
    """

    def __init__(self, workload: Workload, zeros: float = 0.0) -> None:
        rng = np.random.default_rng(7)
        operands = (*workload.operands, *(s.operand for s in workload.epilogue if s.operand))
        values = {(o.kind, o.index): rng.normal(size=o.shape).astype(np.float32) for o in operands}
        if zeros:
            weights = values["constant", 0]
            weights[rng.random(weights.shape) < zeros] = 0
            weights[(..., 0) if weights.ndim == 2 else 0] = 0
            workload = replace(workload, nonzeros=int(np.count_nonzero(weights)))
        self.workload = workload
        self.inputs = [values["input", i] for i in range(len(workload.inputs))]
        self.constants = [values["constant", i] for i in range(len(values) - len(self.inputs))]
        x, w = self.inputs[workload.operands[0].index], self.constants[0]
        self.expected, magnitude = _product(workload, x, w), _product(workload, np.abs(x), np.abs(w))
        for step in workload.epilogue:
            if step.name == "prelu" and step.operand is not None:
                slopes = values["constant", step.operand.index]
                self.expected = np.where(self.expected > 0, self.expected, self.expected * slopes)
                magnitude = magnitude * np.maximum(1, np.abs(slopes))
            elif step.operand is not None:
                other = values[step.operand.kind, step.operand.index]
                self.expected, magnitude = self.expected + other, magnitude + np.abs(other)
            elif step.name in ("relu", "clip"):
                self.expected = np.clip(self.expected, *(step.bounds or (0.0, np.inf)))
            elif step.name == "leaky_relu":
                self.expected = np.where(
                    self.expected > 0, self.expected, self.expected * step.parameter("alpha")
                )
            else:
                raise ValueError(f"no reference for {step.name}")
        depth = math.prod(w.shape) // w.shape[-1 if w.ndim == 2 else 0]
        self.bound = (depth + len(workload.epilogue)) * HALF_ULP * magnitude

    def arguments(self, kernel: Any, params: Any) -> list[Array]:
        return [*self.inputs, *kernel.pack(self.workload, params, self.constants)]

    def on_host(self, kernel: Any, params: Any) -> Array:
        func = kernel.build(self.workload, params)
        return run_on_host(func, self.arguments(kernel, params), self.workload.output_shape, "float32")

    def call(self, kernel: Any, params: Any) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
        """For `programs.model_so`."""
        func = kernel.build(self.workload, params)
        return func, self.arguments(kernel, params), self.workload.output_shape, "float32"

    def check(self, actual: Array) -> None:
        assert actual.shape == self.expected.shape
        assert (np.abs(actual - self.expected) <= self.bound).all()


def _product(workload: Workload, x: Array, w: Array) -> Array:
    x, w = x.astype(np.float64), w.astype(np.float64)
    if workload.composite != CONV2D.name:
        return x @ w
    strides, dilation = (
        ConvolutionAttributes.of(workload).strides,
        ConvolutionAttributes.of(workload).dilation,
    )
    pads = OperandPadding.spatial(ConvolutionAttributes.of(workload).padding, 0).widths
    x, groups = np.pad(x, pads), int(dict(workload.attributes)["groups"])
    outputs, height, width, depth = w.shape
    _, rows, columns, _ = workload.output_shape
    total = np.zeros(workload.output_shape)
    for group in range(groups):
        into = slice(group * outputs // groups, (group + 1) * outputs // groups)
        for y in range(height):
            for z in range(width):
                top, left = y * dilation[0], z * dilation[1]
                taken = x[
                    :,
                    top : top + (rows - 1) * strides[0] + 1 : strides[0],
                    left : left + (columns - 1) * strides[1] + 1 : strides[1],
                    group * depth : (group + 1) * depth,
                ]
                total[..., into] += taken @ w[into, y, z].T
    return total
