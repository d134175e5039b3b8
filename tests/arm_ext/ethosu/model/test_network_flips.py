# SPDX-License-Identifier: Apache-2.0
"""No bit of a whole network's stream or weights can change unseen unless it is shown to decide nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from arm_ext.ethosu.ops.common.operators import NpuGraph
from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.parts import claim, grow
from arm_ext.ethosu.partition.read import read
from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela.compiler import Io, compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.model.flips import bits_of, inputs_for, judge
from tests.arm_ext.ethosu.partition.test_networks import NPUS, SLOWER, network
from tests.fuzz.npu import integer_graph

FLIPS, INPUTS = 200, 12

MOBILENET = "mobilenet_v2"


def mobilenet() -> NpuGraph:
    pytest.importorskip("torch", reason="the zoo is made with torch; pip install -e .[torch]")
    import zoo

    return read(integer_graph(zoo.quantized_model(MOBILENET, zoo.float_model(MOBILENET)))[0])


GRAPHS: dict[str, Callable[[], NpuGraph]] = {
    **{model: lambda model=model: network(model)[1] for model in SLOWER},  # type: ignore[misc]
    MOBILENET: mobilenet,
}


def payload_of(graph: NpuGraph, npu: str) -> Payload:
    """With every value as an output: a later layer rounds away much of what one bit changes."""
    claimed, refused = claim(graph, ACCELERATORS[npu])
    assert not refused
    (part,) = grow(graph, claimed)
    part = replace(part, outputs=tuple(operator.output for operator in part.operators))
    tosa = emit(part.operators, part.inputs, part.outputs, ACCELERATORS[npu].family)
    inputs, outputs = ([Io(t.name, t.dtype, t.shape) for t in ts] for ts in (part.inputs, part.outputs))
    return compile_network(tosa, "TOSA", ACCELERATORS[npu], inputs=inputs, outputs=outputs).payload


@pytest.mark.long
@pytest.mark.parametrize("npu", NPUS)
@pytest.mark.parametrize("model", GRAPHS)
def test_each_flipped_bit_of_a_network_shows_or_is_dead(model: str, npu: str) -> None:
    payload = payload_of(GRAPHS[model](), npu)
    inputs = inputs_for(payload, seed=1, count=INPUTS)
    verdicts = judge(payload, inputs, bits_of(payload, FLIPS, seed=11), drive=False)
    assert not verdicts.unseen, str(verdicts)
    assert verdicts.counts["shown"] + verdicts.counts["raised"] > FLIPS // 2, str(verdicts)
