# SPDX-License-Identifier: Apache-2.0
"""Damaged packages and databases, wrong arrays, boards that are gone or lie: run, bench, verify, tune, db, doctor, explain."""

import json
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.target.toolchain import zig, zig_target
from tests.arm_ext.packages import relist
from tests.hostile.case import DONE, ENVIRONMENT, FINDING, GIB, REFUSED, USAGE, Case, asset, both, cases
from tests.hostile.models import array, arrays, fifo, folder, link, mode, put, read_only

OK = frozenset({DONE})
ENV = frozenset({ENVIRONMENT})
BAD = frozenset({USAGE, ENVIRONMENT})
_RUN = ("run", "p", "--board", "virtual", "--check")


def copy(name: str = "arm.armpkg", to: str = "p") -> Callable[[Path], None]:
    """Return a `make` that copies a shared package or database."""
    return both(lambda work: shutil.copytree(asset(name), work / to))


def _with(*steps: Callable[[Path], object], of: str = "arm.armpkg") -> Callable[[Path], None]:
    return both(copy(of), *steps)


def _manifest(edit: Callable[[dict[str, Any]], object], of: str = "arm.armpkg") -> Callable[[Path], None]:
    def change(work: Path) -> None:
        path = work / "p/manifest.json"
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))

    return _with(change, of=of)


def _drop(name: str) -> Callable[[Path], None]:
    return lambda work: (work / "p" / name).unlink()


def _p(make: object, says: str = r"\bp\b|manifest", **more: object) -> tuple[object, ...]:
    return _RUN, says, {"make": make, **more}


PACKAGES = cases(
    "run/package",
    [
        ("missing", *_p(None)),
        ("file", *_p(put("p", "x"))),
        ("empty-folder", *_p(folder("p"))),
        ("dangling-link", *_p(link("p", "nowhere"))),
        ("link-loop", *_p(link("p", "p"))),
        ("unreadable", *_p(_with(lambda work: (work / "p").chmod(0)), exits=BAD)),
        ("manifest-missing", *_p(_with(_drop("manifest.json")))),
        ("manifest-empty", *_p(_with(put("p/manifest.json")))),
        ("manifest-not-json", *_p(_with(put("p/manifest.json", "{")))),
        ("manifest-list", *_p(_with(put("p/manifest.json", "[]")))),
        ("manifest-null", *_p(_with(put("p/manifest.json", "null")))),
        ("manifest-not-utf8", *_p(_with(put("p/manifest.json", b"\xff\xfe{}")))),
        ("manifest-deep", *_p(_with(put("p/manifest.json", "[" * 100_000)))),
        ("manifest-5000-digits", *_p(_with(put("p/manifest.json", '{"schema_version": ' + "9" * 5000 + "}")), never="9{4000}")),
        ("manifest-fifo", *_p(_with(_drop("manifest.json"), fifo("p/manifest.json")), seconds=30)),
        ("manifest-zero-link", *_p(_with(_drop("manifest.json"), link("p/manifest.json", "/dev/zero")), seconds=30, memory=4 << 30)),
        ("manifest-version", *_p(_manifest(lambda m: m.update(schema_version=99)), r"version|99")),
        ("manifest-of-another", *_p(_with(put("p/manifest.json", '{"name": "app", "version": "1"}')))),
        ("input-dtype", *_p(_manifest(lambda m: m["inputs"][0].update(dtype="object")), r"dtype|object|manifest")),
        ("input-dtype-code", *_p(_manifest(lambda m: m["inputs"][0].update(dtype="f4,f4")), r"dtype|f4|manifest")),
        ("input-negative", *_p(_manifest(lambda m: m["inputs"][0].update(shape=[-1, 8])), r"shape|-1|manifest")),
        ("input-2-to-60", *_p(_manifest(lambda m: m["inputs"][0].update(shape=[1 << 60, 8])), r"shape|manifest|self")),
        ("input-second", *_p(_manifest(lambda m: m["inputs"].append({"name": "b", "shape": [1], "dtype": "float32"})), r"b|inputs|self|manifest", exits=frozenset({1, 2, 3}))),
        ("inputs-none", *_p(_manifest(lambda m: m.update(inputs=[])), r"inputs|self|manifest", exits=frozenset({1, 2, 3}))),
        ("outputs-none", *_p(_manifest(lambda m: m.update(outputs=[])), r"outputs|self|manifest", exits=frozenset({1, 2, 3}))),
        ("outputs-of-one-name", *_p(_manifest(lambda m: m["outputs"].append(dict(m["outputs"][0]))), r"y|outputs|manifest", exits=frozenset({1, 2, 3}))),
        ("name-is-path", ("run", "p", "--output", "o"), r"name|\.\.|manifest", {"make": _manifest(lambda m: m["outputs"][0].update(name="../../evil")), "exits": frozenset({DONE, USAGE}), "writes": ("o", "o/*")}),
        ("name-is-number", *_p(_manifest(lambda m: m["inputs"][0].update(name=5)))),
        ("features-of-a-stranger", *_p(_manifest(lambda m: m["target"].update(features=["nope"])), r"nope|features", exits=frozenset({2, 3}))),
        ("qemu-cpu-injected", *_p(_manifest(lambda m: m["target"].update(qemu_cpu="max -D /tmp/x")), r"cpu|manifest|hash", exits=frozenset({0, 2, 3}))),
        ("bound-nan", *_p(_manifest(lambda m: m["check"].update(relative_bound=float("nan"))), r"bound|nan|NaN|manifest")),
        ("bound-inf", *_p(_manifest(lambda m: m["check"].update(relative_bound=float("inf"))), r"bound|inf|manifest")),
        ("bound-negative", *_p(_manifest(lambda m: m["check"].update(relative_bound=-1)), r"bound|-1|manifest")),
        ("unknown-key", *_p(_manifest(lambda m: m.update(extra=1)), r"extra|manifest", exits=frozenset({DONE, USAGE}))),
        ("so-missing", *_p(_with(_drop("model.so")), r"model\.so")),
        ("so-empty", *_p(_with(put("p/model.so")), r"model\.so")),
        ("so-text", *_p(_with(put("p/model.so", "hello")), r"model\.so")),
        ("so-cut", *_p(_with(lambda work: os.truncate(work / "p/model.so", 3000)), r"model\.so")),
        ("so-fifo", *_p(_with(_drop("model.so"), fifo("p/model.so")), r"model\.so", seconds=30)),
        ("so-folder", *_p(_with(_drop("model.so"), folder("p/model.so")), r"model\.so")),
        ("so-of-host", *_p(_with(lambda work: shutil.copy(asset("host.armpkg/model.so"), work / "p/model.so")), r"model\.so")),
        ("selftest-missing", *_p(_with(_drop("selftest.npz")), r"selftest")),
        ("selftest-empty", *_p(_with(put("p/selftest.npz")), r"selftest")),
        ("selftest-text", *_p(_with(put("p/selftest.npz", "x")), r"selftest")),
        ("selftest-no-expected", *_p(_with(lambda work: _selftest(work, drop="expected")), r"selftest|expected", exits=frozenset({1, 2}))),
        ("selftest-no-input", *_p(_with(lambda work: _selftest(work, drop="input")), r"selftest|input", exits=frozenset({1, 2}))),
        ("selftest-altered", *_p(_with(lambda work: _selftest(work, scale=2)), r"selftest|y|", exits=frozenset({1, 2}))),
        ("selftest-nan", *_p(_with(lambda work: _selftest(work, scale=np.nan)), r"selftest|y|", exits=frozenset({1, 2}))),
        ("selftest-shape", *_p(_with(lambda work: _selftest(work, shape=(1, 9))), r"selftest|shape", exits=frozenset({1, 2}))),
        ("selftest-object", *_p(_with(lambda work: np.savez(work / "p/selftest.npz", input_0=np.array([{}], object))), r"selftest", exits=frozenset({1, 2}))),
        ("host-on-virtual", _RUN, r"x86|host|aarch64", {"make": copy("host.armpkg"), "exits": BAD}),
        ("arm-on-local", ("run", "p", "--board", "local"), r"local|aarch64|Arm|virtual", {"make": copy(), "exits": BAD}),
    ],
)  # fmt: skip


def _selftest(work: Path, drop: str = "", scale: float = 1, shape: tuple[int, ...] | None = None) -> None:
    path = work / "p/selftest.npz"
    with np.load(path) as file:
        values = {key: value for key, value in file.items() if not (drop and drop in key)}
    for key in values:
        if "expected" in key:
            values[key] = values[key] * np.float32(scale)
        if shape:
            values[key] = np.ones(shape, values[key].dtype)
    np.savez(path, **values)


def _input(value: str, says: str = r"x", **more: object) -> tuple[object, ...]:
    return (
        ("run", "p", "--input", value),
        says,
        {**more, "make": both(copy(), more["make"]) if "make" in more else copy()},
    )


INPUTS = cases(
    "run/input",
    [
        ("no-equals", *_input("x")),
        ("no-file", *_input("x=")),
        ("no-name", *_input("=x.npy")),
        ("unknown", *_input("z=x.npy", r"z", make=array("x.npy", np.ones((1, 8), "f")))),
        ("missing", *_input("x=x.npy", r"x\.npy")),
        ("folder", *_input("x=x.npy", r"x\.npy", make=folder("x.npy"))),
        ("fifo", *_input("x=x.npy", r"x\.npy", make=fifo("x.npy"), seconds=30)),
        ("dev-zero", *_input("x=/dev/zero", r"/dev/zero", seconds=30)),
        ("empty", *_input("x=x.npy", r"x\.npy", make=put("x.npy"))),
        ("text", *_input("x=x.npy", r"x\.npy", make=put("x.npy", "1 2 3"))),
        ("npz", *_input("x=x.npz", r"x\.npz", make=arrays("x.npz", x=np.ones((1, 8), "f")))),
        ("pickle", *_input("x=x.npy", r"x\.npy", make=lambda work: np.save(work / "x.npy", np.array([{}], object)))),
        ("raw-pickle", *_input("x=x.npy", r"x\.npy", make=put("x.npy", b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR."))),
        ("cut", *_input("x=x.npy", r"x\.npy", make=both(array("x.npy", np.ones((1, 8), "f")), lambda work: os.truncate(work / "x.npy", 140)))),
        ("header-huge", *_input("x=x.npy", r"x", make=put("x.npy", b"\x93NUMPY\x01\x00\x45\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}"[:69]))),
        ("header-nested", *_input("x=x.npy", r"x", make=put("x.npy", b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 4500 + b")" * 4500))),
        ("shape", *_input("x=x.npy", r"x", make=array("x.npy", np.ones((1, 9), "f")))),
        ("rank", *_input("x=x.npy", r"x", make=array("x.npy", np.ones(8, "f")))),
        ("float64", *_input("x=x.npy", r"x.*float", make=array("x.npy", np.ones((1, 8))))),
        ("strings", *_input("x=x.npy", r"x", make=array("x.npy", np.full((1, 8), "a")))),
        ("structured", *_input("x=x.npy", r"x", make=array("x.npy", np.zeros((1, 8), "f4,i4")))),
        ("big-endian", *_input("x=x.npy", "", make=array("x.npy", np.ones((1, 8), ">f4")), exits=frozenset({DONE, USAGE}))),
        ("fortran", *_input("x=x.npy", "", make=array("x.npy", np.asfortranarray(np.ones((1, 8), "f"))), exits=OK)),
        ("nan", *_input("x=x.npy", "", make=array("x.npy", np.full((1, 8), np.nan, "f")), exits=OK)),
        ("twice", ("run", "p", "--input", "x=x.npy", "--input", "x=z.npy"), r"x", {"make": both(copy(), array("x.npy", np.ones((1, 8), "f")), array("z.npy", np.zeros((1, 8), "f")))}),
        ("with-check", ("run", "p", "--check", "--input", "x=x.npy"), r"--check|--input", {"make": both(copy(), array("x.npy", np.ones((1, 8), "f"))), "exits": frozenset({DONE, USAGE})}),
        ("steps-without-state", ("run", "p", "--steps", "3"), r"state", {"make": copy()}),
        ("steps-zero", ("run", "p", "--steps", "0"), r"0", {"make": copy("state.armpkg")}),
        ("steps-letters", ("run", "p", "--steps", "many"), r"steps", {"make": copy("state.armpkg")}),
        ("accuracy-missing", ("run", "p", "--accuracy", "a.npz"), r"a\.npz", {"make": copy()}),
        ("accuracy-names", ("run", "p", "--accuracy", "a.npz"), r"inputs|labels", {"make": both(copy(), arrays("a.npz", a=np.ones(3)))}),
        ("accuracy-lengths", ("run", "p", "--accuracy", "a.npz"), r"labels|inputs", {"make": both(copy(), arrays("a.npz", inputs=np.ones((3, 1, 8), "f"), labels=np.arange(2)))}),
        ("accuracy-empty", ("run", "p", "--accuracy", "a.npz"), r"labels|inputs|sample|empty", {"make": both(copy(), arrays("a.npz", inputs=np.ones((0, 1, 8), "f"), labels=np.arange(0)))}),
        ("accuracy-labels", ("run", "p", "--accuracy", "a.npz"), r"labels", {"make": both(copy(), arrays("a.npz", inputs=np.ones((3, 1, 8), "f"), labels=np.array(["a", "b", "c"])))}),
        ("output-is-file", ("run", "p", "--output", "o"), r"\bo\b", {"make": both(copy(), put("o", "mine"))}),
        ("output-below-file", ("run", "p", "--output", "o/q"), r"\bo\b", {"make": both(copy(), put("o", "mine"))}),
        ("output-read-only", ("run", "p", "--output", "o"), r"\bo\b", {"make": both(copy(), read_only("o")), "exits": BAD}),
        ("output-dangling", ("run", "p", "--output", "o"), r"\bo\b", {"make": both(copy(), link("o", "nowhere"))}),
        ("output-over-input", ("run", "p", "--input", "x=y.npy", "--output", "."), r"y\.npy", {"make": both(copy(), array("y.npy", np.ones((1, 8), "f"))), "exits": frozenset({DONE, USAGE}), "writes": ("0_y.npy", ".arm-ext-files.json")}),
        ("output-in-package", ("run", "p", "--output", "p"), r"\bp\b", {"make": copy(), "exits": frozenset({DONE, USAGE}), "writes": ("p/0_y.npy",)}),
    ],
)  # fmt: skip


@contextmanager
def _serving(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Listen on a port in a process of its own; `answer` gets each connection."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        pid = os.fork()
        if pid == 0:
            try:
                held = []
                while True:
                    connection, _ = bound.accept()
                    held.append(connection)
                    try:
                        answer(connection)
                    except OSError:
                        connection.close()
            finally:
                os._exit(0)
        try:
            yield bound.getsockname()[1]
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def _silent(_connection: socket.socket) -> None:
    """Keep the connection and say nothing."""


def _hang_up(connection: socket.socket) -> None:
    connection.close()


def _http(connection: socket.socket) -> None:
    connection.recv(64)
    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    connection.close()


def _noise(connection: socket.socket) -> None:
    connection.sendall(os.urandom(1 << 16))


def _huge_length(connection: socket.socket) -> None:
    """Answer TVM's magic, then name a message of 2^62 bytes."""
    connection.recv(64)
    connection.sendall(
        (0xFF271).to_bytes(4, "little") + (6).to_bytes(4, "little") + b"server" + b"\xff" * 7 + b"\x3f" * 9
    )


def _closed() -> Any:
    return _taken_then_closed()


@contextmanager
def _taken_then_closed() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    yield port


def _server(answer: Callable[[socket.socket], None]) -> Callable[[], Any]:
    return lambda: _serving(answer)


_BOARDS = [
    ("unknown", "nope", r"nope", {}),
    ("empty", "", r"board", {}),
    ("port-0", "127.0.0.1:0", r"port|0", {"exits": BAD}),
    ("port-99999", "127.0.0.1:99999", r"99999", {"exits": BAD}),
    ("port-letters", "127.0.0.1:abc", r"abc", {}),
    ("no-host", ":9090", r"9090|board", {"exits": BAD}),
    ("no-port", "127.0.0.1:", r"board|port", {}),
    ("host-unknown", "no.such.host.invalid:9090", r"no\.such\.host", {"exits": ENV}),
    ("host-newline", "a\nb:9090", r"board|a", {"exits": BAD}),
    ("ipv6", "[::1]:1", r"::1", {"exits": BAD}),
    ("refused", "127.0.0.1:{port}", r"127\.0\.0\.1", {"exits": ENV, "server": _closed}),
    ("silent", "127.0.0.1:{port}", r"127\.0\.0\.1", {"exits": ENV, "server": _server(_silent), "seconds": 90}),
    ("hangs-up", "127.0.0.1:{port}", r"127\.0\.0\.1", {"exits": ENV, "server": _server(_hang_up)}),
    ("http", "127.0.0.1:{port}", r"127\.0\.0\.1", {"exits": ENV, "server": _server(_http)}),
    ("noise", "127.0.0.1:{port}", r"127\.0\.0\.1", {"exits": ENV, "server": _server(_noise)}),
    ("huge-length", "127.0.0.1:{port}", r"127\.0\.0\.1", {"exits": ENV, "server": _server(_huge_length)}),
    ("tracker-no-key", "tracker-127.0.0.1:{port}", r"tracker|key", {"server": _closed}),
    ("tracker-refused", "tracker-127.0.0.1:{port}/k", r"tracker|127\.0\.0\.1", {"exits": ENV, "server": _closed, "seconds": 90}),
    ("tracker-silent", "tracker-127.0.0.1:{port}/k", r"tracker|127\.0\.0\.1", {"exits": ENV, "server": _server(_silent), "seconds": 90}),
    ("tracker-noise", "tracker-127.0.0.1:{port}/k", r"tracker|127\.0\.0\.1", {"exits": ENV, "server": _server(_noise), "seconds": 90}),
    ("virtual-cpu-unknown", "virtual:nope", r"nope", {"exits": BAD}),
    ("virtual-cpu-empty", "virtual:", r"virtual|cpu", {}),
    ("virtual-cpu-injected", "virtual:max -D x", r"max -D x|cpu", {"exits": BAD}),
    ("virtual-cpu-help", "virtual:help", r"help|cpu|CPU", {"exits": BAD}),
]  # fmt: skip
BOARDS = cases(
    "run/board",
    [
        (what, ("run", "{assets}/arm.armpkg", "--board", board), says, more)
        for what, board, says, more in _BOARDS
    ],
)
BENCH_BOARDS = cases(
    "bench/board",
    [(what, ("bench", "{assets}/arm.armpkg", "--board", board), says, more) for what, board, says, more in _BOARDS if what in ("unknown", "refused", "silent", "noise", "tracker-refused")],
)  # fmt: skip
DOCTOR = [
    *cases(
        "doctor/board",
        [(what, ("doctor", "--board", board), "", {"prints": "" if what in ("unknown", "empty", "port-letters", "no-port") else r"board|virtual", "terse": True, **more, "exits": BAD}) for what, board, _, more in _BOARDS if what in ("unknown", "refused", "silent", "hangs-up", "noise", "tracker-silent", "virtual-cpu-unknown", "port-letters")],
    ),
    *cases(
        "doctor/machine",
        [
            ("extra-argument", ("doctor", "x"), r"x"),
            ("no-path", ("doctor",), "", {"env": {"PATH": ""}, "exits": frozenset({DONE, ENVIRONMENT}), "prints": r"qemu", "terse": True}),
            ("path-unset", ("doctor",), "", {"env": {"PATH": None}, "exits": frozenset({DONE, ENVIRONMENT}), "prints": r"qemu", "terse": True}),
            ("qemu-hangs", ("doctor",), "", {"make": lambda work: _tool(work, "qemu-aarch64", "exec sleep 1000"), "env": {"PATH": "{work}:/usr/bin:/bin"}, "exits": frozenset({DONE, ENVIRONMENT}), "prints": r"qemu", "terse": True, "seconds": 90}),
            ("qemu-fails", ("doctor",), "", {"make": lambda work: _tool(work, "qemu-aarch64", "exit 1"), "env": {"PATH": "{work}:/usr/bin:/bin"}, "exits": frozenset({DONE, ENVIRONMENT}), "prints": r"qemu", "terse": True}),
            ("qemu-prints-noise", ("doctor",), "", {"make": lambda work: _tool(work, "qemu-aarch64", "head -c 100000 /dev/urandom"), "env": {"PATH": "{work}:/usr/bin:/bin"}, "exits": frozenset({DONE, ENVIRONMENT}), "prints": r"qemu", "terse": True}),
            ("mca-noise", ("doctor",), "", {"make": both(*(lambda work, name=name: _tool(work, name, "head -c 100000 /dev/urandom") for name in ("llvm-mca-19", "llvm-mca"))), "env": {"PATH": "{work}:/usr/bin:/bin"}, "exits": frozenset({DONE, ENVIRONMENT}), "prints": r"llvm-mca", "terse": True}),
            ("cache-damaged", ("doctor",), "", {"make": lambda work: _damaged_cache(work), "env": {"ARM_EXT_CACHE": "{work}/cache"}, "exits": frozenset({DONE, ENVIRONMENT}), "prints": r"runtime", "terse": True, "writes": ("cache/*",), "seconds": 240}),
            ("cache-is-file", ("doctor",), "", {"make": put("cache", "x"), "env": {"ARM_EXT_CACHE": "{work}/cache"}, "exits": ENV, "prints": r"cache", "terse": True}),
            ("cache-read-only", ("doctor",), "", {"make": read_only("cache"), "env": {"ARM_EXT_CACHE": "{work}/cache"}, "exits": ENV, "prints": r"cache|runtime", "terse": True}),
            ("json", ("doctor", "--json"), "", {"exits": OK, "prints": r"schema_version"}),
        ],
    ),
]  # fmt: skip


def _tool(work: Path, name: str, text: str) -> None:
    (work / name).write_text(f"#!/bin/sh\n{text}\n")
    (work / name).chmod(0o755)


def _damaged_cache(work: Path) -> None:
    source = Path(os.environ["HOSTILE_CACHE"]) / "native"
    shutil.copytree(source, work / "cache/native", symlinks=True)
    for path in (work / "cache/native").rglob("*"):
        if path.is_file() and path.stat().st_size > 1000:
            os.truncate(path, 1000)


BENCH = cases(
    "bench/options",
    [
        ("missing", ("bench", "p"), r"\bp\b"),
        ("model-without-against", ("bench", "{assets}/relu.onnx"), r"--against|package"),
        ("against-unknown", ("bench", "{assets}/arm.armpkg", "--against", "nope"), r"nope"),
        ("against-empty", ("bench", "{assets}/arm.armpkg", "--against", ""), r"against"),
        ("threads-0", ("bench", "{assets}/arm.armpkg", "--threads", "0"), r"0"),
        ("threads-65", ("bench", "{assets}/arm.armpkg", "--threads", "65"), r"65"),
        ("target-alone", ("bench", "{assets}/arm.armpkg", "--target", "arm"), r"--against"),
        ("shape-of-fixed", ("bench", "{assets}/arm.armpkg", "--shape", "x=1,9"), r"x|shape"),
        ("shape-nonsense", ("bench", "{assets}/arm.armpkg", "--shape", "x"), r"x"),
        ("shape-5000-digits", ("bench", "{assets}/arm.armpkg", "--shape", "x=" + "9" * 5000), r"x"),
        ("host-package", ("bench", "{assets}/host.armpkg"), r"host|x86|aarch64", {"exits": BAD}),
        ("litert-model-missing", ("bench", "{assets}/arm.armpkg", "--against", "litert", "--litert-model", "nope.tflite"), r"nope\.tflite|litert"),
        ("so-cut", ("bench", "p"), r"model\.so", {"make": _with(lambda work: os.truncate(work / "p/model.so", 3000))}),
        ("no-qemu", ("bench", "{assets}/arm.armpkg"), r"qemu", {"env": {"PATH": "/nope"}, "exits": ENV}),
        ("no-compiler", ("bench", "{assets}/arm.armpkg"), r"qemu|g\+\+|compiler|zig", {"env": {"PATH": "/nope", "ARM_EXT_CACHE": "{work}/cache"}, "exits": ENV, "writes": ("cache", "cache/*")}),
    ],
)  # fmt: skip

_NPU = "npu.armpkg"
VERIFY = cases(
    "verify/package",
    [
        ("without-npu", ("verify", "{assets}/npu.armpkg"), r"--npu"),
        ("no-regions", ("verify", "{assets}/arm.armpkg", "--npu"), r"NPU|npu", {"exits": REFUSED}),
        ("missing", ("verify", "p", "--npu"), r"\bp\b"),
        ("payload-missing", ("verify", "p", "--npu"), r"payload", {"make": _with(_drop("npu/region-0.payload"), of=_NPU)}),
        ("payload-empty", ("verify", "p", "--npu"), r"payload", {"make": _with(put("p/npu/region-0.payload"), of=_NPU)}),
        ("payload-cut", ("verify", "p", "--npu"), r"payload", {"make": _with(lambda work: os.truncate(work / "p/npu/region-0.payload", 100), of=_NPU)}),
        ("payload-changed", ("verify", "p", "--npu"), r"payload|region", {"make": _with(lambda work: _flip(work / "p/npu/region-0.payload"), of=_NPU), "exits": REFUSED}),
        ("payload-fifo", ("verify", "p", "--npu"), r"payload", {"make": _with(_drop("npu/region-0.payload"), fifo("p/npu/region-0.payload"), of=_NPU), "seconds": 30}),
        ("payload-elsewhere", ("verify", "p", "--npu"), r"manifest|payload|path", {"make": _manifest(lambda m: _npu_files(m, "../../../../etc/passwd"), of=_NPU), "never": "root:"}),
        ("tosa-missing", ("verify", "p", "--npu"), r"tosa", {"make": _with(_drop("npu/region-0.tosa"), of=_NPU)}),
        ("tosa-cut", ("verify", "p", "--npu"), r"tosa", {"make": _with(lambda work: os.truncate(work / "p/npu/region-0.tosa", 40), of=_NPU)}),
        ("values-missing", ("verify", "p", "--npu"), r"npz", {"make": _with(_drop("npu/region-0.npz"), of=_NPU)}),
        ("values-text", ("verify", "p", "--npu"), r"npz", {"make": _with(put("p/npu/region-0.npz", "x"), of=_NPU)}),
        ("run-payload-missing", _RUN, r"payload|region|", {"make": _with(_drop("npu/region-0.payload"), of=_NPU), "exits": frozenset({DONE, USAGE})}),
        ("run-npu-nonsense", _RUN, r"ARM_EXT_NPU", {"make": copy(_NPU), "env": {"ARM_EXT_NPU": "perhaps"}, "exits": frozenset({FINDING, USAGE, ENVIRONMENT})}),
        ("run-npu-timeout-nonsense", _RUN, r"ARM_EXT_NPU_TIMEOUT", {"make": copy(_NPU), "env": {"ARM_EXT_NPU_TIMEOUT_MS": "soon"}, "exits": frozenset({DONE, FINDING, USAGE, ENVIRONMENT})}),
        ("run-npu-forced", _RUN, r"NPU|npu|accel", {"make": copy(_NPU), "env": {"ARM_EXT_NPU": "npu"}, "exits": frozenset({FINDING, ENVIRONMENT})}),
    ],
)  # fmt: skip


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 3, len(data), 97):
        data[at] ^= 0x55
    path.write_bytes(data)


def _npu_files(manifest: dict[str, Any], path: str) -> None:
    text = json.dumps(manifest["npu"]).replace("npu/region-0.payload", path)
    manifest["npu"] = json.loads(text)


EXPORT = cases(
    "export-payload/output",
    [
        ("no-output", ("export-payload", "{assets}/npu.armpkg"), r"--output|-o"),
        ("no-regions", ("export-payload", "{assets}/arm.armpkg", "-o", "o"), r"NPU|npu", {"exits": REFUSED}),
        ("missing", ("export-payload", "p", "-o", "o"), r"\bp\b"),
        ("file", ("export-payload", "{assets}/npu.armpkg", "-o", "o"), r"\bo\b", {"make": put("o", "mine")}),
        ("foreign", ("export-payload", "{assets}/npu.armpkg", "-o", "o"), r"\bo\b", {"make": put("o/mine.c", "mine"), "exits": frozenset({DONE, USAGE}), "writes": ("o/*[!e].[cbSh]*", "o/region*", "o/*.bin", "o/model*", "o/int8*", "o/.arm-ext-files.json")}),
        ("the-package", ("export-payload", "p", "-o", "p"), r"\bp\b", {"make": copy(_NPU)}),
        ("in-the-package", ("export-payload", "p", "-o", "p/npu"), r"\bp\b", {"make": copy(_NPU)}),
        ("parent-missing", ("export-payload", "{assets}/npu.armpkg", "-o", "a/b/c"), r"\ba\b", {"exits": frozenset({DONE, USAGE}), "writes": ("a", "a/*")}),
        ("dangling", ("export-payload", "{assets}/npu.armpkg", "-o", "o"), r"\bo\b", {"make": link("o", "nowhere")}),
        ("dev-null", ("export-payload", "{assets}/npu.armpkg", "-o", "/dev/null"), r"/dev/null"),
        ("empty-name", ("export-payload", "{assets}/npu.armpkg", "-o", ""), r"-o|output"),
        ("read-only", ("export-payload", "{assets}/npu.armpkg", "-o", "d/o"), r"\bd\b", {"make": read_only("d"), "exits": BAD}),
        ("payload-changed", ("export-payload", "p", "-o", "o"), r"payload", {"make": _with(lambda work: _flip(work / "p/npu/region-0.payload"), of=_NPU)}),
        ("payload-elsewhere", ("export-payload", "p", "-o", "o"), r"manifest|payload|path", {"make": _manifest(lambda m: _npu_files(m, "../../../../etc/passwd"), of=_NPU)}),
        ("model-name-path", ("export-payload", "p", "-o", "o"), r"name|manifest", {"make": _manifest(lambda m: m["model"].update(name="../../evil"), of=_NPU), "exits": frozenset({DONE, USAGE}), "writes": ("o", "o/*")}),
        ("model-name-c", ("export-payload", "p", "-o", "o"), r"name|manifest", {"make": _manifest(lambda m: m["model"].update(name='*/ int main(){} /* "'), of=_NPU), "exits": frozenset({DONE, USAGE}), "writes": ("o", "o/*"), "check": lambda work: _no_code(work / "o")}),
        ("full", ("export-payload", "{assets}/npu.armpkg", "-o", "mounted/o"), r"space", {"make": lambda work: mount(work, "16k"), "needs": "root", "exits": ENV}),
    ],
)  # fmt: skip


def _no_code(output: Path) -> str | None:
    texts = [path.read_text(errors="replace") for path in output.glob("*.[chS]")]
    return "the model's name became C" if any("*/ int main" in text for text in texts) else None


def mount(work: Path, size: str, name: str = "mounted") -> None:
    """Mount a file system of this size."""
    (work / name).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(work / name)], check=True)


_DB = "generic-dotprod-5e0cd1e1.jsonl"


def _db(edit: Callable[[list[str]], list[str] | bytes]) -> Callable[[Path], None]:
    def make(work: Path) -> None:
        shutil.copytree(asset("db"), work / "d")
        (path,) = (work / "d").glob("*.jsonl")
        changed = edit(path.read_text().splitlines())
        path.write_bytes(
            changed if isinstance(changed, bytes) else "".join(f"{line}\n" for line in changed).encode()
        )

    return make


def _record(**change: object) -> Callable[[Path], None]:
    return _db(lambda lines: [json.dumps({**json.loads(lines[0]), **change}), *lines[1:]])


_SHOW = ("db", "show", "d")
_USE = ("compile", "{assets}/mlp.onnx", "--tuned", "d", "-o", "o")
_SOFT = {"exits": frozenset({DONE, USAGE})}
_FAULTS: list[tuple[str, object, str, dict[str, object]]] = [
    ("missing", None, r"\bd\b", {}),
    ("file", put("d", "x"), r"\bd\b", {}),
    ("empty-folder", folder("d"), r"\bd\b", _SOFT),
    ("foreign-files", put("d/a.jsonl", "hello\n"), r"\bd\b|a\.jsonl", _SOFT),
    ("foreign-json", put("d/a.jsonl", '{"a": 1}\n[]\nnull\n3\n'), r"\bd\b|a\.jsonl", _SOFT),
    ("not-utf8", _db(lambda lines: ("\n".join(lines)).encode() + b"\n\xff\xfe\n"), r"\bd\b|jsonl", _SOFT),
    ("nul", _db(lambda lines: [*lines, "\0\0\0"]), r"jsonl", _SOFT),
    ("last-line-cut", _db(lambda lines: [*lines[:-1], lines[-1][:50]]), r"jsonl", _SOFT),
    ("blank-lines", _db(lambda lines: ["", *lines, "", ""]), "", {"exits": OK}),
    ("deep", _db(lambda lines: [*lines, "[" * 50_000]), r"jsonl", _SOFT),
    ("5000-digits", _db(lambda lines: [*lines, '{"schema_version": ' + "9" * 5000 + "}"]), r"jsonl", {**_SOFT, "never": "9{4000}"}),
    ("line-of-50-mb", _db(lambda lines: [*lines, '{"a": "' + "x" * 50_000_000 + '"}']), r"jsonl", {**_SOFT, "never": "x{1000}"}),
    ("schema-99", _record(schema_version=99), r"jsonl|version", _SOFT),
    ("cost-negative", _record(cost=-1, value=-1, cycles=-1), r"jsonl", _SOFT),
    ("candidate-null", _record(candidate=None), r"jsonl", _SOFT),
    ("task-number", _record(task=5), r"jsonl", _SOFT),
    ("kernel-unknown", _db(lambda lines: [line.replace('"gemm_f32"', '"nope"') for line in lines]), r"nope|jsonl|records", _SOFT),
    ("fifo", both(folder("d"), fifo("d/a.jsonl")), r"jsonl|\bd\b", {**_SOFT, "seconds": 30}),
    ("folder-inside", folder("d/a.jsonl"), r"a\.jsonl|\bd\b", _SOFT),
    ("link-loop", both(folder("d"), link("d/a.jsonl", "a.jsonl")), r"a\.jsonl|\bd\b", _SOFT),
    ("unreadable", both(copy("db", "d"), lambda work: [path.chmod(0) for path in (work / "d").iterdir()]), r"jsonl|\bd\b", {"exits": BAD}),
]  # fmt: skip
DATABASES = [
    *cases("db/show", [(what, _SHOW, says, {"make": make, **more}) for what, make, says, more in _FAULTS]),
    *cases(
        "compile/tuned",
        [(what, _USE, says, {"make": make, "writes": ("o", "o/*"), **more}) for what, make, says, more in _FAULTS if what in ("foreign-json", "last-line-cut", "deep", "5000-digits", "candidate-null", "kernel-unknown", "task-number", "fifo", "not-utf8")],
    ),
    *cases(
        "db/merge",
        [
            ("no-output", ("db", "merge", "d"), r"-o|--output", {"make": copy("db", "d")}),
            ("nothing", ("db", "merge", "-o", "o"), r"FOLDERS"),
            ("missing", ("db", "merge", "d", "-o", "o"), r"\bd\b"),
            ("one-missing", ("db", "merge", "d", "nope", "-o", "o"), r"nope", {"make": copy("db", "d")}),
            ("into-itself", ("db", "merge", "d", "-o", "d"), r"\bd\b", {"make": copy("db", "d"), **_SOFT}),
            ("into-itself-by-link", ("db", "merge", "d", "-o", "l"), r"\bd\b|\bl\b", {"make": both(copy("db", "d"), link("l", "d")), **_SOFT}),
            ("twice-the-same", ("db", "merge", "d", "d", "-o", "o"), "", {"make": copy("db", "d"), "exits": OK, "writes": ("o", "o/*")}),
            ("output-is-file", ("db", "merge", "d", "-o", "o"), r"\bo\b", {"make": both(copy("db", "d"), put("o", "mine"))}),
            ("output-foreign", ("db", "merge", "d", "-o", "o"), r"\bo\b", {"make": both(copy("db", "d"), put("o/mine.txt", "mine")), **_SOFT, "writes": ("o/*.jsonl",)}),
            ("parent-missing", ("db", "merge", "d", "-o", "a/b/c"), r"\ba\b", {"make": copy("db", "d"), **_SOFT, "writes": ("a", "a/*")}),
            ("damaged", ("db", "merge", "d", "-o", "o"), r"jsonl|line", {"make": _db(lambda lines: [*lines, "{cut"]), **_SOFT, "writes": ("o", "o/*")}),
            ("full", ("db", "merge", "d", "-o", "mounted/o"), r"space", {"make": both(_db(lambda lines: lines * 20), lambda work: mount(work, "4k")), "needs": "root", "exits": frozenset({DONE, ENVIRONMENT}), "writes": ("mounted/o", "mounted/o/*.jsonl")}),
            ("at-once", ("db", "merge", "d", "-o", "o"), "", {"make": copy("db", "d"), "times": 4, "exits": OK, "writes": ("o", "o/*"), "check": lambda work: _lines(work / "o", asset("db"))}),
        ],
    ),
    *cases(
        "db/prune",
        [
            ("keep-0", ("db", "prune", "d", "--keep", "0"), r"0", {"make": copy("db", "d")}),
            ("keep-huge", ("db", "prune", "d", "--keep", "9" * 30), "", {"make": copy("db", "d"), "exits": OK}),
            ("missing", ("db", "prune", "d"), r"\bd\b"),
            ("file", ("db", "prune", "d"), r"\bd\b", {"make": put("d", "x")}),
            ("foreign-files", ("db", "prune", "d"), r"\bd\b|jsonl", {"make": put("d/a.jsonl", "mine\n"), **_SOFT}),
            ("damaged-line", ("db", "prune", "d"), r"jsonl|line", {"make": _db(lambda lines: [*lines, '{"cut": ']), **_SOFT, "writes": ("d/*",)}),
            ("read-only", ("db", "prune", "d", "--keep", "1"), r"\bd\b|jsonl", {"make": both(copy("db", "d"), mode("d", 0o555)), "exits": frozenset({DONE, USAGE, ENVIRONMENT})}),
            ("through-link", ("db", "prune", "d", "--keep", "1"), "", {"make": lambda work: _linked_db(work), "exits": OK, "writes": ("real/*",), "check": lambda work: None if next((work / "d").iterdir()).is_symlink() else "the link became a file"}),
            ("file-size", ("db", "prune", "d", "--keep", "1"), r"", {"make": copy("db", "d"), "limits": {1: 100}, "exits": frozenset({DONE, ENVIRONMENT}), "writes": ()}),
        ],
    ),
]  # fmt: skip


def _linked_db(work: Path) -> None:
    copy("db", "real")(work)
    (work / "d").mkdir()
    for path in (work / "real").iterdir():
        (work / "d" / path.name).symlink_to(path)


def _lines(output: Path, source: Path) -> str | None:
    got = sorted(line for path in output.glob("*.jsonl") for line in path.read_text().splitlines())
    want = sorted(line for path in source.glob("*.jsonl") for line in path.read_text().splitlines())
    return None if len(got) == len(want) else f"{len(got)} records of {len(want)}"


_TUNE = ("tune", "{assets}/mlp.onnx", "--db", "d")
TUNE = cases(
    "tune/options",
    [
        ("model-missing", ("tune", "nope.onnx", "--db", "d"), r"nope\.onnx"),
        ("budget-letters", (*_TUNE, "--budget", "abc"), r"abc"),
        ("budget-negative", (*_TUNE, "--budget", "-1s"), r"-1s"),
        ("budget-nan", (*_TUNE, "--budget", "nans"), r"nan"),
        ("budget-inf", (*_TUNE, "--budget", "infh"), r"inf"),
        ("budget-empty", (*_TUNE, "--budget", ""), r"budget"),
        ("budget-5000-digits", (*_TUNE, "--budget", "9" * 5000 + "s"), r"budget"),
        ("budget-overflow", (*_TUNE, "--budget", "9" * 320 + "h"), r"budget", {"exits": frozenset({USAGE})}),
        ("trials-0", (*_TUNE, "--trials", "0"), r"0"),
        ("tasks-unknown", (*_TUNE, "--tasks", "nope.*"), r"nope", {"writes": ()}),
        ("tasks-empty", (*_TUNE, "--tasks", "", "--trials", "1"), r"tasks", {"exits": frozenset({DONE, USAGE}), "writes": ("d", "d/*"), "seconds": 240}),
        ("tasks-bracket", (*_TUNE, "--tasks", "[a"), r"\[a", {"writes": ()}),
        ("seed-letters", (*_TUNE, "--seed", "x"), r"x"),
        ("seed-negative", (*_TUNE, "--seed", "-1", "--trials", "1"), r"seed|-1", {"exits": frozenset({DONE, USAGE}), "writes": ("d", "d/*"), "seconds": 240}),
        ("seed-2-to-70", (*_TUNE, "--seed", str(1 << 70), "--trials", "1"), r"seed", {"exits": frozenset({DONE, USAGE}), "writes": ("d", "d/*"), "seconds": 240}),
        ("jobs-0", (*_TUNE, "--jobs", "0"), r"0"),
        ("rerank-unknown", (*_TUNE, "--rerank", "nope"), r"nope"),
        ("rerank-no-records", (*_TUNE, "--rerank", "virtual"), r"\bd\b|record", {"exits": frozenset({1, 2, 3})}),
        ("top-alone", (*_TUNE, "--top", "3", "--trials", "1"), r"--rerank", {"exits": frozenset({DONE, USAGE}), "writes": ("d", "d/*"), "seconds": 240}),
        ("db-is-file", _TUNE, r"\bd\b", {"make": put("d", "mine")}),
        ("db-parent-missing", ("tune", "{assets}/mlp.onnx", "--db", "a/b/c", "--trials", "1"), r"\ba\b", {"exits": frozenset({DONE, USAGE}), "writes": ("a", "a/*"), "seconds": 240}),
        ("db-read-only", (*_TUNE, "--trials", "1"), r"\bd\b", {"make": read_only("d"), "exits": BAD}),
        ("db-dangling", _TUNE, r"\bd\b", {"make": link("d", "nowhere")}),
        ("db-empty-name", ("tune", "{assets}/mlp.onnx", "--db", "", "--trials", "1"), r"db", {"exits": frozenset({DONE, USAGE}), "writes": ("*.jsonl",), "seconds": 240}),
        ("db-dev-null", ("tune", "{assets}/mlp.onnx", "--db", "/dev/null", "--trials", "1"), r"/dev/null"),
        ("board-unknown", (*_TUNE, "--board", "nope"), r"nope"),
        ("board-refused", (*_TUNE, "--board", "127.0.0.1:{port}", "--budget", "5s"), r"127\.0\.0\.1", {"server": _closed, "exits": ENV, "seconds": 60}),
        ("board-silent", (*_TUNE, "--board", "127.0.0.1:{port}", "--budget", "5s"), r"127\.0\.0\.1", {"server": _server(_silent), "exits": ENV, "seconds": 60}),
        ("tracker-refused", (*_TUNE, "--board", "tracker-127.0.0.1:{port}/k", "--budget", "5s"), r"tracker", {"server": _closed, "exits": ENV, "seconds": 60}),
        ("no-qemu", (*_TUNE, "--trials", "1"), r"qemu", {"env": {"PATH": "/nope"}, "exits": ENV, "writes": ("d",), "seconds": 90}),
        ("host", (*_TUNE, "--target", "host", "--trials", "1"), r"this machine", {"exits": BAD}),
        ("int", (*_TUNE, "--trials", "200"), "", {"signals": ((12, 2),), "exits": frozenset({0, 3, 130}), "writes": ("d", "d/*"), "seconds": 120}),
        ("term", (*_TUNE, "--trials", "200"), "", {"signals": ((12, 15),), "exits": frozenset({0, 3, 143}), "writes": ("d", "d/*"), "seconds": 120}),
        ("damaged-db", (*_TUNE, "--trials", "1"), r"jsonl|line", {"make": _db(lambda lines: [*lines, "{cut"]), "exits": frozenset({DONE, USAGE}), "writes": ("d/*",), "seconds": 240}),
    ],
)  # fmt: skip

EXPLAIN = cases(
    "explain/options",
    [
        ("missing", ("explain", "nope.onnx"), r"nope\.onnx"),
        ("no-model", ("explain",), r"MODEL"),
        ("package", ("explain", "{assets}/arm.armpkg"), r"arm\.armpkg"),
        ("rule-unknown", ("explain", "{assets}/relu.onnx", "--rule", "nope"), r"nope"),
        ("rule-empty", ("explain", "{assets}/relu.onnx", "--rule", ""), r"rule"),
        ("rule-fuse-unknown", ("explain", "{assets}/relu.onnx", "--rule", "fuse:nope"), r"nope"),
        ("rule-long", ("explain", "{assets}/relu.onnx", "--rule", "n" * 50_000), r"rule"),
        ("target", ("explain", "{assets}/relu.onnx", "--target", "nope"), r"nope"),
        ("shape", ("explain", "{assets}/dynamic.onnx"), r"--shape"),
        ("yaml", ("explain", "{assets}/image.onnx", "--preprocess", "nope.yaml"), r"nope\.yaml"),
        ("quantize", ("explain", "{assets}/mlp.onnx", "--quantize", "nope.npz"), r"nope\.npz"),
        ("fifo", ("explain", "m.onnx"), r"m\.onnx", {"make": fifo("m.onnx"), "seconds": 30}),
        ("json-refused", ("explain", "nope.onnx", "--json"), r"nope\.onnx"),
    ],
)  # fmt: skip

BOARD = cases(
    "board/virtual",
    [
        ("cpu-unknown", ("board", "virtual", "--cpu", "nope"), r"nope", {"exits": BAD}),
        ("cpu-empty", ("board", "virtual", "--cpu", ""), r"cpu", {"exits": BAD}),
        ("tracker-alone", ("board", "virtual", "--tracker", "127.0.0.1:9190"), r"--key"),
        ("key-alone", ("board", "virtual", "--key", "k"), r"--tracker"),
        ("tracker-nonsense", ("board", "virtual", "--tracker", "nope", "--key", "k"), r"nope"),
        ("tracker-port", ("board", "virtual", "--tracker", "127.0.0.1:99999", "--key", "k"), r"99999"),
        ("tracker-refused", ("board", "virtual", "--tracker", "127.0.0.1:{port}", "--key", "k"), r"tracker|127\.0\.0\.1", {"server": _closed, "exits": ENV, "seconds": 60}),
        ("int", ("board", "virtual"), "", {"signals": ((10, 2),), "exits": frozenset({0, 130}), "seconds": 40}),
        ("term", ("board", "virtual"), "", {"signals": ((10, 15),), "exits": frozenset({0, 143}), "seconds": 40}),
        ("hup", ("board", "virtual"), "", {"signals": ((10, 1),), "exits": frozenset({0, 129}), "seconds": 40}),
        ("int-at-start", ("board", "virtual"), "", {"signals": ((0.7, 2),), "exits": frozenset({0, 130}), "seconds": 40}),
        ("killed", ("board", "virtual"), "", {"signals": ((10, 9),), "exits": frozenset({137}), "seconds": 40, "writes": ("../tmp/*",)}),
        ("no-qemu", ("board", "virtual"), r"qemu", {"env": {"PATH": "/nope"}, "exits": ENV}),
        ("stdout-broken", ("board", "virtual"), "", {"stdio": {1: "broken"}, "signals": ((20, 2),), "exits": frozenset({0, 3, 130, 141}), "seconds": 60}),
        ("no-verb", ("board",), r"", {"exits": frozenset({DONE, USAGE}), "terse": True}),
        ("verb-unknown", ("board", "nope"), r"nope"),
    ],
)  # fmt: skip


def _relisted(*steps: Callable[[Path], object], of: str = "arm.armpkg") -> Callable[[Path], None]:
    """Return a `make` of a package whose manifest agrees with what `steps` make of its files."""
    return _with(*steps, lambda work: relist(work / "p"), of=of)


def _library(code: str, machine: str = "aarch64") -> Callable[[Path], None]:
    def make(work: Path) -> None:
        (work / "model.c").write_text(code)
        options = ["-target", zig_target(f"{machine}-linux-gnu"), "-shared", "-fPIC"]
        zig(["cc", *options, work / "model.c", "-o", work / "p/model.so"])

    return make


def _unlist(*names: str) -> Callable[[dict[str, Any]], None]:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["files"] = [file for file in manifest["files"] if names and file["path"] not in names]

    return edit


def _sparse(name: str, size: int) -> Callable[[Path], None]:
    return lambda work: os.truncate(work / name, size)


_SO = "p/model.so"
_CRASH = "__attribute__((constructor)) static void AtLoad(void) { *(volatile int *)8 = 0; }"
_MANY = '{"files": [' + "{}," * 1_000_000 + "{}]}"
# What a package may be that is not what it says: how it is made, and what the message names.
_FALSE: list[tuple[str, Callable[[Path], None], str]] = [
    ("so-text", _relisted(put(_SO, "hello " * 100)), r"model\.so.*shared library"),
    ("so-x86", _relisted(lambda work: shutil.copy(asset("host.armpkg/model.so"), work / _SO)), r"model\.so.*x86_64.*aarch64"),
    ("so-unlisted", _manifest(_unlist("model.so")), r"model\.so.*manifest\.json"),
    ("files-none", _manifest(_unlist()), r"model\.so.*manifest\.json"),
    ("manifest-40-mb", _with(lambda work: _pad(work / "p/manifest.json", 40 << 20)), r"manifest\.json.*bytes"),
    ("manifest-1-tb", _with(_sparse("p/manifest.json", 1 << 40)), r"manifest\.json.*bytes"),
    ("manifest-of-faults", _with(put("p/manifest.json", _MANY)), r"manifest\.json"),
]  # fmt: skip
# What is seen once it is loaded.
_FALSE_ON_BOARD: list[tuple[str, Callable[[Path], None], str]] = [
    ("so-no-module", _relisted(_library("int f(void) { return 1; }")), r"model\.so.*TVM"),
    ("so-crashes", _relisted(_library(_CRASH)), r"model\.so.*crashes"),
    ("so-cut-elf", _relisted(lambda work: os.truncate(work / _SO, 3000)), r"model\.so"),
    ("selftest-unlisted", _manifest(_unlist("selftest.npz")), r"selftest\.npz"),
]  # fmt: skip
_REPORTS: list[tuple[str, Callable[[Path], None], str]] = [
    ("report-unlisted", _manifest(_unlist("report.json")), r"report\.json"),
    ("report-text", _relisted(put("p/report.json", "hello")), r"report\.json"),
    ("report-list", _relisted(put("p/report.json", "[]")), r"report\.json"),
    ("report-deep", _relisted(put("p/report.json", "[" * 100_000)), r"report\.json"),
    ("report-nan", _relisted(lambda work: _nan(work / "p/report.json")), r"report\.json.*mac_share"),
    ("report-of-faults", _relisted(put("p/report.json", _MANY.replace("files", "nodes"))), r"report\.json"),
    ("report-40-mb", _relisted(put("p/report.json", '{"a": "' + "x" * (40 << 20) + '"}')), r"report\.json"),
    ("report-1-gb", _relisted(_sparse("p/report.json", 1 << 30)), r"report\.json.*bytes"),
]  # fmt: skip


def _pad(path: Path, size: int) -> None:
    path.write_text(path.read_text().rstrip().removesuffix("}") + ', "x": "' + "x" * size + '"}')


def _nan(path: Path) -> None:
    report = json.loads(path.read_text())
    for node in report["nodes"]:
        node["mac_share"] = float("nan")
    path.write_text(json.dumps(report))


_OPENING: dict[str, tuple[str, ...]] = {
    "run": _RUN,
    "bench": ("bench", "p"),
    "profile": ("profile", "p"),
    "verify": ("verify", "p", "--npu"),
    "export-payload": ("export-payload", "p", "-o", "o"),
    "compare": ("bench", "p", "--against", "onnxruntime", "--onnxruntime-model", "{assets}/relu.onnx"),
}
FALSE = [
    case
    for verb, argv in _OPENING.items()
    for case in cases(
        f"{verb}/false",
        [
            (what, argv, says, {"make": make})
            for what, make, says in [
                *_FALSE,
                *(_FALSE_ON_BOARD if verb in ("run", "bench", "profile") else []),
                *(_REPORTS if verb == "profile" else []),
            ]
        ],
        seconds=30,
        memory=4 * GIB,
    )
] + cases(
    "run/false",
    [
        ("so-crashes-here", ("run", "p", "--board", "local"), r"model\.so.*crashes", {"make": _relisted(_library(_CRASH, platform.machine()), of="host.armpkg")}),
        ("so-no-module-here", ("run", "p", "--board", "local"), r"model\.so.*TVM", {"make": _relisted(_library("int f(void) { return 1; }", platform.machine()), of="host.armpkg")}),
    ],
)  # fmt: skip

CASES: list[Case] = [
    *FALSE, *PACKAGES, *INPUTS, *BOARDS, *BENCH_BOARDS, *DOCTOR, *BENCH, *VERIFY, *EXPORT, *DATABASES, *TUNE, *EXPLAIN, *BOARD,
]  # fmt: skip
