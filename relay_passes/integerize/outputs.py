# SPDX-License-Identifier: Apache-2.0
"""Integer forms of the float values that a `quantize` reads.

`quantize` commutes with clamps, moves and concatenations, and is moved up to values with known integers:

    a quantised tensor         itself, or requantised by a table
    accumulators               requantised
    function of one tensor     a table
    add, sub, mul of two       computed with both operands' scales; a table if both are tables of one tensor
    where                      selected from both quantised branches
    bilinear resize            computed, then as for a quantised tensor
    softmax                    computed from a table of exponentials
    layer norm, RMS norm       computed from integer statistics
"""

import numpy as np
from tvm import relax
from tvm.ir import Call, Expr, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize import choices, moves
from relay_passes.integerize.context import Context, integers, operator
from relay_passes.integerize.elementwise import ElementwiseChain, chain_of, clamp_of
from relay_passes.integerize.moves import RESIZE, interpolated
from relay_passes.integerize.numerics import BinaryOp, Bounds, Floats, Quantization, Real, Routine
from relay_passes.integerize.tables import BYTES, Origin, after, common_origin
from relay_passes.integerize.values import UNBOUNDED, Quantized, Sum, TableLookup, clamped, static_shape
from relay_passes.ir.sources import Names, sources_of, union
from schedules.diagnostic import Diagnostic

NORMS = ("nn.layer_norm", "nn.rms_norm")


def norm(context: Context, call: Call, y: Quantization, bounds: Bounds, names: Names) -> Expr | Diagnostic:
    """Return the integers of one of `NORMS` over the last axes, with constant gamma and beta, or why there are none."""
    name = operator(call)
    x = context.known(call.args[0])
    quantization = None if x is None else x.per_tensor
    if x is None or quantization is None:
        return Diagnostic.of("its input is not quantised per tensor")
    if bounds != UNBOUNDED:
        return Diagnostic.of(f"a clamp follows {name}")
    rank = len(x.shape)
    axes = sorted(axis % rank for axis in integers(call.attrs.axes))
    if axes != list(range(rank - len(axes), rank)):
        return Diagnostic.of("its axes are not the last ones", list(range(rank - len(axes), rank)), axes)
    if not all(getattr(call.attrs, part, True) for part in ("center", "scale")):
        return Diagnostic.of("it leaves out gamma or beta")
    factors = [context.constant(factor) for factor in call.args[1:]]
    gamma, beta = (*factors, None)[:2]
    if gamma is None or any(factor is None for factor in factors):
        return Diagnostic.of("gamma or beta are not constants")
    try:
        routine = context.numerics.norm(
            x.shape, (len(axes), float(call.attrs.epsilon)), (gamma, beta), quantization, y
        )
    except ValueError as err:
        return Diagnostic.of(str(err))
    return context.call(routine, [x.value], x.value, y.dtype, x.names, names)


_BINARY: dict[str, BinaryOp] = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
}


class Outputs:
    """Emits the quantised values of one function, each of them once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found: dict[tuple[Expr, Quantization, Bounds], Expr] = {}

    def of(self, expr: Expr, y: Quantization, names: Names, bounds: Bounds = UNBOUNDED) -> Expr | Diagnostic:
        """Return the integers of clamp(expr) with quantisation `y`, or why there are none.

        Args:
            expr: A float value.
            y: Quantisation of the result.
            names: Source nodes of the quantize, and of the calls between `expr` and the quantize.
            bounds: Bounds of the clamp.
        """
        key = (expr, y, bounds)
        if key not in self._found:
            found = self._emitted(expr, y, names, bounds)
            if isinstance(found, Diagnostic):
                # Keep the first rejection, which is that of the innermost call.
                if isinstance(expr, Var):
                    self._context.refusals.setdefault(expr, found)
                return found
            self._found[key] = found
        return self._found[key]

    def _emitted(self, expr: Expr, y: Quantization, names: Names, bounds: Bounds) -> Expr | Diagnostic:
        context = self._context
        known = context.known(expr)
        if known is not None and known.constant is not None:
            return _constant(context, expr, y, bounds)
        if known is not None:
            return _requantized(context, known, y, bounds, names)
        if expr in context.sums:
            return _rounded(context, context.sums[expr], y, bounds, names)
        call = context.definition(expr)
        if call is None:
            return Diagnostic.of("its input is not quantised")
        names = union((sources_of(call), names))
        name = operator(call)
        if name == "nn.softmax":
            return _softmax(context, call, y, bounds, names)
        if name in NORMS:
            return norm(context, call, y, bounds, names)
        if name == RESIZE and not moves.is_move(call):
            resized = interpolated(context, call, names)
            if isinstance(resized, Diagnostic):
                return resized
            return _requantized(context, resized, y, bounds, names)
        if name == "concat":
            return self._joined(call, y, names, bounds)
        if choices.is_choice(call):
            return self._chosen(call, y, names, bounds)
        if moves.is_move(call) and name != "split":
            data = self.of(call.args[0], y, names, bounds)
            return data if isinstance(data, Diagnostic) else moves.moved(context, call, data, y, names)
        chain = chain_of(context, expr)
        if not isinstance(chain, Diagnostic):
            function = _bounded(chain.function, bounds)
            names = union((*map(sources_of, chain.steps.values()), names))
            return _table(context, chain.leaf, y, function, names, alone=_reads_alone(context, chain))
        clamp = clamp_of(context, call)
        if clamp is not None:
            data, low, high = clamp
            return self.of(data, y, names, clamped((low, high), *bounds))
        if name in _BINARY:
            return _binary(context, call, y, bounds, names)
        return chain

    def _joined(self, call: Call, y: Quantization, names: Names, bounds: Bounds) -> Expr | Diagnostic:
        """Return the concatenation of separately quantised parts, if the integers of at least one part are known."""
        fields = moves.fields(self._context, call)
        parts = [self.of(field, y, names, bounds) for field in fields]
        refused = [part for part in parts if isinstance(part, Diagnostic)]
        if refused and (len(refused) == len(parts) or bounds != UNBOUNDED):
            return refused[0]
        tensors = [
            _in_float(self._context, field, y, names) if isinstance(part, Diagnostic) else part
            for field, part in zip(fields, parts, strict=True)
        ]
        return self._context.emit(R.concat(tensors, call.attrs.axis), names)

    def _chosen(self, call: Call, y: Quantization, names: Names, bounds: Bounds) -> Expr | Diagnostic:
        """Return the selection from both branches, each of them quantised."""
        context, chosen = self._context, list[Expr]()
        for branch in choices.branches(call):
            found = (
                self.of(branch, y, names, bounds)
                if context.constant(branch) is None
                else _constant(context, branch, y, bounds)
            )
            if isinstance(found, Diagnostic):
                return found
            chosen.append(found)
        return context.emit(choices.between(call, chosen), names)


def _in_float(context: Context, expr: Expr, y: Quantization, names: Names) -> Expr:
    scale, zero_point = relax.const(np.float32(y.scale)), relax.const(np.array(y.zero_point, y.dtype))
    return context.emit(R.quantize(expr, scale, zero_point, axis=0, out_dtype=y.dtype), names)


def _constant(context: Context, expr: Expr, y: Quantization, bounds: Bounds) -> Expr:
    """Return a quantised constant, for a value such as weights that two layers share with different scales."""
    real = context.constant(expr)
    assert real is not None
    return relax.const(context.numerics.quantize(_bounded(lambda value: value, bounds)(real), y))


def _requantized(
    context: Context, known: Quantized, y: Quantization, bounds: Bounds, names: Names
) -> Expr | Diagnostic:
    x = known.per_tensor
    if x is None:
        return Diagnostic.of("its input is quantised per channel")
    if x == y and bounds == UNBOUNDED:
        return known.value
    return _table(context, known, y, _bounded(lambda real: real, bounds), names)


def _reads_alone(context: Context, chain: ElementwiseChain) -> bool:
    """Whether only the chain reads its tensor and its intermediate values."""
    quantized, (*inner, _) = chain.leaf.value, (chain.at, *chain.steps)
    return (
        isinstance(quantized, relax.DataflowVar)  # otherwise the function also returns it
        and [*context.readers.get(quantized, ())] == [chain.at]
        and all(reader in chain.steps for var in inner for reader in context.readers.get(var, ()))
    )


def _table(
    context: Context,
    leaf: Quantized,
    y: Quantization,
    function: Real,
    names: Names,
    *,
    alone: bool = False,
) -> Expr | Diagnostic:
    x = leaf.per_tensor
    assert x is not None
    try:
        routine = context.numerics.table(leaf.shape, x, y, function)
    except ValueError as err:
        return Diagnostic.of(str(err))
    before = context.tables.get(leaf.value)
    if alone and before is not None and y.dtype in BYTES:
        (entries,) = routine.constants
        composed = context.numerics.look_up(before.leaf.shape, before.leaf.dtype, after(before, entries))
        return _looked_up(context, composed, before.leaf, y, union((before.names, leaf.names, names)))
    return _looked_up(context, routine, leaf, y, union((leaf.names, names)))


def _looked_up(context: Context, routine: Routine, leaf: Quantized, y: Quantization, names: Names) -> Expr:
    found = context.call(routine, [leaf.value], leaf.value, y.dtype, names)
    if leaf.dtype in BYTES and y.dtype in BYTES:
        (entries,) = routine.constants
        context.tables[found] = TableLookup(leaf, entries, names)
    return found


def _rounded(context: Context, acc: Sum, y: Quantization, bounds: Bounds, names: Names) -> Expr | Diagnostic:
    total = context.total(acc)
    try:
        routine = context.numerics.requantize(
            (static_shape(total), str(total.ty.dtype), acc.data_dtype),
            (acc.input_scale, acc.weight_scale, acc.count),
            y,
            clamped(acc.bounds, *bounds),
        )
    except ValueError as err:
        return Diagnostic.of(str(err))
    return context.call(routine, [total], total, y.dtype, acc.names, names)


def _binary(context: Context, call: Call, y: Quantization, bounds: Bounds, names: Names) -> Expr | Diagnostic:
    operands: list[Quantization | Floats] = []
    tensors: list[Quantized] = []
    for arg in call.args:
        constant, known = context.constant(arg), context.known(arg)
        quantization = None if known is None else known.per_tensor
        if constant is not None:
            operands.append(constant.astype(np.float32))
        elif known is None or quantization is None:
            return Diagnostic.of(f"an operand of {operator(call)} is not quantised per tensor")
        else:
            operands.append(quantization)
            tensors.append(known)
            names = union((known.names, names))
    if operator(call) == "divide" and len(tensors) == 2:
        return Diagnostic.of("its divisor is computed at run time and may be 0")
    if not tensors:
        return Diagnostic.of("all its operands are constants")
    if len(tensors) == 2 and y.dtype in BYTES:
        origin = common_origin(context, tensors[0], tensors[1])
        if origin is not None:
            return _composed(context, _BINARY[operator(call)], origin, y, bounds, names)
    shapes = (static_shape(call.args[0]), static_shape(call.args[1]))
    try:
        routine = context.numerics.binary(
            _BINARY[operator(call)], shapes, (operands[0], operands[1]), y, bounds
        )
    except ValueError as err:
        return Diagnostic.of(str(err))
    return context.call(routine, [tensor.value for tensor in tensors], call, y.dtype, names)


def _composed(
    context: Context, name: BinaryOp, origin: Origin, y: Quantization, bounds: Bounds, names: Names
) -> Expr | Diagnostic:
    """Emit a function of two tensors that are tables of the same tensor, as one table of that tensor."""
    numerics, tensor = context.numerics, origin.tensor
    try:
        entries = numerics.binary_values(name, origin.entries, origin.quantizations, y, bounds)
    except ValueError as err:
        return Diagnostic.of(str(err))
    routine = numerics.look_up(tensor.shape, tensor.dtype, entries)
    return _looked_up(context, routine, tensor, y, union((origin.names, names)))


def _softmax(
    context: Context, call: Call, y: Quantization, bounds: Bounds, names: Names
) -> Expr | Diagnostic:
    x = context.known(call.args[0])
    quantization = None if x is None else x.per_tensor
    if x is None or quantization is None:
        return Diagnostic.of("its input is not quantised per tensor")
    if bounds != UNBOUNDED:
        return Diagnostic.of("a clamp follows softmax")
    try:
        routine = context.numerics.softmax(x.shape, int(call.attrs.axis), quantization, y)
    except ValueError as err:
        return Diagnostic.of(str(err))
    return context.call(routine, [x.value], x.value, y.dtype, x.names, names)


def _bounded(function: Real, bounds: Bounds) -> Real:
    low, high = bounds
    if low is None and high is None:
        return function
    return lambda x: np.clip(function(x), low, high)
