# SPDX-License-Identifier: Apache-2.0
"""What the verbs share."""

import io
import sys
from pathlib import Path

import click
import pytest

from arm_ext import cli
from arm_ext.cli.console import columns


def test_columns_keep_long_cells_on_one_line_and_brackets_as_they_are() -> None:
    long = "y of tokens float32[n, 64, 8] " * 8
    assert columns([("output", "type", ""), (long, "[n, 3]", "ok"), ("y", "[1]", "")]) == (
        f"output{' ' * (len(long) - 6)}  type\n{long}  [n, 3]  ok\ny{' ' * (len(long) - 1)}  [1]"
    )


def test_a_name_that_the_locale_cannot_encode_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(cli, "invoke", lambda _argv: click.echo("x \u2603") or 0)
    with pytest.raises(SystemExit, match="0"):
        cli.main([])
    out.flush()
    assert out.buffer.getvalue() == b"x \\u2603\n"


def test_closed_streams_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(cli, "invoke", lambda _argv: 0)
    with pytest.raises(SystemExit, match="0"):
        cli.main([])


def test_too_little_memory_is_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(*_args: object, **_more: object) -> None:
        raise MemoryError("Unable to allocate 3.00 GiB")

    monkeypatch.setattr(cli.group, "main", main)
    assert cli.invoke(["targets"]) == 3
    assert capsys.readouterr().err == "error: there is not enough memory here: Unable to allocate 3.00 GiB\n"


def test_a_working_folder_that_is_gone_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(SystemExit, match="3"):
        cli.main(["targets"])
    assert "the working folder cannot be used" in capsys.readouterr().err
