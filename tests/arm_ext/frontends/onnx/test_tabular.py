# SPDX-License-Identifier: Apache-2.0
"""Models of scikit-learn, LightGBM and XGBoost as their own converters write them by default."""

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxmltools.convert import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from skl2onnx._supported_operators import build_sklearn_operator_name_map
from sklearn.base import is_regressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.svm import SVC, SVR, NuSVR, OneClassSVM

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.selftest import run_on_host

ROWS = 31
FLOWERS, SPECIES = load_iris(return_X_y=True)
PATIENTS, PROGRESS = (values[:150] for values in load_diabetes(return_X_y=True))
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]

ESTIMATORS = {each.__name__: each for each in build_sklearn_operator_name_map() if isinstance(each, type)}
# One of each kind of export; all others with -m long.
QUICK = (
    *(
        "DecisionTreeClassifier",
        "GaussianNB",
        "GradientBoostingRegressor",
        "KNeighborsClassifier",
        "MinMaxScaler",
    ),
    *(
        "LogisticRegression",
        "MLPRegressor",
        "PCA",
        "PolynomialFeatures",
        "RandomForestClassifier",
        "Ridge",
        "SVC",
    ),
)
# Distances of a point to itself, and products that cancel, are rounding errors alone.
OF_ROUNDING = ("KNeighborsTransformer", "KernelPCA", "KMeans", "MiniBatchKMeans")


def exported(name: str, targets: Any) -> tuple[onnx.ModelProto, np.ndarray]:
    """The model by scikit-learn's converter, and its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = ESTIMATORS[name]()
            of_flowers = not is_regressor(made)
            x = np.abs(FLOWERS if of_flowers else PATIENTS).astype(np.float32)
            made.fit(x, targets if of_flowers else PROGRESS)
            return to_onnx(made, x[:1], target_opset={"": 18, "ai.onnx.ml": 3}), x[:ROWS]
        except Exception as reason:  # of many kinds: parameters that it needs, data of another form
            pytest.xfail(f"the converter writes no such model: {reason}"[:200])


def same(model: onnx.ModelProto, x: np.ndarray, bound: float = 1e-6) -> None:
    """Labels are equal, and all numbers within a bound of the largest."""
    name = model.graph.input[0].name
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {name: x})
    imported = import_onnx(model, {name: x.shape})
    for spec, found, wanted in zip(imported.outputs, run_on_host(imported.mod, [x]), expected, strict=True):
        if isinstance(wanted, list):
            assert spec.labels == tuple(map(str, wanted[0]))
            wanted = np.array([list(row.values()) for row in wanted], np.float32)
        elif spec.labels:
            found, wanted = np.array(spec.labels)[found], np.asarray(wanted).astype(str)
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, rtol=0, atol=bound * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in sorted(ESTIMATORS)],
)
def test_every_estimator_as_its_converter_writes_it(name: str):
    model, x = exported(name, SPECIES)
    if name in ("RadiusNeighborsClassifier", "_ConstantPredictor", "KNNImputer"):
        pytest.xfail("onnxruntime does not run the model, or it calls functions that it does not define")
    same(model, x, 0.7 if name in OF_ROUNDING else 1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "LogisticRegression",
        "GaussianNB",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ("RandomForestClassifier", "KNeighborsClassifier")
        ),
    ],
)
def test_classes_that_are_texts(name: str):
    same(*exported(name, NAMES))


@pytest.mark.parametrize("classifies", [True, False])
def test_lightgbm(classifies: bool):
    import lightgbm

    kind = lightgbm.LGBMClassifier if classifies else lightgbm.LGBMRegressor
    x = (FLOWERS if classifies else PATIENTS).astype(np.float32)
    made = kind(n_estimators=7, verbose=-1).fit(x, SPECIES if classifies else PROGRESS)
    same(convert_lightgbm(made, initial_types=[("x", FloatTensorType([None, x.shape[1]]))]), x[:ROWS])


@pytest.mark.parametrize("classifies", [True, False])
def test_xgboost(classifies: bool):
    import xgboost

    kind = xgboost.XGBClassifier if classifies else xgboost.XGBRegressor
    x = (FLOWERS if classifies else PATIENTS).astype(np.float32)
    made = kind(n_estimators=7).fit(x, SPECIES if classifies else PROGRESS)
    same(convert_xgboost(made, initial_types=[("x", FloatTensorType([None, x.shape[1]]))]), x[:ROWS])


@pytest.mark.each_once
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("classes", [2, 3])
def test_support_vectors(kernel: str, classes: int):
    x = FLOWERS.astype(np.float32)
    made = SVC(kernel=kernel).fit(x, np.minimum(SPECIES, classes - 1))
    # Of polynomials of degree 3, onnxruntime has its own rounding.
    same(to_onnx(made, x[:1], target_opset={"": 18, "ai.onnx.ml": 3}), x[:ROWS], 2e-5)


@pytest.mark.parametrize("made", [SVR(), NuSVR(kernel="poly"), OneClassSVM()], ids=["svr", "nu", "one class"])
def test_support_vectors_of_regressions(made: Any):
    x = PATIENTS.astype(np.float32)
    made.fit(x, PROGRESS)
    same(to_onnx(made, x[:1], target_opset={"": 18, "ai.onnx.ml": 3}), x[:ROWS], 2e-6)
