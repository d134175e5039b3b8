# SPDX-License-Identifier: Apache-2.0
"""model.so runs under apache-tvm's own aarch64 wheel, in a Python that has nothing of ours."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api import digits
from arm_ext.package import Package
from tests.arm_ext import npu_models
from tests.board.stock_python import is_available, stock_python

# What a user writes on the board: model.so, inputs and outputs of each model are the arguments.
SCRIPT = """
import importlib.util, sys
import numpy as np
import tvm
from tvm import relax

ours = [name for name in ("arm_ext", "relay_passes", "schedules") if importlib.util.find_spec(name)]
assert not ours, ours
for so, inputs, outputs in zip(*[iter(sys.argv[1:])] * 3):
    main = relax.VirtualMachine(tvm.runtime.load_module(so), tvm.cpu())["main"]
    np.save(outputs, np.stack([main(tvm.runtime.tensor(x)).numpy() for x in np.load(inputs)]))
"""

TARGET = "cortex-a55"
PRECISIONS: tuple[digits.Precision, ...] = ("int8", "fp32")

stock_only = pytest.mark.skipif(
    not is_available(), reason="the archive of this distribution has no arm64 packages"
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Package, np.ndarray]]:
    """The digits in both precisions and a model with regions for an NPU, with what they gave in one process.

    Emulated, Python and its modules take ten seconds to start.
    """
    folder, images = tmp_path_factory.mktemp("stock"), digits.held_out()[0][:, None]
    packages = {
        name: arm_ext.compile(digits.model_path(name), target=TARGET, output=folder / name).package
        for name in PRECISIONS
    }
    options = NpuOptions("ethos-u65-256", fail_on_fallback=True)
    packages["npu"] = arm_ext.compile(npu_models.whole(), TARGET, folder / "npu", npu=options).package
    arguments: list[Path] = []
    for name, package in packages.items():
        inputs = np.stack(package.selftest().inputs) if name == "npu" else images
        np.save(folder / f"{name}-inputs.npy", inputs)
        arguments += [package.so, folder / f"{name}-inputs.npy", folder / f"{name}-outputs.npy"]
    cpu = packages["npu"].manifest.target.qemu_cpu
    assert cpu is not None
    stock_python().run(SCRIPT, arguments, cpu=cpu)
    return {name: (package, np.load(folder / f"{name}-outputs.npy")) for name, package in packages.items()}


@stock_only
@pytest.mark.parametrize("precision", PRECISIONS)
def test_package_runs_under_the_stock_wheel(
    ran: dict[str, tuple[Package, np.ndarray]], precision: digits.Precision
) -> None:
    (package, outputs), (images, labels) = ran[precision], digits.held_out()
    assert np.mean(outputs[:, 0].argmax(axis=1) == labels) == digits.ACCURACY[precision]
    if precision == "fp32":  # in int8 one tie that falls the other way moves what follows by whole steps
        session = onnxruntime.InferenceSession(
            digits.model_path(precision), providers=["CPUExecutionProvider"]
        )
        expected = np.stack([session.run(None, {"image": image})[0] for image in images[:, None]])
        bound = package.manifest.check.relative_bound
        assert np.abs(outputs - expected).max() <= bound * np.abs(expected).max()


@stock_only
def test_package_runs_under_the_stock_wheel_with_regions_for_an_npu(
    ran: dict[str, tuple[Package, np.ndarray]],
) -> None:
    package, outputs = ran["npu"]
    np.testing.assert_array_equal(outputs, np.stack(package.selftest().expected))


@stock_only
def test_a_script_leaves_the_stock_python_as_it_is() -> None:
    """With a file more it would count as damaged, and be fetched again by the next process."""
    python = stock_python()
    before = {path for folder in (python.root, python.site) for path in folder.rglob("*")}
    python.run("import this", [], cpu="max")
    assert before == {path for folder in (python.root, python.site) for path in folder.rglob("*")}
