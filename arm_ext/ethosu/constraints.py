# SPDX-License-Identifier: Apache-2.0
"""The constraints of the Ethos-U, as one list that checks, tables in the docs and tests read.

Vela's own list is wrong in both directions (it takes casts and resizes that compute something else, and refuses tables
of 16 bits that are right), so this one is the judge; a compile by Vela of each operator is the last word after it.
"""

from fractions import Fraction

from arm_ext.ethosu import facts, integer_facts, resize_facts, width_facts
from arm_ext.ethosu.constraint import EARLIER as _EARLIER
from arm_ext.ethosu.constraint import MEASURED as _MEASURED
from arm_ext.ethosu.constraint import SUPPORTED_OPS as _SUPPORTED_OPS
from arm_ext.ethosu.constraint import TOSA as _TOSA
from arm_ext.ethosu.constraint import Constraint
from arm_ext.ethosu.constraint import at_most as _at_most
from arm_ext.ethosu.integer_constraints import INTEGER_CONSTRAINTS
from arm_ext.ethosu.operators import Operator, channels_last
from arm_ext.ethosu.tosa import EMITTERS
from arm_ext.ethosu.tosa.volumes import is_flat
from arm_ext.ethosu.unsupported import KNOWN, LEAVE, NO_FORM
from arm_ext.target.npu import Accelerator
from schedules.diagnostic import Diagnostic

__all__ = ["CONSTRAINTS", "Constraint", "violation"]

_CONVOLVED = "the convolutions that stand for RESIZE there"

CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
WINDOWS = (*CONVOLUTIONS, "conv2d_transpose", "conv3d")
POOLS = ("average_pool2d", "nn.max_pool2d")
WEIGHTED = (*WINDOWS, "linear")
RUN_TIME = "run_time_conv2d"
SUMS = (*WEIGHTED, RUN_TIME, "matmul", "reduce_sum")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint(
        (), NO_FORM, KNOWN, lambda op: op.kind, lambda kind: kind in EMITTERS, LEAVE, _TOSA,
    ),
    Constraint(
        (), "its tensors are not of 8 or 16 signed bits", "int8 or int16", integer_facts.data_dtypes,
        lambda found: set(found) <= {"int8", "int16"}, "quantise activations to int8 or int16", _TOSA,
    ),
    Constraint(
        (), "a tensor of 16 bits has a zero point", "0", width_facts.zero_point_of_16_bits, lambda zero: zero == 0,
        "quantise it symmetrically", _TOSA,
    ),
    Constraint(
        ("matmul",), "its operands have different types", "one type", width_facts.input_dtypes,
        lambda found: len(found) == 1, "quantise both alike", _TOSA,
    ),
    Constraint(
        ("average_pool2d",), "its result has another type than its data", "one type", width_facts.change,
        lambda pair: pair[0] == pair[1], "quantise both alike", _TOSA,
    ),
    Constraint(
        ("table",), "TOSA's table for data of 8 bits has entries of 8", "int8, or data of 16 bits", width_facts.change,
        lambda pair: pair != ("int8", "int16"), "quantise both alike", _TOSA,
    ),
    Constraint(
        ("conv2d_transpose", "matmul"), "Vela has it for data of 8 bits alone", "int8", width_facts.input_dtypes,
        lambda found: found == ("int8",), "quantise its data to int8", _MEASURED, _EARLIER,
    ),
    Constraint(
        ("min",), "Vela's minimum of 16 bits is another value", "int8", width_facts.input_dtypes,
        lambda found: found != ("int16",), "quantise its data to int8", _MEASURED, _EARLIER,
    ),
    Constraint(
        (), "a tensor has too many axes", "at most 6", facts.rank, _at_most(6), "reshape it", _TOSA,
    ),
    Constraint(
        (), "a tensor has no elements", "at least one along each axis", facts.smallest_axis, lambda size: size > 0,
        "leave it to the CPU", _TOSA,
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
        SUMS, "its bias varies along another axis than the channels", "by channel", facts.bias_by_channel,
        bool, "add it after the operator", _TOSA,
    ),
    Constraint(
        SUMS, "RESCALE leaves its greatest accumulators undefined", "at most as many bits as the shift",
        facts.accumulators_fit, bool, "a greater output scale", _TOSA,
    ),
    Constraint(
        WEIGHTED, "its bias has too many bits", "at most 40", width_facts.bias_bits, _at_most(40), "a smaller bias",
        _SUPPORTED_OPS,
    ),
    Constraint(
        BINARY, "RESCALE leaves its greatest values undefined", "at most as many bits as the shift",
        width_facts.terms_fit, bool, "a greater output scale", _TOSA,
    ),
    Constraint(
        (RUN_TIME,), "its weights are computed at run time", "constants, or Ethos-U85", lambda _: "run time",
        lambda _: False, "make them constants", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        (RUN_TIME,), "its weights are not of 8 bits", "int8", lambda op: op.inputs[1].dtype,
        lambda found: found == "int8", "quantise them to int8", _TOSA, ("u85",),
    ),
    Constraint(
        (*WINDOWS, RUN_TIME), "its window has too many rows", "at most 64", facts.kernel_rows, _at_most(64),
        "a smaller window", _SUPPORTED_OPS,
    ),
    Constraint(
        (*WINDOWS, RUN_TIME), "its window has too many taps", "at most 4096", facts.kernel_area, _at_most(4096),
        "a smaller window", _SUPPORTED_OPS,
    ),
    Constraint(
        ("depthwise_conv2d",), "its stride is too great", "at most 3", facts.greatest_stride, _at_most(3),
        "a smaller stride", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        ("conv2d", "conv3d"), "its stride is too great", "at most 3, but without padding and dilation",
        facts.stride_in_place, _at_most(3), "no padding, or a smaller stride", _SUPPORTED_OPS, _EARLIER,
    ),
    Constraint(
        ("conv2d_transpose", "conv3d", RUN_TIME), "TOSA's convolution of its kind has one group", "1", facts.groups,
        lambda groups: groups == 1, "one group", _TOSA,
    ),
    Constraint(
        CONVOLUTIONS, "a tap of its dilated window sees nothing but padding", "a dilation of at most 2",
        facts.blind_dilation, _at_most(2), "less padding", _MEASURED,
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
        ("conv3d",), "its windows are deeper than one image", "one image, one after the other", is_flat,
        bool, "convolve images one by one", _SUPPORTED_OPS, _EARLIER,
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
        POOLS, "its stride is too great for windows that are padded", "at most 3", facts.padded_stride, _at_most(3),
        "no padding, or a smaller stride", _MEASURED, ("u85",),
    ),
    Constraint(
        ("nn.max_pool2d",), "TOSA's pool is not dilated", "(1, 1)", facts.dilation,
        lambda dilation: dilation == (1, 1), "no dilation", _TOSA,
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
        ("resize",), "its image or result has too many rows or columns", "at most 16383", resize_facts.extent,
        _at_most((1 << 14) - 1), "split it", _TOSA,
    ),
    Constraint(
        ("resize",), "it shrinks too much", "less than 16 pixels to one", lambda op: min(resize_facts.factors(op)),
        lambda factor: factor > Fraction(1, 16), "resize in two steps", _TOSA, ("u85",),
    ),
    Constraint(
        ("resize",), "it grows too much", "at most 256 pixels from one", lambda op: max(resize_facts.factors(op)),
        lambda factor: factor <= Fraction(256), "resize in two steps", _TOSA, ("u85",),
    ),
    Constraint(
        ("resize",), "it interpolates by factors that are not whole", "whole factors", resize_facts.factors,
        resize_facts.are_whole, "resize by whole factors", _CONVOLVED, _EARLIER,
    ),
    Constraint(
        ("resize",), "a pixel counts more in it than a weight of 8 bits holds", "at most 127",
        resize_facts.greatest_weight, _at_most(resize_facts.MAX_WEIGHT), "smaller factors, or other coordinates",
        _CONVOLVED, _EARLIER,
    ),
    *INTEGER_CONSTRAINTS,
)  # fmt: skip
"""All of them; the first that is violated is the reason."""


def violation(operator: Operator, npu: Accelerator) -> Diagnostic | None:
    """Return the first constraint of an accelerator that an operator does not meet, or None."""
    operator = channels_last(operator)
    for constraint in CONSTRAINTS:
        if npu.family not in constraint.families or (
            constraint.kinds and operator.kind not in constraint.kinds
        ):
            continue
        actual = constraint.actual(operator)
        if not constraint.met(actual):
            text = ", ".join(map(str, actual)) if isinstance(actual, tuple) else str(actual)
            return constraint.violated(text)
    return None
