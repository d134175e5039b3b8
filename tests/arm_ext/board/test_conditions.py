# SPDX-License-Identifier: Apache-2.0
"""A board's files in sysfs, as TVM's server hands them over."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from arm_ext.board import conditions
from arm_ext.board.session import BoardSession
from arm_ext.common.errors import ModelError

PAGE = 4096
CPU = "/sys/devices/system/cpu"
BIG_LITTLE = {
    f"{CPU}/online": "0-1\n",
    f"{CPU}/cpu0/regs/identification/midr_el1": "0x00000000410fd034\n",
    f"{CPU}/cpu1/regs/identification/midr_el1": "0x00000000410fd0b1\n",
    f"{CPU}/cpu0/cpu_capacity": "462\n",
    f"{CPU}/cpu1/cpu_capacity": "1024\n",
    f"{CPU}/cpu1/cpufreq/scaling_cur_freq": "2400000\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
}


class Files:
    """A session that serves files alone, a page each, as sysfs' files are."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ModelError(str(error)) from error

    def function(self, _name: str) -> Any:
        def download(path: str) -> bytes:
            if path not in self._files:
                raise FileNotFoundError(path)
            return self._files[path].encode().ljust(PAGE, b"\0")

        return download


def session(files: Mapping[str, str]) -> BoardSession:
    return Files(files)  # type: ignore[return-value]


def test_cores_of_two_types_are_told_apart() -> None:
    board = session(BIG_LITTLE)
    assert conditions.online(board) == (0, 1)
    assert conditions.core_type(board, 0) == "cortex-a53, capacity 462"
    assert conditions.core_type(board, 1) == "cortex-a76, capacity 1024"
    assert conditions.clock(board, 1) == "2400 MHz"
    assert conditions.governor(board, 1) == "performance"


def test_what_is_not_there_is_unknown() -> None:
    board = session(BIG_LITTLE)
    assert conditions.clock(board, 0) == conditions.governor(board, 0) == conditions.UNKNOWN
    empty = session({})
    assert conditions.online(empty) == ()
    assert conditions.core_type(empty) == conditions.temperature(empty) == conditions.UNKNOWN
