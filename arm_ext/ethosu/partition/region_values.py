# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of each NPU region as computed by the CPU kernels, for checks of the payloads."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax

from arm_ext.ethosu.ops.common.operators import RunTimeTensor
from arm_ext.ethosu.ops.common.reading import variables
from arm_ext.ethosu.partition.parts import NpuPart
from arm_ext.package import RegionValues
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import planned_runner
from relay_passes.ir.main_signature import returning
from relay_passes.ir.sources import bindings_of

Arrays = list[npt.NDArray[Any]]


def region_values(
    integer: tvm.IRModule, parts: Sequence[NpuPart], inputs: Sequence[npt.NDArray[Any]], options: PhaseOptions
) -> tuple[Arrays, list[RegionValues]]:
    """Run a model by the CPU's kernels on this machine; return its outputs, and the values of its regions.

    Args:
        integer: Result of the phase `integerize`.
        parts: Operators of each region.
        inputs: Inputs of the model.
        options: Phase options with this machine as target.

    Returns:
        The model's outputs, and the values by region.
    """
    main = integer["main"]
    bound = {binding.var: binding.value for binding in bindings_of(main)}
    result = bound.get(main.body.body)
    results = variables([result if isinstance(result, relax.Tuple) else main.body.body])
    tensors = [tensor for part in parts for tensor in (*part.inputs, *part.outputs)]
    found = value_runner(integer, [*results, *(tensor.var for tensor in tensors)], options)(inputs)

    def values(of: Sequence[RunTimeTensor]) -> Arrays:
        return [found[tensor.var] for tensor in of]

    regions = [RegionValues(values(part.inputs), values(part.outputs)) for part in parts]
    return [found[result] for result in results], regions


def value_runner(
    integer: tvm.IRModule, variables: Sequence[relax.Var], options: PhaseOptions
) -> Callable[[Sequence[npt.NDArray[Any]]], dict[relax.Var, npt.NDArray[Any]]]:
    """Return a function from a model's inputs to the values of variables, computed by the CPU's kernels.

    Args:
        integer: Result of the phase `integerize`.
        variables: Variables of its `main`.
        options: Phase options with this machine as target.
    """
    params = integer["main"].params
    wanted = [var for var in dict.fromkeys(variables) if var not in params]
    planned = last(run_phases(PhaseResult(returning(integer, wanted)), options, after="integerize"))
    run = planned_runner(planned.mod, options.profile)

    def values(inputs: Sequence[npt.NDArray[Any]]) -> dict[relax.Var, npt.NDArray[Any]]:
        return dict(zip(params, inputs, strict=True)) | dict(zip(wanted, run(inputs), strict=True))

    return values
