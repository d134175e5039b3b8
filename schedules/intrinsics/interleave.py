# SPDX-License-Identifier: Apache-2.0
"""Interleaving of several vectors by ZIP1 and ZIP2, such as for transpositions."""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.vector import lanes_of, zip_halves

_REGISTER_BITS = 128


def interleaved(vectors: Sequence[ir.Expr], element: str) -> list[ir.Expr]:
    """Emit the interleaved elements: the first of each vector, then the second of each, and so on.

    The results are vectors of at most 128 bits.

    Args:
        vectors: Vectors of one dtype and at most 128 bits; their number is a power of two.
        element: 128-bit vector dtype whose lanes are the elements to interleave, such as "int8x16" or "int64x2";
            shorter vectors are interleaved lane by lane.
    """
    if len(vectors) == 1:
        return list(vectors)
    even, odd = interleaved(vectors[0::2], element), interleaved(vectors[1::2], element)
    return [T.Bind(part) for a, b in zip(even, odd, strict=True) for part in _zipped(a, b, element)]


def _zipped(a: ir.Expr, b: ir.Expr, element: str) -> Sequence[ir.Expr]:
    lanes = lanes_of(a)
    if lanes * int(a.ty.dtype.bits) == _REGISTER_BITS:
        return zip_halves(a, b, element)
    return [tirx.Shuffle([a, b], [lane + offset for lane in range(lanes) for offset in (0, lanes)])]
