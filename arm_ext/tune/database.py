# SPDX-License-Identifier: Apache-2.0
"""The tuning database: a folder of finished trials, a file for each core, set of features and TVM version.

A file is lines of JSON that are only ever added to, all of a batch by one write that is on disk before the next
begins. A line that an end in the middle left torn is ignored. Writers take turns by a lock on the folder.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from arm_ext.errors import UsageError
from arm_ext.files.faults import environment, is_full
from arm_ext.files.outputs import replace_file
from arm_ext.target.profiles import Profile
from arm_ext.tune.record import Record, book_of

_SUFFIX = ".jsonl"


class Database:
    """A folder of records; several processes may use it at once.

    Attributes:
        folder: The folder.
        torn: Lines that the last read passed over, as they are no records: torn, or of another version of the format.
    """

    def __init__(self, folder: str | Path, *, create: bool = False) -> None:
        """Opens a database.

        Args:
            folder: Where it lies.
            create: Whether to make the folder if there is none.

        Raises:
            UsageError: There is no such folder, or it cannot be made.
        """
        self.folder = Path(folder)
        self.torn = 0
        try:
            if create:
                self.folder.mkdir(parents=True, exist_ok=True)
            if not self.folder.is_dir():
                raise UsageError(
                    f"there is no tuning database {folder}; `tune MODEL --db {folder}` makes one"
                )
        except OSError as error:
            raise UsageError(f"tuning database {folder} cannot be made: {error.strerror}") from error

    def all(self) -> list[Record]:
        """Every record, file by file in order of their names, oldest first."""
        self.torn = 0
        return [record for book in self._books() for record in self._read(book)]

    def records(self, profile: Profile) -> list[Record]:
        """Those that are valid for a profile: of its core, exactly its features and this TVM version; oldest first."""
        self.torn = 0
        return self._read(self._book(book_of(profile)))

    def best(self, profile: Profile, task: str) -> Record | None:
        """The record that a task of this key is compiled with; see `best_of`."""
        return best_of([record for record in self.records(profile) if record.task == task])

    def append(self, records: Sequence[Record]) -> None:
        """Adds records; when it returns they are on disk.

        Raises:
            UsageError: The folder cannot be written.
        """
        books: dict[str, list[Record]] = {}
        for record in records:
            books.setdefault(record.book, []).append(record)
        with self._locked():
            for book, of_book in books.items():
                _append(self._book(book), _lines(of_book))

    def rewrite(self, keep: Callable[[list[Record]], Iterable[Record]]) -> None:
        """Replaces the records of each book by those that `keep` returns of them; each file in one step.

        Files without any record are somebody else's and stay; so do lines of other versions, but torn ones do not.
        """
        with self._locked():
            for path in self._books():
                records = self._read(path)
                if not records:
                    continue
                data = _lines(keep(records)) + _lines_of_others(path.read_bytes())
                if data:
                    replace_file(path.resolve(), data)
                else:
                    path.unlink()

    def _books(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{_SUFFIX}"))

    def _book(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"

    def _read(self, path: Path) -> list[Record]:
        return list(self._parse(path.read_bytes().split(b"\n"))) if path.exists() else []

    def _parse(self, lines: Iterable[bytes]) -> Iterator[Record]:
        for line in lines:
            try:
                if line:
                    yield Record.model_validate_json(line)
            except ValidationError:
                self.torn += 1

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise UsageError(f"tuning database {self.folder} is gone: {error.strerror}") from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        except OSError as error:
            if is_full(error):
                raise environment(error, self.folder) from error
            raise UsageError(f"tuning database {self.folder} cannot be written: {error.strerror}") from error
        finally:
            os.close(folder)  # and with it the lock


def best_of(records: Iterable[Record]) -> Record | None:
    """The fastest of one task's records that were right.

    Times on a board stand above estimates. Costs from different places are no measure of each other: of several
    boards, or several models, the one that was used last decides.
    """
    right = [record for record in records if record.cost is not None]
    if not right:
        return None
    latest = max(right, key=lambda record: (record.unit == "seconds", record.when))
    comparable = (record for record in right if (record.unit, record.where) == (latest.unit, latest.where))
    return min(comparable, key=lambda record: record.cost or 0.0)


def same_candidate(candidate: dict[str, object]) -> str:
    """A candidate as text that is equal for equal ones."""
    return json.dumps(candidate, sort_keys=True)


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join(record.model_dump_json().encode() + b"\n" for record in records)


def _lines_of_others(data: bytes) -> bytes:
    """The lines that are whole, but no records of this version."""
    return b"".join(line + b"\n" for line in data.split(b"\n") if _is_json(line) and not _is_record(line))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _is_record(line: bytes) -> bool:
    try:
        Record.model_validate_json(line)
    except ValidationError:
        return False
    return True


def _append(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            data = b"\n" + data  # behind what an end in the middle of a write left
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    finally:
        os.close(file)
