# SPDX-License-Identifier: Apache-2.0
"""2:4 sparse weights, which Ethos-U85 multiplies at up to twice the rate of dense ones.

In each filter and tap, at most two of four consecutive input channels have a weight other than 0. Vela 5.2 detects such
weights of convolutions and matrix products and stores them in a sparse format, without reporting it. Whether it did is
read from the command stream; the saving is the difference to Vela's estimate for the same operators with dense weights.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.ethosu.model.registers import Registers
from arm_ext.ethosu.model.stream import steps, unwrap
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.sums import Weighted
from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.parts import NpuPart
from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela.compiler import CompiledPayload, compile_network
from arm_ext.ethosu.vela.config import VelaOptions
from arm_ext.report.npu import NpuSparsity
from relay_passes.ir.sources import union

GROUP, LARGEST = 4, 2
"""Input channels per group, and the largest number of nonzero weights among them."""


def is_two_of_four(weights: npt.NDArray[Any]) -> bool:
    """Whether weights are 2:4 sparse along their last axis; false for all zeros and for two channels or fewer.

    A shorter last group counts as a group.
    """
    channels = weights.shape[-1]
    if channels <= LARGEST or not weights.any():
        return False
    widths = [(0, 0)] * (weights.ndim - 1) + [(0, -channels % GROUP)]
    used = np.pad(weights != 0, widths).reshape(*weights.shape[:-1], -1, GROUP)
    return bool((used.sum(-1) <= LARGEST).all())


def sparse_operators(part: NpuPart) -> tuple[Operator[Attributes], ...]:
    """Return the operators of a part whose weights are 2:4 sparse."""
    return tuple(
        operator
        for operator in part.operators
        if operator.kind in ("conv2d", "linear")
        and isinstance(operator.attributes, Weighted)
        and is_two_of_four(operator.attributes.weight)
    )


def sparse_convolutions(payload: Payload) -> tuple[int, int]:
    """Return the number of convolution commands with sparse weights, and the number of all convolution commands."""
    family = payload.npu.family
    registers, sparse, found = Registers(family), 0, 0
    for command in steps(unwrap(payload.commands), family):
        registers.values[command.name] = command.value
        if command.name == "op_conv":
            found += 1
            sparse += family == "u85" and registers.get("weight_format", "sparse")
    return sparse, found


def sparsity(part: NpuPart, compiled: CompiledPayload, options: VelaOptions) -> NpuSparsity | None:
    """Return the savings by 2:4 weights of a compiled part; None if there are none or Vela did not use them."""
    operators = sparse_operators(part)
    commands, convolutions = sparse_convolutions(compiled.payload)
    if not operators or not commands:
        return None
    npu = compiled.payload.npu
    dense = [_dense(operator) if operator in operators else operator for operator in part.operators]
    other = compile_network(emit(dense, part.inputs, part.outputs, npu.family), "TOSA", npu, options)
    return NpuSparsity(
        sources=union(operator.nodes for operator in operators),
        commands=commands,
        convolutions=convolutions,
        dense_cycles=other.cycles,
        dense_npu_cycles=other.npu_cycles,
    )


def _dense(operator: Operator[Attributes]) -> Operator[Attributes]:
    """Return an operator whose zero weights are replaced by 1."""
    given = operator.attributes
    assert isinstance(given, Weighted)
    weight = np.where(given.weight == 0, given.weight.dtype.type(1), given.weight)
    return replace(operator, attributes=replace(given, weight=weight))
