# SPDX-License-Identifier: Apache-2.0
"""Writing of a package's folder `npu`: payload, TOSA graph and self-test values of each region."""

import hashlib
import importlib.metadata
from collections.abc import Iterable, Sequence
from pathlib import Path

from arm_ext.ethosu.ops.common.operators import RunTimeTensor
from arm_ext.ethosu.partition.divider import Offloaded
from arm_ext.ethosu.partition.offload import Region
from arm_ext.ethosu.payload import Payload
from arm_ext.package import NPU, RegionValues, manifest
from arm_ext.report.npu import NpuRegion


def write_regions(
    folder: Path, divided: Sequence[Offloaded], values: Sequence[RegionValues], inside: Path
) -> manifest.Npu:
    """Write the files of all regions into a package's folder, and return the NPU part of the manifest.

    Args:
        folder: The package folder.
        divided: The regions and their report, for each of the package's shapes.
        values: Inputs and outputs of each region in the self-test.
        inside: Where in it the files are: nowhere below in a package, below a model's folder in a library of several.
    """
    pairs = [pair for each in divided for pair in zip(each.offload.regions, each.report.regions, strict=True)]
    if pairs:  # an empty folder would prevent the next package from being written there
        (folder / inside / NPU).mkdir()
    regions = [
        _written(folder, str(inside / NPU / f"region-{number}"), *pair, found)
        for number, (pair, found) in enumerate(zip(pairs, values, strict=True))
    ]
    (first, *_) = divided
    return manifest.Npu(
        accelerator=first.report.accelerator,
        on_error=first.options.on_npu_error,
        arena_bytes=_arena([region.compiled.payload for region, _ in pairs]),
        vela=first.report.vela,
        tosa_tools=importlib.metadata.version("tosa-tools"),
        system_config=first.report.system_config,
        memory_mode=first.report.memory_mode,
        regions=regions,
    )


def _written(
    folder: Path, stem: str, region: Region, row: NpuRegion, values: RegionValues
) -> manifest.NpuRegion:
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
            copied_bytes=sum(tensor.size for tensor in (*payload.inputs, *payload.outputs)),
            peak_bytes={memory.name: memory.peak_bytes for memory in row.memories},
        ),
    )


def _arena(payloads: Iterable[Payload]) -> int:
    """Return the size in bytes of all writable memory areas, as maxima over the regions, without the NPU's own SRAM."""
    sizes: dict[int, int] = {}
    for area in (area for payload in payloads for area in payload.regions):
        if area.kind not in ("weights", "fast"):
            sizes[area.number] = max(area.size, sizes.get(area.number, 0))
    return sum(sizes.values())


def _file(folder: Path, name: str, content: bytes) -> manifest.NpuFile:
    (folder / name).write_bytes(content)
    return manifest.NpuFile(path=name, sha256=hashlib.sha256(content).hexdigest())


def _tensor(tensor: RunTimeTensor) -> manifest.Tensor:
    return manifest.Tensor(name=tensor.name, shape=list(tensor.shape), dtype=tensor.dtype)
