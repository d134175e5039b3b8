# SPDX-License-Identifier: Apache-2.0
"""Loops over the patches of a depthwise convolution; all channels of a patch are computed before the next patch.

If the border is not copied, patches at the border have separate code. Channels are the innermost loop: no value is used
by two of its iterations, so that LLVM hoists none out of it into registers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.opaque import opaque_offset, opaques
from schedules.kernels.common import threads
from schedules.kernels.depthwise.axis_steps import Span
from schedules.kernels.depthwise.geometry import Field
from schedules.tir.emit import i64


@dataclass(frozen=True)
class PatchPosition:
    """The position of a patch of one vector of channels.

    Attributes:
        block: Index of the vector of channels.
        top: Index of the patch's first output along the axis of bands.
        source: Offset of the patch's first input, which may be in the border.
        target: Offset of the patch's first output.
    """

    block: ir.Expr
    top: ir.Expr
    source: ir.Expr
    target: ir.Expr

    def opaque(self) -> "PatchPosition":
        """Return a copy of the position whose offsets LLVM cannot analyse (`opaque_offset`); emits code at the call."""
        block, source, target = map(opaque_offset, (self.block, self.source, self.target))
        return PatchPosition(block, self.top, source, target)


Patch = Callable[[Span, Span, PatchPosition], None]
"""Emits a patch of rows by columns."""


def patches(field: Field, lanes: int, parallel: bool, patch: Patch) -> None:
    """Emit the loops over all patches; a task is a band of patches, or some channels of it.

    Args:
        field: Loop structure, as returned by `Field.cut`.
        lanes: Number of channels of a vector.
        parallel: Whether the runtime's threads share the tasks.
        patch: Emits one patch.
    """
    down, across = field.down, field.across
    bands = sum(span.count for span in down.spans)
    starts = field.blocks(lanes)
    sizes = [float(span.outputs) for span in down.spans for _ in range(span.count)] * field.of.data[0]
    parts = threads.parts_of(sizes, len(starts)) if parallel else 1

    def run(part: ir.Expr, image: ir.Expr, index: ir.Expr, rows: Span) -> None:
        top = T.Bind(down.start(index))
        line = (top * down.stride - down.before) * field.source[1] - across.before * field.source[2]
        source = T.Bind(image * field.source[0] + line)
        target = T.Bind(image * field.target[0] + top * field.target[1])
        for columns in across.spans:
            with T.serial(i64(0), i64(columns.count)) as step:
                left = across.start(step + columns.first)
                here = T.Bind(source + left * (across.stride * field.source[2]))
                there = T.Bind(target + left * field.target[2])
                blocks = threads.part(part, len(starts), parts) if parts > 1 else (i64(0), i64(len(starts)))
                with T.serial(*blocks) as block:
                    start = block * lanes if starts[-1] % lanes == 0 else tirx.min(block * lanes, starts[-1])
                    patch(
                        rows, columns, PatchPosition(block, top, T.Bind(here + start), T.Bind(there + start))
                    )

    def task(part: ir.Expr, index: ir.Expr) -> None:
        if field.of.data[0] == 1:
            by_span(down.spans, index, lambda rows: run(part, i64(0), index, rows))
            return
        image, band = T.Bind(tirx.floordiv(index, bands)), T.Bind(tirx.floormod(index, bands))
        by_span(down.spans, band, lambda rows: run(part, image, band, rows))

    with opaques():
        threads.each_part(parts, field.of.data[0] * bands, parallel, task)


def by_span(spans: Sequence[Span], index: ir.Expr, emit: Callable[[Span], None]) -> None:
    """Emit the code of each span, and the branches that select it by `index`."""
    span = spans[0]
    if len(spans) == 1:
        emit(span)
        return
    with T.If(index < span.first + span.count):
        with T.Then():
            emit(span)
        with T.Else():
            by_span(spans[1:], index, emit)
