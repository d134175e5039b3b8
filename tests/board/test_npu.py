# SPDX-License-Identifier: Apache-2.0
"""One package with and without an NPU: the same bytes, and no slower without than a package for the CPU alone.

The NPU is the functional model behind the system calls of Linux's driver.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import onnx
import pytest
from elftools.elf.elffile import ELFFile

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api import packing
from arm_ext.api.bench import bench
from arm_ext.board.confine import OFF
from arm_ext.cli import invoke
from arm_ext.common.npu_status import NpuStatus
from arm_ext.ethosu.payload import Payload
from arm_ext.measure.profile import CountReport
from arm_ext.native.build import npu_runtime
from arm_ext.package import Package
from tests.arm_ext import npu_models
from tests.arm_ext.ethosu.partition.test_networks import MODELS
from tests.arm_ext.native.npu_device import Device
from tests.arm_ext.native.npu_regions import SYSTEM

TARGET = "cortex-a55"
WISHES = ("conv2d", "linear", "softmax")  # in five regions of the mixed model, with the CPU between them


def mobilenet_v2() -> onnx.ModelProto:
    zoo = pytest.importorskip("zoo", reason="the zoo is made with torch; pip install -e .[torch]")
    return zoo.quantized_model("mobilenet_v2", zoo.float_model("mobilenet_v2"))


CASES: dict[str, tuple[str | Callable[[], onnx.ModelProto], NpuOptions]] = {
    "kws": ("kws_ref_model.tflite", NpuOptions("ethos-u65-256", fail_on_fallback=True)),
    "resnet8": ("pretrainedResnet_quant.tflite", NpuOptions("ethos-u85-512", fail_on_fallback=True)),
    "mobilenet_v2": (mobilenet_v2, NpuOptions("ethos-u85-512", fail_on_fallback=True)),
    "mixed": (npu_models.mixed, NpuOptions("ethos-u65-256", npu_ops=WISHES)),
}
LONG = ("resnet8", "mobilenet_v2")
# What a package may take more where there is no NPU.
DEARER = 1.25


def compiled(name: str, folder: Path, npu: bool = True) -> Package:
    model, options = CASES[name]
    if isinstance(model, str) and not (MODELS / model).is_file():
        pytest.skip(f"{MODELS / model} is not there")
    source: Path | onnx.ModelProto = MODELS / model if isinstance(model, str) else model()
    return arm_ext.compile(source, TARGET, folder / "p", npu=options if npu else None).package


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in CASES],
)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    """A package whose runtime finds a device where a test has one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "npu_runtime", partial(npu_runtime, system=SYSTEM))
        return compiled(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def device(package: Package, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    assert package.manifest.npu is not None
    payload = Payload.from_bytes(package.read(package.manifest.npu.regions[0].payload.path))
    with Device.for_payload(payload) as device:
        monkeypatch.setenv("ARM_EXT_NPU_TEST_DEVICE", str(device.folder))
        monkeypatch.setenv(OFF, "no")  # the device is a process of ours, behind a socket
        yield device
        assert device.held == (0, 0)


def ran(package: Package) -> NpuStatus:
    """Where regions ran in a run whose every byte is what the host's CPU computes."""
    result = arm_ext.run(package, "virtual", check=True)
    assert all(check.expected.exact for check in result.checks)
    assert result.npu is not None
    return result.npu


def test_without_an_npu_the_cpu_gives_the_bytes_of_all_models_of_it(package: Package):
    status = ran(package)
    assert status.device is None
    assert {(region.npu, region.cpu) for region in status.regions} == {(0, 1)}
    assert all("driver ethosu" in region.reason for region in status.regions)
    assert arm_ext.verify(package).equal


def test_with_an_npu_its_bytes_are_the_same(package: Package, device: Device):
    assert package.manifest.npu is not None
    status = ran(package)
    assert [region.region for region in status.regions] == list(range(len(package.manifest.npu.regions)))
    assert {(region.npu, region.cpu) for region in status.regions} == {(1, 0)}
    assert device.asked["submit"] == len(status.regions)


def test_the_cpu_may_be_asked_for(package: Package, device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ARM_EXT_NPU", "cpu")
    assert {(region.npu, region.cpu) for region in ran(package).regions} == {(0, 1)}
    assert not device.asked


@pytest.fixture(scope="module")
def kws(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """A package as a user compiles it."""
    return compiled("kws", tmp_path_factory.mktemp("own"))


@pytest.mark.long  # counts two packages, whose bytes are compared above
def test_without_an_npu_it_takes_little_more_than_a_package_for_the_cpu(kws: Package, tmp_path: Path):
    here, alone = (bench(package) for package in (kws, compiled("kws", tmp_path, npu=False)))
    assert isinstance(here, CountReport)
    assert isinstance(alone, CountReport)
    assert here.npu is not None
    assert alone.npu is None
    assert here.instructions <= DEARER * alone.instructions


def test_a_package_for_an_npu_needs_the_c_library_alone(kws: Package):
    with kws.so.open("rb") as file:
        tags = ELFFile(file).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        assert {tag.needed for tag in tags} <= {"libc.so.6", "libm.so.6"}


@pytest.mark.parametrize("verb", ["run", "bench"])
def test_where_regions_ran_is_said(kws: Package, verb: str, capsys: pytest.CaptureFixture[str]):
    assert invoke([verb, str(kws.path)]) == 0
    assert "NPU region 0 ran on the CPU: no NPU" in capsys.readouterr().out
