# SPDX-License-Identifier: Apache-2.0
"""Look-up of a model's workloads in a tuning database, for `select`.

Only records of exactly the target's core, its features and this version of TVM count, if they are sound; those of a
kernel that is switched off are passed over.
"""

import logging
from collections.abc import Collection, Iterable
from pathlib import Path

from arm_ext.common.errors import UsageError
from arm_ext.package.manifest import TunedKernel
from arm_ext.report.calls import KernelCall
from arm_ext.target.profiles import Profile
from arm_ext.tune.candidate import Candidate, key_of
from arm_ext.tune.database import Database, best_of
from arm_ext.tune.record import Record
from arm_ext.tune.soundness import sound, told
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.generic import metaschedule_trace
from schedules.select import Known

_LOG = logging.getLogger(__name__)


class Tuned:
    """The best record of each task of a database; a `schedules.select.Choose`."""

    def __init__(self, folder: str | Path, profile: Profile, without: Collection[str] = ()) -> None:
        """Read the database.

        Args:
            folder: Folder of the database.
            profile: The target.
            without: Names of kernels that are not to be used.

        Raises:
            UsageError: There is no such database, or it has no records for this target.
        """
        database, self._folder, self._without = Database(folder), folder, without
        self._records: dict[str, list[Record]] = {}
        records, faults = sound(database.records(profile))
        for record in records:
            self._records.setdefault(record.task, []).append(record)
        sentence = told(database.folder, database.skipped + faults)
        if sentence:
            _LOG.warning(sentence)
        self._told: dict[str, TunedKernel] = {}
        if not self._records:
            found = sorted({f"{r.core} ({', '.join(r.features)}; TVM {r.tvm})" for r in database.all()})
            raise UsageError(
                f"{folder} has no record for {profile.name} with {', '.join(profile.features)} and this TVM; "
                f"it has records for: {'; '.join(found) or 'nothing'}. Tune for this target first"
                + (f". {sentence}" if sentence else "")
            )

    def __call__(self, workload: Workload, core: Core) -> Known | None:
        """Return the fastest measured parameters for a workload; None if there are none."""
        key = key_of(workload)
        usable = self._usable(self._records.get(key, ()))
        while (record := best_of(usable)) is not None:
            candidate = Candidate.decode(record.candidate)
            if not (fault := _unfit(workload, candidate)):
                break
            _LOG.warning("record %s of %s is not used: %s", record.id, self._folder, fault)
            usable.remove(record)
        else:
            return None
        source = f"record {record.id}: {_cost(record)}{self._against(record)}"
        self._told[source] = TunedKernel(record=record.id, task=key, candidate=record.candidate)
        return Known(candidate.params, source)

    def records(self, model: str, kernels: Iterable[KernelCall]) -> list[TunedKernel]:
        """Return the records that determined kernels, without duplicates.

        Args:
            model: Name of the model.
            kernels: All kernels of the package. Records that were looked up for something else, such as estimates, do
                not count.

        Raises:
            UsageError: No record decided any kernel.
        """
        used = dict.fromkeys(kernel.tuned for kernel in kernels if kernel.tuned)
        if not used:
            raise UsageError(
                f"{self._folder} has records for this target, but none for {model}: tune that model first"
            )
        return [self._told[source] for source in used]

    def _usable(self, records: Collection[Record]) -> list[Record]:
        return [record for record in records if record.candidate["kernel"] not in self._without]

    def _against(self, record: Record) -> str:
        """Return, as text, the cost of the default measured in the same place; "" if it is unknown."""
        if record.default:
            return ", which is the default"
        same = (r for r in self._records[record.task] if r.default and r.where == record.where)
        default = next((r for r in same if r.cost is not None), None)
        return "" if default is None else f", by default {_cost(default)}"


def _unfit(workload: Workload, candidate: Candidate) -> str:
    """Return the reason why a MetaSchedule trace does not fit its loops; "" if it fits, and for other candidates."""
    if candidate.kernel != metaschedule_trace.NAME:
        return ""
    try:
        metaschedule_trace.build(workload, candidate.params)
    except ValueError as error:
        return str(error)
    return ""


def _cost(record: Record) -> str:
    cost = record.cost or 0.0
    return f"{cost:,.0f} cycles" if record.unit == "cycles" else f"{cost * 1e6:,.1f} us"
