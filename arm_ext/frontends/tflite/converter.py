# SPDX-License-Identifier: Apache-2.0
"""TVM's TFLite converters, made to write QDQ form.

    CONV_2D of int8 with RELU6  →  quantize(clip(conv2d(dequantize(x), dequantize(w)) + dequantize(b), 0, 6))

Upstream's converters have a branch of their own for each quantised operator: a fused activation becomes a clip of
integers, an average truncates, many operators are refused. Here they are shown float tensors only, so that each
quantised operator is its float one between `dequantize` and `quantize`.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import ExprTable, OperatorConverter, TensorWrapper

from arm_ext.errors import ModelError
from arm_ext.frontends.tflite.forms import shape_of
from arm_ext.frontends.tflite.hybrid import product, round_data
from arm_ext.frontends.tflite.operators import OWN

# Input numbers of data, weight and bias. A bias is in units of the accumulator.
_BIASED = {
    "CONV_2D": (0, 1, 2),
    "CONV_3D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
# Of the operators that LiteRT takes in a hybrid form, likewise.
_WEIGHTED = {
    "BATCH_MATMUL": (0, 1, 2),
    **{op: _BIASED[op] for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")},
}
_QUANTIZED_TYPES = (tflite.TensorType.INT8, tflite.TensorType.UINT8, tflite.TensorType.INT16)


class _FloatTensor:
    """A quantised tensor that says it is a float one."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)

    def Type(self) -> int:  # noqa: N802 (the name in TFLite's schema)
        return int(tflite.TensorType.FLOAT32)


class QdqConverter(OperatorConverter):  # type: ignore[misc]
    """Converts operators one by one, in the builder's current dataflow block.

    Attributes:
        values: Tensor number → its value: of the tensor's own dtype, integers if it is quantised.
        last_binding: The variable of an operator's last binding → the operator's name.
        node: Name of the operator that is being converted.
    """

    def __init__(self, model: Any, builder: relax.BlockBuilder) -> None:
        super().__init__(model, model.Subgraphs(0), ExprTable(), builder)
        self.values: dict[int, relax.Expr] = {}
        self.last_binding: dict[relax.Var, str] = {}
        self.node = ""
        # What the operator at hand is shown instead of a tensor.
        self._shown: dict[int, relax.Expr] = {}
        self._computes_in_integers = False

    def convert(self, op: Any, name: str) -> None:
        """Bind the outputs of an operator.

        Raises:
            ModelError: The result is not what the model declares. Other exceptions are upstream's.
        """
        self.node = name
        code = self.get_op_code_str(op)
        outputs = self._tensors(op.OutputsAsNumpy())
        activations = [t for t in self._tensors(op.InputsAsNumpy()) if not self._is_constant(t)]
        self._computes_in_integers = any(t.qnn_params for t in (*activations, *outputs))
        self._shown = {}
        if code in _BIASED and self._computes_in_integers:
            self._scale_bias(op, *_BIASED[code])
        result = self._hybrid(op, code)
        if result is None:
            result = OWN[code](self, op) if code in OWN else self.convert_map[code](op=op)
        for number, tensor in enumerate(outputs):
            self._bind(tensor, result if len(outputs) == 1 else result[number])

    def value(self, tensor: int) -> relax.Expr:
        """The value of a tensor, which may be a constant."""
        if tensor not in self.values:
            (wrapper,) = self._tensors([tensor])
            self.values[tensor] = relax.const(self.integers(wrapper))
        return self.values[tensor]

    def show(self, tensor: int, value: relax.Expr) -> None:
        """Let the operator at hand see a value in place of a tensor's."""
        self._shown[tensor] = self.bb.emit(value)

    # What upstream's converters ask for.

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """Tensors, quantised ones as float ones."""
        return [
            TensorWrapper(t.tensor_idx, _FloatTensor(t.tensor), t.buffer) if t.qnn_params else t
            for t in self._tensors(tensors_idx_list)
        ]

    def get_input_tensors(self, op: Any) -> list[Any]:
        """The inputs of an operator, without a bias that is absent."""
        tensors = self.get_tensors(op.InputsAsNumpy())
        if self.get_op_code_str(op) in _BIASED and tensors[-1].tensor_idx < 0:
            tensors.pop()
        return tensors

    def has_expr(self, input_tensor_idx: int) -> bool:
        """Whether a tensor is more than a plain constant."""
        if input_tensor_idx < 0:
            return False
        (tensor,) = self._tensors([input_tensor_idx])
        known = input_tensor_idx in self.values or input_tensor_idx in self._shown
        return known or tensor.qnn_params is not None

    def get_expr(self, input_tensor_idx: int) -> relax.Expr:
        """The float value of a tensor, or the value of one that is not quantised."""
        if input_tensor_idx in self._shown:
            return self._shown[input_tensor_idx]
        (tensor,) = self._tensors([input_tensor_idx])
        if tensor.qnn_params is None:
            return self.value(input_tensor_idx)
        if self._is_constant(tensor) and not self._computes_in_integers:
            return relax.const(self._real(tensor))
        return self.bb.emit(self.dequantize(self.value(input_tensor_idx), tensor))

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> npt.NDArray[Any]:
        """A constant's elements as they are; a quantised one's as float32."""
        (tensor,) = self._tensors([tensor_wrapper.tensor_idx])
        if tensor.qnn_params is None:
            value: npt.NDArray[Any] = super().get_tensor_value(tensor, is_sparse)
            return value
        return self._real(tensor)

    def _scale_bias(self, op: Any, data: int, weight: int, bias: int) -> None:
        """Give a bias the scale that it is meant to have, fl(xs * ws): the file's may be a bit off, or missing."""
        inputs = op.InputsAsNumpy()
        if len(inputs) <= bias or inputs[bias] < 0:
            return
        x, w, b = self._tensors([inputs[data], inputs[weight], inputs[bias]])
        if not self._is_constant(b) or x.qnn_params is None or w.qnn_params is None:
            return
        value = self.integers(b)
        if value.dtype.kind != "i":
            return
        if (np.abs(value) > np.iinfo(np.int32).max).any():
            raise ModelError(f"its bias reaches {np.abs(value).max()}; 32 bits are taken")
        scale = x.qnn_params["scale"].value.numpy() * w.qnn_params["scale"].value.numpy()
        operands = (relax.const(v) for v in (value.astype(np.int32), scale, np.array(0, np.int32)))
        self.show(b.tensor_idx, relax.op.dequantize(*operands, axis=0))

    def _hybrid(self, op: Any, code: str) -> relax.Expr | None:
        """What an operator of float data and 8-bit weights gives, or None: it is then let see its data rounded."""
        numbers, inputs = _WEIGHTED.get(code), op.InputsAsNumpy()
        if numbers is None or self._computes_in_integers:
            return None
        data, weight = (self.tensor(inputs[number]) for number in numbers[:2])
        if not self._is_constant(weight):
            return None
        found = product(self, op, numbers)
        if found is None and (rounded := round_data(self, op, data, weight)) is not None:
            self.show(data.tensor_idx, rounded)
        return found

    def tensor(self, number: int) -> Any:
        """A tensor as it is in the file."""
        return self._tensors([number])[0]

    def _bind(self, tensor: Any, value: relax.Expr) -> None:
        if tensor.qnn_params:
            value = self.quantize(self.bb.normalize(value), tensor)
        value, dtype = self.bb.normalize(value), self.get_tensor_type_str(tensor.tensor.Type())
        # Indices are int64 in Relax.
        if str(value.ty.dtype) == "int64" and dtype == "int32":
            value = relax.op.astype(value, dtype)
        variable = self.bb.emit(value)
        found = str(variable.ty)
        declared = str(relax.TensorType(shape_of(tensor), dtype))
        if found != declared:
            raise ModelError(f"TVM makes a {found} of it, the model declares {declared}")
        self.values[tensor.tensor_idx] = variable
        self.last_binding[variable] = self.node

    def _tensors(self, indices: Any) -> list[Any]:
        """Tensors as they are in the file; those that have a scale but are not quantised without it."""
        tensors: list[Any] = super().get_tensors(indices)
        for t in tensors:
            if t.tensor_idx >= 0 and t.tensor.Type() not in _QUANTIZED_TYPES and not self._is_constant(t):
                t.qnn_params = None
        return tensors

    def _is_constant(self, tensor: Any) -> bool:
        return bool(tensor.tensor_idx >= 0 and tensor.buffer.DataLength() > 0)

    def integers(self, tensor: Any) -> npt.NDArray[Any]:
        """A constant's elements as they are, those of 4 bits in 8."""
        if tensor.tensor.Type() == tflite.TensorType.INT4:
            return _unpacked(tensor)
        value: npt.NDArray[Any] = super().get_tensor_value(tensor)
        return value

    def _real(self, tensor: Any) -> npt.NDArray[Any]:
        """What a quantised constant stands for, float32."""
        value = self.integers(tensor)
        scale, zero_point = (tensor.qnn_params[k].value.numpy() for k in ("scale", "zero_point"))
        if scale.size > 1:
            along = [1] * value.ndim
            along[tensor.qnn_params["axis"]] = -1
            scale = scale.reshape(along)
        return np.asarray((value.astype(np.int64) - zero_point) * scale, np.float32)


def _unpacked(tensor: Any) -> npt.NDArray[np.int8]:
    """A constant of 4 bits, whose bytes hold two elements each, the first in the low bits: in 8 bits."""
    pairs = np.asarray(tensor.buffer.DataAsNumpy()).view(np.int8)
    both = np.stack([pairs << 4 >> 4, pairs >> 4], axis=-1).reshape(-1)
    return np.asarray(both[: math.prod(shape_of(tensor))].reshape(shape_of(tensor)), np.int8)
