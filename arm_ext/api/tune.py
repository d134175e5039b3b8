# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.tune_model`: tries other parameters for a model's kernels on boards, and records the measurements."""

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from time import monotonic
from typing import Any

from arm_ext.api.model_source import Source
from arm_ext.api.options import IMPORT, ModelOptions, Options, gathered
from arm_ext.api.plugins import load_plugins, with_plugins
from arm_ext.api.sample_shapes import shaped_by
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.outputs import checked_folder
from arm_ext.frontends.load import prepared
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.shapes.given import buckets_of
from arm_ext.target.profiles import resolve
from arm_ext.tune import search
from arm_ext.tune.database import Database
from arm_ext.tune.fleet import Fleet, reach
from arm_ext.tune.measure import Measurer
from arm_ext.tune.merged_tasks import merge_tasks
from arm_ext.tune.progress import OnProgress, Progress, Watched, start
from arm_ext.tune.record import Record, book_of
from arm_ext.tune.recorded import Recorded
from arm_ext.tune.report import Stopped, TuneReport, make_report
from arm_ext.tune.rerank import rerank as measure_best
from arm_ext.tune.soundness import sound, told
from arm_ext.tune.task import Task, extract

_LOG = logging.getLogger(__name__)
_MINUTE = 60


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Options):
    """The options of `tune_model` that `compile` does not have.

    Attributes:
        jobs: Number of processes on this machine.
        budget: Minutes after which the search ends.
        trials: The most candidates that are tried, of all tasks together.
        tasks: Patterns of the tasks to tune, such as "conv2d_s8.*"; all by default.
        seed: Seed of the search; the same seed on the same database makes the same trials.
        rerank: A board on which the best of each task are timed, instead of a search.
        top: How many of the best candidates of each task are timed by `rerank`.
    """

    jobs: int | None = None
    budget: float | None = None
    trials: int | None = None
    tasks: Sequence[str] = ()
    seed: int = 0
    rerank: str | None = None
    top: int = 5


@with_plugins
@shaped_by("inputs", "quantize")
def tune_model(
    model: str | Path,
    target: str = "arm",
    db: str | Path = "tuning",
    options: ModelOptions | None = None,
    *,
    board: str = "virtual",
    on_start: OnProgress = lambda progress: None,
    on_progress: OnProgress = lambda progress: None,
    **more: Any,
) -> TuneReport:
    """Tune a model's kernels; the result of each trial is stored in the database before the next trial starts.

    Processes are started that import the caller's main module: a script of yours calls this under
    `if __name__ == "__main__"`. KeyboardInterrupt ends the search and is no error; what was found is kept.

    Args:
        model: A file of any format that `compile` takes.
        target: Name of a profile.
        db: Folder of the database; made if there is none.
        options: Options in one record.
        board: Board that measures candidates: "virtual" estimates cycles, other boards take times.
        on_start: Called before the first trial, with the tasks and their shares.
        on_progress: Called after each trial.
        more: Options by keyword: those of `TuneOptions`, and of `Options` those by which a model is read, `mattr` and
            `precision`. Kernels of plugins are not tuned.

    Raises:
        UsageError: An argument is wrong, or no kernel of the model can be tuned.
        EnvError: A board or a tool is missing, the first candidate fails, or none can be measured.
    """
    checked_folder(Path(db), "--db")
    o = gathered("tune", TuneOptions, options, more, IMPORT | {"mattr", "precision"})
    profile = resolve(target, o.mattr)
    reach(o.rerank or board)
    source = Source(prepared(model, o.values, trust=o.trust), o)
    buckets = [each for _, each in source.models(buckets_of(o.shapes))[0]]
    (imported, *_) = buckets
    phases = PhaseOptions(profile, o.precision, more_rules=load_plugins(o.plugins).rules)
    of_all = merge_tasks([extract(each.mod, phases) for each in buckets])
    found = _matching(of_all, o.tasks, imported.name)
    began = monotonic()
    left = _countdown(o.budget)
    until = math.inf if o.budget is None else began + o.budget * _MINUTE
    with Fleet(profile, o.rerank or board, o.jobs, until) as fleet:
        # Only after the boards are connected, so that a wrong board name leaves no empty folder.
        database = Database(db, create=o.rerank is None)
        records = _usable(database)
        recorded = Recorded(fleet, database, o.seed)
        progress = start(found, recorded, left, o.trials)
        on_start(progress)
        watched = Watched(recorded, progress, on_progress)

        def work() -> None:
            if o.rerank is not None:
                own = [record for record in records if record.book == book_of(profile)]
                measure_best(found, watched, own, o.top, _over(left))
                return
            _preflight(progress.rows[0].task, recorded)
            recorded.reused = 0  # the search starts with the same candidate, which is then measured again
            search.tune(found, watched, seed=o.seed, trials=o.trials, until=_over(left), records=records)

        stopped = _run(work, left)
    if o.rerank is not None and stopped == "done" and not progress.tried:
        raise EnvError(
            f"{database.folder} has no records of these tasks for {profile.name} to time again; search first, which "
            f"needs no board: arm-ext tune {model} --target {profile.name} --db {database.folder}"
        )
    _require_measured(progress)
    return make_report(
        progress,
        model=imported.name,
        profile=profile,
        db=str(db),
        seed=o.seed,
        stopped=stopped,
        seconds=monotonic() - began,
        reused=recorded.reused,
    )


def _usable(database: Database) -> list[Record]:
    """Return the valid records; log one warning about invalid ones."""
    records, faults = sound(database.all())
    if sentence := told(database.folder, database.skipped + faults):
        _LOG.warning(sentence)
    return records


def _matching(tasks: Sequence[Task], patterns: Sequence[str], model: str) -> list[Task]:
    if not tasks:
        raise UsageError(f"{model} has nothing to tune: none of its operators runs on a hand-written kernel")
    taken = [task for task in tasks if not patterns or any(fnmatch(task.name, p) for p in patterns)]
    if not taken:
        names = ", ".join(task.name for task in tasks)
        raise UsageError(f"--tasks {','.join(patterns)} matches no task; the tasks are: {names}")
    return taken


def _countdown(minutes: float | None) -> Callable[[], float | None]:
    if minutes is None:
        return lambda: None
    end = monotonic() + minutes * _MINUTE
    return lambda: max(0.0, end - monotonic())


def _over(left: Callable[[], float | None]) -> Callable[[], bool]:
    return lambda: left() == 0.0


def _run(work: Callable[[], None], left: Callable[[], float | None]) -> Stopped:
    with suppress(KeyboardInterrupt):
        work()
        return "budget" if left() == 0.0 else "done"
    return "interrupted"


def _preflight(task: Task, measurer: Measurer) -> None:
    """Measure the default of one task, before thousands of candidates fail for the same reason."""
    result = measurer.measure([(task, task.default)])[0]
    if result.failure:
        raise EnvError(
            f"the first candidate, {task.name} as it is without tuning, failed ({result.failure}): {result.detail}"
        )


def _require_measured(progress: Progress) -> None:
    if all(row.best is None for row in progress.rows):
        kinds = ", ".join(f"{count} {kind}" for kind, count in progress.failures.items()) or "none was tried"
        raise EnvError(
            f"not one of {progress.tried} candidates could be measured ({kinds}). {progress.complaint}".rstrip()
        )
