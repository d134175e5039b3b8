# SPDX-License-Identifier: Apache-2.0
"""Messages for errors of the file system: what prevents a file from being read or written."""

import errno
import os
import resource
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from arm_ext.common.errors import EnvError

_FULL = (errno.ENOSPC, errno.EDQUOT)
# Errors of the environment: a resource is exhausted, or an access forbidden. Any other errno is a bug.
_ENVIRONMENT = (
    *_FULL,
    errno.EACCES,
    errno.EFBIG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EPERM,
    errno.EROFS,
    errno.ESTALE,
)
# With less free space than this, a disk is too full for a file of a few pages.
_NO_SPACE = 1 << 16
# Messages of libc, LLVM and zig for a full disk.
_SAID = ("No space left on device", "NoSpaceLeft", "Disk quota exceeded")

_NO_MEMORY = "there is not enough memory here"
# Messages for exhausted memory: of C++'s std::bad_alloc, onnxruntime, protobuf, Python's threads and the library
# loader.
_OUT_OF_MEMORY = (
    _NO_MEMORY,
    "std::bad_alloc",
    "Failed to allocate memory for requested buffer",
    "Arena alloc failed",
    "can't start new thread",
    "Cannot allocate memory",
    "cannot allocate memory",
    "failed to map segment from shared object",
)
# Bytes of address space that Python needs to load a library: with less, loading ends the process or hangs.
_LEAST_ADDRESSES = {"TVM with LLVM": 1 << 30, "numpy": 150 << 20}
# Minimum limits of this process: open files, needed to load modules and libraries; bytes of stack, needed by LLVM.
_LEAST_FILES = 12
_LEAST_STACK = 256 << 10


def why(error: OSError, place: Path | str) -> str:
    """Return the message of an OSError for a file or folder."""
    if is_full(error):
        return f"no space left on {place}"
    if error.errno == errno.EFBIG:
        return f"{place}: the file would be larger than the limit of this shell (ulimit -f)"
    return f"{place}: {(error.strerror or str(error)).lower()}"


def is_full(error: OSError) -> bool:
    """Whether an error means that a disk or quota is full."""
    return error.errno in _FULL


def is_environment(error: OSError) -> bool:
    """Whether an error is caused by the machine, and not by an argument or a defect."""
    return error.errno in _ENVIRONMENT


def environment(error: OSError, *folders: Path) -> EnvError:
    """Return the EnvError for an OSError that the machine caused.

    Args:
        error: The exception; it need not name the file.
        folders: Folders that files were written to.
    """
    full = full_disk(*folders) if is_full(error) else None
    place = full or (str(error.filename) if error.filename else None) or (folders[0] if folders else "a file")
    return EnvError(f"{why(error, place)}; make room, or name another folder" if full else why(error, place))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory, or a limit on it, is exhausted.

    C++ reports that in other words, and starting a thread needs memory for its stack.
    """
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)


def require_addresses(library: Literal["TVM with LLVM", "numpy"]) -> None:
    """Raise EnvError if the limit on this process's address space (`ulimit -v`) is too low to load a library.

    Loading a library under such a limit ends the process, hangs, or loads only a part of it.
    """
    limit, least = resource.getrlimit(resource.RLIMIT_AS)[0], _LEAST_ADDRESSES[library]
    if limit != resource.RLIM_INFINITY and limit < least:
        raise EnvError(
            f"this shell limits a process to {limit / 1e6:,.0f} MB of address space, but {library} needs "
            f"{least / 1e6:,.0f} MB: raise the limit (ulimit -v)"
        )


def require_surroundings() -> None:
    """Raise EnvError if a command cannot load its libraries.

    The limit of open files or of the stack may be too low, or the clock beyond the year 2262.

    With a short stack native code ends the process; Python counts nanoseconds in 64 bits.
    """
    for number, option, what, least in (
        (resource.RLIMIT_NOFILE, "-n", "open files", _LEAST_FILES),
        (resource.RLIMIT_STACK, "-s", "bytes of stack", _LEAST_STACK),
    ):
        limit, _ = resource.getrlimit(number)
        if limit != resource.RLIM_INFINITY and limit < least:
            raise EnvError(
                f"this shell limits a process to {limit:,} {what}, but loading needs {least:,}: raise the limit "
                f"(ulimit {option})"
            )
    try:
        time.time()
    except OverflowError as error:
        raise EnvError("the clock of this machine is beyond the year 2262; set it (date -s)") from error


def out_of_memory(why: str = "") -> EnvError:
    """Return the EnvError for a lack of memory."""
    return EnvError(f"{_NO_MEMORY}{f': {why}' if why else ''}")


def full_disk(*folders: Path) -> Path | None:
    """Return the mount point of the first full disk that has one of the given folders; None if no disk is full."""
    for folder in folders:
        try:
            disk = os.statvfs(folder)
        except OSError:
            continue
        if disk.f_bavail * disk.f_frsize < _NO_SPACE:
            return next(each for each in (folder, *folder.absolute().parents) if each.is_mount())
    return None


def require_file_size(size: int) -> None:
    """Refuse to start work that may write files larger than this shell's limit.

    Args:
        size: Bytes of the largest. LLVM and linkers end the process where they cannot write theirs.

    Raises:
        EnvError: The limit is below.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit not in (resource.RLIM_INFINITY, -1) and limit < size:
        raise EnvError(
            f"this shell limits a file to {limit:,} bytes (ulimit -f), but compiling may write {size:,}; raise "
            "the limit"
        )


def disk_fault(status: int, said: str, folders: Sequence[Path]) -> str | None:
    """Return the file-system error that made a program fail; None if there is none.

    Args:
        status: Exit status of the process, as subprocess returns it.
        said: Output of the program.
        folders: Folders that it writes to.
    """
    if status == -signal.SIGXFSZ or "File too large" in said:
        return "a file would be larger than the limit of this shell (ulimit -f)"
    if locked := [folder for folder in folders if folder.is_dir() and not os.access(folder, os.W_OK)]:
        return f"{locked[0]} cannot be written"
    full = full_disk(*folders)
    if full is None and not any(each in said for each in _SAID):
        return None
    return f"no space left on {full or ' or '.join(map(str, folders))}; make room"
