# SPDX-License-Identifier: Apache-2.0
"""The tuning database: a folder of finished trials, with one file per core, set of features and TVM version.

A file is lines of JSON that are only ever added to, all of a batch by one write that is on disk before the next begins.
Lines that are no records of the file's are counted, and otherwise ignored: those that a writer that was killed left
unfinished, those of other programs or versions, and those that are too long. Writers take turns by a lock on the
folder.
"""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from arm_ext.common.errors import UsageError
from arm_ext.common.faults import environment, is_full
from arm_ext.common.outputs import replace_file
from arm_ext.target.profiles import Profile
from arm_ext.tune.record import Record, book_of

_SUFFIX = ".jsonl"

LONGEST = 2**20
"""Greatest number of bytes of a line.

The longest lines that are written, traces of MetaSchedule's, have some 20,000."""

TORN = "on torn lines"
TOO_LONG = f"on lines of more than {LONGEST:,} bytes"
NO_RECORD = "without the fields of a record, or with impossible values"
OTHER_BOOK = "of another core, features or TVM than their file is for"


class Database:
    """A folder of records, which several processes may use at once.

    Attributes:
        folder: Folder that holds the records.
        skipped: How many lines the last read passed over, by reason.
    """

    def __init__(self, folder: str | Path, *, create: bool = False) -> None:
        """Open a database.

        Args:
            folder: Folder of the database.
            create: Whether to make the folder if there is none.

        Raises:
            UsageError: The folder does not exist, or cannot be made.
        """
        self.folder = Path(folder)
        self.skipped: Counter[str] = Counter()
        try:
            if create:
                self.folder.mkdir(parents=True, exist_ok=True)
            if not self.folder.is_dir():
                raise UsageError(
                    f"there is no tuning database {folder}; create one by `tune MODEL --db {folder}`"
                )
        except OSError as error:
            raise UsageError(f"tuning database {folder} cannot be made: {error.strerror}") from error

    def all(self) -> list[Record]:
        """Return every record, file by file in the order of their names, oldest first."""
        self.skipped = Counter()
        return [record for book in self._books() for record in self._read(book)]

    def records(self, profile: Profile) -> list[Record]:
        """Return the records of a profile's core, with exactly its features and this TVM version; oldest first."""
        self.skipped = Counter()
        return self._read(self._book(book_of(profile)))

    def best(self, profile: Profile, task: str) -> Record | None:
        """Return the record with which a task is compiled, by `best_of`; None if it has none."""
        return best_of([record for record in self.records(profile) if record.task == task])

    def append(self, records: Sequence[Record]) -> None:
        """Add records; they are written to disk when this returns.

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
        """Replace the records of each book by those that `keep` returns; each file is replaced atomically.

        Files without any record are somebody else's and stay; so do lines of other versions, but neither torn ones nor
        those that are too long to be any.
        """
        with self._locked():
            for path in self._books():
                lines = list(_lines_of(path))
                parsed = [self._parsed(line, path.stem) for line in lines]
                records = [record for record in parsed if record is not None]
                if not records:
                    continue
                foreign = b"".join(
                    line + b"\n"
                    for line, record in zip(lines, parsed, strict=True)
                    if line and record is None and _is_json(line)
                )
                if data := _lines(keep(records)) + foreign:
                    replace_file(path.resolve(), data)
                else:
                    path.unlink()

    def _books(self) -> list[Path]:
        return sorted(path for path in self.folder.glob(f"*{_SUFFIX}") if path.is_file())

    def _book(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"

    def _read(self, path: Path) -> list[Record]:
        if not path.is_file():
            return []
        try:
            parsed = [self._parsed(line, path.stem) for line in _lines_of(path)]
        except OSError as error:
            raise UsageError(f"tuning database {path} cannot be read: {error.strerror}") from error
        return [record for record in parsed if record is not None]

    def _parsed(self, line: bytes | None, book: str) -> Record | None:
        """Return the record in a line, or None; a nonempty line without a valid record is counted as skipped."""
        if line == b"":
            return None
        fault = TOO_LONG
        if line is not None:
            try:
                record = Record.model_validate_json(line)
            except ValidationError as error:
                fault = TORN if error.errors()[0]["type"] == "json_invalid" else NO_RECORD
            else:
                if record.book == book:
                    return record
                fault = OTHER_BOOK
        self.skipped[fault] += 1
        return None

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
    """Return the fastest of one task's records with correct values; None if there is none.

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
    """Return a text that is equal for equal candidates."""
    return json.dumps(candidate, sort_keys=True)


def _lines_of(path: Path) -> Iterator[bytes | None]:
    """Yield the lines of a file; None for a line that is too long."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST + 1):
            if len(line) <= LONGEST or line.endswith(b"\n"):
                yield line.rstrip(b"\n")
                continue
            while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            yield None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join(record.model_dump_json().encode() + b"\n" for record in records)


def _append(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            data = b"\n" + data  # an earlier write was interrupted within a line
        try:
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, size)  # the disk may be full: remove a partial record
            raise
    finally:
        os.close(file)
