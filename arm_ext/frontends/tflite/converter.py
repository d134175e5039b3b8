# SPDX-License-Identifier: Apache-2.0
"""TVM's TFLite converters, extended to emit QDQ form.

    CONV_2D of int8 with RELU6  →  quantize(clip(conv2d(dequantize(x), dequantize(w)) + dequantize(b), 0, 6))

Upstream's converters have a branch of their own for each quantised operator: a fused activation becomes a clip of
integers, an average truncates, many operators are refused. Here they are shown float tensors only, so that each
quantised operator is its float one between `dequantize` and `quantize`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Constant, StringImm

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.custom import CustomOp, convert_custom, converter_for
from arm_ext.frontends.tflite.access import BIASED, Access, Whole
from arm_ext.frontends.tflite.folding import folded
from arm_ext.frontends.tflite.graphs import check_size
from arm_ext.frontends.tflite.hybrid import product, round_data
from arm_ext.frontends.tflite.limits import check_operator
from arm_ext.frontends.tflite.operands import shape_of
from arm_ext.frontends.tflite.operators import OWN
from arm_ext.frontends.tflite.sixteen_bits import SIXTEEN_BITS, is_of_16_bits
from arm_ext.frontends.tflite.tensors import constant, is_complex, signature_of, static_shape

# Input numbers of data, weight and bias, for the operators that LiteRT supports in a hybrid form.
_WEIGHTED = {
    "BATCH_MATMUL": (0, 1, 2),
    **{op: BIASED[op] for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")},
}


class QdqConverter(Access):
    """Converts the operators of a graph one by one, in the builder's current dataflow block."""

    def __init__(self, whole: Whole, builder: relax.BlockBuilder, graph: int = 0) -> None:
        super().__init__(whole, builder, graph)
        self._operators = whole.operators[graph]

    def run(
        self, graph: int, inputs: Sequence[relax.Expr], builder: relax.BlockBuilder | None = None
    ) -> list[relax.Expr]:
        """Inline another graph of the model for input values, in this builder or another; return its outputs."""
        caller = self.whole.node
        other = QdqConverter(self.whole, builder or self.bb, graph)
        outputs = other.results(inputs)
        self.whole.node = caller
        return outputs

    def results(self, inputs: Sequence[relax.Expr]) -> list[relax.Expr]:
        """Convert all operators, and return the values of the outputs."""
        numbers = (int(number) for number in self._indices_or_empty(self.subgraph.InputsAsNumpy()))
        self.values.update(zip(numbers, inputs, strict=True))
        for name, op in self._operators.items():
            self.convert(op, name)
        return [self.value(int(number)) for number in self._indices_or_empty(self.subgraph.OutputsAsNumpy())]

    def convert(self, op: Any, name: str) -> None:
        """Bind the outputs of an operator.

        Raises:
            ModelError: The result is not what the model declares. Other exceptions are upstream's.
        """
        self.whole.node = name
        self.whole.converted += 1
        check_size(self.whole.converted)
        code = self.get_op_code_str(op)
        check_operator(self, op, code, name)
        outputs = self._tensors(op.OutputsAsNumpy())
        if (known := folded(self, op, code)) is not None:
            self.values |= {
                tensor.tensor_idx: constant(array) for tensor, array in zip(outputs, known, strict=True)
            }
            return
        activations = [t for t in self._tensors(op.InputsAsNumpy()) if not self._is_constant(t)]
        self._computes_in_integers = any(t.qnn_params for t in (*activations, *outputs))
        self._shown = {}
        if code in BIASED and self._computes_in_integers:
            self._scale_bias(op, *BIASED[code])
        result = self._custom(op, code, name) if converter_for(code) else self._hybrid(op, code)
        if self.whole.own_integers and code in SIXTEEN_BITS and is_of_16_bits(self, op):
            result = SIXTEEN_BITS[code](self, op)
        if result is None:
            result = OWN[code](self, op) if code in OWN else self.convert_map[code](op=op)
        if isinstance(result, StringImm):
            self.values[outputs[0].tensor_idx] = result
            return
        for number, tensor in enumerate(outputs):
            self._bind(tensor, result if len(outputs) == 1 else result[number])

    def _custom(self, op: Any, code: str, name: str) -> Any:
        """Convert an operator by a plugin's converter, which gets quantised values dequantised to float32."""
        options = op.CustomOptionsAsNumpy()
        attributes = {"custom_options": b"" if isinstance(options, int) else options.tobytes()}
        inputs = [
            self.get_expr(int(k)) if k >= 0 else None for k in self._indices_or_empty(op.InputsAsNumpy())
        ]
        values = convert_custom(CustomOp(code, name, inputs, attributes, self.bb), op.OutputsLength())
        return values[0] if len(values) == 1 else values

    def _scale_bias(self, op: Any, data: int, weight: int, bias: int) -> None:
        """Give a bias the scale fl(xs * ws) of the accumulators.

        The scale in the file may be inexact or missing.
        """
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
            raise ModelError(f"its bias reaches {np.abs(value).max()}; only 32 bits are supported")
        scale = x.qnn_params["scale"].value.numpy() * w.qnn_params["scale"].value.numpy()
        operands = (relax.const(v) for v in (value.astype(np.int32), scale, np.array(0, np.int32)))
        self.show(b.tensor_idx, relax.op.dequantize(*operands, axis=0))

    def _hybrid(self, op: Any, code: str) -> relax.Expr | None:
        """Convert an operator with float data and 8-bit weights.

        None if TVM's converter does, perhaps with rounded data.
        """
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

    def _bind(self, tensor: Any, value: relax.Expr) -> None:
        value, dtype = self.bb.normalize(value), self.get_tensor_type_str(tensor.tensor.Type())
        # Values that were computed in LiteRT's integers are quantised already.
        if tensor.qnn_params and str(value.ty.dtype) != dtype:
            value = self.bb.normalize(self.quantize(value, tensor))
        # TVM's converters use int64 for indices.
        if str(value.ty.dtype) == "int64" and dtype == "int32":
            value = relax.op.astype(value, dtype)
        if isinstance(value, Constant):
            self.values[tensor.tensor_idx] = value
            return
        variable = self.bb.emit(value)
        self._check(tensor, variable)
        self.values[tensor.tensor_idx] = variable
        self.whole.last_binding[variable] = self.whole.node

    def _check(self, tensor: Any, variable: relax.Var) -> None:
        shape, dtype = shape_of(tensor), self.get_tensor_type_str(tensor.tensor.Type())
        found = static_shape(variable) or ()
        # In old files, tensors whose size LiteRT determines at run time have no shape.
        if found and not shape:
            shape = found
        if is_complex(tensor):
            shape, found, dtype = shape or found[:-1], found[:-1], "float32"
        if len(found) == len(shape):
            signature = signature_of(tensor.tensor) or shape
            shape = tuple(f if s < 0 else size for f, s, size in zip(found, signature, shape, strict=True))
        if is_complex(tensor):
            shape = (*shape, 2)
        if str(relax.TensorType(shape, dtype)) != str(variable.ty):
            own, kind = static_shape(variable), variable.ty.dtype
            raise ModelError(
                f"its result has the type {kind}[{', '.join(map(str, own or ()))}], but the file declares "
                f"{dtype}[{', '.join(map(str, shape))}], which LiteRT ignores: convert the model again, "
                "or write the tensor's own shape into the file"
            )
