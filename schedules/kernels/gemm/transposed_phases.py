# SPDX-License-Identifier: Apache-2.0
"""Decomposition of a transposed convolution into ordinary convolutions, one per phase of its outputs.

A phase is the outputs with the same remainder modulo the strides; they use the same kernel taps. No zeros are inserted
between the inputs, so no multiplication by zero is computed. Phases of columns that read the same inputs (all phases do
if the kernel is as wide as the stride) are neighbours in the output and become one product.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from schedules.composites.transposed_convolution import Geometry, OutputPhase
from schedules.composites.workload import OperandPadding
from schedules.kernels.common.contract import Array
from schedules.kernels.gemm import implicit_rows as implicit
from schedules.kernels.gemm.implicit_rows import ImplicitRows

Kernels = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""For each run of the output channels, rows and columns of the kernel, in the order of the inputs they are
multiplied with."""

MOST = 16
"""Products of one kernel, each of which is code of its own."""


@dataclass(frozen=True)
class PhaseConvolution:
    """One ordinary convolution of the decomposition.

    Attributes:
        rows: The matrix A, in the data with its border.
        output: Layout of the result's rows in the output.
        kernels: For each phase that is part of the product, its kernel taps (rows, columns).
    """

    rows: ImplicitRows
    output: ImplicitRows
    kernels: Kernels


def problem(geometry: Geometry) -> tuple[str, str, str] | None:
    """Return why a transposed convolution is not supported (reason, limit, actual value); None if it is supported."""
    if geometry.groups > 1:
        return "channels are in groups", "1 group", str(geometry.groups)
    if not all(phase.taps for axis in geometry.axes for phase in axis.phases()):
        return "some outputs meet no input", "a kernel that covers the strides", str(geometry.weights[1:3])
    count = len(parts(geometry))
    return ("too many phases", str(MOST), str(count)) if count > MOST else None


def pad_of(geometry: Geometry, value: float) -> OperandPadding | None:
    """Return the padding of the data, filled with `value`, that the convolutions read; None if they read none."""
    (top, bottom), (left, right) = (axis.border() for axis in geometry.axes)
    border = (top, left, bottom, right)
    return OperandPadding.spatial(border, value) if any(border) else None


def parts(geometry: Geometry) -> tuple[PhaseConvolution, ...]:
    """Return the ordinary convolutions, which together compute all outputs."""
    rows, columns = geometry.axes
    images, _, _, channels = geometry.data
    pad = pad_of(geometry, 0)
    _, height, width, _ = pad.padded(geometry.data) if pad else geometry.data
    found = []
    for down in rows.phases():
        for run in _runs(columns.phases()):
            across = run[0]
            taps, steps = (len(down.taps), len(across.taps)), (down.step, across.step)
            all_rows = implicit.convolution((images, height, width, channels), taps, (1, 1), steps, 1)
            start = (down.start + rows.border()[0]) * width + across.start + columns.border()[0]
            line = columns.outputs * geometry.weights[0]
            output = ImplicitRows(
                (images, down.count, across.count),
                (rows.outputs * line, rows.stride * line, columns.stride * geometry.weights[0]),
                ((0, len(run) * geometry.weights[0]),),
                down.first * line + across.first * geometry.weights[0],
            )
            own = replace(all_rows, shape=output.shape, start=start * channels)
            found.append(PhaseConvolution(own, output, tuple((down.taps, phase.taps) for phase in run)))
    return tuple(found)


def weights_of(w: Array, kernels: Kernels) -> Array:
    """Return one convolution's weights, [columns, depth], chosen from the weights of the transposed convolution."""
    chosen = [w[:, list(down)][:, :, list(across)].reshape(len(w), -1) for down, across in kernels]
    return np.concatenate(chosen)


def _runs(phases: tuple[OutputPhase, ...]) -> Iterator[list[OutputPhase]]:
    """Yield lists of consecutive phases that read the same inputs."""
    run: list[OutputPhase] = []
    for phase in phases:
        if run and _inputs(phase) != _inputs(run[0]):
            yield run
            run = []
        run.append(phase)
    yield run


def _inputs(phase: OutputPhase) -> tuple[int, int, int, int]:
    return phase.count, len(phase.taps), phase.start, phase.step
