# SPDX-License-Identifier: Apache-2.0
"""Memory of the functional model: a payload's regions, the table memory, and feature maps in them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.registers import Registers, signed
from arm_ext.ethosu.payload import Payload

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_BRICK = 16  # channels of one brick of layout NHCWB16
NHWC, NHCWB16 = 0, 1
_FILL = 0xA5  # byte that fills memory not written yet, so that a read of such memory shows in the result


class PayloadMemory:
    """The regions of a payload, and the memory that holds look-up tables.

    Attributes:
        tables: Shared RAM (U55, U65) or table RAM (U85); writable by DMA alone.
    """

    def __init__(self, payload: Payload) -> None:
        """Fill the regions with a pattern, and copy the weights to their region."""
        self._regions: dict[int, Bytes] = {}
        for region in payload.regions:
            self._regions[region.number] = np.full(region.size, _FILL, np.uint8)
            if region.kind == "weights":
                self._regions[region.number] = np.frombuffer(payload.weights, np.uint8)  # read-only
        self.tables: Bytes = np.full(payload.npu.shram_kib << 10, _FILL, np.uint8)

    @property
    def largest(self) -> int:
        """Size of the largest region in bytes."""
        return max(map(len, self._regions.values()), default=0)

    def area(self, region: int, offset: int, size: int) -> Bytes:
        """Return a view of bytes of a region.

        Raises:
            StreamError: The bytes are not within the region.
        """
        if region not in self._regions:
            raise StreamError(f"region {region} is not in the payload")
        area = self._regions[region]
        if not 0 <= offset <= offset + size <= len(area):
            raise StreamError(
                f"{size} bytes at {offset:#x} are not within region {region} of {len(area)} bytes"
            )
        return area[offset : offset + size]

    def writable(self, region: int, offset: int, size: int) -> Bytes:
        """Return a view of bytes of a region that may be written."""
        area = self.area(region, offset, size)
        if not area.flags.writeable:
            raise StreamError(f"region {region} holds the weights; an operation writes to it")
        return area

    def strided(
        self,
        region: int,
        base: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[np.generic],
        *,
        write: bool,
    ) -> NDArray[np.generic]:
        """Return a view of elements at strides in bytes, which may be negative.

        Raises:
            StreamError: An element is not within the region, or the region is not writable.
        """
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        low = base + sum(r for r in reach if r < 0)
        high = base + sum(r for r in reach if r > 0) + dtype.itemsize
        area = (self.writable if write else self.area)(region, low, high - low)
        return np.ndarray(shape, dtype, area, base - low, strides)


@dataclass(frozen=True)
class FeatureMap:
    """The layout of a feature map of up to four tiles, and its element type.

    Tile 0 is above and left, 1 to its right, 2 below it, 3 right of 2. A rolling buffer is tile 0 with 2 below.
    """

    region: int
    shape: tuple[int, int, int]
    dtype: np.dtype[np.generic]
    layout: int
    bases: tuple[int, int, int, int]
    width0: int
    height0: int
    height1: int
    strides: tuple[int, int, int]  # y, x, channel or brick
    zero_point: int

    @classmethod
    def of(cls, registers: Registers, name: str, shape: tuple[int, int, int]) -> "FeatureMap":
        """Return the feature map that the registers of "ifm", "ifm2" or "ofm" describe.

        Args:
            registers: Values of the registers.
            name: Name of the feature map.
            shape: Height, width and channels, which other registers imply.
        """
        dtype, zero_point = element(registers, name)
        layout = registers.get(f"{name}_precision", "layout")
        if layout not in (NHWC, NHCWB16):
            raise StreamError(f"layout {layout} of the {name} is neither NHWC nor NHCWB16")
        with registers.unrecorded():  # a tile 0 that is larger than the feature map has no effect
            height0 = min(registers.size(f"{name}_height0"), shape[0])
            width0 = min(registers.size(f"{name}_width0"), shape[1])
        registers.read.update({f"{name}.height0": height0, f"{name}.width0": width0})
        wide, tall = shape[1] > width0, shape[0] > height0
        height1 = registers.size(f"{name}_height1") if wide else height0
        tall1 = wide and shape[0] > height1
        needed = (True, wide, tall, tall1)
        bases = tuple(registers.address(f"{name}_base{i}") if n else 0 for i, n in enumerate(needed))
        region = registers.get(f"{name}_region")
        several = shape[0] > 1, shape[1] > 1, layout == NHCWB16 and shape[2] > _BRICK
        strides = tuple(
            registers.stride(f"{name}_stride_{axis}") if more else dtype.itemsize
            for axis, more in zip("yxc", several, strict=True)
        )
        return cls(region, shape, dtype, layout, bases, width0, height0, height1, strides, zero_point)  # type: ignore[arg-type]

    def read(self, memory: PayloadMemory) -> Integers:
        """Read the elements, height x width x channels."""
        # Check the addresses first: an array of a wrong size may not fit in memory.
        views = list(self._views(memory, write=False))
        out = np.empty(self.shape, np.int64)
        for where, view in views:
            out[where] = view
        return out

    def write(self, memory: PayloadMemory, values: Integers) -> None:
        """Store the low bits of each element."""
        for where, view in self._views(memory, write=True):
            view[...] = values[where].astype(self.dtype)

    def _views(
        self, memory: PayloadMemory, *, write: bool
    ) -> Iterator[tuple[tuple[slice, slice, slice], NDArray[np.generic]]]:
        """Yield each part of the feature map with a view of its memory."""
        for rows, columns, base in self._tiles():
            for channels, offset, shape, strides in self._channels():
                full = (rows.stop - rows.start, columns.stop - columns.start, *shape)
                steps = (self.strides[0], self.strides[1], *strides)
                view = memory.strided(self.region, base + offset, full, steps, self.dtype, write=write)
                if len(shape) == 2 and not write:
                    view = view.reshape(*full[:2], -1)
                if len(shape) == 2 and write:
                    for brick in range(shape[0]):
                        start = channels.start + brick * _BRICK
                        yield (rows, columns, slice(start, start + _BRICK)), view[:, :, brick]
                else:
                    yield (rows, columns, channels), view

    def _tiles(self) -> Iterator[tuple[slice, slice, int]]:
        height, width, _ = self.shape
        across = min(self.width0, width)
        for columns, split, above, below in (
            (slice(0, across), self.height0, 0, 2),
            (slice(across, width), self.height1, 1, 3),
        ):
            down = min(split, height)
            for rows, tile in ((slice(0, down), above), (slice(down, height), below)):
                if rows.start < rows.stop and columns.start < columns.stop:
                    yield rows, columns, self.bases[tile]

    def _channels(self) -> Iterator[tuple[slice, int, tuple[int, ...], tuple[int, ...]]]:
        """Yield runs of channels: their indices, offset, shape and strides."""
        depth, size, stride = self.shape[2], self.dtype.itemsize, self.strides[2]
        if self.layout == NHWC:
            yield slice(0, depth), 0, (depth,), (stride,)
            return
        bricks, rest = divmod(depth, _BRICK)
        if bricks:
            yield slice(0, bricks * _BRICK), 0, (bricks, _BRICK), (stride, size)
        if rest:
            yield slice(bricks * _BRICK, depth), bricks * stride, (rest,), (size,)


def element(registers: Registers, name: str) -> tuple[np.dtype[np.generic], int]:
    """Return the element dtype and the zero point of a feature map."""
    is_signed = registers.get(f"{name}_precision", "signed")
    size = 1 << registers.get(f"{name}_precision", "bytes_log2")
    zero_point = registers.get(f"{name}_zero_point")
    return np.dtype(f"<{'i' if is_signed else 'u'}{size}"), signed(
        zero_point, 16
    ) if is_signed else zero_point
