# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

_TESTS = """
import pytest

@pytest.mark.isa("crc")
def test_old(board):
    assert board.info.cpu == "cortex-a72"

@pytest.mark.isa("crc", "dotprod", "i8mm")
def test_new():
    raise AssertionError("ran")

@pytest.mark.each_once
@pytest.mark.parametrize(("a", "b"), [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("c", "xy")
def test_crossed(a, b, c):
    assert (a, c) in [(1, "x"), (2, "y"), (3, "x")]
"""


def test_the_isa_marker_skips_with_the_reason_and_each_once_leaves_out_combinations(tmp_path: Path) -> None:
    file = tmp_path / "test_isa.py"
    file.write_text(_TESTS)
    root = Path(__file__).parents[1]
    options = [
        "-rs",
        "-p",
        "tests.conftest",
        "-c",
        str(root / "pyproject.toml"),
        "--board",
        "virtual:cortex-a72",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(file)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed, 1 skipped, 3 deselected" in done.stdout
    assert "board virtual:cortex-a72 lacks dotprod, i8mm" in done.stdout
