# SPDX-License-Identifier: Apache-2.0
"""`compile` with wrong options, odd paths, and wrong files beside the model."""

import os
from pathlib import Path

import numpy as np

from tests.hostile.case import DONE, ENVIRONMENT, FINDING, REFUSED, USAGE, Case, both, cases
from tests.hostile.models import (
    array,
    arrays,
    cut,
    fifo,
    folder,
    link,
    listening,
    put,
    read_only,
    relu,
    saved,
)

RELU = "{assets}/relu.onnx"
ONE = frozenset({FINDING})
OK = frozenset({DONE})
HOST = ("--target", "host")


def _compile(*options: str, model: str = RELU) -> tuple[str, ...]:
    return ("compile", model, *HOST, *options)


def _shape(text: str) -> tuple[str, ...]:
    return ("compile", "{assets}/dynamic.onnx", *HOST, "--shape", text)


OPTIONS = cases(
    "compile/options",
    [
        ("unknown-option", _compile("--taget", "arm"), r"--taget"),
        ("option-twice", _compile("--target", "nope"), r"nope"),
        ("two-models", _compile("other.onnx"), r"a package holds one"),
        ("target-empty", ("compile", RELU, "--target", ""), r"target"),
        ("target-of-other-case", ("compile", RELU, "--target", "Cortex-A76 "), r"Cortex-A76"),
        ("target-long", ("compile", RELU, "--target", "a" * 100_000), r"target"),
        ("target-injection", ("compile", RELU, "--target", "x -mattr=+sve"), r"target"),
        ("mattr-without-sign", _compile("--mattr", "sve"), r"mattr.*sve|sve.*mattr"),
        ("mattr-unknown", ("compile", RELU, "--target", "arm", "--mattr", "+nope"), r"nope"),
        ("mattr-both", ("compile", RELU, "--target", "arm", "--mattr", "+sve,-sve"), r"sve", {"exits": frozenset({DONE, USAGE}), "writes": ("relu.armpkg", "relu.armpkg/*")}),
        ("mattr-of-neon", ("compile", RELU, "--target", "arm", "--mattr", "-neon"), r"neon"),
        ("mattr-comma", ("compile", RELU, "--target", "arm", "--mattr", ","), r"mattr"),
        ("shape-no-equals", _shape("x"), r"shape.*x"),
        ("shape-no-size", _shape("x="), r"shape|size"),
        ("shape-no-name", _shape("=2,31"), r"shape"),
        ("shape-letters", _shape("x=1a,31"), r"1a"),
        ("shape-negative", _shape("x=-1,31"), r"-1"),
        ("shape-zero", _shape("x=0,31"), r"0"),
        ("shape-float", _shape("x=1.5,31"), r"1\.5"),
        ("shape-comma", _shape("x=1,,31"), r"x=1,,31"),
        ("shape-rank", _shape("x=1,31,1"), r"x"),
        ("shape-other-input", _shape("z=1,31"), r"z.*x|x"),
        ("shape-twice", (*_shape("x=1,31"), "--shape", "x=2,31"), r"x"),
        ("shape-5000-digits", _shape("x=" + "9" * 5000 + ",31"), r"x"),
        ("shape-2-to-62", _shape(f"x={1 << 62},31"), r"x|bytes|large", {"exits": REFUSED}),
        ("shape-2-to-64", _shape(f"x={1 << 64},31"), r"x|large", {"exits": REFUSED}),
        ("shape-underscore", _shape("x=1_0,31"), r"1_0"),
        ("shape-arabic-digits", _shape("x=\u0663,31"), r"\u0663"),
        ("shape-hex", _shape("x=0x2,31"), r"0x2"),
        ("shape-unbalanced", _shape("x={1,2,31"), r"\{"),
        ("shape-empty-braces", _shape("x={},31"), r"\{\}"),
        ("shape-same-twice", _shape("x={2,2},31"), r"2"),
        ("shape-nested-braces", _shape("x={1,{2}},31"), r"\{"),
        ("shape-10000-shapes", _shape("x={" + ",".join(map(str, range(1, 5000))) + "},31"), r"shapes|many", {"exits": REFUSED, "seconds": 90, "never": r"(\d+,){200}"}),
        ("shape-bound-zero", _shape("x=n<=0,31"), r"0"),
        ("shape-bound-negative", _shape("x=n<=-5,31"), r"-5"),
        ("shape-bound-missing", _shape("x=n<=,31"), r"n<="),
        ("shape-bound-huge", _shape(f"x=n<={1 << 60},31"), r"x|bytes|large", {"exits": REFUSED}),
        ("shape-two-bounds", (*_shape("x=n<=8,31"), "--shape", "x=n<=9,31"), r"x"),
        ("shape-name-is-keyword", _shape("x=lambda,31"), r"lambda|x", {"exits": frozenset({DONE, FINDING, USAGE}), "writes": ("dynamic.armpkg", "dynamic.armpkg/*")}),
        ("budget-letters", _compile("--memory-budget", "4k"), r"4k"),
        ("budget-negative", _compile("--memory-budget", "-1"), r"-1"),
        ("budget-exceeded", _compile("--memory-budget", "1"), r"\b1\b", {"exits": ONE}),
        ("budget-huge", _compile("--memory-budget", "9" * 30), "", {"exits": OK, "writes": ("relu.armpkg", "relu.armpkg/*")}),
        ("memory-of-a-package", _compile("--memory", "fast=1K"), r"--emit c-library"),
        ("memory-letters", _compile("--emit", "c-library", "--memory", "fast=lots"), r"NAME=SIZE"),
        ("memory-digits", _compile("--emit", "c-library", "--memory", f"fast={'9' * 5000}"), r"NAME=SIZE", {"never": r"9{100}"}),
        ("memory-empty", _compile("--emit", "c-library", "--memory", ""), r"NAME=SIZE"),
        ("precision", _compile("--precision", "fp8"), r"fp8"),
        ("calibration-alone", _compile("--calibration", "entropy"), r"--quantize", {"exits": frozenset({DONE, USAGE}), "writes": ("relu.armpkg", "relu.armpkg/*")}),
        ("npu-unknown", _compile("--npu", "ethos-u99"), r"ethos-u99"),
        ("npu-host", ("compile", "{assets}/int8.onnx", *HOST, "--npu", "ethos-u65-256"), r"host|NPU|aarch64", {"exits": frozenset({DONE, USAGE}), "writes": ("int8.armpkg", "int8.armpkg/*", "int8.armpkg/npu/*")}),
        ("npu-options-alone", _compile("--sram-budget", "1000"), r"--npu"),
        ("fail-on-fallback-alone", _compile("--fail-on-fallback"), r"--npu"),
        ("cpu-ops-alone", _compile("--cpu-ops", "conv2d"), r"--npu"),
        ("cpu-mhz-nan", _compile("--npu", "ethos-u65-256", "--cpu-mhz", "nan"), r"nan"),
        ("cpu-mhz-inf", ("compile", "{assets}/int8.onnx", "--npu", "ethos-u65-256", "--cpu-mhz", "inf"), r"inf"),
        ("handover-nan", _compile("--npu", "ethos-u65-256", "--handover-us", "nan"), r"nan"),
        ("handover-1e400", ("compile", "{assets}/int8.onnx", "--npu", "ethos-u65-256", "--handover-us", "1e400"), r"1e400|inf"),
        ("npu-ops-unknown", ("compile", "{assets}/int8.onnx", "--npu", "ethos-u65-256", "--npu-ops", "nope"), r"nope"),
        ("npu-ops-empty", ("compile", "{assets}/int8.onnx", "--npu", "ethos-u65-256", "--npu-ops", ""), r"npu-ops", {"exits": frozenset({DONE, USAGE}), "writes": ("int8.armpkg", "int8.armpkg/*")}),
        ("memory-mode", ("compile", "{assets}/int8.onnx", "--npu", "ethos-u65-256", "--memory-mode", "Nope"), r"Nope"),
        ("system-config", ("compile", "{assets}/int8.onnx", "--npu", "ethos-u65-256", "--system-config", "Ethos_U55_\n"), r"Ethos_U55_"),
        ("state-no-equals", _compile("--state", "x"), r"x"),
        ("state-unknown-input", _compile("--state", "a=y"), r"a"),
        ("state-unknown-output", _compile("--state", "x=b"), r"b"),
        ("state-twice", ("compile", "{assets}/sum.onnx", *HOST, "--state", "sum=sum_out", "--state", "x=sum_out"), r"sum_out"),
        ("state-shapes-differ", ("compile", "{assets}/mlp.onnx", *HOST, "--state", "x=y"), r"x.*y|y.*x"),
        ("state-init-alone", _compile("--state-init", "{assets}/relu.npz"), r"--state|state"),
        ("save-node-unknown", _compile("--save-node", "nope"), r"nope"),
        ("save-node-of-tflite", _compile("--save-node", "0", model="{assets}/relu.tflite"), r"ONNX|onnx"),
        ("save-node-empty", _compile("--save-node", ""), r"node"),
        ("json-and-error", _compile("--json", "--target", "nope"), r"nope", {"prints": r"^\s*(\{.*)?$"}),
        ("tuned-missing", _compile("--tuned", "nope"), r"nope"),
        ("tuned-is-file", _compile("--tuned", RELU), r"relu\.onnx"),
        ("tuned-is-empty", _compile("--tuned", "db"), r"", {"make": folder("db"), "exits": frozenset({DONE, USAGE}), "writes": ("relu.armpkg", "relu.armpkg/*")}),
    ],
)  # fmt: skip

LINKERS = cases(
    "compile/linker",
    [
        ("missing", _compile("--cc", "no-such-linker"), r"no-such-linker"),
        ("empty", _compile("--cc", ""), r"--cc|linker", {"exits": frozenset({USAGE, ENVIRONMENT})}),
        ("fails", _compile("--cc", "false"), r"false"),
        ("makes-nothing", _compile("--cc", "true"), r"true"),
        ("quote-open", _compile("--cc", "gcc '"), r"--cc|quot", {"exits": frozenset({USAGE, ENVIRONMENT})}),
        ("folder", _compile("--cc", "/tmp"), r"/tmp"),
        ("not-executable", _compile("--cc", "./cc"), r"cc", {"make": put("cc", "x")}),
        ("writes-garbage", _compile("--cc", "./cc"), r"cc|linker|ELF", {"make": lambda work: _script(work / "cc", 'while [ "$1" != -o ]; do shift; done; echo hi > "$2"')}),
        ("prints-megabytes", _compile("--cc", "./cc"), r"cc", {"make": lambda work: _script(work / "cc", "yes error | head -c 3000000 >&2; exit 1")}),
        ("prints-binary", _compile("--cc", "./cc"), r"cc", {"make": lambda work: _script(work / "cc", r"printf '\377\376\033[2J' >&2; exit 1")}),
    ],
    exits=frozenset({ENVIRONMENT}),
    never="Command '\\[",
)  # fmt: skip


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _odd(name: str | bytes) -> object:
    def make(work: Path) -> None:
        with open(os.path.join(os.fsencode(work), os.fsencode(name)), "wb") as file:  # noqa: PTH118, PTH123
            file.write(relu().SerializeToString())

    return make


# Odd names that must work.
NAMES = cases(
    "compile/names",
    [
        ("spaces", _compile(model="a model .onnx"), "", {"make": _odd("a model .onnx")}),
        ("newline", _compile(model="a\nb.onnx"), "", {"make": _odd("a\nb.onnx")}),
        ("unicode", _compile(model="модель-模型-🦾.onnx"), "", {"make": _odd("модель-模型-🦾.onnx")}),
        ("not-utf8", _compile(model=os.fsdecode(b"m\xff\xfe.onnx")), "", {"make": _odd(b"m\xff\xfe.onnx")}),
        ("dash", _compile(model="./-m.onnx"), "", {"make": _odd("-m.onnx")}),
        ("quotes", _compile(model="a'b\"c$(touch x).onnx"), "", {"make": _odd("a'b\"c$(touch x).onnx")}),
        ("capitals", _compile(model="M.ONNX"), "", {"make": _odd("M.ONNX")}),
        ("markup", _compile(model="[red]m[/red].onnx"), "", {"make": both(folder("[red]m[/"), _odd("[red]m[/red].onnx"))}),
        ("percent", _compile(model="%s%n{0}.onnx"), "", {"make": _odd("%s%n{0}.onnx")}),
        ("long", _compile(model="a" * 245 + ".onnx"), "", {"make": _odd("a" * 245 + ".onnx"), "exits": frozenset({DONE, USAGE})}),
        ("comma-and-equals", _compile("-o", "a=b,c", model="a=b,c.onnx"), "", {"make": _odd("a=b,c.onnx")}),
        ("escape-codes", _compile(model="\x1b[2Jm.onnx"), "control characters", {"make": _odd("\x1b[2Jm.onnx"), "never": "\x1b\\[2J", "exits": frozenset({USAGE})}),
    ],
    exits=OK,
    writes=("*.armpkg", "*.armpkg/*", "a=b,c", "a=b,c/*"),
)  # fmt: skip

INPUTS = cases(
    "compile/input-path",
    [
        ("dangling-link", _compile(model="m.onnx"), r"m\.onnx", {"make": link("m.onnx", "nowhere")}),
        ("link-loop", _compile(model="m.onnx"), r"m\.onnx", {"make": link("m.onnx", "m.onnx")}),
        ("fifo", _compile(model="m.onnx"), r"m\.onnx", {"make": fifo("m.onnx")}),
        ("fifo-tflite", _compile(model="m.tflite"), r"m\.tflite", {"make": fifo("m.tflite")}),
        ("fifo-mlir", _compile(model="m.mlir"), r"m\.mlir", {"make": fifo("m.mlir")}),
        ("fifo-pt2", _compile(model="m.pt2"), r"m\.pt2", {"make": fifo("m.pt2")}),
        ("socket", _compile(model="m.onnx"), r"m\.onnx", {"make": listening("m.onnx")}),
        ("dev-zero", _compile(model="/dev/zero"), r"/dev/zero"),
        ("dev-null", _compile(model="/dev/null"), r"/dev/null"),
        ("zero-by-link", _compile(model="m.onnx"), r"m\.onnx", {"make": link("m.onnx", "/dev/zero")}),
        ("tty", _compile(model="/dev/tty"), r"/dev/tty"),
        ("no-suffix", _compile(model="model"), r"model", {"make": saved(relu(), "model"), "exits": frozenset({DONE, USAGE}), "writes": ("*.armpkg", "*.armpkg/*")}),
        ("only-suffix", _compile(model=".onnx"), r"\.onnx", {"make": saved(relu(), ".onnx"), "exits": frozenset({DONE, USAGE}), "writes": ("*.armpkg", "*.armpkg/*")}),
        ("unknown-suffix", _compile(model="m.keras"), r"m\.keras", {"make": saved(relu(), "m.keras"), "exits": frozenset({DONE, USAGE}), "writes": ("*.armpkg", "*.armpkg/*")}),
        ("package-as-model", _compile(model="{assets}/host.armpkg"), r"host\.armpkg"),
        ("file-as-parent", _compile(model="{assets}/relu.onnx/m.onnx"), r"m\.onnx"),
        ("name-too-long", _compile(model="a" * 300 + ".onnx"), r"a|long"),
        ("path-too-long", _compile(model="a/" * 3000 + "m.onnx"), r"a|long", {"never": r"(a/){2500}(.|\n)*(a/){2500}"}),
        ("empty-name", _compile(model=""), r"model|file"),
        ("unreadable", _compile(model="m.onnx"), r"m\.onnx", {"make": both(saved(relu()), lambda work: (work / "m.onnx").chmod(0))}),
        ("unreadable-folder", _compile(model="d/m.onnx"), r"m\.onnx", {"make": both(saved(relu(), "d/m.onnx"), lambda work: (work / "d").chmod(0))}),
                ("proc-mem", _compile(model="/proc/self/mem"), r"/proc/self/mem"),
        ("stdin-dash", _compile(model="-"), r"-"),
        ("sparse-5-gib", _compile(model="m.onnx"), r"m\.onnx", {"make": lambda work: _sparse(work / "m.onnx", 5 << 30)}),
        ("sparse-tflite", _compile(model="m.tflite"), r"m\.tflite", {"make": lambda work: _sparse(work / "m.tflite", 5 << 30)}),
    ],
    seconds=40,
    memory=8 << 30,
)  # fmt: skip


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _out(path: str) -> tuple[str, ...]:
    return ("compile", "m.onnx", *HOST, "-o", path)


_M = saved(relu())
OUTPUTS = cases(
    "compile/output-path",
    [
        ("parent-missing", _out("a/b/c"), r"a/b", {"exits": frozenset({DONE, USAGE}), "writes": ("a", "a/*")}),
        ("empty", _out(""), r"-o|output"),
        ("root", _out("/"), r"/"),
        ("dot", _out("."), r"\."),
        ("dot-dot", _out(".."), r"\.\."),
        ("dev-null", _out("/dev/null"), r"/dev/null"),
        ("proc", _out("/proc/x"), r"/proc", {"exits": frozenset({USAGE, ENVIRONMENT})}),
        ("model-itself", _out("m.onnx"), r"m\.onnx"),
        ("model-by-link", _out("l"), r"\bl\b", {"make": both(_M, link("l", "m.onnx"))}),
        ("model-by-dots", _out("d/../m.onnx"), r"m\.onnx", {"make": both(_M, folder("d"))}),
        ("folder-of-model", ("compile", "d/m.onnx", *HOST, "-o", "d"), r"\bd\b", {"make": saved(relu(), "d/m.onnx")}),
        ("dangling-link", _out("l"), r"\bl\b", {"make": both(_M, link("l", "nowhere"))}),
        ("link-loop", _out("l"), r"\bl\b", {"make": both(_M, link("l", "l"))}),
        ("link-to-foreign", _out("l"), r"\bl\b", {"make": both(_M, put("d/mine.txt", "x"), link("l", "d"))}),
        ("fifo", _out("p"), r"\bp\b", {"make": both(_M, fifo("p"))}),
        ("too-long", _out("o" * 256), r"o|long", {"exits": frozenset({USAGE, ENVIRONMENT})}),
        ("below-file", _out("m.onnx/p"), r"m\.onnx"),
        ("foreign-folder", _out("d"), r"\bd\b", {"make": both(_M, put("d/mine.txt", "x"))}),
        ("manifest-of-others", _out("d"), r"\bd\b", {"make": both(_M, put("d/manifest.json", '{"name": "my web app"}'), put("d/app.js", "x"))}),
        ("read-only-parent", _out("d/p"), r"\bd\b", {"make": both(_M, read_only("d")), "exits": frozenset({USAGE, ENVIRONMENT})}),
        ("dump-is-file", (*_out("p"), "--dump-phases", "m.onnx"), r"m\.onnx"),
        ("dump-is-output", (*_out("p"), "--dump-phases", "p"), r"\bp\b"),
        ("dump-in-output", (*_out("p"), "--dump-phases", "p/dump"), r"p"),
        ("dump-in-foreign", (*_out("p"), "--dump-phases", "d"), r"\bd\b", {"make": both(_M, put("d/mine.txt", "x")), "exits": frozenset({DONE, USAGE}), "writes": ("p", "p/*", "d/*.py", "d/.arm-ext-files.json")}),
        ("dump-parent-missing", (*_out("p"), "--dump-phases", "a/b/c"), r"a/b|", {"exits": frozenset({DONE, USAGE}), "writes": ("p", "p/*", "a", "a/*")}),
        ("save-node-over-model", (*_out("m.onnx"), "--save-node", "relu"), r"m\.onnx"),
        ("save-node-over-file", (*_out("x.onnx"), "--save-node", "relu"), r"x\.onnx", {"make": both(_M, put("x.onnx", "mine"))}),
        ("save-node-to-folder", (*_out("d"), "--save-node", "relu"), r"\bd\b", {"make": both(_M, folder("d"))}),
        ("save-node-parent-missing", (*_out("a/b.onnx"), "--save-node", "relu"), r"\ba\b"),
        ("save-node-device", (*_out("/dev/full"), "--save-node", "relu"), r"/dev/full", {"exits": frozenset({USAGE, ENVIRONMENT})}),
        ("over-npz-input", (*_out("q.npz"), "--quantize", "q.npz"), r"q\.npz", {"make": both(_M, arrays("q.npz", x=np.ones((2, 1, 8), "f")))}),
        ("tilde", _out("~/p"), "", {"exits": frozenset({DONE, USAGE}), "writes": ("~", "~/*")}),
    ],
    make=_M,
)  # fmt: skip


def _quantize(*more: str) -> tuple[str, ...]:
    return ("compile", "{assets}/mlp.onnx", *HOST, "--quantize", "q.npz", *more)


_GOOD = np.random.default_rng(3).standard_normal((4, 2, 31)).astype("f")


def _npy_header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode()


def _zip(entries: dict[str, bytes], deflate: bool = True, zeros: int = 0) -> object:
    """Return a `make` that writes q.npz; `zeros` bytes of 0 follow each entry, made only when it is written."""
    import zipfile

    def make(work: Path) -> None:
        with zipfile.ZipFile(
            work / "q.npz", "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        ) as file:
            for name, data in entries.items():
                file.writestr(name, data + bytes(zeros))

    return make


_BIG = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }\n"
CALIBRATION = cases(
    "compile/npz",
    [
        ("missing", _quantize(), r"q\.npz", {"make": None}),
        ("empty", _quantize(), r"q\.npz", {"make": put("q.npz")}),
        ("text", _quantize(), r"q\.npz", {"make": put("q.npz", "hello")}),
        ("npy-named-npz", _quantize(), r"q\.npz", {"make": both(array("q.npy", _GOOD), lambda work: (work / "q.npy").rename(work / "q.npz"))}),
        ("folder", _quantize(), r"q\.npz", {"make": folder("q.npz")}),
        ("fifo", _quantize(), r"q\.npz", {"make": fifo("q.npz"), "seconds": 30}),
        ("no-arrays", _quantize(), r"q\.npz|x", {"make": _zip({})}),
        ("not-npy-inside", _quantize(), r"q\.npz", {"make": _zip({"x.npy": b"hello"})}),
        ("pickle", _quantize(), r"q\.npz|x", {"make": arrays("q.npz", x=np.array([{"a": 1}], object))}),
        ("raw-pickle", _quantize(), r"q\.npz|x", {"make": _zip({"x": b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR."})}),
        ("wrong-name", _quantize(), r"x", {"make": arrays("q.npz", z=_GOOD)}),
        ("more-names", _quantize(), r"z", {"make": arrays("q.npz", x=_GOOD, z=_GOOD), "exits": frozenset({DONE, USAGE}), "writes": ("mlp.armpkg", "mlp.armpkg/*")}),
        ("no-samples", _quantize(), r"x|sample", {"make": arrays("q.npz", x=_GOOD[:0])}),
        ("nan", _quantize(), r"x|finite|NaN|nan", {"make": arrays("q.npz", x=_GOOD * np.nan), "exits": REFUSED}),
        ("inf", _quantize(), r"x|finite|inf", {"make": arrays("q.npz", x=_GOOD * np.inf), "exits": REFUSED}),
        ("scalar", _quantize(), r"x", {"make": arrays("q.npz", x=np.float32(1))}),
        ("wrong-rank", _quantize(), r"x", {"make": arrays("q.npz", x=_GOOD[..., None])}),
        ("wrong-size", _quantize(), r"x", {"make": arrays("q.npz", x=_GOOD[..., :30])}),
        ("strings", _quantize(), r"x", {"make": arrays("q.npz", x=np.full((4, 2, 31), "a"))}),
        ("complex", _quantize(), r"x", {"make": arrays("q.npz", x=_GOOD.astype("complex64"))}),
        ("dates", _quantize(), r"x", {"make": arrays("q.npz", x=_GOOD.astype("M8[s]"))}),
        ("shape-2-to-62", _quantize(), r"q\.npz|x", {"make": _zip({"x.npy": _npy_header(_BIG % f"{1 << 62}, 2, 31")})}),
        ("shape-negative", _quantize(), r"q\.npz|x", {"make": _zip({"x.npy": _npy_header(_BIG % "-4, 2, 31") + b"0" * 992})}),
        ("shape-of-a-gib", _quantize(), r"q\.npz|x", {"make": _zip({"x.npy": _npy_header(_BIG % f"{1 << 22}, 2, 31")}), "memory": 3 << 30}),
        ("bomb", _quantize(), r"q\.npz|x", {"make": _zip({"x.npy": _npy_header(_BIG % "13000000, 2, 31")}, zeros=1 << 30), "memory": 2500 << 20}),
        ("header-nested", _quantize(), r"q\.npz|x", {"make": _zip({"x.npy": _npy_header("(" * 9000 + ")" * 9000 + "\n")})}),
        ("header-version", _quantize(), r"q\.npz|x", {"make": _zip({"x.npy": _npy_header(_BIG % "1", b"\x63\x00")})}),
        ("header-latin", _quantize(), r"q\.npz|x", {"make": _zip({"x.npy": b"\x93NUMPY\x01\x00\x04\x00\xff\xfe\n\n"})}),
        ("zip-cut", _quantize(), r"q\.npz", {"make": cut("mlp.npz", "q.npz", 0.7)}),
        ("unknown-compression", _quantize(), r"q\.npz", {"make": lambda work: _compression(work)}),
        ("encrypted", _quantize(), r"q\.npz|x", {"make": lambda work: _encrypted(work)}),
        ("crc-wrong", _quantize(), r"q\.npz|x", {"make": lambda work: _flipped(work)}),
        ("path-in-name", _quantize(), r"x|\.\.", {"make": _zip({"../x.npy": b""})}),
        ("of-tflite", ("compile", "{assets}/relu.tflite", *HOST, "--quantize", "q.npz"), r"ONNX|TFLite|tflite"),
        ("of-int8", ("compile", "{assets}/int8.onnx", *HOST, "--quantize", "q.npz"), r"quantised|float|x"),
        ("state-init-missing", ("compile", "{assets}/sum.onnx", *HOST, "--state", "sum=sum_out", "--state-init", "nope.npz"), r"nope"),
        ("state-init-name", ("compile", "{assets}/sum.onnx", *HOST, "--state", "sum=sum_out", "--state-init", "q.npz"), r"x"),
        ("state-init-shape", ("compile", "{assets}/sum.onnx", *HOST, "--state", "sum=sum_out", "--state-init", "q.npz"), r"sum", {"make": arrays("q.npz", sum=np.ones((1, 8), "f"))}),
        ("state-init-dtype", ("compile", "{assets}/sum.onnx", *HOST, "--state", "sum=sum_out", "--state-init", "q.npz"), r"sum", {"make": arrays("q.npz", sum=np.ones((1, 9), "c8"))}),
    ],
    make=arrays("q.npz", x=_GOOD),
)  # fmt: skip


def _compression(work: Path) -> None:
    _zip({"x.npy": b"x" * 100})(work)  # type: ignore[operator]
    data = (work / "q.npz").read_bytes()
    at, central = data.index(b"PK\3\4") + 8, data.index(b"PK\1\2") + 10
    data = bytearray(data)
    data[at] = data[central] = 99
    (work / "q.npz").write_bytes(data)


def _encrypted(work: Path) -> None:
    np.savez(work / "q.npz", x=_GOOD)
    data = bytearray((work / "q.npz").read_bytes())
    data[data.index(b"PK\3\4") + 6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    (work / "q.npz").write_bytes(data)


def _flipped(work: Path) -> None:
    np.savez(work / "q.npz", x=_GOOD)
    data = bytearray((work / "q.npz").read_bytes())
    data[len(data) // 2] ^= 255
    (work / "q.npz").write_bytes(data)


def _yaml(text: str | bytes, says: str = r"p\.yaml", **more: object) -> tuple[object, ...]:
    return (
        ("compile", "{assets}/image.onnx", *HOST, "--preprocess", "p.yaml"),
        says,
        {"make": put("p.yaml", text), **more},
    )


def _channels(count: int) -> str:
    """As many steps, which are no known ones, in a line."""
    return f"inputs:\n  image:\n    frame: [8, 8, 3]\n    steps: [{'channels, ' * count}]\n"


def _steps(*steps: str, frame: str = "[8, 8, 3]") -> str:
    return (
        f"inputs:\n  image:\n    frame: {frame}\n"
        + ("    steps:\n" if steps else "")
        + "".join(f"      - {step}\n" for step in steps)
    )


def _ends(*steps: str, output: str = "logits") -> str:
    return _steps() + "outputs:\n  " + output + ":\n" + "".join(f"    - {step}\n" for step in steps)


_EVERY = ("*.armpkg", "*.armpkg/*")
PREPROCESS = cases(
    "compile/yaml",
    [
        ("missing", ("compile", "{assets}/image.onnx", *HOST, "--preprocess", "p.yaml"), r"p\.yaml"),
        ("folder", ("compile", "{assets}/image.onnx", *HOST, "--preprocess", "p.yaml"), r"p\.yaml", {"make": folder("p.yaml")}),
        ("fifo", ("compile", "{assets}/image.onnx", *HOST, "--preprocess", "p.yaml"), r"p\.yaml", {"make": fifo("p.yaml"), "seconds": 30}),
        ("dev-zero", ("compile", "{assets}/image.onnx", *HOST, "--preprocess", "/dev/zero"), r"/dev/zero", {"seconds": 30, "memory": 4 << 30}),
        ("empty", *_yaml("")),
        ("scalar", *_yaml("42")),
        ("list", *_yaml("- a\n- b\n")),
        ("syntax", *_yaml("inputs: [1, 2\n")),
        ("tabs", *_yaml("inputs:\n\timage: 1\n")),
        ("nul", *_yaml(b"inputs: \0\n")),
        ("not-utf8", *_yaml(b"inputs: \xff\xfe\xfa\n")),
        ("utf16", *_yaml(_steps().encode("utf-16"), r"", exits=frozenset({DONE, USAGE}), writes=_EVERY)),
        ("bom", *_yaml(b"\xef\xbb\xbf" + _steps("crop: {size: [8, 8]}").encode(), "", exits=OK, writes=_EVERY)),
        ("two-documents", *_yaml(_steps("crop: {size: [8, 8]}") + "---\na: 1\n")),
        ("python-object", *_yaml("inputs: !!python/object/apply:os.system ['touch pwned']\n")),
        ("alias-bomb", *_yaml("a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)), r"p\.yaml", seconds=40, memory=4 << 30, lines=12)),
        ("alias-bomb-inside", *_yaml("inputs:\n  image:\n    frame: [8, 8, 3]\n    steps:\n      - crop: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"      - {b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)), r"p\.yaml", seconds=40, memory=4 << 30, lines=12)),
        ("self-reference", *_yaml("inputs: &a\n  image: *a\n")),
        ("deep", *_yaml("inputs: " + "[" * 5000 + "]" * 5000 + "\n")),
        ("deep-block", *_yaml("".join(" " * k + "a:\n" for k in range(1500)))),
        ("key-twice", *_yaml(_steps("crop: {size: [8, 8]}") + "inputs: {}\n")),
        ("key-is-list", *_yaml("? [1, 2]\n: 3\n")),
        ("key-is-number", *_yaml("1: 2\n")),
        ("unknown-key", *_yaml(_steps("crop: {size: [8, 8]}") + "extras: 1\n", r"extras")),
        ("unknown-input", *_yaml("inputs:\n  img: {frame: [8, 8, 3]}\n", r"img")),
        ("unknown-output", *_yaml(_ends("softmax: {axis: 1}", output="nope"), r"nope")),
        ("unknown-step", *_yaml(_steps("rotate: {by: 90}"), r"rotate")),
        ("misspelt", *_yaml(_steps("crop: {sise: [8, 8]}"), r"sise")),
        ("step-null", *_yaml(_steps("crop:"), r"crop")),
        ("step-string", *_yaml(_steps("crop"), r"steps\[0\]")),
        ("step-two-keys", *_yaml(_steps("{crop: {size: [8, 8]}, channels: [0, 1, 2]}"), r"crop|one")),
        ("steps-mapping", *_yaml("inputs:\n  image:\n    frame: [8, 8, 3]\n    steps: {crop: 1}\n", r"steps")),
        ("step-twice", *_yaml(_steps("channels: [2, 1, 0]", "channels: [2, 1, 0]"), r"channels|", exits=frozenset({DONE, USAGE}), writes=_EVERY)),
        ("no-frame", *_yaml("inputs:\n  image: {steps: []}\n", r"frame")),
        ("input-null", *_yaml("inputs:\n  image:\n", r"image|frame")),
        ("frame-and-frames", *_yaml("inputs:\n  image: {frame: [8, 8, 3], frames: [[8, 8, 3]]}\n", r"frame")),
        ("frames-empty", *_yaml("inputs:\n  image: {frames: []}\n", r"frames")),
        ("frame-string", *_yaml(_steps(frame="8x8x3"), r"frame")),
        ("frame-zero", *_yaml(_steps(frame="[0, 8, 3]"), r"frame|0")),
        ("frame-negative", *_yaml(_steps(frame="[-8, 8, 3]"), r"frame|-8")),
        ("frame-float", *_yaml(_steps(frame="[8.0, 8, 3]"), r"frame|8\.0")),
        ("frame-bool", *_yaml(_steps(frame="[yes, 8, 3]"), r"frame|bool")),
        ("frame-two", *_yaml(_steps(frame="[8, 8]"), r"frame")),
        ("frame-four", *_yaml(_steps(frame="[1, 8, 8, 3]"), "", exits=OK, writes=_EVERY)),
        ("frame-five", *_yaml(_steps(frame="[1, 1, 8, 8, 3]"), r"frame")),
        ("frame-2-to-40", *_yaml(_steps("resize: {mode: linear}", frame=f"[{1 << 40}, 8, 3]"), r"frame|large|bytes|image", exits=REFUSED)),
        ("frame-2-to-62", *_yaml(_steps("resize: {mode: linear}", frame=f"[{1 << 62}, {1 << 62}, 3]"), r"frame|large|bytes|image", exits=REFUSED)),
        ("frame-5000-digits", *_yaml(_steps(frame="[" + "9" * 5000 + ", 8, 3]"), r"p\.yaml|frame", never=r"9{1000}")),
        ("frame-channels", *_yaml(_steps(frame="[8, 8, 4]"), r"channels|4|image")),
        ("frame-size", *_yaml(_steps(frame="[9, 8, 3]"), r"9|image|resize")),
        ("layout", *_yaml("inputs:\n  image: {frame: [8, 8, 3], layout: NCWH}\n", r"NCWH|layout")),
        ("crop-larger", *_yaml(_steps("crop: {size: [9, 9]}"), r"crop|9")),
        ("crop-at-negative", *_yaml(_steps("crop: {size: [8, 8], at: [-1, 0]}", frame="[9, 9, 3]"), r"crop|at|-1")),
        ("crop-at-outside", *_yaml(_steps("crop: {size: [8, 8], at: [5, 5]}", frame="[9, 9, 3]"), r"crop|at|5")),
        ("crop-at-overflow", *_yaml(_steps(f"crop: {{size: [8, 8], at: [{1 << 63}, 0]}}", frame="[9, 9, 3]"), r"crop|at")),
        ("crop-zero", *_yaml(_steps("crop: {size: [0, 0]}", "resize: {mode: linear}"), r"crop|size|0")),
        ("resize-mode", *_yaml(_steps("resize: {mode: cubic}"), r"cubic|resize\.mode")),
        ("resize-zero", *_yaml(_steps("resize: {size: [0, 8]}"), r"resize|0")),
        ("resize-other", *_yaml(_steps("resize: {size: [9, 9]}"), r"9|image|resize")),
        ("channels-outside", *_yaml(_steps("channels: [0, 1, 3]"), r"channels|3")),
        ("channels-negative", *_yaml(_steps("channels: [0, 1, -1]"), r"channels|-1")),
        ("channels-empty", *_yaml(_steps("channels: []"), r"channels")),
        ("channels-float", *_yaml(_steps("channels: [0.0, 1, 2]"), r"channels|0\.0|float")),
        ("channels-two", *_yaml(_steps("channels: [0, 1]"), r"channels|2|image")),
        ("divide-zero", *_yaml(_steps("normalize: {divide: 0}"), r"divide|0")),
        ("std-zero", *_yaml(_steps("normalize: {std: [0, 1, 1]}"), r"std|0")),
        ("std-nan", *_yaml(_steps("normalize: {std: [.nan, 1, 1]}"), r"std|nan")),
        ("std-tiny", *_yaml(_steps("normalize: {std: [1.0e-300, 1, 1]}"), r"std|finite|1e-300")),
        ("mean-inf", *_yaml(_steps("normalize: {mean: [.inf, 0, 0]}"), r"mean|inf")),
        ("mean-huge", *_yaml(_steps("normalize: {mean: [1.0e+300, 0, 0]}"), r"mean|finite|1e\+300")),
        ("mean-count", *_yaml(_steps("normalize: {mean: [0, 0]}"), r"mean|2")),
        ("mean-string", *_yaml(_steps("normalize: {mean: ['0', '0', '0']}"), r"mean|str")),
        ("exponent-is-string", *_yaml(_steps("normalize: {divide: 1e-3}"), r"divide|1e-3", exits=frozenset({DONE, USAGE}), writes=_EVERY)),
        ("scale-zero", *_yaml(_steps("quantize: {scale: 0, zero_point: 0}"), r"scale|quantize")),
        ("quantize-of-float", *_yaml(_steps("quantize: {scale: 0.5, zero_point: 0}"), r"quantize|int8|float")),
        ("dequantize-of-float", *_yaml(_ends("dequantize: {scale: 0.5, zero_point: 0}"), r"dequantize|int8|float")),
        ("softmax-axis", *_yaml(_ends("softmax: {axis: 9}"), r"axis|9")),
        ("softmax-axis-float", *_yaml(_ends("softmax: {axis: 0.5}"), r"axis|0\.5")),
        ("top-k-zero", *_yaml(_ends("top_k: {k: 0}"), r"k|0")),
        ("top-k-more", *_yaml(_ends("top_k: {k: 4}"), r"k|4")),
        ("top-k-huge", *_yaml(_ends(f"top_k: {{k: {1 << 70}}}"), r"k")),
        ("argmax-axis", *_yaml(_ends("argmax: {axis: -3}"), r"axis|-3")),
        ("argmax-then-softmax", *_yaml(_ends("argmax: {axis: -1}", "softmax: {axis: -1}"), r"softmax|argmax", exits=frozenset({DONE, USAGE}), writes=_EVERY)),
        ("merge-key", *_yaml("x: &x {frame: [8, 8, 3]}\ninputs:\n  image:\n    <<: *x\n", r"x|p\.yaml")),
        ("long-text", *_yaml("# " + "x" * (1 << 20) + "\nnope: 1\n", r"nope")),
        ("huge-text", *_yaml("# " + "x" * (20 << 20) + "\nnope: 1\n", r"nope", seconds=90)),
        ("ten-thousand-steps", *_yaml(_channels(10_000), r"channels|steps", lines=24)),
        ("a-hundred-thousand-steps", *_yaml(_channels(100_000), r"channels|steps", seconds=90, lines=24)),
    ],
)  # fmt: skip

VELA_INI = cases(
    "compile/vela-ini",
    [
        (what, ("compile", "{assets}/int8.onnx", "--target", "cortex-a55", "--npu", "ethos-u65-256", "--npu-ops", "conv2d", "--vela-config", "v.ini", *more), says, {"make": make})
        for what, make, says, *more in (
            ("missing", None, r"v\.ini"),
            ("folder", folder("v.ini"), r"v\.ini"),
            ("fifo", fifo("v.ini"), r"v\.ini"),
            ("empty", put("v.ini"), r"v\.ini|Ethos_U65"),
            ("binary", put("v.ini", bytes(range(256))), r"v\.ini"),
            ("no-header", put("v.ini", "core_clock=1e9\n"), r"v\.ini"),
            ("section-twice", put("v.ini", "[System_Config.A]\n[System_Config.A]\n"), r"v\.ini", "--system-config", "A"),
            ("option-twice", put("v.ini", "[System_Config.A]\ncore_clock=1\ncore_clock=2\n"), r"v\.ini", "--system-config", "A"),
            ("section-of-others", put("v.ini", "[System_Config.B]\ncore_clock=1e9\n"), r"A", "--system-config", "A"),
            ("clock-letters", put("v.ini", "[System_Config.A]\ncore_clock=fast\naxi0_port=Sram\naxi1_port=Dram\n[Memory_Mode.M]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"), r"v\.ini|fast|core_clock", "--system-config", "A", "--memory-mode", "M"),
            ("clock-nan", put("v.ini", "[System_Config.A]\ncore_clock=nan\naxi0_port=Sram\naxi1_port=Dram\n[Memory_Mode.M]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"), r"v\.ini|nan|core_clock", "--system-config", "A", "--memory-mode", "M"),
            ("clock-zero", put("v.ini", "[System_Config.A]\ncore_clock=0\naxi0_port=Sram\naxi1_port=Dram\n[Memory_Mode.M]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"), r"v\.ini|0|core_clock", "--system-config", "A", "--memory-mode", "M"),
            ("port-unknown", put("v.ini", "[System_Config.A]\ncore_clock=1e9\naxi0_port=Tape\naxi1_port=Dram\n[Memory_Mode.M]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"), r"v\.ini|Tape", "--system-config", "A", "--memory-mode", "M"),
            ("inherits-itself", put("v.ini", "[System_Config.A]\ninherit=System_Config.A\ncore_clock=1e9\n"), r"v\.ini", "--system-config", "A"),
            ("inherits-round", put("v.ini", "[System_Config.A]\ninherit=System_Config.B\n[System_Config.B]\ninherit=System_Config.A\n[Memory_Mode.M]\n"), r"v\.ini.*inherit", "--system-config", "A", "--memory-mode", "M"),
            ("interpolation", put("v.ini", "[System_Config.A]\ncore_clock=%(nope)s\n[Memory_Mode.M]\n"), r"v\.ini.*nope", "--system-config", "A", "--memory-mode", "M"),
        )
    ],
    seconds=60,
)  # fmt: skip

CASES: list[Case] = [
    *OPTIONS, *LINKERS, *NAMES, *INPUTS, *OUTPUTS, *CALIBRATION, *PREPROCESS, *VELA_INI,
]  # fmt: skip
