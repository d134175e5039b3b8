# SPDX-License-Identifier: Apache-2.0
"""Matmuls of one value with constants become one matmul, whose result is split: attention's Q, K and V.

    q = x · Wq + bq, k = x · Wk + bk, v = x · Wv + bv
    →    q, k, v = split(x · [Wq Wk Wv] + [bq bk bv]) along the last axis

Only where each composite is a matmul with its bias or without, and all alike: a further step, such as relu, would no
longer be inside of it. Exact: each element is the same sum. Upstream's CombineParallelMatmul does not see constants.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Constant, Expr, TupleGetItem, Var

from relay_passes.composites import CompositeSpec
from relay_passes.grouping import Group, group, operator_of
from relay_passes.sources import relax_functions, sources_of, union, with_source

Array = np.ndarray[Any, Any]

_MATRIX = 2


@dataclass(frozen=True)
class _Parallel:
    """Matmuls of one value, each with its bias or none of them."""

    members: tuple[Group, ...]

    @property
    def roots(self) -> list[Var]:
        return [member.bindings[-1].var for member in self.members]


def combine_matmuls(mod: IRModule, vocabulary: Sequence[CompositeSpec]) -> IRModule:
    """Combine what `fuse` with this vocabulary would make composites of that read one value.

    Args:
        mod: As for `fuse`, before it.
        vocabulary: As for `fuse`.
    """
    out = mod.clone()
    for gv, func in relax_functions(mod):
        if func.attrs and "Primitive" in func.attrs:
            continue
        found = _parallel(group(func, vocabulary).groups)
        if found:
            out.update_func(gv, _combined(func, found))
    return out


def _parallel(groups: Sequence[Group]) -> list[_Parallel]:
    alike: dict[tuple[Var, int, str], list[Group]] = {}
    for candidate in groups:
        if _is_linear(candidate):
            x, weight = candidate.bindings[0].value.args
            alike.setdefault((x, len(candidate.bindings), str(weight.ty.dtype)), []).append(candidate)
    return [_Parallel(tuple(members)) for members in alike.values() if len(members) > 1]


def _is_linear(candidate: Group) -> bool:
    """Whether it is a matmul of a variable with a constant matrix, with at most a bias after it."""
    anchor, *steps = (binding.value for binding in candidate.bindings)
    if operator_of(anchor) != "relax.matmul" or len(steps) > 1:
        return False
    x, weight = anchor.args
    if not isinstance(x, Var) or not isinstance(weight, Constant) or len(weight.ty.shape) != _MATRIX:
        return False
    return all(operator_of(step) == "relax.add" and _constant(step) is not None for step in steps)


def _constant(call: relax.Call) -> Constant | None:
    return next((arg for arg in call.args if isinstance(arg, Constant)), None)


def _values(constant: Constant) -> Array:
    value: Array = constant.value.numpy()
    return value


def _combined(func: relax.Function, found: Sequence[_Parallel]) -> relax.Function:
    before = {parallel.members[0].bindings[0].var: parallel for parallel in found}
    replaced: dict[Var, Expr] = {}
    gone = {binding.var for parallel in found for member in parallel.members for binding in member.bindings}
    blocks = []
    for block in func.body.blocks:
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            if binding.var in before:
                parallel = before[binding.var]
                new = list(_emitted(parallel))
                bindings += new
                items = (TupleGetItem(new[-1].var, index) for index in range(len(parallel.members)))
                replaced |= dict(zip(parallel.roots, items, strict=True))
            if binding.var in replaced:
                bindings.append(relax.VarBinding(binding.var, replaced[binding.var]))
            elif binding.var not in gone:
                bindings.append(binding)
        blocks.append(type(block)(bindings))
    body = relax.SeqExpr(blocks, func.body.body)
    func = relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)
    return relax.BlockBuilder().normalize(func)


def _emitted(parallel: _Parallel) -> Iterator[relax.VarBinding]:
    """The matmul, the bias and the split."""
    anchors = [member.bindings[0] for member in parallel.members]
    weights = [_values(anchor.value.args[1]) for anchor in anchors]
    widths = [weight.shape[1] for weight in weights]
    first = anchors[0].value
    product = relax.op.matmul(
        first.args[0], relax.const(np.concatenate(weights, axis=1)), first.attrs.out_dtype
    )
    yield (value := _bound(product, anchors))
    if len(parallel.members[0].bindings) > 1:
        adds = [member.bindings[1] for member in parallel.members]
        # That they have one element a column is what makes them a step of a composite.
        biases = [_values(_constant(add.value)).reshape(-1) for add in adds]
        yield (value := _bound(relax.op.add(value.var, relax.const(np.concatenate(biases))), adds))
    parts = relax.op.split(value.var, list(accumulate(widths))[:-1], axis=-1)
    yield _bound(parts, [member.bindings[-1] for member in parallel.members])


def _bound(call: relax.Call, origins: Sequence[relax.VarBinding]) -> relax.VarBinding:
    """`call`, bound to a variable that is named after the first of its origins and carries the names of all."""
    call = with_source(relax.BlockBuilder().normalize(call), union(sources_of(b.value) for b in origins))
    return relax.VarBinding(relax.DataflowVar(f"{origins[0].var.name}_combined", call.ty), call)
