# SPDX-License-Identifier: Apache-2.0
"""TFLite models: written tensor by tensor, or cut out of a file."""

import copy
from dataclasses import dataclass, field
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

# Operators whose options have another name, or none.
_TABLES = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "PADV2": "PadV2Options",
    **dict.fromkeys((f"REDUCE_{kind}" for kind in ("ALL", "ANY", "MAX", "MIN", "PROD")), "ReducerOptions"),
    "SUM": "ReducerOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTMOptions",
    "BIDIRECTIONAL_SEQUENCE_RNN": "BidirectionalSequenceRNNOptions",
    "SVDF": "SVDFOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}

_TYPES = {
    name: getattr(schema.TensorType, name.upper())
    for name in ["bool", "float32", "int16", "int32", "int64", "int8", "uint8"]
}


@dataclass
class TfliteBuilder:
    """A model of one graph; a tensor is known by its number."""

    tensors: list[schema.TensorT] = field(default_factory=list)
    buffers: list[schema.BufferT] = field(default_factory=lambda: [schema.BufferT()])
    operators: list[schema.OperatorT] = field(default_factory=list)
    codes: list[schema.OperatorCodeT] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def tensor(
        self, dtype: str, *shape: int, scale: object = None, zero: int = 0, axis: int = 0, name: str = ""
    ) -> int:
        """Add a tensor that an operator computes; quantised, if it has a scale, or one a channel."""
        t = schema.TensorT()
        t.name, t.shape, t.type = name or f"t{len(self.tensors)}", list(shape), _TYPES[dtype]
        t.buffer = 0
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale, t.quantization.zeroPoint = list(scales), [zero] * scales.size
            t.quantization.quantizedDimension = axis
        self.tensors.append(t)
        return len(self.tensors) - 1

    def take(self, dtype: str, *shape: int, scale: object = None, zero: int = 0) -> int:
        """Add an input."""
        self.inputs.append(self.tensor(dtype, *shape, scale=scale, zero=zero))
        return self.inputs[-1]

    def hold(
        self, value: object, dtype: str = "int32", *, scale: object = None, zero: int = 0, axis: int = 0
    ) -> int:
        """Add a constant."""
        array = np.asarray(value, dtype)
        number = self.tensor(dtype, *array.shape, scale=scale, zero=zero, axis=axis)
        buffer = schema.BufferT()
        buffer.data = list(array.tobytes())
        self.buffers.append(buffer)
        self.tensors[number].buffer = len(self.buffers) - 1
        return number

    def variable(self, *shape: int, dtype: str = "float32", scale: object = None, zero: int = 0) -> int:
        """Add a tensor that the model keeps, such as the state of an LSTM."""
        number = self.tensor(dtype, *shape, scale=scale, zero=zero)
        self.tensors[number].isVariable = True
        return number

    def weight(self, *shape: int, scale: object, axis: int = 0) -> int:
        return self.hold(self.rng.integers(-127, 128, shape), "int8", scale=scale, axis=axis)

    def bias(self, size: int, scale: object = None) -> int:
        return self.hold(self.rng.integers(-9000, 9000, size), scale=scale)

    def op(self, name: str, inputs: list[int], outputs: list[int], **options: object) -> None:
        """Add an operator; options are fields of its options table in the schema."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 1
        self.codes.append(code)
        op = schema.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = len(self.codes) - 1, inputs, outputs
        table = _TABLES.get(name, name.title().replace("_", "") + "Options")
        if hasattr(schema.BuiltinOptions, table):
            op.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            op.builtinOptions = getattr(schema, f"{table}T")()
            for key, value in options.items():
                assert hasattr(op.builtinOptions, key), key
                setattr(op.builtinOptions, key, value)
        self.operators.append(op)

    def build(self, *outputs: int) -> bytes:
        """Return the file's bytes; by default the last operator's outputs are the model's."""
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs = self.tensors, self.operators, self.inputs
        graph.outputs = list(outputs or self.operators[-1].outputs)
        model = schema.ModelT()
        model.version, model.description = 3, "test"
        model.operatorCodes, model.subgraphs, model.buffers = self.codes, [graph], self.buffers
        return pack(model)

    def values(self) -> list[np.ndarray]:
        """Return run-time inputs, integers over the whole range of their dtypes."""
        names = {number: name for name, number in _TYPES.items()}
        return [
            random_values(self.rng, names[self.tensors[k].type], tuple(self.tensors[k].shape))
            for k in self.inputs
        ]


def random_values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "float32":
        return 4 * rng.standard_normal(shape, dtype=np.float32)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def pack(model: schema.ModelT) -> bytes:
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def single_operators(path: Path) -> list[tuple[str, bytes]]:
    """Return each operator of a model, and a model of it alone."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(path.read_bytes(), 0))
    (graph,) = model.subgraphs
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    found = []
    for op in graph.operators:
        alone, part = copy.copy(model), copy.copy(graph)
        part.operators = [op]
        held = [model.buffers[graph.tensors[k].buffer].data is not None for k in op.inputs]
        part.inputs = [k for k, constant in zip(op.inputs, held, strict=True) if not constant]
        part.outputs = op.outputs
        alone.subgraphs, alone.signatureDefs = [part], []
        code = model.operatorCodes[op.opcodeIndex]
        found.append((names[max(code.builtinCode, code.deprecatedBuiltinCode)], pack(alone)))
    return found
