# SPDX-License-Identifier: Apache-2.0
"""The model reads the payload: no bit of stream or weights can change unseen unless it is shown to decide nothing."""

from dataclasses import replace

import pytest

from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.tosa import emit
from arm_ext.ethosu.vela import Io, compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.model.flips import bits_of, inputs_for, judge
from tests.arm_ext.ethosu.test_networks import SLOWER, network, whole
from tests.arm_ext.ethosu.tosa_graphs import Graph
from tests.arm_ext.ethosu.tosa_networks import flip_target

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-512")
FLIPS, OF_NETWORK = 200, 100


def payload_of(npu: str) -> Payload:
    graph = Graph(seed=4)
    flip_target(graph)
    io = {"inputs": graph.inputs, "outputs": graph.outputs}
    return compile_network(graph.serialize(), "TOSA", ACCELERATORS[npu], **io).payload


@pytest.mark.parametrize("npu", NPUS)
def test_each_flipped_bit_shows_or_is_dead(npu: str) -> None:
    payload = payload_of(npu)
    verdicts = judge(payload, inputs_for(payload, seed=1), bits_of(payload, FLIPS, seed=11))
    assert not verdicts.unseen, str(verdicts)
    assert verdicts.counts["shown"] + verdicts.counts["raised"] > FLIPS // 2, str(verdicts)


@pytest.mark.long
@pytest.mark.parametrize("npu", NPUS)
@pytest.mark.parametrize("model", SLOWER)
def test_each_flipped_bit_of_a_network_shows_or_is_dead(model: str, npu: str) -> None:
    # With every value as an output: a later layer rounds away much of what one bit changes. What random changes of
    # the input do not drive to its one telling value, deep in a network, is listed and may be one bit in twenty.
    part = whole(network(model)[1], npu)
    part = replace(part, outputs=tuple(operator.output for operator in part.operators))
    tosa = emit(part.operators, part.inputs, part.outputs, ACCELERATORS[npu].family)
    inputs, outputs = ([Io(t.name, t.dtype, t.shape) for t in ts] for ts in (part.inputs, part.outputs))
    payload = compile_network(tosa, "TOSA", ACCELERATORS[npu], inputs=inputs, outputs=outputs).payload
    verdicts = judge(payload, inputs_for(payload, seed=1), bits_of(payload, OF_NETWORK, seed=11))
    assert len(verdicts.unseen) <= OF_NETWORK // 20, str(verdicts)
