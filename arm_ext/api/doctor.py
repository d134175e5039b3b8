# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.doctor`: checks this machine and a board for the tools that the commands need, and says how to get them."""

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Literal

from arm_ext.board import open_board
from arm_ext.board.confine import support
from arm_ext.board.spec import parse_spec
from arm_ext.board.virtual import NoSmeError, sme_emulator
from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import ArmExtError, EnvError
from arm_ext.common.json_record import ClosedRecord
from arm_ext.measure.mca import INSTALL_COMMAND, find_mca, output_of
from arm_ext.native.build import runtime_entry
from arm_ext.target.toolchain import ZIGLANG

OLDEST_PYTHON = (3, 11)
# Versions as in pyproject.toml, which explains why other versions break.
PINS = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1", "ziglang": ZIGLANG}
# The extra `npu` of pyproject.toml: the packages that --npu compiles with, and a module of each.
NPU_PINS = {"ethos-u-vela": "5.2.0", "tosa-tools": "2026.8.0"}
_NPU_MODULES = {"ethos-u-vela": "ethosu.regor", "tosa-tools": "tosa_serializer"}

QEMU = "qemu-aarch64"
_NEEDED_BYTES = (
    1 << 20
)  # for native parts that are built once; zig's libraries for one target take some 10 MiB
# Our plugin uses version 1 of QEMU's plugin API, which QEMU 9 removed.
_QEMU_WITHOUT_PLUGIN_API_1 = 9
# The arm64 libraries that the emulated server is linked against, and the Debian packages that contain them.
_SYSROOT_FILES = {
    "lib/ld-linux-aarch64.so.1": "libc6-arm64-cross",
    "lib/libstdc++.so.6": "libstdc++6-arm64-cross",
}


_ELF = b"\x7fELF"


class Status(StrEnum):
    """Status of one part: present, missing so that some commands fail (WARNING), or required and missing (MISSING)."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


class Finding(ClosedRecord):
    """The result of the check of one part.

    Attributes:
        part: The tool or library that was looked for.
        status: Whether the part was found and can be used.
        detail: Version or place of the part, or what is wrong and what that prevents.
        mend: The command that mends it; None where all is well, or where `detail` says what to do.
    """

    part: str
    status: Status
    detail: str
    mend: str | None = None


class Diagnosis(ClosedRecord):
    """The findings about all parts, in the order of the report."""

    schema_version: Literal[1] = 1
    findings: list[Finding]

    @property
    def missing(self) -> list[Finding]:
        """The findings about required parts that are missing."""
        return [finding for finding in self.findings if finding.status is Status.MISSING]


class _LackError(Exception):
    def __init__(self, detail: str, mend: str | None = None) -> None:
        super().__init__(detail)
        self.detail, self.mend = detail, mend


def diagnose(board: str | None = None) -> Diagnosis:
    """Look for all parts that the commands need.

    What compiling needs is required. What the virtual board needs is required if `board` is one.

    Args:
        board: A board to connect to as well, as for `arm_ext.run`.

    Raises:
        UsageError: No board has such a name.
    """
    required, optional = Status.MISSING, Status.WARNING
    virtual = required if board is not None and parse_spec(board).kind == "virtual" else optional
    checks: list[tuple[str, Status, Callable[[], str]]] = [
        ("host", optional, _host),
        ("python", required, _python),
        *((name, required, partial(_pinned, name, version)) for name, version in PINS.items()),
        ("cache folder", required, _cache),
        ("xgboost", optional, _xgboost),
        *((name, optional, partial(_for_npu, name)) for name in NPU_PINS),
        (QEMU, virtual, _qemu),
        ("qemu plugins", optional, _qemu_plugins),
        ("qemu with SME", optional, _qemu_sme),
        ("arm64 libraries", virtual, _sysroot),
        ("confinement", optional, _confinement),
        ("aarch64 runtime", optional, _aarch64_runtime),
        ("llvm-mca", optional, _llvm_mca),
    ]
    if board is not None:
        checks.append((f"board {board}", required, partial(_board, board)))
    return Diagnosis(findings=[_find(*check) for check in checks])


def _find(part: str, otherwise: Status, probe: Callable[[], str]) -> Finding:
    try:
        return Finding(part=part, status=Status.OK, detail=probe())
    except _LackError as lack:
        return Finding(part=part, status=otherwise, detail=lack.detail, mend=lack.mend)
    except ArmExtError as error:
        return Finding(part=part, status=otherwise, detail=str(error))


def _host() -> str:
    found = f"{platform.system()} {platform.machine()}"
    if found not in {"Linux x86_64", "Linux aarch64"}:
        raise _LackError(f"{found}: the virtual board runs only on Linux x86_64 and aarch64")
    return found


def _python() -> str:
    found = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise _LackError(f"{found} is older than {oldest}", f"apt-get install python{oldest}")
    return found


def _pinned(name: str, version: str) -> str:
    mend = f"pip install {name}=={version}"
    found = _installed(name)
    if found is None:
        raise _LackError("not installed", mend)
    if found != version:
        raise _LackError(f"{found} is not {version}, the only version that works", mend)
    return found


def _cache() -> str:
    folder = cache_folder()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_NEEDED_BYTES))
    except OSError as error:
        lack = f"{folder} cannot be written to: {error.strerror}; name another folder in ARM_EXT_CACHE"
        raise _LackError(f"{lack}: the linker stores its libraries there") from error
    return str(folder)


def _for_npu(name: str) -> str:
    try:
        found = _pinned(name, NPU_PINS[name])
    except _LackError as lack:
        raise _LackError(f"{lack.detail}: --npu cannot be used", lack.mend) from lack
    module = _NPU_MODULES[name]
    try:
        importlib.import_module(module)
    except ImportError as error:
        mend = f"pip install --force-reinstall {name}=={found}"
        raise _LackError(f"{module} cannot be imported: {error}: --npu cannot be used", mend) from error
    return found


def _xgboost() -> str:
    # Two distributions contain the module; the one without CUDA is the required one.
    for name in ("xgboost-cpu", "xgboost"):
        if found := _installed(name):
            return f"{name} {found}"
    raise _LackError("not installed: `tune` works without its cost model", "pip install xgboost-cpu")


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _qemu() -> str:
    path = shutil.which(QEMU)
    if path is None:
        raise _LackError("not found: the virtual board cannot run", "apt-get install qemu-user")
    return f"{_qemu_version()} ({path})"


def _qemu_version() -> str:
    return _version_of(QEMU)


def _version_of(qemu: str) -> str:
    version = re.search(r"version (\d+\.\d+\S*)", _said(qemu, "--version"))
    if version is None:
        raise _LackError(f"`{qemu} --version` gives no version", "apt-get install --reinstall qemu-user")
    return version[1]


def _said(*command: str) -> str:
    """Return the output of a command."""
    try:
        return output_of(*command)
    except OSError as error:
        raise _LackError(f"`{' '.join(command)}` fails: {error}") from error


def _qemu_plugins() -> str:
    if shutil.which(QEMU) is None:
        raise _LackError("no QEMU: bench cannot count", "apt-get install qemu-user")
    # Only a QEMU that was built with plugins has the option, and so its help text.
    help_text = _said(QEMU, "-h")
    version = _qemu_version()
    if "-plugin" not in help_text:
        why = f"{QEMU} {version} was built without them"
    elif int(version.partition(".")[0]) >= _QEMU_WITHOUT_PLUGIN_API_1:
        why = f"{QEMU} {version} no longer has plugin API 1"
    else:
        return "API 1"
    raise _LackError(f"{why}: bench cannot count; the qemu-user of Debian 12 can")


def _qemu_sme() -> str:
    try:
        path = sme_emulator()
    except NoSmeError as error:
        lack = f"{error.lack}: packages with --mattr=+sme cannot run here"
        raise _LackError(lack, "scripts/qemu_sme.sh") from error
    return f"{_version_of(path)} ({path})"


def _sysroot() -> str:
    if platform.machine() == "aarch64":
        return "this machine's own"
    root = Path(os.environ.get("ARM_EXT_SYSROOT", "/usr/aarch64-linux-gnu"))
    lacking = [package for file, package in _SYSROOT_FILES.items() if not _is_library(root / file)]
    if lacking:
        raise _LackError(
            f"some are missing in {root}: the virtual board cannot run",
            f"apt-get install {' '.join(lacking)}",
        )
    return str(root)


def _is_library(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_ELF)) == _ELF
    except OSError:
        return False


def _confinement() -> str:
    has = support()
    if lacks := has.lacks():
        raise _LackError(
            f"Linux {platform.release()} lets a model on the virtual board {'; '.join(lacks)}: run no package there "
            "that you would not run as a program. Linux 6.12 with Landlock and seccomp confines it"
        )
    return (
        f"{has.describe()}: a model on the virtual board can neither read nor change your files, use the network, or "
        "start or influence processes"
    )


def _aarch64_runtime() -> str:
    entry = runtime_entry()
    fetch = "python -c 'from arm_ext.native.build import runtime_libs; runtime_libs()'"
    if entry is None:
        raise _LackError("not in the cache: the first start of a virtual board needs network", fetch)
    place, is_whole = entry
    if not is_whole:
        raise _LackError(f"{place} is damaged: the next start of a virtual board needs network", fetch)
    return str(place)


def _llvm_mca() -> str:
    try:
        mca = find_mca()
    except EnvError as error:
        raise _LackError(str(error), INSTALL_COMMAND) from error
    return f"{mca.version} ({mca.path})"


def _board(spec: str) -> str:
    with open_board(spec) as board:
        info = board.info
    # A board without Python has no wheel, and so no known version.
    if info.tvm_version not in {PINS["apache-tvm"], "unknown"}:
        mend = " ".join(f"{name}=={PINS[name]}" for name in ("apache-tvm", "apache-tvm-ffi"))
        raise _LackError(
            f"has apache-tvm {info.tvm_version}; install this version there", f"pip install {mend}"
        )
    return f"{info.machine}, {info.cpu}, {info.cores} cores, TVM {info.tvm_version}: {' '.join(sorted(info.features))}"
