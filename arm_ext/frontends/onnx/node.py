# SPDX-License-Identifier: Apache-2.0
"""The view of an ONNX node that converters get: its inputs as values, its attributes, and its opset."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from tvm.ir import Expr

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Graph, Value

_T = TypeVar("_T", int, float, str)


@dataclass(frozen=True)
class Node:
    """A node that is being converted, with its inputs as values.

    Attributes:
        graph: The graph that its results are computed in.
        proto: The node.
        inputs: Its inputs, None for one that is left out.
        opset: Opset of its operator's domain.
    """

    graph: Graph
    proto: onnx.NodeProto
    inputs: Sequence[Expr | None]
    opset: int

    def value(self, number: int) -> Value:
        """Return an input that the operator requires."""
        found = self.optional(number)
        assert found is not None  # `check_required` has refused nodes that lack the input
        return found

    def optional(self, number: int) -> Value | None:
        """Return an input, or None if it is left out."""
        given = self.inputs[number] if number < len(self.inputs) else None
        return None if given is None else self.graph.hold(given)

    def has(self, attribute: str) -> bool:
        """Whether the node has an attribute."""
        return any(each.name == attribute for each in self.proto.attribute)

    def attribute(self, name: str, default: _T) -> _T:
        """Return an attribute that is a number or a string, or the default if the node does not have it."""
        for each in self.proto.attribute:
            if each.name == name:
                found = helper.get_attribute_value(each)
                return type(default)(found.decode() if isinstance(found, bytes) else found)
        return default

    def numbers(self, name: str) -> list[int]:
        """Return an attribute that is a list of integers; [] if the node does not have it."""
        found = (each.ints for each in self.proto.attribute if each.name == name)
        return list(next(found, ()))

    def known(self, number: int) -> npt.NDArray[Any]:
        """Return the numbers of a constant input.

        Raises:
            ModelError: The input is computed at run time.
        """
        found = self.value(number)
        constant = found.constant()
        if constant is None:
            raise ModelError(
                f"its input '{self.proto.input[number]}' is computed at run time: make the values that decide it "
                "constants (inputs by "
                "--value)"
            )
        return np.broadcast_to(constant, found.shape)

    def whole_number(self, number: int, default: int) -> int:
        """Return the number in a constant input of one element, or the default if the input is left out."""
        return default if self.optional(number) is None else int(self.known(number).reshape(-1)[0])
