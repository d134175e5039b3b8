# SPDX-License-Identifier: Apache-2.0
"""C libraries, quantize, accuracy, advise, profile, the cache, files of options, and plugins."""

import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from tests.hostile.case import DONE, ENVIRONMENT, FINDING, REFUSED, USAGE, Case, asset, both, cases
from tests.hostile.environment_cases import fill
from tests.hostile.models import arrays, constant, fifo, folder, link, mode, node, put, read_only, relu, saved
from tests.hostile.package_cases import copy, mount

OK = frozenset({DONE})
BAD = frozenset({USAGE, ENVIRONMENT})
HOST = ("--target", "host")
_RELU, _MLP = "{assets}/relu.onnx", "{assets}/mlp.onnx"


def given(name: str, to: str) -> Callable[[Path], object]:
    """Return a `make` that copies a shared file."""
    return lambda work: shutil.copy(asset(name), work / to)


def hard(name: str, to: str) -> Callable[[Path], object]:
    """Return a `make` of a second name of a file."""
    return lambda work: os.link(work / to, work / name)


def _named(name: str, stem: str) -> Callable[[Path], object]:
    """A model whose tensors have this name."""
    return saved(
        lambda: relu([node("Relu", [name], [f"{name}o"])], names=(name,), outputs=(f"{name}o",)), stem
    )


def _library(*models: str, out: str = "lib", more: tuple[str, ...] = ()) -> tuple[str, ...]:
    return ("compile", *models, "--emit", "c-library", *HOST, "-o", out, *more)


_LIB = ("lib", "lib/*")
_P = ("p", "p/*")
_OWN = {"exits": OK, "writes": _LIB}
_EITHER = {"exits": frozenset({DONE, FINDING, USAGE}), "writes": _LIB}
C_LIBRARIES = cases(
    "compile/c-library",
    [
        ("one-model-twice", _library(_RELU, _RELU), r"relu", _EITHER),
        ("models-of-one-name", _library("a/m.onnx", "b/m.onnx"), r"\bm\b", {"make": both(saved(relu(), "a/m.onnx"), saved(relu(), "b/m.onnx"))}),
        ("names-that-become-one", _library("a-b.onnx", "a_b.onnx"), r"a.b", {"make": both(saved(relu(), "a-b.onnx"), saved(relu(), "a_b.onnx"))}),
        ("outputs-of-one-name", _library("a.onnx", "b.onnx"), "", {"make": both(saved(relu(), "a.onnx"), saved(relu(), "b.onnx")), **_OWN}),
        ("named-as-the-library", _library("lib.onnx", "b.onnx"), r"lib", {"make": both(saved(relu(), "lib.onnx"), saved(relu(), "b.onnx")), **_EITHER}),
        ("keyword", _library("int.onnx"), "", {"make": saved(relu(), "int.onnx"), **_OWN}),
        ("number", _library("1.onnx"), "", {"make": saved(relu(), "1.onnx"), **_OWN}),
        ("main", _library("main.onnx"), "", {"make": saved(relu(), "main.onnx"), **_OWN}),
        ("unicode", _library("模型.onnx"), "", {"make": saved(relu(), "模型.onnx"), **_OWN}),
        ("newline", _library("a\n#error x\n.onnx"), "", {"make": saved(relu(), "a\n#error x\n.onnx"), **_OWN}),
        ("long", _library("m" * 240 + ".onnx"), r"m|long", {"make": saved(relu(), "m" * 240 + ".onnx"), **_EITHER}),
        ("tensor-that-ends-a-comment", _library("m.onnx"), "", {"make": _named('*/ #error "x" /*', "m.onnx"), **_OWN}),
        ("tensor-with-trigraphs", _library("m.onnx"), "", {"make": _named("a??/\nb\\", "m.onnx"), **_OWN}),
        ("tensor-that-is-a-keyword", _library("m.onnx"), "", {"make": _named("double", "m.onnx"), **_OWN}),
        ("over-a-package", _library(_RELU, out="p"), r"\bp\b", {"make": copy("host.armpkg", "p"), "exits": frozenset({DONE, USAGE}), "writes": ("p", "p/*")}),
        ("over-a-users-file", _library(_RELU), r"lib.*mine", {"make": put("lib/src/mine.c", "x")}),
        ("is-the-model", _library("m.onnx", out="m.onnx"), r"m\.onnx", {"make": saved(relu())}),
        ("around-the-model", _library("lib/m.onnx"), r"lib", {"make": saved(relu(), "lib/m.onnx")}),
        ("threads-257", _library(_RELU, more=("--threads", "257")), r"257"),
        ("regions-of-one-name", _library(_RELU, more=("--memory", "fast=1K,fast=2K")), r"fast"),
        ("region-of-nothing", _library(_RELU, more=("--memory", "fast=0,slow=1M")), r"fast|0", _EITHER),
        ("region-is-keyword", _library(_RELU, more=("--memory", "int=1K,slow=1M")), r"int", _EITHER),
        ("region-with-space", _library(_RELU, more=("--memory", "a b=1K")), r"a b"),
        ("region-of-2-to-70", _library(_RELU, more=("--memory", f"fast={1 << 70}")), r"fast|large|bytes", _EITHER),
        ("shape-of-no-model", _library("a.onnx", "b.onnx", more=("--shape", "c:x=1,8")), r"\bc\b", {"make": both(saved(relu(), "a.onnx"), saved(relu(), "b.onnx"))}),
        ("weights-of-a-package", ("compile", _RELU, *HOST, "--weights", "file", "-o", "lib"), r"--weights|c-library"),
        ("second-model-missing", _library(_RELU, "nope.onnx"), r"nope\.onnx"),
        ("full", ("compile", _RELU, "--emit", "c-library", *HOST, "-o", "mounted/lib"), r"space", {"make": lambda work: mount(work, "16k"), "needs": "root", "exits": frozenset({ENVIRONMENT})}),
        ("at-once", _library(_RELU), "", {"times": 2, "exits": frozenset({DONE, USAGE}), "writes": _LIB}),
    ],
    seconds=120,
)  # fmt: skip


def _config(text: str, *more: str) -> tuple[tuple[str, ...], Callable[[Path], object]]:
    return ("compile", "m.onnx", *HOST, "--config", "c.yaml", *more), both(saved(relu()), put("c.yaml", text))


def _c(what: str, text: str, says: str, **more: object) -> tuple[object, ...]:
    run, make = _config(text)
    return what, run, says, {"make": make, **more}


CONFIGS = cases(
    "compile/config",
    [
        _c("names-itself-as-output", "output: c.yaml\n", r"c\.yaml"),
        _c("names-the-model-as-output", "output: m.onnx\n", r"m\.onnx"),
        _c("names-its-folder-as-output", "output: .\n", r"\."),
        _c("dumps-over-itself", "dump-phases: c.yaml\noutput: p\n", r"c\.yaml"),
        _c("saves-a-node-over-itself", "save-node: relu\noutput: c.yaml\n", r"c\.yaml"),
        _c("itself", "config: c.yaml\n", r"config"),
        _c("unknown", "taget: arm\n", r"taget"),
        _c("list-for-one", "target: [host, arm]\n", r"target"),
        _c("mapping-for-one", "target: {a: b}\n", r"target"),
        _c("number-for-text", "precision: 5\n", r"precision|5"),
        _c("nan", "memory-budget: .nan\n", r"memory-budget|nan"),
        _c("null", "target: null\n", r"target", exits=frozenset({DONE, USAGE}), writes=("*.armpkg", "*.armpkg/*")),
        _c("help", "help: true\n", r"help"),
        _c("model", "model: other.onnx\n", r"model"),
        _c("key-twice", "precision: fp16\nprecision: fp32\n", r"precision"),
        _c("list", "- target\n", r"c\.yaml"),
        _c("empty", "", r"c\.yaml", exits=frozenset({DONE, USAGE}), writes=("m.armpkg", "m.armpkg/*")),
        _c("python-object", "target: !!python/object/apply:os.system ['touch x']\n", r"c\.yaml"),
        _c("aliases", "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else '*a'] * 9)}]\n" for n in range(9)), r"c\.yaml"),
        _c("bytes", "output: !!binary cA==\n", r"output"),
        _c("set", "target: !!set {a, b}\n", r"target"),
        _c("force-is-text", "force: perhaps\noutput: p\n", r"force|perhaps"),
        ("fifo", ("compile", "m.onnx", *HOST, "--config", "c.yaml"), r"c\.yaml", {"make": both(saved(relu()), fifo("c.yaml"))}),
        ("dev-zero", ("compile", "m.onnx", *HOST, "--config", "/dev/zero"), r"/dev/zero", {"make": saved(relu())}),
        ("model-as-config", ("compile", "m.onnx", *HOST, "--config", "m.onnx"), r"m\.onnx", {"make": saved(relu())}),
        ("twice", ("compile", "m.onnx", *HOST, "--config", "c.yaml", "--config", "d.yaml", "-o", "p"), r"d\.yaml|--config", {"make": both(saved(relu()), put("c.yaml", "{}"), put("d.yaml", "taget: x"))}),
    ],
    seconds=40,
)  # fmt: skip

_QUANTIZE = ("quantize", "m.onnx", "--data", "x.npz", "-o")
_FILES = both(given("mlp.onnx", "m.onnx"), given("mlp.npz", "x.npz"))


def _q(
    what: str, out: str, says: str, *steps: Callable[[Path], object], **more: object
) -> tuple[object, ...]:
    return what, (*_QUANTIZE, out), says, {"make": both(_FILES, *steps), **more}


def _with_external_weights(work: Path) -> None:
    model = onnx.load(asset("mlp.onnx"))
    onnx.save_model(model, work / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)


QUANTIZE = cases(
    "quantize/output",
    [
        _q("the-data", "x.npz", r"x\.npz"),
        _q("the-model", "m.onnx", r"m\.onnx"),
        _q("the-model-by-link", "l.onnx", r"m\.onnx", link("l.onnx", "m.onnx")),
        _q("the-model-by-hard-link", "h.onnx", r"h\.onnx", hard("h.onnx", "m.onnx")),
        _q("the-model-by-dots", "d/../m.onnx", r"m\.onnx", folder("d")),
        _q("folder", "d", r"\bd\b", folder("d")),
        _q("parent-missing", "a/q.onnx", r"\ba\b"),
        _q("dangling", "l.onnx", r"l\.onnx", link("l.onnx", "nowhere")),
        _q("dev-full", "/dev/full", r"/dev/full"),
        _q("fifo", "f.onnx", r"f\.onnx", fifo("f.onnx")),
        _q("read-only-folder", "d/q.onnx", r"\bd\b", read_only("d"), exits=BAD),
        _q("empty-name", "", r"-o|output|name"),
        _q("long", "q" * 251 + ".onnx", r"q|long", exits=BAD),
        _q("full", "mounted/q.onnx", r"space", lambda work: mount(work, "4k"), lambda work: fill(work / "mounted"), needs="root", exits=frozenset({ENVIRONMENT})),
        ("group-0", ("quantize", _MLP, "--weights", "int4", "--group", "0", "-o", "q.onnx"), r"--group|0"),
        ("group-alone", ("quantize", _MLP, "--data", "{assets}/mlp.npz", "--group", "7", "-o", "q.onnx"), r"--group"),
        ("no-data", ("quantize", _MLP, "-o", "q.onnx"), r"--data"),
        ("max-drop-nan", (*_QUANTIZE, "q.onnx", "--max-drop", "nan"), r"nan", {"make": _FILES}),
        ("max-drop-negative", (*_QUANTIZE, "q.onnx", "--max-drop", "-1%"), r"-1", {"make": _FILES}),
        ("keep-float-unknown", (*_QUANTIZE, "q.onnx", "--keep-float", "nope"), r"nope", {"make": _FILES}),
        ("correct-unknown", (*_QUANTIZE, "q.onnx", "--correct", "nope"), r"nope", {"make": _FILES}),
        ("metric-unknown", (*_QUANTIZE, "q.onnx", "--metric", "nope"), r"nope", {"make": _FILES}),
        ("metric-module-missing", (*_QUANTIZE, "q.onnx", "--metric", "no.such:f"), r"no\.such|--metric", {"make": _FILES}),
        ("metric-ends-the-process", (*_QUANTIZE, "q.onnx", "--metric", "ends:f"), r"ends", {"make": both(_FILES, put("ends.py", "import sys; sys.exit(0)"))}),
        ("already-quantised", ("quantize", "{assets}/int8.onnx", "--data", "{assets}/mlp.npz", "-o", "q.onnx"), r"quanti|int8", {"exits": REFUSED}),
        ("tflite", ("quantize", "{assets}/relu.tflite", "--data", "{assets}/relu.npz", "-o", "q.onnx"), r"relu\.tflite|ONNX"),
        ("data-of-absolute-names", ("quantize", "m.onnx", "--data", "z.npz", "-o", "q.onnx"), r"z\.npz|x\b", {"make": both(_FILES, lambda work: _members(work / "z.npz", "/etc/x.npy"))}),
        ("data-of-dots", ("quantize", "m.onnx", "--data", "z.npz", "-o", "q.onnx"), r"z\.npz|x\b", {"make": both(_FILES, lambda work: _members(work / "z.npz", "../x.npy"))}),
        ("its-external-weights-by-link", ("quantize", "m.onnx", "--data", "{assets}/mlp.npz", "-o", "l.onnx"), r"w\.bin.*read", {"make": both(_with_external_weights, link("l.onnx", "w.bin"))}),
        ("data-of-one-name-twice", ("quantize", "m.onnx", "--data", "z.npz", "-o", "q.onnx"), r"z\.npz|x\b", {"make": both(_FILES, lambda work: _members(work / "z.npz", "x.npy", "x.npy"))}),
    ],
    seconds=60,
)  # fmt: skip


def _members(path: Path, *names: str) -> None:
    """An archive of arrays with members of these names."""
    data = path.with_suffix(".npy")
    np.save(data, np.ones((4, 2, 31), np.float32))
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, data.read_bytes())
    data.unlink()


def _ql(
    what: str, says: str, *options: str, make: Callable[[Path], object] = _FILES, **more: object
) -> tuple[object, ...]:
    return what, (*_QUANTIZE, "q.onnx", *options), says, {"make": make, **more}


_Q = {"exits": OK, "writes": ("q.onnx",)}
_QE = {"exits": frozenset({DONE, FINDING, USAGE}), "writes": ("q.onnx",)}


def _images(*names: str, labels: str = "") -> Callable[[Path], object]:
    """A folder of images of one colour, and a labels.csv."""

    def make(work: Path) -> None:
        from PIL import Image

        for name in names:
            path = work / "images" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (200, 100, 50)).save(path)
        if labels:
            (work / "images" / "labels.csv").write_text(labels)

    return make


_ON_IMAGES = ("quantize", "{assets}/image.onnx", "--data", "images", "-o", "q.onnx")
QUANTIZE_OPTIONS = cases(
    "quantize/options",
    [
        _ql("value-unknown", r"nope", "--value", "nope=1"),
        _ql("value-empty", r"--value", "--value", "x="),
        _ql("value-twice", r"--value|\bx\b", "--value", "x=1", "--value", "x=2"),
        _ql("state-unknown", r"nope", "--state", "nope=y"),
        _ql("state-of-another-shape", r"x|y|shape", "--state", "x=y", exits=REFUSED),
        _ql("int16-unknown", r"nope", "--int16", "nope"),
        _ql("int16-and-float", r"fc1", "--int16", "fc1", "--keep-float", "fc1"),
        _ql("float16-and-int16", r"fc1", "--int16", "fc1", "--float16", "fc1"),
        _ql("only-and-kept", r"--only.*--keep-float", "--only", "fc1", "--keep-float", "fc1"),
        _ql("only-of-an-activation", r"relu|fc", "--only", "relu", **_QE),
        _ql("float16-unknown", r"nope", "--float16", "nope"),
        _ql("weights-with-int16", r"--int16|--weights", "--weights", "int8", "--int16", "fc1"),
        _ql("weights-with-activations", r"--activations|--weights", "--weights", "int8", "--activations", "int16"),
        _ql("npu-alone", "", "--npu", "ethos-u65-256", **_Q),
        _ql("npu-unknown", r"nope", "--npu", "nope", "--max-drop", "1%", "--metric", "cosine"),
        _ql("max-drop-without-metric", r"--metric|labels", "--max-drop", "1%"),
        _ql("max-drop-150", r"150", "--max-drop", "150%", "--metric", "cosine"),
        _ql("labels-missing", r"labels", "--metric", "top1"),
        _ql("labels-of-another-length", r"labels", "--metric", "top1", make=both(given("mlp.onnx", "m.onnx"), arrays("x.npz", x=np.ones((4, 2, 31), np.float32), labels=np.zeros(9, int)))),
        _ql("labels-of-text", r"labels", "--metric", "top1", make=both(given("mlp.onnx", "m.onnx"), arrays("x.npz", x=np.ones((4, 2, 31), np.float32), labels=np.array(list("abcd"))))),
        _ql("labels-outside", r"labels|class", "--metric", "top1", make=both(given("mlp.onnx", "m.onnx"), arrays("x.npz", x=np.ones((4, 2, 31), np.float32), labels=np.full((4, 2), 10**12))), **_QE),
        _ql("metric-gives-nan", r"nan|number|m:f", "--metric", "m:f", "--max-drop", "1%", make=both(_FILES, put("m.py", "def f(**_): return float('nan')"))),
        _ql("metric-gives-text", r"m:f", "--metric", "m:f", make=both(_FILES, put("m.py", "def f(**_): return 'good'"))),
        _ql("metric-raises", r"m:f", "--metric", "m:f", make=both(_FILES, put("m.py", "def f(**_): raise KeyError(5)"))),
        _ql("sparsity-with-weights", r"--sparsity|--weights", "--sparsity", "2:4", "--weights", "int4", **_QE),
        _ql("group-beyond-the-weights", r"group|1000000", "--weights", "int4", "--group", "1000000", **_QE),
        _ql("preprocess-without-images", r"--preprocess", "--preprocess", "p.yaml", make=both(_FILES, put("p.yaml", "inputs: {}"))),
        _ql("over-the-plugin", r"p\.py", "--plugin", "p.py", make=both(_FILES, put("p.py", "")), **_QE),
        _ql("json", "", "--json", **_Q),
        _ql("all-json", "", "--all", "--json", **_Q),
        ("output-is-the-plugin", (*_QUANTIZE, "p.py", "--plugin", "p.py"), r"p\.py", {"make": both(_FILES, put("p.py", ""))}),
        ("output-is-the-state-init", (*_QUANTIZE, "s.npz", "--state", "x=y", "--state-init", "s.npz"), r"s\.npz", {"make": both(_FILES, arrays("s.npz", x=np.ones(1)))}),
        ("output-in-the-images", ("quantize", "{assets}/image.onnx", "--data", "images", "-o", "images/labels.csv"), r"labels\.csv", {"make": _images("a/1.png", "b/2.png", labels="1.png,0\n")}),
        ("output-over-an-image", ("quantize", "{assets}/image.onnx", "--data", "images", "-o", "images/a/1.png"), r"1\.png", {"make": _images("a/1.png", "b/2.png")}),
        ("images-none", _ON_IMAGES, r"images", {"make": folder("images")}),
        ("image-empty", _ON_IMAGES, r"1\.png", {"make": both(_images("a/2.png", "b/3.png"), put("images/a/1.png"))}),
        ("image-cut", _ON_IMAGES, r"1\.png", {"make": both(_images("a/1.png", "a/2.png", "b/3.png"), lambda work: (work / "images/a/1.png").write_bytes((work / "images/a/1.png").read_bytes()[:40]))}),
        ("image-of-2-to-60-pixels", _ON_IMAGES, r"1\.png", {"make": both(_images("a/1.png", "b/3.png"), lambda work: _enlarge(work / "images/a/1.png"))}),
        ("images-in-a-circle", _ON_IMAGES, r"images|loop|a/again", {"make": both(_images("a/1.png", "b/3.png"), link("images/a/again", "..")), **_QE}),
        ("image-links-nowhere", _ON_IMAGES, r"4\.png", {"make": both(_images("a/1.png", "b/3.png"), link("images/a/4.png", "nowhere"))}),
        ("image-unreadable", _ON_IMAGES, r"1\.png", {"make": both(_images("a/1.png", "b/3.png"), mode("images/a/1.png", 0)), "exits": BAD}),
        ("labels-csv-names-what-is-outside", _ON_IMAGES, r"passwd|labels\.csv", {"make": _images("1.png", labels="file,label\n../../../../etc/passwd,0\n1.png,0\n")}),
        ("labels-csv-negative", _ON_IMAGES, r"labels\.csv", {"make": _images("1.png", labels="file,label\n1.png,-4\n"), **_QE}),
        ("labels-csv-of-text", _ON_IMAGES, r"labels\.csv", {"make": _images("1.png", labels="file,label\n1.png,cat\n"), **_QE}),
        ("labels-csv-twice", _ON_IMAGES, r"labels\.csv|1\.png", {"make": _images("1.png", labels="file,label\n1.png,0\n1.png,1\n"), **_QE}),
        ("labels-csv-binary", _ON_IMAGES, r"labels\.csv", {"make": both(_images("1.png"), put("images/labels.csv", b"\xff\x00\xfe"))}),
        ("labels-csv-fifo", _ON_IMAGES, r"labels\.csv", {"make": both(_images("1.png"), fifo("images/labels.csv"))}),
        ("at-once", (*_QUANTIZE, "q.onnx"), "", {"make": _FILES, "times": 3, "exits": frozenset({DONE, USAGE, ENVIRONMENT}), "writes": ("q.onnx",)}),
        ("umask-777", (*_QUANTIZE, "q.onnx"), r"umask 777", {"make": _FILES, "umask": 0o777, "exits": frozenset({ENVIRONMENT})}),
        ("stdin-closed", (*_QUANTIZE, "q.onnx", "--json"), "", {"make": _FILES, "stdio": {0: "closed"}, **_Q}),
        ("stdout-closed", (*_QUANTIZE, "q.onnx"), "", {"make": _FILES, "stdio": {1: "closed"}, "exits": frozenset({DONE, ENVIRONMENT}), "writes": ("q.onnx",)}),
        ("stdout-full", (*_QUANTIZE, "q.onnx", "--json"), r"space", {"make": _FILES, "stdio": {1: "full"}, "exits": frozenset({ENVIRONMENT}), "writes": ("q.onnx",)}),
        ("working-folder-gone", ("quantize", _MLP, "--data", "{assets}/mlp.npz", "-o", "q.onnx"), r"working folder", {"make": folder("gone"), "cwd": "gone", "env": {"CWD_GONE": "1"}, "fresh": True, "exits": frozenset({ENVIRONMENT}), "writes": ("gone",)}),
        ("tmp-missing", (*_QUANTIZE, "q.onnx"), r"gone", {"make": _FILES, "env": {"TMPDIR": "{work}/gone"}, "exits": frozenset({ENVIRONMENT})}),
        ("home-missing", (*_QUANTIZE, "q.onnx"), "", {"make": _FILES, "env": {"HOME": "{work}/gone", "ARM_EXT_CACHE": None}, "exits": frozenset({DONE, ENVIRONMENT}), "writes": ("q.onnx", "gone", "gone/*")}),
        ("files-24", (*_QUANTIZE, "q.onnx"), r"files", {"make": _FILES, "limits": {resource.RLIMIT_NOFILE: 24}, "exits": frozenset({DONE, ENVIRONMENT}), "writes": ("q.onnx",)}),
        ("file-size-1k", (*_QUANTIZE, "q.onnx"), r"size|large", {"make": _FILES, "limits": {resource.RLIMIT_FSIZE: 1024}, "exits": frozenset({ENVIRONMENT})}),
        ("term", (*_QUANTIZE, "q.onnx"), r"aborted", {"make": _FILES, "signals": ((1.0, 15),), "exits": frozenset({DONE, 143}), "writes": ("q.onnx",)}),
        ("weights-are-huge", (*_QUANTIZE, "q.onnx"), r"finite|w\b|product|range", {"make": both(saved(lambda: _huge_weights()), arrays("x.npz", x=np.ones((4, 1, 8), np.float32))), "exits": frozenset({DONE, 1}), "writes": ("q.onnx",), "never": r"RuntimeWarning"}),
    ],
    seconds=120,
)  # fmt: skip


def _enlarge(path: Path) -> None:
    """Write other sizes into a PNG's header, with the right checksum."""
    import struct
    import zlib

    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", 2**30, 2**30)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    path.write_bytes(data)


def _huge_weights() -> onnx.ModelProto:
    weight = onnx.numpy_helper.from_array(np.full((8, 8), 1e38, np.float32), "w")
    return relu([node("MatMul", ["x", "w"], ["y"])], weights=[weight])


_QDQ = both(_FILES, lambda work: _made_int8(work))


def _made_int8(work: Path) -> None:
    """A quantised model of m.onnx, made once."""
    import arm_ext

    kept = asset("quantised.onnx")
    if not kept.exists():
        arm_ext.quantize(work / "m.onnx", work / "x.npz", kept)
    shutil.copy(kept, work / "q.onnx")


_A = ("accuracy", "q.onnx", "--against", "m.onnx", "--data", "x.npz")


def _ac(what: str, says: str, *options: str, **more: object) -> tuple[object, ...]:
    return what, (*_A, *options), says, {"make": _QDQ, **more}


ACCURACY_OPTIONS = cases(
    "accuracy/options",
    [
        _ac("bisect-alone", r"--min|--max-drop", "--bisect"),
        _ac("bisect-beyond-reach", r"bound", "--bisect", "--min", "cosine=2", "--metric", "cosine", exits=REFUSED),
        _ac("min-of-another-metric", r"nope", "--min", "nope=1"),
        _ac("min-without-value", r"--min", "--min", "top1"),
        _ac("max-drop-nan", r"nan", "--max-drop", "nan", "--metric", "cosine"),
        _ac("min-sqnr-inf", r"inf|dB", "--min-sqnr", "inf", exits=REFUSED),
        _ac("board-refused", r"127\.0\.0\.1:9", "--board", "127.0.0.1:9", exits=frozenset({ENVIRONMENT})),
        _ac("bisect-board-refused", r"127\.0\.0\.1:9|--board", "--board", "127.0.0.1:9", "--bisect", "--max-drop", "1%", "--metric", "cosine", exits=BAD),
        _ac("target-alone", r"--target", "--target", "cortex-a55", exits=frozenset({DONE, USAGE})),
        _ac("npu-unknown", r"nope", "--npu", "nope"),
        _ac("value-unknown", r"nope", "--value", "nope=1"),
        ("against-itself", ("accuracy", "q.onnx", "--against", "q.onnx", "--data", "x.npz"), r"q", {"make": _QDQ, "exits": frozenset({DONE, FINDING, USAGE})}),
        ("the-wrong-way-round", ("accuracy", "m.onnx", "--against", "q.onnx", "--data", "x.npz"), r"\bm\b", {"make": _QDQ, "exits": REFUSED}),
        ("against-another-model", ("accuracy", "q.onnx", "--against", "{assets}/relu.onnx", "--data", "x.npz"), r"relu|\bx\b", {"make": _QDQ, "exits": REFUSED}),
        ("against-missing", ("accuracy", "q.onnx", "--against", "nope.onnx", "--data", "x.npz"), r"nope\.onnx", {"make": _QDQ}),
        ("data-of-nan", (*_A,), r"x\b|nan|finite", {"make": both(_QDQ, arrays("x.npz", x=np.full((4, 2, 31), np.nan, np.float32))), "exits": frozenset({DONE, FINDING, USAGE})}),
        ("data-of-nan-json", (*_A, "--json"), "", {"make": both(_QDQ, arrays("x.npz", x=np.full((4, 2, 31), np.inf, np.float32))), "exits": frozenset({DONE, FINDING, USAGE})}),
        ("data-of-no-samples", (*_A,), r"samples", {"make": both(_QDQ, arrays("x.npz", x=np.ones((0, 2, 31), np.float32)))}),
        ("csv-full", (*_A, "-o", "mounted/a.csv"), r"space", {"make": both(_QDQ, lambda work: mount(work, "4k"), lambda work: fill(work / "mounted")), "needs": "root", "exits": frozenset({ENVIRONMENT})}),
        ("read-only-folder", (*_A, "-o", "d/a.html"), r"\bd\b", {"make": both(_QDQ, read_only("d")), "exits": BAD}),
        ("at-once", (*_A, "-o", "a.html"), "", {"make": _QDQ, "times": 3, "exits": frozenset({DONE, USAGE, ENVIRONMENT}), "writes": ("a.html",)}),
        ("umask-277", (*_A, "-o", "a.json"), r"umask 277", {"make": _QDQ, "umask": 0o277, "exits": frozenset({ENVIRONMENT})}),
        ("stdin-closed", (*_A, "--json"), "", {"make": _QDQ, "stdio": {0: "closed"}, "exits": OK}),
        ("stdout-full", (*_A,), r"space", {"make": _QDQ, "stdio": {1: "full"}, "exits": frozenset({ENVIRONMENT})}),
        ("stdout-broken", (*_A,), "", {"make": _QDQ, "stdio": {1: "broken"}, "exits": frozenset({DONE, ENVIRONMENT, 141})}),
        ("int", (*_A, "-o", "a.html"), r"aborted", {"make": _QDQ, "signals": ((1.0, 2),), "exits": frozenset({DONE, 130}), "writes": ("a.html",)}),
        ("output-in-a-link-loop", (*_A, "-o", "l/a.html"), r"\bl\b", {"make": both(_QDQ, link("l", "l")), "exits": BAD}),
        ("output-is-the-labels-file", ("accuracy", "{assets}/image.onnx", "--against", "{assets}/image.onnx", "--data", "images", "-o", "images/labels.csv"), r"labels\.csv", {"make": _images("1.png", labels="file,label\n1.png,0\n")}),
    ],
    seconds=120,
)  # fmt: skip

_ADVISE = ("advise", "{assets}/mlp.onnx", *HOST, "--board", "local")
ADVISE_OPTIONS = cases(
    "advise/options",
    [
        ("npu-nonsense", ("advise", "{assets}/int8.onnx", "--npu", "nope"), r"nope"),
        ("npu-empty", ("advise", "{assets}/int8.onnx", "--npu", ""), r"--npu"),
        ("npu-of-a-float-model", ("advise", _MLP, "--npu", "ethos-u55-32"), r"quanti|int8|float", {"exits": frozenset({DONE, FINDING, USAGE})}),
        ("npu-twice-the-same", ("advise", "{assets}/int8.onnx", "--npu", "ethos-u55-32,ethos-u55-32", "--json"), "", {"exits": OK}),
        ("npu-output-of-no-kind", ("advise", "{assets}/int8.onnx", "--npu", "ethos-u55-32", "-o", "a.txt"), r"a\.txt"),
        ("npu-output-twice", ("advise", "{assets}/int8.onnx", "--npu", "ethos-u55-32", "-o", "a.csv", "-o", "./a.csv"), "", {"exits": OK, "writes": ("a.csv",)}),
        ("measure-alone", (*_ADVISE, "--measure"), r"--measure|--npu"),
        ("measure-all", (*_ADVISE, "--npu", "all", "--measure"), r"--measure|all"),
        ("budget-negative", (*_ADVISE, "--budget=-5s"), r"--budget|-5s"),
        ("budget-0", (*_ADVISE, "--budget", "0s"), r"--budget|0s", {"exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
        ("max-error-negative", (*_ADVISE, "--max-error", "-1"), r"-1"),
        ("board-refused", ("advise", _MLP, "--board", "127.0.0.1:9"), r"127\.0\.0\.1:9", {"exits": frozenset({ENVIRONMENT})}),
        ("two-at-once", (*_ADVISE, "--budget", "1s", "--apply", "o.yaml"), "", {"times": 2, "exits": frozenset({DONE, ENVIRONMENT}), "writes": ("o.yaml",)}),
        ("stdin-closed", (*_ADVISE, "--budget", "1s", "--json"), "", {"stdio": {0: "closed"}, "exits": OK}),
        ("term", (*_ADVISE, "--apply", "o.yaml"), "", {"signals": ((2.0, 15),), "exits": frozenset({DONE, ENVIRONMENT, 143}), "writes": ("o.yaml",)}),
        ("apply-full", (*_ADVISE, "--budget", "1s", "--apply", "mounted/o.yaml"), r"space", {"make": both(lambda work: mount(work, "4k"), lambda work: fill(work / "mounted")), "needs": "root", "exits": frozenset({ENVIRONMENT})}),
        ("apply-read-only", (*_ADVISE, "--budget", "1s", "--apply", "d/o.yaml"), r"\bd\b", {"make": read_only("d"), "exits": BAD}),
    ],
    seconds=180,
)  # fmt: skip

_VALUE = ("compile", "m.onnx", *HOST, "-o", "p")


def _two_inputs() -> onnx.ModelProto:
    return relu([node("Add", ["x", "z"], ["y"])], names=("x", "z"))


def _v(what: str, says: str, *options: str, **more: object) -> tuple[object, ...]:
    return what, (*_VALUE, *options), says, {"make": saved(_two_inputs), **more}


_VE = {"exits": frozenset({DONE, FINDING, USAGE}), "writes": _P}
VALUES = cases(
    "compile/more-options",
    [
        _v("value-1e400", r"1e400|inf|z", "--value", "z=1e400", **_VE),
        _v("value-hex", r"0x10|z", "--value", "z=0x10", **_VE),
        _v("value-too-many", r"z", "--value", "z=1,2,3"),
        _v("value-of-nothing", r"--value", "--value", "=1"),
        _v("value-no-equals", r"--value", "--value", "z"),
        _v("value-5000-digits", r"z|--value", "--value", "z=" + "9" * 5000, **_VE),
        _v("value-of-all-inputs", r"input", "--value", "z=1", "--value", "x=1", **_VE),
        _v("value-and-shape", r"z", "--value", "z=1", "--shape", "z=1,8"),
        _v("value-and-state", r"z", "--value", "z=1", "--state", "z=y"),
        _v("value-as-arabic-digits", r"z|٣", "--value", "z=٣", **_VE),
        ("value-of-tflite", ("compile", "{assets}/relu.tflite", *HOST, "--value", "x=1", "-o", "p"), r"--value"),
        ("value-of-pt2", ("compile", "{assets}/relu.pt2", *HOST, "--value", "x=1", "-o", "p"), r"--value"),
        _v("without-kernel-unknown", r"nope", "--without-kernel", "nope"),
        _v("without-kernel-empty", r"--without-kernel|kernel", "--without-kernel", ""),
        _v("timings-and-json", "", "--timings", "--json", exits=OK, writes=_P),
        _v("memory-budget-0", r"budget|bytes", "--memory-budget", "0", exits=frozenset({DONE, FINDING}), writes=_P),
        _v("mattr-empty", r"--mattr|feature", "--mattr", "+"),
        _v("mattr-sve-on-host", r"sve", "--mattr", "+sve", **_VE),
        _v("dump-beside-the-model", "", "--dump-phases", ".", exits=OK, writes=(*_P, "*.py", "*.json")),
        _v("save-node-and-library", r"--save-node|--emit", "--save-node", "add", "--emit", "c-library", exits=frozenset({DONE, USAGE}), writes=("p",)),
        _v("output-ends-in-a-slash", "", "-o", "q/", exits=OK, writes=("q", "q/*")),
        _v("output-ends-in-a-dot", "", "-o", "q/.", exits=frozenset({DONE, USAGE}), writes=("q", "q/*")),
        _v("output-is-a-file-with-a-slash", r"m\.onnx", "-o", "m.onnx/"),
        _v("output-goes-around", "", "-o", "./d/../q", exits=frozenset({DONE, USAGE}), writes=("q", "q/*")),
        ("model-by-a-descriptor", ("compile", "/proc/self/fd/0", *HOST, "-o", "p"), r"/proc/self/fd/0", {}),
        ("model-is-dash-dash-help", ("compile", "./--help.onnx", *HOST, "-o", "p"), "", {"make": saved(relu(), "--help.onnx"), "exits": OK, "writes": _P}),
        ("model-is-dot-dot", ("compile", "..onnx", *HOST, "-o", "p"), "", {"make": saved(relu(), "..onnx"), "exits": OK, "writes": _P}),
        ("folder-of-newline", ("compile", "a\nb/m.onnx", *HOST, "-o", "a\nb/p"), "", {"make": saved(relu(), "a\nb/m.onnx"), "exits": OK, "writes": ("a\nb/p", "a\nb/p/*")}),
        ("output-of-300-letters", ("compile", _RELU, *HOST, "-o", "p" * 300), r"long", {"exits": BAD}),
        ("output-of-newline", ("compile", _RELU, *HOST, "-o", "p\nq"), "", {"exits": OK, "writes": ("p\nq", "p\nq/*")}),
        ("output-of-dash", ("compile", _RELU, *HOST, "-o", "-p"), "", {"exits": frozenset({DONE, USAGE}), "writes": ("-p", "-p/*")}),
        ("library-of-two-formats", _library(_RELU, "{assets}/relu.tflite", "{assets}/relu.mlir"), r"relu", {**_EITHER}),
        ("library-of-300-models", _library(*["m.onnx"] * 300), r"\bm\b", {"make": saved(relu()), **_EITHER}),
        ("library-memory-minus", _library(_RELU, more=("--memory", "fast=-1K")), r"fast|-1K"),
        ("library-memory-float", _library(_RELU, more=("--memory", "fast=1.5.K")), r"fast|1\.5"),
        ("library-memory-unnamed", _library(_RELU, more=("--memory", "=5K")), r"--memory|=5K"),
        ("library-memory-unicode", _library(_RELU, more=("--memory", "schnell\u00e9=5K")), r"schnell", _EITHER),
        ("library-memory-small", _library(_MLP, more=("--memory", "fast=16")), r"16|memory|bytes", {"exits": REFUSED}),
        ("library-memory-and-bound", _library("{assets}/dynamic.onnx", more=("--memory", "fast=1M", "--shape", "x=n<=16,31")), r"memory|bytes|n", {**_EITHER}),
        ("library-weights-beside-a-file", _library(_MLP, more=("--weights", "file")), r"lib.*mine", {"make": put("lib/mine.bin", "x")}),
        ("library-of-state-unknown", _library(_RELU, more=("--state", "relu:a=b")), r"\ba\b|--state"),
        ("library-preprocess-of-two", _library(_RELU, _MLP, more=("--preprocess", "p.yaml")), r"--preprocess", {"make": put("p.yaml", "inputs: {}")}),
        ("library-run", ("run", "lib"), r"lib", {"make": folder("lib"), "exits": BAD}),
    ],
    seconds=180,
)  # fmt: skip


_SAME = ("accuracy", "m.onnx", "--against", "m.onnx", "--data", "x.npz")
ACCURACY = cases(
    "accuracy/output",
    [
        ("the-data", (*_SAME, "-o", "x.npz"), r"x\.npz", {"make": _FILES}),
        ("the-data-by-hard-link", (*_SAME, "-o", "h.html"), r"h\.html", {"make": both(_FILES, hard("h.html", "x.npz"))}),
        ("the-reference-by-link", (*_SAME, "-o", "l.json"), r"m\.onnx", {"make": both(_FILES, link("l.json", "m.onnx"))}),
        ("one-file-twice", (*_SAME, "-o", "a.json", "-o", "./a.json"), r"quantised", {"make": _FILES, "exits": frozenset({DONE, FINDING, USAGE}), "writes": ("a.json",)}),
        ("ending-unknown", (*_SAME, "-o", "a.exe"), r"a\.exe", {"make": _FILES}),
        ("no-ending", (*_SAME, "-o", "a"), r"\ba\b", {"make": _FILES}),
        ("folder", (*_SAME, "-o", "d.json"), r"d\.json", {"make": both(_FILES, folder("d.json"))}),
        ("parent-missing", (*_SAME, "-o", "a/b.json"), r"\ba\b", {"make": _FILES}),
        ("the-plugin", (*_SAME, "--plugin", "g.json", "-o", "g.json"), r"g\.json", {"make": both(_FILES, put("g.json", "x = 1"))}),
        ("infinite-is-json", (*_SAME, "--json"), "", {"make": _FILES, "exits": frozenset({DONE, FINDING, USAGE})}),
        ("min-nan", (*_SAME, "--min", "top1=nan"), r"nan", {"make": _FILES}),
        ("min-sqnr-nan", (*_SAME, "--min-sqnr", "nan"), r"nan", {"make": _FILES}),
        ("min-nonsense", (*_SAME, "--min", "top1"), r"top1", {"make": _FILES}),
    ],
    seconds=60,
)  # fmt: skip

_PROFILE = ("profile", "p", "--board", "local", "-o")


def _page(work: Path) -> str | None:
    text = (work / "o.html").read_text() if (work / "o.html").exists() else ""
    return "a node's name became markup" if "<script>evil" in text else None


def _cells(work: Path) -> str | None:
    with (work / "o.csv").open(newline="") as file:
        found = [cell for row in csv.reader(file) for cell in row if cell.startswith("=")]
    return f"a spreadsheet computes {found[0]}" if found else None


_FORMULA = saved(lambda: relu([node("Relu", ["x"], ["y"], '=HYPERLINK("http://evil")')]))
_EVIL = saved(lambda: relu([node("Relu", ["x"], ["y"], "</script><script>evil()</script>")]))
PROFILE = cases(
    "profile/output",
    [
        ("a-file-of-the-package", (*_PROFILE, "p/report.json"), r"p/report\.json", {"make": copy("host.armpkg", "p")}),
        ("in-the-package", (*_PROFILE, "p/new.json"), r"p/new\.json", {"make": copy("host.armpkg", "p")}),
        ("a-file-of-the-package-by-hard-link", (*_PROFILE, "h.json"), r"h\.json", {"make": both(copy("host.armpkg", "p"), hard("h.json", "p/report.json"))}),
        ("what-it-compares-with", (*_PROFILE, "c.json", "--compare", "c.json"), r"c\.json", {"make": both(copy("host.armpkg", "p"), put("c.json", "{}"))}),
        ("compare-with-nonsense", (*_PROFILE, "o.html", "--compare", "c.json"), r"c\.json", {"make": both(copy("host.armpkg", "p"), put("c.json", '{"a": NaN}'))}),
        ("compare-with-deep", (*_PROFILE, "o.html", "--compare", "c.json"), r"c\.json", {"make": both(copy("host.armpkg", "p"), put("c.json", "[" * 100_000))}),
        ("dev-full", (*_PROFILE, "/dev/full"), r"/dev/full", {"make": copy("host.armpkg", "p")}),
        ("markup-in-names", ("profile", "m.onnx", *HOST, "--board", "local", "-o", "o.html"), "", {"make": _EVIL, "exits": OK, "writes": ("o.html",), "check": _page}),
        ("formula-in-names", ("profile", "m.onnx", *HOST, "--board", "local", "-o", "o.csv"), "", {"make": _FORMULA, "exits": OK, "writes": ("o.csv",), "check": _cells}),
        ("cores-nonsense", ("profile", "p", "--board", "local", "--cores", "7-4"), r"7-4", {"make": copy("host.armpkg", "p")}),
        ("cores-of-no-machine", ("profile", "p", "--board", "local", "--cores", "4096"), r"4096", {"make": copy("host.armpkg", "p"), "exits": BAD}),
    ],
    seconds=90,
)  # fmt: skip

_ADVISE = ("advise", "m.onnx", *HOST, "--board", "local", "--budget", "1s")
ADVISE = cases(
    "advise/output",
    [
        ("apply-over-the-model", (*_ADVISE, "--apply", "m.onnx"), r"m\.onnx", {"make": _FILES}),
        ("apply-over-the-samples", (*_ADVISE, "--quantize", "x.npz", "--apply", "x.npz"), r"x\.npz", {"make": _FILES}),
        ("apply-by-hard-link", (*_ADVISE, "--apply", "h.yaml"), r"h\.yaml", {"make": both(_FILES, hard("h.yaml", "m.onnx"))}),
        ("apply-over-a-text", (*_ADVISE, "--apply", "notes.txt"), r"notes\.txt.*YAML", {"make": both(_FILES, put("notes.txt", "mine"))}),
        ("tuned-missing", (*_ADVISE, "--tuned", "nope"), r"nope", {"make": _FILES}),
        ("apply-to-folder", (*_ADVISE, "--apply", "d"), r"\bd\b", {"make": both(_FILES, folder("d"))}),
        ("apply-parent-missing", (*_ADVISE, "--apply", "a/b.yaml"), r"\ba\b", {"make": _FILES}),
        ("output-without-npu", (*_ADVISE, "-o", "o.html"), r"--npu", {"make": _FILES}),
        ("max-error-nan", (*_ADVISE, "--max-error", "nan"), r"nan", {"make": _FILES}),
        ("budget-nan", ("advise", "m.onnx", "--budget", "nans"), r"nan", {"make": _FILES}),
        ("package", ("advise", "{assets}/host.armpkg"), r"host\.armpkg"),
    ],
    seconds=60,
)  # fmt: skip


def _pipes(work: Path) -> None:
    """A cache whose entries are named pipes."""
    source = "from arm_ext.cli import main; main()"
    command = [
        sys.executable,
        "-P",
        "-c",
        source,
        "compile",
        str(asset("relu.onnx")),
        *HOST,
        "-o",
        str(work / "old"),
    ]
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "ARM_EXT_CACHE": str(work / "c"), "PYTHONPATH": root}
    subprocess.run(command, env=env, check=True, capture_output=True)
    shutil.rmtree(work / "old")
    for path in [path for kind in ("kernels", "selftests") for path in (work / "c" / kind).glob("*")]:
        path.unlink()
        os.mkfifo(path)


_MINE = both(put("c/notes.txt", "mine"), put("c/kernels/notes.txt", "mine"))
CACHE = cases(
    "cache/folder",
    [
        ("clear-users-folder", ("cache", "clear"), "", {"env": {"ARM_EXT_CACHE": "{work}/c"}, "make": _MINE, "exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
        ("clear-through-a-link", ("cache", "clear"), "", {"env": {"ARM_EXT_CACHE": "{work}/c"}, "make": both(put("mine/notes.txt", "mine"), folder("c"), link("c/kernels", "../mine")), "exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
        ("clear-missing", ("cache", "clear"), "", {"env": {"ARM_EXT_CACHE": "{work}/c"}, "writes": ("c",), "exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
        ("entry-is-a-pipe", ("compile", _RELU, *HOST, "-o", "p"), "", {"env": {"ARM_EXT_CACHE": "{work}/c"}, "make": _pipes, "exits": frozenset({DONE, ENVIRONMENT}), "writes": (*_P, "c", "c/*")}),
        ("clear-file", ("cache", "clear"), r"\bc\b", {"env": {"ARM_EXT_CACHE": "{work}/c"}, "make": put("c", "mine"), "exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
        ("show-dev-null", ("cache", "show"), r"/dev/null", {"env": {"ARM_EXT_CACHE": "/dev/null"}, "exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
        ("show-unreadable", ("cache", "show", "--json"), r"\bc\b", {"env": {"ARM_EXT_CACHE": "{work}/c"}, "make": both(folder("c"), lambda work: (work / "c").chmod(0)), "exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
        ("compile-over-a-link", ("compile", _RELU, *HOST, "-o", "p"), "", {"env": {"ARM_EXT_CACHE": "{work}/c"}, "make": both(put("mine/notes.txt", "mine"), folder("c"), link("c/kernels", "../mine")), "exits": frozenset({DONE, USAGE, ENVIRONMENT}), "writes": ("p", "p/*", "c/*", "mine", "mine/*"), "seconds": 240, "check": lambda work: None if (work / "mine/notes.txt").exists() else "the user's file is lost"}),
        ("read-only-file-system", ("compile", _RELU, *HOST, "-o", "p"), r"mounted", {"env": {"ARM_EXT_CACHE": "{work}/mounted"}, "make": lambda work: _read_only_mount(work), "needs": "root", "exits": frozenset({DONE, ENVIRONMENT}), "writes": ("p", "p/*"), "seconds": 240}),
    ],
    seconds=60,
)  # fmt: skip


def _read_only_mount(work: Path) -> None:
    mount(work, "64k")
    os.system(f"mount -o remount,ro '{work}/mounted'")


_CONVERTER = """
from tvm import relax
def swirl(op):
    DOES
    return op.inputs[0]
CONVERTERS = {"com.example.Swirl": swirl}
"""
_RULE = """
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from relay_passes import Rule
x = wildcard()
def check(match):
    return FOUND
def rewrite(match):
    x = match.operands["x"]
    return MADE
RULES = [Rule("own", is_op("relax.nn.relu")(x), {"x": x}, check, rewrite)]
"""


def _custom() -> onnx.ModelProto:
    made = onnx.helper.make_node("Swirl", ["a"], ["y"], "one", domain="com.example")
    model = relu([node("Relu", ["x"], ["a"]), made])
    model.opset_import.append(onnx.helper.make_opsetid("com.example", 1))
    return model


def _converter(what: str, does: str, says: str = "") -> tuple[object, ...]:
    run = ("compile", "m.onnx", *HOST, "--plugin", "g.py", "-o", "p", "--json")
    make = both(saved(_custom), put("g.py", _CONVERTER.replace("DOES", does)))
    outcome = {} if says else {"exits": OK, "writes": _P}
    return what, run, says or "hello", {"make": make, **outcome}


def _rule(what: str, says: str, made: str, found: str = "match") -> tuple[object, ...]:
    run = ("compile", "m.onnx", *HOST, "--plugin", "g.py", "-o", "p")
    text = _RULE.replace("MADE", made).replace("FOUND", found)
    return what, run, says, {"make": both(saved(relu()), put("g.py", text))}


def _dividing(work: Path) -> None:
    """Write a model of which x86 ends onnxruntime with SIGFPE: it divides the least integer by -1. And its samples."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Cast", ["m"], ["i"], to=onnx.TensorProto.INT32),
        node("Sub", ["i", "i"], ["zero"]),
        node("Add", ["zero", "least"], ["a"], "least"),
        node("Add", ["zero", "minus"], ["b"], "minus"),
        node("Div", ["a", "b"], ["d"]),
        node("Cast", ["d"], ["f"], "back", to=onnx.TensorProto.FLOAT),
        node("Add", ["f", "m"], ["y"], "sum"),
    ]
    weights = [
        constant("w", np.eye(7), "float32"),
        constant("least", -(2**31), "int32"),
        constant("minus", -1, "int32"),
    ]
    saved(relu(nodes, (1, 7), weights=weights))(work)
    arrays("q.npz", x=np.ones((4, 1, 7), "f"))(work)


def _runtime(what: str, *run: str, exits: frozenset[int] = OK, **more: object) -> tuple[object, ...]:
    return what, run, r"divides an integer by 0|^$", {"exits": exits, **more}


# A process of its own is ended where the division traps; elsewhere, the model is nothing special.
RUNTIMES = cases(
    "compile/runtime",
    [
        _runtime("self-test", "compile", "m.onnx", *HOST, "-o", "p", writes=_P),
        _runtime("calibration", "compile", "m.onnx", *HOST, "--quantize", "q.npz", "-o", "p", writes=_P, exits=frozenset({DONE, FINDING})),
        _runtime("quantize", "quantize", "m.onnx", "--data", "q.npz", "-o", "n.onnx", writes=("n.onnx",), exits=frozenset({DONE, FINDING})),
        _runtime("advise", "advise", "m.onnx", "--quantize", "q.npz", prints="int8", seconds=240),
    ],
    make=_dividing,
    seconds=90,
)  # fmt: skip


def _plugin(what: str, text: str, says: str, **more: object) -> tuple[object, ...]:
    run = (
        "compile",
        "m.onnx",
        *HOST,
        "--plugin",
        "g.py",
        "-o",
        "p",
        *(("--json",) if "json" in what else ()),
    )
    return what, run, says, {"make": both(saved(relu()), put("g.py", text)), **more}


PLUGINS = cases(
    "compile/plugin",
    [
        _plugin("empty", "", r"g\.py", exits=frozenset({DONE, USAGE}), writes=_P),
        _plugin("syntax", "def f(:\n", r"g\.py"),
        _plugin("raises", "raise RuntimeError('of the user')\n", r"g\.py"),
        _plugin("leaves", "import os; os.chdir('/')\n", r"g\.py", exits=frozenset({DONE, USAGE}), writes=_P),
        _plugin("prints-beside-json", "print('hello')\n", r"g\.py", exits=frozenset({DONE, USAGE}), writes=_P),
        _plugin("replaces-stdout", "import sys, io; sys.stdout = io.StringIO()\n", r"g\.py", exits=frozenset({DONE, USAGE}), writes=_P),
        _plugin("recurses", "def f():\n    f()\nf()\n", r"g\.py, line 2: it calls itself without end"),
        _plugin("exits", "import sys; sys.exit()\n", r"g\.py, line 1.*SystemExit"),
        _plugin("exits-with-text", "raise SystemExit('bye')\n", r"g\.py, line 1.*bye"),
        _plugin("ends-as-no-exception", "class E(BaseException): pass\nraise E('x')\n", r"g\.py, line 2.*E: x"),
        _plugin("of-no-message", "raise RuntimeError\n", r"g\.py, line 1: RuntimeError$"),
        _plugin("message-raises", "class E(Exception):\n    def __str__(self): return 1 / 0\nraise E\n", r"g\.py, line 3: E"),
        _converter("converter-raises", "raise RuntimeError('of the user')", r"g\.py.*of the user"),
        _converter("converter-recurses", "return convert(op)", r"g\.py"),
        _converter("converter-exits", "raise SystemExit('of the user')", r"g\.py.*of the user"),
        _converter("converter-no-exception", "raise BaseException('of the user')", r"g\.py.*of the user"),
        _rule("rule-raises", r"g\.py.*ValueError", "int('x')"),
        _rule("rule-exits", r"g\.py.*of the user", "exec('raise SystemExit(\"of the user\")')"),
        _rule("rule-recurses", r"g\.py", "(lambda f: f(f))(lambda f: f(f))"),
        _plugin("interrupts", "raise KeyboardInterrupt\n", r"g\.py|aborted", exits=frozenset({USAGE, 130})),
        _plugin("shadows", "import json\njson.loads = None\n", r"", exits=frozenset({DONE, USAGE, 4}), writes=_P),
        _plugin("nul", "x = '\0'\n", r"g\.py"),
        _converter("converter-prints", "print('hello')"),
        _converter("converter-writes-to-stdout", "import os; os.write(1, b'hello')"),
        _converter("converter-starts-what-prints", "import subprocess; subprocess.run(['echo', 'hello'])"),
        _rule("rule-of-no-end", r"rule own still applies", "relax.op.nn.relu(x)"),
        _rule("rule-of-growth", r"rule own still applies", "relax.op.nn.relu(relax.op.nn.relu(x))"),
        _rule("rule-of-none", r"g\.py.*returns NoneType", "None"),
        _rule("rule-of-another-shape", r"rule own gives", "relax.op.reshape(x, (8, 1))"),
        _rule("rule-of-another-dtype", r"rule own gives", "relax.op.astype(x, 'int32')"),
        _rule("check-of-bool", r"g\.py.*returns bool", "x", "True"),
        ("fifo", ("compile", "m.onnx", *HOST, "--plugin", "g.py"), r"g\.py", {"make": both(saved(relu()), fifo("g.py"))}),
        ("dev-zero", ("compile", "m.onnx", *HOST, "--plugin", "/dev/zero"), r"/dev/zero", {"make": saved(relu())}),
        ("is-the-output", ("compile", "m.onnx", *HOST, "--plugin", "g.py", "--save-node", "relu", "-o", "g.py"), r"g\.py", {"make": both(saved(relu()), put("g.py", "x = 1\n"))}),
        ("in-the-output", ("compile", "m.onnx", *HOST, "--plugin", "p/g.py", "-o", "p"), r"\bp\b", {"make": both(saved(relu()), put("p/g.py", "x = 1\n"))}),
    ],
    seconds=60,
)  # fmt: skip


def _text_of_manifest(edit: Callable[[str], str | bytes]) -> Callable[[Path], None]:
    def change(work: Path) -> None:
        path = work / "p/manifest.json"
        text = edit(path.read_text())
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return both(copy("host.armpkg", "p"), change)


def _twice(key: str, value: object) -> Callable[[str], str]:
    return lambda text: text.replace("{", f"{{{json.dumps(key)}: {json.dumps(value)},", 1)


_LOCAL = ("run", "p", "--board", "local", "--check")
MANIFESTS = cases(
    "run/manifest",
    [
        ("key-twice", _LOCAL, r"manifest", {"make": _text_of_manifest(_twice("schema_version", 2)), "exits": frozenset({DONE, USAGE})}),
        ("files-twice", _LOCAL, r"manifest", {"make": _text_of_manifest(_twice("files", [])), "exits": frozenset({DONE, USAGE})}),
        ("nan", _LOCAL, r"manifest", {"make": _text_of_manifest(lambda text: text.replace('"relative_bound": ', '"relative_bound": NaN, "x": ', 1))}),
        ("infinity", _LOCAL, r"manifest", {"make": _text_of_manifest(lambda text: text.replace('"schema_version": 2', '"schema_version": Infinity', 1))}),
        ("bom", _LOCAL, r"manifest", {"make": _text_of_manifest(lambda text: b"\xef\xbb\xbf" + text.encode()), "exits": frozenset({DONE, USAGE})}),
        ("utf16", _LOCAL, r"manifest", {"make": _text_of_manifest(lambda text: text.encode("utf-16"))}),
        ("trailing", _LOCAL, r"manifest", {"make": _text_of_manifest(lambda text: text + "{}")}),
        ("unlisted-file", _LOCAL, r"p", {"make": both(copy("host.armpkg", "p"), put("p/npu/extra.payload", "x")), "exits": frozenset({DONE, USAGE})}),
        ("selftest-is-a-link", _LOCAL, r"selftest", {"make": both(copy("host.armpkg", "p"), lambda work: (work / "p/selftest.npz").rename(work / "s"), link("p/selftest.npz", "../s"))}),
        ("model-is-a-fifo", _LOCAL, r"model\.so", {"make": both(copy("host.armpkg", "p"), lambda work: (work / "p/model.so").unlink(), fifo("p/model.so"))}),
    ],
    seconds=60,
)  # fmt: skip

_TO_P = ("compile", _RELU, *HOST, "-o", "p")
MORE = cases(
    "compile/surroundings",
    [
        ("turkish", _TO_P, "", {"env": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR"}, "exits": OK, "writes": _P}),
        ("no-utf8-mode", _TO_P, "", {"env": {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C"}, "exits": OK, "writes": _P, "fresh": True}),
        ("tmp-relative", _TO_P, "", {"env": {"TMPDIR": "t"}, "make": folder("t"), "exits": OK, "writes": _P}),
        ("tmp-newline", _TO_P, "", {"env": {"TMPDIR": "{work}/t\nu"}, "make": folder("t\nu"), "exits": OK, "writes": _P}),
        ("tmp-is-the-output", ("compile", _RELU, *HOST, "-o", "t"), r"\bt\b", {"env": {"TMPDIR": "{work}/t"}, "make": folder("t"), "exits": frozenset({DONE, USAGE}), "writes": ("t", "t/*")}),
        ("name-of-255-bytes", ("compile", _RELU, *HOST, "-o", "o" * 255), "", {"exits": OK, "writes": ("o*",)}),
        ("dump-of-255-bytes", (*_TO_P, "--dump-phases", "d" * 255), "", {"exits": OK, "writes": (*_P, "d*")}),
        ("hash-seed", _TO_P, "", {"env": {"PYTHONHASHSEED": "4294967295"}, "exits": OK, "writes": _P, "fresh": True}),
        ("folder-named-as-a-file-of-ours", _TO_P, r"p", {"make": both(copy("host.armpkg", "p"), lambda work: (work / "p/report.txt").unlink(), folder("p/report.txt"))}),
        ("force-folder-named-as-a-file-of-ours", (*_TO_P, "--force"), r"report\.txt", {"make": both(copy("host.armpkg", "p"), lambda work: (work / "p/report.txt").unlink(), put("p/report.txt/mine", "x"))}),
        ("force-fifo-of-ours", (*_TO_P, "--force"), r"p", {"make": both(copy("host.armpkg", "p"), lambda work: (work / "p/report.txt").unlink(), fifo("p/report.txt")), "exits": frozenset({DONE, USAGE}), "writes": _P}),
        ("force-hard-link-of-ours", (*_TO_P, "--force"), "", {"make": both(copy("host.armpkg", "p"), hard("keep.txt", "p/report.txt")), "exits": OK, "writes": _P}),
        ("addresses-of-1-gb", _TO_P, r"memory|address", {"limits": {9: 1 << 30}, "exits": frozenset({DONE, ENVIRONMENT}), "writes": _P, "fresh": True}),
        ("files-20", _TO_P, r"files|descriptor", {"limits": {7: 20}, "exits": frozenset({DONE, ENVIRONMENT}), "writes": _P, "fresh": True}),
    ],
    seconds=120,
)  # fmt: skip

CASES: list[Case] = [
    *C_LIBRARIES, *CONFIGS, *QUANTIZE, *ACCURACY, *PROFILE, *ADVISE, *CACHE, *PLUGINS, *MANIFESTS, *MORE,
    *QUANTIZE_OPTIONS, *ACCURACY_OPTIONS, *ADVISE_OPTIONS, *VALUES, *RUNTIMES,
]  # fmt: skip
