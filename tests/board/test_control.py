# SPDX-License-Identifier: Apache-2.0
"""What is decided at run time, on a board."""

from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.api.compile import CompileResult
from arm_ext.board import Board, open_board
from arm_ext.frontends.onnx.importer import import_onnx
from tests.arm_ext.frontends.onnx import control_models as models

BOUND = 1e-5  # sums in another order


@pytest.fixture(scope="module")
def early_exit(tmp_path_factory: pytest.TempPathFactory) -> CompileResult:
    sure, _ = models.early_exit_inputs()
    output = tmp_path_factory.mktemp("exit") / "exit.armpkg"
    return arm_ext.compile(models.early_exit(), output=output, inputs=[sure])


def test_an_early_exit_goes_both_ways(early_exit: CompileResult, board: Board):
    model, reference = board.load(early_exit.package.so), import_onnx(models.early_exit()).reference
    for frame, is_sure in zip(models.early_exit_inputs(), (True, False), strict=True):
        p, label = model.run([frame])
        (wanted, wanted_label), _ = reference([frame])
        np.testing.assert_allclose(p, wanted, rtol=BOUND, atol=BOUND)
        np.testing.assert_array_equal(label, wanted_label)
        assert (p.max() > 0.9) == is_sure


def test_the_second_half_is_not_run_where_the_first_is_sure(early_exit: CompileResult):
    sure, unsure = models.early_exit_inputs()
    with open_board("virtual", counting=True) as board:
        traces = [board.load(early_exit.package.so).count([frame]) for frame in (sure, unsure)]
    run = [{block.symbol for block in trace.blocks} for trace in traces]
    second = {kernel.symbol for kernel in early_exit.report.kernels if "deep" in kernel.sources}
    assert any(symbol.startswith("arm_") for symbol in second)
    assert not second & run[0]
    assert second <= run[1]
    # The second convolution has five times the products of the first.
    assert traces[1].instructions > 1.5 * traces[0].instructions


def test_loops_with_choices(tmp_path: Path, board: Board):
    x = np.linspace(0.1, 0.4, 4, dtype=np.float32)
    inputs = [x, np.array([9]), np.array(100, np.float32), np.array(True)]
    package = arm_ext.compile(models.alternating(), output=tmp_path / "p", inputs=inputs).package
    model, reference = board.load(package.so), import_onnx(models.alternating()).reference
    for rounds, limit in ((9, 100), (9, 3), (0, 3), (4, 100)):
        given = [x, np.array([rounds]), np.array(limit, np.float32), np.array(True)]
        np.testing.assert_allclose(model.run(given)[0], reference(given)[0][0], rtol=BOUND, atol=BOUND)
