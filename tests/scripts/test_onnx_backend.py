# SPDX-License-Identifier: Apache-2.0
"""A sample of onnx's node tests: of each operator that is replaced before the import, the first case that is small."""

from functools import cache

import onnx_backend
import pytest

from arm_ext.frontends.onnx.classical import DOMAIN as ML
from arm_ext.frontends.onnx.expansion import CONTRIB
from arm_ext.frontends.onnx.expansions import EXPANSIONS

# Of these no case of onnx's can be compiled: sizes or iterations that only the run tells, or random numbers.
NONE_STATIC = {"Bernoulli", "If", "Loop", "NonMaxSuppression"}

SAMPLE = {
    "Attention": "test_attention_4d_causal",
    "CastLike": "test_castlike_FLOAT_to_DOUBLE",
    "Scan": "test_scan9_sum",
}

# Operators that are newer than the installed onnx have no case.
NEWER = {"CausalConvWithState", "FlexAttention", "LinearAttention", "SwiGLU"}
STANDARD = {name for domain, name in EXPANSIONS if domain not in (CONTRIB, ML)}


@cache
def first_cases() -> dict[str, str]:
    """Not at import: onnx computes all of its cases, which takes seconds."""
    return {onnx_backend.operator_of(case): name for name, case in reversed(onnx_backend.cases().items())}


# The other operators have tests of their own in tests/arm_ext/frontends/onnx, too.
HERE_ALONE = {
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "BlackmanWindow", "CastLike", "Col2Im", "Compress", "Cosh"),
    *("CumProd", "HammingWindow", "IsInf", "LpNormalization", "MelWeightMatrix", "NegativeLogLikelihoodLoss"),
    *(
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMin",
        "ReduceProd",
        "ReduceSumSquare",
    ),
    *("ReverseSequence", "Sinh", "SoftmaxCrossEntropyLoss", "Swish", "TensorScatter"),
}


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name not in HERE_ALONE))
        for name in sorted(STANDARD - NEWER - NONE_STATIC)
    ],
)
def test_case_of(operator: str):
    outcome = onnx_backend.run_case((first_cases() | SAMPLE)[operator])
    assert outcome.stage == "passed", outcome


# Four more ai.onnx.ml tests have strings.
TABULAR = ("array_feature_extractor", "binarizer", "tree_ensemble_single_tree")


@pytest.mark.parametrize("name", TABULAR)
def test_case_of_tabular_models(name: str):
    outcome = onnx_backend.run_case(f"test_ai_onnx_ml_{name}")
    assert outcome.stage == "passed", outcome


def test_sets_of_values_are_refused_by_their_node():
    outcome = onnx_backend.run_case("test_ai_onnx_ml_tree_ensemble_set_membership")
    assert outcome.stage == "import"
    assert "node 1 tests for one of 4 values (BRANCH_MEMBER)" in outcome.why


def test_all_other_operators_have_a_case():
    assert STANDARD - set(first_cases()) == NEWER


def test_a_wrong_value_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_backend, "run_on_host", lambda mod, inputs: [inputs[0] * 0 - 1])
    outcome = onnx_backend.run_case("test_abs")
    assert outcome.stage == "values"
    assert "floats differ" in outcome.why


def test_a_case_as_a_user_compiles_it():
    assert onnx_backend.compile_case("test_div_int32_trunc").stage == "passed"
    refused = onnx_backend.compile_case("test_sequence_insert_at_back")
    assert refused.stage == "refused"


def test_the_table_shows_the_node_whose_size_the_data_decides(capsys: pytest.CaptureFixture[str]):
    onnx_backend.report([onnx_backend.run_case("test_nonzero_example")], verbose=False)
    assert "NonZero node 'result' gives a tensor whose size depends on the data" in capsys.readouterr().out


def test_an_unsupported_operator_is_an_outcome():
    assert onnx_backend.run_case("test_image_decoder_decode_jpeg_rgb").stage == "import"
