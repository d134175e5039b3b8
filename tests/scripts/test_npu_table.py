# SPDX-License-Identifier: Apache-2.0
import npu_table
import pytest

from arm_ext.api import digits
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.macs import count_macs


def test_digits_are_one_region_where_the_cpu_is_slow():
    path = digits.model_path("int8")
    slow, fast = npu_table.measure(
        path, "cortex-a55", [NpuOptions("ethos-u55-128", cpu_mhz=mhz) for mhz in (1, 1e6)]
    )
    macs = sum(count_macs(import_model(path).mod).values())
    # Its operators are but its conversions from and to float, which are its borders.
    cells = ("digits_int8", "ethos-u55-128", "1", str(len(slow.report.regions[0].operators)), "0")
    assert slow.cells()[:-1] == (*cells, f"{macs / 1e6:.2f} M", "100.0", "2")
    assert fast.cells()[2:-1] == ("0", "0", cells[3], "0.00 M", "0.0", "0")
    text = npu_table.table([slow, fast])
    assert f"| {' | '.join(slow.cells())} |\n" in text
    assert "- 1x in: it converts between float and integers" in text
    assert "- 1x out: it converts between float and integers" in text
    kept = text.partition("ethos-u55-128, borders of regions:\n\n\nand source nodes")[2]
    assert "it takes longer on the NPU, where its region does not gain\n" in kept


def test_a_float_model_is_refused():
    with pytest.raises(UsageError, match="--npu needs a quantised model"):
        next(npu_table.measure(digits.model_path("fp32"), "cortex-a55", [NpuOptions("ethos-u55-128")]))
