# SPDX-License-Identifier: Apache-2.0
"""Numeric ai.onnx.ml operators compared with onnxruntime, and refusals."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.onnx.tree_models import ML, SCORES, data, ml_model

Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 9, 4
Y = (("y", TensorProto.FLOAT),)
Y64 = (("y", TensorProto.INT64),)


def same(proto: onnx.ModelProto, *inputs: Array) -> None:
    """Compare with onnxruntime, up to a few float32 roundings."""
    expected = run_onnxruntime(proto.SerializeToString(), list(inputs), integers=False)
    imported = import_onnx(proto)
    found = run_on_host(imported.mod, list(inputs))
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def tensor(values: list[Any], dtype: type[Any]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), "t")


COEFFICIENTS = [float(k) / 7 - 0.9 for k in range(12)]

CASES: dict[str, tuple[str, int, dict[str, Any], tuple[tuple[str, int], ...]]] = {
    "Scaler": ("Scaler", 1, {"offset": [0.5, 1.0, -1.0, 0.0], "scale": [2.0, 0.5, 1.5, -1.0]}, Y),
    "Scaler of one": ("Scaler", 1, {"offset": [0.5], "scale": [2.0]}, Y),
    "Normalizer MAX": ("Normalizer", 1, {"norm": "MAX"}, Y),
    "Normalizer L1": ("Normalizer", 1, {"norm": "L1"}, Y),
    "Normalizer L2": ("Normalizer", 1, {"norm": "L2"}, Y),
    "Binarizer": ("Binarizer", 1, {"threshold": 0.5}, Y),
    "Imputer": (
        "Imputer",
        1,
        {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")},
        Y,
    ),
    "Imputer of a number": (
        "Imputer",
        1,
        {"imputed_value_floats": [7.0], "replaced_value_float": 1.5},
        Y,
    ),
    "LinearRegressor": ("LinearRegressor", 1, {"coefficients": COEFFICIENTS[:4], "intercepts": [0.5]}, Y),
    "LinearRegressor of three": (
        "LinearRegressor",
        1,
        {
            "coefficients": COEFFICIENTS,
            "intercepts": [0.5, 0.0, 1.0],
            "targets": 3,
            "post_transform": "SOFTMAX",
        },
        Y,
    ),
    **{
        f"LinearClassifier {transform}": (
            "LinearClassifier",
            1,
            {
                "coefficients": COEFFICIENTS,
                "intercepts": [0.5, 0.0, 1.0],
                "classlabels_ints": [3, 1, 4],
                "post_transform": transform,
            },
            SCORES,
        )
        for transform in ("NONE", "SOFTMAX", "LOGISTIC")
    },
    **{
        f"LinearClassifier of two {transform}": (
            "LinearClassifier",
            1,
            {
                "coefficients": [*COEFFICIENTS[:4], *(-c for c in COEFFICIENTS[:4])],
                "intercepts": [0.5, -0.5],
                "classlabels_ints": [3, 1],
                "post_transform": transform,
            },
            SCORES,
        )
        for transform in ("NONE", "LOGISTIC")
    },
    **{
        f"LinearClassifier of one row {transform}": (
            "LinearClassifier",
            1,
            {
                "coefficients": COEFFICIENTS[:4],
                "intercepts": [0.5],
                "classlabels_ints": [3, 1],
                "post_transform": transform,
            },
            SCORES,
        )
        for transform in ("NONE", "LOGISTIC")
    },
    "LabelEncoder": (
        "LabelEncoder",
        2,
        {"keys_floats": [-1.0, 0.5, 1.0], "values_int64s": [7, -8, 9], "default_int64": 5},
        Y64,
    ),
    "LabelEncoder of NaN": (
        "LabelEncoder",
        4,
        {"keys_floats": [float("nan"), 0.5, 1.0], "values_floats": [1.0, 2.0, 3.0], "default_float": -2.0},
        Y,
    ),
    "LabelEncoder of tensors": (
        "LabelEncoder",
        4,
        {
            "keys_tensor": tensor([-1.0, 0.5], np.float32),
            "values_tensor": tensor([1, 2], np.int64),
            "default_tensor": tensor([3], np.int64),
        },
        Y64,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_onnxruntime(case: str):
    op, version, attributes, outputs = CASES[case]
    missing = 0.3 if "NaN" in case or op == "Imputer" else 0.0
    proto = ml_model(op, attributes, (ROWS, COLUMNS), outputs, version=version)
    x = data(ROWS, COLUMNS, missing=missing)
    if op == "Normalizer":
        x[:, 0] = 3  # the maximum, and the maximum of absolute values
        x[1] = 0
    same(proto, x)


def two_inputs(
    op: str, second: onnx.TensorProto | None, shape: tuple[int, ...], **attributes: Any
) -> onnx.ModelProto:
    node = helper.make_node(op, ["x", "z"], ["y"], "node", domain=ML, **attributes)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    given += [] if second else [helper.make_tensor_value_info("z", TensorProto.FLOAT, shape)]
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", given, [end], [second] if second else [])
    opsets = [helper.make_opsetid(ML, 3), helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_features_are_taken_and_put_together():
    wanted = numpy_helper.from_array(np.array([2, 0]), "z")
    same(two_inputs("ArrayFeatureExtractor", wanted, (ROWS, COLUMNS)), data(ROWS, COLUMNS, missing=0))
    both = two_inputs("FeatureVectorizer", None, (ROWS, COLUMNS), inputdimensions=[COLUMNS, COLUMNS])
    same(both, data(ROWS, COLUMNS, missing=0), data(ROWS, COLUMNS, 2, missing=0))


def test_a_map_of_scores_at_the_end_is_the_tensor_of_them():
    attributes = {
        "coefficients": COEFFICIENTS,
        "intercepts": [0.5, 0.0, 1.0],
        "classlabels_ints": [3, 1, 4],
        "post_transform": "SOFTMAX",
    }
    proto = ml_model("LinearClassifier", attributes, (ROWS, COLUMNS), SCORES)
    x = data(ROWS, COLUMNS, missing=0)
    expected = run_onnxruntime(proto.SerializeToString(), [x], integers=False)
    proto.graph.node.append(
        helper.make_node("ZipMap", ["scores"], ["map"], "zip", domain=ML, classlabels_int64s=[3, 1, 4])
    )
    del proto.graph.output[1]
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, value))
    proto.graph.output.append(helper.make_value_info("map", kind))
    imported = import_onnx(proto)
    labels, scores = run_on_host(imported.mod, [x])
    assert (labels == expected[0]).all()
    np.testing.assert_allclose(scores, expected[1], rtol=1e-6)
    # The self-test compares with the same.
    assert imported.reference([x])[0][1].shape == (ROWS, 3)


REFUSED: dict[str, tuple[str, int, dict[str, Any], str]] = {
    "numbers of keys": (
        "LabelEncoder",
        2,
        {"keys_floats": [1.0], "values_floats": [1.0, 2.0]},
        "it has 1 keys and 2 values",
    ),
    "scales": ("Scaler", 1, {"offset": [1.0, 2.0], "scale": [1.0]}, "its offset has 2 entries for 4 columns"),
    "norm": ("Normalizer", 1, {"norm": "L3"}, "its norm is 'L3'; supported are MAX, L1, L2"),
    "coefficients": (
        "LinearRegressor",
        1,
        {"coefficients": [1.0]},
        "it has 1 coefficients for 1 results of 4 columns",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str):
    op, version, attributes, why = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        import_onnx(ml_model(op, attributes, (ROWS, COLUMNS), version=version, name="step"))
    assert f"step ({why}" in str(caught.value)


def test_strings_on_the_way():
    first, second = (
        helper.make_node("LabelEncoder", [a], [b], name, domain=ML, **attributes)
        for a, b, name, attributes in (
            ("x", "t", "first", {"keys_floats": [1.0], "values_strings": ["a"]}),
            ("t", "y", "second", {"keys_strings": ["a"], "values_floats": [2.0]}),
        )
    )
    proto = ml_model("Scaler", {}, (ROWS, COLUMNS))
    del proto.graph.node[:]
    proto.graph.node.extend([first, second])
    with pytest.raises(
        ModelError, match=r"first \(its values are strings, and a package has tensors of numbers"
    ):
        import_onnx(proto)
