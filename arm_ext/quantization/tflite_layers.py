# SPDX-License-Identifier: Apache-2.0
"""Layers of a TFLite model: its operators' outputs, matched by name with tensors of the float model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
import tvm
from tvm import relax

from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.tflite.codes import operator_name
from arm_ext.frontends.tflite.resources import RESOURCES, first_reads
from arm_ext.frontends.tflite.specs import is_quantized, spec_of, tensor_name
from arm_ext.frontends.tflite.supported import named_operators
from arm_ext.frontends.tflite.variables import numbers_of
from arm_ext.quantization.layers import (
    Constant,
    QdqLayer,
    QuantizerConstants,
    WeightedReader,
    input_channel_power,
)
from relay_passes.ir.sources import bindings_of, sources_of

Array = npt.NDArray[Any]

# Products; their second and third inputs are weights and bias.
_PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
# These operators move elements, and with equal input and output parameters the stored integers stay the same.
_MOVES = frozenset(
    {"EXPAND_DIMS", "MAX_POOL_2D", "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TRANSPOSE"}
)


class File:
    """The main graph of a TFLite file, which the import has checked.

    Attributes:
        name: Name of the file.
        content: Bytes of the file.
        inputs: Tensor numbers of the inputs.
        outputs: Tensor numbers of the outputs.
        operators: Unique name → operator.
        variables: Tensor numbers of the variables that it keeps, in the order of the imported model's states.
        resources: Name of a variable that it keeps by name → number of the tensor that reads it.
    """

    def __init__(self, path: Path) -> None:
        self.name, self.content = path.stem, path.read_bytes()
        self._model = tflite.Model.GetRootAsModel(self.content, 0)
        self._graph = self._model.Subgraphs(0)
        self.operators: dict[str, Any] = named_operators(self._model)[0]
        self.inputs = [int(number) for number in self._graph.InputsAsNumpy()]
        self.outputs = [int(number) for number in self._graph.OutputsAsNumpy()]
        self.variables = numbers_of(self._graph)
        self.resources = first_reads(self._model, self.operators)
        self._numbers = {tensor_name(self._graph.Tensors(k)): k for k in range(self._graph.TensorsLength())}

    def kept(self, resources: Sequence[str]) -> list[int]:
        """Return the tensors that hold states: the file's variables, and the tensors that read named resources."""
        return [*self.variables, *(self.resources[name] for name in resources if name in self.resources)]

    def code(self, operator: Any) -> str:
        """Return an operator's name, such as "CONV_2D"."""
        return str(operator_name(self._model, operator))

    def tensor_name(self, number: int) -> str:
        """Return the name that the file has for a tensor."""
        return tensor_name(self._graph.Tensors(number))

    def number(self, name: str) -> int | None:
        """Return the number of the tensor with a name; None if there is none."""
        return self._numbers.get(name)

    def spec(self, number: int) -> TensorSpec:
        """Return name, shape and type of a tensor."""
        return spec_of(self._graph.Tensors(number))

    def quantizer(self, number: int) -> QuantizerConstants | None:
        """Return the parameters of a quantised tensor."""
        tensor = self._graph.Tensors(number)
        if not is_quantized(tensor):
            return None
        found = tensor.Quantization()
        scale = found.ScaleAsNumpy().astype(np.float32)
        zero = np.zeros(scale.shape, np.int64) if found.ZeroPointLength() == 0 else found.ZeroPointAsNumpy()
        return QuantizerConstants(scale, zero.astype(spec_of(tensor).dtype), int(found.QuantizedDimension()))

    def constant(self, number: int) -> Array | None:
        """Return the value of a constant tensor; None for others."""
        tensor = self._graph.Tensors(number)
        data = self._model.Buffers(tensor.Buffer()).DataAsNumpy()
        if isinstance(data, int):  # there is none
            return None
        spec = self.spec(number)
        value: Array = data.view(spec.dtype)
        return value.reshape(spec.shape) if value.size == np.prod(spec.shape) else None


@dataclass(frozen=True)
class TfliteLayer:
    """A layer, with the numbers of its tensors in both models.

    Attributes:
        layer: The layer as reports show it.
        number: Number of the tensor in the model.
        twin: Number of the tensor of the same name in the float model; None without a float model.
        variable: Variable of the imported `main` that holds it.
    """

    layer: QdqLayer
    number: int
    twin: int | None
    variable: relax.Var


def layers_of(file: File, against: File | None, mod: tvm.IRModule) -> tuple[list[TfliteLayer], list[str]]:
    """Return the layers in execution order, and the names of operators whose outputs are no layers.

    Args:
        file: The model.
        against: The float model that it was made of, if that is known.
        mod: The model as imported.
    """
    variables: dict[tuple[str, str], relax.Var] = {}
    for binding in bindings_of(mod["main"]):
        for name in sources_of(binding.value):
            variables[name, str(binding.var.ty)] = binding.var  # the last binding is the operator's result
    layers, left = list(_inputs(file, against, mod)), []
    for name, operator in file.operators.items():
        if file.code(operator) in RESOURCES:
            continue
        number = int(operator.Outputs(0)) if operator.OutputsLength() == 1 else None
        found = None if number is None else _variable(file, number, name, variables)
        twin = None if against is None or number is None else _twin(file, against, number)
        if number is None or found is None or (against is not None and twin is None):
            left.append(name)
        else:
            layer = _layer(file, against, name, operator, number, _readers(against, twin))
            layers.append(TfliteLayer(layer, number, twin, found))
    return layers, left


def _twin(file: File, against: File, number: int) -> int | None:
    """Return the float model's counterpart of a tensor; outputs are matched by index, as converters rename them."""
    if number in file.outputs:
        return against.outputs[file.outputs.index(number)]
    found = against.number(file.tensor_name(number))
    if found is None or against.spec(found).shape != file.spec(number).shape:
        return None
    return found


def _inputs(file: File, against: File | None, mod: tvm.IRModule) -> Iterator[TfliteLayer]:
    for place, number in enumerate(file.inputs):
        name = file.tensor_name(number)
        twin = None if against is None else against.inputs[place]
        layer = _named(file, name, "input", (), number, readers=_readers(against, twin))
        yield TfliteLayer(layer, number, twin, mod["main"].params[place])


def _variable(
    file: File, number: int, name: str, variables: dict[tuple[str, str], relax.Var]
) -> relax.Var | None:
    spec = file.spec(number)
    return variables.get((name, str(relax.TensorType(spec.shape, spec.dtype))))


def _readers(against: File | None, twin: int | None) -> tuple[WeightedReader, ...]:
    """Return the float model's products that multiply a tensor by constant weights; channels are its last axis."""
    if against is None or twin is None:
        return ()
    found: list[WeightedReader] = []
    for name, operator in against.operators.items():
        if against.code(operator) not in _PRODUCTS or operator.Inputs(0) != twin:
            continue
        weights, channels = against.constant(int(operator.Inputs(1))), against.spec(twin).shape[-1]
        if weights is None or weights.dtype != np.float32:
            continue
        # [outputs, y, x, inputs], or for a depthwise convolution [1, y, x, outputs]
        first = np.moveaxis(weights, -1, 0 if against.code(operator) == "DEPTHWISE_CONV_2D" else 1)
        groups = channels // first.shape[1]
        if groups * first.shape[1] == channels:  # otherwise it reads several pixels as one row
            found.append(WeightedReader(name, -1, input_channel_power(first, groups)))
    return tuple(found)


def _layer(
    file: File,
    against: File | None,
    name: str,
    operator: Any,
    number: int,
    readers: tuple[WeightedReader, ...],
) -> QdqLayer:
    code = file.code(operator)
    moved = code in _MOVES
    if moved:
        before, after = file.quantizer(int(operator.Inputs(0))), file.quantizer(number)
        moved = after is not None and after.equals(before)
    constants: tuple[Constant, ...] = ()
    if against is not None and code in _PRODUCTS and name in against.operators:
        constants = tuple(_constants(file, operator, against, against.operators[name]))
    return _named(file, name, code, (name,), number, constants, readers, moved=moved)


def _named(
    file: File,
    name: str,
    code: str,
    nodes: tuple[str, ...],
    number: int,
    constants: tuple[Constant, ...] = (),
    readers: tuple[WeightedReader, ...] = (),
    *,
    moved: bool = False,
) -> QdqLayer:
    tensor, quantizer = file.tensor_name(number), file.quantizer(number)
    integers = None if quantizer is None else tensor
    return QdqLayer(
        name,
        code,
        "",
        nodes,
        tensor,
        tensor,
        tensor,
        integers,
        quantizer,
        quantizer,
        constants,
        moved,
        readers,
    )


def _constants(file: File, operator: Any, against: File, twin: Any) -> Iterator[Constant]:
    for place, role in ((1, "weights"), (2, "bias")):
        if min(operator.InputsLength(), twin.InputsLength()) <= place or operator.Inputs(place) < 0:
            continue
        number = int(operator.Inputs(place))
        value, quantizer = file.constant(number), file.quantizer(number)
        source = against.constant(int(twin.Inputs(place)))
        if value is None or quantizer is None or source is None or value.shape != source.shape:
            continue
        if source.dtype == np.float32:
            yield Constant(role, quantizer.dequantize(value), source, quantizer)
