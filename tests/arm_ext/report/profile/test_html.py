# SPDX-License-Identifier: Apache-2.0
"""The page, opened in Chromium as a user would."""

import re
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from arm_ext.report.profile.html import html
from arm_ext.report.profile.record import (
    Around,
    Counts,
    HotLoop,
    KernelOption,
    Limits,
    NpuRegionCost,
    ProfiledCall,
    ProfileReport,
    Roof,
)
from tests.arm_ext.browser import opened

VIEWS = ("layers", "timeline", "roofline", "memory", "compare")
EVIL = "</script><img src=x onerror=alert(1)>"


def report(size: int, faster: int = 1) -> ProfileReport:
    """A chain in which every fourth call reads one that is three before it, too."""
    cycles = [(index * 37 % 101 + 1) * 100 // faster for index in range(size)]
    whole = sum(cycles) + 1000
    calls = tuple(
        ProfiledCall(
            index=index,
            symbol=f"kernel{index}",
            anchor=EVIL if index == 1 else f"block{index}/conv",
            sources=(f"block{index}/conv", f"block{index}/relu"),
            operators=("Relu",),
            output="1x8x8x16 int8",
            kernel="gemm_s8_sdot",
            macs=1000 * index,
            bytes=2048,
            written=1024 + index,
            reads=tuple(
                sorted({max(0, index - 1), max(0, index - 3)} if index % 4 == 3 else {index - 1} - {-1})
            ),
            share=cycles[index] / whole,
            why=(("gemm_s8_mmla declined", "neoverse-n1 has no i8mm"),),
            alternatives=(KernelOption(kernel="gemm_s8_mlal", selection_cost=2 * cycles[index], ratio=2.0),),
            counts=Counts(
                instructions=cycles[index] * 2,
                estimated_cycles=cycles[index],
                cycles_with_caches=cycles[index],
                limit_cycles=cycles[index] // 2,
                bound="vector pipes",
                parts={"vector pipes": cycles[index] // 2, "latency": cycles[index] - cycles[index] // 2},
                moved_bytes=4096,
                l2_bytes=640,
                memory_bytes=64,
                classes={"sdot": cycles[index]},
                hot=HotLoop(executions=7, estimated_cycles=9, instructions=("sdot v0.4s, v1.16b, v2.16b",)),
            ),
        )
        for index in range(size)
    )
    return ProfileReport(
        kind="counts",
        model="chain",
        target="arm",
        board="virtual",
        core="generic-dotprod",
        instructions=2 * whole,
        cycles_with_caches=whole,
        macs=1000,
        peak_bytes=4096,
        weight_bytes=8192,
        calls=calls,
        around=Around(instructions=2000, cycles_with_caches=1000, share=1000 / whole),
        limits=Limits(
            roofs=(Roof(name="sdot", macs_per_cycle=32),),
            l2_bytes_per_cycle=32,
            memory_bytes_per_cycle=8,
            l1d_bytes=32768,
            l2_bytes=262144,
        ),
        npu_regions=(
            NpuRegionCost(
                index=0, sources=("block2/conv",), cycles=500, us=1.0, cpu_us=9.0, cpu_clock_cycles=800
            ),
        ),
        note="made up",
    )


def tab(browser: webdriver.Chrome, view: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, f'#tabs button[data-view="{view}"]')


@pytest.mark.parametrize("size", [1, 50, pytest.param(2000, marks=pytest.mark.long)])
def test_every_view_opens_without_errors(browser: webdriver.Chrome, tmp_path: Path, size: int) -> None:
    opened(browser, tmp_path, html(report(size), report(size, faster=2)))
    for view in VIEWS:
        tab(browser, view).click()
        shown = [name for name in VIEWS if browser.find_element(By.ID, name).is_displayed()]
        assert shown == [view]
    for view in ("timeline", "roofline", "memory"):
        assert browser.find_elements(By.CSS_SELECTOR, f"#{view} .chart svg path"), view
    assert len(browser.find_elements(By.CSS_SELECTOR, "#calls tbody tr")) == size
    assert browser.get_log("browser") == []


def series(browser: webdriver.Chrome, view: str) -> list[dict[str, Any]]:
    """Return the series of a view's chart, as ECharts has them."""
    tab(browser, view).click()
    script = """
        const chart = echarts.getInstanceByDom(document.querySelector(arguments[0]));
        return chart.getOption().series.map(({ name, type, data }) => ({ name, type, data }));
    """
    found: list[dict[str, Any]] = browser.execute_script(script, f"#{view} .chart")  # type: ignore[no-untyped-call]
    return found


def held_results(made: ProfileReport) -> list[list[ProfiledCall]]:
    """Return for each call the results that are alive meanwhile: its own, and those that it or a later one reads."""
    last = {call.index: call.index for call in made.calls}
    for call in made.calls:
        last |= {read: max(last[read], call.index) for read in call.reads}
    return [
        [held for held in made.calls[: call.index + 1] if last[held.index] >= call.index]
        for call in made.calls
    ]


def test_memory_over_time_is_that_of_the_results_alive(browser: webdriver.Chrome, tmp_path: Path) -> None:
    made = report(50)
    opened(browser, tmp_path, html(made))
    (line,) = series(browser, "memory")
    held = held_results(made)
    alive = [sum(call.written for call in calls) for calls in held]
    assert [point["value"] for point in line["data"]] == alive
    peak = alive.index(max(alive))
    shown = browser.find_element(By.ID, "peak").text
    assert f"At the peak, while {made.calls[peak].anchor} runs: {max(alive) / 1024:.1f} KiB" in shown
    rows = browser.find_elements(By.CSS_SELECTOR, "#peak tr")
    assert [row.find_element(By.TAG_NAME, "td").text for row in rows] == [call.anchor for call in held[peak]]
    assert f"{held[peak][0].written / 1024:.1f} KiB" in rows[0].text


def test_the_roofline_has_the_rates_of_the_calls_and_of_the_core(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    made = report(50)
    opened(browser, tmp_path, html(made))
    *lines, points = series(browser, "roofline")
    products = [call for call in made.costliest() if call.macs and call.counts and call.counts.l2_bytes]
    assert len(products) == 49  # the first one multiplies nothing
    assert [point["label"]["show"] for point in points["data"]] == [True] * 3 + [False] * 46
    for point, call in zip(points["data"], products, strict=True):
        assert call.counts is not None
        rates = [call.macs / call.counts.l2_bytes, call.macs / call.counts.cycles_with_caches]
        assert (point["name"], point["call"]) == (call.anchor, call.index)
        assert point["value"] == pytest.approx(rates)
    limits = made.limits
    assert limits is not None
    roof, l2, memory = lines
    assert (roof["name"], {y for _, y in roof["data"]}) == ("sdot", {limits.roofs[0].macs_per_cycle})
    for line, rate in ((l2, limits.l2_bytes_per_cycle), (memory, limits.memory_bytes_per_cycle)):
        assert [y / x for x, y in line["data"]] == pytest.approx([rate, rate])
        # It begins where it meets the roof.
        assert line["data"][0][1] == pytest.approx(limits.roofs[0].macs_per_cycle)
    assert "49 calls that multiply" in browser.find_element(By.ID, "roofline").text


def test_rows_are_chosen_by_mouse_and_keys(browser: webdriver.Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, html(report(50)))
    rows = browser.find_elements(By.CSS_SELECTOR, "#calls tbody tr")
    detail = browser.find_element(By.ID, "detail")
    rows[7].click()
    assert "block7/conv" in detail.text
    assert "sdot v0.4s, v1.16b, v2.16b" in detail.text
    assert "cycles, 2.00 times the chosen kernel's" in detail.text
    assert "neoverse-n1 has no i8mm" in detail.text
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert "block8/conv" in detail.text


def test_the_table_is_one_stop_of_the_tab_key(browser: webdriver.Chrome, tmp_path: Path) -> None:
    made = report(300)
    opened(browser, tmp_path, html(made))
    stops = browser.find_elements(By.CSS_SELECTOR, '#calls tbody tr[tabindex="0"]')
    costliest = str(made.costliest()[0].index)
    assert [row.get_attribute("data-index") for row in stops] == [costliest]
    browser.find_element(By.CSS_SELECTOR, 'th button[title="Sort by share"]').send_keys(Keys.ENTER, Keys.TAB)
    focused = browser.switch_to.active_element
    assert (focused.tag_name, focused.get_attribute("data-index")) == ("tr", costliest)
    focused.send_keys(Keys.END)
    assert browser.switch_to.active_element.get_attribute("data-index") == str(
        min(made.calls, key=lambda call: (call.share, -call.index)).index
    )
    browser.switch_to.active_element.send_keys(Keys.HOME)
    assert browser.switch_to.active_element.get_attribute("aria-selected") == "true"


def test_views_are_chosen_by_arrow_keys(browser: webdriver.Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, html(report(3)))
    tab(browser, "layers").send_keys(Keys.ARROW_RIGHT)
    assert browser.find_element(By.ID, "timeline").is_displayed()
    assert browser.switch_to.active_element == tab(browser, "timeline")
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert browser.find_element(By.ID, "layers").is_displayed()


def test_regions_of_the_npu_are_in_cycles_of_the_cpu(browser: webdriver.Chrome, tmp_path: Path) -> None:
    made = report(50)
    opened(browser, tmp_path, html(made))
    (boxes,) = series(browser, "timeline")
    *calls, region = boxes["data"]
    assert [box["call"] for box in calls] == [call.index for call in made.calls]
    lane, begin, end = region["value"]
    assert (lane, begin, end - begin) == (1, calls[2]["value"][1], made.npu_regions[0].cpu_clock_cycles)


def test_all_views_are_printed_in_light_colours(browser: webdriver.Chrome, tmp_path: Path) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        opened(browser, tmp_path, html(report(50), report(50, faster=2)))
        for event, shown, dark in (("beforeprint", list(VIEWS), False), ("afterprint", ["layers"], True)):
            browser.execute_script("window.dispatchEvent(new Event(arguments[0]))", event)  # type: ignore[no-untyped-call]
            assert [name for name in VIEWS if browser.find_element(By.ID, name).is_displayed()] == shown
            text = browser.find_element(By.TAG_NAME, "body").value_of_css_property("color")
            assert (_brightness(text) > 128) == dark
            if not browser.find_element(By.ID, "timeline").is_displayed():
                tab(browser, "timeline").click()
            for label in browser.find_elements(By.CSS_SELECTOR, "#timeline svg text")[:3]:
                assert (_brightness(label.value_of_css_property("fill")) > 128) == dark
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_text_can_be_read_in_either_scheme(browser: webdriver.Chrome, tmp_path: Path, scheme: str) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        opened(browser, tmp_path, html(report(50), report(50, faster=2)))
        for view in VIEWS:
            tab(browser, view).click()
        text, ground = (
            browser.find_element(By.TAG_NAME, "body").value_of_css_property(name)
            for name in ("color", "background-color")
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert browser.get_log("browser") == []
    assert (_brightness(text) > _brightness(ground)) == (scheme == "dark")
    assert abs(_brightness(text) - _brightness(ground)) > 150


def _brightness(color: str) -> float:
    """Of a colour such as "rgba(17, 24, 32, 1)", 0 to 255."""
    red, green, blue = (float(part) for part in re.findall(r"[\d.]+", color)[:3])
    return 0.3 * red + 0.6 * green + 0.1 * blue


def test_rows_are_sorted_by_share(browser: webdriver.Chrome, tmp_path: Path) -> None:
    made = report(50)
    opened(browser, tmp_path, html(made))
    browser.find_element(By.CSS_SELECTOR, 'th button[title="Sort by share"]').click()
    first = browser.find_element(By.CSS_SELECTOR, "#calls tbody tr")
    assert first.get_attribute("data-index") == str(made.costliest()[0].index)


def test_names_of_nodes_are_text(browser: webdriver.Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, html(report(3)))
    assert EVIL in browser.find_element(By.ID, "calls").text
    assert not browser.find_elements(By.CSS_SELECTOR, "#calls img")


def test_without_a_second_profile_nothing_is_compared(browser: webdriver.Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, html(report(3)))
    assert not browser.find_elements(By.CSS_SELECTOR, '#tabs button[data-view="compare"]')


def test_the_page_asks_for_nothing_from_outside(browser: webdriver.Chrome, tmp_path: Path) -> None:
    opened(browser, tmp_path, html(report(50), report(50)))
    for view in VIEWS:
        tab(browser, view).click()
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0  # type: ignore[no-untyped-call]


def test_a_colour_says_what_bounds_a_call_in_all_views(browser: webdriver.Chrome, tmp_path: Path) -> None:
    made = report(4)
    calls = list(made.calls)
    assert calls[2].counts is not None
    memory = Counts(**{**calls[2].counts.model_dump(), "bound": "memory"})
    calls[2] = calls[2].model_copy(update={"counts": memory})
    opened(browser, tmp_path, html(made.model_copy(update={"calls": tuple(calls)})))
    colour = "getComputedStyle(e, '::before').backgroundColor"
    chips = f"return [...document.querySelectorAll('td.bound')].map((e) => {colour});"
    colours = browser.execute_script(chips)  # type: ignore[no-untyped-call]
    assert len({*colours}) == 2
    assert colours[0] == colours[1] == colours[3]
    tab(browser, "timeline").click()
    legend = browser.find_elements(By.CSS_SELECTOR, "#timeline .legend span")
    assert [each.text.partition(",")[0] for each in legend] == ["vector pipes", "memory"]
    boxes = next(each for each in series(browser, "timeline"))["data"]
    channels = [re.findall(r"\d+", box["itemStyle"]["color"])[:3] for box in boxes[:4]]
    assert channels[2] == re.findall(r"\d+", colours[2])
    assert channels[0] == re.findall(r"\d+", colours[0])


def test_no_column_is_cut_at_800_pixels(browser: webdriver.Chrome, tmp_path: Path) -> None:
    size = browser.get_window_size()
    try:
        browser.set_window_size(800, 800)
        opened(browser, tmp_path, html(report(50)))
        over = "const e = document.querySelector('#layers .scroll'); return e.scrollWidth - e.clientWidth;"
        assert browser.execute_script(over) == 0  # type: ignore[no-untyped-call]
    finally:
        browser.set_window_size(size["width"], size["height"])


def test_a_comparison_has_sizes(browser: webdriver.Chrome, tmp_path: Path) -> None:
    now = report(3).model_copy(update={"weight_bytes": 2048})
    opened(browser, tmp_path, html(now, report(3)))
    tab(browser, "compare").click()
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#sizes tr")]
    assert "weights 8.0 KiB → 2.0 KiB, 0.25 times" in rows
