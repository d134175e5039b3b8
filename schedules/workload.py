# SPDX-License-Identifier: Apache-2.0
"""What a kernel is asked to compute: a composite Relax function, read into a frozen, hashable record."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from tvm import ir, relax, tirx

from schedules.kernel import Rejection
from schedules.vocabulary import CompositeSpec, EpilogueStep


@dataclass(frozen=True)
class Operand:
    """One tensor that a composite reads.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
        kind: "input" for a parameter of the composite, "constant" for a tensor in its body.
        index: Position among the composite's parameters, or among its constants in the order that they are read.
    """

    shape: tuple[int, ...]
    dtype: str
    kind: Literal["input", "constant"]
    index: int


@dataclass(frozen=True)
class Step:
    """One epilogue step as it occurs.

    Attributes:
        name: Name of the `EpilogueStep`.
        operand: Its second operand, if it has one.
        bounds: Lower and upper bound of a clip.
    """

    name: str
    operand: Operand | None = None
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Workload:
    """One composite without the values of its constants.

    Attributes:
        composite: Name of its `CompositeSpec`.
        operands: The anchor's operands.
        attributes: The anchor's attributes, sorted by name, values as text.
        epilogue: The steps after the anchor, in order.
        output_shape: Shape of the result.
        output_dtype: Dtype of the result.
    """

    composite: str
    operands: tuple[Operand, ...]
    attributes: tuple[tuple[str, str], ...]
    epilogue: tuple[Step, ...]
    output_shape: tuple[int, ...]
    output_dtype: str

    def step(self, name: str) -> Step | None:
        """The epilogue step of that name, or None."""
        return next((step for step in self.epilogue if step.name == name), None)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The composite's parameters in order, each once, however often it is read."""
        read = (*self.operands, *(step.operand for step in self.epilogue if step.operand))
        by_index = {operand.index: operand for operand in read if operand.kind == "input"}
        return tuple(by_index[index] for index in sorted(by_index))


@dataclass(frozen=True)
class Composite:
    """A workload together with the values of its constants, in the order of `Operand.index`."""

    workload: Workload
    constants: tuple[np.ndarray[Any, Any], ...]


class _Reader:
    """Turns the expressions of one composite into operands, collecting its constants."""

    def __init__(self, function: relax.Function) -> None:
        self._params = list(function.params)
        self.constants: list[np.ndarray[Any, Any]] = []

    def operand(self, expr: ir.Expr) -> Operand:
        shape, dtype = _tensor(expr)
        if isinstance(expr, ir.Constant):
            self.constants.append(expr.value.numpy())
            return Operand(shape, dtype, "constant", len(self.constants) - 1)
        index = next(i for i, param in enumerate(self._params) if param.same_as(expr))
        return Operand(shape, dtype, "input", index)


def parse(function: relax.Function, spec: CompositeSpec) -> Composite | Rejection:
    """Reads a composite function, as `FuseOpsByPattern(bind_constants=True)` forms it.

    Args:
        function: Its parameters are the non-constant inputs; its body is the anchor's call, then the steps' calls.
        spec: The composite that the function's "Composite" attribute names.

    Returns:
        The composite, or a rejection if a shape is not static.

    Raises:
        ValueError: The function is not of the form that `spec` describes.
    """
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    for expr in (*function.params, *(binding.var for binding in bindings)):
        if not _is_static(expr):
            return Rejection("any", "shape is not static", "integer dimensions", str(expr.ty))
    reader = _Reader(function)
    anchor = bindings[0].value
    if anchor.op.name != spec.anchor:
        raise ValueError(f"{spec.name}: the first call is {anchor.op.name}, not the anchor {spec.anchor}")
    operands = tuple(reader.operand(arg) for arg in anchor.args)
    shape, dtype = _tensor(bindings[0].var)
    remaining = iter(spec.epilogue)
    steps = []
    for previous, binding in pairwise(bindings):
        match = next((s for s in remaining if _fits(s, binding.value, previous.var, shape)), None)
        if match is None:
            allowed = ", ".join(step.name for step in spec.epilogue)
            raise ValueError(
                f"{spec.name}: {binding.value.op.name} is not a step that may follow here ({allowed})"
            )
        steps.append(_step(match, binding.value, previous.var, reader))
    workload = Workload(spec.name, operands, _attributes(anchor), tuple(steps), shape, dtype)
    return Composite(workload, tuple(reader.constants))


def _step(spec: EpilogueStep, call: ir.Call, value: ir.Var, reader: _Reader) -> Step:
    others = _other_tensors(call, value)
    bounds = [float(arg.value) for arg in call.args if isinstance(arg, tirx.IntImm | tirx.FloatImm)]
    operand = reader.operand(others[0]) if others else None
    return Step(spec.name, operand, (bounds[0], bounds[1]) if bounds else None)


def _fits(spec: EpilogueStep, call: ir.Call, value: ir.Var, shape: tuple[int, ...]) -> bool:
    if call.op.name != spec.op or not any(value.same_as(arg) for arg in call.args):
        return False
    others = _other_tensors(call, value)
    if spec.operand is None or not others:
        return spec.operand is None and not others
    other_shape, _ = _tensor(others[0])
    if (spec.operand == "constant") != isinstance(others[0], ir.Constant):
        return False
    if spec.broadcast == "same-shape":
        return other_shape == shape
    return bool(other_shape) and other_shape[-1] == shape[-1] == math.prod(other_shape)


def _other_tensors(call: ir.Call, value: ir.Var) -> list[ir.Expr]:
    return [arg for arg in call.args if isinstance(arg.ty, relax.TensorType) and not value.same_as(arg)]


def _tensor(expr: ir.Expr) -> tuple[tuple[int, ...], str]:
    return tuple(int(dim) for dim in expr.ty.shape), str(expr.ty.dtype)


def _is_static(expr: ir.Expr) -> bool:
    shape = expr.ty.shape
    return shape is not None and all(isinstance(dim, tirx.IntImm) for dim in shape)


def _attributes(call: ir.Call) -> tuple[tuple[str, str], ...]:
    if call.attrs is None:
        return ()
    names = [field.name for field in call.attrs.__tvm_ffi_type_info__.fields]
    return tuple((name, str(getattr(call.attrs, name))) for name in sorted(names))
