# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from arm_ext.common.errors import EnvError, ModelError
from tests.arm_ext.board.models import add_relu_model, fault_model


@pytest.fixture(scope="module")
def model(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_relu_model(tmp_path_factory.mktemp("add_relu"), board.info.machine)


@pytest.fixture
def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape, dtype=np.float32) for shape in ((7, 31), (31,))]


def test_outputs_come_in_order_with_the_right_values(
    board: Board, model: Path, inputs: list[np.ndarray]
) -> None:
    relu, largest = board.load(model).run(inputs)
    total = inputs[0] + inputs[1]
    np.testing.assert_array_equal(relu, np.maximum(total, 0))
    np.testing.assert_array_equal(largest, total.max(axis=1))


def test_one_session_runs_other_inputs_after_the_first(
    board: Board, model: Path, inputs: list[np.ndarray]
) -> None:
    loaded = board.load(model)
    first, _ = loaded.run(inputs)
    second, _ = loaded.run([-inputs[0], -inputs[1]])
    np.testing.assert_array_equal(first - second, inputs[0] + inputs[1])


def test_loading_a_model_unloads_the_one_before(board: Board, model: Path, inputs: list[np.ndarray]) -> None:
    before = board.load(model)
    after = board.load(model)
    with pytest.raises(EnvError, match="load the model again"):
        before.run(inputs)
    assert len(after.run(inputs)) == 2


def test_wrong_shape_is_the_callers_and_leaves_the_session_good(
    board: Board, model: Path, inputs: list[np.ndarray]
) -> None:
    loaded = board.load(model)
    with pytest.raises(ModelError, match=r"shape.*x|param=x"):
        loaded.run([inputs[0][:1], inputs[1]])
    assert len(loaded.run(inputs)) == 2


def test_an_error_raised_by_a_kernel_is_shown(board: Board, tmp_path: Path) -> None:
    loaded = board.load(fault_model(tmp_path, board.info.machine))
    with pytest.raises(ModelError, match="four is refused"):
        loaded.run([np.array([4], np.float32)])


def test_info_names_runtime_and_cores(board: Board) -> None:
    assert board.info.tvm_version.startswith("0.27.0")
    assert board.info.ffi_version.startswith("0.1.14")
    assert board.info.cores >= 1


def test_require_refuses_what_no_board_has(board: Board) -> None:
    board.require(())
    with pytest.raises(EnvError, match="lacks warp-drive"):
        board.require(["warp-drive"])
