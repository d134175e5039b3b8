# SPDX-License-Identifier: Apache-2.0
"""The virtual board: our RPC server for aarch64 under qemu-aarch64, on this machine."""

import functools
import os
import platform
import re
import shutil
import socket
import subprocess
from pathlib import Path

from arm_ext.board.base import Board
from arm_ext.board.confine import confined
from arm_ext.board.process import ServerProcess
from arm_ext.board.session import BoardLostError, BoardSession, ServerAddress
from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.native.build import board_server, qemu_plugin, runtime_libs
from arm_ext.target.profiles import PROFILES

# All of NEON (dotprod, i8mm, bf16, fp16), without SVE and SME: QEMU 7.2 computes int8 SMOPA (SME) wrongly.
DEFAULT_CPU = "max,sve=off,sme=off"
_APT = "sudo apt-get install qemu-user libc6-arm64-cross libstdc++6-arm64-cross"
_QEMU = "qemu-aarch64"
SME_QEMU = 10
"""The first major version of QEMU that was seen to compute SME rightly (10.0.2 and 11.1.3; 7.2 does not)."""
SME_FOLDER = "qemu-sme"
"""Folder of the cache for the newer QEMU that `scripts/qemu_sme.sh` installs, which has no plugins."""
_LOADER = "lib/ld-linux-aarch64.so.1"
_CXX_LIBRARY = "lib/libstdc++.so.6"
# Time limit; the server starts in half a second, but a loaded machine may need more.
_START_SECONDS = 120
# Time limit of `qemu-aarch64 --version`.
_VERSION_SECONDS = 20
# Paths that the emulator and the server may read: libraries of this machine and of arm64, and files of the kernel,
# but no user files.
_SYSTEM = (
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/proc",
    "/sys/devices/system",
    "/dev/urandom",
)
# Prefixes of the environment variables that are passed on; the model can read them, so none may contain a secret.
# QEMU's own variables would change the emulation.
_ENVIRONMENT = ("PATH", "LANG", "LC_", "TVM_", "OMP_", "ARM_EXT_")
# TVM's affinity mode for the largest cores; all cores of an emulated machine are equal.
_ALL_CORES = 1


class VirtualServer:
    """The emulated server's process, to which any client may connect.

    Attributes:
        port: TCP port on the loopback interface.
        dump: File that the counting plugin writes; None without counting.
        folder: The folder that the process may write to; it is removed in the end.
    """

    def __init__(
        self,
        cpu: str = DEFAULT_CPU,
        *,
        counting: bool = False,
        threads: int | None = None,
        caches: tuple[int, int] | None = None,
        calls: bool = False,
        tracker: str = "",
        key: str = "",
    ) -> None:
        """Start the server, which is built the first time.

        Args:
            cpu: CPU for QEMU's option -cpu.
            counting: Whether to load the plugin that counts.
            threads: Number of threads that models run on; by default one when the board counts, and else the
                runtime's choice. Each of several is counted by itself.
            caches: Bytes of an L1 and L2 whose misses are counted too, on one thread.
            calls: Whether each kernel call is counted apart, on one thread.
            tracker: "host:port" of a tracker on this machine to register with, or "".
            key: The key to register as.

        Raises:
            EnvError: qemu, the arm64 libc or the means to build the server are missing, or QEMU cannot count.
            UsageError: QEMU has no such CPU.
        """
        qemu, root = emulator(sme=needs_sme(cpu))
        _check_cache()
        server, libs = board_server(), runtime_libs()
        plugin = qemu_plugin() if counting else None

        host, _, port = tracker.rpartition(":")
        # The server cannot resolve names, which would need more rights.
        tracker = tracker and f"{_address(host)}:{port}"

        def command(folder: Path) -> list[str]:
            dump = folder / "dump"
            line = [qemu, "-cpu", cpu, "-L", str(root), "-E", f"LD_LIBRARY_PATH={libs}"]
            several = threads is not None and threads > 1
            if plugin:
                counted = counting_to(plugin, dump, caches, by_thread=several)
                line += ["-plugin", f"{counted}{',calls=on' * calls}"]
            line += [str(server), "--work", str(folder)]
            line += ["--dump", str(dump)] if plugin else []
            line += ["--tracker", tracker, "--key", key] if tracker else []
            # The server also reads the runtime's version, a file next to the folder of the runtime's libraries.
            native = [server.parent, libs.parent.parent, *([plugin.parent] if plugin else [])]
            own = [Path(qemu), Path(qemu).resolve(), Path(qemu).resolve().parent.parent / "lib"]
            read = [*map(Path, _SYSTEM), *own, *([root] if root != Path("/") else []), *native]
            return confined(line, read=read, write=[folder, Path("/dev/null")], tracker_port=int(port or 0))

        inherited = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
        number = 1 if counting and threads is None else threads
        more = {} if number is None else {"TVM_NUM_THREADS": str(number)}
        self._process = ServerProcess(command, more, inherited)
        self.folder = self._process.folder
        self.dump = self._process.folder / "dump" if counting else None
        try:
            self.port = int(self._process.wait_for(served_port, _START_SECONDS))
        except EnvError as error:
            raise _explain(str(error), cpu, qemu) from error

    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._process.alive()

    def close(self) -> None:
        """End the server, with all its processes and files."""
        self._process.close()


class VirtualBoard(Board):
    """An emulated board whose server starts and ends with this object."""

    emulated = True
    machines = ("aarch64",)

    def __init__(
        self,
        cpu: str,
        *,
        counting: bool,
        threads: int | None,
        timeout: float,
        caches: tuple[int, int] | None = None,
        calls: bool = False,
    ) -> None:
        """Start the board.

        Args:
            cpu: CPU for QEMU's option -cpu.
            counting: Whether `LoadedModel.count` is wanted.
            threads: As for `VirtualServer`.
            timeout: Seconds that a session may last.
            caches: As for `VirtualServer`.
            calls: As for `VirtualServer`.

        Raises:
            EnvError: As for `VirtualServer`.
            UsageError: QEMU has no such CPU.
        """
        super().__init__(f"virtual:{cpu}")
        self._server = VirtualServer(cpu, counting=counting, threads=threads, caches=caches, calls=calls)
        self._timeout = timeout
        self._threads = threads
        self.dump = self._server.dump

    def connect(self) -> BoardSession:
        """Open a session; see `Board.connect`."""
        try:
            address = ServerAddress("127.0.0.1", self._server.port, "", self.name)
            session = BoardSession(lambda: address, self._timeout, shared=self._server.folder)
        except EnvError as error:
            raise BoardLostError(
                f"board {self.name} was terminated by another process; open it again"
            ) from error
        if (self._threads or 1) > 1:
            # Without this call, the runtime would use at most as many threads as this machine has CPUs, whatever
            # TVM_NUM_THREADS says.
            configure = session.function("runtime.config_threadpool")
            with session.guard():
                configure(_ALL_CORES, self._threads)
        return session

    def close(self) -> None:
        """Close the session and stop the board."""
        super().close()
        self._server.close()


def emulated_cpu(name: str, own: str = "", own_cpu: str | None = None) -> str:
    """Return QEMU's -cpu for the part of a board name after `virtual:`.

    Args:
        name: Name of a profile, such as "neoverse-n2", or of a CPU of QEMU's; "" for the CPU that the package needs.
        own: The profile that the package was compiled for.
        own_cpu: CPU that code for the profile needs, which --mattr may have changed.
    """
    if name in ("", own):
        return own_cpu or DEFAULT_CPU
    if name in PROFILES:
        return PROFILES[name].qemu_cpu or DEFAULT_CPU
    # QEMU's CPU `max` has SME, which QEMU 7.2 computes wrongly. SME has to be asked for, so that a newer QEMU runs it.
    return f"{name},sme=off" if name.partition(",")[0] == "max" and "sme" not in name else name


def needs_sme(cpu: str) -> bool:
    """Whether an emulated CPU, as QEMU's option -cpu names it, is asked to have SME."""
    return re.search(r"\bsme(\d+)?=on\b", cpu) is not None


class NoSmeError(EnvError):
    """Raised if no QEMU that computes SME is installed.

    Attributes:
        lack: What was found instead.
    """

    def __init__(self, lack: str) -> None:
        super().__init__(
            f"a virtual board with SME needs QEMU {SME_QEMU} or newer, as older ones compute int8 SMOPA wrongly; "
            f"{lack}: run scripts/qemu_sme.sh, which puts one beside this machine's, or compile without --mattr=+sme"
        )
        self.lack = lack


def sme_emulator() -> str:
    """Return the path of a qemu-aarch64 that computes SME: ARM_EXT_QEMU_SME, or what `scripts/qemu_sme.sh` installed.

    Raises:
        NoSmeError: There is none, or an older one.
    """
    override = os.environ.get("ARM_EXT_QEMU_SME")
    path = Path(override) if override else cache_folder() / SME_FOLDER / "usr" / "bin" / _QEMU
    if not os.access(path, os.X_OK) or path.is_dir():
        named = f"ARM_EXT_QEMU_SME names {path}, which is no program"
        raise NoSmeError(named if override else "none is installed")
    version = qemu_version(str(path))
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < SME_QEMU:
        raise NoSmeError(f"{path} is of version {version or 'unknown'}")
    return str(path)


@functools.cache
def qemu_version(qemu: str) -> str:
    """Return the version that a qemu-aarch64 prints, such as "11.1.3 (Debian 1:11.1.3)"; "" if it prints none."""
    try:
        done = subprocess.run(
            [qemu, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    prefix, _, version = done.stdout.partition("\n")[0].partition(" version ")
    return version if prefix == _QEMU else ""


def emulator(*, sme: bool = False) -> tuple[str, Path]:
    """Return the path of qemu-aarch64, and the root folder of the arm64 libraries.

    Args:
        sme: Whether it has to compute SME.

    Raises:
        EnvError: This machine lacks one of them.
    """
    qemu = sme_emulator() if sme else shutil.which(_QEMU)
    if qemu is None:
        raise EnvError(f"the virtual board needs {_QEMU}, which is not on PATH; run: {_APT}")
    if platform.machine() == "aarch64":
        return qemu, Path("/")
    root = Path(os.environ.get("ARM_EXT_SYSROOT", "/usr/aarch64-linux-gnu"))
    for library in (_LOADER, _CXX_LIBRARY):
        if not (root / library).exists():
            raise EnvError(
                f"the virtual board needs {root / library}, which does not exist; run: {_APT}\n"
                "or set ARM_EXT_SYSROOT to a folder with an arm64 lib/"
            )
    return qemu, root


def _address(host: str) -> str:
    """Return the IPv4 address of a host.

    Raises:
        EnvError: There is no host of that name.
    """
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise EnvError(f"no host is named {host!r} ({error.strerror})") from error


def served_port(log: str) -> str | None:
    """Return the port that a server's log names once the server listens; None before."""
    match = re.search(r"^READY (\d+)$", log, re.MULTILINE)
    return match and match[1]


def counting_to(
    plugin: Path, dump: Path, caches: tuple[int, int] | None = None, *, by_thread: bool = False
) -> str:
    """Return the value of QEMU's option -plugin, in which commas separate, for a plugin that writes to a file.

    Args:
        plugin: The plugin.
        dump: The file.
        caches: Bytes of an L1 and L2 whose misses are counted, too.
        by_thread: Whether threads are counted apart, and keep step.
    """
    file, out = (str(path).replace(",", ",,") for path in (plugin, dump))
    modelled = ",l1={},l2={}".format(*caches) if caches else ""
    return f"file={file},out={out}{modelled}{',by_thread=on' * by_thread}"


def _check_cache() -> None:
    """Refuse a cache folder whose path has characters that QEMU's -E or the loader's library path cannot contain."""
    folder = cache_folder()
    if found := [each for each in ":;," if each in str(folder)]:
        raise EnvError(
            f"the virtual board cannot load libraries from the cache folder {folder}, whose path has a {found[0]!r}: "
            "name another by ARM_EXT_CACHE"
        )


def _explain(log: str, cpu: str, qemu: str) -> EnvError | UsageError:
    if "unable to find CPU model" in log or "Property" in log:
        return UsageError(f"{qemu} has no CPU {cpu!r} ({log}); {qemu} -cpu help lists its CPUs")
    if "plugin" in log and needs_sme(cpu):
        return EnvError(
            f"{qemu}, which computes SME, cannot load plugins, so the virtual board cannot count ({log}); run and "
            "check the package without counting, or compile without --mattr=+sme to count"
        )
    if "plugin" in log:
        return EnvError(
            f"{qemu} cannot load plugins, so the virtual board cannot count ({log}). Debian 12 and Ubuntu 24.04 "
            "have one that can (apt-get install qemu-user); put a qemu-aarch64 of QEMU 6.0 to 8.2 built with "
            "--enable-plugins first on PATH. Running and checking packages works without."
        )
    return EnvError(f"the virtual board did not start: {log}")
