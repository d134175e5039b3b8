# SPDX-License-Identifier: Apache-2.0
"""Signals, streams and full disks, of a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from arm_ext.cli.process import _descendants
from tests.arm_ext.models import mlp

COMMAND = (sys.executable, "-c", "from arm_ext.cli import main; main()")
_SECONDS = 300  # of which it takes few, but on a machine under load


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    onnx.save(mlp(), tmp_path / "m.onnx")
    return tmp_path


def started(work: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*COMMAND, *arguments], cwd=work, text=True, **streams)


def names(work: Path) -> list[str]:
    return sorted(str(path.relative_to(work)) for path in work.rglob("*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing(work: Path, number: signal.Signals):
    before = names(work)
    process = started(work, "compile", "m.onnx", "--target", "host", "--no-cache")
    end = monotonic() + _SECONDS
    while not [*work.glob(".arm-ext-*")] and monotonic() < end:  # it has begun to write
        sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, out) == (128 + number, "")
    assert "aborted" in err
    assert names(work) == before


def folds_for_minutes() -> onnx.ModelProto:
    """A model whose constants are multiplied at compile time, in one native call."""
    wide = 1024
    weight = onnx.numpy_helper.from_array(np.full((wide, wide), 0.01, np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, wide]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["w", "w" if k == 0 else f"w{k}"], [f"w{k + 1}"]) for k in range(30)]
    nodes.append(helper.make_node("MatMul", ["x", "w30"], ["y"]))
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGINT])
def test_a_signal_is_heard_in_native_code(work: Path, number: signal.Signals):
    onnx.save(folds_for_minutes(), work / "m.onnx")
    (work / "phases").mkdir()
    process = started(work, "compile", "m.onnx", "--target", "host", "--dump-phases", "phases", "--no-cache")
    end = monotonic() + _SECONDS
    while not [*work.glob("phases/*import*")] and monotonic() < end:  # what follows is the folding
        sleep(0.01)
    sleep(1)
    process.send_signal(number)
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, out, err) == (128 + number, "", "aborted\n")
    assert [name for name in names(work) if not name.startswith("phases/")] == ["m.onnx", "phases", "tmp"]


def test_what_a_command_started_ends_with_it(work: Path):
    code = (
        "import ctypes, subprocess; from arm_ext.cli import process; from arm_ext.common import scratch\n"
        "process.prepare()\n"
        "with scratch.temporary_files(), scratch.scratch(scratch.Path.cwd()):\n"
        "    subprocess.Popen(['sh', '-c', 'sleep 100 & wait'], start_new_session=True)\n"
        "    ctypes.CDLL(None).system(b'echo begun; sleep 100')"  # native code, which no signal interrupts
    )
    before = names(work)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=work, text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.terminate()
    try:
        process.communicate(timeout=_SECONDS)  # the other processes have this end of the pipe, too
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert names(work) == before


def test_a_process_whose_name_is_no_text_is_found():
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff) R 1'); print('named', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "named\n"
        assert child.pid in _descendants()
        child.communicate("\n")


def test_a_reader_that_goes_changes_no_exit_code(work: Path):
    reading, writing = os.pipe()
    os.close(reading)
    process = started(work, "targets", stdout=writing)
    os.close(writing)
    assert (process.communicate(timeout=_SECONDS)[1], process.returncode) == ("", 0)


def test_a_result_that_cannot_be_printed_is_said(work: Path):
    with Path("/dev/full").open("w") as full:
        process = started(work, "targets", stdout=full)
        _, err = process.communicate(timeout=_SECONDS)
        assert (err, process.returncode) == ("error: no space left on standard output\n", 3)
        process = started(work, "targets", "--nonsense", stderr=full)
        assert process.communicate(timeout=_SECONDS)[0] == ""
        assert process.returncode == 2


def closed(stream: int) -> Callable[[], None]:
    return lambda: os.close(stream)


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_stream_that_is_closed_gives_its_number_to_no_file(work: Path, stream: int):
    process = started(work, "targets", preexec_fn=closed(stream))
    process.communicate(timeout=_SECONDS)
    assert process.returncode == 0


def test_a_tmpdir_that_is_missing_is_one_sentence(work: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(work / "gone"))
    process = started(work, "compile", "m.onnx", "--target", "host")
    _, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 3
    assert err.startswith(f"error: temporary files: {work}/gone: no such file")
    assert len(err.splitlines()) == 1


def test_an_interrupt_is_known_as_one_whatever_a_library_makes_of_it() -> None:
    code = (
        "import os, signal; from arm_ext.cli import process; process.prepare()\n"
        "try: os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt: pass\n"
        "assert process.was_ended(); assert process.code_of_end() == 130; process.leave(process.code_of_end())"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 130


@pytest.mark.parametrize("during", ["process._kill_descendants", "cli._aborted"])
def test_a_second_interrupt_while_the_first_is_handled(during: str) -> None:
    code = (
        "import os, signal; from arm_ext import cli; from arm_ext.cli import process\n"
        "def interrupt(): os.kill(os.getpid(), signal.SIGINT)\n"
        "def raised(*_, **__):\n"
        "    try: interrupt()\n"
        "    except KeyboardInterrupt: raise cli.click.Abort from None  # as click does\n"
        "def then(function):\n"
        "    calls = [0]\n"
        "    def interrupted():\n"
        "        calls[0] += 1\n"
        "        if calls[0] == 1: interrupt()\n"
        "        return function()\n"
        "    return interrupted\n"
        f"{during} = then({during})\n"
        "cli.group.main = raised\n"
        "cli.main([])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "aborted\n")
