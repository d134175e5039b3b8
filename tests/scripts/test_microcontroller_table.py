# SPDX-License-Identifier: Apache-2.0
import microcontroller_table
import pytest

from arm_ext.api import digits


def test_an_npu_takes_what_the_core_computed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        microcontroller_table.main(
            [str(digits.model_path()), "--targets", "cortex-m55", "--npu", "ethos-u55-128"]
        )
        == 0
    )
    *_, alone, beside = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in (alone, beside)]
    assert [row[:2] for row in rows] == [["digits_int8", "M55"], ["digits_int8", "M55 + ethos-u55-128"]]
    assert float(rows[1][2]) < float(rows[0][2]) / 10
    assert rows[0][3] == ""
    assert float(rows[1][3]) > 0
    code = [int(row[6].replace(",", "")) for row in rows]
    assert 0 < code[1] < code[0] / 2
