# SPDX-License-Identifier: Apache-2.0
"""Selection of the front end for a model file, by the file's content."""

import importlib.util
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy.typing as npt
import onnx

from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import ArmExtError, EnvError, UsageError
from arm_ext.common.faults import is_out_of_memory, out_of_memory
from arm_ext.common.text import shown
from arm_ext.frontends.common.block_scopes import ending_blocks_on_error
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.refuse import Shapes, reason_of
from arm_ext.frontends.decoder.importer import DecoderSource, is_gguf, open_decoder
from arm_ext.frontends.onnx.fixed_inputs import fix_inputs, with_random
from arm_ext.frontends.onnx.random import GivenSizes
from arm_ext.frontends.onnx.state import import_onnx_states
from arm_ext.frontends.stablehlo.file import enclosed_bytecode, is_stablehlo
from arm_ext.frontends.tflite.file import IDENTIFIER

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
    from torch.export import ExportedProgram

_T = TypeVar("_T")

Imported = ImportedModel | DecoderSource
"""What is imported already, or needs only its shapes."""

# First bytes of files that users may mistake for a supported model → the file's format, and what to do.
_OTHERS = {
    b"PK\x03\x04": "a zip archive, as PyTorch and Keras write; write a PyTorch model with torch.export.save, "
    "convert another to ONNX or TFLite",
    b"\x80": "a Python pickle; write the model with torch.export.save, or export it to ONNX",
    b"\x89HDF": "an HDF5 file, as older Keras writes; convert the model to TFLite or ONNX",
}
# An ONNX file has no identifier; it begins with the tag of its first field, ir_version.
_IR_VERSION = b"\x08"
# File that identifies a package's folder.
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class TrustedFile:
    """A .pt2 file from a trusted author, which may run code when it is opened."""

    path: Path


def trusted(model: _T) -> _T | TrustedFile:
    """Return a .pt2 file as a `TrustedFile`; return any other model unchanged."""
    if isinstance(model, str | Path) and Path(model).is_file() and is_exported_program(Path(model)):
        return TrustedFile(Path(model))
    return model


def with_values(model: _T, values: Mapping[str, npt.ArrayLike]) -> _T | onnx.ModelProto:
    """Return a model with some of its inputs replaced by constants.

    Args:
        model: As for `import_model`.
        values: Input name → its value. Must be empty for all but ONNX models.

    Raises:
        UsageError, ModelError: As `fix_inputs`; or values are given for a model that is not ONNX.
    """
    if not values:
        return model
    if isinstance(model, onnx.ModelProto):
        return fix_inputs(model, values)
    if isinstance(model, str | Path) and (not Path(model).exists() or is_onnx(Path(model))):
        return fix_inputs(model, values)
    raise UsageError("--value makes inputs constants only for ONNX models, and this model has another format")


def prepared(
    model: _T,
    values: Mapping[str, npt.ArrayLike] | None,
    *,
    trust: bool,
    random: str | None = None,
    sizes: GivenSizes | None = None,
) -> Any:
    """Return a model for `import_model`, with inputs and random numbers replaced by constants as the options say.

    Args:
        model: As for `import_model`.
        values: As for `with_values`.
        trust: Whether a .pt2 file may run code of its own when it is opened.
        random: What replaces random numbers of an ONNX model, as for `choose_random`.
        sizes: Shapes of its inputs, as for `choose_random`.

    Raises:
        UsageError, ModelError: As `with_values` and `with_random`; or random numbers of another model are replaced.
    """
    fixed = with_values(trusted(model) if trust else model, values or {})
    if random is None:
        return fixed
    if isinstance(fixed, onnx.ModelProto) or (isinstance(fixed, str | Path) and is_onnx(Path(fixed))):
        return with_random(fixed, random, sizes)
    raise UsageError(
        "--random replaces random numbers only for ONNX models, and this model has another format"
    )


@ending_blocks_on_error()
def import_model(
    model: "str | Path | TrustedFile | onnx.ModelProto | ExportedProgram | nn.Module | Exported | Imported",
    shapes: Shapes | None = None,
    states: Mapping[str, str] | None = None,
) -> ImportedModel:
    """Import a model of any supported format.

    Args:
        model: A path, which `trusted` may have marked, a loaded ONNX model, or an exported program of PyTorch or of
            JAX; one that is imported already is returned as it is, and a decoder for its shapes.
        shapes: Input name → static shape, needed for each input with a dynamic dimension.
        states: Input name → name of the output that is its next value, for `with_states` to follow; ONNX may have
            values for them.

    Raises:
        UsageError: The file is missing, of another format, or damaged; a shape is missing or does not fit.
        ModelError: Operators that cannot be compiled.
        EnvError: PyTorch, or jaxlib, is not installed, and the model is a program that it reads.
    """
    if isinstance(model, ImportedModel):
        return model
    if isinstance(model, DecoderSource):
        return model.at(shapes or {})
    if isinstance(model, onnx.ModelProto):
        return import_onnx_states(model, shapes, states or {})
    if isinstance(model, TrustedFile):
        return _import_torch(model.path, shapes, trust=True)
    if not isinstance(model, str | Path):
        if (bytecode := getattr(model, "mlir_module_serialized", None)) is not None:
            return _import_stablehlo(bytes(bytecode), str(getattr(model, "fun_name", "model")), shapes)
        return _import_torch(model, shapes)
    path = Path(model)
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {_no_file(path)}")
    except OSError as err:  # the name is too long, or the folder may not be entered
        raise UsageError(f"{path}: the model cannot be read: {err.strerror}") from err
    try:
        imported = _import_file(path, shapes, states or {})
        # A file name may be any bytes; the model's name, which is derived from it, is written to JSON and must be
        # valid text.
        return replace(imported, name=shown(os.fsencode(imported.name).decode(errors="replace")))
    except ArmExtError:
        raise
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: the file may be damaged: a name in it is not valid UTF-8 ({err})") from err
    # The libraries that read the formats raise exceptions without a common class for unexpected contents.
    except Exception as err:
        if is_out_of_memory(err):
            raise out_of_memory() from err
        reason = f"{type(err).__name__}: {err}".splitlines()[0]
        raise UsageError(
            f"{path}: the file may be damaged: reading it failed with {reason}. "
            "If other programs read it, please report this, with the file"
        ) from err


def _no_file(path: Path) -> str:
    if (path / _MANIFEST).is_file():
        return "a package, which is compiled; run it by `arm-ext run`, or name the model that it was compiled from"
    return "a folder, not a model file" if path.is_dir() else "no such model file"


def _import_file(path: Path, shapes: Shapes | None, states: Mapping[str, str]) -> ImportedModel:
    if is_gguf(path):
        return open_decoder(path).at(shapes or {})
    if is_tflite(path):
        from arm_ext.frontends.tflite.importer import import_tflite

        return import_tflite(path, shapes)
    if is_exported_program(path):
        return _import_torch(path, shapes)
    if is_stablehlo(path):
        return _import_stablehlo(path.read_bytes(), str(path), shapes)
    start = _start(path)
    if is_onnx(path):
        return import_onnx_states(path, shapes, states)
    bytecode = path.read_bytes() if path.suffix == ".mlir" else enclosed_bytecode(path)
    if bytecode is not None:
        return _import_stablehlo(bytecode, str(path), shapes)
    what = next(
        (text for magic, text in _OTHERS.items() if start.startswith(magic)),
        "neither ONNX nor TFLite, nor a program of PyTorch's or JAX's",
    )
    raise UsageError(f"{path}: the file is {what}")


def is_tflite(path: Path) -> bool:
    """Whether a file is a TFLite model, by its content or its suffix."""
    return _start(path)[4:] == IDENTIFIER or path.suffix == ".tflite"


def is_onnx(path: Path) -> bool:
    """Whether a file is an ONNX model, by its content or its suffix."""
    return _start(path).startswith(_IR_VERSION) or path.suffix == ".onnx"


def is_exported_program(path: Path) -> bool:
    """Whether a file is an archive of the format pt2, as torch.export.save writes.

    Raises:
        UsageError: The file is a damaged archive.
    """
    if not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/archive_format") for name in archive.namelist())
    except zipfile.BadZipFile as err:
        raise UsageError(f"{path}: the zip archive is damaged or truncated ({err})") from err


def export_module(module: object, example_inputs: Sequence[Any] | Mapping[str, Any]) -> "ExportedProgram":
    """Export a module of PyTorch for inference; see `arm_ext.frontends.torch.export`.

    Raises:
        EnvError: PyTorch is not installed.
    """
    with loading_torch("example_inputs are for PyTorch"):
        from arm_ext.frontends.torch import export
    return export.export_module(module, example_inputs)


def _import_torch(
    model: "Path | ExportedProgram | nn.Module", shapes: Shapes | None, *, trust: bool = False
) -> ImportedModel:
    # Not imported above: PyTorch takes seconds to load, and only PyTorch models need it.
    with loading_torch(f"{model} is a PyTorch program"):
        from arm_ext.frontends.torch.importer import import_torch
    return import_torch(model, shapes, trust=trust)


def loading_torch(why: str) -> AbstractContextManager[None]:
    """Open a scope for imports that need PyTorch; if it is not installed, the error begins with `why`.

    Raises:
        EnvError: As `loading`.
    """
    # torch's exporter creates a folder, by default in TMPDIR, when it is imported, and leaves it behind.
    with suppress(EnvError):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "torch"))
    return loading("torch", f"{why}, and PyTorch", "pip install torch")


@contextmanager
def loading(package: str, what: str, remedy: str) -> Iterator[None]:
    """Open a scope for imports of a package that may not be installed.

    Raises:
        EnvError: The package is not installed, or incomplete.
    """
    if importlib.util.find_spec(package) is None:
        raise EnvError(f"{what} is not installed: {remedy}")
    try:
        yield
    # The package lacks a library or a module of its own, or its modules have different versions.
    except (ImportError, OSError, AttributeError) as err:
        again = remedy.replace("install", "install --force-reinstall")
        raise EnvError(f"{what} is installed, but does not load ({reason_of(err, line=0)}): {again}") from err


def _import_stablehlo(program: bytes, name: str, shapes: Shapes | None) -> ImportedModel:
    reader = f"{name} is a StableHLO program, and jaxlib, which reads it,"
    with loading("jaxlib", reader, "pip install 'tvm-arm-ext[stablehlo]'"):
        from arm_ext.frontends.stablehlo.importer import import_stablehlo
    return import_stablehlo(program, name, shapes)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)
