# SPDX-License-Identifier: Apache-2.0
"""Checks of anchors and epilogue steps against a composite's spec, with the reason if one does not match."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tvm import relax
from tvm.ir import Call, Constant, Expr, Op, Var

from relay_passes.fusion.composites import CompositeSpec, EpilogueStep
from relay_passes.ir.shapes import static_shape
from relay_passes.ir.sources import sources_of
from schedules.diagnostic import Diagnostic

# Operators for which the value may be either operand.
_COMMUTATIVE = ("relax.add", "relax.multiply", "qdq.add", "tosa.add")


def at(misfit: Diagnostic, binding: relax.Binding) -> Diagnostic:
    """Return a diagnostic of a misfit, with the source nodes of a binding."""
    return replace(misfit, nodes=sources_of(binding.value))


def operator_of(expr: Expr, routines: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """Return the name of the operator or routine that `expr` calls; None for other expressions."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return None
    if expr.op.name == "relax.call_tir":
        return routines.get(expr.args[0].name_hint, "relax.call_tir")
    return str(expr.op.name)


def tensors_of(call: Call) -> list[Expr]:
    """Return the tensor arguments of a call; for a call_tir those in its argument tuple."""
    flat = [e for arg in call.args for e in (arg.fields if isinstance(arg, relax.Tuple) else [arg])]
    return [arg for arg in flat if isinstance(arg.ty, relax.TensorType)]


def no_anchor(spec: CompositeSpec, call: Call) -> Diagnostic | None:
    """Return why a call of the anchor's operator is no anchor of a composite; None if it is one."""
    tensors = tensors_of(call)
    dtype = str(tensors[0].ty.dtype)
    if dtype not in spec.dtypes:
        return Diagnostic.of(
            f"no {spec.name}: the data's dtype is not supported", ", ".join(spec.dtypes), dtype
        )
    if spec.anchor_dtype and str(call.ty.dtype) != spec.anchor_dtype:
        return Diagnostic.of(
            f"no {spec.name}: its value has another dtype", spec.anchor_dtype, str(call.ty.dtype)
        )
    for index in spec.constant_operands:
        if not isinstance(tensors[index], Constant):
            return Diagnostic.of(f"no {spec.name}: operand {index} is not a constant")
        if spec.constant_dtype not in ("", actual := str(tensors[index].ty.dtype)):
            return Diagnostic.of(
                f"no {spec.name}: operand {index} has another dtype", spec.constant_dtype, actual
            )
    return None


def reachable(steps: Sequence[EpilogueStep]) -> Iterator[EpilogueStep]:
    """Yield the steps that may come next: all steps up to the first required one."""
    for step in steps:
        yield step
        if step.required:
            return


def no_step(
    spec: CompositeSpec,
    op: str | None,
    follower: relax.Binding,
    steps: Sequence[EpilogueStep],
    misfits: Sequence[Diagnostic | None],
) -> Diagnostic:
    """Return why `follower`, the call after a composite, matches none of `steps`."""
    for step, misfit in zip(steps, misfits, strict=True):
        if _is_of(step, op) and misfit is not None:
            others = sources_of(follower.value)
            return Diagnostic.of(
                f"{label(follower)}: {misfit.reason}", misfit.limit, misfit.actual, others=others
            )
    known = any(_is_of(step, op) for step in spec.epilogue)
    what = "comes in the wrong order, or a second time" if known else f"is no epilogue step of {spec.name}"
    return Diagnostic.of(f"{label(follower)}: {op} {what}", others=sources_of(follower.value))


def _is_of(step: EpilogueStep, op: str | None) -> bool:
    return op == step.op or op in step.also


def misfit_of(step: EpilogueStep, op: str | None, follower: relax.Binding, value: Var) -> Diagnostic | None:
    """Return why `follower`, a call of `op` on `value`, cannot be this epilogue step; None if it can."""
    if not _is_of(step, op):
        return Diagnostic.of("it is not the operator of the step", step.op, op)
    call, shape = follower.value, static_shape(value)
    if shape is None:
        return Diagnostic.of("shape is not static")
    tensors = tensors_of(call)
    if step.op not in _COMMUTATIVE and not tensors[0].same_as(value):
        return Diagnostic.of("the value is not its first operand")
    axis = getattr(call.attrs, "axis", None)
    if axis is not None and int(axis) % len(shape) != len(shape) - 1:
        return Diagnostic.of("it goes along another axis than the last", len(shape) - 1, int(axis))
    kept = static_shape(follower.var) == shape if step.retypes else follower.var.ty == value.ty
    if step.to and (dtype := str(follower.var.ty.dtype)) not in step.to:
        return Diagnostic.of("its result's dtype is not one that the step takes", ", ".join(step.to), dtype)
    if step.broadcast != "contracted" and not kept:
        return Diagnostic.of("it changes the shape or dtype", str(value.ty), str(follower.var.ty))
    others = [arg for arg in tensors if not arg.same_as(value)]
    if len(others) != (step.operand is not None):
        return Diagnostic.of(
            "it has another number of further operands", int(step.operand is not None), len(others)
        )
    return _operand_misfit(step, others[0], shape) if others else None


def _operand_misfit(step: EpilogueStep, operand: Expr, value: tuple[int, ...]) -> Diagnostic | None:
    kind = "constant" if isinstance(operand, Constant) else "tensor"
    if step.operand not in (kind, "any"):
        return Diagnostic.of("its other operand is of another kind", step.operand, kind)
    shape = static_shape(operand)
    if shape is None:
        return Diagnostic.of("shape is not static")
    last_axis = bool(shape) and shape[-1] == math.prod(shape) == value[-1]
    fits = {
        "same-shape": shape == value,
        "last-axis": last_axis,
        "scalar": math.prod(shape) == 1,
        "per-channel": last_axis or math.prod(shape) == 1,
        "per-row": math.prod(shape) == 1 or shape == (*value[:-1], 1),
        "any": True,
        # Both matrices must have the same batch axes; vectors or broadcasting would change the shape in other ways.
        "contracted": shape[:-2] == value[:-2] and len(shape) == len(value),
    }
    return (
        None
        if fits[str(step.broadcast)]
        else Diagnostic.of("its other operand's shape does not fit", step.broadcast, shape)
    )


def label(binding: relax.Binding) -> str:
    """Return the name of a binding for messages: its source nodes, or its variable."""
    return ", ".join(sources_of(binding.value)) or str(binding.var.name)
