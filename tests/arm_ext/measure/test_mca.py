# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import pytest

from arm_ext.common.errors import EnvError
from arm_ext.measure import mca
from arm_ext.measure.mca import BlockCycles, Mca, find_mca
from arm_ext.measure.mca_text import mca_text
from tests.arm_ext.measure.a64 import CLASSES

pytestmark = pytest.mark.usefixtures("mca_cache")

# No scheduling data in any model of LLVM 19: atomics and SME.
UNMODELLED = {"casal x0, x1, [x2]", "smopa za0.s, p0/m, p0/m, z0.b, z1.b"}


def program(folder: Path, name: str, version: str) -> Path:
    """A program that knows its version alone, for the choice among several."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho 'LLVM version {version}'\n")
    path.chmod(0o755)
    return path


def test_capstones_text_is_llvms() -> None:
    found = find_mca().estimate(
        [mca_text((word,), "neoverse-v2") for word, _ in CLASSES.values()], "neoverse-v2"
    )
    assert {text for text, block in zip(CLASSES, found, strict=True) if block.unmodelled} == UNMODELLED


def test_a_dependent_chain_takes_its_latency() -> None:
    # fmul on Neoverse N2: latency 3, two a cycle (Software Optimization Guide, 3.16).
    [chain, independent] = find_mca().estimate(
        [("fmul v0.4s, v0.4s, v1.4s",), ("fmul v0.4s, v1.4s, v1.4s", "fmul v2.4s, v1.4s, v1.4s")],
        "neoverse-n2",
    )
    assert chain == BlockCycles(pytest.approx(3, rel=0.05), 0)
    assert independent == BlockCycles(pytest.approx(1, abs=0.1), 0)


def test_results_are_kept(mca_cache: Path) -> None:
    real = find_mca()
    blocks = [("nop",), ("fmul v0.4s, v0.4s, v1.4s",)]
    first = real.estimate(blocks, "neoverse-n2")
    gone = replace(real, path=Path("/nonexistent/llvm-mca"))
    assert gone.estimate(blocks, "neoverse-n2") == first
    with pytest.raises(FileNotFoundError):
        gone.estimate(blocks, "neoverse-n1")
    for store in (mca_cache / "mca").iterdir():
        store.write_text("{")
    assert real.estimate(blocks, "neoverse-n2") == first


def test_an_unknown_core_is_refused() -> None:
    with pytest.raises(EnvError, match="cortex-z9"):
        find_mca().estimate([("nop",)], "cortex-z9")


def test_the_oldest_that_will_do_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mca, "_LLVM_ROOT", tmp_path / "lib")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    program(tmp_path / "bin", "llvm-mca", "14.0.6")
    program(tmp_path / "bin", "llvm-mca-21", "21.1.0")
    wanted = program(tmp_path / "lib/llvm-20/bin", "llvm-mca", "20.1.8")
    assert find_mca() == Mca(wanted, "20.1.8")


def test_without_one_the_error_says_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mca, "_LLVM_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(EnvError, match=r"none found.*apt-get install llvm-19") as raised:
        find_mca()
    assert raised.value.exit_code == 3
    program(tmp_path / "bin", "llvm-mca-14", "14.0.6")
    with pytest.raises(EnvError, match=r"only .*llvm-mca-14 14\.0\.6 found.*apt-get install llvm-19"):
        find_mca()
