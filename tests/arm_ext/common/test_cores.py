# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.cores import cores_text, parse_cores
from arm_ext.common.errors import UsageError


@pytest.mark.parametrize(
    ("text", "cores"), [("0", (0,)), ("4-7", (4, 5, 6, 7)), ("0,2", (0, 2)), ("2-3, 0,3", (0, 2, 3))]
)
def test_numbers_and_ranges(text: str, cores: tuple[int, ...]) -> None:
    assert parse_cores(text) == cores
    assert parse_cores(cores_text(cores)) == cores


@pytest.mark.parametrize("text", ["", "a", "-1", "3-1", "0,,1", "1-", "99999", "5000", "٣"])
def test_what_is_no_core_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="is neither a core nor a range of cores, such as 4-7 or 0,2"):
        parse_cores(text)


def test_ranges_are_told_as_such() -> None:
    assert cores_text([3, 0, 2, 7]) == "0,2-3,7"
