# SPDX-License-Identifier: Apache-2.0
"""What the verbs share."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import tvm

from arm_ext import cli
from arm_ext.cli.console import columns, prose


def test_columns_keep_long_cells_on_one_line_and_brackets_as_they_are() -> None:
    long = "y of tokens float32[n, 64, 8] " * 8
    assert columns([("output", "type", ""), (long, "[n, 3]", "ok"), ("y", "[1]", "")]) == (
        f"output{' ' * (len(long) - 6)}  type\n{long}  [n, 3]  ok\ny{' ' * (len(long) - 1)}  [1]"
    )


_PRINTED = """
from arm_ext import cli
from arm_ext.cli.console import columns, prose
print(columns([("count", "name"), ("1", "a"), ("1,234", "k" * 100)], "><"))
print(prose("others  " + "scalar 1.0 %, " * 9, indent=8))
"""


@pytest.mark.parametrize("width", [80, 120])
def test_tables_and_sentences_fit_a_terminal(width: int) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width)}
    subprocess.run([sys.executable, "-c", _PRINTED], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    lines = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    assert lines[:2] == ["count  name", "    1  a"]
    assert lines[2] == f"1,234  {'k' * min(100, width - 8)}{'…' if width < 107 else ''}"
    assert all(len(line) <= width for line in lines)
    assert all(line.startswith(" " * 8) for line in lines[4:])


@pytest.mark.usefixtures("capsys")
def test_a_pipe_gets_whole_lines() -> None:
    assert columns([("1,234", "k" * 300)], "><") == f"1,234  {'k' * 300}"
    assert prose("word " * 90) == "word " * 90


def test_a_name_that_the_locale_cannot_encode_is_escaped() -> None:
    code = "from arm_ext.cli import process; process.prepare(); print('x \\u2603'); process.leave(0)"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert done.stdout == b"x \\u2603\n"


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (MemoryError("Unable to allocate 3.00 GiB"), ": Unable to allocate 3.00 GiB"),
        (ImportError("Exception caught: std::bad_alloc"), ""),
        (tvm.error.InternalError("std::bad_alloc"), ""),
        (RuntimeError("can't start new thread"), ""),
    ],
)
def test_too_little_memory_is_of_the_environment(
    raised: Exception, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(*_args: object, **_more: object) -> None:
        raise raised

    monkeypatch.setattr(cli.group, "main", main)
    assert cli.invoke(["targets"]) == 3
    assert capsys.readouterr().err == f"error: there is not enough memory here{says}\n"


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = 'rmdir "$PWD" && exec "$0" -P -c "from arm_ext.cli import main; main()" targets'
    done = subprocess.run(
        ["sh", "-c", gone, sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "the working folder cannot be used" in done.stderr


_STEPS = """
import sys, time
import click
from arm_ext.cli import console
console._EVERY = 0.2

@click.group()
@click.option("--ask", default="")
@click.pass_context
def group(context, ask):
    context.obj = ask

@group.command()
def work():
    with console.progress("working", ("one", "two")) as step:
        step("one")
        step("two")
        time.sleep(0.7)

group.main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("ask", "variables", "begins"),
    [
        ("", {}, ["working: two, ", "working: two, "]),
        ("", {"CI": "1"}, []),
        ("quiet", {}, []),
        ("verbose", {"CI": "1"}, ["working: one, 0 s", "working: two, 0 s", "working: two, "]),
    ],
)
def test_progress_without_a_terminal_is_lines(ask: str, variables: dict[str, str], begins: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    done = subprocess.run(
        [sys.executable, "-c", _STEPS, "--ask", ask, "work"],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert len(lines) >= len(begins)
    assert bool(lines) == bool(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=False))


def test_the_module_is_the_command_and_tells_versions() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "arm_ext", "--version"], capture_output=True, text=True, check=True
    )
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert found["TVM"] == tvm.__version__
    assert {"arm-ext", "LLVM", "Zig", "onnxruntime", "Vela", "Python"} <= found.keys()


def test_a_shell_completes_verbs() -> None:
    environment = {
        **os.environ,
        "_ARM_EXT_COMPLETE": "bash_complete",
        "COMP_WORDS": "arm-ext ex",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "arm_ext"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["plain,export-payload", "plain,explain"]
