# SPDX-License-Identifier: Apache-2.0
"""What a changed bit of a payload does: it shows in an output, raises, or is shown to decide nothing.

A run of the model is a function of the operations that run, the register fields that they read, the weights and scales
that they decode, and the tables and feature maps that they read. So a bit is dead if all of these are the same with and
without it: padding, registers that are overwritten before use, spare bits of a code. It is dead, too, if nothing but
scales differ, and each accumulator that the operation's weights allow is rescaled to the same output; where one is not,
inputs are sought that drive an accumulator there, and the bit has to show with them. So it is with entries of tables.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from arm_ext.ethosu.model import StreamError, run
from arm_ext.ethosu.model.machine import Executed
from arm_ext.ethosu.payload import Payload, Tensor
from tests.arm_ext.ethosu.model.reach import Goal, driven, entries, sums, telling
from tests.arm_ext.ethosu.model.told import Told, told
from tests.arm_ext.ethosu.tosa_graphs import Array

TRIED, LIVELY, UNIFORM = 120, 24, 24
"""Inputs that are looked at, the liveliest of them that payloads are run on, and how many uniform ones beside them."""

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
        known = ", ".join(f"{self.counts[kind]} {kind}" for kind in ("shown", "raised", "dead"))
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


def inputs_for(payload: Payload, seed: int) -> Inputs:
    """Uniform inputs, and of smooth and of low contrast those whose outputs are least at the ends of their range.

    At the ends nothing shows.
    """
    rng = np.random.default_rng(seed)
    uniform = [
        [
            rng.integers(_ends(t)[0], _ends(t)[1], t.shape, endpoint=True).astype(t.dtype)
            for t in payload.inputs
        ]
        for _ in range(UNIFORM)
    ]
    drawn = [_contrast(payload, rng, number) for number in range(TRIED)]

    def inside(values: list[Array]) -> int:
        outputs = zip(payload.outputs, run(payload, values), strict=True)
        return sum(int(((x > _ends(t)[0]) & (x < _ends(t)[1])).sum()) for t, x in outputs)

    return [*sorted(drawn, key=inside, reverse=True)[:LIVELY], *uniform]


def _ends(tensor: Tensor) -> tuple[int, int]:
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


def judge(payload: Payload, inputs: Inputs, bits: Sequence[int]) -> Verdicts:
    """Change each of the bits, one at a time."""
    expected = [run(payload, values) for values in inputs]
    before = told(payload, inputs[0])
    verdicts = Verdicts()
    for bit in bits:
        other = flipped(payload, bit)
        try:
            if any(map(partial(_shows, other), inputs, expected)):
                verdicts.note(bit, "shown")
            else:
                verdicts.note(bit, _unseen(payload, other, inputs, before))
        except StreamError:
            verdicts.note(bit, "raised")
    return verdicts


def _shows(payload: Payload, values: list[Array], expected: list[Array]) -> bool:
    return not all(map(np.array_equal, run(payload, values), expected))


def _unseen(payload: Payload, other: Payload, inputs: Inputs, before: Told) -> str | None:
    """What a bit does that has shown in no output so far."""
    after = told(other, inputs[0])
    decided = [(run.data, list(map(_decided, run.operations))) for run in (before, after)]
    if decided[0] != decided[1]:
        return None
    goals: list[Goal] = []
    for number, (one, another) in enumerate(zip(before.tables, after.tables, strict=True)):
        if (changed := np.flatnonzero(one != another)).size:
            goals.append(entries(number, changed))
    for number, (a, b) in enumerate(zip(before.operations, after.operations, strict=True)):
        wanted = telling(a, b, payload.npu.family)
        if wanted is None:
            return None
        if wanted:
            goals.append(sums(number, wanted))
    shown = (_shows(other, x, run(payload, x)) for goal in goals for x in driven(payload, inputs, goal))
    return "dead" if not goals else "shown" if any(shown) else None


def _decided(done: Executed) -> tuple[object, ...]:
    weights = None if done.weights is None else done.weights.tobytes()
    return done.name, done.operand, tuple(sorted(done.fields.items())), weights
