# SPDX-License-Identifier: Apache-2.0
"""Facts about a library, which the templates of its files insert into text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from arm_ext.clibrary.body import Body
from arm_ext.clibrary.memory import BufferAddress
from arm_ext.clibrary.scales import Scale
from arm_ext.clibrary.text import c_type
from arm_ext.frontends.common.imported import TensorSpec

# Format characters of Python's module struct. binary16 has that of a 16-bit integer, since some Python versions
# cannot read "e" in a memoryview.
_PYTHON_TYPES = {
    "bool": "?",
    "float16": "H",
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
}


@dataclass(frozen=True)
class CompiledFacts:
    """Facts about a library that are known only after it is compiled.

    Attributes:
        requires: Functions that the library calls and does not define.
        stack_bytes: Most stack that a call takes, without the functions in `requires`; None if it was not
            analysed.
        has_math: Whether some model of the library calls libm.
    """

    requires: tuple[str, ...] = ()
    stack_bytes: int | None = None
    has_math: bool = False


def tensor_bytes(spec: TensorSpec) -> int:
    """Return the size of an input or output in bytes."""
    return int(np.prod(spec.shape, dtype=np.int64)) * np.dtype(spec.dtype).itemsize


@dataclass(frozen=True)
class Tensor:
    """An input or output.

    Attributes:
        spec: Its name and type, and its shape; the largest one if the library has an open size.
        index: Its number among the inputs or among the outputs.
        scale: Its quantisation.
        place: Where it may be in the arena; the number of regions stands for no region.
        macro: Prefix of its macros in the header.
        argument: Its parameter in C++.
        open_bytes: Its bytes as a C expression of the open size; empty if its shape is fixed.
        open_dims: Axis → C expression, for each axis whose size follows from the open size.
        varies: Whether it has different shapes in the shapes of the library.
    """

    spec: TensorSpec
    index: int
    scale: Scale
    place: BufferAddress
    macro: str
    argument: str
    open_bytes: str = ""
    open_dims: Mapping[int, str] = field(default_factory=dict)
    varies: bool = False

    @property
    def elements(self) -> int:
        """Number of elements of the tensor."""
        return int(np.prod(self.spec.shape, dtype=np.int64))

    @property
    def bytes(self) -> int:
        """Size of all elements in bytes."""
        return tensor_bytes(self.spec)

    @property
    def item_bytes(self) -> int:
        """Size of an element in bytes, which is also its alignment."""
        return np.dtype(self.spec.dtype).itemsize

    @property
    def cpp_type(self) -> str:
        """Element type in C++."""
        element = c_type(self.spec.dtype)
        return f"std::{element}" if element.endswith("_t") else element

    @property
    def python_type(self) -> str:
        """Element type as a format character of Python's module struct."""
        return _PYTHON_TYPES[self.spec.dtype]


@dataclass(frozen=True)
class ShapeFacts:
    """A shape that a library has a program for.

    Attributes:
        macro: Ending of the macro with its number.
        inputs: The inputs in this shape.
        outputs: The outputs in this shape.
        code: C code of the program.
    """

    macro: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    code: Body

    @property
    def description(self) -> str:
        """Names, types and shapes of the inputs."""
        return ", ".join(tensor.spec.describe() for tensor in self.inputs)


@dataclass(frozen=True)
class Region:
    """A region of memory that the caller provides.

    Attributes:
        name: Name of the region in lower case.
        bytes: Bytes that the program takes there.
        in_place_bytes: The same with places for inputs and outputs.
    """

    name: str
    bytes: int
    in_place_bytes: int


@dataclass(frozen=True)
class State:
    """A state of a model: its size, and its offset among all states.

    Attributes:
        name: Name of the input that reads it.
        offset: Offset of its place among those of all states.
        next: Offset of the place of its next value; the same if kernels change it in place.
        bytes: Its bytes.
        initial: Offset of the initial value in the weights, from 1; 0 for zeros.
    """

    name: str
    offset: int
    next: int
    bytes: int
    initial: int
