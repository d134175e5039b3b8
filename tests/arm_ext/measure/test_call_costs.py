# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import pytest

from arm_ext.measure.call_costs import CallCost


def _cost(**changes: float) -> CallCost:
    values: dict[str, float] = {
        "instructions": 1000,
        "core_cycles": 1000,
        "dispatch_cycles": 200,
        "vector_cycles": 450,
        "l2_bytes": 0,
        "memory_bytes": 0,
        "moved_bytes": 0,
        "once": 0,
    }
    return CallCost("k", classes=Counter(), hot=None, **(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "largest", "second"),
    [
        # Busy for 45 % of the cycles: to make the pipes faster would leave 55 %.
        ({}, "latency", "vector pipes"),
        ({"vector_cycles": 800}, "vector pipes", "latency"),
        ({"vector_cycles": 300, "dispatch_cycles": 600}, "dispatch", "latency"),
        ({"once": 600}, "overhead", "latency"),
        ({"memory_bytes": 1 << 16}, "memory", "latency"),
        ({"vector_cycles": 900, "l2_bytes": 1 << 14}, "vector pipes", "L2"),
        ({"vector_cycles": 1200}, "vector pipes", "latency"),
    ],
)
def test_the_bound_is_the_largest_part(changes: dict[str, float], largest: str, second: str) -> None:
    cost = _cost(**changes)
    assert (cost.bound, [*cost.parts][:2]) == (largest, [largest, second])
    assert sum(cost.parts.values()) == pytest.approx(cost.cycles)


def test_a_call_without_instructions_has_parts() -> None:
    assert set(_cost(instructions=0, core_cycles=0).parts.values()) == {0}
