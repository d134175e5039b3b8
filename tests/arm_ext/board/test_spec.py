# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.board import open_board
from arm_ext.board.spec import BoardSpec, parse_spec
from arm_ext.common.errors import UsageError


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("virtual", BoardSpec("virtual")),
        ("virtual:max,sve=off,sme=off", BoardSpec("virtual", cpu="max,sve=off,sme=off")),
        ("local", BoardSpec("local")),
        ("rpi5.lan:9090", BoardSpec("remote", host="rpi5.lan", port=9090)),
        ("tracker-10.0.0.2:9190/rpi5", BoardSpec("tracker", host="10.0.0.2", port=9190, key="rpi5")),
    ],
)
def test_each_kind(text: str, spec: BoardSpec) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    "text", ["", "virtuel", "virtual:", "local:1", "host", "host:", "host:70000", "tracker-h:1"]
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match=r"tracker-192\.168"):
        parse_spec(text)


def test_only_a_virtual_board_counts() -> None:
    with pytest.raises(UsageError, match="does not count instructions"):
        open_board("rpi5:9090", counting=True)
