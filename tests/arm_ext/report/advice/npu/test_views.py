# SPDX-License-Identifier: Apache-2.0
import csv as csv_file
import io
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from arm_ext.report.advice.npu.record import NpuAdvice, NpuPrice, Price
from arm_ext.report.advice.npu.views import csv, html, text
from tests.arm_ext.browser import opened

EVIL = "</script><img src=x onerror=alert(1)>/*SCRIPT*/"


def price(us: float, regions: int = 1) -> Price:
    return Price(
        regions=regions,
        operators=3 * regions,
        mac_share=0.5 * regions,
        npu_cycles=1000 * regions,
        cpu_cycles=40_000,
        npu_us=2.0,
        handover_us=20.0 * regions,
        cpu_us=us - 22,
        us=us,
        gain=1 - us / 100,
        memories={"Sram": 2048, "Dram": 4096} if regions else {},
        kept="softmax: it takes longer",
    )


def row(accelerator: str, mode: str, found: Price | None, note: str = "") -> NpuPrice:
    return NpuPrice(
        accelerator=accelerator,
        macs_per_cycle=int(accelerator.rsplit("-", 1)[1]),
        system_config="Ethos_U65_High_End",
        memory_mode=mode,
        npu_mhz=1000,
        cpu_mhz=800,
        price=found,
        note=note,
    )


@pytest.fixture
def advice() -> NpuAdvice:
    return NpuAdvice(
        model=EVIL,
        target="cortex-a55",
        core="cortex-a55",
        macs=5000,
        cpu_cycles=80_000,
        handover_us=20,
        vela="5.2.0",
        stopped="interrupted",
        prices=(
            row("ethos-u65-256", "Sram_Only", price(60)),
            row("ethos-u65-256", "Shared_Sram", price(60)),
            row("ethos-u65-256", "Dedicated_Sram", price(100, regions=0)),
            row("ethos-u65-512", "Sram_Only", price(50)),
            row("ethos-u85-128", "Sram_Only", None, note="interrupted"),
        ),
        note="made up",
    )


def test_equal_rows_are_merged_and_none_is_left_out(advice: NpuAdvice) -> None:
    said = text(advice)
    assert "Sram_Only +1" in said
    assert "no gain in any of 1" in said
    assert "interrupted" in said
    assert "1 of 5 configurations have no price" in said
    assert "fastest ethos-u65 of these with a price: 50.0 us, 50.0 % less" in said
    assert "--npu ethos-u65-512 --system-config Ethos_U65_High_End --memory-mode Sram_Only" in said
    assert "fastest ethos-u85" not in said


def test_where_nothing_gains_nothing_is_recommended(advice: NpuAdvice) -> None:
    rows = tuple(
        each.model_copy(update={"price": price(100, regions=0), "note": ""}) for each in advice.prices
    )
    said = text(advice.model_copy(update={"prices": rows}))
    assert "No region runs faster" in said
    assert "fastest" not in said


def test_csv_has_a_line_for_each(advice: NpuAdvice) -> None:
    lines = list(csv_file.DictReader(io.StringIO(csv(advice))))
    assert [line["memory_mode"] for line in lines] == [each.memory_mode for each in advice.prices]
    assert lines[0]["memories"] == "Sram=2048 Dram=4096"
    assert lines[-1]["us"] == ""


def test_the_page_shows_plot_and_rows(browser: webdriver.Chrome, tmp_path: Path, advice: NpuAdvice) -> None:
    opened(browser, tmp_path, html(advice))
    assert browser.find_elements(By.CSS_SELECTOR, "#plot svg path")
    rows = browser.find_elements(By.CSS_SELECTOR, "#prices tbody tr")
    assert [each.get_attribute("data-index") for each in rows] == ["0", "1", "2", "3", "4"]
    browser.find_element(By.CSS_SELECTOR, 'th button[title="Sort by est. µs"]').click()
    rows = browser.find_elements(By.CSS_SELECTOR, "#prices tbody tr")
    assert [each.get_attribute("data-index") for each in rows] == ["3", "0", "1", "2", "4"]
    assert "interrupted" in rows[-1].text
    assert EVIL in browser.find_element(By.ID, "title").text
    assert not browser.find_elements(By.TAG_NAME, "img")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0  # type: ignore[no-untyped-call]
