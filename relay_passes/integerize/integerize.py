# SPDX-License-Identifier: Apache-2.0
"""The phase `integerize`: QDQ groups become integer arithmetic.

    quantize(relu(add(conv2d(dequantize(x), dequantize(W)), dequantize(b))), s, z)
        →    requantize(add(conv2d(x, W), b'))    b' = b - zx * sum(W); relu is a limit of requantize's saturation

A pass in program order maps each float variable to integers: a `Quantized` for dequantised tensors and their moved
elements, a `Sum` for accumulators. At each `quantize`, `Outputs` computes its value from these integers. Float calls
without remaining users are removed; the remaining float calls are reported with reasons.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, TupleGetItem, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm.relax.analysis import free_vars, remove_all_unused, udchain

from relay_passes.integerize import choices, moves
from relay_passes.integerize.context import Context, operator
from relay_passes.integerize.elementwise import clamp_of
from relay_passes.integerize.float_calls import remaining_float
from relay_passes.integerize.numerics import Numerics, Quantization
from relay_passes.integerize.outputs import Outputs
from relay_passes.integerize.products import biased, convolution, matmul
from relay_passes.integerize.reductions import average_pool, global_pool, reduction
from relay_passes.integerize.values import UNBOUNDED, Quantized, Sum, clamped
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of, union
from relay_passes.ir.upstream import name_equals, run_upstream
from schedules.diagnostic import Diagnostic


def dequantized(context: Context, call: Call) -> Quantized | Sum | Diagnostic:
    """Return a dequantize of integers as a quantised tensor or a sum, or why it is neither."""
    data, scale, zero_point = call.args
    if not (isinstance(scale, GenericConst) and isinstance(zero_point, GenericConst)):
        return Diagnostic.of("its scale or zero point is not a constant")
    data = context.constants.get(data, data) if isinstance(data, Var) else data
    shape = [1] * len(data.ty.shape)
    s, z = scale.value.numpy(), zero_point.value.numpy().astype(np.int64)
    # Scale and zero point are scalars, or have one element per index of an axis.
    s, z = (a.reshape(()) if a.size == 1 else a.reshape(_along(shape, call.attrs.axis)) for a in (s, z))
    if str(data.ty.dtype) == "int32" and not isinstance(data, GenericConst):
        return _accumulators(call, s, z)
    return Quantized(data, s.astype(np.float32), z, sources_of(call))


def _accumulators(call: Call, scale: npt.NDArray[Any], zero_point: npt.NDArray[Any]) -> Sum:
    rank = (1,) * len(call.ty.shape)
    return Sum(
        value=call.args[0],
        offset=-zero_point * np.ones(rank, np.int64),
        magnitude=-int(np.iinfo(np.int32).min),
        input_scale=1.0,
        weight_scale=(scale * np.ones(rank)).astype(np.float32),
        count=np.ones(rank, np.float32),
        bounds=UNBOUNDED,
        names=sources_of(call),
        data_dtype="int32",
    )


def _along(shape: list[int], axis: int) -> list[int]:
    shape = list(shape)
    shape[axis] = -1
    return shape


_PRODUCTS: Mapping[str, Callable[[Context, Call], Sum | Diagnostic]] = {
    "nn.conv1d": convolution,
    "nn.conv2d": convolution,
    "nn.conv3d": convolution,
    "nn.conv1d_transpose": convolution,
    "nn.conv2d_transpose": convolution,
    "nn.conv3d_transpose": convolution,
    "matmul": matmul,
}
_TOTALS: Mapping[str, Callable[[Context, Call], Sum | Diagnostic]] = {
    "mean": reduction,
    "sum": reduction,
    "nn.avg_pool2d": average_pool,
    "nn.adaptive_avg_pool1d": global_pool,
    "nn.adaptive_avg_pool2d": global_pool,
    "nn.adaptive_avg_pool3d": global_pool,
}
# The argmax of values is the argmax of their quantised values.
_ORDER = ("argmax", "argmin")


def integerize(mod: IRModule, numerics: Numerics) -> tuple[IRModule, tuple[Diagnostic, ...]]:
    """Rewrite operators between dequantize and quantize to integer operators.

    Args:
        mod: Module in canonical form: A-normal form, every call named, equal calls merged, constants folded except
            dequantize.
        numerics: Numerics of the integer operators.

    Returns:
        The module (the same object if it has no quantised tensors), and the calls that remain in float.
    """
    functions = [(gv, func) for gv, func in relax_functions(mod) if _is_quantized(func)]
    if not functions:
        return mod, ()
    builder = relax.BlockBuilder(mod)
    left: list[Diagnostic] = []
    for gv, func in functions:
        context = Context(builder, numerics)
        new = _IntegerRewriter(context).function(func)
        builder.update_func(gv, new)
        left += remaining_float(new, context) if _quantizes_data(func) else ()
    out = run_upstream(builder.get(), relax.transform.CanonicalizeBindings())
    out = run_upstream(name_equals(out), relax.transform.EliminateCommonSubexpr())
    out = run_upstream(out, relax.transform.DeadCodeElimination())
    return out, tuple(left)


def _is_quantized(func: relax.Function) -> bool:
    return any(operator(b.value) in ("quantize", "dequantize") for b in bindings_of(func))


def _quantizes_data(func: relax.Function) -> bool:
    """Whether a function has quantised data, besides quantised weights."""
    return any(
        operator(b.value) == "quantize" or (operator(b.value) == "dequantize" and free_vars(b.value))
        for b in bindings_of(func)
    )


class _IntegerRewriter:
    """Rewrites the bindings of one function in program order."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._outputs = Outputs(context)

    def function(self, func: relax.Function) -> relax.Function:
        blocks = [self._block(block) for block in func.body.blocks]
        body = relax.SeqExpr(blocks, func.body.body)
        new = relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)
        return remove_all_unused(new)

    def _block(self, block: relax.BindingBlock) -> relax.BindingBlock:
        if not isinstance(block, relax.DataflowBlock):
            return block
        context = self._context
        context.bindings = []
        context.readers = dict(udchain(block))
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, Call):
                context.definitions[binding.var] = value
            if not self._rewritten(binding.var, value):
                context.bindings.append(binding)
        return relax.DataflowBlock(context.bindings)

    def _rewritten(self, var: Var, value: Expr) -> bool:
        """Record the integer form of `var`, if any; return whether `var` was bound to a value computed from it."""
        context = self._context
        if isinstance(value, TupleGetItem):
            return self._item(var, value)
        name = operator(value)
        if name == "dequantize":
            return self._dequantized(var, value)
        if name == "quantize":
            return self._quantized(var, value)
        if name in _PRODUCTS:
            return self._sum(var, _PRODUCTS[name](context, value), real=True)
        if name in _TOTALS:
            return self._sum(var, _TOTALS[name](context, value), real=False)
        if name == "add" and (total := biased(context, value)) is not None:
            return self._sum(var, total, real=True)
        if name in _ORDER and (x := context.known(value.args[0])) is not None and x.per_tensor is not None:
            context.rebind(var, choices.index(context, value, x), x.names, sources_of(value))
            return True
        if isinstance(value, Call) and choices.is_comparison(value):
            return self._compared(var, value)
        if isinstance(value, Call) and choices.is_choice(value):
            return self._known(var, choices.alike(context, value))
        if name == "split" and (x := context.known(value.args[0])) is not None:
            return self._split(var, value, x)
        if name == "concat":
            return self._known(var, moves.joined(context, value))
        if isinstance(value, Call) and moves.is_move(value):
            return self._known(var, moves.commuted(context, value))
        if isinstance(value, Call) and (clamp := clamp_of(context, value)) is not None:
            return self._clamped(var, value, *clamp)
        return False

    def _dequantized(self, var: Var, call: Call) -> bool:
        found = dequantized(self._context, call)
        if isinstance(found, Quantized):
            self._context.quantized[var] = found
            return False
        return self._sum(var, found, real=False)

    def _quantized(self, var: Var, call: Call) -> bool:
        data, scale, zero_point = call.args
        if not (isinstance(scale, GenericConst) and isinstance(zero_point, GenericConst)):
            refusal = Diagnostic.of("its scale or zero point is not a constant")
        elif scale.value.numpy().size != 1 or zero_point.value.numpy().size != 1:
            refusal = Diagnostic.of("its result is quantised per channel")
        else:
            dtype = str(call.attrs.out_dtype)
            y = Quantization(float(scale.value.numpy().item()), int(zero_point.value.numpy().item()), dtype)
            found = self._outputs.of(data, y, sources_of(call))
            if not isinstance(found, Diagnostic):
                self._context.rebind(var, found, sources_of(call))
                return True
            return False
        self._context.refusals.setdefault(data, refusal)
        return False

    def _sum(self, var: Var, found: Sum | Diagnostic, *, real: bool) -> bool:
        context = self._context
        if isinstance(found, Diagnostic):
            context.refusals[var] = found
            return False
        context.sums[var] = found
        if real:
            context.rebind(var, context.scaled(found), found.names)
        return real

    def _clamped(self, var: Var, call: Call, data: Expr, low: float | None, high: float | None) -> bool:
        context = self._context
        acc, x = context.sums.get(data), context.known(data)
        if acc is not None:
            names = union((acc.names, sources_of(call)))
            context.sums[var] = replace(acc, bounds=clamped(acc.bounds, low, high), names=names)
            return False
        quantization = None if x is None else x.per_tensor
        if x is None or quantization is None or x.constant is not None or (low, high) != (0.0, None):
            return False
        # Every quantisation represents 0 exactly, so the result of relu has the quantisation of its input.
        zero = relax.const(np.array(quantization.zero_point, quantization.dtype))
        value = context.emit(R.maximum(x.value, zero), x.names, sources_of(call))
        return self._known(var, replace(x, value=value, names=()))

    def _compared(self, var: Var, call: Call) -> bool:
        found = choices.compared(self._context, call)
        if isinstance(found, Diagnostic):
            self._context.refusals[var] = found
        elif found is not None:
            self._context.rebind(var, found, sources_of(call))
            return True
        return False

    def _split(self, var: Var, call: Call, x: Quantized) -> bool:
        quantization = x.per_tensor
        if quantization is None or x.constant is not None:
            return False
        value = moves.moved(self._context, call, x.value, quantization, x.names, sources_of(call))
        self._context.splits[var] = (value, x)
        return False

    def _item(self, var: Var, item: TupleGetItem) -> bool:
        found = self._context.splits.get(item.tuple_value)
        if found is None:
            return False
        split, x = found
        value = self._context.emit(TupleGetItem(split, item.index))
        return self._known(var, replace(x, value=value, names=()))

    def _known(self, var: Var, found: Quantized | None) -> bool:
        """Bind a variable to the dequantize of its integers; return whether it was bound."""
        if found is None:
            return False
        context = self._context
        context.quantized[var] = found
        if found.constant is not None:
            return False
        scale, zero_point = relax.const(found.scale), relax.const(found.zero_point.astype(found.dtype))
        names = sources_of(context.definitions[var]) if var in context.definitions else ()
        context.rebind(var, R.dequantize(found.value, scale, zero_point, axis=0), names)
        return True
