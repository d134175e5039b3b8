# SPDX-License-Identifier: Apache-2.0
"""Composites with casts around what is computed in float32, and what the last cast costs."""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, relax
from tvm.relax import op

from tests.schedules.composite_functions import composite
from tests.schedules.programs import Array

HALF = "float16"
FULL = ("float32", "float32")
"""Dtypes of data and result."""

UNIT = 2.0**-11
LEAST = 2.0**-25
"""What rounding to float16 is off by: relatively, and of what is no normal number."""


def around(
    data: relax.TensorType, calls: Sequence[Callable[..., ir.Expr]], dtypes: tuple[str, str], name: str
) -> relax.Function:
    """A composite of one input with casts to float32 and from it where `dtypes`, of data and result, need them."""
    before = [lambda _, x: op.astype(x, "float32")] if dtypes[0] != "float32" else []
    after = [lambda v, _: op.astype(v, dtypes[1])] if dtypes[1] != "float32" else []
    return composite([data], *before, *calls, *after, name=name)


def rounded(bound: Array, expected: Array, dtype: str) -> Array:
    """The bound of an error with that of the result's own rounding."""
    if dtype == "float32":
        return bound
    return np.asarray(bound + UNIT * (np.abs(expected) + bound) + LEAST)
