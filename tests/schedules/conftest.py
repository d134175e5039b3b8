# SPDX-License-Identifier: Apache-2.0
"""A board with SVE."""

from collections.abc import Iterator

import pytest

from arm_ext.board import Board, open_board
from tests.schedules.programs import SVE_PROFILE


@pytest.fixture(scope="session")
def sve_board(request: pytest.FixtureRequest) -> Iterator[Board]:
    """The board of --board; of virtual ones that with vectors of 128 bits, unless it says which CPU it has."""
    with open_board(request.config.getoption("--board"), profile_cpu=SVE_PROFILE.qemu_cpu) as board:
        if missing := set(SVE_PROFILE.features) - board.info.features:
            pytest.skip(f"board {board.name} lacks {', '.join(sorted(missing))}")
        yield board
