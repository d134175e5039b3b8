# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import arm_ext
from arm_ext.api.explain import NAMES, STEPS
from arm_ext.common.errors import UsageError
from arm_ext.report.explanation import RuleReport, Unapplied
from schedules.diagnostic import Diagnostic
from tests.arm_ext.explained import explained
from tests.arm_ext.frontends.tflite.cases import EXACT, SCALES
from tests.arm_ext.models import mlp, model


def _rule(name: str, quantised: bool = False) -> RuleReport:
    (report,) = arm_ext.explain(explained(quantised), name).rules
    return report


def _diagnostics(places: tuple[Unapplied, ...]) -> list[Diagnostic]:
    return [place.diagnostic for place in places]


def test_every_rule_is_told_in_the_order_in_which_they_are_tried() -> None:
    report = arm_ext.explain(explained())
    assert [rule.rule for rule in report.rules] == list(NAMES)
    assert all(rule.effect and rule.definition.startswith(rule.effect[:40]) for rule in report.rules)
    assert NAMES.index("fold_batch_norm") < NAMES.index("layout") < NAMES.index("integerize")
    assert NAMES.index("combine_matmuls") < NAMES.index("fuse:linear")


def test_where_a_rule_applied_and_where_it_was_rejected() -> None:
    report = _rule("fold_batch_norm")
    assert report.applied == (("/conv1", "/norm1"),)
    (rejected,) = _diagnostics(report.rejected)
    assert rejected.nodes == ("/conv2", "/norm2")
    assert rejected.reason == "/conv2 is also needed by /skip"
    assert rejected.hint == "504 elements would be computed twice"
    assert report.definition.startswith("BatchNorm after a (transposed) convolution")
    assert "Quantised:" in report.definition


def test_a_rejection_has_its_limit_and_the_actual_value() -> None:
    (rejected,) = _diagnostics(_rule("recognize_gelu").rejected)
    assert rejected.nodes == ("/gelu/div", "/gelu/erf", "/gelu/add", "/gelu/mul", "/gelu/half")
    assert (rejected.limit, rejected.actual) == ("0.5", "0.25")


def test_a_near_miss_names_what_was_found_instead() -> None:
    (near,) = _diagnostics(_rule("merge_scales").near_misses)
    assert near.nodes == ("/gelu/mul", "/gelu/half")
    assert (near.limit, near.actual) == ("a constant for a", "relax.add at /gelu/add")


def test_what_is_not_tried_on_a_quantised_model_says_why() -> None:
    assert _rule("divide_to_multiply").applied == (("/gelu/div",),)
    report = _rule("divide_to_multiply", quantised=True)
    assert report.applied == ()
    assert "the model is quantised" in report.not_tried
    assert _rule("fold_batch_norm", quantised=True).not_tried == ""


def test_what_has_channels_last_and_what_keeps_the_models_layout() -> None:
    assert [nodes[0] for nodes in _rule("layout").applied] == ["/conv1", "/conv2"]
    (kept,) = arm_ext.explain(_transposed(), "layout").rules
    (rejected,) = _diagnostics(kept.rejected)
    assert rejected.nodes == ("/up",)
    assert "stays: " in rejected.reason


def _transposed() -> onnx.ModelProto:
    """A transposed convolution whose weights are an input, behind a convolution."""
    weights = {"w": np.ones((8, 3, 1, 1), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="/conv"),
        helper.make_node("ConvTranspose", ["c", "v"], ["y"], name="/up"),
    ]
    return model(nodes, {"x": [1, 3, 7, 9], "v": [8, 3, 1, 1]}, ["y"], weights)


def test_what_is_computed_in_integers_and_what_stays_in_float() -> None:
    assert _rule("integerize").rejected == ()
    report = _rule("integerize", quantised=True)
    assert report.applied == ()
    assert ("/conv1", "/norm1") in [why.nodes for why in _diagnostics(report.rejected)]
    assert "nn.conv2d stays in float: its input is not quantised" in [
        why.reason for why in _diagnostics(report.rejected)
    ]
    (report,) = arm_ext.explain(_table_after_product(), "integerize").rules
    assert {"/mm", "/sigmoid"} <= {node for nodes in report.applied for node in nodes}
    assert report.rejected == ()


def _table_after_product() -> onnx.ModelProto:
    """An int8 linear layer, then a sigmoid, which is a table."""
    scales = {"s": np.float32(0.125), "z": np.int8(0)}
    weights = {"w": np.ones((16, 8), np.int8), **scales}
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], name="/weight")]
    value = "x"
    for op, inputs, name in (("", [], "x"), ("MatMul", ["wf"], "/mm"), ("Sigmoid", [], "/sigmoid")):
        if op:
            nodes.append(helper.make_node(op, [value, *inputs], [f"{name}_y"], name=name))
            value = f"{name}_y"
        nodes.append(helper.make_node("QuantizeLinear", [value, "s", "z"], [f"{name}_q"], name=f"{name}/q"))
        value = f"{name}_f"
        nodes.append(
            helper.make_node("DequantizeLinear", [f"{name}_q", "s", "z"], [value], name=f"{name}/dq")
        )
    return model(nodes, {"x": [7, 16]}, [value], weights)


def test_a_fusion_that_would_spill_is_refused_with_the_estimate() -> None:
    (report,) = arm_ext.explain(_table_after_product(), "fuse:linear_s8").rules
    assert len(report.applied) == 1
    assert "/mm" in report.applied[0]
    assert "/sigmoid" not in report.applied[0]
    (rejected,) = _diagnostics(report.rejected)
    assert "qdq.table would spill" in rejected.reason
    assert (rejected.limit, rejected.actual) == ("at most 8", "16")


def test_composites_and_why_they_end() -> None:
    report = _rule("fuse:conv2d")
    assert [nodes[:2] for nodes in report.applied] == [("/conv1", "/norm1"), ("/conv2",)]
    assert report.rejected[1].diagnostic.reason.startswith("its value has several readers")
    assert report.effect.startswith(
        "arm.conv2d: relax.nn.conv2d, then in this order: bias or not, relu or not"
    )


@pytest.mark.parametrize(("columns", "combined"), [(9, True), (64, False)])
def test_matmuls_are_combined_where_the_estimate_says_so(columns: int, combined: bool) -> None:
    (report,) = arm_ext.explain(_parallel(columns), "combine_matmuls", target="neoverse-n2").rules
    nodes = ("/mm0", "/mm1", "/mm2")
    assert report.applied == ((nodes,) if combined else ())
    if not combined:
        (rejected,) = _diagnostics(report.rejected)
        assert (rejected.nodes, rejected.reason) == (nodes, "together they take more cycles than apart")
        assert int(rejected.actual) > int(rejected.limit.removeprefix("below "))
        assert "of its split" in rejected.hint


def _parallel(columns: int) -> onnx.ModelProto:
    """Three matmuls of one value."""
    weights = {f"w{i}": np.full((192, columns), i, np.float32) for i in range(3)}
    nodes = [helper.make_node("MatMul", ["x", w], [f"y{i}"], name=f"/mm{i}") for i, w in enumerate(weights)]
    return model(nodes, {"x": [197, 192]}, ["y0", "y1", "y2"], weights)


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(UsageError, match="neoverse"):
        arm_ext.explain(explained(), target="neoverse-n9")


def test_tflite_models_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(EXACT["reshape"](SCALES["pow2"]))
    report = arm_ext.explain(path)
    assert (report.model, len(report.rules)) == ("m", len(NAMES))


def test_dynamic_inputs_take_shapes() -> None:
    assert arm_ext.explain(mlp("n"), shapes={"x": [3, 31]}).rules


def test_progress_is_told() -> None:
    steps: list[str] = []
    arm_ext.explain(explained(), progress=steps.append)
    assert tuple(steps) == STEPS


def test_an_unknown_rule_is_refused_with_near_names_before_any_work() -> None:
    with pytest.raises(UsageError, match="unknown rule 'fold_batchnorm'; did you mean fold_batch_norm"):
        arm_ext.explain("no such file", "fold_batchnorm")
