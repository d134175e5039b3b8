# SPDX-License-Identifier: Apache-2.0
"""Operations on complete databases: summary, merging, and removal of all but the most useful records."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from arm_ext.common.json_record import ClosedRecord
from arm_ext.common.outputs import checked_folder
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.costs import BOUND
from arm_ext.tune.database import Database, best_of
from arm_ext.tune.record import Record, Unit
from arm_ext.tune.soundness import kept


class Entry(ClosedRecord):
    """Summary of a task's records in one unit, measured in one place.

    Attributes:
        task: Key of the task.
        what: Composite of the task and the shapes of its operands.
        trials: Number of records.
        failed: Number of records without a cost, because the candidate failed.
        default: Cost of one call without tuning; None if it was not measured there.
        best: Cost of the fastest candidate; None if all failed.
        bound: Lower bound of the fastest candidate's cost for any order of its instructions, as a share of
            `best`, if it was estimated.
        candidate: The fastest candidate.
        used: Whether `compile --tuned` takes it: times stand above estimates, and the last place above others.
        unit: Unit of the costs.
        where: Place of measurement.
        when: Time of the latest record, ISO 8601.
    """

    task: str
    what: str
    trials: int
    failed: int
    default: float | None
    best: float | None
    bound: float | None
    candidate: str | None
    used: bool
    unit: Unit
    where: str
    when: str


class Book(ClosedRecord):
    """Summary of the valid records for a core, a set of features and a version of TVM."""

    core: str
    features: list[str]
    tvm: str
    entries: list[Entry]


class Contents(ClosedRecord):
    """Summary of a database.

    Attributes:
        folder: Folder of the database.
        records: Number of records.
        skipped: Number of lines without a valid record, by reason.
        books: Summaries by core.
    """

    schema_version: Literal[2] = 2
    folder: str
    records: int
    skipped: dict[str, int]
    books: list[Book]


def contents(database: Database) -> Contents:
    """Summarise a database."""
    records, faults = kept(database.all())
    books = []
    for of_book in _groups(records, "core", "features", "tvm"):
        entries = [entry for of_task in _groups(of_book, "task") for entry in _entries(of_task)]
        first = of_book[0]
        books.append(Book(core=first.core, features=list(first.features), tvm=first.tvm, entries=entries))
    return Contents(
        folder=str(database.folder),
        records=len(records),
        skipped=dict(database.skipped + faults),
        books=books,
    )


def merge(sources: Sequence[Database], output: Path) -> tuple[int, Counter[str]]:
    """Merge the records of several databases, without duplicates, into one, which may be one of them.

    Returns: Number of added records, and number of lines without a valid record, by reason.
    """
    checked_folder(output, "-o")
    target = Database(output, create=True)
    known = {record.id for record in target.all()}
    added: dict[str, Record] = {}
    skipped: Counter[str] = Counter()
    for source in sources:
        records, faults = kept(source.all())
        added |= {record.id: record for record in records if record.id not in known}
        skipped += source.skipped + faults
    target.append(sorted(added.values(), key=lambda record: record.when))
    return len(added), skipped


def prune(database: Database, keep: int) -> tuple[int, Counter[str]]:
    """Remove all records of each task except those of the fastest candidates and of the default.

    A search that is repeated measures what was removed again.

    Args:
        database: The database.
        keep: How many of each task, unit and place are kept.

    Returns: Number of removed records, and number of lines without a valid record, by reason; `Database.rewrite` tells
    which of these lines stay.
    """
    records = database.all()
    skipped = database.skipped + kept(records)[1]
    database.rewrite(lambda records: _kept(kept(records)[0], keep))
    return len(records) - len(database.all()), skipped


def _kept(records: Sequence[Record], keep: int) -> Iterator[Record]:
    for group in _groups(records, "task", "unit", "where"):
        right = sorted((r for r in group if r.cost is not None), key=lambda record: record.cost or 0.0)
        best = {record.id for record in right[:keep]}
        yield from (record for record in group if record.id in best or (record.default and record in right))


def _entries(records: Sequence[Record]) -> Iterator[Entry]:
    used = best_of(records)
    for group in _groups(records, "unit", "where"):
        best = best_of(group)
        default = next((record for record in reversed(group) if record.default and record.cost), None)
        yield Entry(
            task=group[0].task,
            what=_what(group[0].workload),
            trials=len(group),
            failed=sum(record.cost is None for record in group),
            default=None if default is None else default.cost,
            best=None if best is None else best.cost,
            bound=_bound(best),
            candidate=None if best is None else _text(best),
            used=best is not None and best is used,
            unit=group[0].unit,
            where=group[0].where,
            when=max(record.when for record in group),
        )


def _bound(record: Record | None) -> float | None:
    text = None if record is None else record.conditions.get(BOUND)
    try:
        share = math.nan if text is None else float(text)
    except ValueError:
        return None
    return share if 0.0 <= share <= 1.0 else None


def _groups(records: Iterable[Record], *fields: str) -> list[list[Record]]:
    """Return records grouped by some fields; groups are in the order of their first records."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(getattr(record, name) for name in fields), []).append(record)
    return list(groups.values())


def _what(workload: dict[str, Any]) -> str:
    """Return composite and shapes as text: "conv2d_s8 1x14x14x96 576x1x1x96"; "?" for an unknown kind of workload."""
    try:
        shapes = ("x".join(map(str, operand["shape"])) for operand in workload["operands"])
        return " ".join([str(workload["composite"]).removeprefix("arm."), *shapes])
    except (KeyError, TypeError):
        return "?"


def _text(record: Record) -> str:
    try:
        return Candidate.decode(record.candidate).text()
    except ValueError:
        return f"{json.dumps(record.candidate)}, which this version has not"
