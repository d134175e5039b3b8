# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from ai_edge_litert import schema_py_generated as schema
from torch import nn

import arm_ext
from arm_ext.api import digits
from arm_ext.cli import invoke
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.load import import_model
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.package import REPORT_JSON, REPORT_TEXT, load_package
from arm_ext.quantization.accuracy import LEAST_SQNR_DB
from arm_ext.quantization.quantize_model import QuantizingImporter
from tests.arm_ext.frontends.stablehlo.models import text
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.tflite.cases import EXACT, SCALES
from tests.arm_ext.models import mlp, residual_cnn


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.random.default_rng(6).standard_normal((8, 1, 3, 9, 7), dtype=np.float32))
    return path


def test_model_keeps_the_float_ones_identity_and_nodes(samples: Path):
    source = residual_cnn()
    importer = QuantizingImporter(source, samples=samples)
    imported, calibration = importer({}), importer.calibration
    assert calibration is not None
    assert imported.quantized
    assert imported.name == source.graph.name
    assert imported.sha256 == hashlib.sha256(source.SerializeToString()).hexdigest()
    floats = [node.name for node in source.graph.node]
    assert list(imported.nodes)[: len(floats)] == floats
    assert set(list(imported.nodes.values())[len(floats) :]) == {"QuantizeLinear", "DequantizeLinear"}
    assert (calibration.method, calibration.samples, calibration.compared) == ("minmax", 8, 8)
    assert calibration.sha256 == hashlib.sha256(samples.read_bytes()).hexdigest()
    assert calibration.largest == {"x": pytest.approx(np.abs(np.load(samples)["x"]).max(), rel=1e-3)}
    assert [each.output for each in calibration.distance] == [value.name for value in source.graph.output]
    assert all(each.sqnr_db > LEAST_SQNR_DB for each in calibration.distance)


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


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Samples of a thousandth of the size that they should have."""
    path = tmp_path / "small.npz"
    np.savez(path, image=digits.held_out()[0][:8] / 1000)
    return path


def test_wrongly_scaled_samples_are_told_at_once_and_whenever_the_package_is_checked(
    tmp_path: Path, small: Path, capsys: pytest.CaptureFixture[str]
):
    model, folder = str(digits.model_path("fp32")), tmp_path / "p"
    assert invoke(["compile", model, "-o", str(folder), "--quantize", str(small)]) == 0
    compiled = capsys.readouterr()
    expected = r"warning: far from the float model on the self-test's .*SQNR of .* \(bound 10 dB\).* samples is wrong"
    assert re.search(expected, compiled.err)
    assert "dB SQNR against the float model on 8 calibration samples" in compiled.out
    assert "WARNING: far from the float model" in (folder / REPORT_TEXT).read_text()
    (warning,) = json.loads((folder / REPORT_JSON).read_text())["warnings"]
    assert invoke(["run", str(folder), "--check"]) == 0
    checked = capsys.readouterr()
    assert warning in checked.err
    assert re.search(r"^ +float model +\S+ +100 % ", checked.out, re.MULTILINE)
    result = arm_ext.run(load_package(folder), check=True)
    assert result.warnings == (warning,)
    assert result.checks[0].expected.exact
    assert result.checks[0].float_model is not None
    assert result.checks[0].float_model.relative > 0.5


def test_samples_that_suit_the_model_raise_no_warning(tmp_path: Path):
    samples = tmp_path / "samples.npz"
    np.savez(samples, image=digits.held_out()[0][:32])
    result = arm_ext.compile(digits.model_path("fp32"), "host", tmp_path / "p", quantize=samples)
    calibration = result.package.manifest.model.calibration
    assert result.report.warnings == ()
    assert calibration is not None
    assert calibration.distance[0].sqnr_db > 25
    assert len(result.package.selftest().floats) == 1


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


def test_a_quantised_tflite_model_is_refused(tmp_path: Path, samples: Path):
    path = tmp_path / "model.tflite"
    path.write_bytes(EXACT["reshape"](SCALES["pow2"]))
    with pytest.raises(UsageError, match=r"model: is quantised already; leave quantize out"):
        arm_ext.compile(path, output=tmp_path / "p", quantize=samples)
    assert not (tmp_path / "p").exists()


def _torch_file(folder: Path) -> Path:
    torch.manual_seed(1)
    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()),
        *(nn.Conv2d(16, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)),
    )
    path = folder / "net.pt2"
    torch.export.save(torch.export.export(net.eval(), (torch.randn(1, 3, 9, 7),)), path)
    return path


def _tflite_file(folder: Path) -> Path:
    rng, m = np.random.default_rng(2), TfliteBuilder()
    weights = rng.standard_normal((16, 3, 3, 3)).astype(np.float32)
    given = [
        m.take("float32", 1, 9, 7, 3),
        m.hold(weights, "float32"),
        m.hold(np.ones(16, np.float32), "float32"),
    ]
    y = m.tensor("float32", 1, 9, 7, 16)
    m.op(
        "CONV_2D",
        given,
        [y],
        padding=schema.Padding.SAME,
        strideH=1,
        strideW=1,
        dilationHFactor=1,
        dilationWFactor=1,
    )
    path = folder / "net.tflite"
    path.write_bytes(m.build(y))
    return path


def _stablehlo_file(folder: Path) -> Path:
    weights = np.random.default_rng(3).standard_normal((16, 5)).astype(np.float32)
    path = folder / "net.mlir"
    path.write_bytes(text(lambda x: jax.nn.relu(x @ weights), [np.zeros((1, 16), np.float32)]))
    return path


@pytest.mark.parametrize(
    ("write", "shape", "node"),
    [
        (_torch_file, (1, 3, 9, 7), "3/conv2d"),
        (_tflite_file, (1, 9, 7, 3), ""),
        (_stablehlo_file, (1, 16), ""),
    ],
)
def test_models_of_other_formats_are_quantised(
    tmp_path: Path, write: Callable[[Path], Path], shape: tuple[int, ...], node: str
):
    model = write(tmp_path)
    (name,) = (spec.name for spec in import_model(model).inputs)
    data = np.random.default_rng(6).standard_normal((8, *shape), dtype=np.float32)
    np.savez(tmp_path / "samples.npz", **{name: data})
    result = arm_ext.compile(model, "cortex-a76", tmp_path / "p", quantize=tmp_path / "samples.npz")
    calibration = result.package.manifest.model.calibration
    assert calibration is not None
    assert calibration.distance[0].sqnr_db > 25
    assert result.package.manifest.model.format == import_model(model).format
    kernels = {kernel.symbol: kernel for kernel in result.report.kernels}
    assert {kernels[call.symbol].numerics for call in result.report.calls if call.macs} == {"qdq"}
    assert node in {"", *(row.source for row in result.report.nodes)}
    # A bias is part of its convolution.
    assert not [kernel for kernel in kernels.values() if kernel.kernel == "broadcast_s8"]
    # What quantize writes is compared with the file that it was made of, on any samples.
    arm_ext.quantize(model, tmp_path / "samples.npz", tmp_path / "q.onnx")
    report = arm_ext.accuracy(tmp_path / "q.onnx", model, tmp_path / "samples.npz")
    assert report.outputs[0].integers.sqnr_db > 25


def test_a_loop_that_is_not_written_as_onnx_is_named(tmp_path: Path):
    def grow(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda s: jnp.sum(s) < 100, lambda s: 2 * s + 1, x)

    model = tmp_path / "net.mlir"
    model.write_bytes(text(grow, [np.zeros((1, 16), np.float32)]))
    np.savez(
        tmp_path / "samples.npz", **{import_model(model).inputs[0].name: np.zeros((2, 1, 16), np.float32)}
    )
    with pytest.raises(
        ModelError, match=r"loops \(stablehlo.while '.*'\), which are not written as ONNX: unroll"
    ):
        arm_ext.quantize(model, tmp_path / "samples.npz", tmp_path / "q.onnx")


def test_a_torch_model_is_written_as_onnx(tmp_path: Path):
    model = _torch_file(tmp_path)
    data = np.random.default_rng(6).standard_normal((8, 1, 3, 9, 7), dtype=np.float32)
    np.savez(tmp_path / "samples.npz", input=data)
    arm_ext.quantize(model, tmp_path / "samples.npz", tmp_path / "q.onnx")
    (found,) = run_onnxruntime((tmp_path / "q.onnx").read_bytes(), [data[3]], integers=True)
    wanted = torch.export.load(model).module()(torch.from_numpy(data[3])).detach().numpy()
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
