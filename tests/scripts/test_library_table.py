# SPDX-License-Identifier: Apache-2.0
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
