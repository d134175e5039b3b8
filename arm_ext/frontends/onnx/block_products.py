# SPDX-License-Identifier: Apache-2.0
"""Products by weights in blocks, and rows of tables of such weights, which keep their 4 or 8 bits.

    MatMulNBits(x, packed W, s, z)              →    reshape(LinearBlocks(reshape(x), W, s, offsets))
    GatherBlockQuantized(packed W, i, s, z)     →    reshape(GatherBlocks(reshape(i), W, s, offsets))

One zero point for all weights is a shift of the integers; others become offsets s (middle - z). Data is quantised in
blocks of 32 where the node's accuracy_level asks for integers; else it is float32, which float16 data becomes. Weights
are dequantised for data of other dtypes, and if a table is read along another axis.
Source: onnxruntime's contrib operator definitions MatMulNBits and GatherBlockQuantized, version 1 of com.microsoft.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import ints
from arm_ext.frontends.onnx.quantized import by_element, scaled
from schedules.numerics.blocks import (
    BLOCK,
    BlockWeights,
    gather_blocks_routine,
    linear_blocks_routine,
    linear_float_routine,
)

Array = npt.NDArray[Any]

LINEAR_BLOCKS, GATHER_BLOCKS = "LinearBlocks", "GatherBlocks"

_INTEGERS = 4
"""The attribute accuracy_level of products of int8 data."""

_BYTE = 8

_FLOATS = np.float32, np.float16


def matmul_blocks(e: Expansion) -> None:
    """Replace MatMulNBits, whose weights were quantised in blocks of a column."""
    x, packed, scales, zeros, order, bias = e.inputs("A B scales zero_points? g_idx? bias?")
    if order:
        raise ModelError(
            "its rows are reordered (input g_idx), which is not supported; quantise without reordering"
        )
    k, n, bits, block = (
        int(e.attribute(name, 4 if name == "bits" else 0)) for name in ("K", "N", "bits", "block_size")
    )
    blocks = -(-k // block)
    levels = _unpacked(e.known(packed), bits).reshape(n, -1)[:, : blocks * block].reshape(n, blocks, block)
    zero = _zeros(e, zeros, (n, blocks), bits)
    steps = e.known(scales).reshape(n, blocks)
    output = e.node.output[0]
    if _is_float(e, x):
        y = _linear_blocks(e, x, _weights_of(levels, steps, zero, k, bits))
        e.emit("Add", [y, bias], output) if bias else e.emit("Identity", [y], output)
        return
    weight = scaled(levels, steps[:, :, None], zero[:, :, None])
    matrix = e.constant(weight.reshape(n, -1)[:, :k].T.astype(e.dtype(x)))
    y = e.emit("MatMul", [x, matrix], "" if bias else output)
    if bias:
        e.emit("Add", [y, bias], output)


def _zeros(e: Expansion, name: str, shape: tuple[int, int], bits: int) -> Array:
    """Return the zero points [rows, blocks]; without the input, they are the middle of the range."""
    if not name:
        return np.full(shape, 2 ** (bits - 1))
    value = e.known(name)
    if value.dtype != np.uint8:
        return value.reshape(shape)
    return _unpacked(value, bits).reshape(shape[0], -1)[:, : shape[1]]


def _unpacked(value: Array, bits: int) -> Array:
    """Unpack numbers of a few bits along the last axis; the first number is in the lowest bits of a byte."""
    shifts = np.arange(0, _BYTE, bits, dtype=np.uint8)
    numbers: Array = (value.astype(np.uint8)[..., None] >> shifts) & (2**bits - 1)
    flat: Array = numbers.reshape(*value.shape[:-1], -1)
    return flat


def gather_blocks(e: Expansion) -> None:
    """Replace GatherBlockQuantized with a constant table."""
    table, indices, scales, zeros = e.inputs("data indices scales zero_points?")
    bits, block = int(e.attribute("bits", 4)), int(e.attribute("block_size", 128))
    value, steps = e.known(table), e.known(scales)
    packs, middle = value.dtype == np.uint8 and bits < _BYTE, 2 ** (bits - 1)
    along, axis = (
        int(e.attribute(name, default)) % value.ndim
        for name, default in (("quantize_axis", 1), ("gather_axis", 0))
    )
    if packs and along != value.ndim - 1:
        raise ModelError(
            f"it packs numbers of {bits} bits along an axis that is not the last; only the last axis is supported"
        )
    zero = e.known(zeros) if zeros else np.full(steps.shape, middle if value.dtype == np.uint8 else 0)
    if packs:
        value = _unpacked(value, bits)
        zero = _unpacked(zero, bits)[..., : steps.shape[-1]] if zeros else zero
    depth, output = value.shape[along], e.node.output[0]
    if (value.ndim, along, axis, depth % BLOCK, block % BLOCK) == (2, 1, 0, 0, 0):
        # Levels are unsigned.
        levels, points = (each.astype(np.int16) + _lowest(value, middle) for each in (value, zero))
        weights = BlockWeights.of_levels(levels, steps, points, min(block, depth), _held(bits))
        e.emit("Identity", [_rows_of_blocks(e, indices, weights, steps.dtype)], output)
        return
    scale, point = (by_element(v, block, along, depth) for v in (steps, zero))
    whole = e.constant(scaled(value, scale, point).astype(steps.dtype))
    e.emit("Gather", [whole, indices], output, axis=axis)


def _held(bits: int) -> int:
    """Return the bits in which weights are held."""
    return 4 if bits <= 4 else _BYTE


def _lowest(value: Array, middle: int) -> int:
    """Return what makes integers of a dtype unsigned."""
    return 0 if np.can_cast(value.dtype, np.uint8) else middle


def _is_float(e: Expansion, x: str) -> bool:
    """Whether data is float32 or float16, and not empty."""
    return all(e.dims(x)) and e.dtype(x) in _FLOATS


def _weights_of(levels: Array, steps: Array, zero: Array, depth: int, bits: int) -> BlockWeights:
    """Return the weights [N, depth] of unsigned integers [N, blocks, block], scales and zero points [N, blocks]."""
    flat = levels.reshape(len(levels), -1)[:, :depth]
    return BlockWeights.of_levels(flat, steps, zero, levels.shape[2], _held(bits))


def _linear_blocks(e: Expansion, x: str, weights: BlockWeights) -> str:
    """Emit the product of data [..., K] with weights, and return its output, of the dtype of the data."""
    *lead, depth = e.dims(x)
    rows, columns, dtype = int(np.prod(lead, dtype=np.int64)), len(weights.held), e.dtype(x)
    flat = x if len(lead) == 1 else e.emit("Reshape", [x, ints(e, rows, depth)])
    if dtype != np.float32:
        flat = e.emit("Cast", [flat], to=TensorProto.FLOAT)
    integers = int(e.attribute("accuracy_level", 0)) == _INTEGERS and weights.group % BLOCK == 0
    inputs = [flat, *map(e.constant, weights.constants)]
    y = e.emit_own(
        LINEAR_BLOCKS,
        inputs,
        np.dtype(np.float32),
        (rows, columns),
        **weights.parameters,
        integers=int(integers),
    )
    if dtype != np.float32:
        y = e.emit("Cast", [y], to=helper.np_dtype_to_tensor_dtype(dtype))
    return y if len(lead) == 1 else e.emit("Reshape", [y, ints(e, *lead, columns)])


def _rows_of_blocks(e: Expansion, indices: str, weights: BlockWeights, dtype: np.dtype[Any]) -> str:
    """Emit the gather of rows of a table, and return its output [..., K]; negative indices count from the end."""
    dims = e.dims(indices)
    count = int(np.prod(dims, dtype=np.int64))
    flat = e.emit("Reshape", [indices, ints(e, count)])
    flat = e.emit("Mod", [flat, e.constant(np.array(len(weights.held), e.dtype(indices)))])
    flat = e.emit("Cast", [flat], to=TensorProto.INT32)
    inputs, shape = [flat, *map(e.constant, weights.constants)], (count, weights.depth)
    y = e.emit_own(GATHER_BLOCKS, inputs, np.dtype(np.float32), shape, **weights.parameters)
    if dtype != np.float32:
        y = e.emit("Cast", [y], to=helper.np_dtype_to_tensor_dtype(dtype))
    return e.emit("Reshape", [y, ints(e, *dims, weights.depth)])


def convert_blocks(
    builder: relax.BlockBuilder, node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]
) -> relax.Expr:
    """Convert `LINEAR_BLOCKS` or `GATHER_BLOCKS` to a call_tir of the routine in `schedules.numerics`."""
    x, held, scales, *offsets = cast("list[Any]", inputs)
    of = {a.name: int(helper.get_attribute_value(a)) for a in node.attribute}
    arrays = [array.value.numpy() for array in (held, scales, *offsets)]
    weights = BlockWeights(
        arrays[0],
        arrays[1],
        arrays[2] if offsets else None,
        of["depth"],
        of["bits"],
        of["group"],
        of["shift"],
    )
    rows = int(x.ty.shape[0])
    if node.op_type == GATHER_BLOCKS:
        routine, columns = gather_blocks_routine(rows, weights), weights.depth
    elif of["integers"]:
        routine, columns = linear_blocks_routine(rows, weights), len(weights.held)
    else:
        routine, columns = linear_float_routine((rows, weights.depth), weights), len(weights.held)
    symbol = builder.add_func(routine.func, str(routine.func.attrs["numerics"]).replace(".", "_"))
    out = relax.TensorType((rows, columns), "float32")
    return builder.emit(relax.call_tir(symbol, [x, held, scales, *offsets], out))
