# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arm_ext.ethosu.tosa.networks import flip_target, residual
from tests.arm_ext.native.npu_device import Device
from tests.arm_ext.native.npu_regions import Case, Module

NPU = "ethos-u65-256"


@pytest.fixture(scope="session")
def npu_case() -> Case:
    return Case.of(flip_target, NPU)


@pytest.fixture(scope="session")
def larger_npu_case() -> Case:
    return Case.of(residual, NPU)


@pytest.fixture
def npu_device(npu_case: Case, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device that runs the payload of `npu_case`; it is empty at the end, whatever a test did."""
    with Device.for_payload(npu_case.payload) as device:
        monkeypatch.setenv("ARM_EXT_NPU_TEST_DEVICE", str(device.folder))
        yield device
        assert device.held == (0, 0)


@pytest.fixture
def npu_module(npu_device: Device, tmp_path: Path) -> Iterator[Module]:
    """A model.so; unloaded before the device looks what is left of it."""
    module = Module(tmp_path)
    yield module
    module.close()
