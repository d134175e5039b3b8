# SPDX-License-Identifier: Apache-2.0
"""Parsing of a PrimFunc, as FuseTIR returns it, into stages."""

import math
from dataclasses import replace
from typing import Any

from tvm import ir, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm.s_tir.stmt import SBlockRealize
from tvm_ffi import structural_equal

from schedules.generic import arg_extremum
from schedules.generic.expressions import UnsupportedError, rebuild
from schedules.generic.stages import Axis, Kind, Stage, StagedFunction, StageReduction, shape_of

_COMBINERS: tuple[tuple[Any, Kind], ...] = (
    (prim.Add, "sum"),
    (prim.Mul, "product"),
    (prim.Max, "max"),
    (prim.Min, "min"),
)

_REDUCE = 2  # IterVar.iter_type of a reduction axis (kCommReduce)
_SPATIAL = 0  # kDataPar


def parse(func: tirx.PrimFunc) -> StagedFunction:
    """Parse a PrimFunc into stages.

    Raises:
        UnsupportedError: A part of the body is no serial loop nest over a block with one store.
    """
    if not isinstance(func.body, SBlockRealize):
        raise UnsupportedError("a body that is not a block")
    root = func.body.block
    for buffer in (*func.params, *root.alloc_buffers):
        _check_buffer(buffer)
    body = root.body
    nests = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    return StagedFunction(
        tuple(func.params), tuple(root.alloc_buffers), tuple(s for nest in nests for s in _stages(nest))
    )


def _check_buffer(buffer: ir.Var) -> None:
    if not hasattr(buffer.ty, "shape"):
        raise UnsupportedError("an argument that is not a tensor")
    if str(buffer.ty.dtype) == "bfloat16":
        # TVM's BF16ComputeLegalize does not support `Bind` of a bfloat16 value.
        raise UnsupportedError("bfloat16")
    if len(buffer.ty.strides):
        raise UnsupportedError("a tensor with strides")
    if math.prod(shape_of(buffer)) == 0:
        raise UnsupportedError("an empty tensor")


def _stages(nest: tirx.Stmt) -> tuple[Stage, ...]:
    extents: dict[ir.Var, int] = {}
    while isinstance(nest, tirx.For):
        if not isinstance(nest.extent, prim.IntImm) or nest.kind != tirx.ForKind.SERIAL or nest.annotations:
            raise UnsupportedError("a loop that is parallel, annotated or of symbolic extent")
        extents[nest.loop_var] = int(nest.extent)
        nest = nest.body
    if not isinstance(nest, SBlockRealize):
        raise UnsupportedError(f"statement {type(nest).__name__}")
    if not (isinstance(nest.predicate, prim.IntImm) and int(nest.predicate) == 1):
        raise UnsupportedError("a predicate")
    block = nest.block
    if block.match_buffers or block.alloc_buffers:
        raise UnsupportedError(f"block {block.name_hint} with local tensors")
    for iter_var, value in zip(block.iter_vars, nest.iter_values, strict=True):
        whole = isinstance(value, ir.Var) and extents.pop(value, None) == int(iter_var.dom.extent)
        if not whole and int(iter_var.dom.extent) != 1:
            raise UnsupportedError(f"block {block.name_hint} whose axes are not bound to full loops")
    spatial = tuple(Axis(v.var, int(v.dom.extent)) for v in block.iter_vars if v.iter_type == _SPATIAL)
    reduced = tuple(Axis(v.var, int(v.dom.extent)) for v in block.iter_vars if v.iter_type == _REDUCE)
    if len(spatial) + len(reduced) != len(block.iter_vars):
        raise UnsupportedError("an axis that is neither spatial nor reduced")
    if not isinstance(block.body, tirx.BufferStore):
        return arg_extremum.stages(block, spatial, reduced)
    store = block.body
    stage = Stage(store.buffer, spatial, tuple(store.indices), rebuild(store.value, _bare_condition))
    if block.init is not None:
        reduction = _reduction(store, block.init, reduced)
        stage = replace(stage, value=reduction.result, reduction=reduction)
    elif reduced:
        raise UnsupportedError("a reduction without an initial value")
    return (stage,)


def _bare_condition(expr: ir.Expr) -> ir.Expr | None:
    """Return the condition c of an expression `0 < int64(c)`; None for other expressions.

    TVM's `where` emits such expressions, for which TVM's analysis of vectors fails.
    """
    if not (isinstance(expr, prim.LT) and isinstance(expr.a, prim.IntImm) and int(expr.a) == 0):
        return None
    is_truth = isinstance(expr.b, prim.Cast) and str(expr.b.value.ty.dtype) == "bool"
    return rebuild(expr.b.value, _bare_condition) if is_truth else None


def _reduction(store: tirx.BufferStore, init: tirx.Stmt, axes: tuple[Axis, ...]) -> StageReduction:
    if not isinstance(init, tirx.BufferStore):
        raise UnsupportedError("a reduction of several values")
    value = store.value
    for node, kind in _COMBINERS:
        if type(value) is node and isinstance(value.a, TensorLoad) and value.a.source.same_as(store.buffer):
            if not structural_equal(list(value.a.indices), list(store.indices)):
                raise UnsupportedError("a reduction that reads another element of its result")
            result = tirx.Var("result", str(value.ty.dtype))
            return StageReduction(kind, axes, init.value, value.b, result)
    raise UnsupportedError("a reduction that is no sum, product, maximum or minimum")
