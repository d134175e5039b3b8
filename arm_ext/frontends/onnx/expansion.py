# SPDX-License-Identifier: Apache-2.0
"""Replacement of ONNX nodes by several others, which keep the name of the original node."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.custom import converter_for
from arm_ext.frontends.common.refuse import reason_of
from arm_ext.frontends.onnx.weights import shortened, without_weights

Expand = Callable[["Expansion"], None]


UNKNOWN = "is not known"
"""Part of a refusal's reason if a type or shape cannot be inferred."""

CONTRIB = "com.microsoft"
"""The domain of onnxruntime's own operators."""

OWN = "arm_ext"
"""Domain of operators that exist only between expansion and conversion."""


def domain_of(node: onnx.NodeProto) -> str:
    """Return the node's operator set; "" is the standard one."""
    return "" if node.domain == "ai.onnx" else str(node.domain)


def qualified(node: onnx.NodeProto) -> str:
    """Return a node's operator with its domain, such as "com.example.Swirl"."""
    return ".".join(part for part in (domain_of(node), node.op_type) if part)


def opset_of(model: onnx.ModelProto, domain: str = "") -> int:
    """Return the opset version of a domain, by default that of the standard operators."""
    names = (domain,) if domain else ("", "ai.onnx")
    return next((int(o.version) for o in model.opset_import if o.domain in names), 1)


class Expansion:
    """Visits a graph's nodes; an `Expand` function reads the current node's operands here, and emits its replacement.

    Attributes:
        node: The node that is being replaced.
        nodes: Nodes that replace the node, so far.
        sources: New node's name → name of the node it came from.
        refused: Name of a node that had to stay → why.
    """

    def __init__(self, model: onnx.ModelProto, own: Container[str] = ()) -> None:
        """Read a model, which `run` changes in place.

        Args:
            model: A model whose nodes have unique names.
            own: Names of nodes in branches and loops of the source model: inlined, such a node keeps its name as the
                source.
        """
        graph = model.graph
        self._own = own
        self._model = model
        self._done: list[onnx.NodeProto] = []
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._producers = {name: node for node in graph.node for name in node.output if name}
        self._taken = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
        self._taken.update(value.name for value in (*graph.input, *graph.output, *graph.initializer))
        # The model's shapes have been inferred before; shapes of new values are inferred on demand.
        self._types = {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}
        self.node = onnx.NodeProto()
        self.nodes: list[onnx.NodeProto] = []
        self._origins: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.refused: dict[str, str] = {}

    def run(self, table: Mapping[tuple[str, str], Expand]) -> None:
        """Apply `table`, (domain, operator) → function; a node stays unchanged if its function emits nothing."""
        for node in self._model.graph.node:
            if node.op_type == "Constant":
                self._constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
            brought = converter_for(qualified(node)) is not None
            expand = None if brought else table.get((domain_of(node), node.op_type))
            self._done += self._replacement(node, expand)
        if self.sources:
            done = onnx.GraphProto(node=self._done)
            self._model.graph.ClearField("node")
            self._model.graph.node.extend(done.node)

    def _replacement(self, node: onnx.NodeProto, expand: Expand | None) -> list[onnx.NodeProto]:
        if expand is None:
            return [node]
        self.node, self.nodes, self._origins = node, [], {}
        try:
            expand(self)
        except ModelError as err:
            self.refused[node.name] = str(err)
            return [node]
        # Causes are, for example, a shape of another rank, a missing input, or 0 heads: no schema has checked operators
        # that onnx does not know.
        except (ArithmeticError, LookupError, TypeError, ValueError) as err:
            self.refused[node.name] = f"its inputs or attributes do not fit its definition: {reason_of(err)}"
            return [node]
        self.sources.update((new.name, self._origins.get(new.name, node.name)) for new in self.nodes)
        return self.nodes or [node]

    def inputs(self, names: str) -> list[str]:
        """Return the node's inputs.

        Args:
            names: Their names in the operator's definition, separated by spaces; those ending in "?" may be absent and
                are "" then.

        Raises:
            ModelError: An input that may not be absent is.
        """
        wanted = names.split()
        given = [*self.node.input, *[""] * len(wanted)][: len(wanted)]
        missing = [name for name, value in zip(wanted, given, strict=True) if not value and name[-1] != "?"]
        if missing:
            raise ModelError(f"it has no {', '.join(missing)}")
        return given

    def attribute(self, name: str, default: float) -> float:
        """Return a numeric attribute of the node."""
        found = [helper.get_attribute_value(a) for a in self.node.attribute if a.name == name]
        return found[0] if found else default

    def text(self, name: str, default: str) -> str:
        """Return a string attribute of the node."""
        return next(iter(self.texts(name)), default)

    def texts(self, name: str) -> list[str]:
        """Return an attribute that is a string or a list of strings; [] if the node does not have it."""
        return [
            value.decode()
            for a in self.node.attribute
            if a.name == name
            for value in (*a.strings, a.s)
            if value
        ]

    def numbers(self, name: str) -> list[float]:
        """Return an attribute that is a list of numbers; [] if the node does not have it."""
        return [value for a in self.node.attribute if a.name == name for value in (*a.ints, *a.floats)]

    def attributes(self, *dropped: str) -> list[onnx.AttributeProto]:
        """Return the node's attributes except those named."""
        return [a for a in self.node.attribute if a.name not in dropped]

    def emit(
        self,
        op: str,
        inputs: Iterable[str],
        output: str = "",
        copied: Iterable[onnx.AttributeProto] = (),
        **attributes: object,
    ) -> str:
        """Add a node of the standard domain and return its output, which has a new name unless `output` is given."""
        name = self.fresh(op)
        node = helper.make_node(op, list(inputs), [output or name], name=name, **attributes)
        node.attribute.extend(copied)
        self.nodes.append(node)
        return output or name

    def adopt(self, node: onnx.NodeProto) -> None:
        """Add a node whose inputs and outputs have names already, and name the node."""
        name, node.name = node.name, self.fresh(node.op_type)
        if name in self._own:
            self._origins[node.name] = name
        self.nodes.append(node)

    def constant(self, value: npt.NDArray[Any]) -> str:
        """Add a constant and return its name."""
        name = self.fresh("constant")
        tensor = numpy_helper.from_array(value, name)
        self._model.graph.initializer.append(tensor)
        self._constants[name] = tensor
        return name

    def value(self, name: str) -> npt.NDArray[Any] | None:
        """Return the value of a constant; None for values computed at run time."""
        tensor = self._constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def producer(self, name: str) -> onnx.NodeProto | None:
        """Return the node that computes a value, as it was before `run`; None for inputs and initialisers."""
        return self._producers.get(name)

    def known(self, name: str) -> npt.NDArray[Any]:
        """Return the value of a constant.

        Raises:
            ModelError: The value is no constant.
        """
        value = self.value(name)
        if value is None:
            raise ModelError(f"its input '{name}' is not constant")
        return value

    def opset(self, domain: str = "") -> int:
        """Return the opset version of a domain, by default that of the standard operators."""
        return opset_of(self._model, domain)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the element type of a value.

        Raises:
            ModelError: The type cannot be inferred.
        """
        dtype: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(self._type(name).elem_type)
        return dtype

    def rank(self, name: str) -> int:
        """Return the number of dimensions of a value.

        Raises:
            ModelError: The rank cannot be inferred.
        """
        held = self._type(name)
        if not held.HasField("shape"):
            raise ModelError(f"the number of dimensions of its input '{name}' {UNKNOWN}")
        return len(held.shape.dim)

    def dims(self, name: str) -> list[int]:
        """Return the dimensions of a value.

        Raises:
            ModelError: A dimension is not known.
        """
        held = self._type(name)
        if not held.HasField("shape") or not all(dim.HasField("dim_value") for dim in held.shape.dim):
            raise ModelError(f"the shape of its input '{name}' {UNKNOWN}")
        return [int(dim.dim_value) for dim in held.shape.dim]

    def _type(self, name: str) -> onnx.TypeProto.Tensor:
        if name in self._constants:
            tensor = self._constants[name]
            return helper.make_tensor_type_proto(tensor.data_type, tensor.dims).tensor_type
        if name not in self._types:
            model = without_weights(self._model)
            model.graph.ClearField("node")
            model.graph.node.extend(map(shortened, (*self._done, *self.nodes)))
            graph = onnx.shape_inference.infer_shapes(model).graph
            self._types |= {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info)}
        if name not in self._types or not self._types[name].elem_type:
            raise ModelError(f"the type of its input '{name}' {UNKNOWN}")
        return self._types[name]

    def declared(self, name: str) -> onnx.ValueInfoProto:
        """Return a value's type information.

        Raises:
            ModelError: The type cannot be inferred.
        """
        return onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=self._type(name)))

    def emit_own(
        self,
        op: str,
        inputs: Iterable[str],
        dtype: np.dtype[Any],
        dims: Sequence[int],
        **attributes: object,
    ) -> str:
        """Add a node of the domain `OWN`, whose output type onnx cannot infer, and return its output."""
        output = self.fresh(op)
        self.adopt(helper.make_node(op, list(inputs), [output], domain=OWN, **attributes))
        info = helper.make_tensor_value_info(output, helper.np_dtype_to_tensor_dtype(dtype), dims)
        self._model.graph.value_info.append(info)
        self._types[output] = info.type.tensor_type
        if all(entry.domain != OWN for entry in self._model.opset_import):
            self._model.opset_import.append(helper.make_opsetid(OWN, 1))
        return output

    def is_read(self, name: str) -> bool:
        """Whether a value is read by a node or is an output of the model."""
        graph = self._model.graph
        return any(value.name == name for value in graph.output) or any(name in n.input for n in graph.node)

    def fresh(self, step: str) -> str:
        """Return an unused name of the form node's name / operator."""
        base = name = f"{self.node.name}/{step}"
        numbers = count(2)
        while name in self._taken:
            name = f"{base}:{next(numbers)}"
        self._taken.add(name)
        return name
