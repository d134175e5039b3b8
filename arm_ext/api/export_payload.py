# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.export_payload`: writes a package's payloads as files and C sources, for boards without an OS."""

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from arm_ext.common.errors import UsageError
from arm_ext.common.output_folder import OutputFolder
from arm_ext.common.outputs import refuse_inside
from arm_ext.ethosu.export import c_sources
from arm_ext.ethosu.payload import Payload
from arm_ext.package import AnyPackage, package_of

SCHEMA_VERSION: Literal[1] = 1


class ExportedFile(BaseModel):
    """A file that was written; its path is relative to the output folder."""

    model_config = ConfigDict(frozen=True)

    path: str
    bytes: int
    sha256: str


class ExportReport(BaseModel):
    """The files that an export wrote, and the accelerator that they are for."""

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[1] = SCHEMA_VERSION
    accelerator: str
    regions: int
    files: tuple[ExportedFile, ...]


def export_payload(package: AnyPackage, output: str | Path, *, force: bool = False) -> ExportReport:
    """Write the payloads of a package for bare metal.

    Args:
        package: Folder, opened package, or what `compile` returned.
        output: A folder, made if need be; files that an export has written there are replaced.
        force: Whether files of an earlier export are replaced even if they were changed.

    Raises:
        UsageError: There is no such package, it has no region for an NPU, the folder cannot be written, or has files
            of the user's by these names.
        EnvError: The disk is full.
    """
    folder = OutputFolder(output, "-o", force=force)
    opened = package_of(package)
    refuse_inside(Path(output), "-o", opened.path)
    npu = opened.manifest.npu
    if npu is None:
        raise UsageError(f"{opened.path}: was compiled without --npu, so it has no payload")
    if not npu.regions:
        raise UsageError(f"{opened.path}: no part of it runs on the NPU; report.txt has the reasons")
    payloads = [Payload.from_bytes(opened.read(region.payload.path)) for region in npu.regions]
    model = c_sources.identifier(opened.manifest.model.name)
    contents = {
        f"{model}_npu.h": c_sources.header(model, npu.accelerator, payloads).encode(),
        f"{model}_npu.c": c_sources.source(model, payloads).encode(),
        f"{model}_npu_data.S": c_sources.data(model, payloads).encode(),
    }
    for number, payload in enumerate(payloads):
        for part, content in c_sources.parts(payload):
            contents[f"{c_sources.region_name(model, number)}_{part}.bin"] = content
    folder.write_all(contents)
    return ExportReport(
        accelerator=npu.accelerator,
        regions=len(payloads),
        files=tuple(
            ExportedFile(path=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
            for name, content in contents.items()
        ),
    )
