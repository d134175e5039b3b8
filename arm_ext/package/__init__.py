# SPDX-License-Identifier: Apache-2.0
"""The package: a folder with model.so, manifest.json, report.json, report.txt and selftest.npz.

A C library's folder has a manifest and a report, too, which say so.

A package may come from anybody, and another program may write to it while it is open. `load_package` checks all files
against the manifest, so that damage is told before any work. What is read later is checked again, as the bytes that
are used: `Package.read` returns no others, and a board hashes model.so as it uploads or copies it. So nothing is held
in memory or copied for the check alone, which matters for a model.so of hundreds of megabytes; and neither an open
descriptor, which does not protect from a write in place, nor a private copy of each file is needed.
"""

import hashlib
import io
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from arm_ext.common.elf import machine_of
from arm_ext.common.errors import UsageError
from arm_ext.common.json_record import JsonRecord, parsed
from arm_ext.common.npz import DAMAGE, unpacked
from arm_ext.common.regular_file import UnreadableError, open_regular, read_regular
from arm_ext.package.manifest import (
    SCHEMA_VERSION,
    LibraryManifest,
    Manifest,
    NpuRegion,
    PackageFile,
    Tensor,
)
from schedules.cores import MICROCONTROLLERS

SO, MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST = (
    "model.so",
    "manifest.json",
    "report.json",
    "report.txt",
    "selftest.npz",
)

NPU = "npu"
"""Folder of the files for an NPU."""

LEVELS = "levels"
"""Folder with the reports of a family's levels, except the newest level, whose report is the package's report."""

CERTIFICATE = "certificate.json"
"""File that `certify --record` adds to a package. The manifest does not list it, as it is made after the manifest."""

_STEP = "step"
_KINDS = ("input", "expected", "source", "float")
# Limits of a self-test: bytes of an array's header and entry in the archive, number of runs with outputs (expected,
# source, floats and steps), and maximum ratio of the width of the source runtime's dtype.
_ARRAY_BYTES, _MOST_RUNS, _WIDEST = 1 << 12, 8, 8
# Maximum bytes of manifests and reports, far above usual sizes: a report has 4 KB per layer.
_MANIFEST_BYTES, _REPORT_BYTES = 1 << 23, 1 << 27
_AGAIN = "compile the model again"


@dataclass(frozen=True)
class Selftest:
    """The self-test: inputs, the outputs of the model compiled for the host, and those of the source's runtime.

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
    def load(path: Path) -> "Selftest":
        """Read a self-test from a file that `save` wrote."""
        return Selftest.from_bytes(path.read_bytes())

    @staticmethod
    def from_bytes(data: bytes, most: int | None = None) -> "Selftest":
        """Return the self-test that `to_bytes` wrote; refuse data of more than `most` bytes when unpacked."""
        return Selftest._of(unpacked(io.BytesIO(data), most))

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
        """Return the values that `to_bytes` wrote."""
        arrays = unpacked(io.BytesIO(data))
        inputs, outputs = (
            [arrays[f"{role}_{i}"] for i in range(sum(name.startswith(role) for name in arrays))]
            for role in ("input", "output")
        )
        return RegionValues(inputs, outputs)


_Report = TypeVar("_Report", bound=JsonRecord)


@dataclass(frozen=True)
class Package:
    """A package on disk.

    Attributes:
        path: Folder of the package.
        manifest: Contents of manifest.json.
        selftest_file: Name of the file that `selftest` reads.
        varied: Of a view, the inputs whose shapes differ from those of other views.
        report_file: Name of the file that `report` reads.
    """

    path: Path
    manifest: Manifest
    selftest_file: str = SELFTEST
    varied: frozenset[str] = frozenset()
    report_file: str = REPORT_JSON

    def on(self, features: Collection[str]) -> "Package":
        """Return the package for a CPU with these features: of a family, with the newest level that the CPU can run."""
        levels = self.manifest.levels
        if not levels:
            return self
        level = [each for each in levels if set(each.features) <= set(features)][-1]
        own = {"core": level.core, "cpu": level.cpu, "mca_cpu": level.mca_cpu}
        target = self.manifest.target.model_copy(update=own)
        report = REPORT_JSON if level is levels[-1] else f"{LEVELS}/{level.name}/{REPORT_JSON}"
        manifest = self.manifest.model_copy(update={"target": target, "levels": []})
        return replace(self, manifest=manifest, report_file=report)

    @property
    def so(self) -> Path:
        """The shared library."""
        return self.path / SO

    def views(self) -> tuple["Package", ...]:
        """Return the package restricted to each of its buckets; the package itself if it has no buckets."""
        if not self.manifest.buckets:
            return (self,)
        shapes: dict[str, set[tuple[int | str, ...]]] = {}
        for tensor in (tensor for bucket in self.manifest.buckets for tensor in bucket.inputs):
            shapes.setdefault(tensor.name, set()).add(tuple(tensor.shape))
        varied = frozenset(name for name, each in shapes.items() if len(each) > 1)
        return tuple(
            replace(
                self,
                manifest=self.manifest.model_copy(
                    update={
                        "inputs": bucket.inputs,
                        "outputs": bucket.outputs,
                        "memory": bucket.memory,
                        "macs": bucket.macs,
                        "check": bucket.check,
                        "buckets": [],
                    }
                ),
                selftest_file=bucket.selftest,
                varied=varied,
            )
            for bucket in self.manifest.buckets
        )

    def describe_inputs(self) -> str:
        """Return the inputs with their types, such as "x float32[1, 64]"; of a view, those that it differs in."""
        inputs = [x for x in self.manifest.inputs if not self.varied or x.name in self.varied]
        return ", ".join(tensor.spec().describe() for tensor in inputs)

    @property
    def has_npu_regions(self) -> bool:
        """Whether model.so has regions for an NPU."""
        return self.manifest.npu is not None and bool(self.manifest.npu.regions)

    def selftest(self) -> Selftest:
        """Read the self-test.

        Raises:
            UsageError: The self-test is missing or damaged, or its arrays do not fit the package's inputs and outputs.
        """
        path, data = self.path / self.selftest_file, self.read(self.selftest_file)
        try:
            found = Selftest.from_bytes(data, self._selftest_bytes())
        except DAMAGE as err:
            raise UsageError(f"{path}: cannot be read ({err}); compile the model again") from err
        if fault := self._selftest_fault(found):
            raise UsageError(f"{path}: {fault}; compile the model again")
        return found

    def _selftest_bytes(self) -> int:
        """Return an upper bound of the self-test's size; outputs of the source's runtime may have wider dtypes."""
        inputs, outputs = (
            sum(t.bytes for t in tensors) for tensors in (self.manifest.inputs, self.manifest.outputs)
        )
        headers = _ARRAY_BYTES * (len(self.manifest.inputs) + _MOST_RUNS * len(self.manifest.outputs) + 1)
        return inputs + _WIDEST * _MOST_RUNS * outputs + headers

    def _selftest_fault(self, found: Selftest) -> str | None:
        """Return the reason why the self-test cannot be run and compared; None if it can."""
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
        data = self.read(region.values.path)
        try:
            found = RegionValues.from_bytes(data)
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

    def report(self, record: type[_Report]) -> _Report:
        """Return report.json as a record.

        Raises:
            UsageError: As `read`; or the file holds no such report.
        """
        return parsed(record, self.read(self.report_file), self.path / self.report_file, _AGAIN)

    def read(self, name: str) -> bytes:
        """Return the bytes of a package's file, after checking its hash in the manifest.

        Raises:
            UsageError: The manifest does not list the file, or the file was changed.
        """
        listed = _listed(self.path, self.manifest, name)
        try:
            data = read_regular(self.path / name, most=listed.bytes)
        except UnreadableError as err:
            raise UsageError(f"{err}; {_AGAIN}") from err
        if hashlib.sha256(data).hexdigest() != listed.sha256:
            raise _is_damaged(self.path / name)
        return data


def _mismatch(what: str, tensors: Sequence[Tensor], values: Sequence[npt.NDArray[Any]]) -> str | None:
    """Return how values differ from tensors in number, shape or dtype; None if they match."""
    if len(tensors) != len(values):
        return f"has {len(values)} {what}, and the package {len(tensors)}"
    for tensor, value in zip(tensors, values, strict=True):
        if (list(value.shape), value.dtype.name) != (tensor.shape, tensor.dtype):
            return f"{what}: {tensor.name} is {value.dtype}{list(value.shape)}, and not as the package has it"
    return None


class Compiled(Protocol):
    """The interface of `arm_ext.compile`'s result that functions with a package argument use."""

    @property
    def package(self) -> Package:
        """The package that was written."""


AnyPackage: TypeAlias = str | Path | Package | Compiled
"""A package in the Python API: its folder, the opened package, or the result of `compile`."""


def package_of(given: AnyPackage, *, bare: bool = False) -> Package:
    """Return the package for a path, a package, or the result of `compile`.

    Raises:
        UsageError: As `load_package`, if `given` is a path.
    """
    if isinstance(given, str | Path):
        return load_package(given, bare=bare)
    package = given if isinstance(given, Package) else getattr(given, "package", None)
    if not isinstance(package, Package):
        raise UsageError(f"{given!r} is not a package: pass its folder, or the result of compile")
    if not (bare and is_microcontroller(package.manifest.target.core)):
        _refuse_library(package.path, package.manifest)
    return package


def load_package(path: str | Path, *, bare: bool = False) -> Package:
    """Open a package folder.

    Args:
        path: The folder.
        bare: Whether a C library for a Cortex-M is opened, too, which emulated boards run.

    Raises:
        UsageError: The folder is no package, or one of another schema version, or a file was changed since it was
            written.
    """
    folder = Path(path)
    if (folder / MANIFEST).is_file() and any(folder.glob("lib*.a")):
        manifest = read_manifest(folder)
        if bare and manifest.library is not None and is_microcontroller(manifest.target.core):
            for file in manifest.files:
                _check_file(folder, file)
            return Package(folder, manifest)
        _refuse_library(folder, manifest)
    if not (folder / MANIFEST).is_file() or not (folder / SO).is_file():
        if not folder.exists():
            raise UsageError(f"{folder}: there is no such package; create one by arm-ext compile MODEL")
        make = f"arm-ext compile {folder}" if folder.is_file() else f"arm-ext compile MODEL -o {folder}"
        raise UsageError(f"{folder}: not a package (no {MANIFEST} and {SO}); make one with: {make}")
    manifest = read_manifest(folder)
    _listed(folder, manifest, SO)
    for file in manifest.files:
        _check_file(folder, file)
    _check_machine(folder / SO, manifest)
    return Package(folder, manifest)


def is_microcontroller(core: str) -> bool:
    """Whether a core, by its name in a manifest, is a Cortex-M."""
    return core in MICROCONTROLLERS


def _refuse_library(folder: Path, manifest: Manifest) -> None:
    if manifest.library is not None:
        raise _is_library(folder)


def _is_library(folder: Path) -> UsageError:
    return UsageError(
        f"{folder}: is a C library, which a C program runs (see {folder / 'example'}); boards run packages: "
        "compile the model without --emit c-library"
    )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a package, without checking the package's other files.

    Raises:
        UsageError: The manifest is missing, invalid, of another schema version, or of a C library with several models.
    """
    manifest = _parsed(folder / MANIFEST)
    if isinstance(manifest, LibraryManifest):
        raise _is_library(folder)
    return manifest


def read_report(folder: Path, record: type[_Report]) -> _Report:
    """Return report.json of a package or of a C library with one model, as a record.

    Raises:
        UsageError: The folder is none of these, or the file was changed since it was written.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder}: there is no package or C library; create one by arm-ext compile MODEL")
    manifest = _parsed(folder / MANIFEST)
    if isinstance(manifest, LibraryManifest):
        models = ", ".join(str(folder / Path(entry.report).parent) for entry in manifest.models)
        raise UsageError(f"{folder}: is a C library of several models; name the folder of one: {models}")
    file = next((each for each in manifest.files if Path(each.path).name == REPORT_JSON), None)
    path = folder / REPORT_JSON
    try:
        data = read_regular(path, most=_REPORT_BYTES)
    except UnreadableError as err:
        raise UsageError(f"{err}; {_AGAIN}") from err
    if file is not None and hashlib.sha256(data).hexdigest() != file.sha256:
        raise _is_damaged(path)
    return parsed(record, data, path, _AGAIN)


def read_files(folder: Path) -> list[PackageFile]:
    """Return the files that the manifest of a package or a library lists.

    Raises:
        UsageError: As `read_manifest`.
    """
    return _parsed(folder / MANIFEST).files


def _parsed(path: Path) -> Manifest | LibraryManifest:
    try:
        data = read_regular(path, most=_MANIFEST_BYTES)
    except UnreadableError as err:
        raise UsageError(str(err)) from err
    head = parsed(_Head, data, path, _AGAIN)
    version = head.schema_version
    if version not in (None, SCHEMA_VERSION):
        other = "an earlier" if version < SCHEMA_VERSION else "a later"
        raise UsageError(
            f"{path}: was written by {other} version of arm-ext (schema_version {version}, and this one reads "
            f"{SCHEMA_VERSION}); {_AGAIN}"
        )
    if head.models is None:
        return parsed(Manifest, data, path, _AGAIN)
    return parsed(LibraryManifest, data, path, _AGAIN)


class _Head(JsonRecord):
    """The fields of a manifest that decide how it is read."""

    schema_version: int | None = None
    models: Any = None


def _listed(folder: Path, manifest: Manifest, name: str) -> PackageFile:
    """Return the manifest's entry of a file."""
    found = next((file for file in manifest.files if file.path == name), None)
    if found is None:
        raise UsageError(f"{folder / name}: is not among the files in {folder / MANIFEST}; {_AGAIN}")
    return found


def _check_file(folder: Path, file: PackageFile) -> None:
    path = folder / file.path
    again = f"{_AGAIN}, with --force"
    if not path.exists():
        raise UsageError(f"{path}: is missing; {again}")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path}: is a link to a file outside the package; {again}")
    try:
        with open_regular(path, most=_REPORT_BYTES if file.path == REPORT_JSON else None) as opened:
            size = opened.seek(0, io.SEEK_END)
            opened.seek(0)
            is_same = size == file.bytes and hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256
    except UnreadableError as err:
        raise UsageError(f"{err}; {again}") from err
    if not is_same:
        raise _is_damaged(path)


def _is_damaged(path: Path) -> UsageError:
    return UsageError(f"{path}: is damaged, or not the one that was compiled; {_AGAIN}, with --force")


def _check_machine(so: Path, manifest: Manifest) -> None:
    """Refuse a model.so that is not a shared library, or is for another machine than the manifest's target."""
    try:
        machine = machine_of(so)
    except UnreadableError as err:
        raise UsageError(f"{err}; {_AGAIN}") from err
    expected = manifest.target.triple.partition("-")[0]
    if machine != expected:
        raise UsageError(f"{so}: is for {machine}, but {MANIFEST} says {expected}; {_AGAIN}")


def is_package_name(path: Path) -> bool:
    """Whether the first component of a path is a name that packages use."""
    names = (SO, MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST)
    first = path.parts[0]  # a user may have created a folder of this name
    return first in (NPU, LEVELS, *names) or bool(re.fullmatch(r"selftest_.*\.npz", first))


def list_files(folder: Path) -> list[PackageFile]:
    """Return manifest entries for the files in a package's folder, except the manifest."""
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
