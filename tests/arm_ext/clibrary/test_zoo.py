# SPDX-License-Identifier: Apache-2.0
"""The zoo as C libraries on aarch64, with threads and with several memories."""

from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from tests.arm_ext.clibrary.programs import Library, cross, run

pytest.importorskip("torch", reason="the zoo is made with torch; pip install -e .[torch]")
import zoo

pytestmark = pytest.mark.long

# zig links musl statically, and has the stubs of an older glibc.
SYSTEMS = ("aarch64-linux-musl", "aarch64-linux-gnu.2.17")
OPTIONS: dict[str, dict[str, Any]] = {"threads": {"threads": 4}, "regions": {"memory": "fast=64K,slow=256M"}}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", zoo.ZOO)
def test_float_members_pass_their_selftests(name: str, options: str, tmp_path: Path) -> None:
    library = Library.of(zoo.float_model(name), tmp_path / name, "cortex-a76", name=name, **OPTIONS[options])
    passes(library, tmp_path)


@pytest.mark.parametrize("name", zoo.ZOO)
def test_quantised_members_pass_their_selftests(name: str, tmp_path: Path) -> None:
    model = zoo.quantized_model(name, zoo.float_model(name))
    library = Library.of(model, tmp_path / name, "cortex-a76", name=name)
    passes(library, tmp_path)


def passes(library: Library, folder: Path) -> None:
    for system in SYSTEMS:
        program = cross(library.selftest, folder / system, system)
        with program.open("rb") as file:
            is_static = ELFFile(file).get_section_by_name(".interp") is None
        assert is_static == system.endswith("musl")
        assert "all outputs agree" in run(program), system
