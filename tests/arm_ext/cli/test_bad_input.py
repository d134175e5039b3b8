# SPDX-License-Identifier: Apache-2.0
"""What a user gets wrong: a message on one screen that names it, the right exit code, nothing left behind."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from arm_ext.cli import invoke
from tests.arm_ext.models import mlp, model, residual_cnn

# A terminal of the smallest usual size.
SCREEN_LINES = 24


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def onnx_file(proto: onnx.ModelProto, keep: float = 1.0) -> Callable[[Path], None]:
    data = proto.SerializeToString()
    return lambda folder: (folder / "m.onnx").write_bytes(data[: int(len(data) * keep)]) and None


def unknown_operator() -> onnx.ModelProto:
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="frob1", domain="acme")
    return model([node], {"x": [1]}, ["y"], domains=("acme",))


def contradicting_shapes() -> onnx.ModelProto:
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        {"x": [2, 3]},
        ["y"],
        {"w": np.ones((4, 5), "f")},
    )


def missing_external_data(folder: Path) -> None:
    onnx.save(mlp(), folder / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / "weights.bin").unlink()


def occupied_output(folder: Path) -> None:
    onnx_file(mlp())(folder)
    (folder / "m.armpkg").mkdir()
    (folder / "m.armpkg" / "notes.txt").write_text("mine")


def output_is_a_file(folder: Path) -> None:
    onnx_file(mlp())(folder)
    (folder / "m.armpkg").write_text("mine")


def occupied_dump(folder: Path) -> None:
    onnx_file(mlp())(folder)
    (folder / "d").mkdir()
    (folder / "d" / "00-import.py").write_text("mine")


def dangling_output(folder: Path) -> None:
    onnx_file(mlp())(folder)
    (folder / "m.armpkg").symlink_to("nothing")


def folder_of_that_name(folder: Path) -> None:
    (folder / "m.onnx").mkdir()


def text(content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "m.onnx").write_text(content) and None


COMPILE = [
    ("missing file", lambda _: None, [], 2, "m.onnx: no such model file"),
    ("a folder", folder_of_that_name, [], 2, "m.onnx: a folder, not a model file"),
    ("empty file", text(""), [], 2, "m.onnx: the file is empty"),
    ("not ONNX", text("hello, world"), [], 2, "m.onnx: not an ONNX model"),
    ("truncated", onnx_file(residual_cnn(), 0.6), [], 2, "m"),
    ("unknown operator", onnx_file(unknown_operator()), [], 1, "acme.Frobnicate (1x): frob1"),
    ("contradicting shapes", onnx_file(contradicting_shapes()), [], 1, "mm"),
    ("external data missing", missing_external_data, [], 2, "weights.bin"),
    ("dynamic dimension", onnx_file(mlp("n")), [], 2, "--shape x=1,31"),
    ("shape does not fit", onnx_file(mlp("n")), ["--shape", "x=1,30"], 2, "does not fit"),
    ("shape of no input", onnx_file(mlp()), ["--shape", "z=1,31"], 2, "the inputs are: x"),
    (
        "lists of two lengths",
        onnx_file(mlp("n")),
        ["--shape", "x={1,2},{31}"],
        2,
        "must have the same length",
    ),
    ("a size twice", onnx_file(mlp("n")), ["--shape", "x={1,1},31"], 2, "listed twice"),
    ("one list size unfit", onnx_file(mlp("n")), ["--shape", "x=2,{31,30}"], 2, "x=2,30 does not fit"),
    ("braces open", onnx_file(mlp("n")), ["--shape", "x={1,2,31"], 2, "'NAME=1,{64,128}'"),
    (
        "braces that a shell took apart",
        onnx_file(mlp("n")),
        ["--shape=x=1,31", "--shape=x=2,31"],
        2,
        "and quote them",
    ),
    ("the same of one option", onnx_file(mlp("n")), ["--shape", "x=1,31", "x=2,31"], 2, "quote that"),
    ("name of an inner axis", onnx_file(mlp("n")), ["--shape", "x=1,n"], 2, "--shape 'x=1,{64,128}'"),
    ("malformed shape", onnx_file(mlp()), ["--shape", "x=1,3.5"], 2, "NAME=1,3,224,224"),
    ("unknown target", onnx_file(mlp()), ["--target", "cortex-a67"], 2, "cortex-a76"),
    ("a board's other name", onnx_file(mlp()), ["--target", "rpi5"], 2, "did you mean raspberry-pi-5?"),
    ("bare metal", onnx_file(mlp()), ["--target", "cortex-m55"], 2, "--emit c-library"),
    ("unknown feature", onnx_file(mlp()), ["--mattr", "+dotproduct"], 2, "dotprod"),
    ("malformed mattr", onnx_file(mlp()), ["--mattr", "dotprod"], 2, "+i8mm,-sve"),
    ("occupied output", occupied_output, [], 2, "is not a package"),
    ("output is a file", output_is_a_file, [], 2, "is a file"),
    ("unwritable output", onnx_file(mlp()), ["-o", "/proc/p.armpkg"], 2, "cannot be written"),
    ("parent missing", onnx_file(mlp()), ["-o", "none/p"], 2, "there is no folder none"),
    ("the current folder", onnx_file(mlp()), ["-o", "."], 2, "current folder"),
    ("dump in the output", onnx_file(mlp()), ["--dump-phases", "m.armpkg/d"], 2, "no folder m.armpkg"),
    ("dump is a file", onnx_file(mlp()), ["--dump-phases", "m.onnx"], 2, "is a file"),
    ("dump over the user's", occupied_dump, ["--dump-phases", "d"], 2, "00-import.py: arm-ext did not"),
    ("output is a dangling link", dangling_output, [], 2, "is a link to nothing"),
    ("missing linker", onnx_file(mlp()), ["--cc", "no-such-gcc"], 3, "no-such-gcc"),
    ("memory budget", onnx_file(residual_cnn()), ["--memory-budget", "100"], 1, "depthwise"),
    ("unknown option", onnx_file(mlp()), ["--traget", "arm"], 2, "--target"),
]


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("setup", "options", "code", "says"), [c[1:] for c in COMPILE], ids=[c[0] for c in COMPILE]
)
def test_compile(
    work: Path,
    capsys: pytest.CaptureFixture[str],
    setup: Callable[[Path], None],
    options: list[str],
    code: int,
    says: str,
):
    setup(work)
    before = files(work)
    assert invoke(["compile", "m.onnx", *options]) == code
    captured = capsys.readouterr()
    assert says.lower() in captured.err.lower()
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= SCREEN_LINES
    assert captured.out == ""
    assert files(work) == before


def not_a_package(_package: Path) -> list[str]:
    Path("empty").mkdir()
    return ["empty"]


def a_model(_package: Path) -> list[str]:
    onnx.save(mlp(), "m.onnx")
    return ["m.onnx"]


def damaged_manifest(package: Path) -> list[str]:
    shutil.copytree(package, "p")
    Path("p/manifest.json").write_text('{"schema_version": 2, "model": 3}')
    return ["p"]


def damaged_selftest(package: Path) -> list[str]:
    shutil.copytree(package, "p")
    Path("p/selftest.npz").write_bytes(b"PK nonsense")
    return ["p", "--check"]


def damaged_library(package: Path) -> list[str]:
    shutil.copytree(package, "p")
    data = Path("p/model.so").read_bytes()
    Path("p/model.so").write_bytes(data[: len(data) // 2])
    return ["p"]


def array(value: np.ndarray, name: str = "image") -> Callable[[Path], list[str]]:
    def setup(package: Path) -> list[str]:
        np.save("x.npy", value)
        return [str(package), "--input", f"{name}=x.npy"]

    return setup


def twice(package: Path) -> list[str]:
    np.save("x.npy", np.zeros((1, 1, 8, 8), np.float32))
    return [str(package), "--input", "image=x.npy", "--input", "image=x.npy"]


def no_array(package: Path) -> list[str]:
    Path("x.npy").write_text("not an array")
    return [str(package), "--input", "image=x.npy"]


def options(*extra: str) -> Callable[[Path], list[str]]:
    return lambda package: [str(package), *extra]


def labelled(count: int, labels: object) -> Callable[[Path], list[str]]:
    def setup(package: Path) -> list[str]:
        np.savez("a.npz", inputs=np.zeros((count, 1, 8, 8), np.float32), labels=labels)
        return [str(package), "--accuracy", "a.npz"]

    return setup


RUN = [
    ("not a package", not_a_package, 2, "make one with: arm-ext compile MODEL -o empty"),
    ("a model for a package", a_model, 2, "make one with: arm-ext compile m.onnx"),
    ("damaged manifest", damaged_manifest, 2, "manifest.json: files"),
    ("damaged self-test", damaged_selftest, 2, "selftest.npz"),
    ("damaged library", damaged_library, 2, "model.so: is damaged"),
    ("wrong shape", array(np.zeros((1, 8, 8), np.float32)), 2, "the model takes [1, 1, 8, 8]"),
    ("wrong dtype", array(np.zeros((1, 1, 8, 8))), 2, "the model takes float32"),
    ("no such input", array(np.zeros(1), "pixels"), 2, "names no input: pixels"),
    ("an input twice", twice, 2, "--input image is given twice"),
    ("not an array", no_array, 2, "not a readable .npy"),
    ("unknown board", options("--board", "virtual:cortex-z1"), 2, "cortex-z1"),
    ("malformed board", options("--board", "over there"), 2, "192.168.0.7:9090"),
    ("board away", options("--board", "127.0.0.1:1"), 3, "127.0.0.1:1"),
    ("board lacks a feature", options("--board", "virtual:cortex-a72"), 3, "dotprod"),
    ("threads of a board", options("--board", "127.0.0.1:1", "--threads", "2"), 2, "TVM_NUM_THREADS"),
    ("fewer labels", labelled(3, np.arange(2)), 2, "a.npz: 3 inputs and 2 labels"),
    ("no samples", labelled(0, np.arange(0)), 2, "a.npz: 0 inputs and 0 labels"),
    (
        "labels of text",
        labelled(2, np.array(["a", "b"])),
        2,
        "a.npz: labels are <U1[2]; expected a list of integers",
    ),
    ("no labelled data", options("--accuracy", "nowhere.npz"), 2, "nowhere.npz"),
]


@pytest.mark.parametrize(("setup", "code", "says"), [c[1:] for c in RUN], ids=[c[0] for c in RUN])
def test_run(
    work: Path,
    digits_package: Path,
    capsys: pytest.CaptureFixture[str],
    setup: Callable[[Path], list[str]],
    code: int,
    says: str,
):
    arguments = setup(digits_package)
    before = files(work)
    assert invoke(["run", *arguments]) == code
    captured = capsys.readouterr()
    assert says.lower() in captured.err.lower()
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= SCREEN_LINES
    assert captured.out == ""
    assert files(work) == before
