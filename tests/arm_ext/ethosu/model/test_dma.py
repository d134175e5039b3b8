# SPDX-License-Identifier: Apache-2.0
"""Strided and indexed copies, which Vela uses for concatenation, splits and gathers of some shapes."""

from types import SimpleNamespace

import numpy as np
import pytest

from arm_ext.ethosu.model import StreamError
from arm_ext.ethosu.model.dma import dma
from arm_ext.ethosu.model.memory import PayloadMemory
from arm_ext.ethosu.model.registers import Registers
from arm_ext.ethosu.payload import MemoryArea, Payload
from arm_ext.target.npu import Family

D2, D3, INDEXED, INTERNAL = 1 << 9, 2 << 9, 1 << 11, 1 << 8
CONFIGS = {
    "u55": ("ethos-u55-128", 7),
    "u65": ("ethos-u65-256", 0x10000008),
    "u85": ("ethos-u85-512", 0x20000009),
}


def machine(family: Family, **registers: int) -> SimpleNamespace:
    """Region 0 holds 0, 1, …, 63; region 1 is filled with 165. Values of two-word registers go into their data."""
    name, config = CONFIGS[family]
    regions = (MemoryArea(0, "weights", 64), MemoryArea(1, "scratch", 64))
    payload = Payload(name, config, 0, regions, (), (), b"", bytes(range(64)))
    one_word = ("dma0_src_region", "dma0_dst_region", "dma0_idx_region", "dma0_size0", "dma0_size1")
    values = {k: v if k in one_word else v << 16 for k, v in registers.items()}
    start = {"dma0_src_region": 0, "dma0_dst_region": 1, "dma0_src": 0, "dma0_dst": 0, "dma0_len": 16 << 16}
    return SimpleNamespace(memory=PayloadMemory(payload), registers=Registers(family, start | values))


def written(of: SimpleNamespace) -> dict[int, int]:
    area = of.memory.area(1, 0, 64)
    return {int(i): int(area[i]) for i in np.flatnonzero(area != 0xA5)}


def test_one_run() -> None:
    of = machine("u55", dma0_src=4, dma0_dst=32)
    dma(of)
    assert written(of) == {32 + i: 4 + i for i in range(16)}


def test_rows_with_gaps_in_the_destination() -> None:
    of = machine(
        "u65", dma0_dst_region=1 | D3, dma0_len=3, dma0_size0=2, dma0_size1=2, dma0_skip0=2, dma0_skip1=14
    )
    dma(of)
    rows = [(0, 0), (5, 3), (20, 6), (25, 9)]  # destination, source
    assert written(of) == {to + i: at + i for to, at in rows for i in range(3)}


def test_rows_with_strides_on_both_sides() -> None:
    of = machine(
        "u85",
        dma0_src_region=D2,
        dma0_len=2,
        dma0_size0=3,
        dma0_src_stride0=8,
        dma0_dst_stride0=5,
        dma0_src=1,
    )
    dma(of)
    assert written(of) == {5 * row + i: 1 + 8 * row + i for row in range(3) for i in range(2)}


@pytest.mark.parametrize("scatters", [False, True])
def test_indices_choose_rows(scatters: bool) -> None:
    indexed = {
        "dma0_src_region": 0 if scatters else INDEXED,
        "dma0_dst_region": 1 | (INDEXED if scatters else 0),
    }
    strides = {"dma0_src_stride0": 4, "dma0_dst_stride0": 4}
    of = machine(
        "u85", dma0_len=4, dma0_size0=3, dma0_idx_region=1, dma0_idx=48, dma0_idx_max=5, **indexed, **strides
    )
    of.memory.area(1, 48, 12)[:] = np.array([5, 0, 2], "<i4").view(np.uint8)
    dma(of)
    rows = zip([5, 0, 2], range(3), strict=True) if scatters else zip(range(3), [5, 0, 2], strict=True)
    expected = {4 * to + i: 4 * at + i for to, at in rows for i in range(4)}
    assert {k: v for k, v in written(of).items() if k < 48} == expected


def test_an_index_beyond_the_greatest_raises() -> None:
    of = machine(
        "u85", dma0_src_region=INDEXED, dma0_len=4, dma0_size0=1, dma0_idx_region=0, dma0_idx=60, dma0_idx_max=5,
        dma0_src_stride0=4,
    )  # fmt: skip
    with pytest.raises(StreamError, match="index 1061043516 is not within 0-5"):
        dma(of)


@pytest.mark.parametrize(
    ("family", "registers", "message"),
    [
        ("u55", {"dma0_src": 56}, "16 bytes at 0x38 are not within region 0 of 64 bytes"),
        ("u55", {"dma0_src_region": 1, "dma0_dst_region": 0}, "region 0 holds the weights"),
        ("u55", {"dma0_dst_region": 5}, "region 5 is not in the payload"),
        ("u55", {"dma0_len": 8}, "8 bytes are not a multiple of 16"),
        ("u85", {"dma0_dst_region": INTERNAL, "dma0_dst": 2040}, "exceeds the NPU's memory of 2048"),
        ("u85", {"dma0_src_region": INTERNAL}, "reads the NPU's own memory"),
    ],
)
def test_what_is_not_there_raises(family: Family, registers: dict[str, int], message: str) -> None:
    with pytest.raises(StreamError, match=message):
        dma(machine(family, **registers))
