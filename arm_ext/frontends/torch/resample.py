# SPDX-License-Identifier: Apache-2.0
"""Resizing with static sizes, axis by axis: by a product with a constant matrix, or by constant indices.

y = R_h · x · R_w^T    with    R_h = resize(identity)
"""

from collections.abc import Sequence
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
    """Convert an antialiased resize of [batch, channels, height, width]."""
    assert callable(node.target)
    operator = getattr(torch.ops.aten, f"_upsample_{ANTIALIASED[node.target.__name__]}2d_aa").default
    return _by_matrices(operator, importer, node, a)


def bilinear(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert upsample_bilinear2d; TVM's importer uses the ratio of the sizes instead of the scale factor in torch."""
    scales = a["scale_factors"]
    if a["align_corners"] or not scales or _are_whole(scales):
        return importer.by_upstream(node)
    sizes = zip([*a["input"].ty.shape][2:], node.meta["val"].shape[2:], scales, strict=True)
    if all(int(before) * scale == after for before, after, scale in sizes):
        return importer.by_upstream(node)
    return _by_matrices(torch.ops.aten.upsample_bilinear2d.default, importer, node, a)


def _are_whole(factors: Sequence[float] | None) -> bool:
    return bool(factors) and all(float(factor).is_integer() for factor in factors or ())


def _by_matrices(
    operator: Any, importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]
) -> relax.Expr:
    emit, x = importer.block_builder.emit, a["self"] if "self" in a else a["input"]
    scales = a.get("scale_factors") or (a.get("scales_h"), a.get("scales_w"))
    rows, columns = (
        _matrix(operator, int(before), int(after), bool(a["align_corners"]), scale)
        for before, after, scale in zip([*x.ty.shape][2:], node.meta["val"].shape[2:], scales, strict=True)
    )
    dtype = str(x.ty.dtype)
    x = emit(R.matmul(x, relax.const(np.ascontiguousarray(columns.T), dtype)))
    return emit(R.matmul(relax.const(rows, dtype), x))


def nearest(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert upsample_nearest2d; TVM selects the nearest centre, and torch the floor of the coordinate."""
    x, sizes = a["input"], node.meta["val"].shape[2:]
    if _are_whole(a["scale_factors"]):  # there is no difference
        return importer.by_upstream(node)
    axes = list(zip(map(int, [*x.ty.shape][2:]), sizes, a["scale_factors"] or (None, None), strict=True))
    if all(after % before == 0 for before, after, _ in axes):
        return importer.by_upstream(node)
    for axis, (before, after, scale) in enumerate(axes, 2):
        places = torch.arange(before, dtype=torch.float64).reshape(1, 1, before)
        taken = torch.ops.aten.upsample_nearest1d.default(places, [after], scale).reshape(-1)
        indices = relax.const(taken.numpy().astype("int64"))
        x = importer.block_builder.emit(R.take(x, indices, axis))
    return x


def _matrix(
    operator: Any, before: int, after: int, align_corners: bool, scale: float | None
) -> npt.NDArray[Any]:
    """Return the matrix [after, before] of a resize along one axis: the resize of the identity matrix."""
    pixels = torch.eye(before).reshape(1, 1, before, before)
    found: npt.NDArray[Any] = operator(pixels, [before, after], align_corners, None, scale).numpy()
    return np.ascontiguousarray(found[0, 0].T)
