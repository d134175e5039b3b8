# SPDX-License-Identifier: Apache-2.0
"""16-bit operators compute the same in the reference model, in Vela's command stream and on the CPU."""

import pytest

from arm_ext.ethosu.partition.read import read
from arm_ext.target.npu import Family
from tests.arm_ext.ethosu.ops.int16_cases import INT16_CASES
from tests.arm_ext.ethosu.ops.one_operator import random_inputs
from tests.fuzz.graphs import Case
from tests.fuzz.npu import integer_graph, npu_outcome_of, rejections

_NPU_OF: dict[Family, str] = {"u55": "ethos-u55-128", "u65": "ethos-u65-256", "u85": "ethos-u85-512"}


# Streams of U65 are those of U55 with other commands of the DMA: by default one of both runs each case.
@pytest.mark.parametrize("left_out", ["u65", pytest.param("", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", INT16_CASES)
def test_operator_is_exact_on_its_families(name: str, left_out: str):
    case = INT16_CASES[name]
    model = case.build()
    graph = read(integer_graph(model)[0])
    assert not graph.unsupported
    npus = [npu for family, npu in _NPU_OF.items() if family in case.families]
    for npu in _NPU_OF.values():
        assert (rejections(graph, npu) == []) == (npu in npus), npu
    run_on = [_NPU_OF[family] for family in case.families if family != left_out or "u55" not in case.families]
    outcome = npu_outcome_of(Case(model, tuple(random_inputs(model)), (), ()), run_on)
    assert outcome.fault is None
    assert outcome.definitions
