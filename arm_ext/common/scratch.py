# SPDX-License-Identifier: Apache-2.0
"""Scratch folders that are removed even if their process is killed.

Each is locked by the process that made it, and the kernel drops the lock however that process ends. Before a scratch
folder is made, those in the same place whose lock is free are removed, so that the next run removes what a killed one
left.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from arm_ext.common.errors import EnvError
from arm_ext.common.faults import environment, why

BESIDE = ".arm-ext-"
"""Prefix of the name of a scratch folder beside an output."""
TEMPORARY = "arm-ext-"
"""Prefix of the name of a scratch folder in TMPDIR."""
_SUFFIX = ".scratch"
_NAME_BYTES = 4
_OURS_ALONE = 0o700
_ATTEMPTS = 5
_own: set[Path] = set()
"""The scratch folders that this process has now."""
_PAGE = bytes(4096)

NEW, OLD = "new", "old"
"""Names in a scratch folder: the new output, and a folder with the output that it replaces, under its name."""


@contextmanager
def scratch(parent: Path, prefix: str = BESIDE) -> Iterator[Path]:
    """Yield a new folder in `parent`, which is removed when the block ends.

    Raises:
        OSError: The folder cannot be made.
    """
    remove_dead(parent, prefix)
    while (lock := _make(folder := _named(parent, prefix))) is None:
        pass
    try:
        yield folder
    finally:
        _delete(folder)
        os.close(lock)
        if not folder.exists():  # left if a thread wrote into it meanwhile; `remove_own` tries again
            _own.discard(folder)


@contextmanager
def temporary() -> Iterator[Path]:
    """Yield a new folder in TMPDIR, which is removed when the block ends.

    Raises:
        EnvError: TMPDIR cannot be written.
    """
    parent = _tmpdir()
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(scratch(parent, TEMPORARY))
        except OSError as error:
            raise environment(error, parent) from error
        yield folder


def _check_umask() -> None:
    """Refuse a umask by which this process could not access its own new files, such as a compiler's output.

    Raises:
        EnvError: The umask is such.
    """
    mask = os.umask(_OURS_ALONE ^ 0o777)
    os.umask(mask)
    if mask & stat.S_IRWXU:
        raise EnvError(
            f"with the umask {mask:03o} nobody can read or write the files of this command; set it by `umask 022`"
        )


@contextmanager
def temporary_files() -> Iterator[None]:
    """Put the temporary files of this process and its child processes into one folder for the duration of the block.

    This changes the process's environment, so it is for this package's programs, and not for functions that other
    programs call.

    Raises:
        EnvError: TMPDIR cannot be written, or the process could not read what it writes.
    """
    _check_umask()
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    with temporary() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before
            if variable is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = variable


@contextmanager
def in_memory(*names: str) -> Iterator[Path]:
    """Yield a folder with links to in-memory files of these names, for a library that crashes on a full disk.

    This process and those that it starts can write and read them.

    Raises:
        EnvError: TMPDIR cannot be written.
    """
    with temporary() as folder, ExitStack() as stack:
        for name in names:
            file = os.memfd_create(name)
            stack.callback(os.close, file)
            (folder / name).symlink_to(f"/proc/{os.getpid()}/fd/{file}")
        yield folder


def remove_dead(parent: Path, prefix: str = BESIDE) -> None:
    """Remove the scratch folders in `parent` of processes that have ended.

    Restore outputs that they had moved aside.
    """
    name = re.compile(re.escape(prefix) + "[a-z0-9_]{8}" + re.escape(_SUFFIX))
    try:
        found = [parent / each for each in os.listdir(parent) if name.fullmatch(each)]  # noqa: PTH208 - names alone
    except OSError:
        return  # the caller's own write will report the error
    for folder in found:
        lock = _try_lock(folder)
        if lock is not None:
            try:
                with suppress(OSError):
                    _remove(folder)
            finally:
                os.close(lock)


def remove_own() -> None:
    """Remove the scratch folders of this process before it ends abruptly; restore outputs that it had moved aside."""
    for _ in range(_ATTEMPTS):  # other threads may still be writing in them
        for folder in tuple(_own):
            with suppress(OSError):
                _remove(folder)
        if not any(folder.exists() for folder in tuple(_own)):
            return


def _remove(folder: Path) -> None:
    old = folder / OLD
    if (folder / NEW).exists() and old.is_dir():
        # The folder's process ended between the two renames by which an output is replaced on systems without
        # exchange.
        for each in old.iterdir():
            if os.path.lexists(folder.parent / each.name):
                return
            each.rename(folder.parent / each.name)
    _delete(folder)


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a umask may have created folders that cannot be entered
        for root, folders, _ in os.walk(folder):
            for name in folders:
                with suppress(OSError):
                    Path(root, name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _named(parent: Path, prefix: str) -> Path:
    return parent / f"{prefix}{secrets.token_hex(_NAME_BYTES)}{_SUFFIX}"


def _make(folder: Path) -> int | None:
    """Create and lock a folder; return its lock, or None if another process has the name.

    The folder is recorded as ours before it exists, since a signal may end this process between any two steps.
    """
    _own.add(folder)
    try:
        folder.mkdir(_OURS_ALONE)
    except OSError as error:
        _own.discard(folder)
        if isinstance(error, FileExistsError):
            return None
        raise
    # Before this process locks the folder, another one may consider it abandoned, lock it and remove it.
    with suppress(FileNotFoundError):
        folder.chmod(_OURS_ALONE)  # the umask may have removed permissions
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        if _lock(lock) and _is_at(folder, lock):
            return lock
        os.close(lock)
    _own.discard(folder)
    return None


def _lock(opened: int) -> bool:
    """Lock a new folder; false where another process has the lock."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: only this process can remove the folder
        return True
    return True


def _try_lock(folder: Path) -> int | None:
    """Return the lock of a scratch folder whose process has ended; None if it is another user's or still in use."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.geteuid() and _is_at(folder, lock):
            return lock
    os.close(lock)
    return None


def _is_at(folder: Path, opened: int) -> bool:
    try:
        return os.path.samestat(folder.lstat(), os.fstat(opened))
    except OSError:
        return False


def _tmpdir() -> Path:
    """Return TMPDIR, or the system's temporary folder; never the current folder, which is tempfile's last choice."""
    asked = os.environ.get("TMPDIR")
    folder = Path(asked or "/tmp").absolute()
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(_PAGE)
            probe.flush()
    except OSError as error:
        mend = (
            "" if error.errno == errno.EFBIG else "; name another folder in the environment variable TMPDIR"
        )
        raise EnvError(f"temporary files: {why(error, folder)}{mend}") from error
    return folder
