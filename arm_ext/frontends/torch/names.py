# SPDX-License-Identifier: Apache-2.0
"""Names of a program's nodes in the author's terms: the path of the module and the ATen operator.

features.3.conv.0/conv2d        the convolution of model.features[3].conv[0]
features.3/add, features.3/add_1        two sums in the forward of model.features[3]
flatten        what the forward of the model itself computes, by the program's name
"""

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram

from arm_ext.common.text import shown


def source_names(program: ExportedProgram) -> dict[str, str]:
    """Return node → its source name, for all operators of the program's main graph; all names are different."""
    counts: dict[str, int] = {}
    found: dict[str, str] = {}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        path = module_path(node)
        base = shown(f"{path}/{kind_of(node)}" if path else node.name)
        number = counts[base] = counts.get(base, -1) + 1
        found[node.name] = f"{base}_{number}" if number else base
    return found


def module_path(node: torch.fx.Node) -> str:
    """Return the path of the module to which a node belongs; "" for the model itself, or if it is not known."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def kind_of(node: torch.fx.Node) -> str:
    """Return an operator's name without its namespace and overload, such as "conv2d"."""
    return getattr(node.target, "__name__", "").partition(".")[0].removesuffix("_")


def origin_of(node: torch.fx.Node) -> str:
    """Return the name of the node before decomposition from which a node originates."""
    origins = node.meta.get("from_node")
    return str(origins[0].name) if origins else node.name


def source_of(node: torch.fx.Node, names: Mapping[str, str]) -> str:
    """Return the source name of the node from which a node originates; `names` are those of `source_names`."""
    origin = origin_of(node)
    return names.get(origin, shown(origin))
