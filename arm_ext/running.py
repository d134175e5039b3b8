# SPDX-License-Identifier: Apache-2.0
"""What each way of running a package begins with: its inputs, which of its shapes they fit, and the board."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy.typing as npt

from arm_ext.board import open_board
from arm_ext.board.foreign import warn_of_foreign
from arm_ext.board.model import LoadedModel
from arm_ext.errors import UsageError
from arm_ext.npu_status import NpuStatus
from arm_ext.package import Package

_T = TypeVar("_T")


def on_board(
    package: Package, board: str, compute: Callable[[LoadedModel], _T]
) -> tuple[_T, NpuStatus | None]:
    """Return what is computed with the loaded package, and where NPU regions ran.

    Raises:
        EnvError: The board is out of reach, lacks a feature that the package needs, or fails.
    """
    manifest = package.manifest
    target = manifest.target
    with open_board(board, profile=target.profile, profile_cpu=target.qemu_cpu) as opened:
        opened.require(target.features)
        warn_of_foreign(package.path, manifest.so_sha256, opened)
        model = opened.load(package.so)
        return compute(model), model.npu_status() if package.has_npu_regions else None


def fitting(package: Package, given: Mapping[str, npt.NDArray[Any]]) -> Package:
    """Return the package as the first bucket that the values fit; as it is where it has none.

    Raises:
        UsageError: It has some, and none fits.
    """
    for view in package.views():
        specs = [tensor.spec() for tensor in view.manifest.inputs]
        if not any(spec.check(given[spec.name]) for spec in specs if spec.name in given):
            return view
    shapes = [view.describe_inputs() for view in package.views()]
    if len(shapes) > 1:
        given_shapes = ", ".join(f"{name} {value.dtype}{list(value.shape)}" for name, value in given.items())
        raise UsageError(f"--input: {given_shapes} fits none of the package's shapes: {'; '.join(shapes)}")
    return package


def inputs_of(
    package: Package, defaults: Sequence[npt.NDArray[Any]], given: Mapping[str, npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """Return all inputs, in the model's order: those given, and the defaults elsewhere.

    Raises:
        UsageError: A value is of no input, or of another shape or dtype.
    """
    specs = [tensor.spec() for tensor in package.manifest.inputs]
    unknown = sorted(set(given) - {spec.name for spec in specs})
    if unknown:
        names = ", ".join(spec.describe() for spec in specs)
        raise UsageError(f"--input names no input: {', '.join(unknown)}. The inputs are: {names}")
    for spec in specs:
        if spec.name in given and (fault := spec.check(given[spec.name])):
            raise UsageError(f"--input {spec.name}: {fault}")
    return [given.get(spec.name, default) for spec, default in zip(specs, defaults, strict=True)]


def returned_by_step(package: Package) -> list[str]:
    """Return the names of what `step` returns: the outputs that are no states, or these where there are no others."""
    states = {state.output for state in package.manifest.states}
    names = [tensor.name for tensor in package.manifest.outputs]
    return [name for name in names if name not in states] or names
