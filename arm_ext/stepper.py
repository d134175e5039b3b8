# SPDX-License-Identifier: Apache-2.0
"""A package with states, step by step on a board."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.errors import UsageError
from arm_ext.npu_status import NpuStatus
from arm_ext.package import Package
from arm_ext.running import fitting, inputs_of, on_board, returned_by_step

Array = npt.NDArray[Any]


def run_steps(
    package: Package, board: str, count: int, given: Mapping[str, Array]
) -> tuple[dict[str, Array], NpuStatus | None]:
    """Run the first steps of a package.

    Args:
        package: With states.
        board: As for `run`.
        count: How many.
        given: Input name → value of every step, or one a step along an axis in front; those left out come from the
            self-test.

    Returns:
        What the steps return by name, along an axis in front; and where NPU regions ran.

    Raises:
        UsageError: It has no states; a value is of a state, of no input, or of another shape or dtype.
    """
    states = [state.input for state in package.manifest.states]
    if not states:
        raise UsageError(
            f"{package.path}: keeps no state, so there are no steps; --state IN=OUT of compile makes an output the "
            "next value of an input"
        )
    if kept := [name for name in given if name in states]:
        raise UsageError(
            f"--input {kept[0]}: is a state, which the package keeps from step to step; what it begins with is of "
            "--state-init of compile"
        )
    ranks = {tensor.name: len(tensor.shape) for tensor in package.manifest.inputs}
    batches = [
        _inputs(package, {name: _at(name, value, ranks, step, count) for name, value in given.items()})
        for step in range(count)
    ]
    results, npu = on_board(package, board, lambda model: [model.step(values) for values in batches])
    return {
        name: np.stack([result[k] for result in results]) for k, name in enumerate(returned_by_step(package))
    }, npu


def _at(name: str, value: Array, ranks: Mapping[str, int], step: int, count: int) -> Array:
    """The value of a step."""
    if value.ndim != ranks.get(name, value.ndim) + 1:
        return value
    if len(value) != count:
        raise UsageError(f"--input {name}: has values of {len(value)} steps, and --steps says {count}")
    return np.asarray(value[step])


def _inputs(package: Package, given: Mapping[str, Array]) -> Sequence[Array]:
    view = fitting(package, given)
    return inputs_of(view, view.selftest().inputs, given)[: -len(package.manifest.states)]
