# SPDX-License-Identifier: Apache-2.0
"""What else a model with control flow goes through."""

import numpy as np
import pytest
import tvm

import arm_ext
from arm_ext.api.explain import explain
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.partition.divider import check_divisible
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.preprocess.wrap import preprocessed
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import resolve
from arm_ext.tune.task import extract
from relay_passes.programs.control_flow import has_control_flow, split
from tests.arm_ext.frontends.onnx import control_models as models


@pytest.fixture(scope="module")
def mod() -> tvm.IRModule:
    return import_onnx(models.early_exit()).mod


def test_read_programs_are_taken_apart_and_joined_under_their_names(mod: tvm.IRModule):
    program = split(mod)
    assert set(program.pieces) == {"main_before", "exit_then", "exit_else", "main_after"}
    assert set(program.control) == {"main"}
    assert not any(has_control_flow(piece) for piece in program.pieces.values())
    joined = program.join(program.pieces).mod
    assert has_control_flow(joined)
    assert joined["main"].script() == mod["main"].script()


def test_a_read_program_is_one_piece_and_stays(mod: tvm.IRModule):
    piece = split(mod).pieces["exit_else"]
    program = split(piece)
    assert program.pieces["main"].same_as(piece)
    assert program.join(program.pieces).mod.same_as(piece)


def test_macs_are_of_both_branches(mod: tvm.IRModule):
    macs = count_macs(mod)
    assert macs["stem"] == 16 * 16 * 8 * 27
    assert macs["deep"] == 16 * 16 * 16 * 72


def test_rules_are_explained_for_all_functions():
    report = explain(models.early_exit(), "fuse:conv2d", target="cortex-a76")
    (rule,) = report.rules
    assert {nodes[0] for nodes in rule.applied} == {"stem", "deep"}


def test_kernels_of_all_functions_are_tuned(mod: tvm.IRModule):
    tasks = extract(mod, PhaseOptions(resolve("cortex-a76")))
    assert {"stem", "deep"} <= {source for task in tasks for source in task.sources}


def test_half_precision_where_a_branch_computes_nothing(mod: tvm.IRModule):
    _, unsure = models.early_exit_inputs()
    full, half = (run_on_host(mod, [unsure], precision)[0] for precision in ("fp32", "fp16"))
    # Sums of up to 72 products, each rounded to 11 bits.
    np.testing.assert_allclose(half, full, atol=0.02)
    assert (half != full).any()


def test_steps_before_and_after_are_functions_too():
    spec = arm_ext.Preprocess.model_validate(
        {
            "inputs": {"x": {"frame": [20, 20, 3], "steps": [{"resize": {}}]}},
            "outputs": {"p": [{"top_k": {"k": 2}}]},
        }
    )
    wrapped = preprocessed(import_onnx(models.early_exit()), spec)
    frame = np.random.default_rng(4).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    found = run_on_host(wrapped.mod, [frame])
    for ours, theirs in zip(found, wrapped.reference([frame])[0], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_an_npu_is_refused():
    pytest.importorskip("ethosu")
    with pytest.raises(UsageError, match="decides at run time"):
        check_divisible(import_onnx(models.quantised_exit()))
