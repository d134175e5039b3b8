# SPDX-License-Identifier: Apache-2.0
"""Limits of TFLite's options, constant inputs and scales."""

import math
from typing import Any

import numpy as np
import tflite

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import (
    BLOCK,
    COUNT,
    SIZE,
    STEP,
    Limit,
    Site,
    check_axes,
    check_numbers,
    check_permutation,
)

# Option of any operator → the limit of its values; options that name an axis are in _AXES.
_OPTIONS: dict[str, Limit] = {
    **dict.fromkeys(("StrideW", "StrideH", "DilationWFactor", "DilationHFactor", "StrideD"), COUNT),
    **dict.fromkeys(("FilterWidth", "FilterHeight", "NumSplits", "Num", "ValuesCount"), COUNT),
    "BlockSize": BLOCK,
    "DepthMultiplier": SIZE,  # 0 if the weights determine it
    "Radius": SIZE,
}
# (Operator, number of an input) → the input's name and its limit, checked if the input is constant.
_INPUTS: dict[tuple[str, int], tuple[str, Limit]] = {
    ("BATCH_TO_SPACE_ND", 1): ("block shape", BLOCK),
    ("BATCH_TO_SPACE_ND", 2): ("crops", SIZE),
    ("BROADCAST_TO", 1): ("shape", SIZE),
    ("FILL", 0): ("shape", SIZE),
    ("MIRROR_PAD", 1): ("padding", SIZE),
    ("ONE_HOT", 1): ("depth", COUNT),
    ("PAD", 1): ("padding", SIZE),
    ("PADV2", 1): ("padding", SIZE),
    ("RANGE", 2): ("step", STEP),
    ("RESHAPE", 1): ("shape", Limit(-1, SIZE.most)),
    ("RESIZE_BILINEAR", 1): ("size", COUNT),
    ("RESIZE_NEAREST_NEIGHBOR", 1): ("size", COUNT),
    ("SLICE", 2): ("size", Limit(-1, SIZE.most)),
    ("SPACE_TO_BATCH_ND", 1): ("block shape", BLOCK),
    ("SPACE_TO_BATCH_ND", 2): ("padding", SIZE),
    ("SPLIT_V", 1): ("sizes", Limit(-1, SIZE.most)),
    ("STRIDED_SLICE", 3): ("strides", STEP),
    ("TILE", 1): ("repeats", SIZE),
    ("TOPK_V2", 1): ("k", SIZE),
    ("TRANSPOSE_CONV", 0): ("output shape", COUNT),
}
# (Operator, number of an input that holds axes) → number of the input whose axes they are.
_AXES = {
    ("ARG_MAX", 1): 0,
    ("ARG_MIN", 1): 0,
    ("CUMSUM", 1): 0,
    **{(f"REDUCE_{kind}", 1): 0 for kind in ("ALL", "ANY", "MAX", "MIN", "PROD")},
    ("MEAN", 1): 0,
    ("REVERSE_V2", 1): 0,
    ("SPLIT", 0): 1,
    ("SPLIT_V", 2): 0,
    ("SUM", 1): 0,
}
# Operators whose second input is a permutation of axes, or an axis of the result.
_ORDERS = frozenset(("EXPAND_DIMS", "TRANSPOSE"))
# Operators whose option names an axis of their first input.
_AXIS_OF_INPUT = frozenset(("CONCATENATION", "GATHER", "UNPACK"))
_OPTION_NAMES = {
    number: name for name, number in vars(tflite.BuiltinOptions).items() if not name.startswith("_")
}


def check_references(model: Any) -> None:
    """Refuse references to tensors, buffers and operator codes that do not exist in the file.

    Raises:
        ValueError: There is one; the message names the first.
    """
    for number in range(model.SubgraphsLength()):
        graph = model.Subgraphs(number)
        tensors = graph.TensorsLength()
        for k in range(tensors):
            _refer(f"tensor {k}", "buffer", graph.Tensors(k).Buffer(), 0, model.BuffersLength())
        for what, numbers in (("inputs", graph.InputsAsNumpy()), ("outputs", graph.OutputsAsNumpy())):
            for k in np.atleast_1d(numbers):
                _refer(f"the graph's {what}", "tensor", int(k), 0, tensors)
        for k in range(graph.OperatorsLength()):
            op = graph.Operators(k)
            _refer(f"operator {k}", "operator code", op.OpcodeIndex(), 0, model.OperatorCodesLength())
            for place in range(op.InputsLength()):  # -1 stands for an absent input
                _refer(f"operator {k}", "tensor", op.Inputs(place), -1, tensors)
            for place in range(op.OutputsLength()):
                _refer(f"operator {k}", "tensor", op.Outputs(place), 0, tensors)


def _refer(of: str, what: str, number: int, least: int, count: int) -> None:
    if not least <= number < count:
        raise ValueError(f"{of} refers to {what} {number} of {count}")


def check_operator(c: Any, op: Any, code: str, node: str) -> None:
    """Refuse an operator whose options or constant inputs exceed their limits.

    Args:
        c: A `QdqConverter`.
        op: The operator.
        code: Name of the operator.
        node: Name of the source node.

    Raises:
        ModelError: A number exceeds its limit; the message names option or input, value and limit.
    """
    site, options = Site(code, node), _options_of(op)
    for name, limit in _OPTIONS.items():
        if hasattr(options, name):
            check_numbers(site, name, [getattr(options, name)()], limit)
    inputs = [] if isinstance(found := op.InputsAsNumpy(), int) else [int(number) for number in found]
    shapes = [c.shape(number) if number >= 0 else () for number in inputs]
    if code in _AXIS_OF_INPUT and shapes[0]:
        check_axes(site, "Axis", [options.Axis()], len(shapes[0]))
    if code == "UNPACK" and shapes[0] and options.Num() != (size := shapes[0][options.Axis()]):
        raise site.refuse("Num", options.Num(), f"the {size} of the axis")
    if code == "SQUEEZE" and options.SqueezeDimsLength():
        check_axes(site, "SqueezeDims", options.SqueezeDimsAsNumpy().tolist(), len(shapes[0]))
    for k, number in enumerate(inputs):
        if (key := (code, k)) not in _INPUTS and key not in _AXES and code not in _ORDERS:
            continue
        if (value := c.known(number)) is None:
            continue
        numbers = np.asarray(value).reshape(-1).tolist()
        if key in _INPUTS:
            name, limit = _INPUTS[key]
            check_numbers(site, name, numbers, limit)
        elif key in _AXES:
            check_axes(site, "axis", numbers, max(len(shapes[_AXES[key]]), 1))
        elif k == 1:
            rank = len(shapes[0])
            if code == "TRANSPOSE":
                check_permutation(site, "order", [axis + rank * (axis < 0) for axis in numbers], rank)
            else:
                check_axes(site, "axis", numbers, rank + 1)


def _options_of(op: Any) -> Any:
    """Return the options of an operator, whatever their type; None if it has none."""
    table, kind = op.BuiltinOptions(), _OPTION_NAMES.get(op.BuiltinOptionsType(), "NONE")
    if table is None or not hasattr(tflite, kind):
        return None
    options = getattr(tflite, kind)()
    options.Init(table.Bytes, table.Pos)
    return options


def check_scales(graph: Any) -> None:
    """Refuse invalid scales: those at most 0, infinite or NaN.

    Raises:
        ModelError: There is one; the message names the tensor.
    """
    for tensor in (graph.Tensors(k) for k in range(graph.TensorsLength())):
        quantization = tensor.Quantization()
        scales = quantization.ScaleAsNumpy() if quantization is not None else 0
        values = [] if isinstance(scales, int) else scales.tolist()
        if wrong := [scale for scale in values if not (math.isfinite(scale) and scale > 0)]:
            name = (tensor.Name() or b"").decode(errors="replace")
            raise ModelError(
                f"tensor '{name}' has the scale {wrong[0]}; a scale must be finite and above 0: quantise the model "
                "again, with samples whose values at this tensor are"
            )
