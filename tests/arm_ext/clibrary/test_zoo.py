# SPDX-License-Identifier: Apache-2.0
"""The zoo as C libraries on aarch64, with threads and with several memories."""

from pathlib import Path
from typing import Any

import pytest

from tests.arm_ext.clibrary.programs import Library, cross, run

pytest.importorskip("torch", reason="the zoo is made with torch; pip install -e .[torch]")
import zoo

pytestmark = pytest.mark.long

OPTIONS: dict[str, dict[str, Any]] = {"threads": {"threads": 4}, "regions": {"memory": "fast=64K,slow=256M"}}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", zoo.ZOO)
def test_float_members_pass_their_selftests(name: str, options: str, tmp_path: Path) -> None:
    library = Library.of(zoo.float_model(name), tmp_path / name, "cortex-a76", name=name, **OPTIONS[options])
    assert "all outputs agree" in run(cross(library.selftest, tmp_path / "selftest"))


@pytest.mark.parametrize("name", zoo.ZOO)
def test_quantised_members_pass_their_selftests(name: str, tmp_path: Path) -> None:
    model = zoo.quantized_model(name, zoo.float_model(name))
    library = Library.of(model, tmp_path / name, "cortex-a76", name=name)
    assert "all outputs agree" in run(cross(library.selftest, tmp_path / "selftest"))
