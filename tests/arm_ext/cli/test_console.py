# SPDX-License-Identifier: Apache-2.0
"""What the verbs share."""

from arm_ext.cli.console import columns


def test_columns_keep_long_cells_on_one_line_and_brackets_as_they_are() -> None:
    long = "y of tokens float32[n, 64, 8] " * 8
    assert columns([("output", "type", ""), (long, "[n, 3]", "ok"), ("y", "[1]", "")]) == (
        f"output{' ' * (len(long) - 6)}  type\n{long}  [n, 3]  ok\ny{' ' * (len(long) - 1)}  [1]"
    )
