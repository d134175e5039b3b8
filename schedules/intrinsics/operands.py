# SPDX-License-Identifier: Apache-2.0
"""Checks of the operands of intrinsics, made while a kernel is emitted."""

from tvm import ir, tirx


def check(name: str, *operands: tuple[ir.Expr, str]) -> None:
    """Raise ValueError if a value's dtype is not the dtype in its pair (value, dtype); `name` is the intrinsic."""
    for value, dtype in operands:
        if str(value.ty.dtype) != dtype:
            raise ValueError(f"{name}: an operand is {value.ty.dtype}, expected {dtype}")


def check_flat(name: str, buffer: tirx.Buffer, *dtypes: str) -> None:
    """Raise ValueError unless a buffer is one-dimensional with stride 1 and has one of the dtypes.

    Intrinsics that use a buffer's address ignore strides. They need no more alignment than that of an element, as
    vector loads of AArch64.
    """
    if str(buffer.dtype) not in dtypes:
        raise ValueError(f"{name}: the buffer is {buffer.dtype}, expected {' or '.join(dtypes)}")
    if len(buffer.shape) != 1 or any(int(stride) != 1 for stride in buffer.strides):
        strides = [str(stride) for stride in buffer.strides]
        raise ValueError(
            f"{name}: the buffer has {len(buffer.shape)} axes and strides {strides}, expected 1 axis of stride 1"
        )
