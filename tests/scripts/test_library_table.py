# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import library_table
import pytest

from arm_ext.api import digits


def test_a_library_takes_less_than_a_package(capsys: pytest.CaptureFixture[str]) -> None:
    library_table.main([str(digits.model_path()), "--target", "cortex-a76"])
    *_, row = capsys.readouterr().out.splitlines()
    name, *figures = row.strip("| ").split(" | ")
    so, library, weights, arena, stack, init, package, run, own = (
        int(text.replace(",", "")) for text in figures
    )
    assert name == "digits_int8"
    assert weights < library < so
    assert 0 < stack < arena
    assert init < 1000
    assert 0 < run < package
    # Seven kernels are called: the rest is checks of buffers, and addresses.
    assert 0 < own < 300


def test_a_library_starts_with_less_than_a_package(tmp_path: Path) -> None:
    compiled = library_table._Compiled(digits.model_path(), "cortex-a76", tmp_path)
    rows = [[int(text.replace(",", "")) for text in row[2:]] for row in compiled.rows([])]
    (no_libraries, size, _, _, library), (libraries, so, _, _, package) = rows
    assert no_libraries == 0
    assert size < so < libraries
    assert library < 1000 < package
