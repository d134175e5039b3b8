# SPDX-License-Identifier: Apache-2.0
"""`arm-ext db`: look after tuning databases."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arm_ext.cli.options import json_option
from arm_ext.cli.path_type import PATH
from arm_ext.cli.tune_view import aligned, amount, percent

if TYPE_CHECKING:
    from arm_ext.tune.database_maintenance import Book, Entry

SCHEMA_VERSION = 2

_HEAD = ("task", "trials", "failed", "default", "best", "less", "bound", "used", "measured")
_MINUTES = len("2026-01-31T12:34")  # of a time in ISO 8601


@click.group()
def db() -> None:
    """Look after tuning databases."""


@db.command(short_help="Show what is best for each task, and where it was measured.")
@click.argument("folder", type=PATH)
@json_option()
def show(folder: Path, as_json: bool) -> None:
    """Show the tasks in FOLDER: trials, the best against the default, when and where they were measured."""
    from arm_ext.tune.database import Database
    from arm_ext.tune.database_maintenance import contents
    from arm_ext.tune.soundness import told

    found = contents(Database(folder))
    if as_json:
        click.echo(found.model_dump_json(indent=2))
        return
    sentence = told(folder, found.skipped)
    parts = [
        f"{found.folder}: {found.records} records",
        *([sentence] * bool(sentence)),
        *map(_book, found.books),
    ]
    click.echo("\n\n".join(parts))


@db.command()
@click.argument("folders", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", required=True, type=PATH, help="Database to add the records to.")
@json_option()
def merge(folders: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Put the records of FOLDERS into one database; each record once."""
    from arm_ext.tune.database import Database
    from arm_ext.tune.database_maintenance import merge as merge_all

    added, skipped = merge_all([Database(folder) for folder in folders], output)
    _tell(as_json, folders, output, "added", added, skipped, f"{added} records added to {output}")


@db.command(short_help="Remove all but the fastest records of each task.")
@click.argument("folder", type=PATH)
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="How many records to keep of each task, unit and board.",
)
@json_option()
def prune(folder: Path, keep: int, as_json: bool) -> None:
    """Remove all but the fastest records of each task in FOLDER, and those of the defaults."""
    from arm_ext.tune.database import Database
    from arm_ext.tune.database_maintenance import prune as prune_one

    removed, skipped = prune_one(Database(folder), keep)
    _tell(as_json, [folder], folder, "removed", removed, skipped, f"{removed} records removed from {folder}")


def _tell(
    as_json: bool,
    read: Sequence[Path],
    folder: Path,
    change: str,
    count: int,
    skipped: Mapping[str, int],
    text: str,
) -> None:
    """Print the result for a database: as text, or as JSON with its number of records."""
    from arm_ext.tune.database import Database
    from arm_ext.tune.soundness import told

    if not as_json:
        click.echo("\n".join(filter(None, (text, told(", ".join(map(str, read)), skipped)))))
        return
    document = {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        change: count,
        "skipped": dict(skipped),
        "records": len(Database(folder).all()),
    }
    click.echo(json.dumps(document, indent=2))


def _book(book: "Book") -> str:
    features = " ".join(book.features) or "NEON alone"
    rows = [(*_HEAD, "task's operands"), *((*_cells(entry), entry.what) for entry in book.entries)]
    lines = aligned(rows, last=True)
    return f"{book.core}, TVM {book.tvm}: {features}\n{lines}"


def _cells(entry: "Entry") -> tuple[str, ...]:
    gain = "" if entry.default is None or entry.best is None else percent(1 - entry.best / entry.default)
    costs = amount(entry.default, entry.unit), amount(entry.best, entry.unit)
    measured = f"{entry.when[:_MINUTES]} {entry.where}"
    used = "yes" if entry.used else ""
    bound = "" if entry.bound is None else percent(entry.bound)
    return entry.task, str(entry.trials), str(entry.failed or ""), *costs, gain, bound, used, measured
