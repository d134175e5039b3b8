# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

import arm_ext
from arm_ext.api import digits
from tests.arm_ext.browser import chromium


@pytest.fixture(scope="session")
def digits_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped int8 classifier, compiled for the default target."""
    folder = tmp_path_factory.mktemp("digits") / "digits.armpkg"
    arm_ext.compile(digits.model_path(), output=folder, inputs=[digits.held_out()[0][:1]])
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as driver:
        yield driver
