# SPDX-License-Identifier: Apache-2.0
"""Sorting in C, against numpy's stable sort."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tvm import te, topi

import arm_ext
from arm_ext.api import digits
from arm_ext.clibrary.sort import Sort, sort_of
from tests.arm_ext.clibrary.programs import STRICT, Library, cc, cross, python_module, run

SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def top_k(shape: list[int], k: int, axis: int, *, largest: bool, kind: int) -> ModelProto:
    result = [k if at == axis else size for at, size in enumerate(shape)]
    node = helper.make_node(
        "TopK", ["x", "k"], ["values", "places"], name="best", axis=axis, largest=int(largest)
    )
    x, values, places = (
        helper.make_tensor_value_info(name, type_, dims)
        for name, type_, dims in (
            ("x", kind, shape),
            ("values", kind, result),
            ("places", TensorProto.INT64, result),
        )
    )
    graph = helper.make_graph(
        [node], "best", [x], [values, places], [numpy_helper.from_array(np.array([k]), "k")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


CASES = {
    "rows": ([3, 50], 7, 1, True, TensorProto.FLOAT),
    "beside": ([2, 31, 4], 5, 1, False, TensorProto.INT32),
    "all": ([64], 64, 0, True, TensorProto.FLOAT),
    "one": ([9, 2], 1, 0, True, TensorProto.INT64),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_are_found_in_order_and_equal_ones_by_their_place(name: str, tmp_path: Path) -> None:
    shape, k, axis, largest, kind = CASES[name]
    model = top_k(shape, k, axis, largest=largest, kind=kind)
    library = Library.of(model, tmp_path / name, "host", name=name)
    assert "all outputs agree" in run(cc([*SANITIZED, *STRICT, *library.selftest], tmp_path / "selftest"))
    x = np.random.default_rng(0).integers(-4, 5, shape).astype(helper.tensor_dtype_to_np_dtype(kind))
    order = np.argsort(-x if largest else x, axis, kind="stable").take(range(k), axis)
    values, places = python_module(library, tmp_path)["Model"]().run(x)
    np.testing.assert_array_equal(np.asarray(places), order)
    np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(x, order, axis))


def test_labels_of_a_classifier_on_aarch64(tmp_path: Path) -> None:
    """A kernel finds the indices of both outputs; it has the values' memory in the arena."""
    best = arm_ext.Preprocess(outputs={"logits": [{"top_k": {"k": 3}}]})
    package = arm_ext.compile(
        digits.model_path(), "arm", tmp_path / "digits", emit="c-library", preprocess=best
    ).package
    library = Library(package)
    assert "all outputs agree" in run(cross([*STRICT, *library.selftest], tmp_path / "selftest"))
    assert (library.folder / "src" / "digits_int8.c").read_text().count("    sort_int32_int") == 1


def kernel(operator: str, dtype: str) -> tvm.tirx.PrimFunc:
    x = te.placeholder((4, 6, 5), dtype, "x")
    result = topi.sort(x, 1, False) if operator == "sort" else topi.argsort(x, None, 1, True, "int32")
    return te.create_prim_func([x, result])


def test_sort_and_argsort_give_one_of_both() -> None:
    whole = {"outer": 4, "length": 6, "inner": 5, "count": 6, "index": "int32"}
    assert sort_of(kernel("sort", "float32")) == Sort(
        dtype="float32", rising=False, has_values=True, has_indices=False, **whole
    )
    assert sort_of(kernel("argsort", "int8")) == Sort(
        dtype="int8", rising=True, has_values=False, has_indices=True, **whole
    )


def test_halves_have_no_order_in_c() -> None:
    assert sort_of(kernel("sort", "float16")) is None
