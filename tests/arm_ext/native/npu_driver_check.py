# SPDX-License-Identifier: Apache-2.0
"""How Linux's driver looks a command stream over: which regions it finds used, how far, and which written.

It keeps what commands set, beginning with all ones, and at each operation works out the last byte of each feature map.
It knows neither scalars of U65, nor chained feature maps of U85, nor negative strides of feature maps.
Source: ethosu_gem_cmdstream_copy_and_validate in drivers/accel/ethosu/ethosu_gem.c, Linux 6.19.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

_ONES, _LONG = 0xFFFF, (1 << 64) - 1
_CONV, _DEPTHWISE, _POOL, _ELEMENTWISE, _RESIZE, _DMA = 2, 3, 5, 6, 7, 16
_IFM, _OFM, _IFM2 = 0x100, 0x110, 0x180  # where a feature map's commands begin; those with data: less 0x100


class RefusedError(ValueError):
    """The driver's EINVAL."""


@dataclass
class Check:
    """What has been set so far, and what has been found.

    Attributes:
        sizes: By region, bytes that the stream reaches.
        written: Regions that it writes.
        resizes: Whether there is an operation at which the driver warns that it does not know it.
    """

    sizes: list[int] = field(default_factory=lambda: [0] * 8)
    written: set[int] = field(default_factory=set)
    resizes: bool = False
    _set: dict[int, int] = field(default_factory=dict)

    def command(self, command: int, value: int) -> None:
        """Takes in a command: the word's lower half, and its upper half or the data."""
        operations = {_CONV: self._macs, _DEPTHWISE: self._macs, _POOL: self._pool}
        operations |= {_ELEMENTWISE: self._elementwise, _DMA: self._dma}
        if command in operations:
            operations[command](value)
        elif command == _RESIZE:
            self.resizes = True
        else:
            self._set[command] = value

    def _get(self, command: int) -> int:
        return self._set.get(command, _LONG if command & 0x4000 else _ONES)

    def _reach(self, region: int, size: int) -> None:
        self.sizes[region] = max(self.sizes[region], size & _LONG)

    def _macs(self, operand: int) -> None:
        self._input()
        if operand & 1:
            self._map(_IFM2, self._get(0x104), 0, self._get(0x113))
        else:
            self._area(0x128, 0x4020)
        self._scales()
        self._output()

    def _pool(self, operand: int) -> None:
        if operand != 4:
            self._input()
        self._scales()
        self._output()

    def _elementwise(self, operand: int) -> None:
        for first in (_IFM, _IFM2):
            broadcast = self._get(first + (8 if first == _IFM else 0)) & 0xFF
            if broadcast == 8 or (first == _IFM2 and operand in (5, 6, 7, 0x24)):
                continue
            height, width, depth = (self._get(c) for c in (0x112, 0x111, 0x113))
            ends = (
                0 if broadcast & 2 else width,
                0 if broadcast & 1 else height,
                0 if broadcast & 4 else depth,
            )
            self._map(first, *ends)
        self._output()

    def _dma(self, _: int) -> None:
        mode = self._get(0x130) >> 9 & 3
        for command, offset, strides in ((0x130, 0x4030, 0x4033), (0x131, 0x4031, 0x4035)):
            length = self._get(0x4032)
            for axis in range(2 if mode == 2 else mode > 0):
                stride = self._get(strides + axis) & (1 << 40) - 1
                stride -= (stride >> 39) << 40
                length = (length + stride) * self._get(0x132 + axis)
            if not self._get(command) & 0x100:
                self._reach(self._get(command) & 7, length + self._get(offset))
                if command == 0x131:
                    self.written.add(self._get(command) & 7)

    def _input(self) -> None:
        stride = self._get(0x122)
        if stride == _ONES:
            raise RefusedError("a kernel's stride is not set")
        down, across = (stride >> 8 & 2) + (stride >> 1 & 1) + 1, (stride >> 5 & 2) + (stride & 1) + 1
        top, left, right, bottom = (self._get(_IFM + i) & (0x7F if i < 2 else 0xFF) for i in range(4))
        height = self._get(0x112) * down + self._get(0x121) - top - bottom
        width = self._get(0x111) * across + self._get(0x120) - left - right
        self._map(_IFM, width, height, self._get(0x104))

    def _output(self) -> None:
        self._map(_OFM, self._get(0x111), self._get(0x112), self._get(0x113))
        self.written.add(self._get(0x11F) & 7)

    def _scales(self) -> None:
        if not self._get(0x114) & 0x100:
            self._area(0x129, 0x4022)

    def _area(self, region: int, base: int) -> None:
        if region not in self._set or base not in self._set or base + 1 not in self._set:
            raise RefusedError("weights or scales are not set")
        self._reach(self._get(region) & 7, self._get(base) + (self._get(base + 1) & 0xFFFFFFFF))

    def _map(self, first: int, x: int, y: int, c: int) -> None:
        region, wide = first + 15, 0x4000 + first - 0x100
        if region not in self._set:
            raise RefusedError("a feature map's region is not set")
        x, y = x & 0xFFFFFFFF, y & 0xFFFFFFFF
        precision = self._get(first + (4 if first == _OFM else 5))
        width0, height0, height1 = (self._get(first + i) for i in (10, 11, 12))
        tile = 0
        if precision >> 14 == 0:
            if x > width0:
                x, tile = x - width0 - 1, 1
            height = height1 if tile else height0
            if y > height:
                y, tile = y - height - 1, tile + 2
        elif precision >> 14 == 1:
            if y > height1:
                y, tile = y - height1 - 1, 2
            elif y > height0:
                y, tile = y - height0 - 1, 1
        base = self._get(wide + tile)
        if base == _LONG:
            raise RefusedError("a feature map's base is not set")
        base += y * self._get(wide + 5)
        if precision >> 6 & 3 == 0:
            base += x * self._get(wide + 4) + c
        elif precision >> 6 & 3 == 1:
            base += c // 16 * self._get(wide + 6) + (16 * x + c % 16 << (precision >> 1 & 3))
        self._reach(self._get(region) & 7, (base & _LONG) + 1)


def check(words: Sequence[int]) -> Check:
    """What the driver finds in a stream.

    Raises:
        RefusedError: It does not take it.
    """
    found = Check()
    rest = iter(words)
    for word in rest:
        command, value = word & 0xFFFF, word >> 16
        if command & 0x4000:
            value = (value & 0xFF) << 32 | next(rest)
        found.command(command, value)
    return found
