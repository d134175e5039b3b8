# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

import arm_ext
from arm_ext.errors import UsageError
from arm_ext.explainer import STEPS, RuleReport
from relay_passes.canonicalize import RULES
from tests.arm_ext.explained import explained
from tests.arm_ext.frontends.tflite_cases import EXACT, SCALES
from tests.arm_ext.models import mlp


def _rule(name: str, quantised: bool = False) -> RuleReport:
    (report,) = arm_ext.explain(explained(quantised), name).rules
    return report


def test_every_rule_is_told_in_the_order_in_which_they_are_tried() -> None:
    report = arm_ext.explain(explained())
    assert [rule.rule for rule in report.rules] == [rule.name for rule in RULES]
    assert all(rule.effect and rule.definition.startswith(rule.effect[:40]) for rule in report.rules)


def test_where_a_rule_applied_and_where_it_was_rejected() -> None:
    report = _rule("fold_batch_norm")
    assert report.applied == (("/conv1", "/norm1"),)
    (rejected,) = report.rejected
    assert rejected.nodes == ("/conv2", "/norm2")
    assert rejected.reason == "/conv2 is also needed by /skip"
    assert rejected.cost == "504 elements computed twice"
    assert report.definition.startswith("BatchNorm after a convolution")
    assert "Quantised:" in report.definition


def test_a_rejection_has_its_limit_and_the_actual_value() -> None:
    (rejected,) = _rule("recognize_gelu").rejected
    assert rejected.nodes == ("/gelu/div", "/gelu/erf", "/gelu/add", "/gelu/mul", "/gelu/half")
    assert (rejected.limit, rejected.actual) == ("0.5", "0.25")


def test_a_near_miss_names_what_was_found_instead() -> None:
    (near,) = _rule("merge_scales").near_misses
    assert near.nodes == ("/gelu/mul", "/gelu/half")
    (miss,) = near.misses
    assert (miss.expected, miss.found, miss.at) == (("a constant for a",), "relax.add", ("/gelu/add",))


def test_what_is_not_tried_on_a_quantised_model_says_why() -> None:
    assert _rule("divide_to_multiply").applied == (("/gelu/div",),)
    report = _rule("divide_to_multiply", quantised=True)
    assert report.applied == ()
    assert "the model quantises" in report.not_tried
    assert _rule("fold_batch_norm", quantised=True).not_tried == ""


def test_tflite_models_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(EXACT["reshape"](SCALES["pow2"]))
    report = arm_ext.explain(path)
    assert (report.model, len(report.rules)) == ("m", len(RULES))


def test_dynamic_inputs_take_shapes() -> None:
    assert arm_ext.explain(mlp("n"), shapes={"x": [3, 31]}).rules


def test_progress_is_told() -> None:
    steps: list[str] = []
    arm_ext.explain(explained(), progress=steps.append)
    assert tuple(steps) == STEPS


def test_an_unknown_rule_is_refused_with_near_names_before_any_work() -> None:
    with pytest.raises(UsageError, match="unknown rule 'fold_batchnorm'; did you mean fold_batch_norm"):
        arm_ext.explain("no such file", "fold_batchnorm")
