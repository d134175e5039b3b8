# SPDX-License-Identifier: Apache-2.0
"""Parsing of a composite Relax function into a workload and the values of its constants."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from schedules.composites.attributes import encoded
from schedules.composites.specs import CompositeSpec, EpilogueStep
from schedules.composites.workload import (
    SPARSE_SHARE,
    Composite,
    Magnitude,
    Operand,
    OperandPadding,
    Step,
    Workload,
)
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import declined
from schedules.kernels.elementwise.broadcast_plan import affine_form
from schedules.kernels.epilogues.accumulator_bounds import (
    magnitude_of,
    magnitude_of_dynamic,
    magnitude_of_run_time,
    magnitude_of_transposed,
)

Routines = Mapping[str, tirx.PrimFunc]
"""The functions that a composite calls by call_tir, by name; their attributes name their numerics."""

# Attributes of a routine that do not affect its result.
_NO_PARAMETERS = ("numerics", "op_pattern", "global_symbol", "tirx.noalias", "target", "s_tir")


_CAST = "relax.astype"

Parameters = tuple[tuple[str, int | float | str], ...]


class _CompositeParser:
    """Parser of the expressions of one composite to operands; it collects the composite's constants."""

    def __init__(self, function: relax.Function, routines: Routines) -> None:
        self._params = list(function.params)
        self.routines = routines
        self.constants: list[np.ndarray[Any, Any]] = []
        self._moves: list[tuple[ir.Var, ir.Call]] = []

    def operand(self, expr: ir.Expr) -> Operand:
        shape, dtype = _tensor(expr)
        for value, call in self._moves:
            if value.same_as(expr):
                if call.op.name == _CAST:
                    return self.operand(call.args[0])
                axes = call.attrs.axes
                order = reversed(range(len(shape))) if axes is None else (int(a) % len(shape) for a in axes)
                return replace(self.operand(call.args[0]), axes=tuple(order))
        if isinstance(expr, ir.Constant):
            self.constants.append(expr.value.numpy())
            return Operand(shape, dtype, "constant", len(self.constants) - 1)
        index = next(i for i, param in enumerate(self._params) if param.same_as(expr))
        return Operand(shape, dtype, "input", index)

    def move(self, binding: relax.VarBinding) -> None:
        """Record the permutation or cast of a binding, which becomes part of operands that refer to it."""
        self._moves.append((binding.var, binding.value))

    def routine(self, call: ir.Call) -> tirx.PrimFunc | None:
        """Return the PrimFunc that a call_tir calls; None for other calls."""
        if call.op.name != "relax.call_tir":
            return None
        return self.routines.get(call.args[0].name_hint)

    def name(self, call: ir.Call) -> str:
        """Return the name of a call's operator, or the attribute "numerics" of the routine that it calls."""
        routine = self.routine(call)
        return str(call.op.name if routine is None else routine.attrs["numerics"])

    def parameters(self, call: ir.Call) -> Parameters:
        """Return the parameters of a routine, or an operator's float attributes, sorted by name."""
        routine = self.routine(call)
        if routine is None:
            return tuple((name, value) for name, value in _values(call) if isinstance(value, float))
        # DictAttrs has no iterator.
        names = sorted(str(name) for name in routine.attrs.keys() if name not in _NO_PARAMETERS)  # noqa: SIM118
        return tuple((name, _plain(routine.attrs[name])) for name in names)


def parse(
    function: relax.Function, spec: CompositeSpec, routines: Routines = MappingProxyType({})
) -> Composite | Diagnostic:
    """Parse a composite function, as `relay_passes.fusion.fuse` forms it.

    Args:
        function: The composite. Its parameters are the non-constant inputs; its body has, in order, an optional padding
            or permutations and casts of operands, the anchor's call, and the calls of the steps.
        spec: The spec that the function's "Composite" attribute names.
        routines: The routines that the function calls by call_tir, by name.

    Returns:
        The composite, or a rejection if a shape is not static.

    Raises:
        ValueError: The function does not match `spec`.
    """
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    for expr in (*function.params, *(binding.var for binding in bindings)):
        if not _is_static(expr):
            return declined("any", "shape is not static", "integer dimensions", str(expr.ty))
    reader = _CompositeParser(function, routines)
    pad = _pad(bindings[0].value) if spec.pad else None
    before, bindings = (bindings[0], bindings[1:]) if pad else (None, bindings)
    while bindings[0].value.op.name in ("relax.permute_dims", _CAST):
        reader.move(bindings[0])
        bindings = bindings[1:]
    anchor = bindings[0].value
    if reader.name(anchor) != spec.anchor:
        raise ValueError(
            f"{spec.name}: the first call is {reader.name(anchor)}, not the anchor {spec.anchor}"
        )
    data, *others = tensors_of(anchor)
    if before is not None:
        data = before.value.args[0]
    operands = tuple(reader.operand(arg) for arg in (data, *others))
    steps = _steps(spec, bindings, reader)
    shape, dtype = _tensor(bindings[-1].var)
    constants = tuple(reader.constants)
    workload = Workload(
        spec.name,
        operands,
        _attributes(anchor, reader),
        steps,
        shape,
        dtype,
        pad,
        _magnitude(anchor, operands, steps, reader),
    )
    workload = replace(
        workload, affine=affine_form(workload, constants), nonzeros=_nonzeros(operands, constants)
    )
    return Composite(workload, constants)


def _nonzeros(operands: Sequence[Operand], constants: Sequence[np.ndarray[Any, Any]]) -> int | None:
    """Return the number of nonzero float32 weights if their share is at most `SPARSE_SHARE`; else None."""
    weight = operands[-1]
    if len(operands) != 2 or weight.kind != "constant" or weight.dtype != "float32":
        return None
    count = int(np.count_nonzero(constants[weight.index]))
    return count if count <= SPARSE_SHARE * math.prod(weight.shape) else None


def _steps(
    spec: CompositeSpec, bindings: Sequence[relax.VarBinding], reader: _CompositeParser
) -> tuple[Step, ...]:
    remaining = iter(spec.epilogue)
    steps = []
    for previous, binding in pairwise(bindings):
        call = binding.value
        match = next((s for s in remaining if _fits(s, call, previous.var, reader)), None)
        if match is None:
            allowed = ", ".join(step.name for step in spec.epilogue)
            raise ValueError(
                f"{spec.name}: {reader.name(call)} is not a step that may follow here ({allowed})"
            )
        steps.append(_step(match, call, previous.var, reader))
    return tuple(steps)


def _magnitude(
    anchor: ir.Call, operands: Sequence[Operand], steps: Sequence[Step], reader: _CompositeParser
) -> Magnitude | None:
    parameters = dict(reader.parameters(anchor))
    match reader.name(anchor):
        case "qdq.matmul":
            zero_points = [int(parameters[name]) for name in ("a_zero", "b_zero")]
            return magnitude_of_run_time(operands, zero_points, steps, reader.constants)
        case "qdq.matmul_dynamic":
            return None
        case "qdq.linear_dynamic" | "qdq.conv1d_dynamic" | "qdq.conv2d_dynamic":
            return magnitude_of_dynamic(reader.constants[operands[-1].index])
        case "qdq.conv2d_transpose":
            text = dict(_attributes(anchor, reader))
            return magnitude_of_transposed(operands, text, steps, reader.constants)
    return magnitude_of(anchor, operands, steps, reader.constants)


def _step(spec: EpilogueStep, call: ir.Call, value: ir.Var, reader: _CompositeParser) -> Step:
    others = _other_tensors(call, value)
    bounds = [float(arg.value) for arg in call.args if isinstance(arg, tirx.IntImm | tirx.FloatImm)]
    operand = reader.operand(others[0]) if others else None
    parameters = reader.parameters(call)
    if others and others[0].same_as(tensors_of(call)[0]):
        parameters = _swapped(parameters)
    return Step(spec.name, operand, (bounds[0], bounds[1]) if bounds else None, parameters)


def _swapped(parameters: Parameters) -> Parameters:
    """Swap the parameters of a sum's operands a and b, because the composite's value must be the first operand."""
    other = {"a_": "b_", "b_": "a_"}
    return tuple(sorted((other.get(name[:2], name[:2]) + name[2:], value) for name, value in parameters))


def _pad(call: ir.Call) -> OperandPadding | None:
    if call.op.name != "relax.nn.pad":
        return None
    flat = [int(width) for width in call.attrs.pad_width]
    widths = tuple(zip(flat[::2], flat[1::2], strict=True))
    return OperandPadding(widths, float(call.attrs.pad_value))


def _fits(spec: EpilogueStep, call: ir.Call, value: ir.Var, reader: _CompositeParser) -> bool:
    if reader.name(call) not in (spec.op, *spec.also):
        return False
    if not any(value.same_as(arg) for arg in tensors_of(call)):
        return False
    others = _other_tensors(call, value)
    if spec.operand is None or not others:
        return spec.operand is None and not others
    if spec.operand not in ("constant" if isinstance(others[0], ir.Constant) else "tensor", "any"):
        return False
    (shape, _), (other, _) = _tensor(value), _tensor(others[0])
    match spec.broadcast:
        case "same-shape":
            return other == shape
        case "last-axis":
            return bool(other) and other[-1] == shape[-1] == math.prod(other)
        case "scalar":
            return math.prod(other) == 1
        case "per-channel":
            return math.prod(other) == 1 or (other[-1] == shape[-1] == math.prod(other))
    # Other kinds of broadcasting need no check, because `fuse` and the operator's type inference have checked them.
    return True


def tensors_of(call: ir.Call) -> list[ir.Expr]:
    """Return the tensor arguments of a call; for a call_tir those in its argument tuple."""
    flat = [e for arg in call.args for e in (arg.fields if isinstance(arg, relax.Tuple) else [arg])]
    return [arg for arg in flat if isinstance(arg.ty, relax.TensorType)]


def _other_tensors(call: ir.Call, value: ir.Var) -> list[ir.Expr]:
    return [arg for arg in tensors_of(call) if not value.same_as(arg)]


def _tensor(expr: ir.Expr) -> tuple[tuple[int, ...], str]:
    return tuple(int(dim) for dim in expr.ty.shape), str(expr.ty.dtype)


def _is_static(expr: ir.Expr) -> bool:
    shape = expr.ty.shape
    return shape is not None and all(isinstance(dim, tirx.IntImm) for dim in shape)


def _values(call: ir.Call) -> list[tuple[str, Any]]:
    """Return an operator's attributes, sorted by name."""
    if call.attrs is None:
        return []
    names = sorted(field.name for field in call.attrs.__tvm_ffi_type_info__.fields)
    return [(name, getattr(call.attrs, name)) for name in names]


def _attributes(call: ir.Call, reader: _CompositeParser) -> tuple[tuple[str, str], ...]:
    if reader.routine(call) is not None:
        return tuple((name, encoded(value)) for name, value in reader.parameters(call))
    return tuple((name, encoded(value)) for name, value in _values(call))


def _plain(value: Any) -> int | float | str:
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    if isinstance(value, tirx.FloatImm):
        return float(value.value)
    return value if isinstance(value, int | float) else str(value)
