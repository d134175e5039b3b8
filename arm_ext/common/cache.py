# SPDX-License-Identifier: Apache-2.0
"""The cache folder and its entries: bytes under a hash of everything that determines them.

All may be deleted at any time.

An entry is written to another name and renamed, so that concurrent and killed writers do no harm. It carries a
checksum, and a damaged one counts as missing. The least recently used entries are removed when all take too much room.
"""

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import platformdirs

from arm_ext.common.errors import EnvError
from arm_ext.common.timings import count

_LOG = logging.getLogger(__name__)
ASIDE = ".aside-"
"""Prefix of the names of files that are being written."""
_ABANDONED_SECONDS = 24 * 3600
_KEY = re.compile("[0-9a-f]{64}")
"""Pattern of the names of entries; other files in the folder are the user's, as are those behind a link in place of the
folder."""
_CHECKSUM = hashlib.sha256().digest_size
_KEPT = 0.7
"""Share of the limit that is kept when old entries are removed, so that not each new entry leads to a search for the
oldest."""
_SAMPLE = 500
"""Entries whose sizes are looked at after one was added."""
_NEARLY_FULL = 0.85
"""Share of the limit above which a sample's estimate leads to the removal of old entries: for kernels its standard
error is 8 %."""

_used: ContextVar[bool] = ContextVar("used", default=True)
"""Whether this context uses the cache. It is a context variable, since a dozen functions lie between `compile
--no-cache` and the two that look an entry up (linking, self-tests, values of NPU regions), and it changes nothing of
what any of them returns."""


def cache_folder() -> Path:
    """Return the folder of the cache: ARM_EXT_CACHE, or the user's cache folder of tvm-arm-ext.

    Raises:
        EnvError: The folder cannot be made.
    """
    override = os.environ.get("ARM_EXT_CACHE")
    folder = Path(override).absolute() if override else platformdirs.user_cache_path("tvm-arm-ext")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvError(
            f"cache folder {folder} cannot be created ({error.strerror}); name a writable one in ARM_EXT_CACHE"
        ) from error
    return folder


def remove_leftovers(folder: Path) -> None:
    """Delete files that interrupted writers left in a folder long ago."""
    for left in folder.glob(f"{ASIDE}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def without_entries() -> Iterator[None]:
    """Disable the cache in the block, and in threads that run in a copy of its context."""
    token = _used.set(False)
    try:
        yield
    finally:
        _used.reset(token)


@dataclass(frozen=True)
class Entries:
    """The cache entries of one kind.

    Attributes:
        name: Name of their folder in the cache folder.
        limit: Bytes that they may take.
    """

    name: str
    limit: int
    _added: Event = field(default_factory=Event, init=False, repr=False, compare=False)

    def folder(self) -> Path:
        """Return the folder of these entries."""
        return cache_folder() / self.name

    def get(self, key: str | Callable[[], str], make: Callable[[], bytes]) -> bytes:
        """Return the entry of a key; compute and store it if it is missing.

        A cache that cannot be read or written costs time alone.

        Args:
            key: The hexadecimal digits of a hash, or what computes them, where that takes long.
            make: Computes the entry.
        """
        if not _used.get():
            count("made")
            return make()
        path = self.folder() / (key if isinstance(key, str) else key())
        found = _read(path)
        count("made" if found is None else "from the cache")
        if found is None:
            found = make()
            self._write(path, found)
        else:
            with suppress(OSError):  # it may be another's
                os.utime(path)
        return found

    def _write(self, path: Path, data: bytes) -> None:
        aside = None
        try:
            path.parent.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(prefix=ASIDE, dir=path.parent, delete=False) as file:
                aside = Path(file.name)
                file.write(hashlib.sha256(data).digest() + data)
            aside.chmod(0o644)  # a cache may be shared
            aside.rename(path)
            self._added.set()
        except OSError as error:
            _LOG.info("%s is not kept: %s", path, error)
            if aside is not None:
                aside.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Trim the cache if an entry was added since the last call, and the cache is small or seems nearly full.

        Looking at all 65,000 kernels that fit would take a second, the longest step of a small compile.
        """
        if not self._added.is_set():
            return
        self._added.clear()
        folder = self.folder()
        with suppress(OSError):
            names = [entry.name for entry in os.scandir(folder)]
            if any(name.startswith(ASIDE) for name in names):
                remove_leftovers(folder)
            step = len(names) // _SAMPLE + 1
            if step == 1:
                self.trim()
            elif step * _bytes_of(folder, names[::step]) > self.limit * _NEARLY_FULL:
                # Trim to well below the limit; otherwise each compile of a nearly full cache would scan all entries.
                self.trim(int(self.limit * _KEPT))

    def trim(self, most: int | None = None) -> None:
        """Delete the least recently used entries if all together exceed `most` bytes, and files of interrupted writers.

        Args:
            most: Bytes; the limit if not given.
        """
        remove_leftovers(self.folder())
        found = self._found()
        total = sum(size for _, size, _ in found)
        if total <= (self.limit if most is None else most):
            return
        for _, size, path in sorted(found):
            path.unlink(missing_ok=True)
            total -= size
            if total <= self.limit * _KEPT:
                return

    def size(self) -> tuple[int, int]:
        """Return the number of entries and their total size in bytes."""
        found = self._found()
        return len(found), sum(size for _, size, _ in found)

    def clear(self) -> None:
        """Delete all entries.

        Raises:
            EnvError: An entry cannot be removed.
        """
        try:
            for *_, path in self._found():
                path.unlink(missing_ok=True)
        except OSError as error:
            raise EnvError(f"{self.folder()} cannot be emptied ({error.strerror})") from error

    def _found(self) -> list[tuple[float, int, Path]]:
        """Return, for each entry, the time of its last use, its size and its path."""
        folder, found = self.folder(), []
        for entry in os.scandir(folder) if folder.is_dir() else ():
            if not _KEY.fullmatch(entry.name):
                continue
            with suppress(OSError):  # another process may remove the entry
                status = entry.stat()
                found.append((status.st_mtime, status.st_size, Path(entry.path)))
        return found


def _bytes_of(folder: Path, names: Sequence[str]) -> int:
    """Return the total size in bytes of those of the files that still exist."""
    total = 0
    for name in names:
        with suppress(FileNotFoundError):
            total += (folder / name).stat().st_size
    return total


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes() if path.is_file() else None  # opening a named pipe would block
    except OSError:
        return None
    if data is None:
        return None
    if hashlib.sha256(data[_CHECKSUM:]).digest() == data[:_CHECKSUM]:
        return data[_CHECKSUM:]
    _LOG.warning("%s was damaged, and is made again", path)
    return None
