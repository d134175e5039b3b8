# SPDX-License-Identifier: Apache-2.0
"""MatMulNBits whose data is quantised in blocks, too (accuracy_level 4), as products of `schedules.numerics.blocks`.

    MatMulNBits(x, packed W, s, z)    →    reshape(LinearBlocks(reshape(x), W, s, offsets))

Weights keep their 4 or 8 bits: one zero point for all is a shift of the integers, others become offsets s (middle - z).
Other levels leave data in float; see `arm_ext.frontends.onnx.embed`.
Source: onnxruntime's contrib operator definition MatMulNBits, version 1 of com.microsoft.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from tvm import relax

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import ints
from schedules.numerics.blocks import BLOCK, BlockWeights, linear_blocks_routine

Array = npt.NDArray[Any]

LINEAR_BLOCKS = "LinearBlocks"

INTEGERS = 4
"""The attribute accuracy_level of products of int8 data."""

_BITS = (4, 8)


def is_in_blocks(e: Expansion, x: str) -> bool:
    """Whether a MatMulNBits quantises its data in blocks that divide those of the weights."""
    level, bits, block = (int(e.attribute(name, 0)) for name in ("accuracy_level", "bits", "block_size"))
    known = all(isinstance(size, int) and size > 0 for size in e.dims(x))
    return (
        level == INTEGERS
        and (bits or 4) in _BITS
        and block % BLOCK == 0
        and known
        and e.dtype(x) == np.float32
    )


def in_blocks(e: Expansion, x: str, levels: Array, steps: Array, zero: Array, depth: int) -> str:
    """Emit the product, and return its output.

    Args:
        e: The expansion of the node.
        x: The data, float32 [..., K].
        levels: Unsigned integers of the weights, [N, blocks, block].
        steps: Scales [N, blocks].
        zero: Zero points [N, blocks].
        depth: K.
    """
    bits, block = int(e.attribute("bits", 4)), levels.shape[2]
    middle = 2 ** (bits - 1)
    integers = (levels.reshape(len(levels), -1)[:, :depth].astype(np.int16) - middle).astype(np.int8)
    one = zero.size > 0 and bool((zero == zero.flat[0]).all()) and float(zero.flat[0]).is_integer()
    shift = middle - int(zero.flat[0]) if one else 0
    offsets = (
        None if one else (steps.astype(np.float32) * (middle - zero.astype(np.float32))).astype(np.float32)
    )
    weights = BlockWeights.of(integers, _exact_half(steps), block, bits, offsets, shift)
    *lead, _ = e.dims(x)
    rows = int(np.prod(lead, dtype=np.int64))
    flat = x if len(lead) == 1 else e.emit("Reshape", [x, ints(e, rows, depth)])
    inputs = [flat, *map(e.constant, weights.constants)]
    attributes = {"bits": bits, "depth": depth, "group": block, "shift": shift}
    y = e.emit_own(LINEAR_BLOCKS, inputs, np.dtype(np.float32), (rows, len(levels)), **attributes)
    return y if len(lead) == 1 else e.emit("Reshape", [y, ints(e, *lead, len(levels))])


def _exact_half(scales: Array) -> Array:
    """Return scales as float16 if that is exact."""
    with np.errstate(over="ignore"):
        halves = scales.astype(np.float16)
    return (
        halves
        if np.array_equal(halves.astype(np.float32), scales.astype(np.float32))
        else scales.astype(np.float32)
    )


def convert_blocks(
    builder: relax.BlockBuilder, node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]
) -> relax.Expr:
    """Convert the operator `LINEAR_BLOCKS` to a call_tir of the routine in `schedules.numerics`."""
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
    symbol = builder.add_func(linear_blocks_routine(rows, weights).func, "linear_blocks")
    out = relax.TensorType((rows, len(weights.held)), "float32")
    return builder.emit(relax.call_tir(symbol, [x, held, scales, *offsets], out))
