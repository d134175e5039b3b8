# SPDX-License-Identifier: Apache-2.0
"""Selection of the valid records in a database, and a sentence about the number of invalid ones and the reasons.

Databases come from other machines, versions and hands. A record is used if its workload is the one that its task is
named after, a kernel of this version takes it, and its parameters are among those that a search would try.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm

from arm_ext.common.errors import EnvError
from arm_ext.target.profiles import NEON_BITS, host
from arm_ext.tune.candidate import Candidate, decode_workload, key_of
from arm_ext.tune.kernels import kernel_named
from arm_ext.tune.record import Record
from arm_ext.tune.space import parameters
from schedules.composites.workload import Workload
from schedules.cores import CORES, Core
from schedules.generic import metaschedule_trace
from schedules.kernels.common.contract import KernelMatch

UNKNOWN_CORE = "of a core that this version does not know"
WRONG_WORKLOAD = "of a workload that this version does not have, or of another than their task's"
NO_KERNEL = "of a kernel that this version does not have, or with parameters that it cannot have"
IMPOSSIBLE = "of a kernel or with parameters that are none for the workload"


def sound(records: Iterable[Record]) -> tuple[list[Record], Counter[str]]:
    """Return the records that this version may use, and the number of other records by reason."""
    return _divided(records, fault_of)


def kept(records: Iterable[Record]) -> tuple[list[Record], Counter[str]]:
    """Return the records that a database may keep, and the number of others by reason.

    Other versions may use more of them.
    """

    def fault(record: Record) -> str:
        found = fault_of(record) if record.tvm == tvm.__version__ else ""
        return "" if found == UNKNOWN_CORE else found

    return _divided(records, fault)


def _divided(records: Iterable[Record], fault: Callable[[Record], str]) -> tuple[list[Record], Counter[str]]:
    found, faults = [], Counter[str]()
    for record in records:
        if reason := fault(record):
            faults[reason] += 1
        else:
            found.append(record)
    return found, faults


def told(folder: Path | str, skipped: Mapping[str, int]) -> str:
    """Return a sentence about the number of unused records and the reasons; "" if all are used."""
    if not skipped:
        return ""
    count = sum(skipped.values())
    reasons = "; ".join(f"{number} {reason}" for reason, number in sorted(skipped.items()))
    return f"{count} record{'' if count == 1 else 's'} of {folder} {'is' if count == 1 else 'are'} not used: {reasons}"


def fault_of(record: Record) -> str:
    """Return the reason why this version does not use a record; "" if it uses it."""
    core = _core_of(record)
    if core is None:
        return UNKNOWN_CORE
    try:
        workload = decode_workload(record.workload)
        if key_of(workload) != record.task:
            return WRONG_WORKLOAD
    except Exception:  # a workload that another program has written may have any content
        return WRONG_WORKLOAD
    try:
        candidate = Candidate.decode(record.candidate)
    except ValueError:
        return NO_KERNEL
    try:
        return "" if _possible(workload, candidate, core) else IMPOSSIBLE
    except Exception:  # likewise: a kernel may raise any exception for a workload of another kernel
        return IMPOSSIBLE


def _possible(workload: Workload, candidate: Candidate, core: Core) -> bool:
    if candidate.kernel == metaschedule_trace.NAME:
        # Only applying a trace shows whether it fits the workload, and listing all traces that fit takes seconds:
        # check only its type.
        return isinstance(metaschedule_trace.matches(workload, core), KernelMatch) and isinstance(
            candidate.params.trace, str
        )
    return candidate.params in _parameters(candidate.kernel, workload, core)


@lru_cache(maxsize=1024)
def _parameters(kernel: str, workload: Workload, core: Core) -> frozenset[Any]:
    """Return a kernel's default parameters and all that a search tries.

    Empty if the kernel does not support the workload.
    """
    named = kernel_named(kernel)
    if not isinstance(named.matches(workload, core), KernelMatch):
        return frozenset()
    return frozenset((*parameters(kernel, workload, core), named.default(workload, core)))


def _core_of(record: Record) -> Core | None:
    """Return the core of a record with the features that it had; the core may be this machine's."""
    core = CORES.get(record.core)
    if core is None:
        with suppress(EnvError):
            core = host().core
        if core is None or core.name != record.core:
            return None
    bits = core.vector_bits if "sve" in record.features or core.name not in CORES else NEON_BITS
    return replace(core, features=record.features, vector_bits=bits)
