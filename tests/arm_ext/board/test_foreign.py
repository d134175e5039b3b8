# SPDX-License-Identifier: Apache-2.0
import logging
from pathlib import Path

import pytest

import arm_ext
from arm_ext.api import digits
from arm_ext.board import base, foreign
from arm_ext.board.confine import Support
from arm_ext.board.foreign import warn_of_foreign
from arm_ext.common.known_packages import remember


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == foreign.__name__]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))


def test_the_first_run_of_a_package_from_elsewhere_is_told(caplog: pytest.LogCaptureFixture) -> None:
    board = base.Board("rpi:9090")
    for _ in range(2):
        warn_of_foreign(Path("m.armpkg"), "12ab", board)
    [told] = _warnings(caplog)
    assert told.startswith("m.armpkg was not compiled on this machine, and its model.so is a program.")
    assert "rpi:9090 runs it with all rights of its RPC server" in told


def test_an_emulated_board_says_whether_it_confines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = base.Board("virtual:max")
    monkeypatch.setattr(board, "emulated", True, raising=False)
    monkeypatch.setattr(foreign, "support", lambda: _support(7))
    warn_of_foreign(Path("a"), "1", board)
    monkeypatch.setattr(foreign, "support", lambda: _support(0))
    warn_of_foreign(Path("b"), "2", board)
    whole, part = _warnings(caplog)
    assert (
        "it can neither read nor change your files, use the network, or start or influence processes" in whole
    )
    assert "only in part on this kernel: it can read and write your files" in part


def _support(landlock: int) -> Support:
    return Support(landlock, seccomp=True, supervised=True)


def test_what_is_compiled_here_is_known(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.WARNING)
    package = arm_ext.compile(digits.model_path(), "host", tmp_path / "d.armpkg").package
    warn_of_foreign(package.path, package.manifest.so_sha256, base.Board("local"))
    assert _warnings(caplog) == []


def test_a_cache_that_cannot_be_written_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_EXT_CACHE", "/proc/nowhere")
    remember("1")
    warn_of_foreign(Path("m"), "1", base.Board("local"))
