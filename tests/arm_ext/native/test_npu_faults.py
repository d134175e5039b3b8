# SPDX-License-Identifier: Apache-2.0
"""Each way in which a device fails: the error or the fall-back, what is tried again, and nothing left."""

import errno
import re
from dataclasses import dataclass

import pytest

from tests.arm_ext.native.npu_device import Device, Fault
from tests.arm_ext.native.npu_regions import Case, Module
from tests.arm_ext.native.test_npu_runtime import assert_ran, assert_untouched


@dataclass(frozen=True)
class Failing:
    """A request that fails from its `after`-th call on, what the user reads, and whether that lasts."""

    request: str
    error: int
    reason: str
    lasts: bool = False
    after: int = 0


GONE = r"the NPU failed or is gone at .* see dmesg, and start the program again when it is back"
MEMORY = r"no memory for \d+ bytes; the NPU wants it contiguous: .*cma="
FILES = r"too many open files at .*ulimit -n"
FAULTS = [
    Failing("open", errno.EACCES, r"permission denied; add the user to the group render", lasts=True),
    Failing("open", errno.EBUSY, r"busy at opening; end what else uses the NPU"),
    Failing("open", errno.EMFILE, FILES),
    Failing("query", errno.EINVAL, r"the driver refuses a query \(Invalid argument\); dmesg", lasts=True),
    Failing("bo_create", errno.ENOMEM, MEMORY),
    Failing("bo_create", errno.ENOMEM, MEMORY, after=1),
    Failing("mmap_offset", errno.ENOMEM, MEMORY),
    Failing("commands_create", errno.EINVAL, r"the driver refuses the command stream", lasts=True),
    Failing("commands_create", errno.ENOMEM, r"no memory for the command stream"),
    Failing("submit", errno.EBUSY, r"busy at a job"),
    Failing("submit", errno.EOVERFLOW, r"the driver refuses a job", lasts=True),
    Failing("submit", errno.ENODEV, GONE, lasts=True),
    Failing("prime", errno.EMFILE, FILES),
    Failing("export_sync", errno.EMFILE, FILES),
    Failing("bo_wait", errno.ENODEV, GONE, lasts=True),
    Failing("bo_wait", errno.ETIME, r"not done after 10000 ms; .*ARM_EXT_NPU_TIMEOUT_MS", lasts=True),
    Failing("sync_info", errno.EIO, GONE, lasts=True),
]


@pytest.fixture(params=FAULTS, ids=lambda f: f"{f.request}-{errno.errorcode[f.error]}-{f.after}")
def failing(request: pytest.FixtureRequest, npu_device: Device) -> Failing:
    fault: Failing = request.param
    npu_device.faults[fault.request] = Fault(fault.error, fault.after)
    return fault


def test_falls_back_and_recovers_unless_that_is_for_good(
    failing: Failing, npu_device: Device, npu_module: Module, npu_case: Case
):
    assert_untouched(npu_module.run(npu_case))
    assert re.search(failing.reason, npu_module.reason)
    assert "/dev/accel/accel0" in npu_module.reason
    npu_device.faults.clear()
    asked = npu_device.asked.total()
    if failing.lasts:
        assert_untouched(npu_module.run(npu_case))
        assert npu_device.asked.total() == asked
    else:
        assert_ran(npu_case, npu_module.run(npu_case))
        assert npu_module.reason == ""


def test_raises_if_told_so(failing: Failing, npu_module: Module, npu_case: Case):
    with pytest.raises(RuntimeError, match=f"region 0 does not run on the NPU: .*{failing.reason}"):
        npu_module.run(npu_case, fail=True)


def test_the_device_goes_between_two_runs(npu_device: Device, npu_module: Module, npu_case: Case):
    assert_ran(npu_case, npu_module.run(npu_case))
    npu_device.faults["submit"] = Fault(errno.ENODEV)
    assert_untouched(npu_module.run(npu_case))
    assert npu_device.held == (0, 0)


def test_a_region_that_does_not_fit_leaves_the_others(
    npu_device: Device, npu_module: Module, npu_case: Case, larger_npu_case: Case
):
    assert_ran(npu_case, npu_module.run(npu_case, region=0))
    npu_device.faults["bo_create"] = Fault(errno.ENOMEM, after=1)  # the arena, which the second wants larger
    assert_untouched(npu_module.run(larger_npu_case, region=1))
    npu_device.faults.clear()
    assert_ran(npu_case, npu_module.run(npu_case, region=0))
    assert_ran(larger_npu_case, npu_module.run(larger_npu_case, region=1))


@pytest.mark.parametrize("request_", ["prime", "export_sync"])
def test_buffers_of_a_job_that_was_not_waited_for_are_not_used_again(
    request_: str, npu_device: Device, npu_module: Module, npu_case: Case
):
    npu_device.hang = True
    npu_device.faults[request_] = Fault(errno.EMFILE, times=1)
    assert_untouched(npu_module.run(npu_case))
    assert npu_device.held == (0, 0)


@pytest.mark.parametrize("request_", ["mmap_offset", "commands_create"])
def test_what_could_not_be_loaded_does_not_pile_up(
    request_: str, npu_device: Device, npu_module: Module, npu_case: Case
):
    npu_device.faults[request_] = Fault(errno.ENOMEM)
    for _ in range(3):
        assert_untouched(npu_module.run(npu_case))
    assert list(npu_device.folder.glob("buffer-*")) == []


def test_a_job_that_hangs_times_out(
    npu_device: Device, npu_module: Module, npu_case: Case, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ARM_EXT_NPU_TIMEOUT_MS", "30")
    npu_device.hang = True
    assert_untouched(npu_module.run(npu_case))
    assert "not done after 30 ms" in npu_module.reason


def test_a_job_that_the_driver_gave_up_is_no_result(npu_device: Device, npu_module: Module, npu_case: Case):
    # The wait ends as if it were done; only the status of its fence tells.
    npu_device.crash = True
    assert_untouched(npu_module.run(npu_case))
    assert "the NPU failed or is gone at a job (Operation canceled)" in npu_module.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config": 0x10003007}, r"has configuration 0x10003007, architecture 1\.0; the model .* for ethos-u65-256"),
        ({"config": 0x20003008}, r"has configuration 0x20003008"),
        ({"arch": 0x20066001}, r"architecture 2\.0; .*\(0x10003008, 1\.0\): compile it with --npu for this one"),
        ({"sram": 4096}, r"has 4096 bytes of SRAM, the model wants 5712: compile it with --sram-budget 4096"),
    ],
)  # fmt: skip
def test_another_npu_than_the_model_is_for(
    change: dict[str, int], reason: str, npu_device: Device, npu_module: Module, npu_case: Case
):
    vars(npu_device).update(change)
    with pytest.raises(RuntimeError, match=reason):
        npu_module.run(npu_case, fail=True)
    assert_untouched(npu_module.run(npu_case))
    assert npu_device.asked["bo_create"] == 0


def test_a_newer_npu_of_the_same_kind_will_do(npu_device: Device, npu_module: Module, npu_case: Case):
    npu_device.arch += 1 << 20
    npu_device.config |= 1 << 27  # custom DMA, which the model does without
    assert_ran(npu_case, npu_module.run(npu_case))
