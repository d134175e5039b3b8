# SPDX-License-Identifier: Apache-2.0
"""Reader of a bit stream, number by number or many numbers at once."""

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.errors import StreamError

Integers = NDArray[np.int64]


class Bits:
    """A bit stream, the least significant bit of each byte first."""

    def __init__(self, data: bytes) -> None:
        padded = np.frombuffer(data + bytes(4), np.uint8).astype(np.int64)
        self.windows = padded[:-3] | padded[1:-2] << 8 | padded[2:-1] << 16 | padded[3:] << 24
        self.window_list: list[int] = self.windows.tolist()
        self.end = len(data) * 8
        self.at = 0

    def take(self, count: int) -> int:
        """Read the next bits, at most 24."""
        if self.at + count > self.end:
            raise StreamError("a weight stream ends within a slice")
        value = self.window_list[self.at >> 3] >> (self.at & 7) & ((1 << count) - 1)
        self.at += count
        return value

    def gather(self, positions: Integers, count: int) -> Integers:
        """Read `count` bits from each of the positions."""
        if count == 0:
            return np.zeros(len(positions), np.int64)
        if len(positions) and int(positions.max()) + count > self.end:
            raise StreamError("a weight stream ends within a slice")
        out: Integers = self.windows[positions >> 3] >> (positions & 7) & ((1 << count) - 1)
        return out
