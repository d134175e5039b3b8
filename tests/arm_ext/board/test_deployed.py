# SPDX-License-Identifier: Apache-2.0
"""Boards behind ssh and adb: an sshd of the test's own, whose programs for aarch64 run in an emulator."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from arm_ext import cli
from arm_ext.board import conditions, deployed, open_board
from arm_ext.board.spec import parse_spec
from arm_ext.board.virtual import emulator
from arm_ext.common.errors import EnvError
from tests.arm_ext.board.models import COLUMNS, ILLEGAL, ROWS
from tests.arm_ext.board.processes import eventually

_INPUTS = [np.ones((ROWS, COLUMNS), np.float32), np.ones(COLUMNS, np.float32)]

_EMULATED = """#!/bin/sh
uname() { [ "$1" = -m ] && echo aarch64 || echo Linux; }
mktemp() { command mktemp -d %(board)s/arm-ext-XXXXXX; }
%(server)s
eval "$1"
"""
"""A shell's command as a board runs it: an emulator starts the server, and the client's folder is the board's."""

_ADB = """#!/bin/sh
[ "$1" = -s ] && shift 2
case "$1 $2" in
"shell -T")
    command=$(printf %%s "$3" | sed 's#sh -c#eval#; s#/data/local/tmp##; s#\\./glibc/#qemu-aarch64 &#')
    exec %(emulated)s "$command" ;;
"forward --remove") echo "$3" >> %(board)s/removed ;;
"forward tcp:0") echo "${3#tcp:}" ;;
*) exit 1 ;;
esac
"""


def write_program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that the board's files are in; `ssh` on PATH knows a host "board", which has no other folder."""
    folder = tmp_path_factory.mktemp("ssh")
    (folder / "board").mkdir()
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    command = f"qemu-aarch64 -L {emulator()[1]} -E LD_LIBRARY_PATH=tvm/lib"
    replaced = f"s#\\./board_server#{command} ./board_server#; s#sh -c#eval#"
    server = f'set -- "$(printf %s "$SSH_ORIGINAL_COMMAND" | sed {shlex.quote(replaced)})"'
    forced = write_program(folder / "forced", _EMULATED % {"board": folder / "board", "server": server})
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    Path("/run/sshd").mkdir(exist_ok=True) if os.geteuid() == 0 else None
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"PidFile {folder}/pid\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
        f"KbdInteractiveAuthentication no\nForceCommand {forced}\n"
    )
    daemon = subprocess.Popen([shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-f", folder / "sshd_config"])
    known = (folder / "host.pub").read_text().split()[:2]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {' '.join(known)}\n")
    hosts = [("board", "user", "known"), ("stranger", "host", "known"), ("unseen", "user", "empty")]
    (folder / "config").write_text(
        "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/{key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/{known}\n"
            for name, key, known in hosts
        )
    )
    (folder / "bin").mkdir()
    write_program(folder / "bin" / "ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    assert eventually(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        yield folder / "board"
    daemon.terminate()
    daemon.wait()


def test_a_model_runs_and_nothing_stays_behind(board: Path, add_relu: Path) -> None:
    with open_board("ssh://board") as opened:
        session = opened.connect()
        assert conditions.threads(session) >= 1
        session.close()
        model = opened.load(add_relu)
        np.testing.assert_array_equal(model.run(_INPUTS)[0], np.full((ROWS, COLUMNS), 2, np.float32))
        (copied,) = board.iterdir()
        assert (copied / "board_server").exists()
        assert copied.stat().st_mode & 0o777 == 0o700
    assert eventually(lambda: not list(board.iterdir()))


def test_commands_take_the_board(
    board: Path, digits_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        cli.invoke(["run", str(digits_package), "--board", "ssh://board", "--threads", "3", "--check"]) == 0
    )
    assert "must be equal" in capsys.readouterr().out
    assert cli.invoke(["bench", str(digits_package), "--board", "ssh://board"]) == 2
    assert "is emulated, and its times mean nothing" in capsys.readouterr().err


def test_a_client_needs_the_key(board: Path) -> None:
    with open_board("ssh://board") as opened:
        assert isinstance(opened, deployed.DeployedBoard)
        opened._key = "0" * 32
        with pytest.raises(EnvError, match="no RPC server of a board answers"):
            opened.connect()


def test_a_model_that_crashes_leaves_the_board_usable(board: Path, fault: Path, add_relu: Path) -> None:
    with open_board("ssh://board") as opened:
        with pytest.raises(EnvError, match="SIGILL"):
            opened.load(fault).run([np.array([ILLEGAL], np.float32)])
        assert opened.load(add_relu).run(_INPUTS)


def test_a_killed_owner_leaves_nothing_behind(board: Path) -> None:
    program = (
        "import time; from arm_ext.board import open_board; board = open_board('ssh://board'); "
        "print('ready', flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    assert list(board.iterdir())
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert eventually(lambda: not list(board.iterdir()))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ssh://stranger", "Permission denied .*let your key in there"),
        (
            "ssh://unseen",
            "Host key verification failed.* connect once by hand, to check its key: ssh ssh://unseen",
        ),
        ("ssh://nowhere.invalid", "Could not resolve hostname"),
    ],
)
def test_a_board_out_of_reach_is_told_with_what_to_do(
    board: Path, name: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EnvError, match=rf"(?s)no server could be started on board {name}: .*{why}"):
        open_board(name)
    assert capfd.readouterr() == ("", "")


def test_another_machine_is_refused(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployed, "_SCRIPT", deployed._SCRIPT.replace('"Linux aarch64"', '"Linux riscv64"'))
    with pytest.raises(EnvError, match="it is Linux on aarch64; a board runs Linux on aarch64"):
        open_board("ssh://board")
    assert not list(board.iterdir())


def test_cores_and_threads_are_of_the_servers_environment() -> None:
    on_linux = deployed._server_command("key", None, [4, 5, 6], android=False)
    assert "TVM_BIND_THREADS=0 TVM_NUM_THREADS=3 taskset -c 4-6 ./board_server" in on_linux
    on_android = deployed._server_command("key", 2, [4, 5, 7], android=True)
    assert (
        'TVM_NUM_THREADS=2 taskset b0 ./glibc/ld-linux-aarch64.so.1 --library-path "$PWD/glibc' in on_android
    )
    assert "THREADS" not in deployed._server_command("key", None, [], android=False)


def test_android_gets_a_c_library_of_its_own(
    board: Path, add_relu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for adb, as there is no device: its shell is this machine's, its programs run in an emulator."""
    emulated = write_program(tmp_path / "emulated", _EMULATED % {"board": board, "server": ""})
    write_program(tmp_path / "adb", _ADB % {"emulated": emulated, "board": tmp_path})
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with open_board("adb:R58M123") as opened:
        assert opened.load(add_relu).run(_INPUTS)
        (copied,) = board.iterdir()
        assert (copied / "glibc" / "libc.so.6").exists()
    assert (tmp_path / "removed").read_text().startswith("tcp:")
    assert eventually(lambda: not list(board.iterdir()))


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ("adb: no devices/emulators found", "plug it in"),
        ("error: more than one device/emulator", "--board adb:SERIAL"),
        ("ld: broken", ""),
    ],
)
def test_what_adb_says_is_followed_by_what_to_do(log: str, advice: str) -> None:
    assert advice in deployed._Adb("").explain(log)


def test_names_of_boards_behind_ssh_and_adb() -> None:
    spec = parse_spec("ssh://pi@10.0.0.7:2222/home/pi/tmp")
    assert (spec.kind, spec.host, spec.folder) == ("ssh", "ssh://pi@10.0.0.7:2222", "/home/pi/tmp")
    assert (parse_spec("adb").key, parse_spec("adb:10.0.0.7:5555").key) == ("", "10.0.0.7:5555")
