# SPDX-License-Identifier: Apache-2.0
"""Spot keywords in a stream: a quantised TFLite model whose SVDF layer remembers the last frames.

    python examples/keyword_spotter.py
    python examples/keyword_spotter.py --board 192.168.0.7:9090

The model is made here with random weights, so what it spots means nothing. In LiteRT the layer's memory is a variable
tensor; in the package it is a state, which `step` moves on. Writing it needs ai-edge-litert and flatbuffers.
"""

import argparse
import tempfile
from pathlib import Path

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

import arm_ext

FEATURES, FILTERS, FRAMES, WORDS = 10, 8, 6, 4
TYPES = {"int8": schema.TensorType.INT8, "int16": schema.TensorType.INT16, "int32": schema.TensorType.INT32}


class Model:
    """A TFLite model of one graph; a tensor is known by its number."""

    def __init__(self) -> None:
        """Begin without tensors."""
        self._graph, self._model = schema.SubGraphT(), schema.ModelT()
        self._graph.tensors, self._graph.operators = [], []
        self._model.buffers, self._model.operatorCodes = [schema.BufferT()], []

    def tensor(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        scale: float,
        values: npt.NDArray[np.signedinteger] | None = None,
        *,
        variable: bool = False,
    ) -> int:
        """Add a quantised tensor, a constant if it has values; return its number."""
        t = schema.TensorT()
        t.name, t.type, t.shape, t.isVariable, t.buffer = name, TYPES[dtype], list(shape), variable, 0
        t.quantization = schema.QuantizationParametersT()
        t.quantization.scale, t.quantization.zeroPoint = [scale], [0]
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = list(values.astype(dtype).tobytes())
            self._model.buffers.append(buffer)
            t.buffer = len(self._model.buffers) - 1
        self._graph.tensors.append(t)
        return len(self._graph.tensors) - 1

    def operator(self, name: str, options: object, inputs: list[int], output: int) -> None:
        """Add an operator with its options, an object of the schema."""
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
        op = schema.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = len(self._model.operatorCodes), inputs, [output]
        op.builtinOptions = options
        op.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        self._model.operatorCodes.append(code)
        self._graph.operators.append(op)

    def write(self, path: Path, inputs: list[int], outputs: list[int]) -> None:
        """Write the file."""
        self._graph.inputs, self._graph.outputs = inputs, outputs
        self._model.version, self._model.subgraphs = 3, [self._graph]
        builder = flatbuffers.Builder(1 << 12)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))


def write_spotter(path: Path) -> None:
    """Write SVDF, a fully connected layer and a softmax."""
    rng, m = np.random.default_rng(5), Model()
    x = m.tensor("features", "int8", (1, FEATURES), 0.03)
    by_feature = m.tensor(
        "by_feature", "int8", (FILTERS, FEATURES), 0.01, rng.integers(-127, 128, (FILTERS, FEATURES))
    )
    by_time = m.tensor(
        "by_time", "int16", (FILTERS, FRAMES), 0.0004, rng.integers(-900, 901, (FILTERS, FRAMES))
    )
    bias = m.tensor("bias", "int32", (FILTERS,), 0.002 * 0.0004, rng.integers(-900, 901, FILTERS))
    memory = m.tensor("memory", "int16", (1, FILTERS * FRAMES), 0.002, variable=True)
    hidden = m.tensor("hidden", "int8", (1, FILTERS), 0.004)
    svdf = schema.SVDFOptionsT()
    svdf.rank, svdf.fusedActivationFunction = 1, schema.ActivationFunctionType.RELU
    m.operator("SVDF", svdf, [x, by_feature, by_time, bias, memory], hidden)
    weights = m.tensor("weights", "int8", (WORDS, FILTERS), 0.02, rng.integers(-127, 128, (WORDS, FILTERS)))
    offset = m.tensor("offset", "int32", (WORDS,), 0.004 * 0.02, rng.integers(-300, 301, WORDS))
    scores = m.tensor("scores", "int8", (1, WORDS), 0.05)
    m.operator("FULLY_CONNECTED", schema.FullyConnectedOptionsT(), [hidden, weights, offset], scores)
    m.write(path, [x], [scores])


def main() -> None:
    """Compile, then spot in frame after frame."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="raspberry-pi-5")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "spotter.tflite")
        write_spotter(model)
        result = arm_ext.compile(model, args.target, Path(folder, "spotter.armpkg"))
        states = ", ".join(state.input for state in result.package.manifest.states)
        print(f"the package keeps: {states}")  # noqa: T201
        checks = arm_ext.run(result, args.board, check=True).checks
        print("equal to the definition, step by step:", all(check.passed for check in checks))  # noqa: T201

        # One word is said twice; the second time the model remembers the first.
        word = np.random.default_rng(6).integers(-127, 128, (3, 1, FEATURES)).astype(np.int8)
        stream = np.concatenate([word, word])
        outputs = arm_ext.run(result, args.board, inputs={"features": stream}, steps=len(stream)).outputs
        for frame, scores in enumerate(outputs["scores"]):
            print(f"frame {frame}: word {scores.argmax()} by {scores.ravel().tolist()}")  # noqa: T201


if __name__ == "__main__":
    main()
