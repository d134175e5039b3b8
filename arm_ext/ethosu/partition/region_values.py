# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of each NPU region as computed by the CPU kernels, for checks of the payloads."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax

from arm_ext.ethosu.ops.common.operators import Tensor
from arm_ext.ethosu.ops.common.reading import variables
from arm_ext.ethosu.partition.parts import Part
from arm_ext.package import RegionValues
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import run_planned
from relay_passes.ir.sources import bindings_of

Arrays = list[npt.NDArray[Any]]


def region_values(
    integer: tvm.IRModule, parts: Sequence[Part], inputs: Sequence[npt.NDArray[Any]], options: PhaseOptions
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
    found = dict(zip(main.params, inputs, strict=True))
    tensors = [tensor for part in parts for tensor in (*part.inputs, *part.outputs)]
    wanted = [var for var in dict.fromkeys([*results, *(t.var for t in tensors)]) if var not in found]
    found.update(zip(wanted, _run(returning(integer, wanted), inputs, options), strict=True))

    def values(of: Sequence[Tensor]) -> Arrays:
        return [found[tensor.var] for tensor in of]

    regions = [RegionValues(values(part.inputs), values(part.outputs)) for part in parts]
    return [found[result] for result in results], regions


def returning(mod: tvm.IRModule, variables: Sequence[relax.Var]) -> tvm.IRModule:
    """Return the module with a `main` that returns the given variables of its only dataflow block."""
    main = mod["main"]
    (block,) = main.body.blocks
    fields = relax.Tuple(list(variables))
    result = relax.Var("values", relax.TupleType([variable.ty for variable in variables]))
    bindings = [*block.bindings, relax.VarBinding(result, fields)]
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], result)
    changed = mod.clone()
    changed["main"] = relax.Function(main.params, body, result.ty, main.is_pure, main.attrs)
    return relax.transform.DeadCodeElimination(["main"])(relax.transform.Normalize()(changed))


def _run(mod: tvm.IRModule, inputs: Sequence[npt.NDArray[Any]], options: PhaseOptions) -> Arrays:
    planned = last(run_phases(PhaseResult(mod), options, after="integerize"))
    return run_planned(planned.mod, options.profile, inputs)
