# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.board import open_board
from arm_ext.board.info import read_probe
from arm_ext.common.errors import EnvError
from arm_ext.target.profiles import resolve

_PROBE = (
    "machine aarch64\ncores 4\nhwcap {}\nhwcap2 {}\nmidr {}\ntvm 0.27.0.post1\nffi 0.1.14.post1\n"
    "emulated 0\ncpu \n"
)


def test_a_raspberry_pi_5() -> None:
    # /proc/cpuinfo there: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc
    # dcpop asimddp; CPU part 0xd0b, variant 4, revision 1.
    bits = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 20)
    info = read_probe(_PROBE.format(sum(1 << bit for bit in bits), 0, 0x414FD0B1))
    assert info.cpu == "cortex-a76"
    assert info.features == {
        *("fp-armv8", "neon", "aes", "sha2", "crc", "lse", "fullfp16", "rdm", "rcpc", "ccpp", "dotprod")
    }
    assert (info.cores, info.machine, info.tvm_version) == (4, "aarch64", "0.27.0.post1")


def test_only_an_emulated_board_says_that_it_is() -> None:
    for name, emulated in (("virtual", True), ("local", False)):
        with open_board(name) as board:
            assert board.info.emulated is emulated


def test_a_core_that_is_not_known_is_named_by_its_register() -> None:
    assert read_probe(_PROBE.format(0, 0, 0x61002345)).cpu == "MIDR 0x61002345"


def test_an_x86_board_has_what_is_detected_and_not_what_its_name_implies() -> None:
    text = _PROBE.format(0, 0, 0).replace("aarch64", "x86_64")
    info = read_probe(text, "rocketlake", '{"avx512fp16": T.bool(True), "amx-tile": T.bool(False)}')
    assert (info.cpu, info.features) == ("rocketlake", {"avx512fp16"})


def test_this_machine_has_what_the_host_target_takes() -> None:
    with open_board("local") as board:
        board.require(resolve("host").features)


@pytest.mark.parametrize(
    ("cpu", "core", "has", "lacks"),
    [
        ("cortex-a72", "cortex-a72", {"neon", "crc", "aes"}, {"dotprod", "lse", "fullfp16", "i8mm"}),
        ("cortex-a76", "cortex-a76", {"dotprod", "lse", "fullfp16", "rdm"}, {"i8mm", "bf16", "sve"}),
        ("max,sve=off,sme=off", "MIDR", {"dotprod", "i8mm", "bf16", "complxnum"}, {"sve", "sve2", "sme"}),
        ("max,sme=off", "MIDR", {"sve", "sve2", "i8mm"}, {"sme"}),
    ],
)
def test_a_virtual_board_has_what_its_cpu_has(cpu: str, core: str, has: set[str], lacks: set[str]) -> None:
    with open_board(f"virtual:{cpu}") as board:
        assert board.info.cpu.startswith(core)
        assert board.info.features >= has
        assert not board.info.features & lacks
        board.require(has)
        with pytest.raises(EnvError, match=f"lacks {min(lacks)};"):
            board.require([*has, min(lacks)])
