# SPDX-License-Identifier: Apache-2.0
"""Replacement of numeric ai.onnx.ml operators by standard ONNX operators; see `trees` for decision trees.

A package only has tensors of numbers: strings and maps are refused with advice.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx import svm, trees
from arm_ext.frontends.onnx.expansion import Expand, Expansion
from arm_ext.frontends.onnx.opset_forms import like, reduce, reshape
from arm_ext.frontends.onnx.scores import (
    above,
    both_classes,
    effective_transform,
    labels_of,
    put_labels,
    transform_of,
    transformed,
)

Array = npt.NDArray[Any]

DOMAIN = "ai.onnx.ml"

_NAN_IS_A_KEY = 4
"""Since this version of ai.onnx.ml, a LabelEncoder finds NaN among its keys."""


def _float(e: Expansion, x: str) -> str:
    """Emit a cast to float32 unless the value is float32."""
    return x if e.dtype(x) == np.float32 else e.emit("Cast", [x], to=onnx.TensorProto.FLOAT)


def _row(e: Expansion, name: str, columns: int, dtype: Any = np.float32) -> Array:
    """Return a list attribute as an array of one number for all columns, or one number per column."""
    found = np.array(e.numbers(name), dtype)
    if len(found) not in (1, columns):
        raise ModelError(f"its {name} has {len(found)} entries for {columns} columns")
    return found


def _scaler(e: Expansion) -> None:
    x, columns = e.node.input[0], e.dims(e.node.input[0])[-1]
    shifted = e.emit("Sub", [_float(e, x), e.constant(_row(e, "offset", columns))])
    e.emit("Mul", [shifted, e.constant(_row(e, "scale", columns))], e.node.output[0])


def _normalizer(e: Expansion) -> None:
    kinds = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
    norm = e.text("norm", "MAX")
    if norm not in kinds:
        raise ModelError(f"its norm is '{norm}'; supported are {', '.join(kinds)}")
    x = _float(e, e.node.input[0])
    # As in onnxruntime, MAX is the maximum of the values, not of their absolute values,
    size = reduce(e, kinds[norm], x, [-1 + e.rank(x)])
    # and rows of zeros are returned unchanged.
    zero = e.emit("Equal", [size, like(e, 0, size)])
    e.emit("Div", [x, e.emit("Where", [zero, like(e, 1, size), size])], e.node.output[0])


def _binarizer(e: Expansion) -> None:
    x = e.node.input[0]
    above = e.emit("Greater", [x, like(e, e.attribute("threshold", 0.0), x)])
    e.emit("Cast", [above], e.node.output[0], to=int(onnx.helper.np_dtype_to_tensor_dtype(e.dtype(x))))


def _imputer(e: Expansion) -> None:
    x, columns = e.node.input[0], e.dims(e.node.input[0])[-1]
    kind = "float" if e.numbers("imputed_value_floats") else "int64"
    values = _row(e, f"imputed_value_{kind}s", columns, e.dtype(x))
    replaced = e.attribute(f"replaced_value_{kind}", 0)
    equal = ("IsNaN", [x]) if np.isnan(replaced) else ("Equal", [x, like(e, replaced, x)])
    missing = e.emit(*equal)
    e.emit("Where", [missing, e.constant(values), x], e.node.output[0])


def _array_feature_extractor(e: Expansion) -> None:
    x, y = e.inputs("X Y")
    flat = reshape(e, y, -1)
    taken = e.emit("Gather", [x, flat], "" if e.rank(x) == 1 else e.node.output[0], axis=e.rank(x) - 1)
    if e.rank(x) == 1:
        reshape(e, taken, 1, -1, output=e.node.output[0])


def _feature_vectorizer(e: Expansion) -> None:
    """Concatenate all inputs along the columns; the attribute `inputdimensions` has their numbers of columns."""
    sizes = [int(size) for size in e.numbers("inputdimensions")]
    values = []
    for index, x in enumerate(e.node.input):
        columns = e.dims(x)[-1]
        if e.rank(x) != 2 or (sizes and sizes[index : index + 1] != [columns]):
            raise ModelError(f"its input '{x}' has the shape {e.dims(x)}, its inputdimensions are {sizes}")
        values.append(_float(e, x))
    e.emit("Concat", values, e.node.output[0], axis=1)


def _linear(e: Expansion, rows: int) -> str:
    """Emit the product with the coefficients [rows, columns] plus the intercepts."""
    x = _float(e, e.node.input[0])
    if e.rank(x) == 1:
        x = reshape(e, x, 1, -1)
    columns = e.dims(x)[-1]
    coefficients = np.array(e.numbers("coefficients"), np.float32)
    if len(coefficients) != rows * columns:
        raise ModelError(f"it has {len(coefficients)} coefficients for {rows} results of {columns} columns")
    product = e.emit("MatMul", [x, e.constant(np.ascontiguousarray(coefficients.reshape(rows, columns).T))])
    intercepts = np.array(e.numbers("intercepts"), np.float32)
    if not len(intercepts):
        return product
    if len(intercepts) != rows:
        raise ModelError(f"it has {len(intercepts)} intercepts for {rows} results")
    return e.emit("Add", [product, e.constant(intercepts)])


def _linear_regressor(e: Expansion) -> None:
    targets, transform = int(e.attribute("targets", 1)), transform_of(e)
    scores = _linear(e, targets)
    transformed(e, scores, effective_transform(transform, targets), e.node.output[0])


def _linear_classifier(e: Expansion) -> None:
    labels = labels_of(e, "classlabels_ints")
    rows, transform = len(e.numbers("intercepts")), transform_of(e)
    if not rows or len(labels) not in (rows, 2):
        raise ModelError(f"it has {rows} intercepts for {len(labels)} labels")
    scores = _linear(e, rows)
    if rows == 1 and len(labels) == 2:
        put_labels(e, above(e, scores, 0.0), labels)
        scores, transform = both_classes(e, scores, transform, positive=True)
    else:
        put_labels(e, e.emit("ArgMax", [scores], axis=1, keepdims=0), labels)
    transformed(e, scores, transform, e.node.output[1] if len(e.node.output) > 1 else "")


_KINDS = ("floats", "int64s", "tensor")


def _tensor(attribute: onnx.AttributeProto) -> Array:
    array: Array = numpy_helper.to_array(attribute.t)
    return array.ravel()


def _mapped(e: Expansion, side: str) -> Array:
    """Return the keys or values of a LabelEncoder."""
    for attribute in e.node.attribute:
        name = attribute.name.removeprefix(f"{side}_")
        if name == attribute.name or name not in (*_KINDS, "strings"):
            continue
        if name == "strings" or attribute.t.data_type == onnx.TensorProto.STRING:
            raise ModelError(
                f"its {side} are strings, and a package has tensors of numbers: encode them before the package, or "
                "name the class after it"
            )
        if name == "tensor":
            return _tensor(attribute)
        return np.array([*attribute.floats, *attribute.ints], np.float32 if name == "floats" else np.int64)
    raise ModelError(f"it has no {side}")


def _default(e: Expansion, dtype: np.dtype[Any]) -> Array:
    """Return the value that a LabelEncoder returns for inputs that equal none of its keys."""
    for attribute in e.node.attribute:
        if attribute.name == "default_tensor":
            return _tensor(attribute).reshape(()).astype(dtype)
    known = e.attribute("default_float", -0.0) if dtype.kind == "f" else e.attribute("default_int64", -1)
    return np.array(known, dtype)


def _label_encoder(e: Expansion) -> None:
    """Replace a LabelEncoder: compare each value with every key, and gather by the index of the equal key.

    Index 0 is the default.
    """
    if e.texts("classes_strings"):
        raise ModelError("it is of ai.onnx.ml 1, for strings: encode them before the package")
    x, keys, values = e.node.input[0], _mapped(e, "keys"), _mapped(e, "values")
    if len(keys) != len(values) or not len(keys):
        raise ModelError(f"it has {len(keys)} keys and {len(values)} values")
    keys = keys.astype(e.dtype(x))
    # If a key occurs twice, its last entry counts.
    _, last = np.unique(keys[::-1], return_index=True)
    kept = np.sort(len(keys) - 1 - last)
    keys, values = keys[kept], np.append(_default(e, values.dtype), values[kept])
    wide = reshape(e, x, *e.dims(x), 1)
    equal = e.emit("Equal", [wide, e.constant(keys)])
    if e.opset(DOMAIN) >= _NAN_IS_A_KEY and np.isnan(keys).any():
        equal = e.emit("Or", [equal, e.emit("And", [e.emit("IsNaN", [wide]), e.constant(np.isnan(keys))])])
    whole = e.emit("Cast", [equal], to=onnx.TensorProto.INT32)
    numbers = e.emit("Mul", [whole, e.constant(np.arange(1, len(keys) + 1, dtype=np.int32))])
    place = reduce(e, "ReduceMax", numbers, [e.rank(x)], keepdims=False)
    e.emit("Gather", [e.constant(values), place], e.node.output[0], axis=0)


def _zip_map(e: Expansion) -> None:
    """Refuse a ZipMap, whose output is not a tensor."""
    raise ModelError(
        "its output is a list of maps: read the tensor of scores before it, whose columns are the classes in their "
        "order (skl2onnx: options={'zipmap': False})"
    )


_STANDARD: dict[str, Expand] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _feature_vectorizer,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "SVMClassifier": svm.classifier,
    "SVMRegressor": svm.regressor,
    "Scaler": _scaler,
    "TreeEnsemble": trees.tree_ensemble,
    "TreeEnsembleClassifier": trees.classifier,
    "TreeEnsembleRegressor": trees.regressor,
    "ZipMap": _zip_map,
}

EXPANSIONS: dict[tuple[str, str], Expand] = {(DOMAIN, name): expand for name, expand in _STANDARD.items()}
