# SPDX-License-Identifier: Apache-2.0
"""Replacement of inputs of an ONNX model by constants, such as a sampling rate that decides a branch."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.refuse import refuse_unknown_inputs
from arm_ext.frontends.onnx.check import runtime_inputs
from arm_ext.frontends.onnx.importer import read_onnx
from arm_ext.frontends.onnx.open_sizes import FIXED
from arm_ext.frontends.onnx.random import GivenSizes, choose_random


def fix_inputs(model: str | Path | onnx.ModelProto, values: Mapping[str, npt.ArrayLike]) -> onnx.ModelProto:
    """Return an ONNX model with some of its inputs replaced by constants.

    Args:
        model: A path, or a loaded model.
        values: Input name → as many numbers as the input has elements.

    Raises:
        UsageError: A name is no input, or a value does not fit it; see also `read_onnx`.
        ModelError: The model has more weights than a package can hold.
    """
    proto, name, _ = read_onnx(model)
    proto.graph.name = name
    inputs = {value.name: value for value in runtime_inputs(proto.graph)}
    refuse_unknown_inputs(values, inputs, "--value")
    for each, numbers in values.items():
        constant = numpy_helper.from_array(_constant(inputs[each], np.asarray(numbers)), each)
        constant.metadata_props.add(key=FIXED, value="")
        proto.graph.initializer.append(constant)
    kept = [value for value in proto.graph.input if value.name not in values]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    return proto


def with_random(
    model: str | Path | onnx.ModelProto, choice: str, sizes: GivenSizes | None = None
) -> onnx.ModelProto:
    """Return an ONNX model whose random operators are marked or replaced by inputs, as `choose_random` does.

    Raises:
        UsageError, ModelError: As `choose_random` and `read_onnx`.
    """
    proto, name, _ = read_onnx(model)
    proto.graph.name = name
    choose_random(proto, name, choice, sizes)
    return proto


def _constant(value: onnx.ValueInfoProto, given: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    tensor = value.type.tensor_type
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    shape = [given.size if dim is None else dim for dim in dims]
    if not given.size or dims.count(None) > 1 or given.size != math.prod(shape):
        sizes = ", ".join("?" if dim is None else str(dim) for dim in dims)
        raise UsageError(
            f"--value {value.name}: it has {given.size} numbers, but the input's shape is [{sizes}]"
        )
    if given.dtype.kind not in "biuf" or not np.array_equal(given.astype(dtype), given):
        raise UsageError(
            f"--value {value.name}: {given.tolist()} cannot be converted to the input's dtype {dtype}"
        )
    return given.astype(dtype).reshape(shape)
