# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's rotary embedding: pairs of elements are rotated by angles that depend on the position.

    (a, b) at position p    →    (a cos[p] - b sin[p], a sin[p] + b cos[p])

Source: onnxruntime's contrib operator definition RotaryEmbedding, version 1 of com.microsoft.
"""

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.attention import join_heads, split_heads
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import at, ints, like, part, reshape, stack


def rotary(e: Expansion) -> None:
    """Replace RotaryEmbedding: rotate pairs of elements by angles that depend on the position."""
    x, positions, cosines, sines = e.inputs("input position_ids cos_cache sin_cache")
    if e.attribute("is_packed_batching", 0):
        raise ModelError("its batch is packed (is_packed_batching), which is not supported")
    dims = e.dims(x)
    half = e.dims(cosines)[1]
    size = int(e.attribute("rotary_embedding_dim", 0)) or 2 * half
    count = int(e.attribute("num_heads", 0))
    if len(dims) == 3:
        count = count or dims[2] // size
        x = split_heads(e, x, dims[0], dims[1], count)
    steps = dims[1] if len(dims) == 3 else dims[2]
    if e.dims(positions) in ([], [1]):
        positions = e.emit("Add", [reshape(e, positions, 1, 1), ints(e, *range(steps))])
    tables = (cosines, sines)
    y = rotate(e, x, positions, tables, interleaved=bool(e.attribute("interleaved", 0)))
    scale = e.attribute("scale", 1.0)
    if scale != 1:
        y = e.emit("Mul", [y, like(e, scale, x)])
    if len(dims) == 3:
        join_heads(e, y, *dims)
    else:
        e.emit("Identity", [y], e.node.output[0])


def rotate(e: Expansion, x: str, positions: str, tables: tuple[str, str], *, interleaved: bool) -> str:
    """Rotate [batch, heads, steps, size] at positions [batch or 1, steps] by tables [positions, half]."""
    batch, heads, steps, size = e.dims(x)
    half = e.dims(tables[0])[1]
    rows, rest = (x, "") if size == 2 * half else (part(e, x, 0, 2 * half), part(e, x, 2 * half, size))
    # [batch or 1, steps, half] → [batch or 1, 1, steps, half]
    first = e.dims(positions)[0]
    cosine, sine = (
        reshape(e, e.emit("Gather", [t, positions], axis=0), first, 1, steps, half) for t in tables
    )
    if interleaved:
        pairs = reshape(e, rows, batch, heads, steps, half, 2)
        a, b = (at(e, pairs, k, 4) for k in range(2))
    else:
        a, b = part(e, rows, 0, half), part(e, rows, half, 2 * half)
    real = e.emit("Sub", [e.emit("Mul", [a, cosine]), e.emit("Mul", [b, sine])])
    imaginary = e.emit("Add", [e.emit("Mul", [a, sine]), e.emit("Mul", [b, cosine])])
    if interleaved:
        turned = reshape(e, stack(e, [real, imaginary], 4), batch, heads, steps, 2 * half)
    else:
        turned = e.emit("Concat", [real, imaginary], axis=3)
    return e.emit("Concat", [turned, rest], axis=3) if rest else turned
