# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm

from schedules.cores import CORES
from schedules.kernel import Match
from schedules.kernels import matmul_f32
from schedules.vocabulary import LINEAR, VOCABULARY, EpilogueStep
from tests.schedules.programs import linear


def test_names_are_unique_and_operators_exist():
    assert len({spec.name for spec in VOCABULARY}) == len(VOCABULARY)
    for spec in VOCABULARY:
        for op in (spec.anchor, *(step.op for step in spec.epilogue)):
            assert tvm.ir.Op.get(op).name == op


def test_a_kernel_takes_the_whole_epilogue_of_linear():
    names = [step.name for step in LINEAR.epilogue]
    assert isinstance(matmul_f32.matches(linear(7, 9, 8, names), CORES["neoverse-n2"]), Match)


def test_operand_and_broadcast_come_together():
    with pytest.raises(ValueError, match="'scale'"):
        EpilogueStep("scale", "relax.multiply", operand="constant")
