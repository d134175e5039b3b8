# SPDX-License-Identifier: Apache-2.0
"""Every row of the operator table: edge shapes run exactly on supporting families, and others refuse it."""

import pytest

from arm_ext.ethosu.ops.constraints import CONSTRAINTS
from arm_ext.ethosu.ops.registry import BY_KIND
from arm_ext.ethosu.partition.read import read
from tests.arm_ext.ethosu.ops.limit_case import EVERY
from tests.arm_ext.ethosu.ops.one_operator import random_inputs
from tests.arm_ext.ethosu.ops.operator_rows import ROWS
from tests.fuzz.graphs import Case
from tests.fuzz.npu import integer_graph, npu_outcome_of, rejections

NPU_OF = {"u55": "ethos-u55-128", "u65": "ethos-u65-256", "u85": "ethos-u85-512"}

_TAKEN = [(row, name) for row, found in ROWS.items() for name in found.models]
_REFUSED = [(row, name) for row, found in ROWS.items() for name in found.refused]


# Streams of U65 are those of U55 with other commands of the DMA: by default one of both runs each row.
@pytest.mark.parametrize("left_out", ["u65", pytest.param("", marks=pytest.mark.long)])
@pytest.mark.parametrize(("row", "name"), _TAKEN)
def test_where_a_row_is_taken_three_ways_agree(row: str, name: str, left_out: str):
    model = ROWS[row].models[name]()
    families = ROWS[row].families
    npus = [NPU_OF[family] for family in families if family != left_out or "u55" not in families]
    graph = read(integer_graph(model)[0])
    operators = {operator.kind for operator in graph.operators}
    assert operators & set(ROWS[row].kinds)
    for npu in npus:
        assert rejections(graph, npu) == []
    outcome = npu_outcome_of(Case(model, tuple(random_inputs(model)), (), ()), npus)
    assert outcome.fault is None
    assert outcome.definitions


@pytest.mark.parametrize(("row", "name"), _REFUSED)
def test_where_a_row_is_not_taken_it_is_refused_with_its_reason(row: str, name: str):
    found = ROWS[row]
    graph = read(integer_graph(found.refused[name]())[0])
    for family in EVERY:
        assert (found.reason in rejections(graph, NPU_OF[family])) == (family not in found.families), family


def test_rows_that_some_family_lacks_show_its_refusal():
    assert [row for row, found in ROWS.items() if (found.families != EVERY) != bool(found.refused)] == []
    reasons = {limit.reason for limit in CONSTRAINTS}
    assert {found.reason for found in ROWS.values() if found.refused} <= reasons


def test_rows_name_kinds_that_there_are():
    assert {kind for found in ROWS.values() for kind in found.kinds} <= set(BY_KIND)
