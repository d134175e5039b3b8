# SPDX-License-Identifier: Apache-2.0
"""Sums of products and sums over axes, with their requantisation: attributes, constraints, and RESCALE with CLAMP.

requantize(add(anchor, offset))    →    one operator of the anchor's kind, with bias and RESCALE
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tvm.ir import Call, Expr, Var

from arm_ext.ethosu.ops.common.constraint import SUPPORTED_OPS, TOSA, Constraint, at_most
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array
from arm_ext.ethosu.ops.common.windows import Window
from arm_ext.ethosu.tosa.common import clamped, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from schedules.numerics.tosa import fits
from schedules.numerics.tosa import rescale as rescaled


@dataclass(frozen=True, kw_only=True)
class AccumulatorRescale:
    """Requantisation of accumulators: bias, RESCALE and CLAMP.

    Attributes:
        bias: int64, broadcasts to the output. It includes the contributions of zero points, except that of the data's
            where the operator has an `input_zero_point`.
        magnitude: A bound of |accumulator|, bias included.
        multiplier: int32, broadcasts to the output.
        shift: Right shift, common to all multipliers.
        zero_point: Zero point of the output.
        low: Least value of the output.
        high: Greatest value of the output.
    """

    bias: Array
    magnitude: int
    multiplier: Array
    shift: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class SumAttributes(Attributes):
    """Attributes of a sum with requantisation.

    Attributes:
        requantization: Bias, scale and bounds that its accumulators are requantised with.
    """

    requantization: AccumulatorRescale
    wide: ClassVar[bool] = True
    """Whether TOSA accumulates 16-bit data in 48 bits."""

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return the result with its zero point."""
        return ((output, self.requantization.zero_point),)


@dataclass(frozen=True, kw_only=True)
class Weighted(SumAttributes):
    """Attributes of a sum of products with constant weights.

    Attributes:
        weight: Constant weights; axis 0 is the output channels, the last axis the input channels.
    """

    weight: Array


@dataclass(frozen=True)
class PendingSum:
    """The accumulators of an operator whose requantisation has not been parsed yet.

    Attributes:
        kind: Kind of the operator.
        inputs: Operands that are computed at run time.
        attributes: Makes the operator's attributes from its requantisation.
        offset: Added to the bias of the graph, for zero points; int64, broadcasts to the output.
        reach: A bound of |accumulator| without bias.
        macs: Number of multiply-accumulates.
        covered: Variables before the anchor that are part of the operator, with their calls.
        channels_first: Whether the data are images [N, C, ...].
        window: Window and padding of a sum over rows and columns of images; None for other sums.
    """

    kind: str
    inputs: tuple[Expr, ...]
    attributes: Callable[[AccumulatorRescale], SumAttributes]
    offset: Array
    reach: int
    macs: int
    covered: tuple[tuple[Var, Call], ...] = ()
    channels_first: bool = False
    window: Window | None = None


def accumulators(data: TosaTensor) -> str:
    """Return the dtype of TOSA's accumulators for the data's dtype."""
    return "int48" if data.dtype == "int16" else "int32"


def biases(graph: TosaGraph, bias: Array, dtype: str) -> TosaTensor:
    """Add biases as a constant of the accumulators' dtype."""
    return graph.constant(bias.astype(np.int64 if dtype == "int48" else np.int32), dtype)


def requantized(
    graph: TosaGraph, acc: TosaTensor, given: AccumulatorRescale, dtype: str, multiplier: Array
) -> TosaTensor:
    """Emit RESCALE of accumulators to `dtype`, and CLAMP."""
    value = rescale(graph, acc, (multiplier, given.shift), dtype, zero_point=given.zero_point)
    return clamped(graph, value, given.low, given.high)


def of_channels(values: Array, channels: int) -> Array:
    """Broadcast one number, or one per channel, to [channels]."""
    flat = values.reshape(-1)
    return np.broadcast_to(flat, (channels,)) if flat.size == 1 else flat


def _accumulators_fit(operator: Operator[SumAttributes]) -> bool:
    """Whether RESCALE is defined for every accumulator that the weights can produce."""
    given = operator.attributes.requantization
    if not operator.attributes.wide or operator.inputs[0].dtype != "int16":
        return fits(given.magnitude, given.shift)
    # RESCALE takes any accumulator of 48 bits, but its result must fit in 32.
    return int(rescaled(given.magnitude, given.multiplier, given.shift).max()) < 1 << 31


def _bias_by_channel(operator: Operator[SumAttributes]) -> bool:
    """Whether the bias varies only along the channel axis."""
    bias = operator.attributes.requantization.bias
    return bias.ndim == 1 and bias.size in (1, operator.output.shape[-1])


def _bias_bits(operator: Operator[SumAttributes]) -> int:
    """Return the number of bits of the largest |bias|, including a sign bit."""
    return int(np.abs(operator.attributes.requantization.bias).max(initial=0)).bit_length() + 1


def _weight_dtype(operator: Operator[Weighted]) -> str:
    return str(operator.attributes.weight.dtype)


def _weight_sum(operator: Operator[Weighted]) -> int:
    """Return the maximum, over outputs, of the sum of |weights|."""
    weight = operator.attributes.weight
    products = np.abs(weight.astype(np.int64)).reshape(len(weight), math.prod(weight.shape[1:]))
    return int(products.sum(1).max(initial=0))


OF_SUMS: tuple[Constraint[SumAttributes], ...] = (
    Constraint(
        "its bias varies along another axis than the channels", "by channel", _bias_by_channel, bool,
        "add it after the operator", TOSA,
    ),
    Constraint(
        "RESCALE leaves its greatest accumulators undefined", "at most as many bits as the shift", _accumulators_fit,
        bool, "a greater output scale", TOSA,
    ),
)  # fmt: skip
"""Constraints of every sum with requantisation."""

OF_WEIGHTED: tuple[Constraint[Weighted], ...] = (
    Constraint(
        "its weights, less their zero point, do not fit in 8 bits", "int8", _weight_dtype,
        lambda found: found == "int8", "quantise weights symmetrically", SUPPORTED_OPS,
    ),
    Constraint(
        "the sum of |weights| of an output is too large", "at most 127 * 65536", _weight_sum, at_most(127 << 16),
        "split its input channels", SUPPORTED_OPS,
    ),
    *OF_SUMS,
    Constraint(
        "its bias has too many bits", "at most 40", _bias_bits, at_most(40), "a smaller bias", SUPPORTED_OPS,
    ),
)  # fmt: skip
"""Constraints of every sum of products with constant weights."""
