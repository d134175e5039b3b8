# SPDX-License-Identifier: Apache-2.0
"""The tensors of a TFLite graph, as seen by this package's converters and by TVM's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax
from tvm.ir import Constant
from tvm.relax.frontend.tflite.tflite_frontend import ExprTable, OperatorConverter, TensorWrapper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.control_flow import Program
from arm_ext.frontends.common.naming import name_calls
from arm_ext.frontends.tflite.codes import operator_name
from arm_ext.frontends.tflite.operands import shape_of
from arm_ext.frontends.tflite.tensors import ShownTensor, constant, is_complex, static_shape, unpacked

# Input numbers of data, weight and bias. A bias is in units of the accumulator.
BIASED = {
    "CONV_2D": (0, 1, 2),
    "CONV_3D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
_QUANTIZED_TYPES = (tflite.TensorType.INT8, tflite.TensorType.UINT8, tflite.TensorType.INT16)


@dataclass
class Whole:
    """State that is shared by the converters of a model's graphs.

    Attributes:
        model: The parsed file.
        operators: Graph's number → its operators, by the names of the source's nodes.
        own_integers: Whether functions of 16 bits are LiteRT's own, and costly branches run alone: for these an NPU has
            no code.
        variables: Name → value, as far as the model has come.
        last_binding: The variable of an operator's last binding → the operator's name.
        node: Name of the operator that is being converted.
        converted: Number of operators that were converted, again in each round of a loop.
        program: The functions so far, of branches and loops at run time.
    """

    model: Any
    operators: Mapping[int, Mapping[str, Any]]
    own_integers: bool = True
    variables: dict[str, relax.Expr] = field(default_factory=dict)
    last_binding: dict[relax.Var, str] = field(default_factory=dict)
    node: str = ""
    converted: int = 0
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        self.program = Program(lambda func: name_calls(func, self.last_binding))


class Access(OperatorConverter):  # type: ignore[misc]
    """The tensors of one graph: constants, and values of operators that have been converted.

    Attributes:
        whole: State shared with the converters of the model's other graphs.
        values: Tensor number → its value: of the tensor's own dtype, integers if it is quantised.
    """

    def __init__(self, whole: Whole, builder: relax.BlockBuilder, graph: int) -> None:
        super().__init__(whole.model, whole.model.Subgraphs(graph), ExprTable(), builder)
        self.whole = whole
        self.values: dict[int, relax.Expr] = {}
        # Tensor → the value that replaces it for the current operator's converter.
        self._shown: dict[int, relax.Expr] = {}
        self._computes_in_integers = False

    def value(self, tensor: int) -> relax.Expr:
        """Return a tensor's value in its own dtype; a tensor of the file becomes a constant."""
        if tensor not in self.values:
            (wrapper,) = self._tensors([tensor])
            self.values[tensor] = constant(self.integers(wrapper))
        return self.values[tensor]

    def known(self, tensor: int) -> npt.NDArray[Any] | None:
        """Return the elements of a constant tensor that is not quantised; None for other tensors."""
        if tensor < 0 or (found := self.tensor(tensor)).qnn_params:
            return None
        if tensor not in self.values and 0 in (shape := shape_of(found)):  # the file stores no bytes for it
            return np.empty(shape, self.get_tensor_type_str(found.tensor.Type()))
        if not self._is_constant(found):
            return None
        return np.asarray(self.get_tensor_value(found))

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return a tensor's shape: that of its value, or the declared one if the value is not computed yet."""
        return shape_of(self.tensor(tensor))

    def is_known(self, tensor: int) -> bool:
        """Whether a tensor is constant or already computed."""
        return tensor in self.values or self._is_constant(self.tensor(tensor))

    def show(self, tensor: int, value: relax.Expr) -> None:
        """Replace a tensor by another value for the current operator's converter."""
        self._shown[tensor] = self.bb.emit(value)

    def tensor(self, number: int) -> Any:
        """Return a tensor of the file, with the shape of its value."""
        return self._tensors([number])[0]

    def integers(self, tensor: Any) -> npt.NDArray[Any]:
        """Return a constant's elements as stored; 4-bit elements as int8."""
        held = self.values.get(tensor.tensor_idx)
        if isinstance(held, Constant):
            return np.asarray(held.value.numpy())
        if not tensor.buffer.DataLength():
            if math.prod(shape_of(tensor)):
                raise ModelError(
                    f"it reads '{_name(tensor)}', which is neither a constant nor an input of the model nor the "
                    "result of an "
                    "earlier operator"
                )
            return np.zeros(shape_of(tensor), self.get_tensor_type_as_numpy(tensor))
        if tensor.tensor.Type() == tflite.TensorType.INT4:
            return unpacked(tensor)
        value: npt.NDArray[Any] = super().get_tensor_value(tensor)
        return value

    # The methods below override methods that TVM's converters call.

    def get_op_code_str(self, op: Any) -> str:
        """Return an operator's name; TVM's method lacks the names of most custom operators."""
        return operator_name(self.whole.model, op)

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """Return tensors; quantised ones have the type float32."""
        return [
            TensorWrapper(t.tensor_idx, ShownTensor(t.tensor, tflite.TensorType.FLOAT32), t.buffer)
            if t.qnn_params
            else t
            for t in self._tensors(tensors_idx_list)
        ]

    def get_input_tensors(self, op: Any) -> list[Any]:
        """Return an operator's input tensors; an absent bias is left out."""
        tensors = self.get_tensors(op.InputsAsNumpy())
        if self.get_op_code_str(op) in BIASED and tensors[-1].tensor_idx < 0:
            tensors.pop()
        return tensors

    def has_expr(self, input_tensor_idx: int) -> bool:
        """Whether a tensor is computed or quantised, so that its value is not a plain constant."""
        if input_tensor_idx < 0:
            return False
        (tensor,) = self._tensors([input_tensor_idx])
        known = input_tensor_idx in self.values or input_tensor_idx in self._shown
        return known or tensor.qnn_params is not None

    def get_expr(self, input_tensor_idx: int) -> relax.Expr:
        """Return a tensor's value, dequantised if it is quantised."""
        if input_tensor_idx in self._shown:
            return self._shown[input_tensor_idx]
        (tensor,) = self._tensors([input_tensor_idx])
        if tensor.qnn_params is None:
            return self.value(input_tensor_idx)
        if self._is_constant(tensor) and not self._computes_in_integers:
            return relax.const(self._real(tensor))
        return self.bb.emit(self.dequantize(self.value(input_tensor_idx), tensor))

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> npt.NDArray[Any]:
        """Return a constant's elements; those of a quantised one as float32."""
        (tensor,) = self._tensors([tensor_wrapper.tensor_idx])
        if not self._is_constant(tensor):
            raise ModelError(f"'{_name(tensor)}' is computed at run time; it must be a constant")
        if tensor.qnn_params and not is_sparse:
            return self._real(tensor)
        if isinstance(self.values.get(tensor.tensor_idx), Constant):
            return self.integers(tensor)
        value: npt.NDArray[Any] = super().get_tensor_value(tensor, is_sparse)
        return value

    def _indices_or_empty(self, indices: Any) -> Any:
        """Return a list of tensor numbers; [] if the file has no list, for which flatbuffers returns 0."""
        return [] if indices is None or isinstance(indices, int) else indices

    def _tensors(self, indices: Any) -> list[Any]:
        """Return tensors of the file with the shapes of their values; float tensors that are computed have no scale."""
        tensors: list[Any] = super().get_tensors(indices)
        for t in tensors:
            if t.tensor_idx < 0:
                continue
            if t.tensor.Type() not in _QUANTIZED_TYPES and not self._is_constant(t):
                t.qnn_params = None
            shape = static_shape(self.values.get(t.tensor_idx))
            if shape is not None and is_complex(t):
                shape = shape[:-1]
            if shape is not None and shape != shape_of(t):
                t.tensor = ShownTensor(t.tensor, shape=shape)
        return tensors

    def _is_constant(self, tensor: Any) -> bool:
        if isinstance(self.values.get(tensor.tensor_idx), Constant):
            return True
        return bool(tensor.tensor_idx >= 0 and tensor.buffer.DataLength() > 0)

    def _real(self, tensor: Any) -> npt.NDArray[Any]:
        """Dequantise a constant to float32."""
        value = self.integers(tensor)
        scale, zero_point = (tensor.qnn_params[k].value.numpy() for k in ("scale", "zero_point"))
        if scale.size > 1:
            along = [1] * value.ndim
            along[tensor.qnn_params["axis"]] = -1
            scale = scale.reshape(along)
        return np.asarray((value.astype(np.int64) - zero_point) * scale, np.float32)


def _name(tensor: Any) -> str:
    return (tensor.tensor.Name() or b"").decode()
