# SPDX-License-Identifier: Apache-2.0
"""Libraries that take any number of samples."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import arm_ext
from arm_ext import LibraryModel
from arm_ext.common.errors import UsageError
from tests.arm_ext.clibrary.programs import HERE, STRICT, Library, cc, cross, python_module, run
from tests.arm_ext.clibrary.test_several_models import saved, selftest
from tests.arm_ext.models import model
from tests.arm_ext.test_dynamic_batch import main

SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SHAPES = {"x": ("n", 3, 5), "all": (3, 5)}


def mean(rows: int | str = 3) -> onnx.ModelProto:
    """A mean of what two layers give, one of which adds a tensor that is the same for all samples."""
    weights = {"w": np.random.default_rng(0).standard_normal((5, 9), np.float32)}
    nodes = [
        helper.make_node("Add", ["x", "all"], ["s"], name="add"),
        helper.make_node("MatMul", ["s", "w"], ["m"], name="product"),
        helper.make_node("Relu", ["m"], ["r"], name="relu"),
        helper.make_node("ReduceMean", ["r"], ["y"], name="mean", axes=[1], keepdims=0),
    ]
    return model(nodes, {"x": ["n", rows, 5], "all": [rows, 5]}, ["y"], weights)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library.of(mean(), tmp_path_factory.mktemp("samples") / "mean", "host", name="mean", shapes=SHAPES)


def test_samples_equal_those_computed_alone(library: Library, tmp_path: Path) -> None:
    assert "all samples agree" in run(
        cc([*SANITIZED, *STRICT, HERE / "samples.c", *library.arguments], tmp_path / "samples")
    )
    assert "all outputs agree" in run(cc([*SANITIZED, *STRICT, *library.selftest], tmp_path / "selftest"))


def test_samples_on_aarch64_in_regions_and_threads(tmp_path: Path) -> None:
    options = {"memory": "fast=64,slow=64K", "threads": 2, "weights": "file"}
    library = Library.of(mean(), tmp_path / "mean", "arm", name="mean", shapes=SHAPES, **options)
    assert "all outputs agree" in run(cross([*STRICT, *library.selftest], tmp_path / "selftest"))
    one = Library.of(mean(), tmp_path / "one", "arm", name="mean", shapes=SHAPES)
    flags = [*STRICT, HERE / "samples.c", *one.arguments]
    assert "all samples agree" in run(cross(flags, tmp_path / "samples"))


def test_the_class_takes_the_number_of_samples(library: Library, tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("""
#include "mean.hpp"
int main()
{
    static float x[4 * MEAN_INPUT_X_ELEMENTS], all[MEAN_INPUT_ALL_ELEMENTS], y[4 * MEAN_OUTPUT_Y_ELEMENTS];
    mean::Model model;
    return model.run(4, x, all, y) != MEAN_OK || model.run(0, x, all, y) != MEAN_OK ||
           model.run(MEAN_SAMPLES_MAX + 1, x, all, y) != MEAN_ERROR_LENGTH;
}
""")
    run(cc([*SANITIZED, *STRICT, "-std=c++11", source, *library.arguments], tmp_path / "program", "g++"))


def test_python_finds_the_number_by_the_inputs(library: Library, tmp_path: Path) -> None:
    given = python_module(library, tmp_path)["Model"]()
    call = main(arm_ext.compile(mean(), "host", tmp_path / "package", shapes=SHAPES).package.path)
    shared = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)
    for count in (1, 2, 7):
        x = np.random.default_rng(count).standard_normal((count, 3, 5), np.float32)
        (found,), (expected,) = given.run(x, shared), call(x, shared)
        np.testing.assert_array_equal(np.asarray(found), expected)
    with pytest.raises(ValueError, match="the size of a buffer is not that of its tensor"):
        given.run(np.zeros(16, np.float32), shared)


def test_samples_of_several_shapes_are_refused(tmp_path: Path) -> None:
    shapes = {"x": ("n", [3, 8], 5), "all": ([3, 8], 5)}
    with pytest.raises(
        UsageError, match=r"run takes a shape or a number of samples, not both.* copy of the model"
    ):
        arm_ext.compile(mean(), "host", tmp_path / "a", emit="c-library", shapes=shapes)
    assert not (tmp_path / "a").exists()


def test_copies_of_a_model_take_samples_of_several_shapes(tmp_path: Path) -> None:
    """What the refusal says to do instead."""
    paths = saved(tmp_path, short=mean("rows"), long=mean("rows"))
    given = [
        LibraryModel(path, shapes={"x": ("n", rows, 5), "all": (rows, 5)})
        for path, rows in zip(paths, (3, 8), strict=True)
    ]
    library = arm_ext.compile_library(given, "host", tmp_path / "both")
    assert run(cc([*STRICT, *selftest(library)], tmp_path / "selftest")).count("all outputs agree") == 2
    weight = np.random.default_rng(0).standard_normal((5, 9), np.float32)
    infos = [model.package.manifest.library for model in library.models]
    assert all(info is not None and info.shared_weight_bytes >= weight.nbytes for info in infos)
