# SPDX-License-Identifier: Apache-2.0
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

from arm_ext.board import open_board
from arm_ext.cli import invoke
from arm_ext.common.errors import EnvError
from tests.arm_ext.board.models import COPY, SPIN, fault_model
from tests.arm_ext.board.processes import eventually, group, processes_of


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    """The folder for the command's temporary files."""
    folder = tmp_path / "temp"
    folder.mkdir()
    return folder


@pytest.fixture
def command(temp: Path) -> Iterator[subprocess.Popen[str]]:
    call = [
        sys.executable,
        "-c",
        "from arm_ext.cli import main; main()",
        "board",
        "virtual",
        "--cpu",
        "cortex-a72",
    ]
    with subprocess.Popen(
        call,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temp)},
        # A shell starts what runs in its background with Ctrl-C ignored, and so would this be.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        yield process
        process.kill()


def _name(command: subprocess.Popen[str]) -> str:
    assert command.stdout is not None
    said = re.fullmatch(r"virtual board \(cortex-a72\) is up: --board (\S+)\n", command.stdout.readline())
    assert said
    return said[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_virtual_board_serves_until_it_is_interrupted(
    number: signal.Signals, command: subprocess.Popen[str], temp: Path, tmp_path: Path
) -> None:
    with open_board(_name(command)) as board:
        assert board.info.cpu == "cortex-a72"
        value = [np.array([COPY], np.float32)]
        assert board.load(fault_model(tmp_path)).run(value) == value
    leader = processes_of(command.pid)[0]
    command.send_signal(number)
    assert command.wait(60) == 0
    assert not group(leader)
    assert list(temp.iterdir()) == []


def test_a_killed_command_takes_the_board_from_a_client(
    command: subprocess.Popen[str], temp: Path, tmp_path: Path
) -> None:
    with open_board(_name(command), timeout=600) as board:
        leader = processes_of(command.pid)[0]
        loaded = board.load(fault_model(tmp_path))
        Timer(2, command.kill).start()
        with pytest.raises(EnvError, match="went away"):
            loaded.run([np.array([SPIN], np.float32)])
    assert eventually(lambda: not group(leader))
    # What the killed command left, the next one removes.
    following = [sys.executable, "-c", "from arm_ext.cli import main; main()", "db", "--help"]
    subprocess.run(following, env={**os.environ, "TMPDIR": str(temp)}, check=True)
    assert list(temp.iterdir()) == []


def test_a_tracker_needs_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["board", "virtual", "--tracker", "127.0.0.1:9190"]) == 2
    assert "--tracker and --key must be given together" in capsys.readouterr().err


@pytest.mark.parametrize("tracker", ["nope", "127.0.0.1:99999", "127.0.0.1:" + "9" * 5000, "127.0.0.1:x"])
def test_a_tracker_that_is_none_is_a_wrong_argument(tracker: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["board", "virtual", "--tracker", tracker, "--key", "k"]) == 2
    assert "no board is named" in capsys.readouterr().err


def test_a_tracker_that_is_away_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    assert invoke(["board", "virtual", "--tracker", f"127.0.0.1:{port}", "--key", "k"]) == 3
    assert f"no tracker answers at 127.0.0.1:{port}" in capsys.readouterr().err
