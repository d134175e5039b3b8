# SPDX-License-Identifier: Apache-2.0
"""2:4 sparse weights, which Ethos-U85 multiplies at up to twice the rate of others.

Of four input channels one after another, at most two have a weight other than 0, in each filter and each tap. Vela 5.2
finds that by itself, in convolutions and matrix products, and writes the weights in a format of their own; it does not
say so. What it wrote is read from the commands, and what it saves is Vela's estimate of the same commands with dense
weights.
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
from arm_ext.ethosu.partition.parts import Part
from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela.compiler import Compiled, compile_network
from arm_ext.ethosu.vela.config import VelaOptions
from arm_ext.report.npu import NpuSparsity
from relay_passes.ir.sources import union

GROUP, LARGEST = 4, 2
"""Input channels of a group, and how many of them may have a weight."""


def is_two_of_four(weights: npt.NDArray[Any]) -> bool:
    """Whether weights are 2:4 along their last axis, and not for being so few; a shorter last group counts as one."""
    channels = weights.shape[-1]
    if channels <= LARGEST or not weights.any():
        return False
    widths = [(0, 0)] * (weights.ndim - 1) + [(0, -channels % GROUP)]
    used = np.pad(weights != 0, widths).reshape(*weights.shape[:-1], -1, GROUP)
    return bool((used.sum(-1) <= LARGEST).all())


def sparse_operators(part: Part) -> tuple[Operator[Attributes], ...]:
    """Return the operators of a part whose weights are 2:4."""
    return tuple(
        operator
        for operator in part.operators
        if operator.kind in ("conv2d", "linear")
        and isinstance(operator.attributes, Weighted)
        and is_two_of_four(operator.attributes.weight)
    )


def sparse_convolutions(payload: Payload) -> tuple[int, int]:
    """Return how many convolution commands take sparse weights, and how many there are."""
    family = payload.npu.family
    registers, sparse, found = Registers(family), 0, 0
    for command in steps(unwrap(payload.commands), family):
        registers.values[command.name] = command.value
        if command.name == "op_conv":
            found += 1
            sparse += family == "u85" and registers.get("weight_format", "sparse")
    return sparse, found


def sparsity(part: Part, compiled: Compiled, options: VelaOptions) -> NpuSparsity | None:
    """Return what the 2:4 weights of a compiled part save; None if none are, or the accelerator has no use for them."""
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
    """An operator without zeros among its weights."""
    given = operator.attributes
    assert isinstance(given, Weighted)
    weight = np.where(given.weight == 0, given.weight.dtype.type(1), given.weight)
    return replace(operator, attributes=replace(given, weight=weight))
