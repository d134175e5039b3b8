# SPDX-License-Identifier: Apache-2.0
"""What an operator must meet to run on an Ethos-U, as data: one list, which checks, tables and tests read.

Vela's own list is wrong in both directions (it takes casts and resizes that compute something else, and refuses tables
of 16 bits that are right), so this one is the judge; a compile by Vela of each operator is the last word after it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from arm_ext.ethosu import facts
from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa import EMITTERS
from arm_ext.target.npu import Accelerator, Family

_SUPPORTED_OPS = "Vela 5.2, SUPPORTED_OPS.md"
_TOSA = "TOSA 1.0"
_MEASURED = "compared with the TOSA reference model"

_EVERY: tuple[Family, ...] = ("u55", "u65", "u85")
_EARLIER: tuple[Family, ...] = ("u55", "u65")

CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
WINDOWS = (*CONVOLUTIONS, "conv2d_transpose")
POOLS = ("average_pool2d", "nn.max_pool2d")
WEIGHTED = (*WINDOWS, "linear")
SUMS = (*WEIGHTED, "matmul", "reduce_sum")


@dataclass(frozen=True)
class Constraint:
    """One limit.

    Attributes:
        kinds: Kinds of operators that it holds for; every one if empty.
        reason: What an operator that violates it is said to have, as a sentence without full stop.
        limit: What is allowed, to read.
        actual: What an operator has.
        met: Whether that is allowed.
        advice: What would make it fit.
        source: Where it comes from.
        families: Accelerators that it holds for.
    """

    kinds: tuple[str, ...]
    reason: str
    limit: str
    actual: Callable[[Operator], Any]
    met: Callable[[Any], bool]
    advice: str
    source: str
    families: tuple[Family, ...] = _EVERY


@dataclass(frozen=True)
class Violation:
    """A limit that an operator does not meet.

    Attributes:
        reason: The constraint's.
        limit: The constraint's.
        actual: What the operator has, to read.
        advice: The constraint's.
        source: The constraint's.
    """

    reason: str
    limit: str
    actual: str
    advice: str
    source: str


def _at_most(limit: int) -> Callable[[int], bool]:
    return lambda actual: actual <= limit


CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint(
        (), "no TOSA form of its kind is known here", "one of the operator table", lambda op: op.kind,
        lambda kind: kind in EMITTERS, "leave it to the CPU", _TOSA,
    ),
    Constraint(
        (), "its tensors are not of 8 signed bits", "int8", facts.dtypes,
        lambda found: found == ("int8",), "quantise activations to int8", _TOSA,
    ),
    Constraint(
        (), "a tensor has too many axes", "at most 4", facts.rank, _at_most(4),
        "reshape it", _MEASURED, _EARLIER,
    ),
    Constraint(
        (), "a tensor has too many axes", "at most 6", facts.rank, _at_most(6), "reshape it", _TOSA,
    ),
    Constraint(
        (), "a tensor's axis is too long", "at most 65536", facts.largest_axis, _at_most(1 << 16),
        "split it", _SUPPORTED_OPS,
    ),
    Constraint(
        WEIGHTED, "its weights, less their zero point, do not fit in 8 bits", "int8", facts.weight_dtype,
        lambda found: found == "int8", "quantise weights symmetrically", _SUPPORTED_OPS,
    ),
    Constraint(
        WEIGHTED, "the weights of an output add up to too much", "at most 127 * 65536", facts.weight_sum,
        _at_most(127 << 16), "split its input channels", _SUPPORTED_OPS,
    ),
    Constraint(
        SUMS, "its multiplier varies along another axis than the channels", "by channel", facts.scales_by_channel,
        bool, "average without padding, or quantise by output channel", _TOSA,
    ),
    Constraint(
        SUMS, "its bias varies along another axis than the channels", "by channel", facts.bias_by_channel,
        bool, "add it after the operator", _TOSA,
    ),
    Constraint(
        SUMS, "RESCALE leaves its greatest accumulators undefined", "at most as many bits as the shift",
        facts.accumulators_fit, bool, "a greater output scale", _TOSA,
    ),
    Constraint(
        WINDOWS, "its window has too many rows", "at most 64", facts.kernel_rows, _at_most(64),
        "a smaller window", _SUPPORTED_OPS,
    ),
    Constraint(
        WINDOWS, "its window has too many taps", "at most 4096", facts.kernel_area, _at_most(4096),
        "a smaller window", _SUPPORTED_OPS,
    ),
    Constraint(
        ("depthwise_conv2d",), "its stride is too great", "at most 3", facts.greatest_stride, _at_most(3),
        "a smaller stride", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        ("conv2d",), "its stride is too great", "at most 3, but without padding and dilation",
        facts.stride_in_place, _at_most(3), "no padding, or a smaller stride", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        ("conv2d_transpose",), "TOSA's transposed convolution has one group", "1", facts.groups,
        lambda groups: groups == 1, "one group", _TOSA,
    ),
    Constraint(
        ("conv2d_transpose",), "TOSA's transposed convolution is not dilated", "(1, 1)", facts.dilation,
        lambda dilation: dilation == (1, 1), "no dilation", _TOSA,
    ),
    Constraint(
        ("conv2d_transpose",), "its strides are not among those that there are", "(1, 1) or (2, 2)",
        facts.strides, lambda found: found in ((1, 1), (2, 2)), "strides of 1 or 2", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        ("average_pool2d",), "its padded window is too large", "at most 8 by 8", facts.padded_kernel, _at_most(8),
        "no padding, or a smaller window", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        POOLS, "its window has too many rows", "at most 256", facts.kernel_rows, _at_most(256),
        "a smaller window", _SUPPORTED_OPS,
    ),
    Constraint(
        POOLS, "its window has too many taps", "at most 65536", facts.kernel_area, _at_most(1 << 16),
        "a smaller window", _SUPPORTED_OPS,
    ),
    Constraint(
        POOLS, "its stride is too great", "at most 3, but for a window as large as the data",
        facts.pool_stride, _at_most(3), "a smaller stride", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        ("nn.max_pool2d",), "TOSA's pool is not dilated", "(1, 1)", facts.dilation,
        lambda dilation: dilation == (1, 1), "no dilation", _TOSA,
    ),
    Constraint(
        ("nn.max_pool2d", "image.resize2d"), "its layout is another", "NHWC", facts.layout,
        lambda layout: layout == "NHWC", "put it between convolutions", _TOSA,
    ),
    Constraint(
        ("matmul",), "an operand of the product is broadcast", "leading axes that agree",
        facts.leading_axes, lambda found: len(set(found)) == 1, "repeat the operand", _TOSA,
    ),
    Constraint(
        ("strided_slice",), "it leaves out elements between others", "steps of 1", facts.slice_steps,
        lambda steps: steps == 1, "slice by reshape", _TOSA,
    ),
    Constraint(
        ("nn.pad",), "it pads with other values than a constant", "constant", facts.pad_mode,
        lambda mode: mode == "constant", "pad with a constant", _TOSA,
    ),
    Constraint(
        ("image.resize2d",), "it does not repeat each pixel", "nearest, by whole factors, rounding to the pixel inside",
        facts.resize, lambda found: found.startswith("repeats"), "resize to the nearest by a whole factor", _MEASURED,
    ),
    Constraint(
        ("image.resize2d",), "its factors are not powers of two", "2, 4 or 8, one for both axes",
        facts.resize_factors, lambda found: found in ((2, 2), (4, 4), (8, 8)), "a factor of 2, 4 or 8",
        _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        ("flip",), "it reverses another axis than rows or columns", "rows or columns", facts.flipped,
        lambda found: found in ("rows", "columns"), "leave it to the CPU", _SUPPORTED_OPS, _EARLIER,
    ),
)  # fmt: skip
"""All of them; the first that is violated is the reason."""


def violation(operator: Operator, npu: Accelerator) -> Violation | None:
    """The first limit of an accelerator that an operator does not meet."""
    for constraint in CONSTRAINTS:
        if npu.family not in constraint.families or (
            constraint.kinds and operator.kind not in constraint.kinds
        ):
            continue
        actual = constraint.actual(operator)
        if not constraint.met(actual):
            text = ", ".join(map(str, actual)) if isinstance(actual, tuple) else str(actual)
            return Violation(constraint.reason, constraint.limit, text, constraint.advice, constraint.source)
    return None
