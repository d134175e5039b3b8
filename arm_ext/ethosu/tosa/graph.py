# SPDX-License-Identifier: Apache-2.0
"""A TOSA 1.0 graph under construction: values, constants, operators, and its flatbuffer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts

from arm_ext.target.npu import Family

VERSION = (1, 0, 0)
"""TOSA version of graphs; the serializer's default is a draft, which Vela rejects."""

DTYPES: dict[str, Any] = {
    "bool": ts.DType.BOOL,
    "int8": ts.DType.INT8,
    "int16": ts.DType.INT16,
    "int32": ts.DType.INT32,
    "int48": ts.DType.INT48,
}
"""TOSA's dtype by its name."""


@dataclass(frozen=True)
class TosaTensor:
    """A tensor of the graph.

    Attributes:
        name: Name of the tensor, unique in the graph.
        shape: Static shape.
        dtype: A key of `DTYPES`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Made:
    """The operator that computed a value.

    Attributes:
        operator: Operator code, a member of `tosa_serializer.Op`.
        inputs: Inputs in TOSA's order.
        attributes: Attributes in the serialiser's order.
    """

    operator: Any
    inputs: tuple[TosaTensor, ...]
    attributes: tuple[Any, ...]


class TosaGraph:
    """A graph under construction; operators are added in the order in which they run.

    Attributes:
        family: Family of the accelerators that it is for.
        scope: Prefix of the names of computed values, up to a slash; Vela reports layers by these names.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self.scope = ""
        major, minor, patch = VERSION
        self._serializer = ts.TosaSerializer(
            targetMajor=major, targetMinor=minor, targetPatch=patch, targetDraft=False
        )
        self._tensors: dict[str, Any] = {}
        self._made: dict[str, Made] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], TosaTensor] = {}
        self._biases: dict[tuple[tuple[int, ...], bytes], list[bytes]] = {}

    def input(self, shape: Sequence[int], dtype: str) -> TosaTensor:
        """Add an input of the graph."""
        return self._value(self._serializer.addPlaceholder(list(shape), DTYPES[dtype]), dtype)

    def constant(self, array: npt.NDArray[Any], dtype: str | None = None) -> TosaTensor:
        """Add a constant in the array's dtype or the named one; equal constants become one value."""
        dense = np.ascontiguousarray(array)
        key = (dtype or str(dense.dtype), dense.shape, dense.tobytes())
        if key not in self._constants:
            tensor = self._serializer.addConst(list(dense.shape), DTYPES[key[0]], dense)
            self._constants[key] = self._value(tensor, key[0])
        return self._constants[key]

    def biases_before(self, weight: npt.NDArray[Any], bias: npt.NDArray[Any]) -> int:
        """Return the number of other biases that were used with equal weights before this one."""
        known = self._biases.setdefault((weight.shape, weight.tobytes()), [])
        key = bias.astype(np.int64).tobytes()
        if key not in known:
            known.append(key)
        return known.index(key)

    def scalar(self, value: int, dtype: str) -> TosaTensor:
        """Add a constant of one element, in the form that operators require for zero points."""
        return self.constant(np.array([value], "int64" if dtype == "int48" else dtype), dtype)

    def sizes(self, numbers: Sequence[int]) -> TosaTensor:
        """Add a constant shape, in the form that RESHAPE requires."""
        array = np.array(numbers, np.int64)
        key = ("shape", array.shape, array.tobytes())
        if key not in self._constants:
            shape = self._serializer.addConst([array.size], ts.DType.SHAPE, array)
            self._constants[key] = TosaTensor(str(shape.name), (array.size,), "shape")
        return self._constants[key]

    def add(
        self, operator: Any, inputs: Sequence[TosaTensor], shape: Sequence[int], dtype: str, *attributes: Any
    ) -> TosaTensor:
        """Add an operator with one output.

        Args:
            operator: Operator code, a member of `tosa_serializer.Op`.
            inputs: Inputs in TOSA's order.
            shape: Shape of the output.
            dtype: Dtype of the output.
            attributes: The operator's attributes in the serializer's order.
        """
        tensor = self._serializer.addIntermediate(list(shape), DTYPES[dtype])
        tensor.name = f"{self.scope}/{len(self._tensors)}"
        out = self._value(tensor, dtype)
        record = ts.TosaSerializerAttribute()
        record.setAttribute(operator, *attributes)
        self._serializer.addOperator(operator, [value.name for value in inputs], [out.name], record)
        self._made[out.name] = Made(operator, tuple(inputs), attributes)
        return out

    def made(self, value: TosaTensor) -> Made | None:
        """Return the operator that computed a value; None for an input or a constant."""
        return self._made.get(value.name)

    def output(self, value: TosaTensor) -> None:
        """Make a value an output of the graph."""
        self._serializer.addOutputTensor(self._tensors[value.name])

    def serialize(self) -> bytes:
        """Return the flatbuffer."""
        return bytes(self._serializer.serialize())

    def _value(self, tensor: Any, dtype: str) -> TosaTensor:
        self._tensors[str(tensor.name)] = tensor
        return TosaTensor(str(tensor.name), tuple(int(dim) for dim in tensor.shape), dtype)
