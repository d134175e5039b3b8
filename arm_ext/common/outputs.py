# SPDX-License-Identifier: Apache-2.0
"""Checks and atomic writes of outputs: only files written by arm-ext are replaced, and an output is never an input.

Commands ask before they begin their work.
"""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from arm_ext.common.errors import ArmExtError, UsageError
from arm_ext.common.faults import environment, is_full
from arm_ext.common.scratch import NEW, OLD, scratch

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_NOT_HERE = (errno.EINVAL, errno.ENOSYS)  # errors of a file system or kernel that cannot exchange two names


def checked_folder(path: Path, option: str) -> Path:
    """Return the path of a folder, which need not exist, with links resolved.

    Raises:
        UsageError: A folder cannot be there.
    """
    _refuse_dangling(path, option)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path}: exists and is a file; name a folder with {option}")
    place = _resolved(path)
    _check_writable(place if place.is_dir() else _parent(path, place, option), path, option)
    return place


def checked_file(path: Path, option: str) -> Path:
    """Return the path of a file, which need not exist, with links resolved.

    Raises:
        UsageError: A file cannot be there.
    """
    _refuse_dangling(path, option)
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a device"
        raise UsageError(f"{path}: is {kind}; name a file with {option}")
    place = _resolved(path)
    _check_writable(_parent(path, place, option), path, option)
    return place


def refuse_inputs(
    output: Path, option: str, inputs: Iterable[Path], replaced: Iterable[Path] = (), *, within: bool = True
) -> None:
    """Refuse an output that is an input of the same command, under any name.

    Args:
        output: A file or a folder.
        option: The option that names it.
        inputs: Files and folders that are read.
        replaced: Files in it that will be written over.
        within: Whether an input may not be anywhere in the folder either.

    Raises:
        UsageError: An input would be written over.
    """
    written = {_identity(path) for path in (output, *replaced)} - {None}
    if not written:
        return
    for given in inputs:
        path = _resolved(given)
        if any(_identity(place) in written for place in (path, *(path.parents if within else ()))):
            raise UsageError(f"{output}: would overwrite the input {given}; name another {option}")


def refuse_inside(output: Path, option: str, folder: Path) -> None:
    """Refuse an output inside a folder that is read, or that another option writes.

    Raises:
        UsageError: The output is in that folder.
    """
    place, around = _resolved(output), _resolved(folder)
    if any(each == around or _same(each, around) for each in (place, *place.parents)):
        raise UsageError(
            f"{output}: is inside {folder}, which must not contain other files; name another {option}"
        )


def unwritable(error: OSError, output: Path, option: str) -> ArmExtError:
    """Return the error for an output that cannot be written."""
    if is_full(error):
        return environment(error, output.absolute().parent)
    return UsageError(
        f"{output}: cannot be written ({(error.strerror or '').lower()}); name another {option}"
    )


def write_file(path: Path, content: bytes, option: str) -> None:
    """Write a file atomically, with links resolved.

    Raises:
        UsageError: The file cannot be written.
        EnvError: The disk is full.
    """
    try:
        replace_file(path.resolve(), content)
    except OSError as err:
        raise unwritable(err, path, option) from err


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically, with its content synced to disk first."""
    with scratch(path.parent) as folder:
        write_through(folder / NEW, content)
        if path.exists():
            shutil.copymode(path, folder / NEW)
        (folder / NEW).replace(path)


def write_through(path: Path, content: bytes) -> None:
    """Write a new file and sync it to disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def install(fresh: Path, output: Path) -> None:
    """Replace a folder by a new one, atomically.

    However the process ends, `output` is the old or the new one, at the latest when `scratch.remove_dead` was called.

    Args:
        fresh: The new folder, in a scratch folder beside `output`.
        output: Final path; an existing file or folder is moved to the scratch folder.
    """
    if not output.exists():
        fresh.rename(output)
    elif not _exchange(fresh, output):
        old = fresh.parent / OLD
        old.mkdir()
        output.rename(old / output.name)
        fresh.rename(output)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically; return False where the system does not support that."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = [os.fsencode(path) for path in (one, other)]
    if rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_HERE:
        return False
    raise OSError(code, os.strerror(code), str(other))


def check_replaceable(folder: Path, path: Path, option: str) -> None:
    """Raise UsageError if a folder exists and cannot be replaced.

    Raises:
        UsageError: The folder is a mount point, or this process's working folder is in it.
    """
    if folder.is_mount():
        raise UsageError(
            f"{path}: is a mount point, which cannot be replaced; name a folder in it with {option}"
        )
    if Path.cwd().is_relative_to(folder):
        raise UsageError(
            f"{path}: the current folder cannot be replaced; name a folder inside it with {option}"
        )


def _resolved(path: Path) -> Path:
    """Return a path with links resolved.

    Raises:
        UsageError: Symbolic links form a loop.
    """
    try:
        return path.resolve()
    except RuntimeError as err:  # before Python 3.13, for circular links; later versions return them
        raise UsageError(f"{path}: this path has circular links; correct them") from err


def _refuse_dangling(path: Path, option: str) -> None:
    if path.is_symlink() and not path.exists():
        raise UsageError(
            f"{path}: is a link to {path.readlink()}, which does not exist; correct it, or name another {option}"
        )


def _parent(path: Path, place: Path, option: str) -> Path:
    if not place.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}; create it, or name another {option}")
    return place.parent


def _check_writable(folder: Path, path: Path, option: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be written (permission denied); name another {option}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _same(one: Path, other: Path) -> bool:
    return _identity(one) is not None and _identity(one) == _identity(other)
