# SPDX-License-Identifier: Apache-2.0
"""model.so runs under apache-tvm's own aarch64 wheel, in a Python that has nothing of ours."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api import digits
from tests.arm_ext import npu_models
from tests.board.stock_python import is_available, stock_python

# What a user writes on the board: model.so, inputs and outputs are the arguments.
SCRIPT = """
import importlib.util, sys
import numpy as np
import tvm
from tvm import relax

so, inputs, outputs = sys.argv[1:]
ours = [name for name in ("arm_ext", "relay_passes", "schedules") if importlib.util.find_spec(name)]
assert not ours, ours
main = relax.VirtualMachine(tvm.runtime.load_module(so), tvm.cpu())["main"]
np.save(outputs, np.stack([main(tvm.runtime.tensor(x)).numpy() for x in np.load(inputs)]))
"""


stock_only = pytest.mark.skipif(
    not is_available(), reason="the archive of this distribution has no arm64 packages"
)


@stock_only
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_package_runs_under_the_stock_wheel(tmp_path: Path, precision: digits.Precision) -> None:
    images, labels = digits.held_out()
    images = images[:, None]
    np.save(tmp_path / "inputs.npy", images)
    package = arm_ext.compile(digits.model_path(precision), target="arm", output=tmp_path / "package").package
    cpu = package.manifest.target.qemu_cpu
    assert cpu is not None
    stock_python().run(SCRIPT, [package.so, tmp_path / "inputs.npy", tmp_path / "outputs.npy"], cpu=cpu)
    outputs = np.load(tmp_path / "outputs.npy")

    assert np.mean(outputs[:, 0].argmax(axis=1) == labels) == digits.ACCURACY[precision]
    if precision == "fp32":  # in int8 one tie that falls the other way moves what follows by whole steps
        session = onnxruntime.InferenceSession(
            digits.model_path(precision), providers=["CPUExecutionProvider"]
        )
        expected = np.stack([session.run(None, {"image": image})[0] for image in images])
        bound = package.manifest.check.relative_bound
        assert np.abs(outputs - expected).max() <= bound * np.abs(expected).max()


@stock_only
def test_package_runs_under_the_stock_wheel_with_regions_for_an_npu(tmp_path: Path) -> None:
    options = NpuOptions("ethos-u65-256", fail_on_fallback=True)
    package = arm_ext.compile(npu_models.whole(), "cortex-a55", tmp_path / "package", npu=options).package
    selftest = package.selftest()
    np.save(tmp_path / "inputs.npy", np.stack(selftest.inputs))
    cpu = package.manifest.target.qemu_cpu
    assert cpu is not None
    stock_python().run(SCRIPT, [package.so, tmp_path / "inputs.npy", tmp_path / "outputs.npy"], cpu=cpu)
    np.testing.assert_array_equal(np.load(tmp_path / "outputs.npy"), np.stack(selftest.expected))


@stock_only
def test_a_script_leaves_the_stock_python_as_it_is() -> None:
    """With a file more it would count as damaged, and be fetched again by the next process."""
    python = stock_python()
    before = {path for folder in (python.root, python.site) for path in folder.rglob("*")}
    python.run("import this", [], cpu="max")
    assert before == {path for folder in (python.root, python.site) for path in folder.rglob("*")}
