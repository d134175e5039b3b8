# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import arm_ext
from arm_ext.api.schema import DOCUMENTS, Document
from arm_ext.common.errors import UsageError
from arm_ext.package import MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST, SO, Selftest, load_package
from arm_ext.package.manifest import Manifest
from arm_ext.report.report import CompileReport
from tests.arm_ext.packages import LIBRARY, fill, relist


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_field_says_what_it_means(name: Document):
    schema: dict[str, Any] = arm_ext.schema(name)
    records = {schema["title"]: schema, **schema["$defs"]}
    silent = [
        f"{name}.{field}"
        for name, record in records.items()
        for field, about in record.get("properties", {}).items()
        if not about.get("description") and f"{field}: " not in record.get("description", "")
    ]
    assert not silent


def test_selftest_survives_a_round_trip(tmp_path: Path):
    arrays = [np.arange(i + 1, dtype=np.int8) for i in range(11)]
    Selftest(arrays[:1], arrays, [], "onnxruntime 1").save(tmp_path / "s.npz")
    loaded = Selftest.load(tmp_path / "s.npz")
    # More than ten, so that an order by name would show.
    assert [len(a) for a in loaded.expected] == list(range(1, 12))
    assert (loaded.source, loaded.source_runtime) == ([], "onnxruntime 1")
    np.testing.assert_array_equal(loaded.inputs[0], arrays[0])


def test_unknown_schema_version_is_refused(tmp_path: Path):
    (tmp_path / SO).write_bytes(b"")
    (tmp_path / MANIFEST).write_text('{"schema_version": 3}')
    with pytest.raises(UsageError, match=r"by a later version .*schema_version"):
        load_package(tmp_path)


def test_manifest_of_a_compile_fits_the_schema(digits_package: Path):
    document = json.loads((digits_package / MANIFEST).read_text())
    jsonschema.validate(document, arm_ext.schema("manifest"))
    assert Manifest.model_validate(document).model_dump(mode="json") == document


def package(folder: Path, **arrays: np.ndarray) -> Path:
    """A package whose self-test has these arrays; its manifest agrees."""
    fill(folder)
    runtime = {"source_runtime": np.array("none")}
    np.savez_compressed(folder / SELFTEST, **runtime, **arrays)
    relist(folder)
    return folder


X = np.zeros(2, np.float32)
SELFTESTS = [
    ("nothing expected", {"input_0": X}, "has 0 expected outputs, and the package 1"),
    ("no input", {"expected_0": X}, "has 0 inputs, and the package 1"),
    ("another shape", {"input_0": X, "expected_0": X[:1]}, r"expected outputs: y is float32\[1\]"),
    ("another type", {"input_0": X.astype("d"), "expected_0": X}, "inputs: x is float64"),
    ("one too many", {"input_0": X, "expected_0": X, "expected_1": X}, "has 2 expected outputs"),
    ("numbers with gaps", {"input_0": X, "expected_0": X, "expected_2": X}, "cannot be read"),
    ("of another kind", {"input_0": X, "expected_0": X, "surprise_0": X}, "cannot be read"),
    ("far too large", {"input_0": X, "expected_0": np.zeros(1 << 20, "f")}, "but it can hold at most"),
]


@pytest.mark.parametrize(("arrays", "says"), [case[1:] for case in SELFTESTS], ids=[c[0] for c in SELFTESTS])
def test_a_selftest_that_compares_something_else_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], says: str
):
    opened = load_package(package(tmp_path, **arrays))
    with pytest.raises(UsageError, match=says):
        opened.selftest()


@pytest.mark.parametrize("name", [SO, REPORT_TEXT, SELFTEST])
def test_a_file_that_is_altered_missing_or_a_link_is_refused(tmp_path: Path, name: str):
    (tmp_path / "p").mkdir()
    path = package(tmp_path / "p", input_0=X, expected_0=X) / name
    load_package(tmp_path / "p")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    with pytest.raises(UsageError, match=f"{name}: is damaged"):
        load_package(tmp_path / "p")
    path.unlink()
    (tmp_path / "outside").write_bytes(content)
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match=f"{name}: is a link to a file outside the package"):
        load_package(tmp_path / "p")
    if name != SO:
        path.unlink()
        with pytest.raises(UsageError, match=f"{name}: is missing"):
            load_package(tmp_path / "p")


def test_a_manifest_that_is_too_large_is_not_read(tmp_path: Path):
    fill(tmp_path)
    with (tmp_path / MANIFEST).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="the most that such a file gets"):
        load_package(tmp_path)


def test_what_is_read_of_a_package_is_what_was_checked(tmp_path: Path):
    opened = load_package(package(tmp_path, input_0=X, expected_0=X))
    opened.selftest()
    np.savez(tmp_path / SELFTEST, source_runtime=np.array("none"), input_0=X + 1, expected_0=X)
    with pytest.raises(UsageError, match=f"{SELFTEST}: "):
        opened.selftest()


def _with_report(folder: Path, report: bytes) -> Path:
    fill(folder)
    (folder / REPORT_JSON).write_bytes(report)
    relist(folder)
    return folder


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (b"hello", "document: Invalid JSON"),
        (b"[]", "document: Input should be an object"),
        (b"[" * 100_000, "recursion limit"),
        (b'{"macs": NaN}', "Field required|macs"),
        (b'{"nodes": [' + b"{}," * 1_000_000 + b"{}]}", "Field required"),
    ],
    ids=["text", "list", "deep", "nan", "many faults"],
)
def test_a_report_of_garbage_is_refused(tmp_path: Path, report: bytes, says: str):
    opened = load_package(_with_report(tmp_path, report))
    with pytest.raises(UsageError, match=rf"report\.json: .*{says}"):
        opened.report(CompileReport)


def test_a_package_without_a_report_has_none(tmp_path: Path):
    fill(tmp_path)
    with pytest.raises(UsageError, match=r"report\.json: is not among the files"):
        load_package(tmp_path).report(CompileReport)


def test_a_report_that_is_too_large_is_not_read(tmp_path: Path):
    fill(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["files"].append({"path": REPORT_JSON, "bytes": 1 << 40, "sha256": "0" * 64})
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with (tmp_path / REPORT_JSON).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match=r"report\.json: has .* the most that such a file gets"):
        load_package(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"hello", "is not a shared library"),
        (LIBRARY[:16] + bytes([2, 0, 183, 0]), "is not a shared library"),
        (LIBRARY[:16] + bytes([3, 0, 62, 0]), "is for x86_64, but manifest.json says aarch64"),
    ],
    ids=["text", "program", "other machine"],
)
def test_a_model_so_that_is_something_else_is_refused(tmp_path: Path, content: bytes, says: str):
    fill(tmp_path)
    (tmp_path / SO).write_bytes(content)
    relist(tmp_path)
    with pytest.raises(UsageError, match=rf"model\.so: {says}"):
        load_package(tmp_path)


@pytest.mark.parametrize("keep", [[], [SELFTEST, REPORT_TEXT]])
def test_a_manifest_without_model_so_is_refused(tmp_path: Path, keep: list[str]):
    fill(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["files"] = [file for file in manifest["files"] if file["path"] in keep]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"model\.so: is not among the files in .*manifest\.json"):
        load_package(tmp_path)
