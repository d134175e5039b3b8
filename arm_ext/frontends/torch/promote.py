# SPDX-License-Identifier: Apache-2.0
"""Conversion of implicit steps of torch's arithmetic to operators: casts of type promotion, and factors.

mul(int64, 0.5)      →    mul(_to_copy(int64, float32), 0.5)
add(x, y, alpha=a)   →    add(x, mul(y, a))
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

_Rule = Callable[[torch.fx.Node, list[Any]], torch.dtype]


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name that numpy and Relax have for a dtype."""
    return str(dtype).removeprefix("torch.")


def _common(kind: KIND) -> _Rule:
    return lambda _, values: elementwise_dtypes(*values, type_promotion_kind=kind)[1]


def _compared(_: torch.fx.Node, values: list[Any]) -> torch.dtype:
    return elementwise_dtypes(*values, type_promotion_kind=KIND.DEFAULT)[1]


def _result(node: torch.fx.Node, _: list[Any]) -> torch.dtype:
    dtype: torch.dtype = node.meta["val"].dtype
    return dtype


def _bool(_: torch.fx.Node, __: list[Any]) -> torch.dtype:
    return torch.bool


def _rules() -> dict[str, _Rule]:
    """Return, for each operator, the rule for the type in which it computes."""
    arithmetic = (
        "add sub rsub mul pow remainder fmod maximum minimum floor_divide where bitwise_and bitwise_or bitwise_xor "
        "__and__ __or__ __xor__"
    )
    real = (
        "true_divide exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh "
        "asinh acosh atanh sigmoid erf erfc reciprocal"
    )
    return {
        **dict.fromkeys(arithmetic.split(), _common(KIND.DEFAULT)),
        **dict.fromkeys(real.split(), _common(KIND.INT_TO_FLOAT)),
        **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compared),
        **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not", "any"), _bool),
        **dict.fromkeys(("sum", "prod", "cumsum", "cumprod", "mean"), _result),
        "div": _divided,
    }


def _divided(node: torch.fx.Node, values: list[Any]) -> torch.dtype:
    rounded = node.kwargs.get("rounding_mode") is not None
    kind = KIND.DEFAULT if rounded else KIND.INT_TO_FLOAT
    return elementwise_dtypes(*values, type_promotion_kind=kind)[1]


_RULES = _rules()
_SCALED = (torch.ops.aten.add, torch.ops.aten.sub, torch.ops.aten.rsub)
# Index of the first operand that is promoted; the condition of `where` is not promoted.
_FIRST = {"where": 1}
# Operators that torch computes instead if both operands are Boolean.
_OF_BOOLEANS = {"mul": torch.ops.aten.logical_and.default, "add": torch.ops.aten.logical_or.default}


def promote(program: torch.fx.GraphModule) -> None:
    """Insert the casts and factors into a graph and its subgraphs."""
    for module in program.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in list(module.graph.nodes):
                _take_out_factor(module.graph, node)
            for node in list(module.graph.nodes):
                _promote(module.graph, node)


def _take_out_factor(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Multiply an operand of a sum or difference by its argument alpha, which TVM's importer ignores."""
    factor: Any = node.kwargs.get("alpha", 1)
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.overloadpacket not in _SCALED:
        return
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "alpha"}
    if factor == 1:
        return
    other: Any = node.args[1]
    if not _is_tensor(other):
        node.update_arg(1, other * factor)
        return
    with graph.inserting_before(node):
        product = graph.call_function(torch.ops.aten.mul.Tensor, (other, factor))
    product.meta = {**node.meta, "val": other.meta["val"] * factor}
    node.update_arg(1, product)


def _promote(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return
    name = node.target._schema.name.removeprefix("aten::")
    if name not in _RULES:
        return
    first = _FIRST.get(name, 0)
    operands: list[tuple[int, Any]] = [(k, arg) for k, arg in enumerate(node.args[: first + 2]) if k >= first]
    tensors = [(k, arg) for k, arg in operands if _is_tensor(arg)]
    if not tensors:
        return
    dtype = _RULES[name](node, list(_values(arg for _, arg in operands)))
    if dtype == torch.bool:
        node.target = _OF_BOOLEANS.get(name, node.target)
    for k, arg in tensors:
        if arg.meta["val"].dtype != dtype:
            with graph.inserting_before(node):
                cast = graph.call_function(torch.ops.aten._to_copy.default, (arg,), {"dtype": dtype})
            cast.meta = {**node.meta, "val": arg.meta["val"].to(dtype)}
            node.update_arg(k, cast)


def _is_tensor(arg: Any) -> bool:
    return isinstance(arg, torch.fx.Node) and isinstance(arg.meta.get("val"), torch.Tensor)


def _values(args: Iterable[Any]) -> Iterable[Any]:
    """Yield the tensors and numbers among arguments, which determine the type that torch promotes to."""
    for arg in args:
        value = arg.meta.get("val") if isinstance(arg, torch.fx.Node) else arg
        if isinstance(value, torch.Tensor | bool | int | float):
            yield value
