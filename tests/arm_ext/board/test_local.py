# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from arm_ext.board import conditions, open_board
from arm_ext.common.cores import cores_text
from arm_ext.common.errors import UsageError


def _processes_of(session: int) -> list[int]:
    """Processes of a session, by the sixth field of their stat files."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found


def _allowed(process: int) -> set[int]:
    """Cores that any thread of a process may run on."""
    threads = [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
    return {core for thread in threads for core in os.sched_getaffinity(thread)}


def test_a_server_runs_on_the_chosen_cores_alone() -> None:
    core = max(os.sched_getaffinity(0))
    with open_board("local", cores=[core]) as board:
        session = board.connect()
        try:
            assert conditions.threads(session) == 1
            found = _processes_of(board._process._process.pid)  # type: ignore[attr-defined]
            pinned = [process for process in found if _allowed(process) == {core}]
            # All but the shell that guards the server, and what it waits with.
            assert len(pinned) >= 2
            assert len(found) - len(pinned) <= 3
        finally:
            session.close()
    assert os.sched_getaffinity(0) != {core} or len(os.sched_getaffinity(0)) == 1


def test_a_core_that_is_not_there_is_refused() -> None:
    allowed = os.sched_getaffinity(0)
    with pytest.raises(
        UsageError, match=f"this process may run on {cores_text(allowed)}, not on {max(allowed) + 1}"
    ):
        open_board("local", cores=[max(allowed) + 1])


@pytest.mark.parametrize(
    ("board", "said"),
    [
        ("virtual", "has no cores to choose"),
        ("host:9090", "taskset -c 4-5 python -m tvm.exec.rpc_server"),
    ],
)
def test_other_boards_say_how(board: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_board(board, cores=[4, 5])
