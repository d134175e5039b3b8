# SPDX-License-Identifier: Apache-2.0
"""Batch and sequence sizes, and models with a smaller one; their gain is measured by building them.

resized: tokens [1, 33] → …    →    tokens [1, 32] → …

Kernels compute rows in blocks; a size just above a multiple of a block has a last one that is almost empty.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.relax.analysis import free_vars

from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.report.advice.changes import Changed, remade, with_main
from relay_passes.ir.calls import CALL_TIR, array_of, name_of, nodes_of, tensor_const, with_attrs
from relay_passes.ir.function_writer import FunctionWriter
from relay_passes.ir.main_signature import returned
from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.ir.sources import bindings_of
from relay_passes.rules.common.linear_calls import ANCHORS, CONVOLUTIONS

BLOCKS = (64, 32, 16, 8)
"""Numbers of rows that kernels block products by, largest first; see `schedules/kernels/gemm`."""

# A size is just above a multiple of a block if it exceeds the multiple by at most this share of the block, or by
# one.
_JUST_ABOVE = 1 / 16

# Ranks of inputs of shape [N, T] and [N, T, C].
_TOKENS, _FRAMES = 2, 3


@dataclass(frozen=True)
class Size:
    """A batch or sequence size just above a multiple of a block.

    Attributes:
        axis: Axis of the inputs that have it.
        size: The size.
        smaller: The multiple of the block below it.
        block: The number of rows.
        inputs: Names of the inputs that have the size in the axis.
    """

    axis: int
    size: int
    smaller: int
    block: int
    inputs: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Return "batch" or "sequence"."""
        return "sequence" if self.axis else "batch"

    def of(self, spec: TensorSpec) -> TensorSpec:
        """Return the spec of an input; if the input has the size, with the smaller one."""
        if spec.name not in self.inputs:
            return spec
        shape = tuple(self.smaller if axis == self.axis else n for axis, n in enumerate(spec.shape))
        return replace(spec, shape=shape)


def just_above(size: int) -> tuple[int, int] | None:
    """Return the multiple of a block that a size is just above, and the block; None if there is none."""
    for block in BLOCKS:
        more = size % block
        if size > block and 1 <= more <= max(1, block * _JUST_ABOVE):
            return size - more, block
    return None


def sizes_above_blocks(model: ImportedModel) -> Iterator[Size]:
    """Yield the batch and sequence sizes of the inputs that are just above a multiple of a block."""
    main = model.mod["main"]
    convolved = {node.operands[0] for node in nodes_of(main) if node.name in CONVOLUTIONS}
    found: dict[tuple[int, int], list[str]] = {}
    for spec, param in zip(model.inputs, main.params, strict=True):
        for axis in _axes(spec, param in convolved):
            if axis < len(spec.shape):
                found.setdefault((axis, spec.shape[axis]), []).append(spec.name)
    for (axis, size), inputs in found.items():
        below = just_above(size)
        if below is not None:
            yield Size(axis, size, *below, tuple(inputs))


def _axes(spec: TensorSpec, convolved: bool) -> tuple[int, ...]:
    """Return the axes of an input that can be a batch or a sequence; axis 1 of floats [N, C] is channels."""
    rank = len(spec.shape)
    if rank == _TOKENS and spec.dtype in ("int32", "int64"):
        return (0, 1)
    if rank == _FRAMES:
        return (0, 2 if convolved else 1)
    return (0,)


@remade
def resized(model: ImportedModel, size: Size) -> Changed | None:
    """Return the model with the smaller size; None if its calls do not support that.

    Where a reshape gives the size, it gives the smaller one. So do constants, such as embeddings of positions, if the
    model does not allow the smaller size without; weights keep their sizes.

    Args:
        model: The model, whose constants are folded.
        size: The size to change.
    """
    main = model.mod["main"]
    if not all(isinstance(block, relax.DataflowBlock) for block in main.body.blocks):
        return None
    inputs = tuple(size.of(spec) for spec in model.inputs)
    new: relax.Function | None = None
    for constants in (False, True):
        # Type inference has found contradicting shapes.
        with suppress(RuntimeError, TypeError, ValueError):
            new = new or _Writer(main, size, inputs, constants=constants).run()
    if new is None:
        return None
    changed = with_main(model, new)
    shapes = [static_shape(value) for value in returned(changed.mod)]
    outputs = tuple(
        replace(spec, shape=shape or ()) for spec, shape in zip(model.outputs, shapes, strict=True)
    )
    what = f"{size.kind} {size.size} → {size.smaller}"
    return Changed(replace(changed, inputs=inputs, outputs=outputs), size.inputs, what, comparable=False)


class _Writer(FunctionWriter):
    """Rewrites a function with a smaller size; type inference raises an error if shapes contradict each other."""

    def __init__(
        self, main: relax.Function, size: Size, inputs: Sequence[TensorSpec], *, constants: bool
    ) -> None:
        super().__init__(main)
        self._size, self._constants = size, constants
        for param, spec in zip(main.params, inputs, strict=True):
            if spec.name in size.inputs:
                self._new[param] = Var(param.name, relax.TensorType(spec.shape, spec.dtype))
        self._weights = _weights(main)

    def changed(self, var: Var, call: Call) -> Expr:
        new, name = self._renamed(call), name_of(call)
        if var in self._weights:
            return new
        if (not name or name == CALL_TIR) and self._differ(free_vars(call)):
            raise ValueError(f"{call.op} can compute only one shape")
        if name == "relax.reshape":
            return relax.op.reshape(new.args[0], self._reshaped(shape_of(new.args[0]), shape_of(call)))
        if name == "relax.broadcast_to":
            return relax.op.broadcast_to(new.args[0], self._replaced(shape_of(call)))
        cut = self._constants and name not in ANCHORS
        operands = [self._shortened(arg) if cut else arg for arg in new.args]
        return with_attrs(new, operands)

    def _differ(self, values: Iterable[Expr]) -> bool:
        """Whether the shape of any of these values differs in the new function."""
        return any(
            isinstance(value, Var) and static_shape(self._new.get(value, value)) != static_shape(value)
            for value in values
        )

    def _replaced(self, shape: Sequence[int]) -> list[int]:
        return [self._size.smaller if n == self._size.size else n for n in shape]

    def _reshaped(self, given: Sequence[int], shape: Sequence[int]) -> list[int]:
        """Return the target shape of a reshape after the size has become smaller.

        The size may be a factor of an axis.
        """
        whole, smaller = self._size.size, self._size.smaller
        merged = [n // whole * smaller if n % whole == 0 else n for n in shape]
        for found in (list(shape), self._replaced(shape), merged):
            if math.prod(found) == math.prod(given):
                return found
        raise ValueError(f"{list(given)} cannot be reshaped like a reshape to {list(shape)}")

    def _shortened(self, value: Expr) -> Expr:
        """Return a constant, its axes of the size cut to the smaller size; return other values unchanged."""
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._shortened(each) for each in value.fields])
        shape = static_shape(value) if isinstance(value, GenericConst) else None
        if not shape or self._size.size not in shape:
            return value
        kept = tuple(slice(n) for n in self._replaced(shape))
        return tensor_const(np.ascontiguousarray(array_of(value)[kept]))


def _weights(main: relax.Function) -> set[Var]:
    """Return the values that are computed from constants only and that products read."""
    fixed: set[Var] = set()
    for binding in bindings_of(main):
        if fixed.issuperset(free_vars(binding.value)):
            fixed.add(binding.var)
    found: set[Var] = set()
    for binding in reversed(bindings_of(main)):
        if binding.var in found or name_of(binding.value) in ANCHORS:
            found.update(fixed.intersection(free_vars(binding.value)))
    return found
