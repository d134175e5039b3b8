# SPDX-License-Identifier: Apache-2.0
"""The example for Cortex-M boards, on emulated ones."""

import subprocess
import sys
from pathlib import Path

import pytest

import arm_ext
from arm_ext.api import digits
from arm_ext.board.bare import MACHINES

FOLDER = Path(__file__).parents[2] / "examples/cortex_m"


def test_each_emulated_board_has_a_linker_script() -> None:
    scripts = {path.stem: path.read_text() for path in (FOLDER / "boards").iterdir()}
    assert set(scripts) == set(MACHINES)
    for name, machine in MACHINES.items():
        for start, _ in (machine.code, machine.data):
            assert f"ORIGIN = {start:#010x}" in scripts[name]


@pytest.mark.parametrize("board", ["mps2-an386", "mps3-an547"])
def test_the_classifier_runs_on_a_board(tmp_path: Path, board: str) -> None:
    library = tmp_path / "library"
    arm_ext.compile(digits.model_path(), MACHINES[board].core, library, emit="c-library")
    words = [
        f"BOARD={board}",
        f"LIBRARY={library}",
        f"OUT={tmp_path / 'out'}",
        f"CC={sys.executable} -m ziglang cc",
    ]
    done = subprocess.run(
        ["make", "-s", "-C", FOLDER, *words, "run"], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "digits_int8: all outputs agree\n")
