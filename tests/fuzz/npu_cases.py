# SPDX-License-Identifier: Apache-2.0
"""Which graphs are drawn for NPUs: quantised ones, mostly in int8, and operators at the limits of each constraint."""

from itertools import chain
from typing import Any

import onnx
from hypothesis import strategies as st
from onnx import compose, helper

from tests.arm_ext.ethosu.ops.limit_cases import LIMIT_CASES
from tests.arm_ext.ethosu.ops.one_operator import random_inputs
from tests.fuzz.builder import SEEDS, Draw
from tests.fuzz.graphs import Case
from tests.fuzz.npu_steps import NPU_STEPS, shape
from tests.fuzz.quantized import NPU_DTYPES, quantized_cases

EVERY = 6
"""Of so many graphs the first is one at limits, the next two are of the steps that other fuzzing has."""

AT_ONCE, LAPS = 26, 8
"""Cases that stand beside each other in a graph at limits; the last of so many times that each comes it is inside."""


def npu_cases(number: int) -> st.SearchStrategy[Case]:
    """The strategy for a graph of this number."""
    turn, place = divmod(number, EVERY)
    match place:
        case 0:
            return _limit_cases(turn)
        case 1 | 2:
            return quantized_cases(NPU_DTYPES)
    return quantized_cases(NPU_DTYPES, (NPU_STEPS,), shape=shape)


@st.composite
def _limit_cases(draw: Draw, turn: int) -> Case:
    """The next cases in turn."""
    laps, places = zip(
        *(divmod(at, len(LIMIT_CASES)) for at in range(turn * AT_ONCE, (turn + 1) * AT_ONCE)), strict=True
    )
    inside = max(laps) % LAPS == LAPS - 1
    cases = [LIMIT_CASES[place] for place in places]
    model = _beside([case.inside() if inside else case.outside() for case in cases])
    inputs = random_inputs(model, draw(st.integers(0, SEEDS - 1)))
    reasons = tuple(case.reason for case in cases)
    return Case(model, tuple(inputs), reasons, (), quantized=True, runs=inside)


def _beside(models: list[onnx.ModelProto]) -> onnx.ModelProto:
    """The graphs of all, unconnected, as one."""
    graphs = [compose.add_prefix_graph(model.graph, f"{at}/") for at, model in enumerate(models)]

    def every(field: str) -> list[Any]:
        return list(chain.from_iterable(getattr(graph, field) for graph in graphs))

    joined = helper.make_graph(every("node"), "beside", every("input"), every("output"), every("initializer"))
    return helper.make_model(joined, opset_imports=models[0].opset_import, ir_version=models[0].ir_version)
