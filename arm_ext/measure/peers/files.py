# SPDX-License-Identifier: Apache-2.0
"""Properties of a model file that are known without compiling it."""

from pathlib import Path

import onnx
import tflite

from arm_ext.common.errors import UsageError
from arm_ext.frontends.tflite.file import IDENTIFIER

_IDENTIFIER_AT = slice(4, 8)


def model_format(path: Path) -> str:
    """Return "tflite" for a file with TFLite's identifier or suffix, else "onnx"; as the front ends decide.

    Raises:
        UsageError: There is no such file.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_IDENTIFIER_AT.stop)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    return "tflite" if start[_IDENTIFIER_AT] == IDENTIFIER or path.suffix == ".tflite" else "onnx"


def weight_bytes(path: Path) -> int:
    """Return the bytes of all constants of an imported model, in the dtypes of the file."""
    return (
        _tflite_bytes(path.read_bytes()) if model_format(path) == "tflite" else _onnx_bytes(onnx.load(path))
    )


def _onnx_bytes(model: onnx.ModelProto) -> int:
    constants = [
        attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.HasField("t")
    ]
    return sum(onnx.numpy_helper.to_array(held).nbytes for held in [*model.graph.initializer, *constants])


def _tflite_bytes(data: bytes) -> int:
    model = tflite.Model.GetRootAsModel(data, 0)
    buffers = set()
    for g in range(model.SubgraphsLength()):
        graph = model.Subgraphs(g)
        buffers |= {graph.Tensors(k).Buffer() for k in range(graph.TensorsLength())}
    return sum(int(model.Buffers(k).DataLength()) for k in buffers)
