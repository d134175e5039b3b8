# SPDX-License-Identifier: Apache-2.0
"""Feature maps on which two forms of one operation differ, or the proof that there are none.

Where weights or scales differ, an accumulator is sought that the two rescale to different values, then inputs whose
products with the weights add up to it. If all that differs are scales, and there are no such inputs for any such
accumulator, at no place of the kernel, the operations are the same.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from arm_ext.ethosu.model import StreamError
from arm_ext.ethosu.model.machine import Executed, Machine
from arm_ext.ethosu.model.memory import Integers
from arm_ext.ethosu.payload import Payload
from tests.arm_ext.ethosu.model.alone import Maker, before, computed, drawn, places, window_of
from tests.arm_ext.ethosu.model.attain import attain
from tests.arm_ext.ethosu.model.reach import range_of, reachable, rescaled, telling, zero_point_of
from tests.arm_ext.ethosu.tosa.graphs import Array

DRAWN, SMALL = 24, 4096
"""Feature maps that are drawn for outputs of so many elements; of smaller ones, without weights, as many more."""

FIXED = 4
"""Changed weights of a channel that are looked at."""


@dataclass(frozen=True)
class Pair:
    """One operation of two payloads, before it runs, and after.

    Attributes:
        payload: The first, for what the two have in common.
        machines: Before it.
        done: After it.
    """

    payload: Payload
    machines: tuple[Machine, Machine]
    done: tuple[Executed, Executed]

    def differ(self, make: Callable[[], Maker]) -> bool:
        """Whether the two compute different values of the same feature maps, or the second raises."""
        first = computed(self.machines[0], self.payload, make())
        try:
            second = computed(self.machines[1], self.payload, make())
        except StreamError:
            return True
        return len(first) != len(second) or not all(map(np.array_equal, first, second))


@dataclass(frozen=True)
class Wanted:
    """Where two operations differ.

    Attributes:
        channel: Of the output.
        fixed: Tap of the channel's weights → what it sees, less the zero point.
        sums: Of the products of the other weights.
    """

    channel: int
    fixed: Mapping[int, int]
    sums: Integers

    def inputs(self, done: Executed, taps: Integers) -> Integers | None:
        """What the taps have to see; None if they cannot make any of the sums.

        Raises:
            OverflowError: That is not known.
        """
        assert done.weights is not None
        if not self.fixed.keys() <= set(taps.tolist()):
            return None
        free = done.weights[self.channel].reshape(-1)[taps].astype(np.int64)
        free[np.isin(taps, list(self.fixed))] = 0
        found = attain(free, *range_of(done, "ifm"), self.sums)
        if found is not None:
            for tap, value in self.fixed.items():
                found[taps == tap] = value
        return found


def alone(
    payload: Payload, other: Payload, values: Sequence[Array], number: int, done: tuple[Executed, Executed]
) -> bool | None:
    """Whether two payloads' operation of a number computes different values of some feature maps.

    Returns:
        False if it is proven that it does not for all that its scales differ in; None if nothing is known.
    """
    pair = Pair(payload, (before(payload, values, number), before(other, values, number)), done)
    if any(pair.differ(partial(drawn, draw)) for draw in range(_draws(done[0]))):
        return True
    return None if done[0].weights is None else _sought(pair)


def _draws(done: Executed) -> int:
    sizes = [done.fields.get(f"ofm_{axis}_m1.value", 0) + 1 for axis in ("height", "width", "depth")]
    return DRAWN if done.weights is not None else DRAWN * max(1, SMALL // math.prod(sizes))


def _sought(pair: Pair) -> bool | None:
    one, other = pair.done
    window = window_of(pair.machines[0], pair.payload)
    proven = one.weights is not None and np.array_equal(one.weights, other.weights)  # type: ignore[arg-type]
    proven = proven and telling(one, other, pair.payload.npu.family) is not None
    for wanted in _wanted(pair.done, pair.payload.npu.family):
        lanes = [wanted.channel] if one.name == "op_depthwise" else range(window.values.shape[2])
        for place in places(window, zero_point_of(one, "ifm"), lanes):
            try:
                found = wanted.inputs(one, place.taps)
            except OverflowError:
                proven = False
                continue
            if found is not None and pair.differ(partial(place.maker, found)):
                return True
            proven = proven and found is None
    return False if proven else None


def _wanted(done: tuple[Executed, Executed], family: str) -> Iterator[Wanted]:
    """Of channels with other scales or weights; of the weights that differ all but one see zeros."""
    one, other = done
    for channel, sums in (telling(one, other, family) or {}).items():
        yield Wanted(channel, {}, sums)
    if one.weights is None or other.weights is None or one.weights.shape != other.weights.shape:
        return
    if one.scales is None or other.scales is None:
        return
    flat = [weights.reshape(len(weights), -1).astype(np.int64) for weights in (one.weights, other.weights)]
    for channel in map(int, np.flatnonzero((flat[0] != flat[1]).any(axis=1))):
        rows = [weights[channel] for weights in flat]
        changed = np.flatnonzero(rows[0] != rows[1])
        low, high = range_of(one, "ifm")
        sums = reachable(np.delete(rows[0], changed), low, high)
        for tap, value in product(changed[:FIXED], (high, low)):
            first, second = (
                rescaled(run, sums + row[tap] * value, channel, family)
                for run, row in zip(done, rows, strict=True)
            )
            yield Wanted(
                channel, dict.fromkeys(changed.tolist(), 0) | {int(tap): value}, sums[first != second]
            )
