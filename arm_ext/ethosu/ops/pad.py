# SPDX-License-Identifier: Apache-2.0
"""Padding with a constant: PAD."""

from dataclasses import dataclass

import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Reader, integers
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Pad(Attributes):
    """Attributes of a pad.

    Attributes:
        widths: Number of elements before and after each axis.
        value: Value of the border.
        mode: "constant"; `integerize` leaves other pads in float.
    """

    widths: tuple[int, ...]
    value: int
    mode: str


def _attributes(call: Call, _: Reader) -> Pad:
    attrs = call.attrs
    return Pad(widths=tuple(integers(attrs.pad_width)), value=int(attrs.pad_value), mode=str(attrs.pad_mode))


def emit(graph: TosaGraph, operator: Operator[Pad], data: TosaTensor) -> TosaTensor:
    """Emit PAD.

    Raises:
        ValueError: The mode is not "constant".
    """
    given = operator.attributes
    if given.mode != "constant":
        raise ValueError(f"a pad of mode {given.mode}")
    inputs = [data, graph.sizes(given.widths), graph.scalar(given.value, data.dtype)]
    return graph.add(ts.Op.PAD, inputs, operator.output.shape, data.dtype)


OPERATION: Operation[Pad] = Operation(
    kinds=("nn.pad",),
    patterns={"nn.pad": of_relax("nn.pad", _attributes)},
    emit=emit,
    quirks=Quirks(writes_slices=True),
)
