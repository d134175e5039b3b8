# SPDX-License-Identifier: Apache-2.0
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from arm_ext.common.errors import UsageError
from arm_ext.ethosu.vela.compiler import check_configuration
from arm_ext.ethosu.vela.config import VelaOptions, configuration, pairs
from arm_ext.target.npu import ACCELERATORS, resolve_npu

KIB = 1024


def limit(npu: str, **options: object) -> int:
    compiler = configuration(resolve_npu(npu), VelaOptions(**options)).compiler  # type: ignore[arg-type]
    found = re.search(r"arena_size_limit=(\d+)", compiler)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("name", ACCELERATORS)
def test_the_defaults_of_every_accelerator_are_there(name: str):
    assert configuration(resolve_npu(name), VelaOptions()).core_mhz in (500, 1000)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_the_defaults_of_every_accelerator_are_among_its_pairs(name: str):
    npu = resolve_npu(name)
    assert (npu.system_config, npu.memory_mode) in pairs(npu)


def test_an_arena_fits_no_memory_that_cannot_be_written():
    modes = {
        system: [mode for other, mode in pairs(resolve_npu("ethos-u65-256")) if other == system]
        for system, _ in pairs(resolve_npu("ethos-u65-256"))
    }
    assert modes["Ethos_U65_Embedded"] == ["Sram_Only", "Shared_Sram"]  # the other memory is flash
    assert "Dedicated_Sram_384KB" in modes["Ethos_U65_High_End"]  # the other memory is DRAM


def test_the_arena_is_as_small_as_the_smaller_of_mode_and_wish():
    assert limit("ethos-u65-256") == 384 * KIB
    assert limit("ethos-u65-256", arena_cache_size=100 * KIB) == 100 * KIB
    assert limit("ethos-u65-256", arena_cache_size=500 * KIB) == 384 * KIB
    assert limit("ethos-u55-128") == 1 << 32
    assert limit("ethos-u55-128", arena_cache_size=100 * KIB) == 100 * KIB


def test_a_configuration_without_clock_is_refused(tmp_path: Path):
    ini = tmp_path / "own.ini"
    ini.write_text("[System_Config.Mine]\naxi0_port=Sram\n[Memory_Mode.Sram_Only]\n")
    options = VelaOptions(system_config="Mine", memory_mode="Sram_Only", config=ini)
    with pytest.raises(UsageError, match=r"no core_clock in \[System_Config\.Mine\]"):
        configuration(resolve_npu("ethos-u55-128"), options)


def test_a_users_own_configuration_is_read(tmp_path: Path):
    ini = tmp_path / "own.ini"
    ini.write_text("[System_Config.Mine]\ncore_clock=250e6\n[Memory_Mode.Sram_Only]\narena_cache_size=4096\n")
    options = VelaOptions(system_config="Mine", memory_mode="Sram_Only", config=ini)
    found = configuration(resolve_npu("ethos-u55-128"), options)
    assert (found.system_config, found.memory_mode, found.core_mhz) == ("Mine", "Sram_Only", 250)
    assert "arena_size_limit=4096\n" in found.compiler


MINE = VelaOptions(system_config="Mine", memory_mode="M")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[System_Config.Mine]\ncore_clock=fast\n[Memory_Mode.M]\n",
            r"core_clock=fast of \[System_Config\.Mine\]",
        ),
        ("[System_Config.Mine]\ncore_clock=nan\n[Memory_Mode.M]\n", "core_clock=nan"),
        ("[System_Config.Mine]\ncore_clock=0\n[Memory_Mode.M]\n", "core_clock=0"),
        ("[System_Config.Mine]\ncore_clock=%(nope)s\n[Memory_Mode.M]\n", r"core_clock=%\(nope\)s"),
        ("[System_Config.Mine]\ncore_clock=1\n[Memory_Mode.M]\narena_cache_size=1k\n", "arena_cache_size=1k"),
        ("[System_Config.Mine]\ninherit=System_Config.Mine\n[Memory_Mode.M]\n", "inherits from itself"),
        ("[System_Config.Mine]\ninherit=Nobody\n[Memory_Mode.M]\n", r"inherits from \[Nobody\]"),
        ("[System_Config.Mine]\n[System_Config.Mine]\n", "malformed"),
        ("core_clock=1e9\n", "malformed"),
        ("", r"has no \[System_Config\.Mine\]"),
        (b"\xff\xfe", "not a text file"),
    ],
)
def test_a_malformed_configuration_is_refused_by_its_path(tmp_path: Path, text: str | bytes, message: str):
    ini = tmp_path / "own.ini"
    ini.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=f"own.ini: .*{message}"):
        configuration(resolve_npu("ethos-u65-256"), replace(MINE, config=ini))


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("pipe", "this is not one"), (".", "this is not one"), ("nope", "No such file")):
        with pytest.raises(UsageError, match=message):
            configuration(resolve_npu("ethos-u65-256"), replace(MINE, config=tmp_path / name))


def test_memories_that_vela_does_not_know_are_refused(tmp_path: Path):
    ini = tmp_path / "own.ini"
    ini.write_text("[System_Config.Mine]\ncore_clock=1e9\naxi0_port=Tape\n[Memory_Mode.M]\n")
    options = replace(MINE, config=ini)
    with pytest.raises(UsageError, match=r"own.ini: no network can be compiled with \[System_Config.Mine\]"):
        check_configuration(resolve_npu("ethos-u65-256"), options)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_default_compiles(name: str):
    check_configuration(resolve_npu(name), VelaOptions())
