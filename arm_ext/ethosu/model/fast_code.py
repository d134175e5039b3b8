# SPDX-License-Identifier: Apache-2.0
"""U85's fast code of weights: a header of 256 bits, then indices into a table of 4 or 16 weights, or bytes.

Header: 1 bit bytes, 1 bit table of 4, 102 bits zero, 8 bits what was added to the bytes, 16 table entries of 9 bits
(sign lowest). The end is padded to 256 bits. As Vela 5.2 writes it,
regor/dependencies/mlw_codec/source/mlw_encode_fwd.cpp.
"""

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.bits import Bits
from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.registers import signed

_HEADER = 256  # bits of the header; the stream is padded to a multiple of this
_ADJUST = 104  # bit offset of the value that was added to the weights


def decode_fast(data: bytes, expected: int) -> NDArray[np.int16]:
    """Decode the weights of a stream in U85's fast code.

    Raises:
        StreamError: The stream has another length, or its header is malformed.
    """
    bits = Bits(data)
    if bits.end < _HEADER:
        raise StreamError(f"a fast weight stream of {len(data)} bytes is shorter than its header")
    raw, small = bits.take(1), bits.take(1)
    while bits.at < _ADJUST:
        if bits.take(min(24, _ADJUST - bits.at)):
            raise StreamError("a fast weight stream has reserved bits set in its header")
    adjust = bits.take(8)
    table = np.array([bits.take(9) for _ in range(16)], np.int64)
    width = 8 if raw else 2 if small else 4
    if bits.end != -(-(_HEADER + expected * width) // _HEADER) * _HEADER:
        raise StreamError(f"a fast weight stream of {len(data)} bytes is not that of {expected} weights")
    values = bits.gather(_HEADER + np.arange(expected) * width, width)
    if raw:
        return ((values ^ 0x80) - 0x80 - signed(adjust, 8)).astype(np.int16)
    folded = table[values]
    return np.where(folded & 1, -(folded >> 1), folded >> 1).astype(np.int16)
