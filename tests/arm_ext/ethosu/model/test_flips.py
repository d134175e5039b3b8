# SPDX-License-Identifier: Apache-2.0
"""The model reads the payload: no bit of stream or weights can change unseen unless it is shown to decide nothing."""

import pytest

from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela.compiler import compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.model.flips import BY_OPERATION, bits_of, inputs_for, judge
from tests.arm_ext.ethosu.tosa.graphs import Graph
from tests.arm_ext.ethosu.tosa.networks import flip_target

# Streams of U65 are those of U55 with other commands of the DMA.
NPUS = ("ethos-u55-128", pytest.param("ethos-u65-512", marks=pytest.mark.long), "ethos-u85-512")
FLIPS = 40


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


@pytest.mark.parametrize("npu", NPUS)
def test_what_shows_in_an_output_shows_in_what_its_operation_computes(npu: str) -> None:
    payload = payload_of(npu)
    inputs, bits = inputs_for(payload, seed=1), bits_of(payload, FLIPS, seed=11)
    seldom, often = judge(payload, inputs[:1], bits, drive=False), judge(payload, inputs, bits)
    assert not seldom.unseen, str(seldom)
    assert seldom.counts["dead"] == often.counts["dead"], (str(seldom), str(often))
    assert seldom.counts[BY_OPERATION], str(seldom)
