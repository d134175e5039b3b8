# SPDX-License-Identifier: Apache-2.0
"""The C that export-payload writes compiles for a microcontroller, and hands Arm's driver what a payload holds."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import arm_ext
from arm_ext import NpuOptions
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.common.output_folder import LIST
from arm_ext.ethosu.export import c_sources
from arm_ext.ethosu.model.stream import unwrap
from arm_ext.ethosu.payload import Payload
from arm_ext.package import MANIFEST
from tests.arm_ext import npu_models

# The part of ethosu_driver.h that the glue calls.
DRIVER = """\
#include <stddef.h>
#include <stdint.h>
struct ethosu_driver;
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                     void *user_arg);
"""
CORTEX_M55 = [
    "arm-none-eabi-gcc",
    "-mcpu=cortex-m55",
    "-mthumb",
    "-ffreestanding",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pedantic",
]

# Calls the region, and a driver that prints what it is given.
MAIN = """\
#include "npu_npu.h"
#include <ethosu_driver.h>
#include <stdio.h>

static char scratch[16], fast[16];

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *commands, const int size, uint64_t *const bases,
                     const size_t *sizes, const int count, void *user) {
  printf("%d %d %d %d\\n", (void *)drv == (void *)scratch, user == (void *)fast,
         commands == (const void *)npu_region_0_commands, size);
  for (int i = 0; i < count; ++i) {
    const char *at = bases[i] == (uintptr_t)npu_region_0_weights ? "weights"
                     : bases[i] == (uintptr_t)scratch            ? "scratch"
                     : bases[i] == (uintptr_t)fast               ? "fast" : "none";
    printf("%s %zu\\n", at, sizes[i]);
  }
  const struct arm_ext_npu_tensor *io[] = {npu_region_0_inputs, npu_region_0_outputs};
  for (int i = 0; i < 2; ++i) {
    printf("%s %d %zu %zu %d %d", io[i]->name, io[i]->region, io[i]->offset, io[i]->bytes, io[i]->dtype, io[i]->rank);
    for (int axis = 0; axis < io[i]->rank; ++axis) printf(" %d", (int)io[i]->shape[axis]);
    printf("\\n");
  }
  return 7;
}

int main(void) { return npu_region_0_invoke((struct ethosu_driver *)scratch, scratch, fast, fast) != 7; }
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npu") / "p"
    arm_ext.compile(
        npu_models.whole(), "cortex-a55", folder, npu=NpuOptions("ethos-u65-256", npu_ops=("conv2d",))
    )
    return folder


@pytest.fixture(scope="module")
def payload(package: Path) -> Payload:
    return Payload.from_bytes((package / "npu/region-0.payload").read_bytes())


@pytest.fixture
def exported(package: Path, tmp_path: Path) -> Path:
    arm_ext.export_payload(package, tmp_path / "out")
    (tmp_path / "out/ethosu_driver.h").write_text(DRIVER)
    return tmp_path / "out"


def compiled(folder: Path, *arguments: str) -> None:
    assert shutil.which(CORTEX_M55[0]), f"{CORTEX_M55[0]} is missing; scripts/setup.sh test installs it"
    done = subprocess.run(
        [*CORTEX_M55, "-I.", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_compiles_for_a_microcontroller(exported: Path, payload: Payload):
    compiled(exported, "-std=c99", "-c", "npu_npu.c", "npu_npu_data.S")
    compiled(exported, "-x", "c++", "-fsyntax-only", "npu_npu.h")
    with (exported / "npu_npu_data.o").open("rb") as file:
        elf = ELFFile(file)
        for part in ("commands", "weights"):
            section = elf.get_section_by_name(f".rodata.npu_region_0_{part}")
            assert section.data() == getattr(payload, part)
            assert section["sh_addralign"] == 16
            assert (exported / f"npu_region_0_{part}.bin").read_bytes() == getattr(payload, part)


def test_the_stream_itself_is_aligned(payload: Payload):
    # The driver wants the address behind the container's header at a multiple of 16.
    assert (len(payload.commands) - 4 * len(unwrap(payload.commands).words)) % 16 == 0
    assert payload.commands[:4] == b"COP1"  # the container that ethosu_invoke_v3 reads


def test_hands_the_driver_what_the_payload_holds(exported: Path, payload: Payload):
    (exported / "main.c").write_text(MAIN)
    sources = ["main.c", "npu_npu.c", "npu_npu_data.S"]
    subprocess.run(["gcc", "-std=c99", "-I.", *sources, "-o", "main"], cwd=exported, check=True)
    told = subprocess.run([exported / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert told[0] == f"1 1 1 {len(payload.commands)}"
    assert told[1:4] == [f"{region.kind} {region.size}" for region in payload.regions]
    for line, tensor in zip(told[4:], (*payload.inputs, *payload.outputs), strict=True):
        shape = " ".join(map(str, tensor.shape))
        assert (
            line
            == f"{tensor.name} {tensor.region} {tensor.offset} {tensor.size} 1 {len(tensor.shape)} {shape}"
        )


def test_any_name_is_a_c_string(exported: Path, payload: Payload):
    odd = replace(payload, inputs=(replace(payload.inputs[0], name='a"\\??=\n7é'), *payload.inputs[1:]))
    (exported / "npu_npu.c").write_text(c_sources.source("npu", [odd]))
    compiled(exported, "-std=c99", "-c", "npu_npu.c")
    assert 'a"\\??=\n7é'.encode() + b"\0" in (exported / "npu_npu.o").read_bytes()


@pytest.mark.parametrize(
    ("name", "word"),
    [("kws-v2.1", "kws_v2_1"), ("7", "model_7"), ("Ümlaut", "mlaut"), ("", "model"), ("a b", "a_b")],
)
def test_any_model_has_an_identifier(name: str, word: str):
    assert c_sources.identifier(name) == word


def test_the_command_lists_what_it_wrote(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["export-payload", str(package), "-o", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema_version"], report["accelerator"], report["regions"]) == (1, "ethos-u65-256", 1)
    assert {file["path"] for file in report["files"]} == {path.name for path in tmp_path.iterdir()} - {LIST}
    assert invoke(["export-payload", str(package), "-o", str(tmp_path)]) == 0
    assert "1 region for ethos-u65-256" in capsys.readouterr().out


def without(package: Path, npu: object, to: Path) -> Path:
    shutil.copytree(package, to)
    manifest = json.loads((to / MANIFEST).read_text())
    manifest["npu"] = npu and {**manifest["npu"], "regions": []}
    (to / MANIFEST).write_text(json.dumps(manifest))
    return to


@pytest.mark.parametrize(("npu", "reason"), [(None, "without npu"), (True, "no part of it runs on the NPU")])
def test_a_package_without_regions(npu: object, reason: str, package: Path, tmp_path: Path):
    with pytest.raises(UsageError, match=reason):
        arm_ext.export_payload(without(package, npu, tmp_path / "p"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder(package: Path, tmp_path: Path):
    (tmp_path / "out").write_text("precious")
    with pytest.raises(UsageError, match="exists and is a file"):
        arm_ext.export_payload(package, tmp_path / "out")
