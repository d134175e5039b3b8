# SPDX-License-Identifier: Apache-2.0
"""`--board B` and the `isa` marker: the tests of tests/board run on any board."""

import platform
from collections.abc import Iterator

import pytest

from arm_ext.board import Board, open_board


def pytest_addoption(parser: pytest.Parser) -> None:
    default = "local" if platform.machine() == "aarch64" else "virtual"
    parser.addoption(
        "--board", default=default, help=f"where the tests of tests/board run (default: {default})"
    )


@pytest.fixture(scope="session")
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    """The board of --board, open for the whole run."""
    with open_board(request.config.getoption("--board")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _isa(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("isa")
    if marker is None:
        return
    on = request.getfixturevalue("board")
    missing = sorted(set(marker.args) - on.info.features)
    if missing:
        pytest.skip(f"board {on.name} lacks {', '.join(missing)}")
