# SPDX-License-Identifier: Apache-2.0
"""Inputs that drive an accumulator to a value at which a changed scale tells, or a table's index to a changed entry.

A low bit of a multiplier changes what few accumulators are rescaled to, or none. Those few are found by rescaling each
sum that the weights allow; then inputs are changed at random, and a change stays if it brings an accumulator nearer to
one of them, or an index to an entry.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from arm_ext.ethosu.model import convolution, output, run
from arm_ext.ethosu.model.machine import Executed
from arm_ext.ethosu.model.memory import Integers, PayloadMemory
from arm_ext.ethosu.model.registers import Registers, signed
from arm_ext.ethosu.model.scaling import U55_ROUNDING, U85_OFM_ROUNDING, rescale
from arm_ext.ethosu.model.weights import Scales
from arm_ext.ethosu.payload import Payload
from tests.arm_ext.ethosu.tosa.graphs import Array

CHANGES = 4000
"""Changed inputs that are tried for one goal; the small network takes up to some hundreds."""

BYTE_ENTRIES = 256
"""Of a table whose index is a byte; others have their entries every 128 values."""

STEP = 8
"""The most that an element changes by where it is not drawn anew."""

Telling = dict[int, Integers]
"""By output channel, the accumulators that two operations rescale to different values."""


@dataclass
class Seen:
    """What a run has computed on its way.

    Attributes:
        operations: In order.
        accumulators: With the scales that they are rescaled by.
        indices: Of the entries of each table that is looked up.
    """

    operations: list[Executed] = field(default_factory=list)
    accumulators: list[tuple[Scales | None, Integers]] = field(default_factory=list)
    indices: list[Integers] = field(default_factory=list)


Goal = Callable[[Seen], int]
"""How far a run is from what is wanted of it."""


def telling(a: Executed, b: Executed, family: str) -> Telling | None:
    """Where two operations with the same weights rescale differently; None if that is not known."""
    if a.scales is None or b.scales is None or a.weights is None:
        return None if a.scales is not b.scales else {}
    pairs = [(getattr(a.scales, name), getattr(b.scales, name)) for name in ("bias", "multiplier", "shift")]
    changed = np.flatnonzero(np.any([one != other for one, other in pairs], axis=0))
    if changed.size and a.fields.get("acc_format.input"):
        return None  # they begin with what others have left in them
    found = {}
    for channel in changed:
        reached = reachable(a.weights[channel], *range_of(a, "ifm"))
        differ = rescaled(a, reached, channel, family) != rescaled(b, reached, channel, family)
        if differ.any():
            found[int(channel)] = reached[differ]
    return found


def rescaled(done: Executed, sums: Integers, channel: int, family: str) -> Integers:
    """What an operation makes of accumulators of an output channel, clamped, less the zero point."""
    assert done.scales is not None
    bias, multiplier, shift = (
        getattr(done.scales, name)[channel] for name in ("bias", "multiplier", "shift")
    )
    u85 = family == "u85"
    modes = U85_OFM_ROUNDING if u85 else U55_ROUNDING
    rounding = modes[done.fields["ofm_scale.round" if u85 else "ofm_precision.round"]]
    return np.clip(rescale(sums + bias, multiplier, shift, rounding), *_kept(done))


def sums(number: int, wanted: Telling) -> Goal:
    """That an accumulator is one of those wanted; `number` is the operation's, in the order in which they run."""

    def miss(seen: Seen) -> int:
        scales = seen.operations[number].scales
        (found,) = [accumulators for own, accumulators in seen.accumulators if own is scales]
        return min(_miss(found[..., channel], values) for channel, values in wanted.items())

    return miss


def entries(number: int, wanted: Integers) -> Goal:
    """That an entry is looked up; `number` is the table's, in the order in which they are."""
    return lambda seen: _miss(seen.indices[number], wanted)


def _miss(found: Integers, wanted: Integers) -> int:
    return int(np.abs(found.reshape(-1, 1) - wanted).min())


def driven(payload: Payload, starts: Sequence[list[Array]], goal: Goal) -> Iterator[list[Array]]:
    """Inputs that attain a goal, found from the one of several that comes nearest to it."""
    rng = np.random.default_rng(0)
    nearest, at = min((goal(_seen(payload, values)), at) for at, values in enumerate(starts))
    values = starts[at]
    for _ in range(CHANGES):
        if not nearest:
            yield values
        changed = [_changed(value, rng) for value in values]
        miss = goal(_seen(payload, changed))
        if miss <= nearest:
            nearest, values = miss, changed


def _changed(value: Array, rng: np.random.Generator) -> Array:
    """Some of the elements, from one to all of them: drawn anew, or a little more or less."""
    info = np.iinfo(value.dtype)  # type: ignore[type-var]
    chosen = rng.random(value.shape) < value.size ** -rng.random()
    if rng.random() < 0.5:
        drawn = rng.integers(info.min, info.max, value.shape, endpoint=True)
    else:
        drawn = np.clip(
            value.astype(np.int64) + rng.integers(-STEP, STEP + 1, value.shape), info.min, info.max
        )
    return np.where(chosen, drawn.astype(value.dtype), value)


def _seen(payload: Payload, values: list[Array]) -> Seen:
    """Run a payload and note what goals are about."""
    seen = Seen()
    indexing: list[Integers] = []

    def scaled(registers: Registers, accumulators: Integers, scales: Scales | None) -> Integers:
        seen.accumulators.append((scales, accumulators))
        return scale_output(registers, accumulators, scales)

    def looked_up(
        memory: PayloadMemory, registers: Registers, values: Integers, dtype: np.dtype[Any]
    ) -> Integers:
        indexing[:] = [values + 128 if dtype.kind == "i" else values, values]
        return look_up(memory, registers, values, dtype)

    def read(tables: Integers, slot: int, count: int, kind: str) -> Integers:
        narrow, wide = indexing
        seen.indices.append(narrow if count == BYTE_ENTRIES else (wide >> 7) + 256)
        return read_entries(tables, slot, count, kind)

    scale_output, look_up, read_entries = convolution.scale_output, output._look_up, output._entries
    with (
        patch.object(convolution, "scale_output", scaled),
        patch.object(output, "_look_up", looked_up),
        patch.object(output, "_entries", read),
    ):
        run(payload, values, seen.operations)
    return seen


def reachable(weights: Array, low: int, high: int) -> Integers:
    """Every sum between the least and the greatest that weights make of values from low to high."""
    wide = weights.astype(np.int64)
    up, down = int(wide.clip(min=0).sum()), int(wide.clip(max=0).sum())
    return np.arange(up * low + down * high, up * high + down * low + 1)


def _kept(done: Executed) -> tuple[int, int]:
    """What rescaled values are clamped to, less the zero point."""
    low, high = range_of(done, "ofm")
    if "activation_min.value" in done.fields:
        zero = zero_point_of(done, "ofm")
        least, most = (done.fields[f"activation_{end}.value"] for end in ("min", "max"))
        if done.fields["ofm_precision.signed"]:
            least, most = (signed(value, 16) for value in (least, most))
        low, high = max(low, least - zero), min(high, most - zero)
    return low, high


def range_of(done: Executed, name: str) -> tuple[int, int]:
    """Of the type of an operation's feature map, less its zero point."""
    bits = 8 << done.fields[f"{name}_precision.bytes_log2"]
    least = -(1 << bits - 1) if done.fields[f"{name}_precision.signed"] else 0
    zero = zero_point_of(done, name)
    return least - zero, least + (1 << bits) - 1 - zero


def zero_point_of(done: Executed, name: str) -> int:
    """Of an operation's feature map."""
    zero = done.fields[f"{name}_zero_point.value"]
    return signed(zero, 16) if done.fields[f"{name}_precision.signed"] else zero
