# SPDX-License-Identifier: Apache-2.0
"""Constraints refuse operators just outside of their limits; those just inside run exactly."""

import pytest

from arm_ext.ethosu.ops.constraints import CONSTRAINTS
from arm_ext.ethosu.partition.read import read
from tests.arm_ext.ethosu.ops.limit_cases import LIMIT_CASES, LimitCase
from tests.arm_ext.ethosu.ops.one_operator import OneOperator, random_inputs, weights
from tests.fuzz.graphs import Case
from tests.fuzz.npu import integer_graph, npu_outcome_of, rejections

NPU_OF = {"u55": "ethos-u55-128", "u65": "ethos-u65-512", "u85": "ethos-u85-512"}

each = pytest.mark.parametrize(
    "case", LIMIT_CASES, ids=[f"{i}-{c.reason}" for i, c in enumerate(LIMIT_CASES)]
)


@each
def test_an_operator_just_outside_is_refused(case: LimitCase):
    graph = read(integer_graph(case.outside())[0])
    for family, npu in NPU_OF.items():
        # Limits that are tighter on the earlier families than on U85.
        if family in case.families or family == "u85":
            assert (case.reason in rejections(graph, npu)) == (family in case.families), family


# Streams of U65 are those of U55 with other commands of the DMA: by default one of both runs each case.
@pytest.mark.parametrize("left_out", ["u65", pytest.param("", marks=pytest.mark.long)])
@each
def test_an_operator_just_inside_runs_and_is_exact(case: LimitCase, left_out: str):
    model = case.inside()
    graph = read(integer_graph(model)[0])
    inputs = tuple(random_inputs(model))
    families = [family for family in case.families if family != left_out or "u55" not in case.families]
    # An image of 32,766 columns takes seconds on each.
    families = families[-1:] if "rows or columns" in case.reason else families
    npus = [NPU_OF[family] for family in families]
    for npu in npus:
        assert rejections(graph, npu) == []
    outcome = npu_outcome_of(Case(model, inputs, (), ()), npus)
    assert outcome.fault is None
    assert outcome.definitions


@pytest.mark.parametrize(("stride", "refused"), [(3, False), (4, True)])
def test_every_window_counts_where_each_is_computed_by_itself(stride: int, refused: bool):
    one = OneOperator()
    window = {"dilations": [1, 3], "pads": [0, 1, 0, 1], "strides": [1, stride]}
    y = one.node("Conv", one.data(1, 8, 9, 16), one.weight(weights((1, 8, 1, 3))), **window)
    found = rejections(read(integer_graph(one.model(one.quantized(y, 5.0)))[0]), NPU_OF["u85"])
    assert ("a tap of its dilated window only reads padding" in found) == refused


def test_every_constraint_has_a_case():
    shown = {(case.reason, family) for case in LIMIT_CASES for family in case.families}
    every = {(limit.reason, family) for limit in CONSTRAINTS for family in limit.families}
    assert every - shown == set()
