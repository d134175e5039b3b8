# SPDX-License-Identifier: Apache-2.0
"""Lowering of conv1d as a conv2d whose first spatial axis has length 1.

    conv1d of x [N, W, C] by w [O, W, I]    →    conv2d of x [N, 1, W, C] by w [O, 1, W, I]

Both have the same bytes in memory, so that kernels need to support conv2d alone: the PrimFunc of the conv2d gets
arguments with the shapes of the conv1d (`as_called`).
"""

from dataclasses import replace

from tvm import ir, tirx
from tvm_ffi import structural_map

from schedules.composites.attributes import encoded, numbers
from schedules.composites.workload import Composite, Operand, OperandPadding, Step, Workload

ONE, TWO = "conv1d", "conv2d"

_NEUTRAL = {"strides": 1, "dilation": 1, "padding": 0, "output_padding": 0}
"""Attributes of a number an axis, or of one before and one after each, and what an axis of length 1 has there."""


def widened(composite: Composite) -> Composite:
    """Return the conv2d composite that is equal to a conv1d composite; return any other composite unchanged."""
    workload = composite.workload
    if ONE not in workload.composite:
        return composite
    layouts = dict(workload.attributes)
    at = layouts["data_layout"].index("W")
    # A scalar zero point may be an operand between data and weights.
    data, *others, weights = workload.operands
    operands = (_operand(data, at), *others, _operand(weights, layouts["kernel_layout"].index("W")))
    steps = tuple(_step(step, at) for step in workload.epilogue)
    used = (*operands, *(step.operand for step in steps if step.operand))
    shapes = {operand.index: operand.shape for operand in used if operand.kind == "constant"}
    wide = replace(
        workload,
        composite=workload.composite.replace(ONE, TWO),
        operands=operands,
        attributes=tuple((name, _attribute(name, text)) for name, text in workload.attributes),
        epilogue=steps,
        output_shape=_shape(workload.output_shape, at),
        pad=_pad(workload.pad, at),
    )
    constants = (value.reshape(shapes[index]) for index, value in enumerate(composite.constants))
    return Composite(wide, tuple(constants))


def as_called(func: tirx.PrimFunc, workload: Workload) -> tirx.PrimFunc:
    """Return a copy of a kernel for the `widened` workload, with the argument shapes of the original `workload`."""
    shapes = [operand.shape for operand in workload.inputs]
    tensors = zip(
        (*func.params[: len(shapes)], func.params[-1]), (*shapes, workload.output_shape), strict=True
    )
    new = {old: _reshaped(old, shape) for old, shape in tensors}
    body = structural_map(func.body, [(ir.Var, lambda var: new.get(var, var))])
    return tirx.PrimFunc([new.get(param, param) for param in func.params], body, func.ret_type, func.attrs)


def _reshaped(buffer: tirx.Buffer, shape: tuple[int, ...]) -> tirx.Buffer:
    kind = buffer.ty
    offset, factor = kind.elem_offset, kind.offset_factor
    return tirx.decl_buffer(
        shape, kind.dtype, buffer.name, elem_offset=offset, offset_factor=factor, layout=None
    )


def _shape(shape: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*shape[:at], 1, *shape[at:])


def _operand(operand: Operand, at: int) -> Operand:
    return replace(operand, shape=_shape(operand.shape, at))


def _step(step: Step, at: int) -> Step:
    """Return a copy of an epilogue step whose operand has the additional axis of the conv2d."""
    operand = step.operand
    if operand is None or len(operand.shape) < len("NWC"):
        return step
    return replace(step, operand=_operand(operand, at))


def _pad(pad: OperandPadding | None, at: int) -> OperandPadding | None:
    return pad and replace(pad, widths=(*pad.widths[:at], (0, 0), *pad.widths[at:]))


def _attribute(name: str, text: str) -> str:
    if name.endswith("layout"):
        return text.replace("W", "HW")
    if name not in _NEUTRAL:
        return text
    neutral, own = _NEUTRAL[name], numbers({name: text}, name)
    return encoded(tuple(number for value in own for number in (neutral, value)))
