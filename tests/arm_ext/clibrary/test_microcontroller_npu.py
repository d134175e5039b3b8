# SPDX-License-Identifier: Apache-2.0
"""An Ethos-U beside an emulated Cortex-M: Arm's driver is a functional model on the machine that emulates the core."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api.run_library import bare_model, run_on_bare, selftest_of
from arm_ext.clibrary.memory import M_CACHE_LINE
from arm_ext.clibrary.objects import symbols_of
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.package import Package, load_package
from tests.arm_ext import npu_models
from tests.arm_ext.clibrary.programs import MIXED
from tests.arm_ext.clibrary.test_microcontrollers import DIGITS

CORE = "cortex-m55"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """A model of several regions, with the CPU's code for them, and other layers between them."""
    folder = tmp_path_factory.mktemp("npu") / "mixed"
    arm_ext.compile(npu_models.mixed(), target=CORE, output=folder, emit="c-library", npu=MIXED)
    return load_package(folder, bare=True)


def regions_of(library: Package) -> int:
    assert library.manifest.npu is not None
    return len(library.manifest.npu.regions)


def equal(library: Package, faults: tuple[int, ...] = ()) -> tuple[list[tuple[str, int]], bytes]:
    """Check the outputs of a run; return what the NPU was asked for, and the outputs' bytes."""
    selftest = selftest_of(library)
    result = run_on_bare(library, "virtual", [selftest.inputs], faults=faults)
    for found, expected in zip(result.outputs[0], selftest.expected, strict=True):
        bound = 0.0 if found.dtype.kind in "iu" else 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound)
    return list(result.npu), b"".join(each.tobytes() for each in result.outputs[0])


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize("fallback", ["cpu", "none"])
def test_a_whole_model_on_the_npu(tmp_path: Path, accelerator: str, fallback: str) -> None:
    npu = NpuOptions(accelerator, npu_fallback=fallback)
    folder = tmp_path / "library"
    arm_ext.compile(DIGITS / "digits_int8.onnx", target=CORE, output=folder, emit="c-library", npu=npu)
    trace, _ = equal(load_package(folder, bare=True))
    assert ("run", 0) in trace


def test_regions_run_in_order_and_the_cache_is_told(mixed: Package) -> None:
    trace, _ = equal(mixed)
    kinds = [kind for kind, _ in trace]
    count = regions_of(mixed)
    assert count > 1
    assert kinds == ["clean", "run", "invalidate"] * count
    assert sorted(number for kind, number in trace if kind == "run") == list(range(count))
    sizes = [size for kind, size in trace if kind != "run"]
    assert sizes[::2] == sizes[1::2]
    assert not any(size % M_CACHE_LINE for size in sizes)


def test_the_cpu_computes_what_fails(mixed: Package) -> None:
    _, whole = equal(mixed)
    for fault in range(regions_of(mixed)):
        trace, outputs = equal(mixed, (fault,))
        assert [kind for kind, _ in trace].count("fault") == 1
        assert outputs == whole
    trace, outputs = equal(mixed, tuple(range(regions_of(mixed))))
    assert "run" not in {kind for kind, _ in trace}
    assert outputs == whole


def test_the_cpu_computes_without_a_driver(mixed: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_EXT_NPU", "cpu")
    assert bare_model(mixed).on_cpu
    trace, outputs = equal(mixed)
    assert trace == []
    monkeypatch.delenv("ARM_EXT_NPU")
    assert equal(mixed)[1] == outputs
    monkeypatch.setenv("ARM_EXT_NPU", "cpu")
    found = arm_ext.run(mixed, check=True).npu
    assert found is not None
    assert {(region.npu, region.cpu) for region in found.regions} == {(0, 1)}


def test_run_says_that_a_model_of_the_npu_computed(mixed: Package) -> None:
    found = arm_ext.run(mixed, check=True).npu
    assert found is not None
    assert found.device == "a functional model of ethos-u65-256"
    assert {(region.npu, region.cpu) for region in found.regions} == {(1, 0)}


def test_without_the_cpus_code_a_failure_is_an_error(mixed: Package, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    npu = NpuOptions(**(vars(MIXED) | {"npu_fallback": "none"}))
    arm_ext.compile(npu_models.mixed(), target=CORE, output=folder, emit="c-library", npu=npu)
    library = load_package(folder, bare=True)
    assert regions_of(library) == regions_of(mixed)
    equal(library)
    with pytest.raises(EnvError, match="a region failed on the NPU, and nothing else is to compute it"):
        run_on_bare(library, "virtual", [selftest_of(library).inputs], faults=(1,))
    assert library.manifest.library is not None
    assert mixed.manifest.library is not None
    assert library.manifest.library.weight_bytes < mixed.manifest.library.weight_bytes


def test_the_archive_needs_the_driver_only_where_it_is_used(mixed: Package, tmp_path: Path) -> None:
    assert mixed.manifest.library is not None
    subprocess.run(["ar", "x", next(mixed.path.glob("lib*.a")).resolve()], cwd=tmp_path, check=True)
    needing = set()
    for path in tmp_path.glob("*.o"):
        with path.open("rb") as file:
            names = {
                str(each.name) for each in symbols_of(ELFFile(file)) if each.entry.st_shndx == "SHN_UNDEF"
            }
        needing |= {path.name} if "ethosu_invoke_v3" in names else set()
    assert needing == {f"{mixed.manifest.library.name}_npu_ethosu.o"}


def test_the_cpu_of_an_m0plus_computes_a_softmax_as_tosa(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARM_EXT_NPU", "cpu")
    folder = tmp_path / "library"
    arm_ext.compile(npu_models.mixed(), target="cortex-m0plus", output=folder, emit="c-library", npu=MIXED)
    library = load_package(folder, bare=True)
    equal(library)
    assert library.manifest.library is not None
    assert "__clzsi2" in library.manifest.library.requires


def test_a_package_always_has_the_cpus_code(tmp_path: Path) -> None:
    npu = NpuOptions("ethos-u65-256", npu_fallback="none")
    with pytest.raises(UsageError, match="npu-fallback none is for"):
        arm_ext.compile(DIGITS / "digits_int8.onnx", target="arm", output=tmp_path / "package", npu=npu)
