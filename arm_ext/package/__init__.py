# SPDX-License-Identifier: Apache-2.0
"""The package: a folder with model.so, manifest.json, report.json, report.txt and selftest.npz.

A C library's folder has a manifest and a report, too, which say so.
"""

import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from arm_ext.common.errors import UsageError
from arm_ext.common.faults import why
from arm_ext.common.npz import DAMAGE, unpacked
from arm_ext.package.manifest import (
    SCHEMA_VERSION,
    LibraryManifest,
    Manifest,
    NpuFile,
    NpuRegion,
    PackageFile,
    Tensor,
)

SO, MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST = (
    "model.so",
    "manifest.json",
    "report.json",
    "report.txt",
    "selftest.npz",
)

NPU = "npu"
"""Folder of the files for an NPU."""

_STEP = "step"
_KINDS = ("input", "expected", "source", "float")
# Limits of a self-test: bytes of an array's header and entry in the archive, runs that have outputs (expected, source,
# floats and steps), and how many times wider a type of the source's runtime may be.
_ARRAY_BYTES, _MOST_RUNS, _WIDEST = 1 << 12, 8, 8
_MANIFEST_BYTES = 1 << 26


@dataclass(frozen=True)
class Selftest:
    """The self-test: inputs, the outputs of our own numerics on the host, and those of the source's runtime.

    `floats` are the float model's outputs, by onnxruntime, if `compile` quantised the model.
    For a model with states, `steps` are the outputs of the first steps, one by one, for these inputs without states.
    """

    inputs: list[npt.NDArray[Any]]
    expected: list[npt.NDArray[Any]]
    source: list[npt.NDArray[Any]]
    source_runtime: str
    steps: list[list[npt.NDArray[Any]]] = field(default_factory=list)
    floats: list[npt.NDArray[Any]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the self-test as a reproducible .npz."""
        path.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the self-test as a reproducible .npz."""
        arrays: dict[str, Any] = {}
        kinds = (self.inputs, self.expected, self.source, self.floats)
        for kind, values in zip(_KINDS, kinds, strict=True):
            arrays.update({f"{kind}_{i}": value for i, value in enumerate(values)})
        for number, step in enumerate(self.steps):
            arrays.update({f"{_STEP}{number}_{i}": value for i, value in enumerate(step)})
        file = io.BytesIO()
        np.savez_compressed(file, source_runtime=np.array(self.source_runtime), **arrays)
        return file.getvalue()

    @staticmethod
    def load(path: Path, most: int | None = None) -> "Selftest":
        """Read what `save` wrote; refuse it if it takes more than `most` bytes unpacked."""
        with path.open("rb") as file:
            return Selftest._of(unpacked(file, most))

    @staticmethod
    def from_bytes(data: bytes) -> "Selftest":
        """Return what `to_bytes` wrote."""
        return Selftest._of(unpacked(io.BytesIO(data)))

    @staticmethod
    def _of(arrays: dict[str, Any]) -> "Selftest":
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
    """Inputs of a region for an NPU and the outputs that the CPU computes, in the payload's order."""

    inputs: list[npt.NDArray[Any]]
    outputs: list[npt.NDArray[Any]]

    def to_bytes(self) -> bytes:
        """Return inputs and outputs as .npz (numpy stamps no time into it)."""
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
        arrays = unpacked(io.BytesIO(data))
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
        """Return the package restricted to each of its buckets; the package itself if it has no buckets."""
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
        """Whether model.so has regions for an NPU."""
        return self.manifest.npu is not None and bool(self.manifest.npu.regions)

    def selftest(self) -> Selftest:
        """Read the self-test.

        Raises:
            UsageError: The self-test is missing or damaged, or its arrays do not fit the package's inputs and outputs.
        """
        path = self.path / self.selftest_file
        try:
            found = Selftest.load(path, self._selftest_bytes())
        except DAMAGE as err:
            raise UsageError(f"{path}: cannot be read ({err}); compile the model again") from err
        if fault := self._selftest_fault(found):
            raise UsageError(f"{path}: {fault}; compile the model again")
        return found

    def _selftest_bytes(self) -> int:
        """Return an upper bound of the self-test's bytes; outputs of the source's runtime may have wider dtypes."""
        inputs, outputs = (
            sum(t.bytes for t in tensors) for tensors in (self.manifest.inputs, self.manifest.outputs)
        )
        headers = _ARRAY_BYTES * (len(self.manifest.inputs) + _MOST_RUNS * len(self.manifest.outputs) + 1)
        return inputs + _WIDEST * _MOST_RUNS * outputs + headers

    def _selftest_fault(self, found: Selftest) -> str | None:
        """Return why the self-test cannot be run and compared, or None."""
        states, outputs = len(self.manifest.states), self.manifest.outputs
        runs = [("expected outputs", outputs, found.expected)]
        if states:
            returned = outputs[:-states] or outputs
            runs += [("outputs of a step", returned, step) for step in found.steps or [[]]]
        for what, tensors, values in (("inputs", self.manifest.inputs, found.inputs), *runs):
            if fault := _mismatch(what, tensors, values):
                return fault
        for runtime, values in (("the source's runtime", found.source), ("the float model", found.floats)):
            if values and len(values) != len(outputs):
                return f"has {len(values)} outputs of {runtime}, and the package {len(outputs)}"
        return None

    def region_values(self, region: NpuRegion) -> RegionValues:
        """Read the inputs and outputs of a region in the self-test.

        Raises:
            UsageError: The values are damaged, or do not fit the region's inputs and outputs.
        """
        try:
            found = RegionValues.from_bytes(self.read(region.values))
        except DAMAGE as err:
            raise UsageError(
                f"{self.path / region.values.path}: cannot be read ({err}); compile the model again"
            ) from err
        for what, tensors, values in (
            ("inputs", region.inputs, found.inputs),
            ("outputs", region.outputs, found.outputs),
        ):
            if fault := _mismatch(what, tensors, values):
                raise UsageError(f"{self.path / region.values.path}: {fault}; compile the model again")
        return found

    def read(self, file: NpuFile) -> bytes:
        """Return the bytes of a file of a region."""
        return (self.path / file.path).read_bytes()


def _mismatch(what: str, tensors: Sequence[Tensor], values: Sequence[npt.NDArray[Any]]) -> str | None:
    """Return why values do not match tensors in number, shape or dtype, or None."""
    if len(tensors) != len(values):
        return f"has {len(values)} {what}, and the package {len(tensors)}"
    for tensor, value in zip(tensors, values, strict=True):
        if (list(value.shape), value.dtype.name) != (tensor.shape, tensor.dtype):
            return f"{what}: {tensor.name} is {value.dtype}{list(value.shape)}, and not as the package has it"
    return None


class Compiled(Protocol):
    """The result of `arm_ext.compile`, as far as functions that take a package use it."""

    @property
    def package(self) -> Package:
        """The package that was written."""


AnyPackage: TypeAlias = str | Path | Package | Compiled
"""A package in the Python API: its folder, the opened package, or the result of `compile`."""


def package_of(given: AnyPackage) -> Package:
    """Return the package for a path, a package, or the result of `compile`.

    Raises:
        UsageError: As `load_package`, if `given` is a path.
    """
    if isinstance(given, str | Path):
        return load_package(given)
    package = given if isinstance(given, Package) else getattr(given, "package", None)
    if not isinstance(package, Package):
        raise UsageError(f"{given!r} is no package: give its folder, or what compile returned")
    _refuse_library(package.path, package.manifest)
    return package


def load_package(path: str | Path) -> Package:
    """Open a package folder.

    Raises:
        UsageError: The folder is no package, or one of another schema version, or a file was changed since it was
            written.
    """
    folder = Path(path)
    if (folder / MANIFEST).is_file() and any(folder.glob("lib*.a")):
        _refuse_library(folder, read_manifest(folder))
    if not (folder / MANIFEST).is_file() or not (folder / SO).is_file():
        if not folder.exists():
            raise UsageError(f"{folder}: there is no such package; arm-ext compile MODEL makes one")
        make = f"arm-ext compile {folder}" if folder.is_file() else f"arm-ext compile MODEL -o {folder}"
        raise UsageError(f"{folder}: not a package (no {MANIFEST} and {SO}); make one with: {make}")
    manifest = read_manifest(folder)
    for file in manifest.files:
        _check_file(folder, file)
    return Package(folder, manifest)


def _refuse_library(folder: Path, manifest: Manifest) -> None:
    if manifest.library is not None:
        raise _is_library(folder)


def _is_library(folder: Path) -> UsageError:
    return UsageError(
        f"{folder}: is a C library, which a C program runs (see {folder / 'example'}); boards run packages: "
        "compile the model without --emit c-library"
    )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a package, without a look at the package's other files.

    Raises:
        UsageError: The manifest is missing, invalid, of another schema version, or of a C library with several models.
    """
    manifest = _parsed(folder / MANIFEST)
    if isinstance(manifest, LibraryManifest):
        raise _is_library(folder)
    return manifest


def read_files(folder: Path) -> list[PackageFile]:
    """Return the files that the manifest of a package or a library lists.

    Raises:
        UsageError: As `read_manifest`.
    """
    return _parsed(folder / MANIFEST).files


def _parsed(path: Path) -> Manifest | LibraryManifest:
    try:
        if path.stat().st_size > _MANIFEST_BYTES:
            raise UsageError(f"{path}: is larger than a manifest gets ({_MANIFEST_BYTES:,} bytes)")
        data = path.read_bytes()
        head = _Head.model_validate_json(data)
        version = head.schema_version
        if version not in (None, SCHEMA_VERSION):
            other = "an earlier" if version < SCHEMA_VERSION else "a later"
            raise UsageError(
                f"{path}: was written by {other} version of arm-ext (schema_version {version}, and this one reads "
                f"{SCHEMA_VERSION}); compile the model again"
            )
        return (Manifest if head.models is None else LibraryManifest).model_validate_json(data)
    except OSError as err:
        raise UsageError(why(err, path)) from err
    except ValidationError as err:
        first = err.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{path}: {where}: {said}; compile the model again") from err


class _Head(BaseModel):
    """The fields of a manifest that tell how to read it."""

    schema_version: int | None = None
    models: Any = None


def _check_file(folder: Path, file: PackageFile) -> None:
    path = folder / file.path
    again = "compile the model again, with --force"
    if not path.is_file():
        raise UsageError(f"{path}: is missing; {again}")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path}: is a link out of the package; {again}")
    if path.stat().st_size != file.bytes or file_sha256(path) != file.sha256:
        raise UsageError(f"{path}: is damaged, or not the one that was compiled; {again}")


def is_package_name(path: Path) -> bool:
    """Whether a path, or the folder that it begins with, has a name that packages use."""
    names = (SO, MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST)
    first = path.parts[0]  # which the user may have made a folder
    return first in (NPU, *names) or bool(re.fullmatch(r"selftest_.*\.npz", first))


def list_files(folder: Path) -> list[PackageFile]:
    """Return manifest entries for the files in a package's folder, without the manifest itself."""
    return [
        PackageFile(
            path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=file_sha256(path)
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / MANIFEST
    ]


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: Manifest | LibraryManifest) -> None:
    """Write manifest.json with a stable layout."""
    (folder / MANIFEST).write_text(
        json.dumps(manifest.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8"
    )
