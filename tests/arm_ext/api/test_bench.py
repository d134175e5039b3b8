# SPDX-License-Identifier: Apache-2.0
import json
import os
from pathlib import Path

import pytest

import arm_ext
from arm_ext import cli
from arm_ext.api import bench as measure_bench
from arm_ext.api import digits
from arm_ext.api.bench import bench
from arm_ext.board import conditions, open_board
from arm_ext.board.virtual import VirtualServer
from arm_ext.common.errors import UsageError
from arm_ext.measure import mca
from arm_ext.measure.profile import CountReport
from arm_ext.measure.times import REPEATS, WARMUP, TimeReport
from arm_ext.package import load_package


@pytest.fixture(scope="module")
def counts(digits_package: Path) -> CountReport:
    report = bench(digits_package)
    assert isinstance(report, CountReport)
    return report


def test_counts_of_a_package(counts: CountReport, digits_package: Path) -> None:
    manifest = load_package(digits_package).manifest
    assert counts.macs == manifest.macs
    # No instruction set that the profile has does more than 16 MAC an instruction (sdot).
    assert counts.instructions > manifest.macs / 16
    assert counts.macs_per_instruction == manifest.macs / counts.instructions
    assert counts.core == manifest.target.core
    assert counts.mac_share > 0
    assert sum(counts.classes.values()) == pytest.approx(1)
    assert sum(row.instructions for row in counts.symbols) == counts.instructions
    assert (
        counts.estimated_cycles >= counts.instructions / 8
    )  # wider than any core that there is a profile of
    assert counts.unmodelled_share < 0.01


def test_counts_are_per_kernel(counts: CountReport) -> None:
    share = {row.symbol: row.share for row in counts.symbols if row.image == "model.so"}
    # The rest is the runtime's, which a model of this size keeps busy.
    assert sum(share.values()) > 0.4
    assert any("conv2d" in symbol for symbol in share)
    # Stubs through which the linker lets main call the runtime.
    assert share.get("(unnamed)", 0) < 0.01
    assert "libtvm_runtime" in {row.symbol for row in counts.symbols}


def test_counting_repeats(counts: CountReport, digits_package: Path) -> None:
    again = bench(digits_package)
    assert isinstance(again, CountReport)
    assert again.instructions == pytest.approx(counts.instructions, rel=1e-3)
    assert again.estimated_cycles == pytest.approx(counts.estimated_cycles, rel=1e-3)


def test_a_real_board_gives_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "host.armpkg"
    arm_ext.compile(digits.model_path(), target="host", output=package)
    governor = tmp_path / "cpu0/cpufreq/scaling_governor"
    governor.parent.mkdir(parents=True)
    # The server pads what it reads from sysfs to the page that the file's size says.
    governor.write_bytes(b"schedutil\n".ljust(4096, b"\0"))
    monkeypatch.setattr(conditions, "_CPU", str(tmp_path))
    report = bench(package, "local")
    assert isinstance(report, TimeReport)
    assert (report.repeats, report.warmup) == (REPEATS, WARMUP)
    assert 0 < report.median_ms <= report.p90_ms <= report.p99_ms
    assert report.threads >= 1
    assert report.governor == "schedutil"


def test_a_local_board_is_pinned_to_cores(tmp_path: Path, digits_package: Path) -> None:
    package = arm_ext.compile(digits.model_path(), "host", tmp_path / "p").package
    report = bench(package, "local", cores=[max(os.sched_getaffinity(0))])
    assert isinstance(report, TimeReport)
    assert report.threads == 1
    with pytest.raises(UsageError, match="--cores: a virtual board"):
        bench(digits_package, cores=[0])


def test_a_board_without_cpufreq_has_an_unknown_governor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "_CPU", "/nonexistent")
    with open_board("virtual") as board:
        threads, governor = measure_bench._conditions(board)
    assert threads >= 1
    assert governor == "unknown"


def test_the_command_prints_counts_and_no_times(
    digits_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["bench", str(digits_package), "--board", "virtual"]) == 0
    out = capsys.readouterr().out
    assert "per inference (emulated, 1 thread)" in out
    assert "of llvm-mca" in out
    assert "no time on a board" in out
    assert " ms" not in out
    assert cli.invoke(["bench", str(digits_package), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert CountReport.model_validate(document).schema_version == 2


def test_an_emulated_board_at_an_address_gives_no_times(
    digits_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = VirtualServer()
    try:
        assert cli.invoke(["bench", str(digits_package), "--board", f"127.0.0.1:{server.port}"]) == 2
    finally:
        server.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "the board is emulated, and its times mean nothing" in err


def test_without_llvm_mca_the_command_says_what_mends_it(
    digits_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mca, "_LLVM_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.invoke(["bench", str(digits_package)]) == 3
    assert "apt-get install llvm-19" in capsys.readouterr().err
