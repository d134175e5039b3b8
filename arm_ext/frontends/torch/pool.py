# SPDX-License-Identifier: Apache-2.0
"""Max pooling whose indices are not used, and average pooling with an explicit divisor."""

import math
import operator
from typing import TYPE_CHECKING, Any

import torch
from tvm import relax

from arm_ext.frontends.graph import sizes_of

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter


def maxima(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> Any:
    """Convert max_pool{2,3}d_with_indices.

    Raises:
        ValueError: The indices are read.
    """
    if any(user.target is operator.getitem and user.args[1] == 1 for user in node.users):
        raise ValueError("return_indices is not supported")
    if len(node.args) > 2 and not a["stride"]:
        node.update_arg(2, a["kernel_size"])
    return importer.by_upstream(node)


def averages(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert avg_pool{2,3}d with `divisor_override`, the divisor of each window's sum; TVM's converter ignores it."""
    rank = _rank(node)
    if a["divisor_override"] is None:
        return importer.by_upstream(node)
    # A single number applies to all axes.
    kernel, stride, margins = (
        list(sizes) * (rank // len(sizes))
        for sizes in (a["kernel_size"], a["stride"] or a["kernel_size"], a["padding"])
    )
    emit, x = importer.block_builder.emit, a["self"]
    if "int" in str(x.ty.dtype):  # an integer average has already lost the sum's remainder
        x = emit(relax.op.astype(x, "float64"))
    pads = [0, 0] * (len(x.ty.shape) - rank)
    sizes = zip(sizes_of(x)[-rank:], node.meta["val"].shape[-rank:], kernel, stride, margins, strict=True)
    for size, count, window, step, margin in sizes:
        # In ceil_mode the last window may begin inside the data and end beyond its padding.
        pads += [margin, max(margin, (count - 1) * step + window - size - margin)]
    padded = emit(relax.op.nn.pad(x, pads))
    shape = sizes_of(padded)
    batch = emit(relax.op.reshape(padded, (1, *shape))) if len(shape) == rank + 1 else padded
    average = emit((relax.op.nn.avg_pool2d, relax.op.nn.avg_pool3d)[rank - 2](batch, kernel, stride))
    average = emit(relax.op.reshape(average, (*shape[:-rank], *node.meta["val"].shape[-rank:])))
    scale = math.prod(kernel) / a["divisor_override"]
    return emit(relax.op.multiply(average, relax.const(scale, str(x.ty.dtype))))


def _rank(node: torch.fx.Node) -> int:
    """Return the number of spatial axes of a pooling: 2 for aten.max_pool2d_with_indices."""
    assert isinstance(node.target, torch._ops.OpOverload)
    return int(node.target._schema.name.partition("_pool")[2][0])
