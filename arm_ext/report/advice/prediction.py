# SPDX-License-Identifier: Apache-2.0
"""Prediction of another build's cost, from the profile of the present build and the estimates of both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arm_ext.report.calls import CallRow
from arm_ext.report.profile.record import ProfiledCall, ProfileReport


def predicted_gain(profile: ProfileReport, now: Sequence[CallRow], then: Sequence[CallRow]) -> float:
    """Return the predicted saving of another build as a share of the measured cost; negative if it is slower.

    A layer's cycles change as the estimates of the kernels that compute it, and the cycles in which caches fetch as
    their estimates do. The estimate of a layer that this build does not have is multiplied by what this build measures
    for its estimates on average.

    Args:
        profile: Measurements of this build.
        now: Kernel calls of this build.
        then: The kernel calls that the other build would have.
    """
    measured, estimated, others = _measured(profile.calls), _estimated(now), _estimated(then)
    compared = [name for name in measured if name in estimated]
    average = _ratio(
        sum(measured[name].cycles for name in compared), sum(estimated[name].cycles for name in compared)
    )
    cost = sum(measured[name].total for name in measured)
    saved = cost
    for name, other in others.items():
        own = estimated.get(name)
        if name not in measured or own is None:
            saved -= other.cycles * average
            continue
        layer = measured[name]
        saved -= layer.cycles * _ratio(other.cycles, own.cycles) + layer.waits * _ratio(
            other.waits, own.waits
        )
    whole = float(profile.cycles_with_caches or profile.median_us or 0)
    return saved / whole if whole else 0.0


@dataclass(frozen=True)
class _Cost:
    """Cost of all calls whose anchor is one source node: its layer.

    Attributes:
        cycles: Cycles of the core; microseconds, if measured on a real board.
        waits: Cycles in which cache lines are carried, where that is known apart.
    """

    cycles: float = 0.0
    waits: float = 0.0

    @property
    def total(self) -> float:
        return self.cycles + self.waits

    def __add__(self, other: "_Cost") -> "_Cost":
        return _Cost(self.cycles + other.cycles, self.waits + other.waits)


def _measured(calls: Iterable[ProfiledCall]) -> dict[str, _Cost]:
    return _by_layer((call.anchor, _of_call(call)) for call in calls)


def _of_call(call: ProfiledCall) -> _Cost:
    if call.counts is not None:
        return _Cost(
            call.counts.estimated_cycles, call.counts.cycles_with_caches - call.counts.estimated_cycles
        )
    return _Cost(call.times.median_us if call.times else 0.0)


def _estimated(rows: Iterable[CallRow]) -> dict[str, _Cost]:
    return _by_layer(
        (row.anchor, _Cost(row.selection_cost, row.cycles_with_caches - row.selection_cost)) for row in rows
    )


def _by_layer(costs: Iterable[tuple[str, _Cost]]) -> dict[str, _Cost]:
    found: dict[str, _Cost] = {}
    for name, cost in costs:
        found[name] = found.get(name, _Cost()) + cost
    return found


def _ratio(other: float, own: float) -> float:
    return other / own if own else 1.0
