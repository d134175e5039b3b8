# SPDX-License-Identifier: Apache-2.0
"""The integers that a quantize of a layer norm or an RMS norm yields."""

from tvm.ir import Call, Expr

from relay_passes.integerize.context import Context, integers, operator
from relay_passes.integerize.numerics import Bounds
from relay_passes.integerize.values import UNBOUNDED, Quantization, Refusal
from relay_passes.sources import Names

NORMS = ("nn.layer_norm", "nn.rms_norm")


def norm(context: Context, call: Call, y: Quantization, bounds: Bounds, names: Names) -> Expr | Refusal:
    """One of `NORMS` over the last axes of a quantised tensor, with constant gamma and beta."""
    name = operator(call)
    x = context.known(call.args[0])
    quantization = None if x is None else x.per_tensor
    if x is None or quantization is None:
        return Refusal("its input is not quantised per tensor")
    if bounds != UNBOUNDED:
        return Refusal(f"a clamp follows {name}")
    rank = len(x.shape)
    axes = sorted(axis % rank for axis in integers(call.attrs.axes))
    if axes != list(range(rank - len(axes), rank)):
        return Refusal("its axes are not the last ones", list(range(rank - len(axes), rank)), axes)
    if not all(getattr(call.attrs, part, True) for part in ("center", "scale")):
        return Refusal("it leaves out gamma or beta")
    factors = [context.constant(factor) for factor in call.args[1:]]
    gamma, beta = (*factors, None)[:2]
    if gamma is None or any(factor is None for factor in factors):
        return Refusal("gamma or beta are not constants")
    try:
        routine = context.numerics.norm(
            x.shape, (len(axes), float(call.attrs.epsilon)), (gamma, beta), quantization, y
        )
    except ValueError as err:
        return Refusal(str(err))
    return context.call(routine, [x.value], x.value, y.dtype, x.names, names)
