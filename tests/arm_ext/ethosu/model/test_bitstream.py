# SPDX-License-Identifier: Apache-2.0
"""The decoder against Vela's encoder. Vela's own decoder ends the process on bad data and is not called."""

import numpy as np
import pytest
from ethosu import mlw_codec

from arm_ext.ethosu.model import StreamError
from arm_ext.ethosu.model.bitstream import decode

KINDS = {
    "uniform": lambda rng, n: rng.integers(-255, 256, n),
    "bell": lambda rng, n: np.clip(np.round(rng.normal(0, 12, n)), -255, 255),
    "mostly_zero": lambda rng, n: np.where(rng.random(n) < 0.85, 0, rng.integers(-100, 101, n)),
    "palette": lambda rng, n: rng.choice([0, 1, -1, 5, -77], n),
    "zero": lambda rng, n: np.zeros(n),
    "one_value": lambda rng, n: np.full(n, -3),
    "runs": lambda rng, n: (
        np.repeat(rng.integers(-20, 21, n), rng.integers(1, 40, n))[:n] * (np.arange(n) % 97 < 9)
    ),
}


@pytest.mark.parametrize("count", [1, 7, 12, 31, 1000, 32768, 70001])
@pytest.mark.parametrize("kind", KINDS)
def test_decodes_what_vela_encodes(kind: str, count: int) -> None:
    weights = KINDS[kind](np.random.default_rng(count), count).astype(np.int16)
    encoded = bytes(mlw_codec.encode(weights.tolist()))
    np.testing.assert_array_equal(decode(encoded, count), weights)


def test_counts_weights() -> None:
    encoded = bytes(mlw_codec.encode([1, 2, 3, 0, 0, 4] * 9))
    for expected in (53, 55):
        with pytest.raises(StreamError, match="weight"):
            decode(encoded, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_altered_or_truncated_stream_decodes_or_raises(kind: str) -> None:
    rng = np.random.default_rng(3)
    weights = KINDS[kind](rng, 300).astype(np.int16)
    encoded = bytes(mlw_codec.encode(weights.tolist()))
    for _ in range(60):
        altered = bytearray(encoded)
        bit = int(rng.integers(len(encoded) * 8))
        altered[bit // 8] ^= 1 << bit % 8
        cut = int(rng.integers(len(encoded)))
        for data in (bytes(altered), encoded[:cut], rng.bytes(len(encoded))):
            try:
                assert len(decode(data, 300)) == 300
            except StreamError:
                continue


def test_a_slice_needs_a_palette() -> None:
    with pytest.raises(StreamError, match="palette that was not set"):
        decode(bytes([6, 0, 0, 0, 0, 0]), 1)
