# SPDX-License-Identifier: Apache-2.0
"""The model reads the payload: no bit of stream or weights can change unseen unless it is shown to decide nothing."""

from dataclasses import replace

import numpy as np
import pytest

from arm_ext.ethosu.model import StreamError, run
from arm_ext.ethosu.model.machine import Executed
from arm_ext.ethosu.model.scaling import U55_ROUNDING, U85_OFM_ROUNDING, rescale
from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela import compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.tosa_graphs import Array, Graph
from tests.arm_ext.ethosu.tosa_networks import flip_target

FLIPS = 70  # of each accelerator
INPUTS = 12


def payload_of(npu: str) -> Payload:
    graph = Graph(seed=4)
    flip_target(graph)
    io = {"inputs": graph.inputs, "outputs": graph.outputs}
    return compile_network(graph.serialize(), "TOSA", ACCELERATORS[npu], **io).payload


def flipped(payload: Payload, bit: int) -> Payload:
    """The payload with one bit of commands and weights, taken as one string, changed."""
    name = "commands" if bit < len(payload.commands) * 8 else "weights"
    data = bytearray(getattr(payload, name))
    at = bit - (0 if name == "commands" else len(payload.commands) * 8)
    data[at // 8] ^= 1 << at % 8
    return replace(payload, **{name: bytes(data)})


def told(trace: list[Executed]) -> list[tuple[object, ...]]:
    """What decided each operation: its operand, the fields it read and its weights, as decoded."""
    return [
        (
            e.name,
            e.operand,
            tuple(sorted(e.fields.items())),
            None if e.weights is None else e.weights.tobytes(),
        )
        for e in trace
    ]


def rescales_alike(a: Executed, b: Executed, family: str) -> bool:
    """Whether two operations with the same weights rescale each accumulator that they can reach to the same output."""
    if a.scales is None or b.scales is None or a.weights is None:
        return a.scales is b.scales
    modes = U85_OFM_ROUNDING if family == "u85" else U55_ROUNDING
    rounding = modes[a.fields["ofm_scale.round" if family == "u85" else "ofm_precision.round"]]
    reach = 255 * np.abs(a.weights.astype(np.int64)).reshape(len(a.weights), -1).sum(axis=1)
    for channel, most in enumerate(reach):
        if all(
            getattr(a.scales, f)[channel] == getattr(b.scales, f)[channel]
            for f in ("bias", "multiplier", "shift")
        ):
            continue
        sums = np.arange(-most, most + 1)
        both = [
            rescale(sums + s.bias[channel], s.multiplier[channel], s.shift[channel], rounding).clip(-256, 255)
            for s in (a.scales, b.scales)
        ]
        if not np.array_equal(*both):
            return False
    return True


def shown_dead(before: list[Executed], after: list[Executed], family: str) -> bool:
    return told(before) == told(after) and all(
        rescales_alike(a, b, family) for a, b in zip(before, after, strict=True)
    )


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-512"])
def test_each_flipped_bit_shows_or_is_dead(npu: str) -> None:
    payload = payload_of(npu)
    rng = np.random.default_rng(11)
    values: list[list[Array]] = [
        [rng.integers(-128, 128, t.shape).astype(t.dtype) for t in payload.inputs] for _ in range(INPUTS)
    ]
    before: list[Executed] = []
    expected = [run(payload, v) for v in values]
    run(payload, values[0], before)
    found = {"raises": 0, "shows": 0, "dead": 0}
    unseen = []
    for bit in rng.choice((len(payload.commands) + len(payload.weights)) * 8, FLIPS, replace=False):
        other = flipped(payload, int(bit))
        after: list[Executed] = []
        try:
            shows = any(not np.array_equal(run(other, v), e) for v, e in zip(values, expected, strict=True))
            run(other, values[0], after)
        except StreamError:
            found["raises"] += 1
            continue
        dead = not shows and shown_dead(before, after, ACCELERATORS[npu].family)
        found["shows" if shows else "dead"] += shows or dead
        if not shows and not dead:
            unseen.append(int(bit))
    assert unseen == []
    assert sum(found.values()) == FLIPS
    assert found["raises"] + found["shows"] > FLIPS // 2, found
