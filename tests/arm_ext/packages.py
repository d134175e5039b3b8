# SPDX-License-Identifier: Apache-2.0
"""Packages of which nothing is compiled."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.package import MANIFEST, REPORT_TEXT, SELFTEST, SO, Selftest, list_files, write_manifest
from arm_ext.package.manifest import Manifest

# The first bytes of a shared library for aarch64.
LIBRARY = b"\x7fELF\x02\x01" + bytes(10) + bytes([3, 0, 183, 0])
_MEMORY = {"peak_activation_bytes": 8, "workspace_bytes": 0, "weight_bytes": 0, "widest": []}


def document(**changes: Any) -> dict[str, Any]:
    """A manifest of y = f(x), both of two floats."""
    return {
        "schema_version": 2,
        "files": [],
        "model": {"name": "m", "format": "onnx", "sha256": "0" * 64},
        "inputs": [{"name": "x", "shape": [2], "dtype": "float32"}],
        "outputs": [{"name": "y", "shape": [2], "dtype": "float32"}],
        "target": {
            "profile": "arm",
            "core": "generic",
            "triple": "aarch64-linux-gnu",
            "cpu": "generic",
            "features": ["dotprod"],
            "qemu_cpu": "cortex-a76",
            "mca_cpu": "cortex-a76",
        },
        "versions": {
            "arm_ext": "0",
            "tvm": "0",
            "tvm_ffi": "0",
            "llvm": "0",
            "linker": {"name": "l", "version": "0"},
        },
        "memory": _MEMORY,
        "macs": 0,
        "check": {"relative_bound": 1e-4, "reason": "r"},
        **changes,
    }


def fill(folder: Path, text: str = "report", **changes: Any) -> None:
    """Write the files of a package into a folder that is there."""
    (folder / SO).write_bytes(LIBRARY)
    (folder / REPORT_TEXT).write_text(text)
    two = np.zeros(2, np.float32)
    Selftest([two], [two], [two], "none").save(folder / SELFTEST)
    manifest = Manifest.model_validate(document(**changes))
    write_manifest(folder, manifest.model_copy(update={"files": list_files(folder)}))


def relist(folder: Path) -> None:
    """Make a manifest agree with the files of its package that were altered."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"] = [file.model_dump() for file in list_files(folder)]
    hashes = {file["path"]: file["sha256"] for file in manifest["files"]}
    for region in (manifest.get("npu") or {"regions": []})["regions"]:
        for kind in ("payload", "tosa", "values"):
            region[kind]["sha256"] = hashes[region[kind]["path"]]
    (folder / MANIFEST).write_text(json.dumps(manifest))
