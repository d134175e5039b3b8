# SPDX-License-Identifier: Apache-2.0
"""Conversion of the whole graph from NCHW to NHWC, with OHWI weights and the minimum number of transposed bytes.

    x → conv2d → add → relu → reshape [N, C·H·W] → matmul W
    x → permute_dims → conv2d (NHWC, OHWI) → add → relu → reshape [N, H·W·C] → matmul W with its rows permuted

Every value has a channels-last layout (its "form"); every call is emitted either in the model's layout or on values in
this form. Convolutions use the form, inputs and outputs the model's layout. For all other calls a minimum cut decides;
the cost is the size of each value that is needed in both layouts. Constants are converted at compile time.

Quantised: `quantize` and `dequantize` are treated like other calls, so that remaining transposes are of integers, if
possible; integer weights remain integer constants under `dequantize`, whose axis is adjusted.
"""

import math
from collections.abc import Mapping, Sequence

from tvm import DataType, IRModule, relax
from tvm.ir import TupleType, Var
from tvm.relax.analysis import free_vars

from relay_passes.ir.calls import BoundCall, nodes_of
from relay_passes.ir.shapes import axes_of, shape_of, static_shape
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of
from relay_passes.layout.constants import Static, static_call
from relay_passes.layout.form import Form, Role
from relay_passes.layout.minimum_cut import NEVER, SINK, SOURCE, FlowNetwork
from relay_passes.layout.moves import Forms, Moved
from relay_passes.layout.operators import OPERATORS, LayoutRules
from relay_passes.layout.roles import infer_roles
from relay_passes.layout.write_function import LayoutPlan, emit
from schedules.diagnostic import Diagnostic


def to_nhwc(mod: IRModule) -> tuple[IRModule, tuple[Diagnostic, ...]]:
    """Convert calls to channels-last: all convolutions with constant weights, others if this saves transposed bytes.

    Args:
        mod: Module in canonical form, with every call named. Functions with no convolution, or whose body is not one
            dataflow block, are not changed.

    Returns:
        The module, whose inputs and outputs keep their layouts, and why calls stay in the model's layout.
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
    nodes, statics = _at_run_time(func)
    forms = {var: Form.of(shape_of(var), roles) for var, roles in _roles_of(func, nodes).items()}
    choices = {node.var: _moved_or_why(node, forms) for node in nodes}
    transposed: set[Var] = set()
    if any(_is_anchor(node) and isinstance(choices[node.var], Moved) for node in nodes):
        stay = _staying(func, nodes, forms, choices)
        moved = {v: m for v, m in choices.items() if isinstance(m, Moved) and v not in stay}
        func, transposed = emit(func, nodes, LayoutPlan(forms, moved, statics))
    kept = [
        Diagnostic(
            reason, nodes=sources_of(node.call), asked="layout", operator=node.name.removeprefix("relax.")
        )
        for node in nodes
        if isinstance(reason := choices[node.var], str)
        and (_is_anchor(node) or not transposed.isdisjoint([*node.operands, *(v for _, v in node.outputs)]))
    ]
    return func, kept


def _is_anchor(node: BoundCall) -> bool:
    operator = _operator_of(node)
    return operator is not None and operator.anchor


def _operator_of(node: BoundCall) -> LayoutRules | None:
    """Return the layout rules of a call's operator; None if there are none."""
    return OPERATORS.get(node.name.removeprefix("relax."))


def axis_roles(func: relax.Function) -> dict[Var, tuple[Role | None, ...]]:
    """Return the roles of the axes of parameters and computed values with static shapes; None for no known role."""
    return _roles_of(func, _at_run_time(func)[0])


def _at_run_time(func: relax.Function) -> tuple[list[BoundCall], dict[Var, Static]]:
    """Return the calls that are computed at run time, and the values that are known at compile time."""
    statics: dict[Var, Static] = {}
    nodes: list[BoundCall] = []
    for node in nodes_of(func):
        static = static_call(node.call, statics)
        if static is None:
            nodes.append(node)
        else:
            statics[node.var] = static
    return nodes, statics


def _roles_of(func: relax.Function, nodes: Sequence[BoundCall]) -> dict[Var, tuple[Role | None, ...]]:
    values = [*func.params, *(var for node in nodes for _, var in node.outputs)]
    shapes = {var: shape for var in values if (shape := static_shape(var)) is not None}
    related = []
    for node in nodes:
        operator = _operator_of(node)
        if operator is not None and _shape_problem(node) is None:
            related.append(operator.relate(node).among(shapes))
    roles = infer_roles(related)
    return {
        var: tuple(roles.role((var, axis)) for axis in range(len(shape))) for var, shape in shapes.items()
    }


def _moved_or_why(node: BoundCall, forms: Forms) -> Moved | str:
    """Return the channels-last version of a call, or why it stays in the model's layout."""
    problem = _shape_problem(node)
    if problem is not None:
        return problem
    operator = _operator_of(node)
    gives = tuple(forms[var] for _, var in node.outputs)
    met = [forms[value] for value in node.operands if value in forms]
    if all(form.is_trivial for form in (*met, *gives)) and not (operator and operator.anchor):
        return Moved((None,) * len(node.operands), gives, node.put)
    if operator is None:
        return "no channels-last form of it is known"
    moved = operator.move(node, forms)
    if isinstance(moved, str):
        return moved
    for value, need in zip(node.operands, moved.needs, strict=True):
        if value in forms and not (need.same(forms[value]) if need else forms[value].is_trivial):
            return "its operands have their axes in different orders"
    if not all(given.same(form) for given, form in zip(moved.gives, gives, strict=True)):
        return "its result would have its axes in another order than where it goes"
    return moved


def _shape_problem(node: BoundCall) -> str | None:
    if any(isinstance(arg, Var) and isinstance(arg.ty, TupleType) for arg in node.call.args):
        return "it takes a tuple whole"
    if not node.outputs or not node.operands:
        return "its result is no tensor" if node.operands else "it takes no tensor"
    tensors = (*node.operands, *(var for _, var in node.outputs))
    return "a shape is not static" if any(static_shape(value) is None for value in tensors) else None


def _staying(
    func: relax.Function, nodes: Sequence[BoundCall], forms: Forms, moved: Mapping[Var, Moved | str]
) -> set[Var]:
    """Return the variables of the calls that stay in the model's layout, by the minimum cut."""
    cut = FlowNetwork()
    for node in nodes:
        new = moved[node.var]
        operator = _operator_of(node)
        if isinstance(new, str):
            cut.edge(SOURCE, node.var, NEVER)
            continue
        if operator is not None and operator.anchor:
            cut.edge(node.var, SINK, NEVER)
        if node.name == "relax.permute_dims":
            cut.edge(node.var, SINK, _own_price(node))
            cut.edge(SOURCE, node.var, _bytes(node.var) if new.copies else 0)
    producers = {var: node.var for node in nodes for _, var in node.outputs}
    users = _users(func, nodes)
    for var, form in forms.items():
        # A conversion by a reshape copies nothing; with the cost of one element, the cut prefers no conversion.
        price = 0 if form.is_trivial else _element(var) if form.is_view else _bytes(var) + _element(var)
        producer = producers.get(var, SOURCE)
        # One transpose serves all users that need the value in the other layout.
        for user in users.get(var, ()) if price else ():
            cut.edge((var, "in"), user, NEVER)
            cut.edge(user, (var, "out"), NEVER)
        cut.edge(producer, (var, "in"), price)
        cut.edge((var, "out"), producer, price)
    side = cut.source_side()
    return {node.var for node in nodes if node.var in side}


def _users(func: relax.Function, nodes: Sequence[BoundCall]) -> dict[Var, set[object]]:
    """Return the users of each value: variables of calls, and SOURCE for users that need the model's layout."""
    users: dict[Var, set[object]] = {}
    calls = {node.var for node in nodes}
    for b in bindings_of(func):
        for var in free_vars(b.value):
            users.setdefault(var, set()).add(b.var if b.var in calls else SOURCE)
    for var in free_vars(func.body.body):
        users.setdefault(var, set()).add(SOURCE)
    return users


def _own_price(node: BoundCall) -> int:
    shape = static_shape(node.operands[0]) or ()
    return 0 if Form.ordered(shape, axes_of(node.call)).is_view else _bytes(node.var)


def _bytes(var: Var) -> int:
    return math.prod(static_shape(var) or ()) * _element(var)


def _element(var: Var) -> int:
    return -(-int(DataType(str(var.ty.dtype)).bits) // 8)
