# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, and pages opened in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def opened(browser: webdriver.Chrome, folder: Path, page: str) -> webdriver.Chrome:
    (folder / "page.html").write_text(page)
    browser.get((folder / "page.html").as_uri())
    return browser
