# SPDX-License-Identifier: Apache-2.0
"""Sum, Max, Min and Mean of many inputs, as a tree of smaller ones.

Upstream's converters make a chain, as deep as there are inputs, which the expressions of one kernel then are.
"""

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.forms import like

_GROUP = 16


def grouped(e: Expansion) -> None:
    """Replace a node of many inputs by a tree of groups; leave others."""
    values = list(e.node.input)
    if len(values) <= _GROUP:
        return
    mean = e.node.op_type == "Mean"
    operator = "Sum" if mean else e.node.op_type
    count = like(e, len(values), values[0]) if mean else ""
    while len(values) > _GROUP:
        values = [e.emit(operator, values[k : k + _GROUP]) for k in range(0, len(values), _GROUP)]
    if mean:
        e.emit("Div", [e.emit(operator, values), count], e.node.output[0])
    else:
        e.emit(operator, values, e.node.output[0])
