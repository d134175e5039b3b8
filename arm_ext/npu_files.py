# SPDX-License-Identifier: Apache-2.0
"""A package's folder `npu`: of each region its payload, its TOSA graph, and its values in the self-test."""

import hashlib
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tvm

from arm_ext import manifest
from arm_ext.ethosu.offload import Offload, Region
from arm_ext.ethosu.operators import Tensor
from arm_ext.npu_report import NpuRegion, NpuReport
from arm_ext.package import RegionValues
from arm_ext.region_values import region_values

FOLDER = "npu"


@dataclass(frozen=True)
class Offloaded:
    """What of a model runs on the NPU.

    Attributes:
        offload: The regions.
        report: The part of the report.
        integer: The graph that was divided.
    """

    offload: Offload
    report: NpuReport
    integer: tvm.IRModule

    def write(self, folder: Path, inputs: Sequence[npt.NDArray[Any]]) -> manifest.Npu:
        """Write the files of all regions into a package's folder, and return the part of its manifest.

        Args:
            folder: The package's.
            inputs: Of the self-test.
        """
        (folder / FOLDER).mkdir()
        values = region_values(self.integer, [region.part for region in self.offload.regions], inputs)
        regions = [
            _written(folder, number, *parts)
            for number, parts in enumerate(
                zip(self.offload.regions, self.report.regions, values, strict=True)
            )
        ]
        return manifest.Npu(
            accelerator=self.report.accelerator,
            vela=self.report.vela,
            tosa_tools=importlib.metadata.version("tosa-tools"),
            system_config=self.report.system_config,
            memory_mode=self.report.memory_mode,
            regions=regions,
        )


def _written(
    folder: Path, number: int, region: Region, row: NpuRegion, values: RegionValues
) -> manifest.NpuRegion:
    stem = f"{FOLDER}/region-{number}"
    payload = region.compiled.payload
    return manifest.NpuRegion(
        payload=_file(folder, f"{stem}.payload", payload.to_bytes()),
        tosa=_file(folder, f"{stem}.tosa", region.tosa),
        values=_file(folder, f"{stem}.npz", values.to_bytes()),
        sources=list(row.sources),
        inputs=[_tensor(tensor) for tensor in region.part.inputs],
        outputs=[_tensor(tensor) for tensor in region.part.outputs],
        macs=row.macs,
        cycles=row.cycles,
        memory=manifest.NpuMemory(
            weight_bytes=payload.region_size("weights"),
            scratch_bytes=payload.region_size("scratch"),
            fast_bytes=payload.region_size("fast"),
            peak_bytes={memory.name: memory.peak_bytes for memory in row.memories},
        ),
    )


def _file(folder: Path, name: str, content: bytes) -> manifest.NpuFile:
    (folder / name).write_bytes(content)
    return manifest.NpuFile(path=name, sha256=hashlib.sha256(content).hexdigest())


def _tensor(tensor: Tensor) -> manifest.Tensor:
    return manifest.Tensor(name=tensor.name, shape=list(tensor.shape), dtype=tensor.dtype)
