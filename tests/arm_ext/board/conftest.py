# SPDX-License-Identifier: Apache-2.0
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from arm_ext.board import Board, open_board
from tests.arm_ext.board.models import add_relu_model, fault_model, hostile_model


@pytest.fixture(scope="package")
def add_relu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_relu_model(tmp_path_factory.mktemp("add_relu"))


@pytest.fixture(scope="package")
def fault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fault_model(tmp_path_factory.mktemp("fault"))


@pytest.fixture(scope="package")
def host_fault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fault_model(tmp_path_factory.mktemp("host_fault"), platform.machine())


@pytest.fixture(scope="package")
def virtual() -> Iterator[Board]:
    """A virtual board whose sessions last a minute: seconds are too few for a machine under load."""
    with open_board("virtual", timeout=60) as board:
        yield board


@pytest.fixture(scope="package")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_model(tmp_path_factory.mktemp("hostile"))
