# SPDX-License-Identifier: Apache-2.0
import pytest
from pydantic import ValidationError

from arm_ext.common.npu_status import NpuStatus, RegionRuns

HERE = "/dev/accel/accel0"


def status(device: str | None, *regions: tuple[int, int, str]) -> NpuStatus:
    runs = tuple(RegionRuns(region=i, npu=n, cpu=c, reason=why) for i, (n, c, why) in enumerate(regions))
    return NpuStatus(mode="auto", device=device, regions=runs)


def test_each_region_says_where_it_ran_and_why_not_on_the_npu():
    lines = status(HERE, (3, 0, ""), (0, 3, "too little SRAM"), (2, 1, "it is busy")).text().splitlines()
    assert lines == [
        f"NPU: {HERE}",
        "NPU region 0 ran on the NPU",
        "NPU region 1 ran on the CPU: too little SRAM",
        "NPU region 2 ran 2 times on the NPU and 1 on the CPU: it is busy",
    ]


def test_a_device_that_ran_nothing_is_not_named():
    assert status(HERE, (0, 1, "too little SRAM")).text() == "NPU region 0 ran on the CPU: too little SRAM"


def test_another_versions_answer_is_refused():
    with pytest.raises(ValidationError):
        NpuStatus.model_validate_json('{"mode": "auto", "device": null, "regions": [], "clock": 1}')
