# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest

from arm_ext.measure.peers.count import guest_view
from schedules.cores import CORES


def fields(core: str, tmp_path: Path) -> dict[str, str]:
    cpuinfo = (guest_view(tmp_path, tmp_path, core, 1) / "proc/cpuinfo").read_text()
    return dict(re.findall(r"^(.*?)\s*: (.*)$", cpuinfo, re.MULTILINE))


@pytest.mark.parametrize(
    ("core", "part", "variant"),
    [
        ("neoverse-n2", "0xd49", "0x0"),
        ("cortex-a76", "0xd0b", "0x0"),
        ("cortex-a55", "0xd05", "0x2"),
        ("generic-dotprod", "0xd0b", "0x0"),
    ],
)
def test_a_core_shows_its_part(core: str, part: str, variant: str, tmp_path: Path) -> None:
    shown = fields(core, tmp_path)
    assert (shown["CPU part"], shown["CPU variant"], shown["CPU implementer"]) == (part, variant, "0x41")


def test_a_machine_has_as_many_processors_as_threads(tmp_path: Path) -> None:
    cpuinfo = (guest_view(tmp_path, tmp_path, "cortex-a76", 4) / "proc/cpuinfo").read_text()
    assert re.findall(r"^processor\s*: (\d+)$", cpuinfo, re.MULTILINE) == ["0", "1", "2", "3"]
    assert cpuinfo.count("CPU part") == 4


@pytest.mark.parametrize("core", CORES)
def test_every_core_has_a_part(core: str, tmp_path: Path) -> None:
    assert int(fields(core, tmp_path)["CPU part"], 16)
