# SPDX-License-Identifier: Apache-2.0
"""Names that steer a terminal, through every verb on a terminal: click strips some sequences elsewhere."""

import importlib
import json
import os
import pty
import sys
import termios
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from arm_ext import cli
from arm_ext.common.text import NAME, shown, visible

# Clears the screen, sets the window's title, C1's CSI, reverses text, begins a line, overwrites one, rings the bell.
CONTROLS = {
    "escape": "\x1b[2J",
    "title": "\x1b]0;x\x07",
    "c1": "\x9b31m",
    "bidi": "\u202e\u2066",
    "newline": "\nerror: all is well\n",
    "return": "\rok",
    "separator": "\u2028",
}
EVIL = "n" + "".join(CONTROLS.values())
LONG = "n" * 5000
VERBS = tuple(cli.group.list_commands(None))
OF_MODELS = (
    *("compile", "explain", "quantize"),
    *(pytest.param(verb, marks=pytest.mark.long) for verb in ("accuracy", "advise", "tune")),
)


def model(operator: str = "Relu", node: str = "relu", value: str = "y", domain: str = "") -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", value)]
    made = helper.make_node(operator, ["x"], [value], name=node, domain=domain)
    opsets = [helper.make_opsetid(name, 1 if name else 18) for name in {"", domain}]
    return helper.make_model(
        helper.make_graph([made], "g", ends[:1], ends[1:]), opset_imports=opsets, ir_version=9
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, proto in {
        "node": model(node=EVIL),
        "long": model(node=LONG),
        "operator": model(operator=EVIL),
        "domain": model(domain=EVIL),
        "value": model(value=EVIL),
        "long-value": model(value=LONG),
    }.items():
        onnx.save(proto, folder / f"{name}.onnx")
    for verb in VERBS:  # a child that is forked below need not import them again
        importlib.import_module(f"arm_ext.cli.{verb.replace('-', '_')}")
    return folder


def on_terminal(*argv: str, fresh: bool = False) -> tuple[int, str]:
    """The exit code and all that a command shows on a terminal of its own.

    `fresh` has it in an interpreter of its own, and with a progress bar: rich looks at the terminal when it is loaded.
    """
    child, terminal = pty.fork()
    if child == 0:
        if fresh:
            environment = {
                name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")
            }
            program = "import sys; from arm_ext.cli import main; main(sys.argv[1:])"
            os.execve(sys.executable, [sys.executable, "-c", program, *argv], environment | {"TERM": "xterm"})
        os.environ["NO_COLOR"] = "1"  # no progress bar
        code = 99
        try:
            cli.main(argv)
        except SystemExit as end:
            code = int(end.code or 0)
        finally:  # never back into pytest
            sys.stdout.flush()
            os._exit(code)
    termios.tcsetwinsize(terminal, (30, 100))
    shown_bytes = b""
    while True:
        try:
            found = os.read(terminal, 1 << 16)
        except OSError:  # as Linux tells that nobody has the terminal open any more
            found = b""
        if not found:
            break
        shown_bytes += found
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown_bytes.decode().replace("\r\n", "\n")


def assert_harmless(text: str) -> None:
    for name, control in CONTROLS.items():
        assert control not in text, name
    assert max(map(len, text.split())) < 2 * NAME


@pytest.mark.parametrize("verb", VERBS)
def test_options_and_paths(verb: str):
    code, text = on_terminal(verb, f"--{EVIL.replace(chr(10), '')}")
    assert code == 2
    assert "\x1b" not in text
    if verb in ("cache", "db", "doctor", "llm", "operators", "targets", "board"):
        return  # they take no path first
    code, text = on_terminal(verb, f"{EVIL}.onnx")
    assert code == 2
    assert_harmless(text)
    assert "\\u001b[2J" in text


@pytest.mark.each_once
@pytest.mark.parametrize("verb", OF_MODELS)
@pytest.mark.parametrize("name", ["operator", "domain", "value", "long-value"])
def test_names_by_which_nothing_can_be_called(models: Path, tmp_path: Path, verb: str, name: str):
    more = ("--against", str(models / "node.onnx")) if verb == "accuracy" else ()
    code, text = on_terminal(verb, str(models / f"{name}.onnx"), *more)
    assert code in (1, 2), text
    assert_harmless(text)
    assert "characters" in text or verb in ("accuracy", "quantize", "tune"), text


@pytest.mark.parametrize("name", ["node", pytest.param("long", marks=pytest.mark.long)])
def test_names_of_nodes_in_reports(models: Path, tmp_path: Path, name: str):
    package = tmp_path / "m.armpkg"
    code, text = on_terminal("compile", str(models / f"{name}.onnx"), "-o", str(package))
    assert code == 0, text
    assert_harmless(text)
    for file in ("report.txt", "report.json", "manifest.json"):
        assert_harmless((package / file).read_text())
    (kernel,) = json.loads((package / "report.json").read_text())["kernels"]
    assert kernel["sources"] == [shown(EVIL if name == "node" else LONG)]
    for argv in (("explain", str(models / f"{name}.onnx")), ("run", str(package), "--check")):
        code, text = on_terminal(*argv)
        assert code == 0, text
        assert_harmless(text)


def test_a_progress_bar_is_one(models: Path, tmp_path: Path):
    code, text = on_terminal(
        "compile", str(models / "node.onnx"), "-o", str(tmp_path / "m.armpkg"), fresh=True
    )
    assert code == 0
    assert "\x1b[2K" in text  # rich clears the line
    assert "\\u001b[2K" not in text


def test_json_stays_json():
    assert visible('{"a": "\u202e\x9b"}') == '{"a": "\\u202e\\u009b"}'
    assert visible("a\tb\nc") == "a\tb\nc"
    assert shown("a\tb\nc") == "a\\u0009b\\u000ac"
    assert len(shown(LONG)) == NAME
