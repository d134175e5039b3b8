# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.ethosu.partition.demands import check_rejections, check_sram
from arm_ext.report.npu import NpuLayer, NpuMemoryUse, NpuRegion, NpuReport
from schedules.diagnostic import Diagnostic

KEPT = Diagnostic(
    nodes=("deep", "deep_q"),
    operator="conv2d",
    reason="its window has too many rows",
    limit="at most 64",
    actual="65",
    hint="a smaller window",
)
BORDER = Diagnostic(nodes=("x_q",), operator="quantize", reason="it converts", unfit=True)
MACS = {"deep": 300, "wide": 100}


def report(*rejections: Diagnostic) -> NpuReport:
    layers = tuple(
        NpuLayer(
            operator="Conv2D", sources=(name,), cycles=1, npu_cycles=1, macs=0, staging_bytes=1000 * size
        )
        for name, size in (("narrow", 1), ("wide", 9), ("a", 2), ("b", 3), ("c", 4), ("d", 5))
    )
    region = NpuRegion(
        index=0,
        sources=("wide",),
        operators=("conv2d",),
        macs=100,
        cycles=6,
        npu_cycles=6,
        npu_us=1.0,
        cpu_us=2.0,
        memories=(
            NpuMemoryUse(name="Dram", peak_bytes=77_000, access_cycles=1),
            NpuMemoryUse(name="Sram", peak_bytes=9000, access_cycles=1),
        ),
        layers=layers,
        borders=(),
    )
    return NpuReport(
        accelerator="ethos-u65-256",
        linux_driver=True,
        vela="5.2.0",
        system_config="s",
        memory_mode="m",
        cpu_mhz=1,
        npu_mhz=1,
        handover_us=20,
        regions=(region,),
        rejections=rejections,
        reasons=(),
    )


def test_a_fallback_is_an_error_with_reason_value_limit_and_share():
    with pytest.raises(ModelError) as error:
        check_rejections(report(KEPT, BORDER), (), MACS)
    text = str(error.value)
    assert "1 operator would run on the CPU, not on ethos-u65-256" in text
    assert "2      75.0   conv2d     its window has too many rows" in text
    assert (
        "deep, deep_q  conv2d    its window has too many rows (expected at most 64, found 65); a smaller window"
        in text
    )


@pytest.mark.parametrize("watched", [(), ("softmax",), ("conv2d_transpose", "wide")])
def test_what_is_not_watched_may_fall_back(watched: tuple[str, ...]):
    check_rejections(report(*([KEPT] if watched else []), BORDER), watched, MACS)


@pytest.mark.parametrize("watched", ["conv2d", "deep_q", "quantize"])
def test_what_is_watched_by_kind_or_node_may_not(watched: str):
    with pytest.raises(ModelError):
        check_rejections(report(KEPT, BORDER), (watched,), MACS)


def test_sram_above_the_budget_names_the_widest_layers():
    check_sram(report(), 9000)
    with pytest.raises(ModelError) as error:
        check_sram(report(), 8999)
    first, *layers = str(error.value).splitlines()
    assert "NPU region 0 needs 9,000 bytes of SRAM, which exceeds --sram-budget 8,999" in first
    assert "Dram 77,000 bytes" in first
    assert [layer.split()[-1] for layer in layers] == ["wide", "d", "c", "b", "a"]
