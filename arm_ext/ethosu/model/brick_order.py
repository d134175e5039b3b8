# SPDX-License-Identifier: Apache-2.0
"""The order in which a MAC engine reads weights: the position in (O, H, W, I) of each number of a stream.

Blocks of output channels, in them blocks of input channels, in them sub-kernels of up to 8 x 8, in them micro-blocks.
Source: Vela 5.2, regor/architecture/{ethosu55,ethosu85}/*_weight_encoder.cpp.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.errors import StreamError

Traversal = Literal["depth_first", "part_kernel", "depthwise"]
Positions = NDArray[np.int64]

PADDING = -1  # a position of no weight
_SUBKERNEL = 8
_INTERLEAVE = 4  # number of consecutive output channels in one of U85's streams


@dataclass(frozen=True)
class Volume:
    """The parameters that determine the order of weights.

    Attributes:
        ofm_depth: Output channels.
        kernel: Height and width.
        ifm_depth: Input channels; 1 for depthwise.
        traversal: The innermost dimension.
        ifm_bits: Bits of an input element (8 or 16).
        ofm_block: Output channels of a block.
        ofm_ublock: Output channels of a micro-block.
        dilation: Dilation along y and x.
        stride: Stride along y and x (U85).
        streams: Number of weight streams that the weights are divided among.
        macs: Multiply-accumulates per cycle of the accelerator (U85).
        sparse: 2:4 sparse weights (U85).
    """

    ofm_depth: int
    kernel: tuple[int, int]
    ifm_depth: int
    traversal: Traversal
    ifm_bits: int
    ofm_block: int
    ofm_ublock: int
    dilation: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    streams: int = 1
    macs: int = 0
    sparse: bool = False

    @property
    def size(self) -> int:
        """Number of weights without padding."""
        return self.ofm_depth * self.kernel[0] * self.kernel[1] * self.ifm_depth


@functools.lru_cache(maxsize=256)
def u55_order(volume: Volume, stream: int) -> Positions:
    """Return, for each number of a stream of U55 or U65, its index in (O, H, W, I), or PADDING."""
    v = volume
    ofm_depth = -(-(v.ofm_depth - stream) // v.streams)  # the channels stream, stream + streams, …
    block = -(-(v.ofm_block - stream) // v.streams)
    ifm_ublock = 8
    ifm_block = 16 if v.traversal == "part_kernel" or v.ifm_bits == 16 else 32
    rounding = {"depthwise": 4, "part_kernel": 2 if v.ifm_bits == 16 else 4, "depth_first": 1}[v.traversal]
    part = v.traversal == "part_kernel"
    parts = []
    for ofm_z in range(0, ofm_depth, block):
        ofm_ublocks = np.arange(0, min(block, ofm_depth - ofm_z), v.ofm_ublock)
        for ifm_z in range(0, v.ifm_depth, ifm_block):
            run = min(ifm_block, v.ifm_depth - ifm_z) if part else ifm_block
            ifm_ublocks = np.arange(0, ifm_ublock if v.traversal == "depthwise" else run, ifm_ublock)
            for walk in _u55_walks(v, rounding):
                # Axes: outer input micro-blocks, output micro-blocks, kernel, inner input micro-blocks, output, input.
                outer, inner = (ifm_ublocks, np.zeros(1, int)) if part else (np.zeros(1, int), ifm_ublocks)
                ifm = ifm_z + _axis(outer, 0) + _axis(inner, 3) + _axis(_lanes(v, ifm_ublock), 5)
                ofm = ofm_z + _axis(ofm_ublocks, 1) + _axis(np.arange(v.ofm_ublock), 4)
                inside = (ofm < ofm_depth) & (ifm < v.ifm_depth)
                parts.append(_positions(v, stream + ofm * v.streams, _axis(walk, 2), ifm, inside))
    return np.concatenate(parts)


def _lanes(volume: Volume, count: int) -> Positions:
    """Return the input channels of each micro-block."""
    return np.arange(1 if volume.traversal == "depthwise" else count)


def _u55_walks(volume: Volume, rounding: int) -> Iterator[Positions]:
    """Yield the kernel elements of each sub-kernel in order, with padding."""
    (height, width), (dilation_y, dilation_x) = volume.kernel, volume.dilation
    for y in range(0, height, _SUBKERNEL // dilation_y):
        for x in range(0, width, _SUBKERNEL // dilation_x):
            rows, columns = (
                min(height - y, _SUBKERNEL // dilation_y),
                min(width - x, _SUBKERNEL // dilation_x),
            )
            elements = [(y + i) * width + x + j for i in range(rows) for j in range(columns)]
            elements += [PADDING] * (-len(elements) % rounding)
            yield np.array(elements)


@functools.lru_cache(maxsize=256)
def u85_order(volume: Volume, stream: int) -> Positions:
    """Return, for each number of a stream of U85's standard code, its index in (O, H, W, I), or PADDING."""
    return np.concatenate(list(_u85_parts(volume, stream)))


@functools.lru_cache(maxsize=256)
def u85_fast_order(volume: Volume) -> Positions:
    """Return the order for U85's fast code: one stream that interleaves the streams of the standard code."""
    v = volume
    if v.traversal == "depthwise":
        raise StreamError("the fast weight code has no order of depthwise weights")
    if v.streams == 1:
        return u85_order(v, 0)
    rounding, _, ifm_ublock = _u85_units(v)
    turn = v.ofm_ublock * ifm_ublock * rounding // v.streams
    each = [u85_order(v, stream).reshape(-1, turn) for stream in range(v.streams)]
    return np.asarray(np.stack(each, axis=1).reshape(-1))


def _u85_units(v: Volume) -> tuple[int, int, int]:
    """Return the multiple to pad kernel elements to, and input channels of a block and of a micro-block."""
    wide = v.ifm_bits == 16 or v.sparse
    if v.traversal == "depthwise":
        return 10, v.ofm_block, 1
    if v.traversal == "part_kernel":
        return 10 if wide else 5, 16, 8 if v.ifm_bits == 16 and not v.sparse else 16
    if v.ifm_bits == 32 or (v.macs <= 256 and v.ofm_ublock == 16 and not v.sparse):
        return 1, 32, 32
    block = 128 if v.sparse and v.ifm_bits == 8 else 64
    return 1, block, block


def _u85_parts(v: Volume, stream: int) -> Iterator[Positions]:
    rounding, ifm_block, ifm_ublock = _u85_units(v)
    depthwise = v.traversal == "depthwise"
    lanes = 1 if depthwise else 16 if v.sparse else 8
    walks = list(_u85_walks(v, rounding))
    blocks = list(range(0, 1 if depthwise else v.ifm_depth, ifm_block))
    for number, ofm_z in enumerate(range(0, v.ofm_depth, v.ofm_block)):
        ofm_ublocks = np.arange(0, min(v.ofm_block, v.ofm_depth - ofm_z), v.ofm_ublock)
        groups = np.arange(stream * _INTERLEAVE, v.ofm_ublock, _INTERLEAVE * v.streams)
        # Every other block of output channels takes the input channels from the last block to the first.
        for ifm_z in reversed(blocks) if number % 2 else blocks:
            outer = np.arange(0, 1 if depthwise else min(ifm_block, v.ifm_depth - ifm_z), ifm_ublock)
            for walk in walks:
                # Axes: input micro-blocks, output micro-blocks, kernel, inner input, output groups, output, input.
                ifm = ifm_z + _axis(outer, 0, 7) + _axis(np.arange(0, ifm_ublock, lanes), 3, 7)
                ifm = ifm + _axis(np.arange(lanes), 6, 7)
                ofm = (
                    ofm_z
                    + _axis(ofm_ublocks, 1, 7)
                    + _axis(groups, 4, 7)
                    + _axis(np.arange(_INTERLEAVE), 5, 7)
                )
                inside = (ofm < v.ofm_depth) & (ifm < v.ifm_depth)
                yield _positions(v, ofm, _axis(walk, 2, 7), ifm, inside)


def _u85_walks(v: Volume, rounding: int) -> Iterator[Positions]:
    """Yield the kernel elements of each sub-kernel, in a snake within each phase of the stride, with padding."""
    (height, width), (dilation_y, dilation_x) = v.kernel, v.dilation
    stride_y, stride_x = (1, 1) if v.traversal == "depth_first" else v.stride
    extra = _depthwise_padding(v) if v.traversal == "depthwise" else 0
    for x in range(0, width, _SUBKERNEL // dilation_x):
        columns = min(width - x, _SUBKERNEL // dilation_x)
        for y in range(0, height, _SUBKERNEL // dilation_y):
            rows = min(height - y, _SUBKERNEL // dilation_y)
            elements = []
            for phase_y in range(stride_y):
                for phase_x in range(stride_x):
                    for i, row in enumerate(range(phase_y, rows, stride_y)):
                        across = list(range(phase_x, columns, stride_x))
                        elements += [(y + row) * width + x + c for c in (across[::-1] if i % 2 else across)]
            elements += [PADDING] * (-len(elements) % rounding)
            grouped = np.array(elements).reshape(-1, rounding)
            yield np.pad(grouped, ((0, 0), (0, extra)), constant_values=PADDING).reshape(-1)


def _depthwise_padding(v: Volume) -> int:
    """Return the number of kernel elements of padding after each group."""
    if v.ifm_bits != 16 and v.macs <= 256:
        return 0
    return 2 if v.macs <= 512 else 6


def _axis(values: Positions, axis: int, axes: int = 6) -> Positions:
    return values.reshape([-1 if i == axis else 1 for i in range(axes)])


def _positions(
    v: Volume, ofm: Positions, element: Positions, ifm: Positions, inside: NDArray[np.bool_]
) -> Positions:
    flat = (ofm * (v.kernel[0] * v.kernel[1]) + element) * v.ifm_depth + ifm
    return np.where(inside & (element != PADDING), flat, PADDING).reshape(-1)
