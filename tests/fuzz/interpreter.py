# SPDX-License-Identifier: Apache-2.0
"""What a QDQ group (dequantise, operators, quantise) computes by the numerics `qdq`, in numpy.

It reads ONNX and knows nothing of the compiler. A group that has no definition is computed in float.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx

from schedules.numerics.qdq.values import quantize
from tests.fuzz.definitions import FORMS
from tests.fuzz.elementwise import by_table
from tests.fuzz.groups import Array, Bounds, Call, Group, Per, Quantized, UndefinedError, in_float


@dataclass(frozen=True)
class Result:
    """A group's result as integers, and whether a definition says it to the bit."""

    q: Array
    exact: bool
    form: str


def evaluate(group: Group, y: Per) -> Result:
    """Quantise a group's result by the definition there is for its form, else in float."""
    if not group.nodes:
        (leaf,) = group.leaves.values()
        return Result(quantize(leaf.real if isinstance(leaf, Quantized) else leaf, y), True, "quantize")
    nodes, bounds = _without_clamps(group)
    if not nodes:
        nodes, bounds = group.nodes, (None, None)
    if len(nodes) == 1 and nodes[0].op_type in FORMS:
        q = FORMS[nodes[0].op_type](Call(nodes[0], group), y, bounds)
        if q is not None:
            return Result(q, True, nodes[0].op_type)
    q = by_table(group, y)
    if q is not None:
        return Result(q, True, "table")
    real = in_float(group)
    if not np.isfinite(real).all():
        raise UndefinedError(f"{group.output} is not finite")
    return Result(quantize(real, y), False, "+".join(node.op_type for node in group.nodes))


def _without_clamps(group: Group) -> tuple[tuple[onnx.NodeProto, ...], Bounds]:
    """The nodes before relu or clip at the end, which become limits of the saturation."""
    nodes = list(group.nodes)
    low, high = -math.inf, math.inf
    while nodes and nodes[-1].op_type in ("Relu", "Clip"):
        node = nodes.pop()
        least, most = _limits(node, group)
        # The later clamp has the last word.
        low, high = min(max(least, low), high), min(max(most, low), high)
    return tuple(nodes), (None if low == -math.inf else low, None if high == math.inf else high)


def _limits(node: onnx.NodeProto, group: Group) -> tuple[float, float]:
    if node.op_type == "Relu":
        return 0.0, math.inf
    given = [float(group.leaves[name]) if name else None for name in node.input[1:]] + [None, None]  # type: ignore[arg-type]
    low, high = given[:2]
    return -math.inf if low is None else low, math.inf if high is None else high
