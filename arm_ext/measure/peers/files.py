# SPDX-License-Identifier: Apache-2.0
"""Properties of a model file that are available without compiling it."""

from pathlib import Path

import onnx
import tflite

from arm_ext.common.errors import UsageError
from arm_ext.frontends.load import is_exported_program, is_onnx, is_tflite
from arm_ext.frontends.stablehlo.file import enclosed_bytecode, is_stablehlo


def model_format(path: Path) -> str:
    """Return a file's format: "tflite", "PyTorch", "StableHLO", or else "onnx"; as the front ends decide.

    Raises:
        UsageError: There is no such file.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    if is_tflite(path):
        return "tflite"
    if is_exported_program(path):
        return "PyTorch"
    if path.suffix == ".mlir" or is_stablehlo(path):
        return "StableHLO"
    return "StableHLO" if not is_onnx(path) and enclosed_bytecode(path) is not None else "onnx"


def weight_bytes(path: Path) -> int:
    """Return the size in bytes of all constants of an imported model, in the dtypes of the file."""
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
