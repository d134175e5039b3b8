# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import conditions, open_board
from arm_ext.board.virtual import (
    DEFAULT_CPU,
    VirtualServer,
    counting_to,
    emulated_cpu,
    needs_sme,
)
from arm_ext.common.errors import EnvError, UsageError
from tests.arm_ext.board.models import COLUMNS, ILLEGAL, ROWS, SPIN
from tests.arm_ext.board.processes import eventually, group, processes_of
from tests.sme import require_sme

_INPUTS = [np.ones((ROWS, COLUMNS), np.float32), np.ones(COLUMNS, np.float32)]

_OWNER = """
import sys, threading, time, pathlib, numpy as np
from arm_ext.board import open_board
board = open_board("virtual")
model = board.load(pathlib.Path(sys.argv[1]))
threading.Thread(target=model.run, args=([np.array([2], np.float32)],), daemon=True).start()
time.sleep(0.5)
print("ready", flush=True)
time.sleep(600)
"""


def test_closing_leaves_no_process_and_no_file(
    add_relu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_board("virtual", counting=True) as board:
        board.load(add_relu).run(_INPUTS)
        leader = processes_of(os.getpid())[-1]
        assert len(group(leader)) == 3  # what confines the server, the server and the session
        assert list(tmp_path.iterdir())
    assert not group(leader)
    assert not list(tmp_path.iterdir())


def test_a_session_that_dies_leaves_no_file(
    fault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_board("virtual") as board:
        loaded = board.load(fault)
        assert [file.name for file in tmp_path.glob("*/session-*/*")] == ["model.so"]
        with pytest.raises(EnvError):
            loaded.run([np.array([ILLEGAL], np.float32)])
        assert eventually(lambda: not list(tmp_path.glob("*/session-*")))


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL])
def test_a_killed_owner_takes_the_board_with_it(number: signal.Signals, fault: Path, tmp_path: Path) -> None:
    assert SPIN == 2  # what the owner runs when it is killed
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(fault)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    leader = processes_of(owner.pid)[0]
    (folder,) = tmp_path.glob("arm-ext-board-*")
    assert len(group(leader)) == 3
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    assert eventually(lambda: not group(leader) and not folder.exists())


def test_counts_are_equal_whenever_and_wherever_they_are_taken(add_relu: Path) -> None:
    totals = []
    for _ in range(2):
        with open_board("virtual", counting=True) as board:
            loaded = board.load(add_relu)
            totals += [loaded.count(_INPUTS).instructions, loaded.count(_INPUTS).instructions]
            loaded.run(_INPUTS)
            totals.append(board.load(add_relu).count(_INPUTS).instructions)
    assert max(totals) - min(totals) <= 0.001 * min(totals)


def test_a_count_is_of_one_inference(add_relu: Path) -> None:
    with open_board("virtual", counting=True) as board:
        trace = board.load(add_relu).count(_INPUTS)
    model = sum(block.instructions for block in trace.blocks if block.image == "model.so")
    # f32[7, 31]: at least a load of 4 lanes, an add, a store for the sum; far less than a scalar dozen of each twice.
    assert ROWS * COLUMNS * 3 / 4 < model < ROWS * COLUMNS * 12 * 2


def test_only_a_counting_board_counts_and_none_tells_times(add_relu: Path) -> None:
    with open_board("virtual") as board:
        loaded = board.load(add_relu)
        with pytest.raises(UsageError, match="does not count instructions"):
            loaded.count(_INPUTS)
        with pytest.raises(UsageError, match="its times mean nothing"):
            loaded.time(_INPUTS, repeats=1, warmup=1)


@pytest.mark.parametrize(("counting", "threads"), [(True, 5), (False, 5), (False, 1)])
def test_the_runtime_has_as_many_threads_as_asked_for_whatever_this_machine_has(
    counting: bool, threads: int
) -> None:
    with open_board("virtual", counting=counting, threads=threads) as board:
        session = board.connect()
        assert conditions.threads(session) == threads
        session.close()


@pytest.mark.parametrize(
    ("name", "own", "own_cpu", "cpu"),
    [
        ("", "", None, DEFAULT_CPU),
        ("", "arm", "cortex-a76", "cortex-a76"),
        ("neoverse-n2", "arm", "cortex-a76", "max,sve128=on,sve256=off,sve512=off,sme=off"),
        (
            "neoverse-n2",
            "neoverse-n2",
            "max,sve=off,sme=off",
            "max,sve=off,sme=off",
        ),  # after --mattr=-sve,-sve2
        ("cortex-a53", "", None, "cortex-a72"),  # QEMU's own has what the profile has not
        ("max,sme=off", "arm", "cortex-a76", "max,sme=off"),
        ("max,sve=off", "arm", "cortex-a76", "max,sve=off,sme=off"),
        ("max,sme256=on", "arm", "cortex-a76", "max,sme256=on"),
    ],
)
def test_the_name_of_a_profile_is_its_emulator(name: str, own: str, own_cpu: str | None, cpu: str) -> None:
    assert emulated_cpu(name, own, own_cpu) == cpu


def test_sme_needs_an_emulator_of_its_own_which_cannot_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [needs_sme(cpu) for cpu in ("max,sme512=on", "max,sme=on", "max,sme=off", "neoverse-n2")] == [
        1,
        1,
        0,
        0,
    ]
    monkeypatch.setenv("ARM_EXT_QEMU_SME", "/nowhere")
    with pytest.raises(EnvError, match=r"names /nowhere, which is no program: run scripts/qemu_sme.sh"):
        open_board("virtual:max,sme512=on")
    old = tmp_path / "qemu-aarch64"
    old.write_text("#!/bin/sh\necho qemu-aarch64 version 7.2.22\n")
    old.chmod(0o755)
    monkeypatch.setenv("ARM_EXT_QEMU_SME", str(old))
    with pytest.raises(
        EnvError, match=r"needs QEMU 10 or newer, .*; .*/qemu-aarch64 is of version 7\.2\.22: run"
    ):
        open_board("virtual:max,sme512=on")
    monkeypatch.delenv("ARM_EXT_QEMU_SME")
    require_sme()
    with pytest.raises(
        EnvError, match=r"which computes SME, cannot load plugins, so the virtual board cannot count"
    ):
        open_board("virtual:max,sme512=on", counting=True)


def test_an_unknown_cpu_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="has no CPU 'z80'"):
        open_board("virtual:z80")


@pytest.mark.parametrize("name", ["a:b", "a;b", "a,b"])
def test_a_cache_folder_that_no_library_path_can_name_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / name))
    with pytest.raises(EnvError, match=rf"cache folder .*{name}, whose path has a '.': .*ARM_EXT_CACHE"):
        VirtualServer("max")
    assert not list((tmp_path / name).iterdir())


def test_options_of_the_counting_plugin_are_separated_by_single_commas() -> None:
    assert counting_to(Path("/a=b/c,d.so"), Path("/t,u")) == "file=/a=b/c,,d.so,out=/t,,u"


def test_missing_qemu_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvError, match="apt-get install qemu-user libc6-arm64-cross"):
        VirtualServer()


def test_missing_arm64_libc_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ARM_EXT_SYSROOT", str(tmp_path))
    with pytest.raises(EnvError, match=r"ld-linux-aarch64\.so\.1(.|\n)*apt-get install .*libc6-arm64-cross"):
        VirtualServer()


def test_a_qemu_without_plugins_still_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # What a QEMU built without --enable-plugins says to -plugin.
    qemu = tmp_path / "qemu-aarch64"
    qemu.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" -plugin "*) echo "qemu: unknown option plugin" >&2; exit 1;; esac\n'
        'PATH=${PATH#*:} exec qemu-aarch64 "$@"\n'
    )
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with open_board("virtual") as board:
        assert board.info.machine == "aarch64"
    with pytest.raises(EnvError, match="cannot count"):
        open_board("virtual", counting=True)
