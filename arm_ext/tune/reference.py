# SPDX-License-Identifier: Apache-2.0
"""The reference of a task: random inputs, and the composite's outputs computed without hand-written kernels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from arm_ext.common.distance import distance
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import run_planned
from arm_ext.target.profiles import baseline_host
from arm_ext.tune.task import Task
from schedules.select import KERNELS

_MAIN = "main"
# Bounds of |difference| / max|expected|. Sums in another order differ in binary32 by sqrt(k) * 2^-24 of their
# terms, and Winograd's by four times that. The rounding errors of 32 products added up in binary16 are about 2^-10,
# of a product in bfloat16 2^-8; no correct kernel reaches four times these bounds, and every wrong one exceeds
# them.
_BOUNDS = {"float32": 1e-4, "float16": 2.0**-8, "bfloat16": 2.0**-6}


@dataclass(frozen=True)
class Sample:
    """The inputs, expected outputs and tolerance of one call of a task.

    Attributes:
        inputs: Inputs of the composite, in order.
        constants: Constants of the composite, as `kernel.pack` takes them.
        expected: Output that a right kernel computes.
        bound: Largest |difference| / max|expected| of a right float output; 0 where all bits must be equal.
    """

    inputs: tuple[npt.NDArray[Any], ...]
    constants: tuple[npt.NDArray[Any], ...]
    expected: npt.NDArray[Any]
    bound: float

    def unwritten(self) -> npt.NDArray[Any]:
        """Return an array for an output, filled with values that are wrong for every element."""
        exact = not self.bound
        return np.invert(self.expected) if exact else np.full_like(self.expected, np.nan)

    def fault(self, actual: npt.NDArray[Any]) -> str:
        """Return the reason why an output is wrong; "" if it is correct."""
        if not self.bound:
            wrong = np.argwhere(actual != self.expected)
            if not len(wrong):
                return ""
            at = tuple(map(int, wrong[0]))
            return (
                f"{len(wrong)} of {actual.size} values differ; the first, at {at}, is {actual[at]}, not "
                f"{self.expected[at]}"
            )
        apart = distance(actual.astype(np.float32), self.expected.astype(np.float32)).relative
        if apart <= self.bound:
            return ""
        return f"the largest difference is {apart:.2g} of the largest value, more than {self.bound:.2g}"


def sample(task: Task) -> Sample:
    """Compute the task's composite on seeded random inputs, on this machine.

    Its operators are legalised by TVM and scheduled by nothing that knows of kernels.
    """
    specs = [
        TensorSpec(f"x{index}", tuple(int(size) for size in param.ty.shape), str(param.ty.dtype))
        for index, param in enumerate(task.composite.params)
    ]
    inputs = random_inputs(specs)
    profile = baseline_host()
    options = PhaseOptions(profile, without=tuple(kernel.NAME for kernel in KERNELS))
    planned = last(run_phases(PhaseResult(_module(task)), options, after="fuse"))
    expected = run_planned(planned.mod, profile, inputs)[0]
    left = iter(inputs)
    values = [
        task.fixed[operand.index] if operand.index in task.fixed else next(left)
        for operand in task.workload.inputs
    ]
    shapes = [operand.shape for operand in task.workload.inputs]
    return Sample(
        tuple(value.reshape(shape) for value, shape in zip(values, shapes, strict=True)),
        task.constants,
        expected.reshape(task.workload.output_shape),
        _bound(task),
    )


def _module(task: Task) -> tvm.IRModule:
    """Return a module whose main is one call of the composite, or of the loops."""
    builder = relax.BlockBuilder()
    for gvar in relax.analysis.all_global_vars(task.composite):
        builder.get()[gvar] = task.routines[gvar.name_hint]
    if not (task.composite.attrs and "Composite" in task.composite.attrs):
        builder.get()[_MAIN] = task.composite
        return builder.get()
    composite = builder.add_func(task.composite, "composite")
    params = [relax.Var(f"x{index}", param.ty) for index, param in enumerate(task.composite.params)]
    with builder.function(_MAIN, params):
        with builder.dataflow():
            output = builder.emit_output(relax.Call(composite, params))
        builder.emit_func_output(output)
    return builder.get()


def _bound(task: Task) -> float:
    workload = task.workload
    if workload.output_dtype not in _BOUNDS:
        return 0.0
    dtypes = {operand.dtype for operand in workload.operands} | {workload.output_dtype}
    return max(bound for dtype, bound in _BOUNDS.items() if dtype in dtypes)
