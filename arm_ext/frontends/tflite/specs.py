# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of a TFLite model, and the shapes that may be chosen for them."""

from dataclasses import replace
from typing import Any

import tflite
import tvm
from tvm.ir import TupleType

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.common.refuse import Shapes, refuse_unknown_inputs

_DTYPES = {
    tflite.TensorType.BOOL: "bool",
    tflite.TensorType.FLOAT16: "float16",
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.UINT8: "uint8",
}
_TYPES = {value: name for name, value in vars(tflite.TensorType).items() if isinstance(value, int)}


def tensor_name(tensor: Any) -> str:
    """Return the file's name of a tensor."""
    name: bytes = tensor.Name() or b""
    return name.decode() or "tensor"


def spec_of(tensor: Any) -> TensorSpec:
    """Return the spec of an input or output: name, shape and dtype.

    Raises:
        ModelError: Inputs and outputs of that type are not supported.
    """
    name = tensor_name(tensor)
    if tensor.Type() not in _DTYPES:
        raise ModelError(
            f"'{name}' is of TFLite's type {_TYPES.get(tensor.Type(), tensor.Type())}; "
            f"supported are {', '.join(_DTYPES.values())}"
        )
    shape = tensor.ShapeAsNumpy() if tensor.ShapeLength() else ()
    return TensorSpec(name, tuple(int(size) for size in shape), _DTYPES[tensor.Type()])


def is_quantized(tensor: Any) -> bool:
    """Whether a tensor has a scale."""
    params = tensor.Quantization()
    return params is not None and params.ScaleLength() > 0


def check_shapes(
    shapes: Shapes, inputs: tuple[TensorSpec, ...], signatures: dict[str, tuple[int, ...]]
) -> None:
    """Refuse --shape values that the model's inputs cannot have.

    Args:
        shapes: Input name → shape, from the user.
        inputs: Inputs of the file.
        signatures: Name of an input → its sizes, -1 for those that the file leaves open.

    Raises:
        UsageError: A shape does not fit; the message names the first.
    """
    refuse_unknown_inputs(shapes, [spec.name for spec in inputs])
    for spec in inputs:
        shape, signature = shapes.get(spec.name, spec.shape), signatures[spec.name]
        fits = len(shape) == len(signature) and all(
            size in (own, least) or own < 0 < size
            for size, own, least in zip(shape, signature, spec.shape, strict=True)
        )
        if not fits:
            text = ", ".join("?" if own < 0 else str(own) for own in signature)
            raise UsageError(
                f"--shape {spec.name}: {list(shape)} is not the model's [{text}], "
                "and only sizes that were left open when a TFLite model was converted can be chosen"
            )


def as_computed(mod: tvm.IRModule, outputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """Return the output specs with the shapes that the converted module computes."""
    found = mod["main"].ret_ty
    types = found.fields if isinstance(found, TupleType) else [found]
    return tuple(
        replace(spec, shape=tuple(int(size) for size in ty.shape))
        for spec, ty in zip(outputs, types, strict=False)
    )
