# SPDX-License-Identifier: Apache-2.0
"""Without a network the message names what is missing, and nothing half made stays in the cache."""

import platform
from pathlib import Path

import pytest

from arm_ext.common.errors import EnvError
from arm_ext.measure.peers.catalog import PEERS
from arm_ext.measure.peers.downloads import debian_root, wheels


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def left(cache: Path) -> list[Path]:
    return list((cache / "native").iterdir())


def test_wheels_that_pip_cannot_find(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        EnvError,
        match=r"wheels of onnxruntime \(onnxruntime==.*Python 3\.11\) cannot be downloaded: .*\n.*PIP_",
    ):
        wheels(PEERS["onnxruntime"], "3.11")
    assert left(cache) == []


def test_another_distribution_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    release = {"ID": "ubuntu", "PRETTY_NAME": "Ubuntu 24.04"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    with pytest.raises(EnvError, match=r"this is Ubuntu 24\.04"):
        debian_root()


def test_a_machine_without_apt(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "debian"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvError, match="cannot be downloaded: apt-config: No such file"):
        debian_root()
    assert left(cache) == []
