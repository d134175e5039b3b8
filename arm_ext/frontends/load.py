# SPDX-License-Identifier: Apache-2.0
"""Which front end takes a model file, by what is in it."""

import importlib.util
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from arm_ext.errors import ArmExtError, EnvError, UsageError
from arm_ext.frontends.imported import ImportedModel
from arm_ext.frontends.onnx import import_onnx
from arm_ext.frontends.refuse import Shapes
from arm_ext.frontends.tflite import IDENTIFIER, import_tflite

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# First bytes of what users may take for a model that can be compiled → what it is, and what to do.
_OTHERS = {
    b"PK\x03\x04": "a zip archive, as PyTorch and Keras write; write a PyTorch model with torch.export.save, "
    "convert another to ONNX or TFLite",
    b"\x80": "a Python pickle; write the model with torch.export.save, or export it to ONNX",
    b"\x89HDF": "an HDF5 file, as older Keras writes; convert the model to TFLite or ONNX",
}
# An ONNX file has no identifier; it begins with the tag of its first field, ir_version.
_IR_VERSION = b"\x08"


def import_model(
    model: "str | Path | onnx.ModelProto | ExportedProgram", shapes: Shapes | None = None
) -> ImportedModel:
    """Import a model of any format that there is a front end for.

    Args:
        model: A path, a loaded ONNX model, or an exported program of PyTorch.
        shapes: Input name → static shape, needed for each input with a dynamic dimension.

    Raises:
        UsageError: The file is missing, of another format, or damaged; a shape is missing or does not fit.
        ModelError: Operators that cannot be compiled.
        EnvError: PyTorch is not installed, and the model is one of its programs.
    """
    if isinstance(model, onnx.ModelProto):
        return import_onnx(model, shapes)
    if not isinstance(model, str | Path):
        return _import_torch(model, shapes)
    path = Path(model)
    if not path.is_file():
        raise UsageError(f"{path}: no such model file")
    try:
        return _import_file(path, shapes)
    except ArmExtError:
        raise
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: the file may be damaged: a name in it is no text ({err})") from err
    # What the libraries that read the formats raise of contents that they do not expect has no common class.
    except Exception as err:
        reason = f"{type(err).__name__}: {err}".splitlines()[0]
        raise UsageError(
            f"{path}: the file may be damaged: reading it failed with {reason}. "
            "If other programs read it, please report this, with the file"
        ) from err


def _import_file(path: Path, shapes: Shapes | None) -> ImportedModel:
    if is_tflite(path):
        return import_tflite(path, shapes)
    if _is_exported_program(path):
        return _import_torch(path, shapes)
    start = _start(path)
    if start.startswith(_IR_VERSION) or path.suffix == ".onnx":
        return import_onnx(path, shapes)
    what = next(
        (text for magic, text in _OTHERS.items() if start.startswith(magic)),
        "neither ONNX nor TFLite, nor a program of PyTorch's",
    )
    raise UsageError(f"{path}: the file is {what}")


def is_tflite(path: Path) -> bool:
    """Whether a file that is there is a TFLite model, or is named like one."""
    return _start(path)[4:] == IDENTIFIER or path.suffix == ".tflite"


def _is_exported_program(path: Path) -> bool:
    """Whether a file is an archive of the format pt2, as torch.export.save writes."""
    if not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/archive_format") for name in archive.namelist())
    except zipfile.BadZipFile as err:
        raise UsageError(f"{path}: the zip archive is damaged or truncated ({err})") from err


def _import_torch(model: "Path | ExportedProgram", shapes: Shapes | None) -> ImportedModel:
    if importlib.util.find_spec("torch") is None:
        raise EnvError(f"{model} is a PyTorch program, and PyTorch is not installed: pip install torch")
    # Not above: it takes seconds to load, and most models need none of it.
    from arm_ext.frontends.torch import import_torch

    return import_torch(model, shapes)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)
