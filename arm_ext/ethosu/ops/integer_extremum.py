# SPDX-License-Identifier: Apache-2.0
"""Maximum and minimum of integers that are not quantised: CLAMP for a constant scalar, else MAXIMUM or MINIMUM."""

from collections.abc import Mapping

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always, of_relax
from arm_ext.ethosu.ops.common.integers import (
    OF_ANY_WIDTH,
    WIDE,
    IntegerOperands,
    TosaForm,
    attributes,
    cast,
    operands_of,
)
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.tosa.common import IGNORE_NAN, clamped
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

_FORMS: Mapping[str, TosaForm] = {
    "integer_maximum": TosaForm(ts.Op.MAXIMUM, (IGNORE_NAN,)),
    "integer_minimum": TosaForm(ts.Op.MINIMUM, (IGNORE_NAN,)),
}


def emit(graph: TosaGraph, operator: Operator[IntegerOperands], *data: TosaTensor) -> TosaTensor:
    """Emit CLAMP for a maximum or minimum of int8 or int16 with a constant; MAXIMUM or MINIMUM in int32 otherwise."""
    out, limit = operator.output, _limit(operator)
    if limit is not None and out.dtype != WIDE:
        info = np.iinfo(out.dtype)
        greatest = operator.kind == "integer_minimum"
        low, high = (info.min, limit) if greatest else (limit, info.max)
        return clamped(graph, data[0], low, high)
    form = _FORMS[operator.kind]
    operands = [cast(graph, operand, WIDE) for operand in operands_of(graph, operator, data)]
    value = graph.add(form.operator, operands, out.shape, WIDE, *form.attributes)
    return cast(graph, value, out.dtype)


def _limit(operator: Operator[IntegerOperands]) -> int | None:
    """Return the constant operand if it is a scalar."""
    found = [held for held in operator.attributes.operands if held is not None]
    return int(found[0].item()) if found and found[0].size == 1 else None


OPERATION: Operation[IntegerOperands] = Operation(
    kinds=tuple(_FORMS),
    patterns={kind.removeprefix("integer_"): of_relax(kind, attributes) for kind in _FORMS},
    constraints=(OF_ANY_WIDTH,),
    emit=emit,
    quirks=Quirks(widens=always),
)
