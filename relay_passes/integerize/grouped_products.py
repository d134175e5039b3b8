# SPDX-License-Identifier: Apache-2.0
"""Products of float32 data by weights with one scale per group of k, which stay 4 or 8 bits in memory.

    matmul(x, transpose(slice(reshape(dequantize(Q, s, z)))))    →    linear_float(x, Q, s, z)
    matmul(x, dequantize(Q, s, z))                               →    likewise, with one group, if z is not 0

Q is [columns x groups, group] with one scale per row, as importers write block-wise scales. The slice drops the padding
of the last group. The result equals the product by float weights, except for the order of sums.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.relax.analysis import remove_all_unused

from relay_passes.ir.calls import name_of
from relay_passes.ir.shapes import axes_of, shape_of, static_shape
from relay_passes.ir.sources import Names, bindings_of, map_calls, relax_functions, sources_of, with_source
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Explanation
from schedules.diagnostic import Diagnostic

NAME = "grouped_products"

Array = npt.NDArray[Any]

LinearGrouped = Callable[[Sequence[int], Array, Array, Array, int], Any]
"""Makes the routine of a product: (data shape, integers [N, K], scales [N, groups], zero points [N, groups], group) →
routine."""

_LEVELS = 15
"""Largest difference of two integers of 4 bits."""

_MATRIX = 2
_SHAPED = ("relax.reshape", "relax.strided_slice")
# Kernels convert weights in vectors of four rows, which must have one scale.
_ROWS = 4


@dataclass(frozen=True)
class _GroupedWeights:
    integers: Array
    scales: Array
    zeros: Array
    group: int


def grouped_products(mod: IRModule, linear: LinearGrouped, record: RewriteRecord | None = None) -> IRModule:
    """Rewrite every function of `mod`.

    Args:
        mod: Module in canonical form: A-normal form, every call named, constants folded except dequantize.
        linear: Returns the routine of the product.
        record: Records rewritten products and rejections, unless None.

    Returns:
        The rewritten module; the same object if there are no such products.
    """
    builder = relax.BlockBuilder(mod)
    applied: list[Names] = []
    rejected: list[Diagnostic] = []
    for gv, func in relax_functions(mod):
        values = {b.var: b.value for b in bindings_of(func)}
        before = len(applied)

        def change(_: Var, call: Call, values: Mapping[Var, Expr] = values) -> Call:
            found = _weights_of(call, values)
            if found is None:
                return call
            names = sources_of(call)
            if isinstance(found, Diagnostic):
                rejected.append(Diagnostic.of(found.reason, found.limit, found.actual, nodes=names))
                return call
            applied.append(names)
            data = call.args[0]
            routine = linear(shape_of(data), found.integers, found.scales, found.zeros, found.group)
            symbol = builder.add_func(routine.func, "linear_float")
            constants = [relax.const(array, str(array.dtype)) for array in routine.constants]
            return with_source(builder.normalize(relax.call_tir(symbol, [data, *constants], call.ty)), names)

        new = map_calls(func, change)
        if len(applied) > before:
            builder.update_func(gv, remove_all_unused(new))
    if record is not None:
        record.passes[NAME] = Explanation(tuple(applied), tuple(rejected))
    return builder.get() if applied else mod


def _is_blocks(call: Expr) -> bool:
    """Whether a call dequantises a constant matrix with one scale per row."""
    if name_of(call) != "relax.dequantize" or not all(isinstance(arg, GenericConst) for arg in call.args):
        return False
    blocks, scale, zero = (arg.value.numpy() for arg in call.args)
    along_rows = blocks.ndim == _MATRIX and not int(call.attrs.axis) % _MATRIX
    return bool(along_rows and scale.size == len(blocks) and zero.size in (1, len(blocks)))


def _weights_of(call: Call, values: Mapping[Var, Expr]) -> _GroupedWeights | Diagnostic | None:
    """Return the weights of a grouped product, or why they cannot stay integers in memory; None for other weights."""
    if name_of(call) != "relax.matmul":
        return None
    shape, turned, shaped, value = static_shape(call.args[1]), False, False, call.args[1]
    while isinstance(value, Var) and value in values:
        made = values[value]
        match name_of(made):
            case "relax.permute_dims" if len(shape_of(made)) == _MATRIX:
                turned ^= axes_of(made) == [1, 0]
            case "relax.reshape" | "relax.strided_slice":
                shaped = True
            case "relax.dequantize" if shape is not None and len(shape) == _MATRIX and (turned or not shaped):
                found = _read(made, shape) if turned else _of_columns(made)
                return found if found is None else _checked(call, found)
            case _:
                return None
        value = made.args[0]
    return None


def _read(dequantize: Call, shape: tuple[int, ...]) -> _GroupedWeights | None:
    """Return the weights [N, K] of a dequantize with one row per group of a column; see `_weights_of`."""
    if not _is_blocks(dequantize):
        return None
    blocks, scale, zero = (part.value.numpy() for part in dequantize.args)
    depth, columns = shape
    count = -(-depth // blocks.shape[1])
    if len(blocks) != columns * count:
        return None
    zeros = np.broadcast_to(zero, scale.shape).reshape(columns, count)
    integers = blocks.reshape(columns, -1)[:, :depth]
    return _GroupedWeights(integers, scale.reshape(columns, count), zeros, blocks.shape[1])


def _of_columns(dequantize: Call) -> _GroupedWeights | None:
    """Return the weights [N, K] of a dequantize of a constant [K, N] with one scale per column, or one for all."""
    if not all(isinstance(arg, GenericConst) for arg in dequantize.args):
        return None
    held, scale, zero = (arg.value.numpy() for arg in dequantize.args)
    per_column = int(dequantize.attrs.axis) % _MATRIX == 1 or scale.size == zero.size == 1
    if held.ndim != _MATRIX or not per_column:
        return None
    scales, zeros = (np.broadcast_to(part.ravel(), held.shape[1]).reshape(-1, 1) for part in (scale, zero))
    return _GroupedWeights(held.T, scales, zeros, len(held))


def _checked(call: Call, found: _GroupedWeights) -> _GroupedWeights | Diagnostic | None:
    """Return the weights, or why they cannot stay integers; None for those of one scale per column, another rule's."""
    if found.integers.dtype.itemsize > 1:
        return None
    one_scale = found.scales.shape[1] == 1
    if one_scale and not found.zeros.any() and (np.ptp(found.integers.astype(np.int16), 1) > _LEVELS).any():
        return None
    if static_shape(call.args[0]) is None or str(call.args[0].ty.dtype) != "float32":
        return Diagnostic.of("data is not float32 of static shape", "float32", str(call.args[0].ty))
    if not one_scale and found.group % _ROWS:
        return Diagnostic.of("group is no multiple of a vector's lanes", _ROWS, found.group)
    return found
