# SPDX-License-Identifier: Apache-2.0
"""What a changed bit of a payload does: it shows in an output, raises, or is shown to decide nothing.

A run of the model is a function of the operations that run, the register fields that they read, the weights and scales
that they decode, and the tables and feature maps that they read. So a bit is dead if all of these are the same with and
without it: padding, registers that are overwritten before use, spare bits of a code. It is dead, too, if nothing but
scales differ, and each accumulator that the operation's weights allow is rescaled to the same output; where one is not,
inputs are sought that drive an accumulator there, and the bit has to show with them. So it is with entries of tables.
Where that would take too long, deep in a network, the bit has to show in what its operation alone computes from a
feature map made for it, which is told apart: that inputs of the network lead there is then not shown.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import zip_longest
from unittest.mock import patch

import numpy as np

from arm_ext.ethosu.model import StreamError, run, weights
from arm_ext.ethosu.model.bitstream import decode
from arm_ext.ethosu.model.fast_code import decode_fast
from arm_ext.ethosu.model.machine import Executed
from arm_ext.ethosu.payload import Payload, PayloadTensor
from tests.arm_ext.ethosu.model.reach import Goal, driven, entries, sums, telling
from tests.arm_ext.ethosu.model.told import Told, told
from tests.arm_ext.ethosu.model.witness import alone
from tests.arm_ext.ethosu.tosa.graphs import Array

INPUTS, TRIED = 48, 5
"""Inputs that payloads are run on: uniform ones, and as many that are the liveliest of so many times their number."""

BY_OPERATION = "shown by its operation"

Inputs = Sequence[list[Array]]


@dataclass
class Verdicts:
    """How many bits did what; `unseen` are those of which nothing is known."""

    counts: Counter[str] = field(default_factory=Counter)
    unseen: list[int] = field(default_factory=list)

    def note(self, bit: int, kind: str | None) -> None:
        """Count a bit by what it does; None if nothing is known."""
        if kind is None:
            self.unseen.append(bit)
        else:
            self.counts[kind] += 1

    def __str__(self) -> str:
        known = ", ".join(f"{self.counts[kind]} {kind}" for kind in ("shown", BY_OPERATION, "raised", "dead"))
        return f"{known}, {len(self.unseen)} unexplained{f': {self.unseen}' if self.unseen else ''}"


def bits_of(payload: Payload, count: int, seed: int) -> list[int]:
    """So many different bits of commands and weights, taken as one string."""
    size = (len(payload.commands) + len(payload.weights)) * 8
    return [int(bit) for bit in np.random.default_rng(seed).choice(size, count, replace=False)]


def flipped(payload: Payload, bit: int) -> Payload:
    """The payload with one bit of commands and weights, taken as one string, changed."""
    name = "commands" if bit < len(payload.commands) * 8 else "weights"
    data = bytearray(getattr(payload, name))
    at = bit - (0 if name == "commands" else len(payload.commands) * 8)
    data[at // 8] ^= 1 << at % 8
    return replace(payload, **{name: bytes(data)})


def inputs_for(payload: Payload, seed: int, count: int = INPUTS) -> Inputs:
    """Uniform inputs, and of smooth and of low contrast those whose outputs are least at the ends of their range.

    At the ends nothing shows.
    """
    rng = np.random.default_rng(seed)
    uniform = [
        [
            rng.integers(_ends(t)[0], _ends(t)[1], t.shape, endpoint=True).astype(t.dtype)
            for t in payload.inputs
        ]
        for _ in range(count // 2)
    ]
    drawn = [_contrast(payload, rng, number) for number in range(count // 2 * TRIED)]

    def inside(values: list[Array]) -> int:
        outputs = zip(payload.outputs, run(payload, values), strict=True)
        return sum(int(((x > _ends(t)[0]) & (x < _ends(t)[1])).sum()) for t, x in outputs)

    return [*sorted(drawn, key=inside, reverse=True)[: count // 2], *uniform]


def _ends(tensor: PayloadTensor) -> tuple[int, int]:
    info = np.iinfo(tensor.dtype)
    return int(info.min), int(info.max)


def _contrast(payload: Payload, rng: np.random.Generator, number: int) -> list[Array]:
    """Inputs around a value, every other one smooth, of one of six contrasts."""
    found = []
    for tensor in payload.inputs:
        (low, high), noise = _ends(tensor), rng.standard_normal(tensor.shape)
        if number % 2:
            noise = np.cumsum(noise, axis=min(1, noise.ndim - 1))
        contrast = (high - low) / 2.0 ** (1 + number // 2 % 6)
        values = rng.integers(low, high, endpoint=True) + contrast * noise / 2
        found.append(np.clip(np.rint(values), low, high).astype(tensor.dtype))
    return found


def judge(payload: Payload, inputs: Inputs, bits: Sequence[int], *, drive: bool = True) -> Verdicts:
    """Change each of the bits, one at a time.

    Args:
        payload: Whose.
        inputs: That outputs are compared on.
        bits: Of commands and weights, taken as one string.
        drive: Whether inputs are sought at which a bit shows that has not.
    """
    verdicts = Verdicts()
    with decoding_once():
        expected = [run(payload, values) for values in inputs]
        before = told(payload, inputs[0])
        for bit in bits:
            other = flipped(payload, bit)
            try:
                if any(map(partial(_shows, other), inputs, expected)):
                    verdicts.note(bit, "shown")
                else:
                    verdicts.note(bit, _unseen(payload, other, inputs, before, drive))
            except StreamError:
                verdicts.note(bit, "raised")
    return verdicts


@contextmanager
def decoding_once() -> Iterator[None]:
    """Weight streams that are decoded are kept: a flip changes one of them."""
    with (
        patch.object(weights, "decode", cache(decode)),
        patch.object(weights, "decode_fast", cache(decode_fast)),
    ):
        yield


def _shows(payload: Payload, values: list[Array], expected: list[Array]) -> bool:
    return not all(map(np.array_equal, run(payload, values), expected))


def _unseen(payload: Payload, other: Payload, inputs: Inputs, before: Told, drive: bool) -> str | None:
    """What a bit does that has shown in no output so far."""
    after = told(other, inputs[0])
    changes = _changes(before, after, payload.npu.family)
    if not changes:
        return "dead" if changes is not None else None
    goals = [change.goal for change in changes if change.goal is not None]
    if drive and len(goals) == len(changes):
        shown = (_shows(other, x, run(payload, x)) for goal in goals for x in driven(payload, inputs, goal))
        if any(shown):
            return "shown"
    same = True
    for change in changes:
        done = before.operations[change.number], after.operations[change.number]
        tells = alone(payload, other, inputs[0], change.number, done)
        if tells:
            return BY_OPERATION
        same = same and tells is False and change.scales
    return "dead" if same else None


@dataclass(frozen=True)
class _Change:
    """An operation that a bit changes.

    Attributes:
        number: Of the operation, in the order in which they run.
        goal: What inputs are driven to so that it tells, if that is known.
        scales: Whether it is they that differ, and they alone.
    """

    number: int
    goal: Goal | None = None
    scales: bool = False


def _changes(before: Told, after: Told, family: str) -> list[_Change] | None:
    """The operations that a bit changes, in order; None if other ones run."""
    if len(before.operations) != len(after.operations) or len(before.tables) != len(after.tables):
        return None
    found: list[_Change] = []
    for at, ((number, one), (_, another)) in enumerate(zip(before.tables, after.tables, strict=True)):
        if (changed := np.flatnonzero(one != another)).size:
            found.append(_Change(number, entries(at, changed)))
    for number, (a, b) in enumerate(zip(before.operations, after.operations, strict=True)):
        wanted = telling(a, b, family) if _decided(a) == _decided(b) else None
        if wanted is None:
            found.append(_Change(number))
        elif wanted:
            found.append(_Change(number, sums(number, wanted), scales=True))
    if not found:
        # What the first of these reads, no operation before it has written.
        reads = zip_longest(before.data, after.data, fillvalue=(-1, b""))
        found += [_Change(one[0]) for one, another in reads if one != another][:1]
    return sorted(found, key=lambda change: change.number)


def _decided(done: Executed) -> tuple[object, ...]:
    weights = None if done.weights is None else done.weights.tobytes()
    return done.name, done.operand, tuple(sorted(done.fields.items())), weights
