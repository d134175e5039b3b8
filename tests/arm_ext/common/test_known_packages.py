# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from arm_ext.common import known_packages


def test_the_record_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(known_packages, "_LONGEST", 100)
    for number in range(100):
        known_packages.remember(f"{number:09}")
    kept = (tmp_path / "cache" / "packages-known").read_text().splitlines()
    assert kept[-1] == "000000099"
    assert len(kept) <= 10
    assert all(len(line) == 9 for line in kept)
