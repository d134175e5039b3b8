# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext import digits
from arm_ext.cli import invoke
from arm_ext.errors import UsageError
from arm_ext.package import load_package
from arm_ext.quant.frontend import Importer
from tests.arm_ext.frontends.tflite.cases import EXACT, SCALES
from tests.arm_ext.models import mlp, residual_cnn


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.random.default_rng(6).standard_normal((8, 1, 3, 9, 7), dtype=np.float32))
    return path


def test_model_keeps_the_float_ones_identity_and_nodes(samples: Path):
    source = residual_cnn()
    importer = Importer(source, samples=samples)
    imported, calibration = importer({}), importer.calibration
    assert calibration is not None
    assert imported.quantized
    assert imported.name == source.graph.name
    assert imported.sha256 == hashlib.sha256(source.SerializeToString()).hexdigest()
    floats = [node.name for node in source.graph.node]
    assert list(imported.nodes)[: len(floats)] == floats
    assert set(list(imported.nodes.values())[len(floats) :]) == {"QuantizeLinear", "DequantizeLinear"}
    assert calibration.model_dump() == {
        "method": "minmax",
        "samples": 8,
        "sha256": hashlib.sha256(samples.read_bytes()).hexdigest(),
    }


def test_compile_records_the_calibration(tmp_path: Path, samples: Path):
    result = arm_ext.compile(
        residual_cnn(), output=tmp_path / "p", quantize=samples, calibration="percentile"
    )
    manifest = load_package(tmp_path / "p").manifest
    assert manifest.model.calibration is not None
    assert (manifest.model.calibration.method, manifest.model.calibration.samples) == ("percentile", 8)
    rows = {row.source: row.where for row in result.report.nodes}
    assert rows["conv"] == "cpu"
    assert rows["relu"] == "folded"


def test_two_compiles_are_byte_identical(tmp_path: Path, samples: Path):
    for name in ("a", "b"):
        arm_ext.compile(residual_cnn(), output=tmp_path / name, quantize=samples)
    first, second = ({f.name: f.read_bytes() for f in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert first == second


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    arguments = ["--quantize", str(digits.HELD_OUT), "--calibration", "minmax", "--json"]
    assert invoke(["compile", str(digits.model_path("fp32")), *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["manifest"]["model"]["calibration"]["samples"] == 360
    assert document["manifest"]["model"]["name"] == "digits_fp32"


def test_missing_samples_are_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["compile", str(digits.model_path("fp32")), "-o", str(tmp_path / "p")]
    assert invoke([*arguments, "--quantize", str(tmp_path / "nowhere.npz")]) == 2
    assert "nowhere.npz: no such file" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_float_model_has_no_calibration(tmp_path: Path):
    assert arm_ext.compile(mlp(), output=tmp_path / "p").package.manifest.model.calibration is None


def test_tflite_is_refused(tmp_path: Path, samples: Path):
    path = tmp_path / "model.tflite"
    path.write_bytes(EXACT["reshape"](SCALES["pow2"]))
    with pytest.raises(UsageError, match=r"model\.tflite: --quantize takes ONNX, and this is TFLite"):
        arm_ext.compile(path, output=tmp_path / "p", quantize=samples)
    assert not (tmp_path / "p").exists()
