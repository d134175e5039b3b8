# SPDX-License-Identifier: Apache-2.0
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import open_board
from arm_ext.cli import run
from tests.arm_ext.board.models import fault_model
from tests.arm_ext.board.processes import group, processes_of


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_virtual_board_serves_until_it_is_interrupted(number: signal.Signals, tmp_path: Path) -> None:
    model = fault_model(tmp_path)
    temp = tmp_path / "temp"
    temp.mkdir()
    call = [
        sys.executable,
        "-c",
        "from arm_ext.cli import main; main()",
        "board",
        "virtual",
        "--cpu",
        "cortex-a72",
    ]
    command = subprocess.Popen(
        call, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temp)}
    )
    assert command.stdout is not None
    said = re.fullmatch(r"virtual board \(cortex-a72\) is up: --board (\S+)\n", command.stdout.readline())
    assert said
    leader = processes_of(command.pid)[0]
    with open_board(said[1]) as board:
        assert board.info.cpu == "cortex-a72"
        assert board.load(model).run([np.array([7], np.float32)]) == [np.array([7], np.float32)]
    command.send_signal(number)
    assert command.wait(10) == 0
    command.stdout.close()
    assert not group(leader)
    assert list(temp.iterdir()) == []


def test_a_tracker_needs_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "virtual", "--tracker", "127.0.0.1:9190"]) == 2
    assert "--tracker and --key go together" in capsys.readouterr().err
