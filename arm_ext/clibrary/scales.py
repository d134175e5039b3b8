# SPDX-License-Identifier: Apache-2.0
"""Scales and zero points of quantised inputs and outputs, read from the QDQ form of an imported model.

f = dequantize(x, 1/128, 3); …; y = quantize(g, 1/16, -5); return y
→
x: real value = (element - 3) / 128
y: real value = (element + 5) / 16
"""

from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Expr, GenericConst, Var
from tvm.relax.analysis import free_vars

from relay_passes.ir.calls import name_of
from relay_passes.ir.sources import bindings_of


@dataclass(frozen=True)
class Scale:
    """Quantisation of a tensor: a real value is `scale * (element - zero_point)`.

    Attributes:
        scale: The scale, a binary32 value; 0 for a tensor that is not quantised, or not with one scale.
        zero_point: The element that stands for 0.
    """

    scale: float = 0.0
    zero_point: int = 0

    def __bool__(self) -> bool:
        """Whether the tensor is quantised."""
        return self.scale != 0

    @property
    def c_scale(self) -> str:
        """The scale as a literal of C."""
        return f"{np.float32(self.scale)!s}f"


def scales_of(mod: tvm.IRModule) -> tuple[list[Scale], list[Scale]]:
    """Return the quantisation of each input and of each output of `main`.

    An input has the scale with which all that read it dequantise it, and an output the one that it is quantised with.
    """
    main = mod["main"]
    bindings = bindings_of(main)
    read: dict[Var, set[Scale]] = {param: set() for param in main.params}
    for value in (*(binding.value for binding in bindings), main.body.body):
        for var in free_vars(value):
            if var in read:
                read[var].add(_scale(value) if name_of(value) == "relax.dequantize" else Scale())
    bound = {binding.var: binding.value for binding in bindings}
    result = bound.get(main.body.body, main.body.body)
    outputs = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    values = [bound.get(output, output) if isinstance(output, Var) else output for output in outputs]
    return (
        [scales.pop() if len(scales) == 1 else Scale() for scales in read.values()],
        [_scale(value) if name_of(value) == "relax.quantize" else Scale() for value in values],
    )


def _scale(call: Expr) -> Scale:
    """Return the scale and zero point of a quantize or dequantize."""
    parameters = [arg.value.numpy() for arg in call.args[1:3] if isinstance(arg, GenericConst)]
    if [value.size for value in parameters] != [1, 1]:
        return Scale()
    scale, zero_point = (value.item() for value in parameters)
    return Scale(float(scale), int(zero_point))
