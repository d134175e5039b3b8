# SPDX-License-Identifier: Apache-2.0
"""Builds the native parts with the pinned zig, once, into the cache folder.

Each result lies in a folder named by a hash of all that it is made from, with the hashes of its own files, by which
a damaged one is noticed and built again. It is built aside and moved there in one step, so that an interrupted build
leaves nothing and builds at the same time do each other no harm.
"""

import hashlib
import importlib.metadata
import json
import logging
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from arm_ext.common.cache import ASIDE, cache_folder, remove_leftovers
from arm_ext.common.errors import EnvError
from arm_ext.target.toolchain import ZIGLANG, zig, zig_target

_LOG = logging.getLogger(__name__)
NATIVE = Path(__file__).parent
_WHEELS = ("apache-tvm", "apache-tvm-ffi")
_WHEEL_PLATFORM = "manylinux_2_28_aarch64"
# Files of the wheels that the board needs; METADATA names the runtime's version.
_RUNTIME_FILES = (
    "tvm/lib/libtvm_runtime.so",
    "tvm/lib/libtvm_runtime_extra.so",
    "tvm_ffi/lib/libtvm_ffi.so",
    "apache_tvm-{tvm}.dist-info/METADATA",
    "apache_tvm_ffi-{ffi}.dist-info/METADATA",
)
_LIB = Path("tvm", "lib")
_C_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-Wl,--build-id=none", "-s")
# No exceptions, RTTI or C++ library: zig would have to build libc++ first (36 s instead of 4 s), and its symbols
# could conflict with those of libstdc++, which the runtime libraries use.
_CXX_FLAGS = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-nostdlib++")
_NPU_FLAGS = ("-O2", "-g0", "-r", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", *_CXX_FLAGS)
_SERVER_SOURCES = ("board_server.cc", "marks.cc", "session.cc", "tracker.cc", "waiting.cc")
_SERVER_HEADERS = ("ffi.h", "marks.h", "session.h", "tracker.h", "waiting.h", "wire.h")
NPU_RUN = "arm_ext_npu_run"
"""Function of `npu_runtime`: (region, whether a failed run is an error, payload, inputs, outputs) → ran on the NPU."""
# File in each cache folder that holds path of each file → its hash.
_CONTENTS = "contents.json"
_whole: set[Path] = set()
# Sources that every NPU driver has; the caller adds the entry points, and npu_system.cc for the operating system.
_NPU_SOURCES = (
    "npu_device.cc",
    "npu_driver_view.cc",
    "npu_payload.cc",
    "npu_runtime.cc",
    "npu_session.cc",
    "npu_sha256.cc",
    "npu_stream.cc",
)
_NPU_HEADERS = (
    "ffi.h",
    "npu_abi.h",
    "npu_device.h",
    "npu_failure.h",
    "npu_payload.h",
    "npu_runtime.h",
    "npu_session.h",
    "npu_settings.h",
    "npu_sha256.h",
    "npu_stream.h",
    "npu_system.h",
)


def board_server() -> Path:
    """Return the path of the aarch64 RPC server, which needs `runtime_libs()` on its library path.

    Raises:
        EnvError: zig or the aarch64 wheels are missing; the message names the command that mends it.
    """
    flags = [*_C_FLAGS, *_CXX_FLAGS, "-target", zig_target("aarch64-linux-gnu")]

    def build(folder: Path) -> None:
        libs = runtime_libs()
        sources = [NATIVE / name for name in _SERVER_SOURCES]
        link = [f"-L{libs}", "-ltvm_ffi", "-ldl"]
        zig(["c++", *flags, *ffi_includes(), *sources, *link, "-o", "board_server"], cwd=folder)

    return _built("board_server", (*_SERVER_SOURCES, *_SERVER_HEADERS), flags, build) / "board_server"


def qemu_plugin() -> Path:
    """Return the path of the QEMU plugin that counts instructions, built for this machine's QEMU.

    Raises:
        EnvError: zig is missing or failed.
    """
    return _shared_library("count_plugin", platform.machine())


def bare_count_plugin() -> Path:
    """Return the path of the QEMU plugin that counts instructions of a Cortex-M, built for this machine's QEMU.

    Raises:
        EnvError: zig is missing or failed.
    """
    return _shared_library("bare_count_plugin", platform.machine())


def npu_runtime(triple: str, system: Path | None = None) -> Path:
    """Return the path of the object that is linked into a model.so with NPU regions; only its entry points are visible.

    Args:
        triple: LLVM triple, such as "aarch64-linux-gnu".
        system: Another source of what npu_system.h declares than Linux's system calls, for a device of a test.

    Raises:
        EnvError: zig is missing or failed.
        UsageError: The triple is not of Linux with glibc.
    """
    return _npu_object("npu_entries.cc", triple, system)


def npu_linux(triple: str, system: Path | None = None) -> Path:
    """Return the path of `npu_runtime`'s object for C libraries, whose entry points take pointers.

    Arguments and errors are those of `npu_runtime`.
    """
    return _npu_object("npu_c_entries.cc", triple, system)


def _npu_object(entries: str, triple: str, system: Path | None) -> Path:
    flags = [*_NPU_FLAGS, "-target", zig_target(triple)]
    if triple.startswith("aarch64"):
        flags.append("-mno-outline-atomics")  # which ask for libgcc's
    sources = [*_NPU_SOURCES, entries, str(system or "npu_system.cc")]

    def build(folder: Path) -> None:
        inputs = [NATIVE / name for name in sources]
        zig(["c++", *flags, *ffi_includes(), f"-I{NATIVE}", *inputs, "-o", "npu_runtime.o"], cwd=folder)

    return _built("npu_runtime", (*sources, *_NPU_HEADERS), flags, build) / "npu_runtime.o"


def probe_module(machine: str = "aarch64") -> Path:
    """Return the path of the module that reads a board's CPU features.

    Args:
        machine: The board's architecture, as `uname -m` gives it.

    Raises:
        EnvError: zig is missing or failed.
    """
    return _shared_library("probe", machine)


def call_times_module(machine: str) -> Path:
    """Return the path of the module that times the kernel calls of a model.so on a board.

    Args:
        machine: The board's architecture, as `uname -m` gives it.

    Raises:
        EnvError: zig is missing or failed.
    """
    return _shared_library("call_times", machine)


def runtime_libs() -> Path:
    """Return the folder with the aarch64 libtvm_runtime, libtvm_runtime_extra and libtvm_ffi.

    They are those of the aarch64 wheels in the versions that are installed here; pip gets them once.

    Raises:
        EnvError: The wheels cannot be downloaded; the message names the command that installs them.
    """
    versions = _wheel_versions()

    def fill(folder: Path) -> None:
        if platform.machine() == "aarch64":
            _copy_installed(folder)
        else:
            _download(versions, folder)
        (folder / "tvm_ffi/lib/libtvm_ffi.so").rename(folder / _LIB / "libtvm_ffi.so")

    return cached(*_runtime_key(), fill) / _LIB


def _runtime_key() -> tuple[str, Sequence[str]]:
    return "runtime-aarch64", [*_wheel_versions(), *_RUNTIME_FILES]


def _shared_library(name: str, machine: str) -> Path:
    """Build `name`.c as a shared library for a machine; symbols of QEMU or of the TVM runtime stay undefined."""
    flags = [*_C_FLAGS, "-std=gnu11", "-shared", "-fPIC", "-target", zig_target(f"{machine}-linux-gnu")]

    def build(folder: Path) -> None:
        zig(["cc", *flags, *ffi_includes(), NATIVE / f"{name}.c", "-o", f"{name}.so"], cwd=folder)

    return _built(name, (f"{name}.c",), flags, build) / f"{name}.so"


def _built(name: str, sources: Sequence[str], flags: Sequence[str], build: Callable[[Path], None]) -> Path:
    texts = [(NATIVE / source).read_text(encoding="utf-8") for source in sources]
    return cached(name, [ZIGLANG, *_wheel_versions(), *flags, *texts], build)


def cached(name: str, made_from: Sequence[str], fill: Callable[[Path], None]) -> Path:
    """Return the cache folder of `name`; if it is missing or damaged, `fill` creates its contents."""
    folder = _place(name, made_from)
    if _is_whole(folder):
        return folder
    native = folder.parent
    for place in (native, native.parent):  # the latter holds zig's
        remove_leftovers(place)
    _LOG.info("building %s in %s", name, native)
    aside = Path(tempfile.mkdtemp(prefix=f"{ASIDE}{name}-", dir=native))
    damaged = aside.with_name(f"{aside.name}-damaged")
    try:
        fill(aside)
        (aside / _CONTENTS).write_text(json.dumps(_hashes(aside)), encoding="utf-8")
        aside.chmod(0o755)  # mkdtemp makes the folder private, but a cache may be shared
        if folder.exists() and not _is_whole(folder):
            _LOG.warning("%s was damaged, and is made again", folder)
            folder.rename(damaged)
        aside.rename(folder)
    except OSError as error:
        # Another process may have written the folder first; its contents are the same.
        if not _is_whole(folder):
            raise EnvError(f"cannot write {folder} ({error}); name another in ARM_EXT_CACHE") from error
    finally:
        for left in (aside, damaged):
            shutil.rmtree(left, ignore_errors=True)
    _whole.add(folder)
    return folder


def runtime_entry() -> tuple[Path, bool] | None:
    """Return the runtime's cache folder, and whether it is complete; None if it is not in the cache."""
    place = _place(*_runtime_key())
    return (place, _is_whole(place)) if place.is_dir() else None


def _place(name: str, made_from: Sequence[str]) -> Path:
    digest = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    native = cache_folder() / "native"
    try:
        native.mkdir(exist_ok=True)
    except OSError as error:
        raise EnvError(
            f"{native} cannot be made ({error.strerror}); name a cache folder by ARM_EXT_CACHE"
        ) from error
    return native / f"{name}-{digest}"


def _is_whole(folder: Path) -> bool:
    """Whether a folder has all files that were written to it, by their hashes; checked once per process."""
    if folder in _whole and folder.is_dir():
        return True
    contents = folder / _CONTENTS
    if not contents.is_file():  # opening a named pipe would block
        return False
    try:
        is_whole = bool(json.loads(contents.read_text(encoding="utf-8")) == _hashes(folder))
    except (OSError, ValueError):
        return False
    if is_whole:
        _whole.add(folder)
    return is_whole


def _hashes(folder: Path) -> dict[str, str]:
    """Return path in the folder → the file's hash or, for a link, its target."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            hashes[name] = str(path.readlink())
        elif path.is_file() and name != _CONTENTS:
            with path.open("rb") as file:
                hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def _download(versions: Sequence[str], folder: Path) -> None:
    """Unpack the runtime files of the aarch64 wheels into `folder`."""
    with tempfile.TemporaryDirectory() as wheels:
        options = ["--no-deps", "--only-binary=:all:", f"--platform={_WHEEL_PLATFORM}"]
        command = ["-m", "pip", "download", *options, *versions]
        quiet = ["--quiet", "--disable-pip-version-check", "--dest", wheels]
        # With -P, Python does not import modules from the working folder.
        done = subprocess.run(
            [sys.executable, "-P", *command, *quiet], capture_output=True, text=True, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise EnvError(
                f"the TVM runtime for aarch64, on which the virtual board runs, cannot be downloaded: {reason}\n"
                f"On a machine with network run: {shlex.join(['pip', *command[2:], '--dest', 'wheels'])}\n"
                "and here set PIP_FIND_LINKS to that folder."
            )
        wanted = _runtime_files()
        for wheel in Path(wheels).iterdir():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, members=[name for name in archive.namelist() if name in wanted])


def _copy_installed(folder: Path) -> None:
    """Copy the runtime files of the wheels installed on this Arm machine into `folder`."""
    site = Path(sysconfig.get_path("platlib"))
    for name in _runtime_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(site / name, folder / name)


def _runtime_files() -> list[str]:
    tvm, ffi = map(importlib.metadata.version, _WHEELS)
    return [name.format(tvm=tvm, ffi=ffi) for name in _RUNTIME_FILES]


def _wheel_versions() -> list[str]:
    return [f"{name}=={importlib.metadata.version(name)}" for name in _WHEELS]


def ffi_includes() -> list[str]:
    """Return the -I options of the C ABI's headers."""
    include = importlib.metadata.distribution("apache-tvm-ffi").locate_file("tvm_ffi/include")
    return [f"-I{include}"]
