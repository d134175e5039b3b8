# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import pytest
import tvm

from arm_ext.tune.candidate import (
    Candidate,
    build,
    decode_workload,
    encode_workload,
    key_of,
)
from schedules.composites.workload import Magnitude, Operand, OperandPadding, Step, Workload
from schedules.cores import CORES
from schedules.kernels.gemm import gemm_f32, gemm_s8_mmla, gemm_w8
from schedules.lowering.lower import Lowered, lower
from tests.arm_ext.tune.standins import A76, tasks

WORKLOAD = Workload(
    "arm.conv2d_s8",
    (Operand((1, 7, 9, 8), "int8", "input", 0), Operand((16, 3, 3, 8), "int8", "constant", 0, (3, 0, 1, 2))),
    (("strides", "(2, 2)"),),
    (
        Step("offset", Operand((16,), "int32", "constant", 1)),
        Step("clip", None, (0.0, 6.0), (("zero_point", -3),)),
    ),
    (1, 4, 5, 16),
    "int8",
    OperandPadding(((0, 0), (1, 1), (1, 1), (0, 0)), -3.0),
    Magnitude(1 << 18, 1 << 9),
)


def test_workload_comes_back_from_json():
    assert decode_workload(json.loads(json.dumps(encode_workload(WORKLOAD)))) == WORKLOAD


def test_key_holds_over_runs():
    # Another key makes every record of every database useless: change it knowingly.
    assert key_of(WORKLOAD) == "d0e0b68dc7468017"
    assert key_of(replace(WORKLOAD, output_dtype="uint8")) != key_of(WORKLOAD)


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(gemm_w8.NAME, gemm_w8.Params(gemm_f32.Params(7, 3, 21, parallel=True))),
        Candidate(gemm_s8_mmla.NAME, gemm_s8_mmla.Params(2, 8, 16, column_blocks=2, parallel=True)),
    ],
)
def test_candidate_comes_back_from_json(candidate: Candidate):
    assert Candidate.decode(json.loads(json.dumps(candidate.encode()))) == candidate


@pytest.mark.parametrize(
    "data",
    [
        {"kernel": "gemm_f99", "params": {}},
        {"kernel": "gemm_f32", "params": {"rows": 1, "colour": 3}},
        {"kernel": "gemm_f32", "params": {"rows": 99, "vectors": 9, "row_block": 99, "parallel": False}},
        {"kernel": "gemm_f32"},
        {"kernel": "gemm_f32", "params": {"rows": 1}},
    ],
)
def test_candidate_of_another_version_is_refused(data: dict[str, object]):
    with pytest.raises(ValueError, match=r"gemm_f|99 x 9 vectors"):
        Candidate.decode(data)


def test_default_is_built_as_compile_builds_it():
    task, target = tasks()[0], A76.tvm_target()
    func, packed = build(task.workload, task.default, task.constants, target)
    lowered = lower(task.composite, target, CORES["cortex-a76"], routines=task.routines)
    assert isinstance(lowered, Lowered)
    tvm.ir.assert_structural_equal(func, lowered.func)
    assert [array.tobytes() for array in packed] == [array.tobytes() for array in lowered.constants]


def test_shares_of_zeros_have_records_of_their_own():
    sparse = replace(WORKLOAD, nonzeros=9)
    assert key_of(sparse) != key_of(WORKLOAD)
    assert [decode_workload(encode_workload(each)) for each in (WORKLOAD, sparse)] == [WORKLOAD, sparse]
