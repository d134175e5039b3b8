# SPDX-License-Identifier: Apache-2.0
"""The runtime on a device that works: same bytes, nothing done twice, nothing left."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.arm_ext.ethosu.tosa import networks
from tests.arm_ext.native.npu_device import Device
from tests.arm_ext.native.npu_regions import PATTERN, Case, Module


def assert_ran(case: Case, result: tuple[bool, list[np.ndarray]]) -> None:
    ran, outputs = result
    assert ran
    for found, wanted in zip(outputs, case.outputs, strict=True):
        np.testing.assert_array_equal(found, wanted)


def assert_untouched(result: tuple[bool, list[np.ndarray]]) -> None:
    ran, outputs = result
    assert not ran
    for found in outputs:
        assert (found == PATTERN).all()


@pytest.mark.parametrize("npu", ["ethos-u65-256", "ethos-u65-512", "ethos-u85-512"])
@pytest.mark.parametrize("graph", ["residual", "cascade", "softmax", "concat"])
def test_gives_the_bytes_of_the_functional_model(
    npu: str, graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    case = Case.of(getattr(networks, graph), npu)
    with Device.for_payload(case.payload) as device:
        monkeypatch.setenv("ARM_EXT_NPU_TEST_DEVICE", str(device.folder))
        module = Module(tmp_path)
        assert_ran(case, module.run(case, fail=True))
        module.close()
        assert device.held == (0, 0)


def test_commands_are_loaded_and_buffers_made_once(npu_device: Device, npu_module: Module, npu_case: Case):
    for _ in range(3):
        assert_ran(npu_case, npu_module.run(npu_case))
    asked = npu_device.asked
    assert (asked["open"], asked["commands_create"], asked["bo_create"], asked["submit"]) == (1, 1, 2, 3)
    assert npu_module.status == {
        "mode": "auto",
        "device": "/dev/accel/accel0",
        "regions": [{"region": 0, "npu": 3, "cpu": 0, "reason": ""}],
    }


def test_regions_share_what_is_not_their_own(
    npu_device: Device, npu_module: Module, npu_case: Case, larger_npu_case: Case
):
    for _ in range(2):
        assert_ran(npu_case, npu_module.run(npu_case, region=1))
        assert_ran(larger_npu_case, npu_module.run(larger_npu_case, region=0))
    assert [row["region"] for row in npu_module.status["regions"]] == [0, 1]  # type: ignore[attr-defined]
    # Of each the weights; the arena, and once more when the second wants a larger one.
    assert npu_device.asked["bo_create"] == 4
    assert len(list(npu_device.folder.glob("buffer-*"))) == 3


def test_two_models_have_each_their_own(npu_device: Device, npu_case: Case, tmp_path: Path):
    modules = [Module(tmp_path, name) for name in ("first", "second")]
    for module in modules * 2:
        assert_ran(npu_case, module.run(npu_case))
    assert npu_device.asked["open"] == 2
    modules[0].close()
    assert_ran(npu_case, modules[1].run(npu_case))
    modules[1].close()


def test_a_child_process_opens_the_device_itself(npu_device: Device, npu_module: Module, npu_case: Case):
    assert_ran(npu_case, npu_module.run(npu_case))
    child = os.fork()
    if child == 0:
        ran, outputs = npu_module.run(npu_case)
        os._exit(not (ran and all(map(np.array_equal, outputs, npu_case.outputs))))
    assert os.waitpid(child, 0)[1] == 0
    assert npu_device.asked["open"] == 2
    assert_ran(npu_case, npu_module.run(npu_case))
    assert npu_device.asked["open"] == 2


@pytest.mark.parametrize("fail", [False, True])
def test_where_there_is_no_npu_the_cpu_runs(
    fail: bool, npu_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("ARM_EXT_NPU_TEST_DEVICE", raising=False)
    module = Module(tmp_path)
    assert_untouched(module.run(npu_case, fail=fail))
    assert module.reason == "no NPU: no /dev/accel/accel* is of Linux's driver ethosu"


def test_another_driver_is_not_asked(npu_device: Device, npu_module: Module, npu_case: Case):
    npu_device.driver = b"rocket"
    assert_untouched(npu_module.run(npu_case, fail=True))
    assert npu_device.asked["query"] == 0


def test_a_later_node_is_found(npu_device: Device, npu_module: Module, npu_case: Case):
    npu_device.node = 63
    assert_ran(npu_case, npu_module.run(npu_case))


def test_linux_has_no_driver_for_u55(npu_device: Device, npu_module: Module):
    case = Case.of(networks.flip_target, "ethos-u55-128")
    assert_untouched(npu_module.run(case, fail=True))
    assert npu_module.reason == "Linux has no driver for ethos-u55-128"
    assert npu_device.asked["open"] == 0


def test_the_environment_keeps_the_npu_out(
    npu_device: Device, npu_module: Module, npu_case: Case, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ARM_EXT_NPU", "cpu")
    assert_untouched(npu_module.run(npu_case, fail=True))
    assert npu_device.asked["open"] == 0
    assert npu_module.status["mode"] == "cpu"


def test_the_environment_insists_on_the_npu(npu_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ARM_EXT_NPU_TEST_DEVICE", raising=False)
    monkeypatch.setenv("ARM_EXT_NPU", "npu")
    with pytest.raises(RuntimeError, match="region 0 does not run on the NPU: no NPU: no /dev/accel"):
        Module(tmp_path).run(npu_case)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ARM_EXT_NPU", "gpu"), ("ARM_EXT_NPU_TIMEOUT_MS", "1s"), ("ARM_EXT_NPU_TIMEOUT_MS", "0")],
)
def test_a_wrong_setting_is_refused(
    name: str, value: str, npu_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match=f"{name} is n"):
        Module(tmp_path).run(npu_case)
