# SPDX-License-Identifier: Apache-2.0
"""Which front end takes a model file, by what is in it."""

from pathlib import Path

import onnx

from arm_ext.errors import UsageError
from arm_ext.frontends.imported import ImportedModel
from arm_ext.frontends.onnx import import_onnx
from arm_ext.frontends.onnx_check import Shapes
from arm_ext.frontends.tflite import IDENTIFIER, import_tflite

# First bytes of what users may take for a model that can be compiled → what it is, and what to do.
_OTHERS = {
    b"PK\x03\x04": "a zip archive, as PyTorch and Keras write; export the model to ONNX",
    b"\x80": "a Python pickle; export the model to ONNX",
    b"\x89HDF": "an HDF5 file, as older Keras writes; convert the model to TFLite or ONNX",
}
# An ONNX file has no identifier; it begins with the tag of its first field, ir_version.
_IR_VERSION = b"\x08"


def import_model(model: str | Path | onnx.ModelProto, shapes: Shapes | None = None) -> ImportedModel:
    """Import a model of any format that there is a front end for.

    Args:
        model: A path, or a loaded ONNX model.
        shapes: Input name → static shape, needed for each input with a dynamic dimension.

    Raises:
        UsageError: The file is missing, of another format, or damaged; a shape is missing or does not fit.
        ModelError: Operators that cannot be compiled.
    """
    if isinstance(model, onnx.ModelProto):
        return import_onnx(model, shapes)
    path = Path(model)
    if not path.is_file():
        raise UsageError(f"{path}: no such model file")
    if is_tflite(path):
        return import_tflite(path, shapes)
    start = _start(path)
    if start.startswith(_IR_VERSION) or path.suffix == ".onnx":
        return import_onnx(path, shapes)
    what = next(
        (text for magic, text in _OTHERS.items() if start.startswith(magic)), "neither ONNX nor TFLite"
    )
    raise UsageError(f"{path}: the file is {what}")


def is_tflite(path: Path) -> bool:
    """Whether a file that is there is a TFLite model, or is named like one."""
    return _start(path)[4:] == IDENTIFIER or path.suffix == ".tflite"


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)
