# SPDX-License-Identifier: Apache-2.0
"""Inputs of a sum of products: which sums weights can make, and of which inputs."""

import numpy as np

from arm_ext.ethosu.model.memory import Integers

TARGETS = 64
"""Of the sums that are wanted, how many are tried by division before all are by the table of sums."""

LARGEST = 1 << 33
"""Bits of a table of sums of all weights; more are not made."""


def attain(weights: Integers, low: int, high: int, wanted: Integers) -> Integers | None:
    """Inputs from low to high, 0 among them, whose products with the weights add up to one of the sums wanted.

    Returns:
        Of the shape of the weights; None if there are none, which is proven.

    Raises:
        OverflowError: By division none was found, and the table of sums would be too large.
    """
    middle = np.sort(wanted)[:: max(1, len(wanted) // TARGETS)]
    for target in middle:
        found = _divided(weights, low, high, int(target))
        if found is not None:
            return found
    return _tabled(weights, low, high, wanted) if wanted.size else None


def _divided(weights: Integers, low: int, high: int, target: int) -> Integers | None:
    """As the long division of the target by the weights, the greatest first, gives them."""
    found = np.zeros(len(weights), np.int64)
    for at in np.argsort(-np.abs(weights), kind="stable"):
        weight = int(weights[at])
        if weight == 0 or target == 0:
            break
        quotient = abs(target) // abs(weight) * (1 if (target < 0) == (weight < 0) else -1)
        found[at] = min(max(quotient, low), high)
        target -= weight * int(found[at])
    return None if target else found


def _tabled(weights: Integers, low: int, high: int, wanted: Integers) -> Integers | None:
    """By the sets of sums that the first weights make, one weight after the other; a set is the bits of a number."""
    count = high - low + 1
    least = int(np.minimum(weights * low, weights * high).sum())
    if int(np.abs(weights).sum()) * count * len(weights) > LARGEST:
        raise OverflowError(f"{len(weights)} weights make too many sums")
    sets = [1]
    for weight in np.abs(weights).tolist():
        reached, have = sets[-1], 1
        while have < count and weight:
            step = min(have, count - have)
            reached |= reached << weight * step
            have += step
        sets.append(reached)
    goal = next((t for t in (wanted - least).tolist() if t >= 0 and sets[-1] >> t & 1), None)
    if goal is None:
        return None
    found = np.zeros(len(weights), np.int64)
    for at in reversed(range(len(weights))):
        weight = abs(int(weights[at]))
        steps = next(n for n in range(count) if goal >= n * weight and sets[at] >> goal - n * weight & 1)
        found[at] = low + steps if weights[at] > 0 else high - steps
        goal -= steps * weight
    return found
