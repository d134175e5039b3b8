# SPDX-License-Identifier: Apache-2.0
"""Change of shape without change of elements or their order: RESHAPE."""

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, no_attributes, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.tosa.common import reshaped
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

_KINDS = ("reshape", "squeeze", "expand_dims", "flatten", "nn.batch_flatten")


def emit(graph: TosaGraph, operator: Operator[Attributes], data: TosaTensor) -> TosaTensor:
    """Emit RESHAPE."""
    return reshaped(graph, data, operator.output.shape)


OPERATION: Operation[Attributes] = Operation(
    kinds=_KINDS,
    patterns={kind: of_relax(kind, no_attributes) for kind in _KINDS},
    emit=emit,
    quirks=Quirks(reads_slices=True, is_view=True, joined=True),
)
