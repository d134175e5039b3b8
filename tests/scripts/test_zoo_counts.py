# SPDX-License-Identifier: Apache-2.0
"""How much of the zoo's work has no schedule, counted on a virtual board."""

from collections import Counter
from pathlib import Path

import pytest

import arm_ext
from arm_ext.board import open_board
from arm_ext.package import REPORT_JSON, load_package
from arm_ext.report.report import CompileReport
from schedules.generic.families import GENERIC

pytest.importorskip("torch", reason="the zoo is made with torch; pip install -e .[torch]")
import zoo

MOST = 0.02
"""Of all instructions, the runtime's among them."""

QUICK = {("dscnn", True)}
MEMBERS = [
    pytest.param(name, quantized, marks=[] if (name, quantized) in QUICK else pytest.mark.long)
    for name in zoo.ZOO
    for quantized in (True, False)
]


@pytest.mark.parametrize(("name", "quantized"), MEMBERS)
def test_little_is_generic(name: str, quantized: bool, tmp_path: Path):
    model = zoo.float_model(name)
    path = tmp_path / "model.onnx"
    path.write_bytes((zoo.quantized_model(name, model) if quantized else model).SerializeToString())
    arm_ext.compile(path, target="neoverse-n2", mattr="-sve,-sve2", output=tmp_path / "model.armpkg")
    package = load_package(tmp_path / "model.armpkg")
    report = CompileReport.model_validate_json((package.path / REPORT_JSON).read_text())
    generic = {call.symbol for call in report.kernels if call.kernel == GENERIC}
    with open_board("virtual", profile_cpu=package.manifest.target.qemu_cpu, counting=True) as board:
        trace = board.load(package.so).count(package.selftest().inputs)
    count: Counter[bool] = Counter()
    for block in trace.blocks:
        count[block.symbol in generic] += block.instructions
    assert count[True] <= MOST * trace.instructions
