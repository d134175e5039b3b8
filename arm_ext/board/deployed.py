# SPDX-License-Identifier: Apache-2.0
"""Boards that are reached by ssh or adb, with nothing installed: the RPC server is copied there and removed again.

The board needs a shell, tar and head; to Android, whose C library is another, glibc is copied with the server. The
server listens on the board's loopback interface, for clients that know a random key, and is reached through a forwarded
port. It ends and removes its files when the connection that started it closes, however that happens.
"""

import io
import secrets
import shlex
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from arm_ext.board.base import Board
from arm_ext.board.process import ServerProcess, thread_environment
from arm_ext.board.session import BoardLostError, BoardSession, ServerAddress
from arm_ext.board.spec import BoardSpec
from arm_ext.board.virtual import emulator, served_port
from arm_ext.common.cores import cores_text
from arm_ext.common.errors import EnvError
from arm_ext.native.build import board_server, runtime_libs

_START_SECONDS = 120
"""Longest wait for a server: some 3 MB are sent to the board before it starts."""

_FORWARD_SECONDS = 20
_ATTEMPTS = 3
"""Attempts to forward a port: another program may take a free port before ssh does."""

_SSH = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlPersist=no",
)
"""Options of ssh: no questions, which no user would see, and an end of the connection when the board is lost."""

_LOADER = "ld-linux-aarch64.so.1"
_LIBRARIES = (
    *(_LOADER, "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"),
    *("libgcc_s.so.1", "libstdc++.so.6"),
)
"""Libraries that the server needs and Android does not have."""

_ANDROID_FOLDER = "/data/local/tmp"
"""Folder of an Android device in which adb may write and run programs."""

# Fields: the parent folder or "", the size of the archive in bytes, the server's command line. Standard input begins
# with the archive; afterwards it stays open, and the server stops when it is closed.
_SCRIPT = """
case "$(uname -s) $(uname -m)" in
"Linux aarch64") ;;
*) echo "it is $(uname -s) on $(uname -m); a board runs Linux on aarch64" >&2; exit 1 ;;
esac
umask 077
parent=%(parent)s
folder=$(mktemp -d "${parent:-${TMPDIR:-/tmp}}/arm-ext-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" && head -c %(bytes)d | tar xzf - && mkdir work || exit 1
export TMPDIR="$folder/work"
%(server)s
"""


class _Ssh:
    """ssh commands for one board; all of them share the connection of `start`."""

    tool = "ssh"
    android = False

    def __init__(self, destination: str, folder: str) -> None:
        self.parent = folder
        self._destination = destination
        self._control = Path(tempfile.mkdtemp(prefix="arm-ext-ssh-"))

    def start(self, script: str) -> list[str]:
        """Return the command that runs a shell script on the board, with the command's standard input."""
        options = [word for option in _SSH for word in ("-o", option)]
        control = ["-o", "ControlMaster=yes", "-S", str(self._control / "socket")]
        return ["ssh", "-T", *options, *control, self._destination, f"sh -c {shlex.quote(script)}"]

    def forward(self, port: int) -> int:
        """Forward a free local port to a port of the board's loopback interface; return it."""
        for attempt in range(_ATTEMPTS):
            with socket.create_server(("127.0.0.1", 0)) as free:
                local = int(free.getsockname()[1])
            control = ["-S", str(self._control / "socket"), "-O", "forward"]
            done = _run(["ssh", *control, "-L", f"127.0.0.1:{local}:127.0.0.1:{port}", self._destination])
            if not done.returncode:
                return local
            if attempt == _ATTEMPTS - 1:
                raise EnvError(done.stderr.strip())
        raise AssertionError

    def explain(self, log: str) -> str:
        """Return what the user can do about a failure that ssh told."""
        if "Permission denied" in log and "publickey" in log:
            return "let your key in there (ssh-copy-id), or load it into ssh-agent: no password is asked for"
        if "Host key verification failed" in log:
            return f"connect once by hand, to check its key: ssh {self._destination}"
        return ""

    def close(self) -> None:
        """Remove the socket by which commands share the connection."""
        shutil.rmtree(self._control, ignore_errors=True)


class _Adb:
    """adb commands for one device, with the interface of `_Ssh`."""

    tool = "adb"
    android = True

    def __init__(self, serial: str) -> None:
        self.parent = _ANDROID_FOLDER
        self._adb = ["adb", *(["-s", serial] if serial else [])]
        self._forwarded = 0

    def start(self, script: str) -> list[str]:
        """Return the command that runs a shell script on the device, with the command's standard input."""
        return [*self._adb, "shell", "-T", f"sh -c {shlex.quote(script)}"]

    def forward(self, port: int) -> int:
        """Forward a free local port to a port of the device; return it."""
        done = _run([*self._adb, "forward", "tcp:0", f"tcp:{port}"])
        if done.returncode or not done.stdout.strip().isdigit():
            raise EnvError(done.stderr.strip())
        self._forwarded = int(done.stdout)
        return self._forwarded

    def explain(self, log: str) -> str:
        """Return what the user can do about a failure that adb told."""
        if "more than one device" in log:
            return "name one of `adb devices`: --board adb:SERIAL"
        if "no devices" in log or "unauthorized" in log or "not found" in log:
            return "`adb devices` must list it as `device`: plug it in, and allow debugging on its screen"
        return ""

    def close(self) -> None:
        """Remove the port forwarding, which adb keeps after a command ends."""
        if self._forwarded:
            with suppress(EnvError):
                _run([*self._adb, "forward", "--remove", f"tcp:{self._forwarded}"])


class DeployedBoard(Board):
    """A board behind ssh or adb; this object copies the RPC server to the board, starts it and stops it."""

    machines = ("aarch64",)

    def __init__(
        self, name: str, spec: BoardSpec, timeout: float, *, threads: int | None, cores: Sequence[int]
    ) -> None:
        """Copy the server to the board and start it.

        Args:
            name: The board as the user named it.
            spec: The parsed name.
            timeout: Seconds that a session may last.
            threads: Threads of the runtime; by default its choice, or one for each of the cores.
            cores: Cores that the server may run on; all of them if there are none.

        Raises:
            EnvError: ssh or adb is not installed, the board is out of reach, or the server does not start there.
        """
        super().__init__(name)
        self._timeout = timeout
        self._reach = _Ssh(spec.host, spec.folder) if spec.kind == "ssh" else _Adb(spec.key)
        if shutil.which(self._reach.tool) is None:
            raise EnvError(f"board {name} needs {self._reach.tool}, which is not on PATH")
        self._key = secrets.token_hex(16)
        archive = _archive(android=self._reach.android)
        script = _SCRIPT % {
            "parent": shlex.quote(self._reach.parent),
            "bytes": len(archive),
            "server": _server_command(self._key, threads, cores, android=self._reach.android),
        }
        self._process = ServerProcess(lambda _folder: self._reach.start(script), {})
        try:
            self._process.send(archive)
            served = int(self._process.wait_for(served_port, _START_SECONDS))
            self._port = self._reach.forward(served)
        except EnvError as error:
            self._process.close()
            self._reach.close()
            advice = self._reach.explain(str(error))
            raise EnvError(
                f"no server could be started on board {name}: {error}{advice and f'. {advice}'}"
            ) from error

    def connect(self) -> BoardSession:
        """Open a session; see `Board.connect`."""
        if not self._process.alive():
            raise BoardLostError(
                f"the connection to board {self.name} has ended: {self._process.log().strip()[-500:]}"
            )
        address = ServerAddress("127.0.0.1", self._port, self._key, self.name)
        return BoardSession(lambda: address, self._timeout)

    def close(self) -> None:
        """Close the session, end the server, and remove its files from the board."""
        super().close()
        self._process.close()
        self._reach.close()


def _server_command(key: str, threads: int | None, cores: Sequence[int], *, android: bool) -> str:
    """Return the shell's line that runs the server in the folder of the archive."""
    server = "./board_server"
    if android:
        server = f'./glibc/{_LOADER} --library-path "$PWD/glibc:$PWD/tvm/lib" {server}'
    threading = [f"{name}={value}" for name, value in thread_environment(threads, cores).items()]
    environment = ['LD_LIBRARY_PATH="$PWD/tvm/lib"', *threading]
    if cores:
        server = f"taskset {_mask(cores) if android else f'-c {cores_text(cores)}'} {server}"
    return f'{" ".join(environment)} {server} --work "$PWD/work" --key {key}'


def _mask(cores: Sequence[int]) -> str:
    """Return the mask of cores in hexadecimal, as Android's taskset takes it."""
    return f"{sum(1 << core for core in cores):x}"


def _archive(*, android: bool) -> bytes:
    """Return a compressed archive of the server and its libraries."""
    written = io.BytesIO()
    runtime = runtime_libs()
    root = runtime.parent.parent
    with tarfile.open(fileobj=written, mode="w:gz", compresslevel=6) as archive:
        archive.add(board_server(), "board_server")
        # The server reads the runtime's version beside the folder of the libraries.
        for path in [*runtime.glob("*.so"), *root.glob("*.dist-info/METADATA")]:
            archive.add(path, str(path.relative_to(root)))
        if android:
            for name in _LIBRARIES:
                archive.add(_library(name), f"glibc/{name}")
    return written.getvalue()


def _library(name: str) -> Path:
    """Return the path of a library of the arm64 glibc that the emulated board uses.

    Raises:
        EnvError: It is not installed.
    """
    root = emulator()[1]
    # On an arm64 machine, `root` is /, where Debian keeps libraries in a folder named after the architecture.
    for folder in ("lib", "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu"):
        if (found := root / folder / name).exists():
            return found.resolve()
    raise EnvError(f"a board behind adb needs {name} for arm64, which is not below {root}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_FORWARD_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvError(f"{command[0]} took longer than {_FORWARD_SECONDS} s") from error
