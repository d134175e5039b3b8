# SPDX-License-Identifier: Apache-2.0
"""Products of float32 data by constant weights that are quantised in groups of k, and rows of such weights.

A weight is w = fma(sw, qw + shift, offset): an integer, the scale and perhaps the offset of its group, and a shift that
is one for all weights, such as 8 for 4-bit weights from 0 to 15, which are held as -8 to 7. A product by data as it is,
`linear_float_routine`, is the sum over k of x * w, in any order. `linear_blocks_routine` quantises it in blocks of 32:

    amax    = max |x| over a block of 32 of k; a last, shorter block is padded with zeros
    sx      = fl(amax / 127)                NaN if amax is infinite or NaN
    qx      = round half to even(fl(x * fl(1 / sx)))        0 if sx is less than 2**-126
    y       = sum over blocks, in their order, of acc * fl(sw * sx), each added by one FMA, where
    acc     = sum over the block of qx * (qw + shift), exact

With offsets, each block adds fl(sx * (sum of qx)) * offset by a further FMA. Groups are multiples of a block.

Everything is binary32. The sums depend neither on the number of rows nor on threads, so that a text has the same logits
in chunks of any size.

One scale per block is needed: the largest errors of the logits of SmolLM2-135M, relative to the largest logit, are 8 %
with one scale per block and 66 % with one scale per row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, te, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics.binary32 import fma
from schedules.numerics.routine import PRODUCT, Routine, routine, routine_of_loops
from schedules.tir.emit import TensorSpec, i64

Array = npt.NDArray[Any]

NAME = "blocks.linear"

FLOAT = "float.linear_blocks"

GATHER = "blocks.gather"

BLOCK = 32
"""Elements of k that share a scale of the data."""

LARGEST = 127
"""Largest magnitude of quantised data."""

SMALLEST_SCALE = float(np.finfo(np.float32).tiny)
"""Blocks with a smaller scale than this are 0; its reciprocal would be infinite."""

_BYTE = 8

_LEVELS = 15
"""Largest difference of two integers of 4 bits."""


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Weights of a linear layer, quantised in groups of k.

    Attributes:
        held: int8 [N, bytes of K]; two 4-bit weights in a byte, the one of even k in the low four bits.
        scales: float16 or float32 [N, groups].
        offsets: [N, groups], of the dtype of the scales, or None if all are 0.
        depth: K.
        bits: 4 or 8.
        group: Elements of k that share a scale; for data in blocks, a multiple of `BLOCK`.
        shift: Added to each integer before it is scaled.
    """

    held: Array
    scales: Array
    offsets: Array | None
    depth: int
    bits: int
    group: int
    shift: int = 0

    @staticmethod
    def of(
        integers: Array, scales: Array, group: int, bits: int, offsets: Array | None = None, shift: int = 0
    ) -> "BlockWeights":
        """Return weights from integers [N, K]."""
        held = packed(integers) if 2 * bits == _BYTE else integers.astype(np.int8)
        return BlockWeights(held, scales, offsets, integers.shape[1], bits, group, shift)

    @staticmethod
    def of_levels(levels: Array, scales: Array, zero: Array, group: int, bits: int) -> "BlockWeights":
        """Return the weights (level - zero) * scale.

        One zero point for all is a shift; others become offsets. Scales and offsets are float16 if that is exact.

        Args:
            levels: Integers [N, K], from 0 to 2**bits - 1.
            scales: [N, groups].
            zero: Zero points [N, groups], integers or floats.
            group: Elements of k that share a scale.
            bits: 4 or 8.
        """
        middle = 2 ** (bits - 1)
        one = bool((zero == zero.flat[0]).all()) and float(zero.flat[0]).is_integer()
        steps = scales.astype(np.float32)
        floats = [steps] if one else [steps, steps * (middle - zero.astype(np.float32))]
        with np.errstate(over="ignore"):
            halves = [each.astype(np.float16) for each in floats]
        exact = all(np.array_equal(half, each) for half, each in zip(halves, floats, strict=True))
        step, *offset = halves if exact else floats
        shift = middle - int(zero.flat[0]) if one else 0
        integers = levels.astype(np.int16) - middle
        return BlockWeights.of(integers, step, group, bits, offset[0] if offset else None, shift)

    @staticmethod
    def fitted(integers: Array, scales: Array, zero: Array, group: int) -> "BlockWeights":
        """Return weights (integer - zero) * scale, in 4 bits if integers of each group differ by at most 15, else in 8.

        Args:
            integers: int8 or uint8 [N, K].
            scales: [N, groups].
            zero: Zero points [N, groups].
            group: Elements of k that share a scale.
        """
        starts, by_k = np.arange(0, integers.shape[1], group), np.arange(integers.shape[1]) // group
        exact = integers.astype(np.int16) - zero.astype(np.int16)[:, by_k]
        least, most = (reduce.reduceat(exact, starts, 1) for reduce in (np.minimum, np.maximum))
        bits = _BYTE if (most - least > _LEVELS).any() else 4
        middle = 2 ** (bits - 1)
        if least.min() >= -middle and most.max() < middle:
            return BlockWeights.of(exact, scales, group, bits)
        return BlockWeights.of_levels(exact - least[:, by_k], scales, -least, group, bits)

    @property
    def constants(self) -> tuple[Array, ...]:
        """The integers, the scales, and the offsets if there are any."""
        return self.held, self.scales, *(() if self.offsets is None else (self.offsets,))

    @property
    def parameters(self) -> dict[str, int]:
        """What routines of these weights have as attributes."""
        return {"bits": self.bits, "depth": self.depth, "group": self.group, "shift": self.shift}

    @property
    def integers(self) -> Array:
        """The quantised weights, int8 [N, K]."""
        return self.held if self.bits == _BYTE else unpacked(self.held, self.depth)

    @property
    def floats(self) -> Array:
        """The weights that the integers stand for, float32 [N, K]."""
        by_k = np.arange(self.depth) // self.group
        scales = self.scales.astype(np.float32)[:, by_k]
        offsets = np.float32(0) if self.offsets is None else self.offsets.astype(np.float32)[:, by_k]
        return fma(scales, self.integers + np.float32(self.shift), np.broadcast_to(offsets, scales.shape))


def packed(integers: Array) -> Array:
    """Pack integers [N, K] from -8 to 7 into bytes, int8 [N, ceil(K / 2)]."""
    even = np.pad(integers.astype(np.int8), ((0, 0), (0, integers.shape[1] % 2)))
    held: Array = np.bitwise_or(even[:, ::2] & 15, even[:, 1::2] << 4)
    return held


def unpacked(held: Array, depth: int) -> Array:
    """Unpack bytes to the integers, int8 [N, depth]."""
    pairs: Array = np.stack([(held << 4) >> 4, held >> 4], axis=2).reshape(len(held), -1)
    return pairs[:, :depth]


def quantized(x: Array) -> tuple[Array, Array]:
    """Quantise rows [M, K] in blocks; return int8 [M, blocks, 32] and the scales, float32 [M, blocks]."""
    rows = np.pad(x.astype(np.float32), ((0, 0), (0, -x.shape[1] % BLOCK))).reshape(len(x), -1, BLOCK)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scales = np.abs(rows).max(2, initial=0.0) / np.float32(LARGEST)
        scales = np.where(np.isfinite(scales), scales, np.float32(np.nan))
        inverse = np.where(scales >= SMALLEST_SCALE, np.float32(1) / scales, np.float32(0))
        integers = np.nan_to_num(np.rint(rows * inverse[..., None]), posinf=0, neginf=0)
    return integers.astype(np.int8), scales


def quantized_weights(values: Array, bits: int) -> BlockWeights:
    """Quantise float weights [N, K] in blocks of 32, with float16 scales.

    8 bits are symmetric, -127 to 127. With 4 bits the element of the largest magnitude becomes -8, whatever its sign,
    as in ggml's Q4_0.
    """
    depth = values.shape[1]
    blocks = np.pad(values, ((0, 0), (0, -depth % BLOCK))).reshape(len(values), -1, BLOCK).astype(np.float32)
    at = np.abs(blocks).argmax(2)[..., None]
    most = np.take_along_axis(blocks, at, 2)[..., 0]
    least, largest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if 2 * bits == _BYTE else (-LARGEST, LARGEST)
    scales = (most / np.float32(least)).astype(np.float16)
    real = scales.astype(np.float32)[..., None]
    inverse = np.divide(np.float32(1), real, out=np.zeros_like(real), where=real != 0)
    integers = np.clip(np.rint(blocks * inverse), least, largest).reshape(len(values), -1)
    return BlockWeights.of(integers[:, :depth], scales, BLOCK, bits)


def linear_blocks(x: Array, weights: BlockWeights) -> Array:
    """Return the product of rows [M, K] with the weights, float32 [M, N], by the definition of the module."""
    rows, scales = quantized(x)
    blocks = rows.shape[1]
    integers = np.pad(weights.integers, ((0, 0), (0, blocks * BLOCK - weights.depth)))
    by_block = integers.reshape(-1, blocks, BLOCK) + np.int32(weights.shift)
    total = np.zeros((len(x), len(integers)), np.float32)
    for block in range(blocks):
        group = block * BLOCK // weights.group
        acc = rows[:, block].astype(np.float64) @ by_block[:, block].T.astype(np.float64)
        scale = scales[:, block, None] * weights.scales[:, group].astype(np.float32)
        total = fma(acc.astype(np.float32), scale, total)
        if weights.offsets is not None:
            sums = scales[:, block] * rows[:, block].sum(1, dtype=np.int32).astype(np.float32)
            total = fma(sums[:, None], weights.offsets[:, group].astype(np.float32)[None], total)
    return total


def linear_blocks_routine(rows: int, weights: BlockWeights) -> Routine:
    """Return a routine that computes the product of data [rows, K] with the weights."""
    arguments: list[TensorSpec] = [((rows, weights.depth), "float32")]
    arguments += [(each.shape, str(each.dtype)) for each in weights.constants]
    arguments.append(((rows, len(weights.held)), "float32"))

    def emit(buffers: list[tirx.Buffer]) -> None:
        x, y = buffers[0], buffers[-1]
        blocks = -(-weights.depth // BLOCK)
        integers = T.alloc_buffer((blocks * BLOCK,), "int32")
        sizes = T.alloc_buffer((blocks,), "float32")
        total = T.alloc_buffer((1,), "float32")
        with T.serial(i64(0), i64(rows)) as row:
            with T.serial(i64(0), i64(blocks)) as block:
                _quantize(x, row, block, integers, sizes)
            with T.serial(i64(0), i64(len(weights.held))) as column:
                T.buffer_store(total, _f32(0), [i64(0)])
                with T.serial(i64(0), i64(blocks)) as block:
                    _add_block(weights, buffers[1:-1], column, block, (integers, sizes, total))
                T.buffer_store(y, total[i64(0)], [row, column])

    return _routine(NAME, weights, arguments, emit)


def linear_float_routine(shape: Sequence[int], weights: BlockWeights) -> Routine:
    """Return a routine that computes the product of data [..., K] with the weights, without quantising the data."""
    x = te.placeholder(shape, "float32", "x")
    held, scales, *offsets = [te.placeholder(each.shape, str(each.dtype)) for each in weights.constants]
    k = te.reduce_axis((0, weights.depth), "k")

    def value(*i: tirx.Var) -> tirx.Expr:
        *rows, column = i
        place = column, tirx.floordiv(k, weights.group)
        scale, *offset = (tirx.Cast("float32", each(*place)) for each in (scales, *offsets))
        integer = tirx.Cast("float32", _integer(weights, held, column, k) + weights.shift)
        weight = (
            tirx.call_llvm_pure_intrin("float32", "llvm.fma.f32", scale, integer, *offset)
            if offset
            else scale * integer
        )
        return te.sum(x(*rows, k) * weight, axis=k)

    y = te.compute((*shape[:-1], len(weights.held)), value, "linear_float")
    return routine(
        FLOAT, [x, held, scales, *offsets, y], weights.constants, pattern=PRODUCT, **weights.parameters
    )


def gather_blocks_routine(count: int, weights: BlockWeights) -> Routine:
    """Return a routine that gathers rows of the weights, [N, K], as floats.

    Its run-time argument is `count` indices, int32; one that is out of bounds counts as the nearest row.
    """
    arguments: list[TensorSpec] = [((count,), "int32")]
    arguments += [(each.shape, str(each.dtype)) for each in weights.constants]
    arguments.append(((count, weights.depth), "float32"))

    def emit(buffers: list[tirx.Buffer]) -> None:
        (indices, held, scales, *offsets), y = buffers[:-1], buffers[-1]
        with T.serial(i64(0), i64(count)) as row:
            index = T.Bind(nearest(indices[row], len(weights.held)))
            with T.serial(i64(0), i64(weights.depth)) as k:
                group = T.Bind(tirx.floordiv(k, weights.group))
                integer = tirx.Cast("float32", _integer(weights, held, index, k) + weights.shift)
                factors = [T.Bind(tirx.Cast("float32", each[index, group])) for each in (scales, *offsets)]
                added = factors[1] if offsets else _f32(0)
                value = tirx.call_llvm_pure_intrin("float32", "llvm.fma.f32", factors[0], integer, added)
                T.buffer_store(y, value, [row, k])

    return _routine(GATHER, weights, arguments, emit)


def nearest(index: ir.Expr, rows: int) -> ir.Expr:
    """Return the row nearest to an index, int64."""
    return tirx.max(i64(0), tirx.min(tirx.Cast("int64", index), i64(rows - 1)))


def _routine(
    name: str, weights: BlockWeights, arguments: list[TensorSpec], emit: Callable[[list[tirx.Buffer]], None]
) -> Routine:
    made = routine_of_loops(name, arguments, emit, **weights.parameters)
    return Routine(made.func, tuple(np.asarray(c, order="C") for c in weights.constants))


def _quantize(
    x: tirx.Buffer, row: ir.Expr, block: ir.Expr, integers: tirx.Buffer, sizes: tirx.Buffer
) -> None:
    """Emit the quantisation of a block of a row."""
    depth, one, most = int(x.shape[-1]), i64(0), T.alloc_buffer((1,), "float32")
    T.buffer_store(most, _f32(0), [one])

    def value(k: ir.Expr) -> ir.Expr:
        place = T.Bind(block * BLOCK + k)
        return T.Bind(
            x[row, place] if depth % BLOCK == 0 else tirx.if_then_else(place < depth, x[row, place], _f32(0))
        )

    with T.serial(i64(0), i64(BLOCK)) as k:
        size = T.Bind(tirx.abs(value(k)))
        larger = tirx.Or(size > most[one], tirx.isnan(size))
        T.buffer_store(most, tirx.Select(larger, size, most[one]), [one])
    scale = T.Bind(tirx.Div(most[one], _f32(LARGEST)))
    known = T.Bind(tirx.Select(scale <= _f32(float(np.finfo(np.float32).max)), scale, _f32(np.nan)))
    inverse = T.Bind(tirx.Select(known >= _f32(SMALLEST_SCALE), tirx.Div(_f32(1), known), _f32(0)))
    T.buffer_store(sizes, known, [block])
    with T.serial(i64(0), i64(BLOCK)) as k:
        rounded = tirx.Cast("int32", tirx.nearbyint(value(k) * inverse))
        T.buffer_store(integers, rounded, [block * BLOCK + k])


def _add_block(
    weights: BlockWeights,
    constants: list[tirx.Buffer],
    column: ir.Expr,
    block: ir.Expr,
    row: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer],
) -> None:
    """Emit the addition of a block's products to the total of a row: `row` is its integers, scales and total."""
    (held, scales, *offsets), (integers, sizes, total), one = constants, row, i64(0)
    sums = T.alloc_buffer((2,), "int32")
    group = T.Bind(tirx.floordiv(block * BLOCK, weights.group))
    for index in range(2):
        T.buffer_store(sums, tirx.IntImm("int32", 0), [i64(index)])
    count = BLOCK if weights.depth % BLOCK == 0 else tirx.min(i64(BLOCK), weights.depth - block * BLOCK)
    with T.serial(i64(0), count) as k:
        place = T.Bind(block * BLOCK + k)
        weight = _integer(weights, held, column, place)
        integer = T.Bind(integers[place])
        T.buffer_store(sums, sums[one] + integer * (weight + weights.shift), [one])
        T.buffer_store(sums, sums[i64(1)] + integer, [i64(1)])

    def add(a: ir.Expr, b: ir.Expr) -> None:
        fused = tirx.call_llvm_pure_intrin("float32", "llvm.fma.f32", a, b, total[one])
        T.buffer_store(total, fused, [one])

    size = T.Bind(sizes[block])
    add(tirx.Cast("float32", sums[one]), tirx.Cast("float32", scales[column, group]) * size)
    for offset in offsets:
        add(T.Bind(tirx.Cast("float32", sums[i64(1)]) * size), tirx.Cast("float32", offset[column, group]))


def _integer(weights: BlockWeights, held: tirx.Buffer, column: ir.Expr, k: ir.Expr) -> ir.Expr:
    """Return a weight as int32."""
    if weights.bits == _BYTE:
        return tirx.Cast("int32", held[column, k])
    byte = tirx.Cast("int32", held[column, tirx.floordiv(k, 2)])
    # Sign-extend 4 bits without two shifts, which TVM would simplify as a product and a quotient.
    return (((byte >> (4 * tirx.Cast("int32", tirx.floormod(k, 2)))) & 15) ^ 8) - 8


def _f32(value: float) -> tirx.FloatImm:
    return tirx.FloatImm("float32", float(value))
