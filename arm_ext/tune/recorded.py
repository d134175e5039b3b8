# SPDX-License-Identifier: Apache-2.0
"""Measurement with a database: candidates with a record are not measured again, and new results are recorded."""

from collections.abc import Sequence
from datetime import UTC, datetime

import tvm

from arm_ext.tune.candidate import Candidate, encode_workload, renewed
from arm_ext.tune.database import Database, same_candidate
from arm_ext.tune.measure import Measurer, OnResult, Result, ignore
from arm_ext.tune.record import Record
from arm_ext.tune.task import Task


class Recorded:
    """A `Measurer` that records its results, so that a repeated search does not measure again.

    Attributes:
        unit: Unit of the inner measurer's costs.
        where: Place of measurement of the inner measurer.
        reused: Trials that the database had before.
    """

    def __init__(self, inner: Measurer, database: Database, seed: int = 0) -> None:
        """Wrap a measurer; the database is read before the first candidate is measured.

        Args:
            inner: The measurer that is asked for candidates without a record.
            database: Database that records are read from and written to.
            seed: Seed of the search, for the records.
        """
        self.unit, self.where = inner.unit, inner.where
        self.reused = 0
        self._inner = inner
        self._database = database
        self._seed = seed
        self._known: dict[tuple[str, str], Result] | None = None
        self._before: frozenset[tuple[str, str]] = frozenset()

    def measure(self, batch: Sequence[tuple[Task, Candidate]], on_result: OnResult = ignore) -> list[Result]:
        """Measure the candidates without a record, as `Measurer.measure` does."""
        known = self._read(batch[0][0]) if batch else {}
        results = {
            index: known[_name(task, candidate)]
            for index, (task, candidate) in enumerate(batch)
            if _name(task, candidate) in known
        }
        for index, result in results.items():
            on_result(index, result)
        self.reused += sum(_name(*batch[index]) in self._before for index in results)
        rest = [index for index in range(len(batch)) if index not in results]

        def done(place: int, result: Result) -> None:
            index = rest[place]
            task, candidate = batch[index]
            # A board that is away is not the candidate's fault, so it is not recorded.
            if result.failure != "board":
                self._database.append([self._record(task, candidate, result)])
                known[_name(task, candidate)] = result
            on_result(index, result)

        measured = self._inner.measure([batch[index] for index in rest], done) if rest else []
        results |= dict(zip(rest, measured, strict=True))
        return [results[index] for index in range(len(batch))]

    def _read(self, task: Task) -> dict[tuple[str, str], Result]:
        """Return the database's results for the task's profile, unit and place; of duplicates, the last."""
        if self._known is None:
            self._known = {
                (record.task, same_candidate(renewed(record.candidate))): Result(
                    record.cost, record.instructions, record.failure, record.detail, dict(record.conditions)
                )
                for record in self._database.records(task.profile)
                if (record.unit, record.where) == (self.unit, self.where)
            }
            self._before = frozenset(self._known)
        return self._known

    def _record(self, task: Task, candidate: Candidate, result: Result) -> Record:
        return Record(
            task=task.key,
            workload=encode_workload(task.workload),
            candidate=candidate.encode(),
            default=candidate == task.default,
            core=task.profile.core.name,
            features=task.profile.features,
            tvm=tvm.__version__,
            unit=self.unit,
            where=self.where,
            cost=result.cost,
            instructions=result.instructions,
            failure=result.failure,
            detail=result.detail,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            seed=self._seed,
            conditions=result.conditions,
        )


def _name(task: Task, candidate: Candidate) -> tuple[str, str]:
    return task.key, same_candidate(candidate.encode())
