# SPDX-License-Identifier: Apache-2.0
import json
import sys
import tomllib
from pathlib import Path

import pytest

from arm_ext import cli
from arm_ext.api import doctor
from arm_ext.api.doctor import NPU_PINS, PINS, Diagnosis, Finding, Status, diagnose
from arm_ext.common.errors import UsageError
from arm_ext.measure import mca
from arm_ext.native import build

ROOT = Path(__file__).parents[3]


def finding(part: str, board: str | None = None) -> Finding:
    [found] = [finding for finding in diagnose(board).findings if finding.part == part]
    return found


def qemu(folder: Path, version: str, options: str) -> None:
    """A qemu-aarch64 that knows its version and its help alone."""
    folder.mkdir()
    path = folder / "qemu-aarch64"
    text = f"qemu-aarch64 version {version} (Test)"
    path.write_text(f'#!/bin/sh\ncase $1 in --version) echo "{text}";; *) echo "{options}";; esac\n')
    path.chmod(0o755)


def test_the_pins_are_those_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(line.split("==") for line in project["dependencies"] if "==" in line)
    assert pinned == PINS
    extra = dict(line.split("==") for line in project["optional-dependencies"]["npu"] if "==" in line)
    assert extra | NPU_PINS == extra
    assert project["requires-python"] == f">={'.'.join(map(str, doctor.OLDEST_PYTHON))}"


def test_where_tests_run_all_that_is_required_is_there() -> None:
    diagnosis = diagnose()
    assert diagnosis.missing == []
    assert all(found.mend is None for found in diagnosis.findings if found.status is Status.OK)


def test_another_version_than_the_pinned_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PINS, "apache-tvm-ffi", "9.9")
    monkeypatch.setitem(PINS, "no-such-distribution", "1.0")
    wrong = finding("apache-tvm-ffi")
    assert wrong.status is Status.MISSING
    assert "is not 9.9" in wrong.detail
    assert wrong.mend == "pip install apache-tvm-ffi==9.9"
    assert finding("no-such-distribution").detail == "not installed"


@pytest.mark.parametrize("name", NPU_PINS)
def test_what_the_npu_needs_is_optional(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (finding(name).status, finding(name).detail) == (Status.OK, NPU_PINS[name])
    monkeypatch.setitem(NPU_PINS, name, "9.9")
    other = finding(name)
    assert (other.status, other.mend) == (Status.WARNING, f"pip install {name}==9.9")
    assert other.detail.endswith("is not 9.9, the only version that works: --npu cannot be used")


def test_what_cannot_be_imported_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ethosu.regor", None)
    found = finding("ethos-u-vela")
    assert found.status is Status.WARNING
    assert found.detail.startswith("ethosu.regor cannot be imported: ")
    assert found.mend == f"pip install --force-reinstall ethos-u-vela=={NPU_PINS['ethos-u-vela']}"


@pytest.mark.parametrize(("board", "status"), [(None, Status.WARNING), ("virtual", Status.MISSING)])
def test_the_virtual_board_needs_qemu(
    board: str | None, status: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = finding("qemu-aarch64", board)
    assert (found.status, found.mend) == (status, "apt-get install qemu-user")
    plugins = finding("qemu plugins", board)
    assert (plugins.status, plugins.mend) == (Status.WARNING, "apt-get install qemu-user")


@pytest.mark.parametrize(
    ("version", "options", "fault"),
    [
        ("7.2.22", "-plugin QEMU_PLUGIN", None),
        ("10.0.2", "-cpu QEMU_CPU", "qemu-aarch64 10.0.2 was built without them"),
        ("9.2.0", "-plugin QEMU_PLUGIN", "qemu-aarch64 9.2.0 no longer has plugin API 1"),
    ],
)
def test_plugin_support_is_read_from_the_help(
    version: str, options: str, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu(tmp_path / "bin", version, options)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert finding("qemu-aarch64").detail == f"{version} ({tmp_path / 'bin/qemu-aarch64'})"
    found = finding("qemu plugins")
    assert found.status is (Status.WARNING if fault else Status.OK)
    if fault:
        assert found.detail.startswith(fault)


def test_a_tool_that_hangs_or_prints_no_text_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mca, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path = tmp_path / "qemu-aarch64"
    for text, detail in (("sleep 60", "no answer within 0.2 s"), ("printf '\\377'", "gives no version")):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        found = finding("qemu-aarch64")
        assert found.status is Status.WARNING
        assert detail in found.detail


def test_the_cache_folder_is_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))
    assert finding("cache folder") == Finding(
        part="cache folder", status=Status.OK, detail=str(tmp_path / "cache")
    )
    monkeypatch.setenv("ARM_EXT_CACHE", "/proc/self")
    found = finding("cache folder")
    assert found.status is Status.MISSING
    assert found.detail.startswith("/proc/self cannot be written to: ")
    assert "ARM_EXT_CACHE" in found.detail


def test_arm64_libraries_and_runtime_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("ARM_EXT_SYSROOT", str(tmp_path / "root"))
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))
    assert finding("arm64 libraries").mend == "apt-get install libc6-arm64-cross libstdc++6-arm64-cross"
    (tmp_path / "root/lib").mkdir(parents=True)
    (tmp_path / "root/lib/ld-linux-aarch64.so.1").write_bytes(b"\x7fELF")
    (tmp_path / "root/lib/libstdc++.so.6").touch()  # an empty file is no library
    assert finding("arm64 libraries").mend == "apt-get install libstdc++6-arm64-cross"
    runtime = finding("aarch64 runtime")
    assert runtime.status is Status.WARNING
    assert runtime.mend
    assert "runtime_libs()" in runtime.mend
    place = build._place(*build._runtime_key())
    place.mkdir(parents=True)
    (place / "libtvm_runtime.so").write_bytes(b"truncated")
    assert "is damaged" in finding("aarch64 runtime").detail


def test_llvm_mca_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mca, "_LLVM_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = finding("llvm-mca")
    assert (found.status, found.mend) == (Status.WARNING, "apt-get install llvm-19")


def test_a_board_is_reached_and_described() -> None:
    found = finding("board virtual:cortex-a76", "virtual:cortex-a76")
    assert found.status is Status.OK
    assert "dotprod" in found.detail
    assert "i8mm" not in found.detail


def test_a_board_that_is_away_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["doctor", "--board", "127.0.0.1:1"]) == 3
    out, err = capsys.readouterr()
    assert "missing  board 127.0.0.1:1" in out
    assert "missing: board 127.0.0.1:1" in err


def test_a_board_of_another_tvm_is_to_be_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PINS, "apache-tvm", "9.9")
    found = finding("board virtual", "virtual")
    assert found.status is Status.MISSING
    assert found.mend == f"pip install apache-tvm==9.9 apache-tvm-ffi=={PINS['apache-tvm-ffi']}"


def test_a_name_of_no_board_is_a_wrong_argument() -> None:
    with pytest.raises(UsageError):
        diagnose("wat")


def test_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.invoke(["doctor", "--json"]) == 0
    assert Diagnosis.model_validate(json.loads(capsys.readouterr().out)).schema_version == 1
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.invoke(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(diagnose().findings)
    assert any(
        line.startswith("warning") and line.endswith("run: apt-get install qemu-user") for line in lines
    )
