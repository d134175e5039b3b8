# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm import tirx

from schedules.intrinsics.table import tbl4, tbx4


def test_a_table_of_another_form_is_refused():
    byte, word = (tirx.Var(name, dtype) for name, dtype in (("q", "uint8x16"), ("w", "int32x4")))
    with pytest.raises(ValueError, match="not 3 of uint8x16"):
        tbl4([byte] * 3, byte)
    with pytest.raises(ValueError, match="not 4 of int32x4, uint8x16"):
        tbx4(byte, [byte, byte, byte, word], byte)
