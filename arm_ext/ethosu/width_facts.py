# SPDX-License-Identifier: Apache-2.0
"""Properties of an operator's value widths, which constraints compare with their limits."""

import numpy as np

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.reading import Array
from schedules.numerics.tosa import fits, rescale

_OPERATORS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def input_dtypes(operator: Operator) -> tuple[str, ...]:
    """Return the dtypes of all inputs, sorted."""
    return tuple(sorted({tensor.dtype for tensor in operator.inputs}))


def change(operator: Operator) -> tuple[str, str]:
    """Return the dtypes of the data and of the result."""
    return operator.inputs[0].dtype, operator.output.dtype


def zero_point_of_16_bits(operator: Operator) -> int:
    """Return the first zero point of a 16-bit tensor that is not 0; 0 if there is none."""
    given, (first, *_) = operator.attributes, operator.inputs
    pairs = [
        *((name, first) for name in ("input_zero_point", "x_zero_point")),
        *((name, operator.output) for name in ("zero_point", "y_zero_point")),
        *zip([f"{n}_zero_point" for n in "ab" if f"{n}_zero_point" in given], operator.inputs, strict=False),
    ]
    found = [given[name] for name, tensor in pairs if name in given and tensor.dtype == "int16"]
    return next((zero for zero in found if zero), 0)


def bias_bits(operator: Operator) -> int:
    """Return the bits of the greatest |bias|, sign included."""
    return int(np.abs(operator.attributes["bias"]).max(initial=0)).bit_length() + 1


def terms_fit(operator: Operator) -> bool:
    """Whether each RESCALE of a function of two tensors is defined for all values of its dtypes."""
    given, runtime = operator.attributes, list(operator.inputs)
    ends: list[Array] = []
    for name in "ab":
        if name in given:
            ends.append(np.array([given[name].min(initial=0), given[name].max(initial=0)], np.int64))
            continue
        info = np.iinfo(runtime.pop(0).dtype)
        reach = np.array([info.min, info.max], np.int64) - given[f"{name}_zero_point"]
        if not fits(reach, given[f"{name}_shift"]):
            return False
        ends.append(rescale(reach, given[f"{name}_multiplier"], given[f"{name}_shift"]))
    return fits(_OPERATORS[operator.kind].outer(*ends), given["y_shift"])
