# SPDX-License-Identifier: Apache-2.0
"""The compiler driver that links model.so and compiles C libraries: the pinned ziglang, or another one by --cc.

zig is the compiler of our own C and C++, too.
"""

import functools
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from arm_ext.common.cache import ASIDE, cache_folder
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.faults import disk_fault
from arm_ext.common.scratch import temporary
from arm_ext.common.timings import child_section
from arm_ext.target.profiles import Profile
from schedules.cores import MICROCONTROLLERS

# The version that pyproject.toml pins, because bytes of model.so depend on the linker.
ZIGLANG = "0.17.0"

# glibc of Debian 10 and RHEL 8, the minimum of the manylinux_2_28 wheels of the runtime that loads model.so.
GLIBC = "2.28"

# TVM's objects contain DWARF that does not describe the model and doubles a small model.so. Its kernels are local
# symbols, and zig turns --strip-debug into --strip-all, so the sections are discarded by name instead. .comment is
# the linker's name, which the manifest also has.
_DISCARD_DEBUG = "SECTIONS { /DISCARD/ : { *(.debug_*) *(.comment) } } INSERT AFTER .dynamic;\n"

# Build ids are not used. -O2 keeps zig's debug-mode sanitizer runtime out.
_SHARED_FLAGS = ("-shared", "-fPIC", "-O2", "-Wl,--build-id=none")
# Zig compiles its compiler-rt for a target when it first links with it: ten times the time of its libc stubs.
_WITHOUT_BUILTINS = "--rtlib=none"
# Names of compiler-rt's routines, such as __truncsfhf2. TVM's runtime functions are resolved when a library is
# loaded.
_BUILTIN = re.compile(r"__(?!tvm)", re.IGNORECASE)
# The path is a separate argument, because -Wl would split it at a comma.
_LINKER_SCRIPT = ("-Xlinker", "-T", "-Xlinker")


# Errors of zig caused by a source file or a full disk, not by a damaged cache.
_NOT_OF_THE_CACHE = re.compile(r"^\S+:\d+:\d+: (fatal )?error:|No space left|NoSpaceLeft", re.MULTILINE)


@dataclass(frozen=True)
class LinkerRecord:
    """The linker with which a model.so was made, for the manifest.

    Attributes:
        name: "ziglang", or the program given by --cc without its folder.
        version: The distribution's version, or the first line the program prints for --version.
    """

    name: str
    version: str


@dataclass(frozen=True)
class Driver:
    """A compiler driver that generates code for one triple.

    Attributes:
        triple: LLVM triple, such as "aarch64-linux-gnu".
        cc: Command of a driver for the triple, such as "aarch64-linux-gnu-gcc", which may carry arguments; None for the
            pinned ziglang.
        zig_cpu: Zig's name of a microcontroller and of the features that it lacks; "" for Linux.
        cc_flags: What says the same to GCC and Clang.
    """

    triple: str
    cc: str | None = None
    zig_cpu: str = ""
    cc_flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, profile: Profile, cc: str | None = None) -> "Driver":
        """Return the driver that generates code for a profile."""
        if not profile.core.is_microcontroller:
            return cls(profile.triple, cc)
        cpu = profile.core.llvm_cpu
        absent = sorted({*MICROCONTROLLERS[profile.core.name].features} - {*profile.features})
        zig_cpu = "-".join(
            [cpu.replace("-", "_"), *(name.replace("-", "_").replace(".", "_") for name in absent)]
        )
        abi = "hard" if profile.triple.endswith("hf") else "soft"
        return cls(profile.triple, cc, zig_cpu, (f"-mcpu={cpu}", "-mthumb", f"-mfloat-abi={abi}"))

    def run(self, args: Sequence[str | Path], folder: Path) -> None:
        """Run the driver in a folder to which it may write.

        Raises:
            EnvError: The driver is missing or failed.
            UsageError: The triple is not of Linux with glibc, or `cc` is no command of a driver for it.
        """
        if self.cc is None:
            cpu = [f"-mcpu={self.zig_cpu}", "-fshort-enums"] if self.zig_cpu else []
            zig(["cc", "-target", zig_target(self.triple), *cpu, *args], cwd=folder, outputs=[folder])
            return
        command = _split_command(self.cc)
        try:
            _run([*command, *self.cc_flags, *map(str, args)], cwd=folder, outputs=[folder])
        except EnvError as error:
            machine, arch = _machine(command), "arm" if self.cc_flags else self.triple.split("-")[0]
            if machine and not machine.split("-")[0].startswith(("arm", "thumb") if self.cc_flags else arch):
                one = "arm-none-eabi" if self.cc_flags else f"{arch}-linux-gnu"
                raise UsageError(
                    f"--cc {self.cc} is a driver for {machine}; name one for {arch}, such as {one}-gcc or "
                    f"'clang --target={one}'"
                ) from error
            raise

    def record(self) -> LinkerRecord:
        """Return the name and the version of the driver."""
        if self.cc is None:
            return ziglang_record()
        command = _split_command(self.cc)
        version = _run([*command, "--version"]).stdout.split("\n", maxsplit=1)[0]
        return LinkerRecord(Path(command[0]).name, version)


@dataclass(frozen=True)
class LibraryLinker:
    """The `fcompile` of TVM's `export_library`, which passes on the `LinkerRecord` that a call returns.

    Attributes:
        triple: LLVM triple of the objects, also of those that TVM makes for modules without code.
        cc: Another linker than ziglang; see `link_shared`.
        objects: Object files that go into each library, too.
        check: Called with the paths of the objects that TVM made.
    """

    triple: str
    cc: str | None = None
    objects: tuple[Path, ...] = ()
    check: Callable[[Sequence[str]], None] = lambda objects: None

    def __call__(self, output: str, objects: Sequence[str], options: Sequence[str] = ()) -> LinkerRecord:
        """Link `objects` into `output`; for C sources TVM gives include folders as `options`."""
        self.check(objects)
        return link_shared([*options, *objects, *self.objects], Path(output), triple=self.triple, cc=self.cc)

    def get_target_triple(self) -> str:
        """Return the triple that `export_library` uses when no module has one."""
        return self.triple


def zig_target(triple: str) -> str:
    """Return Zig's name for an LLVM triple, with the minimum glibc of Linux.

    Raises:
        UsageError: The triple is neither of Linux with glibc nor of a microcontroller.
    """
    if triple.startswith("thumb"):
        return f"thumb-freestanding-{triple.rpartition('-')[2]}"
    arch = triple.split("-", maxsplit=1)[0]
    if "-linux" not in triple or not triple.endswith("-gnu"):
        raise UsageError(f"cannot link for {triple}: needs Linux with glibc, such as aarch64-linux-gnu")
    return f"{arch}-linux-gnu.{GLIBC}"


def zig(
    args: Sequence[str | Path], cwd: Path | None = None, outputs: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `zig args...` of the pinned ziglang; its own cache lies in the cache folder.

    The first link for a target takes longer, as zig builds its libc stubs, and compiler-rt if it is linked with it.

    Args:
        args: Arguments, such as ["cc", "-target", zig_target(triple), "-c", source].
        cwd: Working directory.
        outputs: Folders that zig writes to, besides its caches.

    Returns:
        The finished process with its text.

    Raises:
        EnvError: ziglang is not installed, or zig failed.
    """
    command = [_program(), *map(str, args)]
    cache = cache_folder() / "zig"
    try:
        with _environment(cache) as env:
            return _run(command, cwd=cwd, env=env, outputs=[*outputs, cache])
    except EnvError as error:
        of_an_input = any(f"error: {each}" in str(error) for each in args)
        if of_an_input or _NOT_OF_THE_CACHE.search(str(error)) or not cache.is_dir():
            raise
    # Zig does not check its cache. If an empty cache fixes the error, it replaces the damaged one.
    with tempfile.TemporaryDirectory(
        prefix=f"{ASIDE}zig-", dir=cache.parent, ignore_cleanup_errors=True
    ) as aside:
        fresh = Path(aside) / "zig"
        with _environment(fresh) as env:
            done = _run(command, cwd=cwd, env=env, outputs=[*outputs, cache])
        with suppress(OSError):  # another process may be replacing the cache, too
            cache.rename(Path(aside) / "damaged")
            fresh.rename(cache)
    return done


# Characters that the path of zig's cache may not have. ld.lld, which links zig's libraries there, replaces % as in a
# temporary file's name; zig's lists of dependencies end a name at a colon or line break.
_NO_NAME = re.compile(r"[%:\x00-\x1f\x7f]")


@functools.cache
def _program() -> str:
    """Return the path of zig; starting it by its wheel's Python wrapper would take as long as a link."""
    try:
        return str(importlib.metadata.distribution("ziglang").locate_file("ziglang/zig"))
    except importlib.metadata.PackageNotFoundError as error:
        raise EnvError(f"the linker ziglang is not installed; run: pip install ziglang=={ZIGLANG}") from error


@contextmanager
def _environment(cache: Path) -> Iterator[dict[str, str]]:
    """Yield the environment in which zig keeps its cache in a folder."""
    with ExitStack() as stack:
        folder = cache
        if _NO_NAME.search(str(cache)):
            cache.mkdir(exist_ok=True)
            place = os.open(cache, os.O_PATH | os.O_DIRECTORY)
            stack.callback(os.close, place)
            folder = Path(f"/proc/{os.getpid()}/fd/{place}")
        caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder / "local")}
        yield os.environ | caches


def link_shared(
    objects: Sequence[str | Path], output: Path, *, triple: str, cc: str | None = None
) -> LinkerRecord:
    """Link objects into a shared library; equal objects give equal bytes, in any folder.

    Symbols of the TVM runtime stay undefined; libm and libc are linked. The symbol table is kept (counts per
    kernel read it), debug sections are not.

    Args:
        objects: Object files of the triple, C sources, and options for them, by absolute paths.
        output: The library to write.
        triple: LLVM triple, such as "aarch64-linux-gnu".
        cc: Command of another linker driver, such as "aarch64-linux-gnu-gcc"; may carry arguments.

    Returns:
        The linker and its version.

    Raises:
        EnvError: The linker is missing or failed.
        UsageError: The triple is not of Linux with glibc, or `cc` is empty.
    """
    with temporary() as folder, child_section("linker"):
        script = folder / "discard_debug.ld"
        script.write_text(_DISCARD_DEBUG, encoding="utf-8")
        # The output is named relative to its folder, because ld.lld replaces a % in its path as in a temporary file's
        # name.
        at = output.parent
        args = [*_SHARED_FLAGS, *_LINKER_SCRIPT, str(script), "-o", output.name, *map(str, objects), "-lm"]
        driver = Driver(triple, cc)
        driver.run(args if cc else [_WITHOUT_BUILTINS, *args], at)
        if cc is None and _needs_builtins(output):
            driver.run(args, at)
        record = driver.record()
        if not output.is_file():
            raise EnvError(f"the linker {cc or record.name} reported no error, but wrote no library")
        return record


def _needs_builtins(library: Path) -> bool:
    """Whether a library needs compiler-rt: it has undefined symbols with names of routines and no version."""
    if not library.is_file():
        return False
    with library.open("rb") as file:
        elf = ELFFile(file)
        symbols, versions = map(elf.get_section_by_name, (".dynsym", ".gnu.version"))
        if not isinstance(symbols, SymbolTableSection):
            return False
        return any(
            symbol.entry["st_shndx"] == "SHN_UNDEF"
            and symbol.entry["st_info"]["bind"] == "STB_GLOBAL"
            and _BUILTIN.match(symbol.name)
            and not (isinstance(versions, GNUVerSymSection) and _has_version(versions, index))
            for index, symbol in enumerate(symbols.iter_symbols())
        )


def _has_version(versions: GNUVerSymSection, index: int) -> bool:
    return isinstance(versions.get_symbol(index).entry["ndx"], int)


def ziglang_record() -> LinkerRecord:
    """Return the record of the pinned ziglang."""
    return LinkerRecord("ziglang", importlib.metadata.version("ziglang"))


def link_plain(objects: Sequence[Path], output: Path) -> None:
    """Link object files for this machine to a shared library; the loading process resolves undefined symbols.

    Args:
        objects: Absolute paths of the object files.
        output: The library to write.

    Raises:
        EnvError: ziglang is missing or failed.
    """
    command = [_program(), "ld.lld", "-shared", "-o", output.name, *map(str, objects)]
    with child_section("linker"):
        _run(command, cwd=output.parent, outputs=[output.parent])


def _split_command(cc: str) -> list[str]:
    """Return the words of --cc, the first of which is a program that exists."""
    try:
        command = shlex.split(cc)
    except ValueError as error:
        raise UsageError(f"--cc {cc!r} is not a command: {error}") from error
    if not command:
        raise UsageError("--cc is empty; name a linker driver, or leave it out to use ziglang")
    program = shutil.which(command[0])
    if program is None:
        raise EnvError(
            f"linker {command[0]} is not on PATH; install it (aarch64-linux-gnu-gcc comes with: "
            "sudo apt install gcc-aarch64-linux-gnu), or leave --cc out to use ziglang"
        )
    return [str(Path(program).absolute()), *command[1:]]


def _machine(command: Sequence[str]) -> str:
    """Return the triple that a driver says it makes code for; empty if it does not say."""
    with suppress(EnvError):
        return _run([*command, "-dumpmachine"]).stdout.strip()
    return ""


def _run(
    command: Sequence[str],
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    outputs: Sequence[Path] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its output; if it fails, the end of the output is the error message."""
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        if fault := disk_fault(done.returncode, said, (*outputs, Path(tempfile.gettempdir()))):
            raise EnvError(f"compiling or linking failed: {fault}")
        shown = 20  # lines, so that the message stays on one screen
        tail = "\n".join(said.splitlines()[-shown:])
        raise EnvError(f"exit status {done.returncode} from: {shlex.join(command)}\n{tail}")
    return done
