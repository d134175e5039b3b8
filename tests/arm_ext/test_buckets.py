# SPDX-License-Identifier: Apache-2.0
"""Several shapes in one package: each is computed as alone, any other is refused, weights are there once."""

import json
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

import arm_ext
from arm_ext.api.compile import CompileResult
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.package import SO
from tests.arm_ext.models import mlp, model

SIZES = (1, 7, 31)


def two_inputs() -> object:
    """A product of two inputs that both are [1, n, 9], with two outputs; the second one's shape is the same always."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"),
        helper.make_node("Mul", ["h", "mask"], ["y"], name="mul"),
        helper.make_node("ReduceMean", ["y"], ["z"], name="mean", axes=[1], keepdims=0),
    ]
    shapes: dict[str, list[int | str]] = {"x": [1, "n", 9], "mask": [1, "n", 64]}
    return model(nodes, shapes, ["y", "z"], {"w": rng.standard_normal((9, 64), dtype=np.float32)})


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompileResult:
    out = tmp_path_factory.mktemp("buckets") / "p"
    shapes = {"x": (1, SIZES, 9), "mask": (1, SIZES, 64)}
    return arm_ext.compile(two_inputs(), "host", out, shapes=shapes)


def call(package: Path, *inputs: np.ndarray) -> list[np.ndarray]:
    """As a user of the stock runtime does it."""
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(package / SO)), tvm.cpu())
    return [output.numpy() for output in vm["main"](*map(tvm.runtime.tensor, inputs))]


def test_each_shape_gives_what_a_package_of_it_alone_gives(compiled: CompileResult, tmp_path: Path):
    rng = np.random.default_rng(0)
    for size in SIZES:
        inputs = [rng.standard_normal((1, size, width), dtype=np.float32) for width in (9, 64)]
        shapes = {"x": (1, size, 9), "mask": (1, size, 64)}
        alone = arm_ext.compile(two_inputs(), "host", tmp_path / str(size), shapes=shapes).package.path
        for found, expected in zip(call(compiled.package.path, *inputs), call(alone, *inputs), strict=True):
            assert found.shape == expected.shape
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("sizes", [(8, 8), (1, 7)])
def test_other_shapes_are_refused_with_those_that_there_are(compiled: CompileResult, sizes: tuple[int, int]):
    inputs = [np.zeros((1, size, width), np.float32) for size, width in zip(sizes, (9, 64), strict=True)]
    with pytest.raises(
        ValueError, match=r"x float32\[1, 1, 9\].*x float32\[1, 7, 9\].*x float32\[1, 31, 9\]"
    ):
        call(compiled.package.path, *inputs)


def test_equal_weights_and_kernels_are_stored_once(tmp_path: Path):
    one = arm_ext.compile(mlp("n"), "arm", tmp_path / "one", shapes={"x": (7, 31)})
    two = arm_ext.compile(mlp("n"), "arm", tmp_path / "two", shapes={"x": ([7, 14], 31)})
    # Both take tiles of 7 rows, and weights as those want them.
    assert two.package.manifest.memory.weight_bytes == one.package.manifest.memory.weight_bytes
    names = [kernel.symbol for kernel in two.report.kernels]
    assert len(names) == len(set(names)) == 2 * len(one.report.kernels)


def test_manifest_has_each_bucket_and_the_greatest_peak(compiled: CompileResult):
    manifest = compiled.package.manifest
    assert [[t.shape for t in b.inputs] for b in manifest.buckets] == [[[1, n, 9], [1, n, 64]] for n in SIZES]
    peaks = [bucket.memory.peak_activation_bytes for bucket in manifest.buckets]
    assert manifest.memory.peak_activation_bytes == max(peaks) == peaks[-1]
    assert manifest.inputs == manifest.buckets[-1].inputs
    assert [bucket.macs for bucket in manifest.buckets] == [n * 9 * 64 for n in SIZES]


def test_board_checks_every_bucket_and_runs_the_one_that_fits(tmp_path: Path):
    shapes = {"x": (1, [1, 7], 9), "mask": (1, [1, 7], 64)}
    package = arm_ext.compile(two_inputs(), output=tmp_path / "p", shapes=shapes).package
    checks = arm_ext.run(package, check=True).checks
    assert [check.name for check in checks[:2]] == [
        f"{y} of {package.views()[0].describe_inputs()}" for y in "yz"
    ]
    assert len(checks) == 4
    assert all(check.passed and check.source is not None for check in checks)
    found = arm_ext.run(package, inputs={"x": np.ones((1, 7, 9), np.float32)})
    assert [value.shape for value in found.outputs.values()] == [(1, 7, 64), (1, 64)]


def test_run_refuses_other_shapes_before_a_board_starts(compiled: CompileResult):
    with pytest.raises(UsageError, match=r"x float32\[1, 8, 9\] fits none.*x float32\[1, 31, 9\]"):
        arm_ext.run(compiled.package, "host:1", inputs={"x": np.ones((1, 8, 9), np.float32)})


def test_report_names_the_kernels_of_the_library(compiled: CompileResult):
    exported = (compiled.package.path / SO).read_bytes()
    ours = [kernel.symbol for kernel in compiled.report.kernels if kernel.kernel != "view"]
    assert ours
    assert all(f"{symbol}_compute_".encode() in exported or symbol.encode() in exported for symbol in ours)
    assert {row.source for row in compiled.report.nodes} == {"mm", "mul", "mean"}


def test_inputs_of_the_self_test_are_of_one_shape(tmp_path: Path):
    with pytest.raises(UsageError, match="inputs for the self-test have one shape"):
        arm_ext.compile(mlp("n"), "host", tmp_path / "p", shapes={"x": ([1, 2], 31)}, inputs=[np.zeros(1)])


def test_budget_is_for_the_greatest(compiled: CompileResult, tmp_path: Path):
    memory = compiled.package.manifest.memory
    needed, shapes = memory.peak_activation_bytes, {"x": (1, SIZES, 9), "mask": (1, SIZES, 64)}
    message = rf"exceed memory_budget {needed - 1:,}: activations {needed:,}; tensors alive"
    with pytest.raises(ModelError, match=message):
        arm_ext.compile(
            two_inputs(), "host", tmp_path / "p", shapes=shapes, memory_budget=needed - 1, emit="c-library"
        )
    whole = needed + memory.weight_bytes
    with pytest.raises(ModelError, match=rf"^{whole:,} bytes of memory exceed memory_budget {whole - 1:,}: "):
        arm_ext.compile(two_inputs(), "host", tmp_path / "p", shapes=shapes, memory_budget=whole - 1)
    assert not (tmp_path / "p").exists()
    assert arm_ext.compile(two_inputs(), "host", tmp_path / "p", shapes=shapes, memory_budget=whole).package


def test_phases_of_each_are_dumped(tmp_path: Path):
    arm_ext.compile(mlp("n"), "host", tmp_path / "p", shapes={"x": ([1, 2], 31)}, dump_phases=tmp_path / "d")
    assert sorted(path.name for path in (tmp_path / "d").iterdir() if path.is_dir()) == ["1", "2"]
    assert json.loads((tmp_path / "p" / "report.json").read_text())["kernels"]
