# SPDX-License-Identifier: Apache-2.0
"""The artefact: a folder with model.so, manifest.json, report.json, report.txt and selftest.npz."""

import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from arm_ext.errors import UsageError
from arm_ext.manifest import Manifest, NpuFile

SO, MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST = (
    "model.so",
    "manifest.json",
    "report.json",
    "report.txt",
    "selftest.npz",
)

_STEP = "step"
_KINDS = ("input", "expected", "source", "float")


@dataclass(frozen=True)
class Selftest:
    """Inputs, what our numerics give for them on the host, and what the source's own runtime gives.

    `floats` is what the float model gives, by onnxruntime, where `compile` quantised it.
    Of a model with states, `steps` is what the first steps give for these inputs without the states, one by one.
    """

    inputs: list[npt.NDArray[Any]]
    expected: list[npt.NDArray[Any]]
    source: list[npt.NDArray[Any]]
    source_runtime: str
    steps: list[list[npt.NDArray[Any]]] = field(default_factory=list)
    floats: list[npt.NDArray[Any]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write it as .npz (numpy stamps no time into it)."""
        arrays: dict[str, Any] = {}
        kinds = (self.inputs, self.expected, self.source, self.floats)
        for kind, values in zip(_KINDS, kinds, strict=True):
            arrays.update({f"{kind}_{i}": value for i, value in enumerate(values)})
        for number, step in enumerate(self.steps):
            arrays.update({f"{_STEP}{number}_{i}": value for i, value in enumerate(step)})
        with path.open("wb") as file:
            np.savez_compressed(file, source_runtime=np.array(self.source_runtime), **arrays)

    @staticmethod
    def load(path: Path) -> "Selftest":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as data:
            arrays = dict(data)
        runtime = str(arrays.pop("source_runtime"))
        kinds: dict[str, dict[int, npt.NDArray[Any]]] = {kind: {} for kind in _KINDS}
        kinds |= {f"{_STEP}{i}": {} for i in range(sum(key.startswith(_STEP) for key in arrays))}
        for key, value in arrays.items():
            kind, _, index = key.rpartition("_")
            kinds[kind][int(index)] = value
        inputs, expected, source, floats, *steps = (
            [values[i] for i in range(len(values))] for values in kinds.values()
        )
        return Selftest(inputs, expected, source, runtime, [step for step in steps if step], floats)


@dataclass(frozen=True)
class RegionValues:
    """Inputs of a region, and the outputs that the CPU computes of them, in the payload's order."""

    inputs: list[npt.NDArray[Any]]
    outputs: list[npt.NDArray[Any]]

    def to_bytes(self) -> bytes:
        """Return them as .npz (numpy stamps no time into it)."""
        file = io.BytesIO()
        arrays = {"input": self.inputs, "output": self.outputs}
        named: dict[str, Any] = {
            f"{role}_{i}": value for role, values in arrays.items() for i, value in enumerate(values)
        }
        np.savez_compressed(file, **named)
        return file.getvalue()

    @staticmethod
    def from_bytes(data: bytes) -> "RegionValues":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            arrays = dict(found)
        inputs, outputs = (
            [arrays[f"{role}_{i}"] for i in range(sum(name.startswith(role) for name in arrays))]
            for role in ("input", "output")
        )
        return RegionValues(inputs, outputs)


@dataclass(frozen=True)
class Package:
    """A package on disk; `selftest_file` is the one that `selftest` reads."""

    path: Path
    manifest: Manifest
    selftest_file: str = SELFTEST

    @property
    def so(self) -> Path:
        """The shared library."""
        return self.path / SO

    def views(self) -> tuple["Package", ...]:
        """The package as each of its buckets alone; itself where it has none."""
        if not self.manifest.buckets:
            return (self,)
        return tuple(
            Package(
                self.path,
                self.manifest.model_copy(
                    update={
                        "inputs": bucket.inputs,
                        "outputs": bucket.outputs,
                        "memory": bucket.memory,
                        "macs": bucket.macs,
                        "check": bucket.check,
                        "buckets": [],
                    }
                ),
                bucket.selftest,
            )
            for bucket in self.manifest.buckets
        )

    def describe_inputs(self) -> str:
        """Return the inputs with their types, such as "x float32[1, 64]"."""
        return ", ".join(tensor.spec().describe() for tensor in self.manifest.inputs)

    @property
    def has_npu_regions(self) -> bool:
        """Whether model.so asks for an NPU."""
        return self.manifest.npu is not None and bool(self.manifest.npu.regions)

    def selftest(self) -> Selftest:
        """Read the self-test.

        Raises:
            UsageError: It is missing or damaged.
        """
        try:
            return Selftest.load(self.path / self.selftest_file)
        except (OSError, ValueError, KeyError) as err:
            raise UsageError(
                f"{self.path / self.selftest_file}: cannot be read ({err}); compile the model again"
            ) from err

    def read(self, file: NpuFile) -> bytes:
        """Read a file that the manifest has the hash of.

        Raises:
            UsageError: It is missing or altered.
        """
        path = self.path / file.path
        try:
            content = path.read_bytes()
        except OSError as err:
            raise UsageError(f"{path}: cannot be read ({err.strerror}); compile the model again") from err
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise UsageError(f"{path}: is not what was compiled; compile the model again")
        return content


class Compiled(Protocol):
    """What `arm_ext.compile` returns, as far as a package is wanted."""

    @property
    def package(self) -> Package:
        """The package that was written."""


AnyPackage: TypeAlias = str | Path | Package | Compiled
"""What stands for a package in the Python API: its folder, the opened package, or what `compile` returned."""


def package_of(given: AnyPackage) -> Package:
    """Return the package that is meant.

    Raises:
        UsageError: As `load_package`, where it is a folder.
    """
    if isinstance(given, str | Path):
        return load_package(given)
    return given if isinstance(given, Package) else given.package


def load_package(path: str | Path) -> Package:
    """Open a package folder.

    Raises:
        UsageError: It is no package, one of another schema version, or its model.so is not the one compiled.
    """
    folder = Path(path)
    manifest = folder / MANIFEST
    if not manifest.is_file() or not (folder / SO).is_file():
        make = f"arm-ext compile {folder}" if folder.is_file() else f"arm-ext compile MODEL -o {folder}"
        raise UsageError(f"{folder}: not a package (no {MANIFEST} and {SO}); make one with: {make}")
    try:
        package = Package(folder, Manifest.model_validate_json(manifest.read_bytes()))
    except ValidationError as err:
        first = err.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise UsageError(
            f"{manifest}: {where}: {first['msg']}; written by another version? Compile the model again"
        ) from err
    if file_sha256(package.so) != package.manifest.so_sha256:
        raise UsageError(
            f"{package.so}: is damaged, or not the one that was compiled; compile the model again"
        )
    return package


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write manifest.json with a stable layout."""
    (folder / MANIFEST).write_text(json.dumps(manifest.model_dump(mode="json"), indent=2) + "\n")


@contextmanager
def writing(output: Path) -> Iterator[Path]:
    """Give a folder to fill, which becomes `output` when the block ends well and vanishes when it does not.

    An earlier package at `output` is replaced; anything else there is left alone and refused.

    Raises:
        UsageError: `output` holds something else, or cannot be written.
    """
    if output.is_dir() and any(output.iterdir()) and not (output / MANIFEST).is_file():
        raise UsageError(f"{output}: exists and is not a package; name another folder with -o")
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output}: exists and is a file; name a folder with -o")
    parent = output.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=parent))
    except OSError as err:
        raise UsageError(
            f"{output}: cannot be written ({err.strerror}); name another folder with -o"
        ) from err
    try:
        fresh = scratch / "new"
        fresh.mkdir()
        yield fresh
        if output.exists():
            output.rename(scratch / "old")
        fresh.rename(output)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
