# SPDX-License-Identifier: Apache-2.0
"""`quantize` ends in what would help: layers to leave in float, what that gives, and what it costs."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext import cli, quantize
from arm_ext.report.accuracy.record import GOOD_DB, AccuracyReport


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Three products; between the first two one channel is 300 times the others, of which the second makes little."""
    rng = np.random.default_rng(7)
    first, second, third = (rng.standard_normal(shape) for shape in ((16, 32), (32, 8), (8, 8)))
    first[:, 0] *= 300
    second[0] /= 300
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "a"], ["wide"], name="first"),
            helper.make_node("MatMul", ["wide", "b"], ["even"], name="second"),
            helper.make_node("MatMul", ["even", "c"], ["y"], name="third"),
        ],
        "uneven",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [
            numpy_helper.from_array(v.astype(np.float32), n)
            for n, v in (("a", first), ("b", second), ("c", third))
        ],
    )
    path = tmp_path / "uneven.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    np.savez(tmp_path / "samples.npz", x=rng.standard_normal((32, 16), dtype=np.float32))
    return path


def _worst(report: AccuracyReport) -> float:
    return min(output.fake.sqnr_db for output in report.outputs)


def test_a_remedy_gives_what_it_says(uneven: Path, tmp_path: Path) -> None:
    data = tmp_path / "samples.npz"
    before = quantize(uneven, data, tmp_path / "q.onnx", metric="cosine", target="cortex-a76").accuracy
    remedy = before.remedy
    assert remedy is not None
    assert _worst(before) < GOOD_DB
    assert set(remedy.nodes) == {"first", "second"}
    assert remedy.before_db == pytest.approx(_worst(before), abs=0.2)
    kept = quantize(uneven, data, tmp_path / "k.onnx", keep_float=remedy.nodes, metric="cosine").accuracy
    assert remedy.after_db > remedy.before_db + 10
    assert remedy.after_db == pytest.approx(_worst(kept), abs=0.2)
    assert kept.metric is not None
    assert remedy.after == pytest.approx(kept.metric.fake, abs=1e-6)
    assert remedy.cycles > 0


def test_the_command_prints_an_option_to_paste(
    uneven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["quantize", str(uneven), "--data", str(tmp_path / "samples.npz"), "-o", str(tmp_path / "q.onnx")]
    assert cli.invoke(argv) == 0
    out = capsys.readouterr().out
    assert "in float the worst output has" in " ".join(out.split())
    (option,) = [line.split() for line in out.splitlines() if line.startswith("  --keep-float ")]
    assert cli.invoke([*argv, *option]) == 0


def test_a_good_model_gets_none(uneven: Path, tmp_path: Path) -> None:
    model = onnx.load(uneven)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(np.eye(*tensor.dims, dtype=np.float32), tensor.name))
    onnx.save(model, uneven)
    report = quantize(uneven, tmp_path / "samples.npz", tmp_path / "q.onnx").accuracy
    assert report.remedy is None
