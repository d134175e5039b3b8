# SPDX-License-Identifier: Apache-2.0
"""Composite functions, in the form that FuseOpsByPattern gives them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import ir, relax

Chain = Callable[[Sequence[ir.Expr]], Sequence[ir.Expr]]


def tensor(shape: Sequence[Any], dtype: str = "float32") -> relax.TensorType:
    return relax.TensorType(shape, dtype)


def constant(shape: Sequence[int], seed: int = 0) -> ir.Constant:
    return relax.const(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def composite(
    types: Sequence[relax.TensorType], *calls: Callable[..., ir.Expr], name: str = "arm.linear"
) -> relax.Function:
    """A composite function.

    Args:
        types: Of the parameters.
        calls: Each takes the value before it, which is None for the first, and the parameters.
        name: Of the composite.
    """
    params = [relax.Var(f"p{i}", type_) for i, type_ in enumerate(types)]
    builder = relax.BlockBuilder()
    with builder.function("composite", params):
        with builder.dataflow():
            value = None
            for call in calls[:-1]:
                value = builder.emit(call(value, *params))
            output = builder.emit_output(calls[-1](value, *params))
        builder.emit_func_output(output)
    return builder.get()["composite"].with_attr("Composite", name)
