# SPDX-License-Identifier: Apache-2.0
"""What intrinsics ask of their operands, checked while a kernel is emitted."""

from tvm import ir, tirx


def check(name: str, *operands: tuple[ir.Expr, str]) -> None:
    """Raises ValueError if a value is not of the dtype and lanes that stand beside it; `name` is who asks."""
    for value, dtype in operands:
        if str(value.ty.dtype) != dtype:
            raise ValueError(f"{name}: an operand is {value.ty.dtype}, expected {dtype}")


def check_flat(name: str, buffer: tirx.Buffer, *dtypes: str) -> None:
    """Raises ValueError if neighbours of a buffer are not neighbours in memory, or its dtype is none of these.

    An address knows nothing of strides. It may be any multiple of an element: vector loads of AArch64 ask no more.
    """
    if str(buffer.dtype) not in dtypes:
        raise ValueError(f"{name}: the buffer is {buffer.dtype}, expected {' or '.join(dtypes)}")
    if len(buffer.shape) != 1 or any(int(stride) != 1 for stride in buffer.strides):
        strides = [str(stride) for stride in buffer.strides]
        raise ValueError(
            f"{name}: the buffer has {len(buffer.shape)} axes and strides {strides}, expected 1 axis of stride 1"
        )
