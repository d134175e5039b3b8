# SPDX-License-Identifier: Apache-2.0
"""Resizing with static sizes, axis by axis, as a product with a constant matrix.

y = R_h · x · R_w^T    with    R_h = resize(identity)
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

ANTIALIASED = {
    f"_upsample_{kind}2d_aa.{overload}": kind
    for kind in ("bilinear", "bicubic")
    for overload in ("default", "vec")
}
"""Operators that average over the input pixels that an output pixel covers."""


def resampled(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert a resize of [batch, channels, height, width]."""
    emit, x = importer.block_builder.emit, a["self"] if "self" in a else a["input"]
    assert callable(node.target)
    kind, dtype = ANTIALIASED[node.target.__name__], str(x.ty.dtype)
    scales = a.get("scale_factors") or (a.get("scales_h"), a.get("scales_w"))
    rows, columns = (
        _matrix(kind, int(before), int(after), bool(a["align_corners"]), scale)
        for before, after, scale in zip([*x.ty.shape][2:], node.meta["val"].shape[2:], scales, strict=True)
    )
    x = emit(R.matmul(x, relax.const(np.ascontiguousarray(columns.T), dtype)))
    return emit(R.matmul(relax.const(rows, dtype), x))


def _matrix(kind: str, before: int, after: int, align_corners: bool, scale: float | None) -> npt.NDArray[Any]:
    """[after, before]: what torch makes of the identity, one axis of which keeps its size."""
    operator = getattr(torch.ops.aten, f"_upsample_{kind}2d_aa").default
    pixels = torch.eye(before).reshape(1, 1, before, before)
    found: npt.NDArray[Any] = operator(pixels, [before, after], align_corners, None, scale).numpy()
    return np.ascontiguousarray(found[0, 0].T)
