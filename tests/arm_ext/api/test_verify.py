# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext import NpuOptions
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.payload import Payload
from arm_ext.package import MANIFEST, RegionValues
from tests.arm_ext import npu_models
from tests.arm_ext.packages import relist


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = NpuOptions("ethos-u65-256", npu_ops=("conv2d", "depthwise_conv2d", "softmax"))
    output = tmp_path_factory.mktemp("verified") / "p"
    arm_ext.compile(npu_models.mixed(), "cortex-a55", output, npu=options)
    return output


def altered(package: Path, kind: str, change: Callable[[bytes], bytes], to: Path) -> Path:
    """A copy whose first region has another file of a kind, and a manifest that agrees."""
    shutil.copytree(package, to)
    file = to / json.loads((to / MANIFEST).read_text())["npu"]["regions"][0][kind]["path"]
    file.write_bytes(change(file.read_bytes()))
    relist(to)
    return to


def other_place(data: bytes) -> bytes:
    """Its input is written beside where the commands read it."""
    payload = Payload.from_bytes(data)
    first, *rest = payload.inputs
    moved = replace(first, offset=first.offset - 16 if first.offset else 16)
    return replace(payload, inputs=(moved, *rest)).to_bytes()


def truncated(data: bytes) -> bytes:
    """Its weights end early."""
    payload = Payload.from_bytes(data)
    regions = tuple(replace(r, size=16) if r.kind == "weights" else r for r in payload.regions)
    return replace(payload, regions=regions, weights=payload.weights[:16]).to_bytes()


def other_output(data: bytes) -> bytes:
    values = RegionValues.from_bytes(data)
    values.outputs[0].reshape(-1)[0] += np.int8(1)
    return values.to_bytes()


def test_payload_reference_model_and_cpu_agree(package: Path):
    report = arm_ext.verify(package)
    assert report.equal
    assert len(report.regions) == 2
    for region in report.regions:
        runs = {run.inputs: run for run in region.runs}
        assert list(runs) == ["self-test", "random", "least", "greatest"]
        assert runs["self-test"].cpu_differs == 0
        assert all(run.bytes > 0 for run in region.runs)
    assert "silicon" in report.proves_not


def test_a_payload_that_computes_something_else_is_a_defect(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    bad = altered(package, "payload", other_place, tmp_path / "p")
    assert invoke(["verify", str(bad), "--npu"]) == 4
    captured = capsys.readouterr()
    assert "DIFFER" in captured.out
    assert "NOT equal" in captured.out
    assert "computes wrong values" in captured.err


def test_a_malformed_payload_is_named(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bad = altered(package, "payload", truncated, tmp_path / "p")
    assert invoke(["verify", str(bad), "--npu"]) == 4
    assert "npu/region-0.payload: " in capsys.readouterr().err


def test_a_cpu_that_computes_something_else_is_seen(package: Path, tmp_path: Path):
    report = arm_ext.verify(altered(package, "values", other_output, tmp_path / "p"))
    assert [run.cpu_differs for run in report.regions[0].runs] == [1, None, None, None]
    assert [run.reference_differs for run in report.regions[0].runs] == [0, 0, 0, 0]
    assert not report.equal


def test_stdout_is_the_result_alone(package: Path, capfd: pytest.CaptureFixture[str]):
    assert invoke(["verify", str(package), "--npu", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["schema_version"], document["accelerator"]) == (1, "ethos-u65-256")


def test_an_altered_file_is_refused(package: Path, tmp_path: Path):
    shutil.copytree(package, tmp_path / "p")
    file = tmp_path / "p/npu/region-0.payload"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UsageError, match=r"region-0\.payload: is damaged, or not the one that was compiled"):
        arm_ext.verify(tmp_path / "p")
    file.unlink()
    with pytest.raises(UsageError, match=r"region-0\.payload: is missing"):
        arm_ext.verify(tmp_path / "p")


def test_a_package_without_npu_is_refused(digits_package: Path):
    with pytest.raises(UsageError, match="was compiled without npu"):
        arm_ext.verify(digits_package)


def test_what_to_verify_must_be_said(package: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["verify", str(package)]) == 2
    assert "--npu" in capsys.readouterr().err
