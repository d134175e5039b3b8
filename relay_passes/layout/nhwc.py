# SPDX-License-Identifier: Apache-2.0
"""NCHW → NHWC, weights OHWI, through the whole graph, with as few bytes transposed as can be.

    x → conv2d → add → relu → reshape [N, C·H·W] → matmul W
    x → permute_dims → conv2d (NHWC, OHWI) → add → relu → reshape [N, H·W·C] → matmul W with its rows permuted

Every value gets a channels-last form; every call is written either as in the model or on values in that form.
Convolutions take it, inputs and outputs do not, and a minimum cut decides for all calls between, at the price of
each value that has to be had in both. Constants are put into the form that is asked for at compile time.

Quantised: `quantize` and `dequantize` are calls like others, so the transposes that remain are of integers where
there are any; integer weights stay integer constants under `dequantize`, whose axis follows.
"""

from tvm import IRModule, relax
from tvm.ir import Var

from relay_passes.ir.calls import Node, nodes_of
from relay_passes.ir.sources import relax_functions, sources_of
from relay_passes.layout.choose_layouts import forms_of, moved_or_why, operator_of, staying
from relay_passes.layout.constants import Static, static_call
from relay_passes.layout.moves import Moved
from relay_passes.layout.write_function import Plan, emit
from schedules.diagnostic import Diagnostic


def to_nhwc(mod: IRModule) -> tuple[IRModule, tuple[Diagnostic, ...]]:
    """Put channels last: convolutions with constant weights always, the rest wherever it saves transposed bytes.

    Args:
        mod: Canonical, in A-normal form, every call named. Functions whose body is not one dataflow block, or that
            have no convolution, are left alone.

    Returns:
        The module, with inputs and outputs as they were, and what stayed, in program order.
    """
    out = mod.clone()
    kept: list[Diagnostic] = []
    for gv, func in relax_functions(mod):
        if len(func.body.blocks) == 1 and isinstance(func.body.blocks[0], relax.DataflowBlock):
            new, stayed = _converted(func)
            out.update_func(gv, new)
            kept += stayed
    return out, tuple(kept)


def _converted(func: relax.Function) -> tuple[relax.Function, list[Diagnostic]]:
    statics: dict[Var, Static] = {}
    nodes: list[Node] = []
    for node in nodes_of(func):
        static = static_call(node.call, statics)
        if static is None:
            nodes.append(node)
        else:
            statics[node.var] = static
    forms = forms_of(func, nodes)
    choices = {node.var: moved_or_why(node, forms) for node in nodes}
    transposed: set[Var] = set()
    if any(_is_anchor(node) and isinstance(choices[node.var], Moved) for node in nodes):
        stay = staying(func, nodes, forms, choices)
        moved = {v: m for v, m in choices.items() if isinstance(m, Moved) and v not in stay}
        func, transposed = emit(func, nodes, Plan(forms, moved, statics))
    kept = [
        Diagnostic(
            reason, nodes=sources_of(node.call), asked="layout", operator=node.name.removeprefix("relax.")
        )
        for node in nodes
        if isinstance(reason := choices[node.var], str)
        and (_is_anchor(node) or not transposed.isdisjoint([*node.operands, *(v for _, v in node.outputs)]))
    ]
    return func, kept


def _is_anchor(node: Node) -> bool:
    operator = operator_of(node)
    return operator is not None and operator.anchor
