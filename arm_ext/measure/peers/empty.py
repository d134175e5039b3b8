# SPDX-License-Identifier: Apache-2.0
"""Models without computation, which show a runtime's overhead per call."""

from collections.abc import Callable
from pathlib import Path

import flatbuffers
import numpy as np
import tflite
from onnx import TensorProto, helper

_OPSET = 17
_IR_VERSION = 8  # of opset 17
_TFLITE_VERSION = 3

INPUTS = [np.ones(1, np.float32)]


def write_empty(format: str, folder: Path) -> Path:
    """Write the model of a format, "onnx" or "tflite", that takes INPUTS and returns them."""
    path = folder / f"empty.{format}"
    path.write_bytes(_tflite() if format == "tflite" else _onnx())
    return path


def _onnx() -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "empty", [x], [y])
    opset = helper.make_opsetid("", _OPSET)
    data = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION).SerializeToString()
    assert isinstance(data, bytes)
    return data


def _tflite() -> bytes:
    """Return a model without operators, whose only tensor is both its input and its output."""
    make = flatbuffers.Builder(0)

    def offsets(start: Callable[[flatbuffers.Builder, int], object], *items: int) -> int:
        start(make, len(items))
        for item in reversed(items):
            make.PrependUOffsetTRelative(item)
        return int(make.EndVector())

    def integers(start: Callable[[flatbuffers.Builder, int], object], *items: int) -> int:
        start(make, len(items))
        for item in reversed(items):
            make.PrependInt32(item)
        return int(make.EndVector())

    shape, name = integers(tflite.TensorStartShapeVector, 1), make.CreateString("x")
    tflite.TensorStart(make)
    tflite.TensorAddShape(make, shape)
    tflite.TensorAddType(make, tflite.TensorType.FLOAT32)
    tflite.TensorAddBuffer(make, 0)
    tflite.TensorAddName(make, name)
    tensor = tflite.TensorEnd(make)
    tensors = offsets(tflite.SubGraphStartTensorsVector, tensor)
    inputs = integers(tflite.SubGraphStartInputsVector, 0)
    outputs = integers(tflite.SubGraphStartOutputsVector, 0)
    operators = offsets(tflite.SubGraphStartOperatorsVector)
    tflite.SubGraphStart(make)
    tflite.SubGraphAddTensors(make, tensors)
    tflite.SubGraphAddInputs(make, inputs)
    tflite.SubGraphAddOutputs(make, outputs)
    tflite.SubGraphAddOperators(make, operators)
    graph = tflite.SubGraphEnd(make)
    graphs = offsets(tflite.ModelStartSubgraphsVector, graph)
    tflite.BufferStart(make)
    buffer = tflite.BufferEnd(make)
    buffers = offsets(tflite.ModelStartBuffersVector, buffer)
    codes = offsets(tflite.ModelStartOperatorCodesVector)
    tflite.ModelStart(make)
    tflite.ModelAddVersion(make, _TFLITE_VERSION)
    tflite.ModelAddOperatorCodes(make, codes)
    tflite.ModelAddSubgraphs(make, graphs)
    tflite.ModelAddBuffers(make, buffers)
    make.Finish(tflite.ModelEnd(make), b"TFL3")
    return bytes(make.Output())
