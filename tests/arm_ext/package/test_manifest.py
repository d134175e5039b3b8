# SPDX-License-Identifier: Apache-2.0
"""Manifests that somebody else wrote."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from arm_ext.package.manifest import Manifest
from tests.arm_ext.packages import document

HASH = "0" * 64


def tensor(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "x", "shape": [2], "dtype": "float32", **changes}]


def region(**changes: Any) -> dict[str, Any]:
    file = {"path": "npu/region-0.payload", "sha256": HASH}
    memory = dict.fromkeys(("weight_bytes", "scratch_bytes", "fast_bytes", "copied_bytes"), 0)
    return {
        "payload": file,
        "tosa": file,
        "values": file,
        "sources": [],
        "inputs": tensor(dtype="int8"),
        "outputs": tensor(dtype="int8"),
        "macs": 0,
        "cycles": 0,
        "memory": {**memory, "peak_bytes": {}},
        **changes,
    }


def npu(**changes: Any) -> dict[str, Any]:
    texts = dict.fromkeys(("accelerator", "vela", "tosa_tools", "system_config", "memory_mode"), "")
    return {"npu": {**texts, "on_error": "fallback", "arena_bytes": 0, "regions": [region(**changes)]}}


def listed(*paths: str) -> dict[str, Any]:
    return {"files": [{"path": path, "bytes": 0, "sha256": HASH} for path in paths]}


STATE = {"input": "x", "output": "y", "shape": [2], "dtype": "float32", "initial": "zeros"}

WRONG = [
    ("a size of 2^60", {"inputs": tensor(shape=[1 << 60])}, "less than"),
    ("sizes of 2^60 together", {"inputs": tensor(shape=[1 << 30, 1 << 30])}, "would take"),
    ("a negative size", {"inputs": tensor(shape=[-1])}, "greater than or equal to 0"),
    ("a size of text", {"inputs": tensor(shape=["2"])}, "valid integer"),
    ("a size that is a truth", {"inputs": tensor(shape=[True])}, "valid integer"),
    ("a rank of 33", {"inputs": tensor(shape=[1] * 33)}, "at most 32"),
    ("objects", {"inputs": tensor(dtype="object")}, "is not an element type"),
    ("text", {"inputs": tensor(dtype="U8")}, "is not an element type"),
    ("an input twice", {"inputs": tensor() * 2}, "an input twice"),
    ("no output", {"outputs": []}, "at least 1"),
    ("open sizes of another rank", {"inputs": tensor(open=["n<=3", ""])}, "says of 2 sizes"),
    ("a batch of one value", {"inputs": tensor(batch="n", shape=[])}, "no batch"),
    ("a path outside", listed("../../etc/passwd"), "within the package"),
    ("an absolute path", listed("/etc/passwd"), "within the package"),
    ("a path of several forms", listed("npu//region-0.tosa"), "within the package"),
    ("a path that is a folder", listed("."), "within the package"),
    ("a path that cannot be", listed("a\0b"), "within the package"),
    ("a file twice", listed("model.so", "model.so"), "a file twice"),
    ("a file without a hash", {"files": [{"path": "f", "bytes": 0, "sha256": "x"}]}, "match pattern"),
    ("a region's file outside", npu(payload={"path": "../p", "sha256": HASH}), "within the package"),
    ("a region's file that is not listed", npu(), "not among the files"),
    ("a state that is no input", {"states": [{**STATE, "input": "z"}]}, "not the last"),
    ("a state of another shape", {"states": [{**STATE, "shape": [3]}]}, "not the last"),
    ("more states than inputs", {"states": [STATE, STATE]}, "not the last"),
    ("a bound without end", {"check": {"relative_bound": float("inf"), "reason": ""}}, "finite"),
    ("a negative bound", {"check": {"relative_bound": -1.0, "reason": ""}}, "greater than or equal to 0"),
    ("a negative count", {"macs": -1}, "greater than or equal to 0"),
    ("a count beyond 63 bits", {"macs": 1 << 63}, "less than"),
    ("an option for a CPU", {"target": {**document()["target"], "qemu_cpu": "-plugin=x"}}, "match pattern"),
    ("an unknown field", {"surprise": 1}, "not permitted"),
]


@pytest.mark.parametrize(("changes", "says"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_cannot_be_is_refused(changes: dict[str, Any], says: str):
    with pytest.raises(ValidationError, match=says):
        Manifest.model_validate_json(json.dumps(document(**changes)))


def test_what_can_be_is_taken():
    changes = {**npu(), **listed("npu/region-0.payload"), "states": [STATE]}
    manifest = Manifest.model_validate_json(json.dumps(document(**changes)))
    assert manifest.states[0].input == "x"
