# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from arm_ext.measure.peers.cpuinfo import cpuinfo
from schedules.cores import CORES


def fields(core: str) -> dict[str, str]:
    return dict(re.findall(r"^(.*?)\s*: (.*)$", cpuinfo(core), re.MULTILINE))


@pytest.mark.parametrize(
    ("core", "part", "variant"),
    [
        ("neoverse-n2", "0xd49", "0x0"),
        ("cortex-a76", "0xd0b", "0x0"),
        ("cortex-a55", "0xd05", "0x2"),
        ("generic-dotprod", "0xd0b", "0x0"),
    ],
)
def test_a_core_shows_its_part(core: str, part: str, variant: str) -> None:
    shown = fields(core)
    assert (shown["CPU part"], shown["CPU variant"], shown["CPU implementer"]) == (part, variant, "0x41")


@pytest.mark.parametrize("core", CORES)
def test_every_core_has_a_part(core: str) -> None:
    assert int(fields(core)["CPU part"], 16)
