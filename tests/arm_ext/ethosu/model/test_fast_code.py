# SPDX-License-Identifier: Apache-2.0
"""The fast code as Vela writes it is covered by U85's operators; here are its three forms, and bad data."""

import numpy as np
import pytest

from arm_ext.ethosu.model import StreamError
from arm_ext.ethosu.model.fast_code import decode_fast


def encoded(
    numbers: list[int],
    width: int,
    *,
    raw: bool = False,
    small: bool = False,
    adjust: int = 0,
    table: tuple[int, ...] = (),
) -> bytes:
    """A stream, bit by bit: header, numbers, padding."""
    fields = [(int(raw), 1), (int(small), 1), (0, 102), (adjust & 0xFF, 8)]
    folded = [abs(v) << 1 | (v < 0) for v in (*table, *[0] * (16 - len(table)))]
    fields += [(v, 9) for v in folded] + [(v, width) for v in numbers]
    value = position = 0
    for number, bits in fields:
        value |= number << position
        position += bits
    return value.to_bytes(-(-position // 256) * 32, "little")


def test_table_of_four() -> None:
    data = encoded([0, 3, 1, 2, 2], 2, small=True, table=(0, -255, 7, 128))
    np.testing.assert_array_equal(decode_fast(data, 5), [0, 128, -255, 7, 7])


def test_table_of_sixteen() -> None:
    table = tuple(range(-8, 8))
    np.testing.assert_array_equal(decode_fast(encoded([15, 0, 9], 4, table=table), 3), [7, -8, 1])


@pytest.mark.parametrize("adjust", [0, 100, -127])
def test_bytes_moved_into_range(adjust: int) -> None:
    weights = [5, -28 - adjust, 127 - adjust, -128 - adjust]
    data = encoded([(w + adjust) & 0xFF for w in weights], 8, raw=True, adjust=adjust)
    np.testing.assert_array_equal(decode_fast(data, 4), weights)


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(32), bytes(96), b"\4" + bytes(63)])
def test_malformed_data_raises(data: bytes) -> None:
    with pytest.raises(StreamError, match="fast weight stream"):
        decode_fast(data, 20)
