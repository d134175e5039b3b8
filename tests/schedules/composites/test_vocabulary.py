# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm

from schedules.composites.specs import EpilogueStep
from schedules.composites.vocabulary import CONV2D, LINEAR, VOCABULARY
from schedules.cores import CORES
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.depthwise import depthwise_f32
from schedules.kernels.gemm import gemm_f32
from tests.schedules.float_cases import conv2d
from tests.schedules.programs import linear

CORE = CORES["neoverse-n2"]


def test_names_are_unique_and_operators_exist():
    assert len({spec.name for spec in VOCABULARY}) == len(VOCABULARY)
    for spec in VOCABULARY:
        steps = [op for step in spec.epilogue for op in (step.op, *step.also)]
        for op in (spec.anchor, *steps):
            # What a numerics defines is no operator.
            assert (
                op.startswith(("blocks.", "qdq.", "tosa.", "float.", "dynamic.", "integer."))
                or tvm.ir.Op.get(op).name == op
            )


def test_kernels_take_the_whole_epilogue_of_float_products():
    assert LINEAR.epilogue == CONV2D.epilogue
    names = [step.name for step in LINEAR.epilogue]
    assert isinstance(gemm_f32.matches(linear(7, 9, 8, names), CORE), KernelMatch)
    assert isinstance(gemm_f32.matches(conv2d((1, 5, 5, 8), 9, (3, 3), names), CORE), KernelMatch)
    depthwise = conv2d((1, 5, 5, 8), 8, (3, 3), names, groups=8)
    assert isinstance(depthwise_f32.matches(depthwise, CORE), KernelMatch)


def test_operand_and_broadcast_come_together():
    with pytest.raises(ValueError, match="'scale'"):
        EpilogueStep("scale", "relax.multiply", operand="constant")
