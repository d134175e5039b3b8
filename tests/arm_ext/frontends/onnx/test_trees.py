# SPDX-License-Identifier: Apache-2.0
"""Decision tree ensembles compared with onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import unnamed_calls
from tests.arm_ext.frontends.onnx.tree_models import (
    MODES,
    Grown,
    classifier,
    data,
    grown,
    ml_model,
    of_xgboost,
    regressor,
)

Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 33, 6


def same(proto: onnx.ModelProto, x: Array, bound: float = 2e-6) -> list[Array]:
    """Compare with onnxruntime; a score is a sum of about ten float32 weights in another order."""
    expected = run_onnxruntime(proto.SerializeToString(), [x], integers=False)
    imported = import_onnx(proto)
    assert unnamed_calls(imported.mod) == []
    found = run_on_host(imported.mod, [x])
    for ours, theirs, spec in zip(found, expected, imported.outputs, strict=True):
        assert ours.dtype == theirs.dtype == spec.dtype
        assert ours.shape == theirs.shape == spec.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=0 if ours.dtype == np.int64 else bound)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_each_comparison_with_and_without_missing_values(mode: str):
    for missing in (0.0, 0.5):
        found = grown(7, 4, COLUMNS, modes=[mode], missing=missing)
        same(regressor(found, (ROWS, COLUMNS)), data(ROWS, COLUMNS))


SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 3.4e38, 1e-45)


@pytest.mark.parametrize("seed", range(4))
def test_thresholds_that_no_number_or_each_number_passes(seed: int):
    found = grown(9, 5, COLUMNS, values=SPECIAL, seed=seed)
    x = data(ROWS, COLUMNS)
    x[:, 0] = np.resize(np.array([0.0, -0.0, 1e-45, -1e-45, 3.4e38, np.nan], np.float32), ROWS)
    same(regressor(found, (ROWS, COLUMNS)), x)


REGRESSORS: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "base": (1, {}, {"base_values": [0.5]}),
    "bases": (3, {}, {"base_values": [0.5, -1.0, 2.0]}),
    "average": (3, {"shared": True}, {"aggregate_function": "AVERAGE", "base_values": [0.5, -1.0, 2.0]}),
    "min": (1, {}, {"aggregate_function": "MIN", "base_values": [0.5]}),
    "max": (5, {"shared": True}, {"aggregate_function": "MAX"}),
    "softmax": (3, {}, {"post_transform": "SOFTMAX"}),
    "logistic": (2, {"shared": True}, {"post_transform": "LOGISTIC"}),
    "logistic of one": (1, {}, {"post_transform": "LOGISTIC"}),
    "softmax zero": (3, {"only": 1}, {"post_transform": "SOFTMAX_ZERO"}),
    "a leaf": (1, {"depth": 0}, {}),
    "many features": (1, {"columns": 300, "trees": 20}, {}),
    "wide leaves": (13, {"shared": True, "trees": 3}, {}),
}


@pytest.mark.parametrize("case", REGRESSORS)
def test_regressors(case: str):
    targets, how, attributes = REGRESSORS[case]
    how = {"trees": 10, "depth": 5, "columns": COLUMNS} | how
    found = grown(targets=targets, **how)
    same(regressor(found, (ROWS, how["columns"]), targets, **attributes), data(ROWS, how["columns"]))


def test_probit():
    found = grown(1, 3, COLUMNS)
    found.weights["weights"] = np.linspace(0.05, 0.95, len(found.weights["weights"])).tolist()
    # PROBIT amplifies errors of the sum where the logarithm of 4 p (1 - p) is near 0.
    same(regressor(found, (ROWS, COLUMNS), post_transform="PROBIT"), data(ROWS, COLUMNS), 1e-5)


def test_data_in_doubles_are_compared_in_doubles():
    found = grown(10, 5, COLUMNS, values=(-1.0, 0.1, 1.0))
    x = data(ROWS, COLUMNS).astype(np.float64)
    # The float64 number after float32's 0.1, which float32 cannot represent.
    x[::2] = np.nextafter(np.float64(np.float32(0.1)), 1.0)
    same(regressor(found, (ROWS, COLUMNS), dtype=TensorProto.DOUBLE), x)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_data_in_integers(dtype: type[np.generic]):
    proto = classifier(grown(10, 5, COLUMNS, 3, values=(-1.0, 0.1, 1.0)), (ROWS, COLUMNS), (0, 1, 2))
    proto.graph.input[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    same(proto, data(ROWS, COLUMNS, missing=0.0).astype(dtype))


CLASSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one, mixed": ({"only": 0}, {}),
    "one, mixed, base": ({"only": 0}, {"base_values": [0.1]}),
    "one, positive": ({"only": 0, "positive": True}, {}),
    "one, positive, base": ({"only": 0, "positive": True}, {"base_values": [0.1]}),
    "second, mixed": ({"only": 1}, {}),
    "second, positive": ({"only": 1, "positive": True}, {}),
    "both": ({"shared": True}, {}),
    "both, base": ({"shared": True}, {"base_values": [0.1]}),
    "both, bases": ({"shared": True}, {"base_values": [0.1, 0.2]}),
    "turns": ({}, {}),
}


@pytest.mark.each_once
@pytest.mark.parametrize("case", CLASSES)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_two_classes(case: str, transform: str):
    how, attributes = CLASSES[case]
    how = dict(how)
    positive = how.pop("positive", False)
    found = grown(4, 3, COLUMNS, 2, **how)
    if positive:
        found.weights["weights"] = [abs(weight) / 4 for weight in found.weights["weights"]]
    proto = classifier(found, (ROWS, COLUMNS), (7, 9), post_transform=transform, **attributes)
    same(proto, data(ROWS, COLUMNS))


@pytest.mark.each_once
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("base", [{}, {"base_values": [0.5, 0.0, -0.5, 1.0]}])
def test_four_classes(transform: str, base: dict[str, Any]):
    for shared in (False, True):
        found = grown(8, 3, COLUMNS, 4, shared=shared)
        proto = classifier(found, (ROWS, COLUMNS), (3, 1, 4, 5), post_transform=transform, **base)
        same(proto, data(ROWS, COLUMNS))


def test_one_class():
    same(classifier(grown(4, 3, COLUMNS), (ROWS, COLUMNS), (7,)), data(ROWS, COLUMNS))


def test_labels_that_are_strings_are_numbers():
    found = grown(8, 3, COLUMNS, 3)
    proto = classifier(found, (ROWS, COLUMNS), (0, 1, 2))
    expected = run_onnxruntime(proto.SerializeToString(), [data(ROWS, COLUMNS)], integers=False)
    (node,) = proto.graph.node
    kept = [a for a in node.attribute if a.name != "classlabels_int64s"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("classlabels_strings", ["a", "b", "c"])])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    imported = import_onnx(proto)
    assert [spec.labels for spec in imported.outputs] == [("a", "b", "c"), ()]
    labels, scores = run_on_host(imported.mod, [data(ROWS, COLUMNS)])
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=0, atol=2e-6)


def test_trees_of_xgboost_with_missing_values():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, COLUMNS)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    y = (np.nan_to_num(x[:, 0] * x[:, 1]) > 0).astype(int) + (np.nan_to_num(x[:, 2]) > 0.5)
    options = {"objective": "multi:softprob", "num_class": 3, "max_depth": 4, "base_score": 0.0, "nthread": 1}
    booster = xgboost.train(options, xgboost.DMatrix(x, y), 8)
    proto = classifier(of_xgboost(booster, 3), (ROWS, COLUMNS), (0, 1, 2), post_transform="SOFTMAX")
    labels, scores = same(proto, x[:ROWS])
    theirs = booster.predict(xgboost.DMatrix(x[:ROWS]))
    np.testing.assert_allclose(scores, theirs, rtol=0, atol=2e-6)
    assert (labels == theirs.argmax(1)).all()


def test_indexed_trees():
    """TreeEnsemble of ai.onnx.ml 5; two nodes may share a leaf, and a set of one value is an equality."""
    attributes: dict[str, Any] = {
        "nodes_splits": numpy_helper.from_array(np.array([0.5, -1.0, 0.0, 1.0], np.float32), "splits"),
        "nodes_modes": numpy_helper.from_array(np.array([0, 3, 6, 0], np.uint8), "modes"),
        "membership_values": numpy_helper.from_array(np.array([1.5, np.nan], np.float32), "members"),
        "nodes_featureids": [0, 1, 2, 0],
        "nodes_truenodeids": [1, 0, 1, 3],
        "nodes_falsenodeids": [2, 1, 2, 3],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falseleafs": [0, 1, 1, 1],
        "nodes_missing_value_tracks_true": [1, 0, 1, 0],
        "tree_roots": [0, 3],
        "leaf_targetids": [0, 1, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.array([1.0, 2.0, -3.0, 0.25], np.float32), "weights"),
        "n_targets": 2,
        "aggregate_function": 1,
        "post_transform": 0,
    }
    same(ml_model("TreeEnsemble", attributes, (ROWS, 3), version=5), data(ROWS, 3))


def refused(proto: onnx.ModelProto) -> str:
    with pytest.raises(ModelError) as caught:
        import_onnx(proto)
    message = str(caught.value)
    assert "trees" in message  # the node's name
    return message


def broken(**changes: Any) -> str:
    """Return the refusal of the smallest tree with one list entry changed to (index, value)."""
    found = Grown()
    found.node(3, 0, modes="BRANCH_LEQ", truenodeids=1, falsenodeids=2)
    found.node(3, 1, modes="BRANCH_LEQ", truenodeids=3, falsenodeids=4)
    for leaf in (2, 3, 4):
        found.node(3, leaf)
        found.weight(3, leaf, 0, 1.0)
    for name, (place, value) in changes.items():
        lists = found.nodes if name.startswith("nodes_") else found.weights
        lists[name.split("_")[1]][place] = value
    return refused(regressor(found, (1, 2)))


def test_hostile_trees():
    assert "node 1 of tree 3 has the true child 77, which its tree does not have" in broken(
        nodes_truenodeids=(1, 77)
    )
    assert "node 0 of tree 3 is the root of its tree and also a child" in broken(nodes_truenodeids=(1, 0))
    assert "node 1 of tree 3 is the child of 2 nodes" in broken(nodes_truenodeids=(1, 1))
    assert "node 2 of tree 3 is the child of 2 nodes" in broken(nodes_falsenodeids=(1, 2))
    assert "node 0 of tree 3 compares feature 2, but the data has 2 columns" in broken(
        nodes_featureids=(0, 2)
    )
    assert "compares feature -1" in broken(nodes_featureids=(0, -1))
    assert "node 3 of tree 3 is defined twice" in broken(nodes_nodeids=(4, 3))
    assert "the mode 'BRANCH'; supported are BRANCH_LEQ" in broken(nodes_modes=(0, "BRANCH"))
    assert "a weight is of node 9 of tree 3, which does not exist" in broken(weights_nodeids=(0, 9))
    assert "node 2 of tree 3 has a weight of result 1, but there are 1 results" in broken(weights_ids=(0, 1))
    assert "node 3 of tree 3 has 2 weights of result 0; add them up" in broken(weights_nodeids=(0, 3))


def test_lists_of_different_lengths():
    found = grown(1, 2, 2, ragged=0, missing=0)
    found.nodes["featureids"].pop()
    message = refused(regressor(found, (1, 2)))
    assert "its nodes_featureids has 6 entries, but nodes_treeids has 7" in message
    found = grown(1, 2, 2, ragged=0)
    found.weights["weights"].pop()
    assert "its target_weights has 3 entries, but target_treeids has 4" in refused(regressor(found, (1, 2)))


def chain(length: int) -> Grown:
    """A tree that is a chain of nodes."""
    found = Grown()
    for k in range(length):
        found.node(0, 2 * k, modes="BRANCH_LEQ", truenodeids=2 * k + 1, falsenodeids=2 * k + 2)
        found.node(0, 2 * k + 1)
        found.weight(0, 2 * k + 1, 0, 1.0)
    found.node(0, 2 * length)
    return found


def test_a_chain_of_nodes_has_a_limit():
    same(regressor(chain(300), (ROWS, 2)), data(ROWS, 2))
    assert "tree 0 is deeper than 10000 levels, the maximum" in refused(regressor(chain(10_000), (1, 2)))


def test_scores_that_are_not_defined():
    some = classifier(grown(2, 2, 2, 3), (1, 2), (0, 1, 2))
    assert "no tree has a weight of class 2 in each leaf" in refused(some)
    bases = classifier(grown(2, 2, 2, 2, only=0), (1, 2), (0, 1), base_values=[0.1, 0.2])
    assert "2 base_values, but all its weights are of class 0" in refused(bases)
    least = regressor(grown(2, 2, 2, 3), (1, 2), 3, aggregate_function="MIN")
    assert "no tree has a weight of result 2 in each leaf, and nothing has no min" in refused(least)
