# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from pydantic import ValidationError

from arm_ext.common.errors import UsageError
from arm_ext.common.json_record import JsonRecord, parsed


class _Inner(JsonRecord):
    numbers: tuple[int, ...]


class _Outer(JsonRecord):
    inner: list[_Inner]


@pytest.mark.parametrize(
    "text",
    ['{"inner": [{"numbers": ["a", "b", "c"]}, {}, {}]}', '{"inner": [{}, {}, {}]}'],
    ids=["deep", "flat"],
)
def test_each_list_is_checked_up_to_its_first_fault(text: str):
    with pytest.raises(ValidationError) as found:
        _Outer.model_validate_json(text)
    assert found.value.error_count() == 1


def test_the_message_names_file_and_place():
    with pytest.raises(UsageError, match=r"^f\.json: inner\.0\.numbers: Field required; write it again$"):
        parsed(_Outer, b'{"inner": [{}]}', Path("f.json"), "write it again")


def test_a_message_repeats_little_of_the_file():
    with pytest.raises(UsageError) as found:
        parsed(_Outer, b'{"inner": {"' + b"x" * 100_000 + b'": 1}}', Path("f.json"), "")
    assert len(str(found.value)) < 1000
