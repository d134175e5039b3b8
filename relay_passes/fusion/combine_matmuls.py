# SPDX-License-Identifier: Apache-2.0
"""Matmuls of one value with several constants become one matmul whose result is split, such as attention's Q, K and V.

    q = x · Wq + bq, k = x · Wk + bk, v = x · Wv + bv
    →    q, k, v = split(x · [Wq Wk Wv] + [bq bk bv]) along the last axis

Composites are combined only if all are float32 matmuls with a bias, or all without: another step, such as relu, could
no longer be part of the composite. Exact: each element is the same sum. TVM's CombineParallelMatmul does not match
constants.

They are combined only if the caller's estimate is lower: the split is a copy, which is worthwhile if columns are no
multiple of a tile, or if each product would read the data from memory. The estimate includes the memory traffic of a
combined value that exceeds the cache.

Quantised: integer matmuls are not combined, because each composite requantises to a different zero point.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Constant, Expr, TupleGetItem, Var

from relay_passes.fusion.composites import CompositeSpec
from relay_passes.fusion.epilogue_steps import operator_of
from relay_passes.fusion.grouping import FusionGroup, group
from relay_passes.ir.calls import tensor_const
from relay_passes.ir.shapes import static_shape
from relay_passes.ir.sources import Names, relax_functions, sources_of, union, with_source
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Explanation
from schedules.diagnostic import Diagnostic

NAME = "combine_matmuls"

Array = np.ndarray[Any, Any]

_MATRIX = 2
_FLOAT_BYTES = 4


class MatmulCosts(Protocol):
    """Interface of the cost estimates, in cycles on one core."""

    @property
    def cache(self) -> int:
        """Size in bytes of the last cache level that is private to one core."""

    def linear(self, data: Sequence[int], columns: int, *, bias: bool) -> float | None:
        """Estimate a float32 linear layer with constant weights for data of a shape; None if there is no estimate."""

    def split(self, shape: Sequence[int]) -> float:
        """Estimate splitting a float32 value along its last axis."""


@dataclass(frozen=True)
class _Parallel:
    """Matmuls of the same value, either all with a bias or all without a bias."""

    members: tuple[FusionGroup, ...]

    @property
    def roots(self) -> list[Var]:
        return [member.bindings[-1].var for member in self.members]

    @property
    def nodes(self) -> Names:
        return union(member.nodes for member in self.members)

    @property
    def widths(self) -> list[int]:
        """Number of columns of each matmul."""
        return [int(member.bindings[0].value.args[1].ty.shape[1]) for member in self.members]


def combine_matmuls(
    mod: IRModule,
    vocabulary: Sequence[CompositeSpec],
    costs: MatmulCosts,
    record: RewriteRecord | None = None,
) -> IRModule:
    """Combine matmuls of one value that `fuse` would turn into composites, if the estimates are lower.

    Args:
        mod: Module before `fuse`, in the form that `fuse` requires.
        vocabulary: See `fuse`.
        costs: Cost estimates that decide whether to combine.
        record: Records combined matmuls and rejections, unless None; it may switch the pass off.
    """
    if record is not None and NAME in record.off:
        return mod
    out = mod.clone()
    applied: list[Names] = []
    rejected: list[Diagnostic] = []
    for gv, func in relax_functions(mod):
        if func.attrs and "Primitive" in func.attrs:
            continue
        found: list[_Parallel] = []
        for parallel in _parallel(group(func, vocabulary).groups):
            why = _no_gain(parallel, costs)
            if why is None:
                found.append(parallel)
                applied.append(parallel.nodes)
            else:
                rejected.append(why)
        if found:
            out.update_func(gv, _combined(func, found))
    if record is not None:
        record.passes[NAME] = Explanation(tuple(applied), tuple(rejected))
    return out


def _parallel(groups: Sequence[FusionGroup]) -> list[_Parallel]:
    alike: dict[tuple[Var, int], list[FusionGroup]] = {}
    for candidate in groups:
        if _is_linear(candidate):
            x, _ = candidate.bindings[0].value.args
            alike.setdefault((x, len(candidate.bindings)), []).append(candidate)
    return [_Parallel(tuple(members)) for members in alike.values() if len(members) > 1]


def _no_gain(parallel: _Parallel, costs: MatmulCosts) -> Diagnostic | None:
    """Return why separate matmuls are cheaper; None if combining them is cheaper."""
    first = parallel.members[0].bindings
    data, widths, bias = static_shape(first[0].value.args[0]), parallel.widths, len(first) > 1
    if data is None:
        return Diagnostic.of("shape is not static", nodes=parallel.nodes)
    apart = [costs.linear(data, width, bias=bias) for width in widths]
    together = costs.linear(data, sum(widths), bias=bias)
    if together is None or None in apart:
        return Diagnostic.of("no kernel estimates their cost", nodes=parallel.nodes)
    value = (*data[:-1], sum(widths))
    limit, actual = sum(filter(None, apart)), together + costs.split(value)
    if actual < limit:
        return None
    size = math.prod(value) * _FLOAT_BYTES
    where = (
        f", of a value of {size} bytes that leaves the cache of {costs.cache}" if size > costs.cache else ""
    )
    cost = f"{together:.0f} cycles of the product, {actual - together:.0f} of its split{where}"
    return Diagnostic.of(
        "together they take more cycles than apart",
        f"below {round(limit)}",
        round(actual),
        nodes=parallel.nodes,
        hint=cost,
    )


def _is_linear(candidate: FusionGroup) -> bool:
    """Whether a group is a float32 matmul of a variable with a constant matrix, with at most a bias after it."""
    anchor, *steps = (binding.value for binding in candidate.bindings)
    if operator_of(anchor) != "relax.matmul" or len(steps) > 1:
        return False
    x, weight = anchor.args
    if not isinstance(x, Var) or not isinstance(weight, Constant) or len(weight.ty.shape) != _MATRIX:
        return False
    if {str(x.ty.dtype), str(weight.ty.dtype), str(anchor.ty.dtype)} != {"float32"}:
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
    """Yield the bindings of the combined matmul, the combined bias and the split."""
    anchors = [member.bindings[0] for member in parallel.members]
    weights = [_values(anchor.value.args[1]) for anchor in anchors]
    first = anchors[0].value
    product = relax.op.matmul(
        first.args[0], tensor_const(np.concatenate(weights, axis=1)), first.attrs.out_dtype
    )
    yield (value := _bound(product, anchors))
    if len(parallel.members[0].bindings) > 1:
        adds = [member.bindings[1] for member in parallel.members]
        # `fuse` accepts a bias only if it has one element per column, so all biases here have.
        biases = [_values(_constant(add.value)).reshape(-1) for add in adds]
        yield (value := _bound(relax.op.add(value.var, tensor_const(np.concatenate(biases))), adds))
    parts = relax.op.split(value.var, list(accumulate(parallel.widths))[:-1], axis=-1)
    yield _bound(parts, [member.bindings[-1] for member in parallel.members])


def _bound(call: relax.Call, origins: Sequence[relax.VarBinding]) -> relax.VarBinding:
    """Return a binding of `call` to a variable named after its first origin, with the source names of all origins."""
    call = with_source(relax.BlockBuilder().normalize(call), union(sources_of(b.value) for b in origins))
    return relax.VarBinding(relax.DataflowVar(f"{origins[0].var.name}_combined", call.ty), call)
