# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.errors import UsageError
from arm_ext.target.npu import ACCELERATORS, resolve_npu


def test_every_configuration_of_the_families_is_there() -> None:
    sizes = {"u55": [32, 64, 128, 256], "u65": [256, 512], "u85": [128, 256, 512, 1024, 2048]}
    assert list(ACCELERATORS) == [f"ethos-{family}-{macs}" for family, of in sizes.items() for macs in of]


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UsageError, match=r"did you mean ethos-u65-5?"):
        resolve_npu("ethos-u65-521")


def test_a_configuration_word_fits_one_accelerator() -> None:
    word = 0x10006009  # U65, 2^9 MACs a cycle, 96 KiB of shared RAM
    assert [name for name, npu in ACCELERATORS.items() if npu.matches_config(word)] == ["ethos-u65-512"]
