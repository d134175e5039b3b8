# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api import digits
from arm_ext.ethosu.partition.two_of_four import is_two_of_four
from arm_ext.package import REPORT_TEXT


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ([0, 1, 0, 2, 3, 0, 0, 4], True),
        ([0, 1, 0, 2, 3, 0, 5], True),
        ([0, 1, 0, 2, 3, 4, 5], False),
        ([0, 1, 1, 2, 0, 0, 0, 0], False),
        # Four consecutive weights across two groups.
        ([0, 0, 1, 2, 3, 4, 0, 0], True),
        # Too few channels to be pruned, and all zeros.
        ([1, 2], False),
        ([0, 0, 0, 0], False),
    ],
)
def test_groups_of_four_are_looked_at(row: list[int], found: bool):
    assert is_two_of_four(np.array([[row]], "int8")) is found


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pruned")
    images, labels = digits.held_out()
    np.savez(folder / "data.npz", inputs=images[:32], labels=labels[:32])
    float_model = digits.model_path("fp32")
    arm_ext.quantize(float_model, folder / "data.npz", folder / "sparse.onnx", sparsity="2:4")
    arm_ext.quantize(float_model, folder / "data.npz", folder / "dense.onnx")
    return folder


@pytest.mark.parametrize("npu", ["ethos-u85-128", pytest.param("ethos-u85-512", marks=pytest.mark.long)])
def test_sparse_weights_are_told_with_what_they_save(pruned: Path, tmp_path: Path, npu: str):
    options = NpuOptions(npu, npu_ops=("conv2d",))
    reports = [
        arm_ext.compile(pruned / f"{name}.onnx", npu=options, output=tmp_path / name).report
        for name in ("sparse", "dense")
    ]
    sparse, dense = (max(report.npu.regions, key=lambda region: region.macs) for report in reports)
    assert dense.sparsity is None
    own = sparse.sparsity
    assert own is not None
    assert {"conv2/pointwise", "conv3"} <= set(own.sources)
    assert "conv1" not in own.sources
    assert own.commands == own.convolutions == 2
    assert sparse.cycles < dense.cycles == own.dense_cycles
    text = (tmp_path / "sparse" / REPORT_TEXT).read_text()
    assert (
        "2:4 sparse weights in region 1: conv2/pointwise, conv3. 2 of 2 convolutions of the NPU run" in text
    )


def test_other_accelerators_have_no_use_for_them(pruned: Path, tmp_path: Path):
    options = NpuOptions("ethos-u55-128", npu_ops=("conv2d",))
    report = arm_ext.compile(pruned / "sparse.onnx", npu=options, output=tmp_path / "p").report
    assert report.npu is not None
    assert [region.sparsity for region in report.npu.regions] == [None, None]
