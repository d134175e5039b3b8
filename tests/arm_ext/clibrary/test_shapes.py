# SPDX-License-Identifier: Apache-2.0
"""Libraries for several shapes."""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from tests.arm_ext import models
from tests.arm_ext.clibrary.programs import HERE, STRICT, Library, cc, cross, python_module, run

SHAPES = {"x": ([1, 2, 5], 31)}
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("shapes") / "mlp"
    return Library.of(models.mlp("n"), folder, "host", name="mlp", shapes=SHAPES)


def test_each_shape_has_a_selftest(mlp: Library, tmp_path: Path) -> None:
    assert "all outputs agree" in run(cc([*SANITIZED, *STRICT, *mlp.selftest], tmp_path / "selftest"))
    buckets = mlp.package.manifest.buckets
    assert [bucket.inputs[0].shape for bucket in buckets] == [[1, 31], [2, 31], [5, 31]]


def test_each_shape_is_checked(mlp: Library, tmp_path: Path) -> None:
    run(cc([*SANITIZED, *STRICT, HERE / "shapes.c", *mlp.arguments], tmp_path / "shapes"))


def test_weights_are_stored_once(mlp: Library, tmp_path: Path) -> None:
    one = Library.of(models.mlp("n"), tmp_path / "one", "host", name="mlp", shapes={"x": (5, 31)})
    several, single = (library.package.manifest.library for library in (mlp, one))
    assert several is not None
    assert single is not None
    assert several.weight_bytes == single.weight_bytes


def test_the_class_takes_the_shape(mlp: Library, tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("""
#include "mlp.hpp"
int main()
{
    static float x[MLP_INPUT_X_ELEMENTS], y[MLP_OUTPUT_Y_ELEMENTS];
    mlp::Model model;
    return model.run(MLP_SHAPE_2, x, y) != MLP_OK || model.run(MLP_SHAPE_5) != MLP_OK ||
           model.run(MLP_SHAPES, x, y) != MLP_ERROR_SHAPE || model.input(MLP_SHAPE_1, 0) == nullptr;
}
""")
    run(cc([*STRICT, "-std=c++11", source, *mlp.arguments], tmp_path / "program", "g++"))


def test_python_finds_the_shape_by_the_inputs(mlp: Library, tmp_path: Path) -> None:
    model = python_module(mlp, tmp_path)["Model"]()
    rows = np.linspace(-1, 1, 5 * 31, dtype=np.float32).reshape(5, 31)
    whole = np.asarray(model.run(rows)[0])
    for samples in (1, 2):
        (part,) = model.run(rows[:samples])
        np.testing.assert_allclose(np.asarray(part), whole[:samples], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="no shape has inputs of 372 bytes"):
        model.run(rows[:3])


def test_several_shapes_run_on_aarch64_in_regions_and_threads(tmp_path: Path) -> None:
    options = {"memory": "fast=64,slow=64K", "threads": 2, "weights": "file"}
    library = Library.of(models.mlp("n"), tmp_path / "mlp", "arm", name="mlp", shapes=SHAPES, **options)
    assert "all outputs agree" in run(cross([*STRICT, *library.selftest], tmp_path / "selftest"))


def totals() -> ModelProto:
    """The sum of all rows that there were, and each row less it."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "rows"], ["added"], name="add", keepdims=1),
        helper.make_node("Add", ["total", "added"], ["sum"], name="total"),
        helper.make_node("Sub", ["x", "sum"], ["y"], name="less"),
    ]
    shapes = {"x": ["n", 3], "total": [1, 3], "y": ["n", 3], "sum": [1, 3]}
    x, total, y, result = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in shapes.items()
    )
    rows = helper.make_tensor("rows", TensorProto.INT64, [1], [0])
    graph = helper.make_graph(nodes, "totals", [x, total], [y, result], [rows])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_steps_of_all_shapes_have_the_same_states(tmp_path: Path) -> None:
    options = {"shapes": {"x": ([1, 4], 3)}, "state": {"total": "sum"}, "memory": "fast=128,slow=1K"}
    library = Library.of(totals(), tmp_path / "totals", "host", name="totals", **options)
    assert "all outputs agree" in run(cc([*SANITIZED, *STRICT, *library.selftest], tmp_path / "selftest"))
    model = python_module(library, tmp_path)["Model"]()
    total = np.zeros(3, np.float32)
    for samples in (1, 4, 4, 1):
        x = np.arange(samples * 3, dtype=np.float32).reshape(samples, 3)
        total += x.sum(axis=0)
        np.testing.assert_array_equal(np.asarray(model.step(x)[0]), x - total)
    source = tmp_path / "program.cpp"
    source.write_text("""\
#include "totals.hpp"

alignas(64) static unsigned char fast[TOTALS_FAST_IN_PLACE_BYTES];
alignas(64) static unsigned char slow[TOTALS_SLOW_IN_PLACE_BYTES];

int main()
{
    totals::Model model(fast, sizeof fast, slow, sizeof slow);
    const float x[12] = {1, 2, 3};
    float y[12];
    for (std::size_t shape = 0; shape < TOTALS_SHAPES; shape++) {
        if (model.step(shape, x, y) != TOTALS_OK || y[1] != -2 * static_cast<float>(shape)) {
            return 1;
        }
    }
    return model.step(TOTALS_SHAPES, x, y) != TOTALS_ERROR_SHAPE;
}
""")
    run(cc([*SANITIZED, *STRICT, "-std=c++11", source, *library.arguments], tmp_path / "program", "g++"))
