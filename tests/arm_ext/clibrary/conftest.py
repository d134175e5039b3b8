# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.api import digits
from tests.arm_ext import models, npu_models, state_models
from tests.arm_ext.clibrary.programs import MIXED, Library
from tests.arm_ext.sequence_models import convolution


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="session")
def digits_library(libraries: Path) -> Library:
    """The shipped int8 classifier for aarch64."""
    return _compiled(libraries / "digits", "arm")


@pytest.fixture(scope="session")
def host_digits(libraries: Path) -> Library:
    """The shipped int8 classifier for this machine, whose compilers have sanitizers."""
    return _compiled(libraries / "digits-host", "host")


@pytest.fixture(scope="session")
def host_cnn(libraries: Path) -> Library:
    """A float model with two outputs, one of them read by another layer."""
    return Library.of(models.residual_cnn(), libraries / "cnn-host", "host", name="cnn")


@pytest.fixture(scope="session")
def host_lstm(libraries: Path) -> Library:
    """A recurrent layer with its states in the arena."""
    states = {"h": "hn", "c": "cn"}
    return Library.of(state_models.lstm(), libraries / "lstm-host", "host", name="lstm", state=states)


@pytest.fixture(scope="session")
def host_total(libraries: Path) -> Library:
    """A model whose inputs are all states."""
    node = models.helper.make_node("Add", ["total", "one"], ["more"], name="add")
    model = models.model([node], {"total": [3]}, ["more"], {"one": np.ones(1, np.float32)})
    return Library.of(model, libraries / "total-host", "host", name="total", state={"total": "more"})


@pytest.fixture(scope="session")
def host_mapped(libraries: Path) -> Library:
    """A recurrent layer in two regions, with its weights in a file, and a state that does not begin with zeros."""
    states, first = {"h": "hn", "c": "cn"}, {"c": np.linspace(-1, 1, 7, dtype=np.float32).reshape(1, 1, 7)}
    folder = libraries / "mapped-host"
    options = {"state": states, "state_init": first, "weights": "file", "memory": "fast=256,slow=64K"}
    return Library.of(state_models.lstm(), folder, "host", name="mapped", **options)


@pytest.fixture(scope="session")
def host_lengths(libraries: Path) -> Library:
    """Convolutions along a length up to 40, whose first output is half as long."""
    shapes = {"x": (1, 8, "n<=40")}
    return Library.of(convolution(), libraries / "lengths-host", "host", name="seq", shapes=shapes)


@pytest.fixture(scope="session")
def host_samples(libraries: Path) -> Library:
    """Two layers for any number of samples."""
    shapes = {"x": ("n", 31)}
    return Library.of(models.mlp("n"), libraries / "samples-host", "host", name="many", shapes=shapes)


@pytest.fixture(scope="session")
def mixed(libraries: Path) -> Library:
    """A quantised model with regions for an NPU, and a float head."""
    return Library.of(npu_models.mixed(), libraries / "mixed-host", "host", name="mixed", npu=MIXED)


@pytest.fixture(scope="session")
def host_shared(libraries: Path) -> Library:
    """A model whose kernels up to 4 threads share: products, and attention with a workspace for each thread."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((256, 320), dtype=np.float32), "shape": np.array([1, 300, 8, 40])}
    weights["back"] = np.array([300, 320])
    nodes = [
        models.helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        models.helper.make_node("Reshape", ["h", "shape"], ["parts"], name="heads"),
        models.helper.make_node("Transpose", ["parts"], ["q"], name="query", perm=[0, 2, 1, 3]),
        models.helper.make_node("Transpose", ["parts"], ["k"], name="key", perm=[0, 2, 3, 1]),
        models.helper.make_node("MatMul", ["q", "k"], ["scores"], name="scores"),
        models.helper.make_node("Softmax", ["scores"], ["shares"], name="shares", axis=-1),
        models.helper.make_node("MatMul", ["shares", "q"], ["y"], name="attend"),
    ]
    model = models.model(nodes, {"x": [300, 256]}, ["y"], weights)
    return Library.of(model, libraries / "shared-host", "host", name="shared", threads=4)


def _compiled(folder: Path, target: str) -> Library:
    inputs = [digits.held_out()[0][:1]]
    return Library(
        arm_ext.compile(digits.model_path(), target, folder, emit="c-library", inputs=inputs).package
    )
