# SPDX-License-Identifier: Apache-2.0
import published_times_page


def test_the_page_is_what_the_file_says() -> None:
    assert published_times_page.PAGE.read_text() == published_times_page.page(), (
        "write it by scripts/published_times_page.py"
    )
