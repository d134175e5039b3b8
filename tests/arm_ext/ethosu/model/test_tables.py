# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from arm_ext.ethosu.model.tables import table_beyond
from arm_ext.ethosu.vela.compiler import compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.tosa.cases import CASES
from tests.arm_ext.ethosu.tosa.graphs import Graph


def test_a_table_at_the_end_of_a_greater_memory_is_beyond_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, npu = Graph(), ACCELERATORS["ethos-u55-128"]
    CASES["table_int8"].build(graph)
    payload = compile_network(graph.serialize(), "TOSA", npu).payload
    assert table_beyond(payload) is None
    monkeypatch.setitem(ACCELERATORS, npu.name, replace(npu, shram_kib=16))
    assert table_beyond(payload) == (npu.shram_kib - 2 << 10) + 256
