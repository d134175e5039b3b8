# SPDX-License-Identifier: Apache-2.0
"""Decoding of an operation's weights and scales from the memory that its registers name."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.bitstream import decode
from arm_ext.ethosu.model.brick_order import (
    PADDING,
    Positions,
    Traversal,
    Volume,
    u55_order,
    u85_fast_order,
    u85_order,
)
from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.fast_code import decode_fast
from arm_ext.ethosu.model.memory import Integers, PayloadMemory, element
from arm_ext.ethosu.model.registers import Registers
from arm_ext.target.npu import Accelerator

_SCALE_BYTES = 10
_SCALE_GRANULE = 16  # number of channels to which U85 pads its scales; also the channels of its micro-block
_ALIGNMENT = 16
# Height x width of U85's micro-blocks, by their number in NPU_SET_ACC_FORMAT; 8 multipliers work on each element.
_UBLOCK_AREA = (1, 2, 4, 4, 8, 16)
_UBLOCK_LANES = 8


@dataclass(frozen=True)
class KernelGeometry:
    """A kernel's size in elements, dilation and stride, each as (y, x)."""

    size: tuple[int, int]
    dilation: tuple[int, int]
    stride: tuple[int, int]

    @classmethod
    def of(cls, registers: Registers) -> "KernelGeometry":
        """Return the kernel that the registers describe."""

        def bit(name: str) -> int:
            return registers.get("kernel_stride", name)

        stride = 1 + bit("y_low") + 2 * bit("y_high"), 1 + bit("x_low") + 2 * bit("x_high")
        extent = registers.size("kernel_height"), registers.size("kernel_width")
        dilation = [bit(f"dilation_{axis}") + 1 if e > 1 else 1 for axis, e in zip("yx", extent, strict=True)]
        size = [(e - 1) // d + 1 for e, d in zip(extent, dilation, strict=True)]
        return cls((size[0], size[1]), (dilation[0], dilation[1]), stride)

    @property
    def extent(self) -> tuple[int, int]:
        """Height and width of the dilated kernel."""
        return (self.size[0] - 1) * self.dilation[0] + 1, (self.size[1] - 1) * self.dilation[1] + 1


@dataclass(frozen=True)
class Scales:
    """Bias and rescaling of each output channel: (acc + bias) x multiplier / 2^shift."""

    bias: Integers
    multiplier: Integers
    shift: Integers


def read_weights(
    memory: PayloadMemory,
    registers: Registers,
    npu: Accelerator,
    operation: Literal["conv", "depthwise"],
    ifm_depth: int,
) -> NDArray[np.int16]:
    """Decode a convolution's weights minus zero points: output channels x height x width x input channels.

    Raises:
        StreamError: A stream is malformed, has too many or too few weights, or a weight where there is none.
    """
    with registers.unrecorded():
        return _read_weights(memory, registers, npu, operation, ifm_depth)


def _read_weights(
    memory: PayloadMemory, registers: Registers, npu: Accelerator, operation: str, ifm_depth: int
) -> NDArray[np.int16]:
    if registers.get("kernel_stride", "split4"):
        raise StreamError("kernels split into 4 x 4 are not modelled; Vela splits into 8 x 8")
    volume = _volume(registers, npu, operation, ifm_depth)
    weights = np.zeros(volume.size, np.int16)
    if npu.family == "u85" and registers.get("weight_format", "fast"):
        order = u85_fast_order(volume)
        _place(weights, order, decode_fast(_stream(memory, registers, 0), len(order)))
    else:
        for stream in range(
            min(npu.weight_streams, volume.ofm_depth) if npu.family != "u85" else npu.weight_streams
        ):
            order = (u85_order if npu.family == "u85" else u55_order)(volume, stream)
            _place(weights, order, decode(_stream(memory, registers, stream), len(order)))
    return weights.reshape(volume.ofm_depth, *volume.kernel, volume.ifm_depth)


def _volume(registers: Registers, npu: Accelerator, operation: str, ifm_depth: int) -> Volume:
    kernel = KernelGeometry.of(registers)
    part = registers.get("kernel_stride", "part_kernel")
    traversal: Traversal = (
        "depthwise" if operation == "depthwise" else "part_kernel" if part else "depth_first"
    )
    dtype, _ = element(registers, "ifm")
    u85 = npu.family == "u85"
    return Volume(
        ofm_depth=registers.size("ofm_depth"),
        kernel=kernel.size,
        ifm_depth=1 if operation == "depthwise" else ifm_depth,
        traversal=traversal,
        ifm_bits=dtype.itemsize * 8,
        ofm_block=registers.size("ofm_blk_depth"),
        ofm_ublock=_ofm_ublock(registers, npu),
        dilation=kernel.dilation,
        stride=kernel.stride if u85 else (1, 1),
        streams=npu.weight_streams,
        macs=npu.macs if u85 else 0,
        sparse=bool(u85 and registers.get("weight_format", "sparse")),
    )


def _ofm_ublock(registers: Registers, npu: Accelerator) -> int:
    """Return the number of output channels of a micro-block."""
    if npu.family != "u85":
        return npu.ofm_ublock_depth
    number = registers.get("acc_format", "microblock")
    if number >= len(_UBLOCK_AREA):
        raise StreamError(f"micro-block {number} is none of U85's")
    return npu.macs // _UBLOCK_LANES // _UBLOCK_AREA[number]


def _stream(memory: PayloadMemory, registers: Registers, stream: int) -> bytes:
    name = f"weight{stream or ''}"
    length = registers.get(f"{name}_length")
    base = registers.address(f"{name}_base") if length else 0
    return memory.area(registers.get("weight_region"), base, length).tobytes()


def _place(weights: NDArray[np.int16], order: Positions, numbers: NDArray[np.int16]) -> None:
    real = order != PADDING
    if numbers[~real].any():
        raise StreamError("a weight stream has a nonzero weight in a padding position")
    weights[order[real]] = numbers[real]


def read_scales(memory: PayloadMemory, registers: Registers, npu: Accelerator) -> Scales:
    """Return bias, multiplier and shift of each output channel.

    10 bytes a channel. U55 and U65: bias 40 bits, multiplier 32, shift 6; of two cores one has the even channels, the
    other the odd ones. U85: bias 32 bits, multiplier 31, shift 6; with 48-bit accumulators bias 48,
    multiplier 15, shift 6.
    """
    with registers.unrecorded():
        return _read_scales(memory, registers, npu)


def _read_scales(memory: PayloadMemory, registers: Registers, npu: Accelerator) -> Scales:
    depth = registers.size("ofm_depth")
    granule = max(_ofm_ublock(registers, npu), _SCALE_GRANULE) if npu.family == "u85" else 1
    records = np.zeros((depth, _SCALE_BYTES), np.uint8)
    for core in range(min(npu.cores, depth)):
        name = f"scale{core or ''}"
        length, count = registers.get(f"{name}_length"), len(range(core, depth, npu.cores))
        stored = -(-count // granule) * granule * _SCALE_BYTES
        if length != -(-stored // _ALIGNMENT) * _ALIGNMENT:
            raise StreamError(f"{length} bytes of scales are not those of {count} channels")
        raw = memory.area(
            registers.get("scale_region"), registers.address(f"{name}_base"), count * _SCALE_BYTES
        )
        records[core :: npu.cores] = raw.reshape(count, _SCALE_BYTES)
    if npu.family != "u85":
        return Scales(_field(records, 0, 40, signed=True), _field(records, 40, 32), _field(records, 72, 6))
    if registers.get("acc_format", "bits"):
        return Scales(_field(records, 0, 48, signed=True), _field(records, 48, 15), _field(records, 64, 6))
    return Scales(_field(records, 0, 32, signed=True), _field(records, 32, 31), _field(records, 64, 6))


def _field(records: NDArray[np.uint8], first: int, width: int, *, signed: bool = False) -> Integers:
    """Return a bit field of each record; it begins at a whole byte."""
    taken = records[:, first // 8 : -(-(first + width) // 8)].astype(np.int64)
    value: Integers = np.zeros(len(records), np.int64)
    for i in range(taken.shape[1]):
        value |= taken[:, i] << (8 * i)
    value &= (1 << width) - 1
    return np.where(value >> (width - 1) & 1, value - (1 << width), value) if signed else value
