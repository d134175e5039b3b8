# SPDX-License-Identifier: Apache-2.0
"""That a wrong layout is refused: vectors by dtype and lanes, buffers by dtype, axes and strides."""

from collections.abc import Callable

import pytest
from tvm import ir, tirx

from schedules.intrinsics import bfloat, fmla, fmla_f16, mmla, narrow, pin, reload, sdot, smull, sve, table
from schedules.tir.emit import i64

# Of each intrinsic that takes vectors: how it is called, and the dtype of each.
ON_VECTORS: dict[str, tuple[Callable[..., ir.Expr], str]] = {
    "sdot": (sdot.sdot, "int32x4 int8x16 int8x16"),
    "udot": (sdot.udot, "int32x4 uint8x16 uint8x16"),
    "usdot": (sdot.usdot, "int32x4 uint8x16 int8x16"),
    "smmla": (mmla.smmla, "int32x4 int8x16 int8x16"),
    "ummla": (mmla.ummla, "int32x4 uint8x16 uint8x16"),
    "usmmla": (mmla.usmmla, "int32x4 uint8x16 int8x16"),
    "bfdot": (bfloat.bfdot, "float32x4 int16x8 int16x8"),
    "bfmmla": (bfloat.bfmmla, "float32x4 int16x8 int16x8"),
    "bfcvtn": (bfloat.rounded, "float32x8"),
    "shll": (bfloat.widened, "int16x4"),
    "fmla": (lambda *v: fmla.fmla_lane(*v, 1), "float32x4 float32x4 float32x4"),
    "fmla f16": (lambda *v: fmla_f16.fmla_lane(*v, 1), "float16x8 float16x8 float16x8"),
    "fmul f16": (lambda *v: fmla_f16.fmul_lane(*v, 1), "float16x8 float16x8"),
    "fmlal": (lambda *v: fmla_f16.fmlal(*v, 1), "float32x4 float16x8 float16x8"),
    "smull": (smull.smull, "int8x8 int8x8"),
    "smlal": (smull.smlal, "int16x8 int8x8 int8x8"),
    "smlsl": (smull.smlsl, "int16x8 int8x8 int8x8"),
    "saddlp": (smull.saddlp, "int16x8"),
    "sadalp": (smull.sadalp, "int32x4 int16x8"),
    "addp": (smull.addp, "int32x4 int32x4"),
    "saddw": (smull.saddw, "int32x4 int16x4"),
    "smlal of 16 bits": (smull.smlal16, "int32x4 int16x4 int16x4"),
    "smlal by lane": (lambda *v: smull.smlal_lane(*v, 1), "int32x4 int16x4 int16x8"),
    "fcvtns": (narrow.fcvtns, "float32x4"),
    "fmulx": (narrow.fmulx, "float32x4 float32x4"),
    "fma": (narrow.fma, "float32x4 float32x4 float32x4"),
    "sqxtn16": (narrow.sqxtn16, "int32x4"),
    "narrow8": (lambda x: narrow.narrow8(x, "int8"), "int16x8"),
    "shift_narrow8": (lambda x: narrow.shift_narrow8(x, 1, "int8"), "int16x8"),
    "sqdmulh": (narrow.sqdmulh, "int32x4 int32x4"),
    "sqrdmulh": (narrow.sqrdmulh, "int32x4 int32x4"),
    "sqshl": (lambda x: narrow.sqshl(x, 1), "int32x4"),
    "srshr": (lambda x: narrow.srshr(x, 1), "int32x4"),
    "sqrshrn16": (lambda x: narrow.sqrshrn16(x, 1), "int32x4"),
    "sqadd32": (narrow.sqadd32, "int32x4 int32x4"),
    "sqadd16": (narrow.sqadd16, "int16x8 int16x8"),
    "addp16": (narrow.addp16, "int16x8 int16x8"),
    "tbl": (lambda a, b, c, d, i: table.tbl4([a, b, c, d], i), "int8x16 int8x16 int8x16 int8x16 uint8x16"),
    "tbx": (
        lambda v, a, b, c, d, i: table.tbx4(v, [a, b, c, d], i),
        "int8x16 int8x16 int8x16 int8x16 int8x16 uint8x16",
    ),
    "sve fexpa": (sve.fexpa, "int32x4"),
    "sve fma": (sve.fma, "float32x4 float32x4 float32x4"),
    "pinned": (pin.pinned, "int32x4"),
}

ON_BUFFERS: dict[str, tuple[Callable[[tirx.Buffer], object], str]] = {
    "reload": (lambda b: reload.reloaded(b, i64(0)), "int32"),
    "bfloat16": (bfloat.bits, "bfloat16"),
    "sve ld1sb": (lambda b: sve.widened(b, i64(0)), "int8"),
    "sve ld1w": (lambda b: sve.gathered(b, tirx.Var("i", "int32x4")), "int32"),
    "sve st1b": (lambda b: sve.store_first(b, tirx.Var("x", "int8x16"), i64(0), 3), "int8"),
}


def _vectors(dtypes: list[str]) -> list[ir.Expr]:
    return [tirx.Var(f"v{index}", dtype) for index, dtype in enumerate(dtypes)]


@pytest.mark.parametrize("name", ON_VECTORS)
def test_vectors_of_another_dtype_or_length_are_refused(name: str):
    call, text = ON_VECTORS[name]
    dtypes = text.split()
    call(*_vectors(dtypes))
    for index, dtype in enumerate(dtypes):
        element, _, lanes = dtype.rpartition("x")
        for other in (f"{element}x{2 * int(lanes)}", f"float64x{lanes}"):
            with pytest.raises(ValueError, match=other):
                call(*_vectors([*dtypes[:index], other, *dtypes[index + 1 :]]))


@pytest.mark.parametrize("name", ON_BUFFERS)
def test_buffers_that_are_not_flat_are_refused(name: str):
    call, dtype = ON_BUFFERS[name]
    for shape, strides, reason in (
        ((64,), [2], "1 axes and strides"),
        ((8, 8), None, "2 axes"),
        ((8, 8), [1, 8], "2 axes"),
    ):
        with pytest.raises(ValueError, match=reason):
            call(tirx.decl_buffer(shape, dtype, strides=strides))
    with pytest.raises(ValueError, match="the buffer is float64"):
        call(tirx.decl_buffer((64,), "float64"))
