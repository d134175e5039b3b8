# SPDX-License-Identifier: Apache-2.0
"""Conversion of MLIR types and attributes to Python and numpy."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from arm_ext.common.errors import ModelError

_DTYPES = {
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
}
# !quant.uniform<i8<-127:127>:f32:1, {0.5:3,0.1}>: the stored type and its range, the expressed type, the axis, and
# scales with zero points.
_UNIFORM = re.compile(r"!quant\.uniform<(\w+)(?:<(-?\d+):(-?\d+)>)?:(\w+)(?::(\d+))?, ?\{?([^}>]*)\}?>")
# Attributes of a composite or custom_call in which it stores the attributes of the operator that it represents.
_CARRIED = ("composite_attributes", "mhlo.attributes")


@dataclass(frozen=True)
class Uniform:
    """A uniform quantised type: real = (stored - zero_point) * scale.

    Attributes:
        stored: Dtype of the integers.
        expressed: Dtype of the real numbers.
        axis: Axis along which scales differ; None if there is one scale.
        scales: One scale, or one per element of the axis.
        zero_points: As many zero points as scales.
    """

    stored: str
    expressed: str
    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """An MLIR tensor type: shape, dtype and quantisation.

    Attributes:
        shape: -1 for a dimension that is not static.
        dtype: Dtype of the elements; of the numbers that they stand for if they are quantised.
        uniform: Quantisation of the elements, or None.
    """

    shape: tuple[int, ...]
    dtype: str
    uniform: Uniform | None = None

    @property
    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self.dtype == "complex64"

    @property
    def stored(self) -> str:
        """Dtype in which the elements are stored."""
        return self.uniform.stored if self.uniform else self.dtype


def tensor_of(ty: Any) -> Tensor | None:
    """Return an MLIR tensor type as a `Tensor`; None for element types that are not supported."""
    return _tensor(str(ty)) if isinstance(ty, ir.RankedTensorType) else None


@cache
def _tensor(text: str) -> Tensor | None:
    match = re.fullmatch(r"tensor<((?:(?:\d+|\?)x)*)([^,].*)>", text)
    if match is None:
        return None
    shape = tuple(-1 if d == "?" else int(d) for d in match[1].split("x")[:-1])
    if match[2] in _DTYPES:
        return Tensor(shape, _DTYPES[match[2]])
    uniform = _uniform(match[2])
    return Tensor(shape, uniform.expressed, uniform) if uniform else None


def _uniform(text: str) -> Uniform | None:
    match = _UNIFORM.fullmatch(text)
    if match is None or match[1] not in _DTYPES or match[4] not in _DTYPES:
        return None
    pairs = [pair.partition(":") for pair in match[6].split(",")]
    return Uniform(
        _DTYPES[match[1]],
        _DTYPES[match[4]],
        None if match[5] is None else int(match[5]),
        tuple(float(scale) for scale, _, _ in pairs),
        tuple(int(zero or 0) for _, _, zero in pairs),
    )


def type_text(shape: tuple[int, ...], ty: Any) -> str:
    """Return MLIR's text of a tensor's type with another shape."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{ir.RankedTensorType(ty).element_type}>"


def attribute(op: Any, name: str) -> Any:
    """Return an attribute of an operator, or of the operator that a composite or custom_call represents.

    None if absent.
    """
    if name in op.attributes:
        return op.attributes[name]
    for carrier in _CARRIED:
        if carrier in op.attributes and name in (carried := ir.DictAttr(op.attributes[carrier])):
            return carried[name]
    return None


def ints(op: Any, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the integers of an attribute that is an array, dense elements or a single integer."""
    value = attribute(op, name)
    if value is None:
        return default
    if isinstance(value, ir.IntegerAttr):
        return (int(value),)
    if isinstance(value, ir.DenseIntElementsAttr):
        return tuple(int(x) for x in np.array(value).reshape(-1))
    return tuple(int(x) for x in value)


def flag(op: Any, name: str) -> bool:
    """Return a Boolean attribute; False if there is none."""
    value = attribute(op, name)
    return value is not None and bool(ir.BoolAttr(value).value)


def word(op: Any, name: str) -> str:
    """Return an attribute that is a symbol, a string or an enumeration value, as text."""
    value = attribute(op, name)
    text = str(value)
    found = re.fullmatch(r"#stablehlo<\w+ (\w+)>", text)
    return found[1] if found else text.removeprefix("@").strip('"')


def constant_of(op: Any, resources: dict[str, bytes]) -> npt.NDArray[Any]:
    """Return the value of a constant; a splat is one element, broadcast.

    Args:
        op: The operator.
        resources: Contents of the module's blobs by name.

    Raises:
        ModelError: The constant's form is not known.
    """
    tensor = tensor_of(op.results[0].type)
    assert tensor is not None  # operators with other types have been refused earlier
    if tensor.is_complex:  # MLIR's Python bindings cannot read complex attributes
        numbers = _complexes(str(op))
        return (
            np.broadcast_to(numbers.reshape(()), tensor.shape)
            if numbers.size == 1
            else _sized(numbers, tensor.shape)
        )
    value = op.attributes["value"]
    dtype = np.dtype(getattr(ml_dtypes, tensor.stored, None) or tensor.stored)
    text = "" if isinstance(value, ir.DenseElementsAttr) else str(value)
    if blob := re.match(r"dense_resource<\"?(.*?)\"?>", text):
        if blob[1] not in resources:
            raise ModelError(f"its resource '{blob[1]}' is not in the file")
        return _sized(np.frombuffer(resources[blob[1]], dtype), tensor.shape)
    if not isinstance(value, ir.DenseElementsAttr):
        raise ModelError(f"its value is written in an unknown form: {text[:40]}")
    if getattr(value, "is_splat", False):
        return np.broadcast_to(np.array(value.get_splat_value().value, dtype), tensor.shape)
    try:
        return np.array(value)
    except TypeError:  # Python's buffer protocol does not support this dtype
        return _sized(_parsed(str(value), dtype), tensor.shape)


def _sized(elements: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if elements.size != np.prod(shape, dtype=np.int64):
        raise ModelError(f"it has {elements.size} elements, but its shape is {list(shape)}")
    return elements.reshape(shape)


def _parsed(text: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Parse the elements in a constant's text: hexadecimal bytes in a string, or numbers as for `_number`."""
    if found := re.match(r'dense<"0x([0-9A-Fa-f]*)">', text):
        return np.frombuffer(bytes.fromhex(found[1]), dtype)
    words = re.findall(r"[^\s\[\],<>]+", text[len("dense") : text.rindex("> :")])
    return np.array([_number(w, dtype) for w in words], dtype)


def _number(word: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Parse a number in decimal, or the hexadecimal text of its bit pattern (0x…)."""
    if not word.startswith("0x"):
        return np.array(float(word), dtype)
    return np.array(int(word, 16), np.dtype(f"u{dtype.itemsize}")).view(dtype)


def _complexes(text: str) -> npt.NDArray[Any]:
    """Parse the elements of a complex constant's text: hexadecimal bytes, or pairs of numbers."""
    elements = text[text.index("dense<") + len("dense<") : text.rindex("> :")]
    if found := re.fullmatch(r'"0x([0-9A-Fa-f]*)"', elements):
        return np.frombuffer(bytes.fromhex(found[1]), np.complex64)
    words = re.findall(r"[^\s\[\](),<>]+", elements)
    numbers = np.array([_number(w, np.dtype(np.float32)) for w in words], np.float32)
    return numbers.view(np.complex64)


def outline_of(module: Any) -> str:
    """Return a module's text with its large constants elided."""
    return str(module.operation.get_asm(large_elements_limit=1, large_resource_limit=1))


def resources_of(module: Any) -> dict[str, bytes]:
    """Return the resource blobs of a module: name → bytes."""
    if "dense_resource" not in outline_of(module):
        return {}
    text = str(module)
    at = text.rfind("{-#")
    found = re.findall(r'^\s*"?([^\s"]+)"?: "0x([0-9A-Fa-f]*)"', text[at:], re.MULTILINE) if at >= 0 else []
    return {name: bytes.fromhex(content[8:]) for name, content in found}
