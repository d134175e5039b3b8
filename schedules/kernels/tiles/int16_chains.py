# SPDX-License-Identifier: Apache-2.0
"""Number of int8 products that can be summed in 16 bits: two, unless both may be (-128) * (-128).

With |w| <= 127 the sum of two products is at most 2 * 128 * 127 = 32512 < 2**15; that of three may be 48768.
"""

from schedules.composites.workload import Workload

PAIR = 2
"""Products that fit, with weights in [-127, 127]."""

GREATEST = 127
"""|w| up to which they do."""


def chain_of(workload: Workload) -> int:
    """Return 2 if the workload's weights are known to stay in [-127, 127], else 1."""
    limit = workload.magnitude
    return PAIR if limit is not None and limit.weight <= GREATEST else 1
