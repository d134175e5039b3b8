# SPDX-License-Identifier: Apache-2.0
"""Faults of the environment: streams, variables, limits, full disks, signals, several at once; and the Python API."""

import os
import resource
import signal
from pathlib import Path

import numpy as np

from tests.hostile.case import DONE, ENVIRONMENT, USAGE, Case, both, cases
from tests.hostile.models import constant, folder, link, node, put, read_only, relu, saved
from tests.hostile.package_cases import copy, mount

OK = frozenset({DONE})
ENV = frozenset({ENVIRONMENT})
BAD = frozenset({USAGE, ENVIRONMENT})
_COMPILE = ("compile", "{assets}/relu.onnx", "--target", "host", "-o", "p")
_MLP = ("compile", "{assets}/mlp.onnx", "-o", "p")
_RUN = ("run", "{assets}/arm.armpkg", "--check")
_P = ("p", "p/*")
_TMP = ("../tmp/*",)  # of what nobody can catch
_SAVE = ("compile", "{assets}/relu.onnx", "--save-node", "relu", "-o", "n.onnx")

# A reader that went away is no fault (141 is what a shell reports of SIGPIPE); a full disk is one.
_GONE = frozenset({0, 1, 3, 141})
STREAMS = [
    *cases(
        "targets/streams",
        [
            ("out-full", ("targets",), r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("out-full-json", ("targets", "--json"), r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("out-broken", ("targets",), "", {"stdio": {1: "broken"}, "exits": _GONE, "terse": True}),
            ("out-closed", ("targets",), "", {"stdio": {1: "closed"}, "exits": frozenset({0, 3}), "terse": True}),
            ("err-closed", ("targets",), "", {"stdio": {2: "closed"}, "exits": OK, "prints": "cortex-a53"}),
            ("in-closed", ("targets",), "", {"stdio": {0: "closed"}, "exits": OK, "prints": "cortex-a53"}),
            ("all-closed", ("targets",), "", {"stdio": {0: "closed", 1: "closed", 2: "closed"}, "exits": frozenset({0, 3})}),
            ("help-full", ("--help",), r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("verb-help-full", ("compile", "--help"), r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("version-full", ("--version",), r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("no-verb", (), "", {"exits": frozenset({0, 2}), "terse": True, "fresh": True, "lines": 40}),
            ("unknown-verb", ("complie",), r"complie", {"fresh": True}),
            ("argument-extra", ("targets", "x"), r"x"),
            ("argument-not-utf8", ("targets", os.fsdecode(b"\xff")), r"unexpected", {"fresh": True}),
        ],
    ),
    *cases(
        "compile/streams",
        [
            ("out-full", _COMPILE, r"space", {"stdio": {1: "full"}, "exits": ENV, "writes": _P}),
            ("out-broken", _COMPILE, "", {"stdio": {1: "broken"}, "exits": _GONE, "writes": _P, "terse": True}),
            ("out-closed", _COMPILE, "", {"stdio": {1: "closed"}, "exits": frozenset({0, 3}), "writes": _P, "terse": True, "check": lambda work: _whole(work / "p")}),
            ("err-closed", _COMPILE, "", {"stdio": {2: "closed"}, "exits": OK, "writes": _P, "check": lambda work: _whole(work / "p")}),
            ("err-full", _COMPILE, "", {"stdio": {2: "full"}, "exits": frozenset({0, 3}), "writes": _P}),
            ("err-full-error", ("compile", "nope.onnx"), "", {"stdio": {2: "full"}, "exits": frozenset({2, 3})}),
            ("err-broken-error", ("compile", "nope.onnx"), "", {"stdio": {2: "broken"}, "exits": frozenset({2, 3, 141})}),
            ("in-closed", _COMPILE, "", {"stdio": {0: "closed"}, "exits": OK, "writes": _P, "check": lambda work: _whole(work / "p")}),
            ("all-closed", _COMPILE, "", {"stdio": {0: "closed", 1: "closed", 2: "closed"}, "exits": frozenset({0, 3}), "writes": _P, "check": lambda work: _whole(work / "p")}),
        ],
        seconds=90,
    ),
    *cases(
        "run/streams",
        [
            ("out-full", _RUN, r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("out-broken", _RUN, "", {"stdio": {1: "broken"}, "exits": _GONE, "terse": True}),
            ("all-closed", _RUN, "", {"stdio": {0: "closed", 1: "closed", 2: "closed"}, "exits": frozenset({0, 3})}),
            ("explain-full", ("explain", "{assets}/relu.onnx"), r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("explain-broken-json", ("explain", "{assets}/relu.onnx", "--json"), "", {"stdio": {1: "broken"}, "exits": _GONE, "terse": True}),
            ("db-show-full", ("db", "show", "{assets}/db"), r"space", {"stdio": {1: "full"}, "exits": ENV}),
            ("doctor-full", ("doctor",), r"space", {"stdio": {1: "full"}, "exits": ENV}),
        ],
        seconds=90,
    ),
]  # fmt: skip


def _whole(package: Path) -> str | None:
    missing = [
        name
        for name in ("manifest.json", "model.so", "report.json", "selftest.npz")
        if not (package / name).is_file()
    ]
    if missing:
        return f"the package lacks {', '.join(missing)}"
    empty = [path.name for path in package.iterdir() if path.is_file() and not path.stat().st_size]
    return f"{', '.join(empty)} is empty" if empty else None


def _env(
    what: str, says: str = "", run: tuple[str, ...] = _COMPILE, *, exits: frozenset[int] = OK, **more: object
) -> tuple[object, ...]:
    fields = {key: value for key, value in more.items() if key.islower()}
    variables = {key: value for key, value in more.items() if not key.islower()}
    return what, run, says, {"env": variables, "exits": exits, "writes": _P, **fields}


VARIABLES = cases(
    "compile/variables",
    [
        _env("home-unset", HOME=None),
        _env("home-unset-no-cache", HOME=None, ARM_EXT_CACHE=None, exits=frozenset({0, 3})),
        _env("home-missing", HOME="/nope", ARM_EXT_CACHE=None, exits=frozenset({0, 3}), says="/nope"),
        _env("home-is-file", HOME="{assets}/relu.onnx", ARM_EXT_CACHE=None, exits=frozenset({0, 3}), says="relu.onnx"),
        _env("home-read-only", HOME="{work}/h", ARM_EXT_CACHE=None, exits=frozenset({0, 3}), says="h", make=read_only("h")),
        _env("home-relative", HOME="h", ARM_EXT_CACHE=None, exits=frozenset({0, 3}), writes=(*_P, "h", "h/*"), seconds=240),
        _env("cache-is-file", "cache", ARM_EXT_CACHE="{assets}/relu.onnx", exits=frozenset({0, 2, 3})),
        _env("cache-empty", ARM_EXT_CACHE="", exits=frozenset({0, 2, 3}), writes=(*_P, "../home/.cache", "../home/.cache/*"), seconds=240),
        _env("cache-dangling", "cache|c", ARM_EXT_CACHE="{work}/c", make=link("c", "/nope/x"), exits=frozenset({0, 2, 3})),
        _env("cache-full", "space", ARM_EXT_CACHE="{work}/mounted", make=lambda work: mount(work, "64k"), needs="root", exits=frozenset({0, 3}), writes=(*_P, "mounted/*"), seconds=120),
        *(
            _env(f"cache-{what}", "ARM_EXT_CACHE|", _MLP, ARM_EXT_CACHE=f"{{work}}/{name}", exits=frozenset({0, 3}), writes=(*_P, f"{name}*"), seconds=120)
            for what, name in (("colon", "a:b"), ("comma", "a,b"), ("percent", "a%b"), ("quotes", "a'b\"c"), ("newline", "a\nb"), ("dash", "-o"), ("semicolon", "a;b"), ("backslash", "a\\b"), ("space", "a b"), ("hash", "a#b"))
        ),
        _env("cache-dash-relative", "", _MLP, ARM_EXT_CACHE="-o", exits=frozenset({0, 3}), writes=(*_P, "-o*"), seconds=120),
        _env("tmp-missing", TMPDIR="/nope", exits=frozenset({0, 3}), says="TMPDIR|/nope"),
        _env("tmp-is-file", TMPDIR="{assets}/relu.onnx", exits=frozenset({0, 3}), says="TMPDIR|relu"),
        _env("tmp-read-only", TMPDIR="{work}/t", exits=frozenset({0, 3}), says="TMPDIR|t", make=read_only("t")),
        _env("tmp-full", TMPDIR="{work}/mounted", make=lambda work: mount(work, "16k"), needs="root", exits=frozenset({0, 3}), says="space", writes=_P),
        _env("tmp-full-arm", "space", _MLP, TMPDIR="{work}/mounted", make=lambda work: mount(work, "16k"), needs="root", exits=frozenset({0, 3}), writes=_P),
        _env("tmp-spaces", TMPDIR="{work}/a b'c\"d", make=folder("a b'c\"d")),
        _env("tmp-unicode", TMPDIR="{work}/ж 🦾", make=folder("ж 🦾")),
        _env("tmp-dash", TMPDIR="{work}/-o", make=folder("-o")),
        _env("tmp-semicolon-arm", "", _MLP, TMPDIR="{work}/a;b,c d", make=folder("a;b,c d")),
        _env("path-empty", PATH="", exits=frozenset({0, 3}), says="PATH|not found|install"),
        _env("path-unset", PATH=None, exits=frozenset({0, 3}), says="PATH|not found|install"),
        _env("path-empty-arm", "PATH|not found|install", _MLP, PATH="", exits=frozenset({0, 3})),
        _env("path-of-files", PATH="{assets}/relu.onnx:/nope", exits=frozenset({0, 3}), says="PATH|not found|install"),
        _env("lang-nonsense", LC_ALL="xx_YY.nope", fresh=True),
        _env("lang-c", LC_ALL="C", PYTHONUTF8="0", fresh=True),
        _env("columns-1", COLUMNS="1"),
        _env("columns-negative", COLUMNS="-5"),
        _env("columns-letters", COLUMNS="wide", LINES="tall"),
        _env("term-dumb", TERM="dumb"),
        _env("term-unknown", TERM="nope-9000", FORCE_COLOR="1"),
        _env("omp-letters", OMP_NUM_THREADS="many", TVM_NUM_THREADS="many", fresh=True),
        _env("omp-zero", OMP_NUM_THREADS="0", TVM_NUM_THREADS="0", fresh=True),
        _env("omp-negative", OMP_NUM_THREADS="-4", TVM_NUM_THREADS="-4", fresh=True),
        _env("omp-huge", OMP_NUM_THREADS="100000", TVM_NUM_THREADS="100000", fresh=True),
        _env("tz-nonsense", TZ="Nope/Nope"),
        _env("source-date", SOURCE_DATE_EPOCH="-1"),
        _env("source-date-letters", SOURCE_DATE_EPOCH="yesterday"),
        _env("python-optimized", PYTHONOPTIMIZE="2", fresh=True, seconds=120),
        _env("python-warnings", PYTHONWARNINGS="error", fresh=True),
        _env("python-dev", PYTHONDEVMODE="1", fresh=True, never=r"ResourceWarning|DeprecationWarning"),
        _env("modules-in-cwd", "", fresh=True, make=both(put("subprocess.py", "raise SystemExit(76)"), put("ziglang.py", "raise SystemExit(75)"), put("onnx.py", "raise SystemExit(77)"), put("json.py", "raise SystemExit(78)"), put("numpy.py", "raise SystemExit(79)"))),
        _env("debug-nonsense", ARM_EXT_DEBUG="maybe"),
        _env("cc-variables", CC="/nope", CXX="/nope", LD="/nope", CFLAGS="-nope", LDFLAGS="-nope"),
        _env("ld-library-path", LD_LIBRARY_PATH="/nope:"),
        _env("run-cache-colon", "cache folder .*ARM_EXT_CACHE", _RUN, ARM_EXT_CACHE="{work}/a:b", exits=ENV, writes=("a:b",), seconds=30),
        _env("run-cache-comma", "cache folder .*ARM_EXT_CACHE", _RUN, ARM_EXT_CACHE="{work}/a,b", exits=ENV, writes=("a,b",), seconds=30),
        _env("run-no-qemu", "qemu", _RUN, PATH="/nope", exits=ENV),
        _env("run-tmp-missing", "TMPDIR|/nope|", _RUN, TMPDIR="/nope", exits=frozenset({0, 3})),
        _env("run-tmp-full", "space", _RUN, TMPDIR="{work}/mounted", make=lambda work: mount(work, "4k"), needs="root", exits=frozenset({0, 3})),
        _env("run-proxy", "", _RUN, HTTP_PROXY="http://127.0.0.1:1", ALL_PROXY="socks5://127.0.0.1:1"),
        _env("run-qemu-variables", "", _RUN, QEMU_CPU="cortex-a53", QEMU_LD_PREFIX="/nope", QEMU_STRACE="1", exits=frozenset({0, 3})),
        _env("run-ld-preload", "", _RUN, LD_PRELOAD="/nope.so", exits=frozenset({0, 3}), lines=400),
    ],
    seconds=90,
)  # fmt: skip


def _heavy(work: Path) -> None:
    """Write a model with half a GiB of weights."""
    side = 8192
    names = ("x", "m", "y")
    nodes = [node("MatMul", [names[k], f"w{k}"], [names[k + 1]], f"mm{k}") for k in range(2)]
    weights = [constant(f"w{k}", np.ones((side, side)), "float32") for k in range(2)]
    saved(relu(nodes, (1, side), weights=weights))(work)


def _limit(
    what: str, number: int, value: int, says: str = "", run: tuple[str, ...] = _COMPILE, **more: object
) -> tuple[object, ...]:
    return (
        what,
        run,
        says,
        {"limits": {number: value}, "exits": frozenset({0, 3}), "writes": _P, "fresh": True, **more},
    )


LIMITS = cases(
    "compile/limits",
    [
        _limit("files-12", resource.RLIMIT_NOFILE, 12, "files|open"),
        _limit("files-24", resource.RLIMIT_NOFILE, 24, "files|open"),
        _limit("files-40", resource.RLIMIT_NOFILE, 40, "files|open"),
        _limit("file-size-0", resource.RLIMIT_FSIZE, 0, "", terse=True),  # nor has stderr any room, which is a file
        _limit("file-size-1k", resource.RLIMIT_FSIZE, 1024, "large|space|limit|ulimit"),
        _limit("file-size-1k-arm", resource.RLIMIT_FSIZE, 1024, "large|space|limit|ulimit", _MLP),
        _limit("file-size-8k", resource.RLIMIT_FSIZE, 8192, "large|space|limit|ulimit"),
        _limit("stack-64k", resource.RLIMIT_STACK, 64 << 10, "stack|memory"),
        _limit("files-12-arm", resource.RLIMIT_NOFILE, 12, "files|open", _MLP),
        _limit("run-files-12", resource.RLIMIT_NOFILE, 12, "files|open", _RUN),
        _limit("run-file-size-0", resource.RLIMIT_FSIZE, 0, "", _RUN, terse=True),
        _limit("targets-files-5", resource.RLIMIT_NOFILE, 5, "files|open", ("targets",)),
        _limit("stack-256k", resource.RLIMIT_STACK, 256 << 10, "stack|memory"),
        _limit("stack-1m", resource.RLIMIT_STACK, 1 << 20, "stack|memory"),
        _limit("memory-600m", resource.RLIMIT_AS, 600 << 20, "memory|addresses"),
        # 127: glibc aborts where a thread's memory cannot be had.
        _limit("memory-1200m", resource.RLIMIT_AS, 1200 << 20, "memory", exits=frozenset({0, 3, 127}), terse=True),
        *(
            _limit(f"memory-{megabytes}m-for-weights", resource.RLIMIT_AS, megabytes << 20, r"^error: there is not enough memory here", ("compile", "m.onnx", "--target", "host", "-o", "p"), make=_heavy, exits=frozenset({0, 3, 127}))
            for megabytes in (1800, 2200)
        ),
        _limit("cpu-3s", resource.RLIMIT_CPU, 3, "", exits=frozenset({0, 3, 152, 137}), writes=(*_P, ".arm-ext-*", ".arm-ext-*/*", *_TMP)),
        _limit("locked-0", resource.RLIMIT_MEMLOCK, 0, ""),
        _limit("run-file-size-1k", resource.RLIMIT_FSIZE, 1024, "large|space|limit|ulimit|", _RUN, exits=frozenset({0, 3, 4})),
        _limit("run-files-24", resource.RLIMIT_NOFILE, 24, "files|open", _RUN),
        _limit("run-memory-1200m", resource.RLIMIT_AS, 1200 << 20, "memory|board", _RUN),
        _limit("save-file-size-0", resource.RLIMIT_FSIZE, 0, "", _SAVE, writes=(), terse=True),
    ],
    seconds=90,
)  # fmt: skip


def _full(
    what: str, size: str, says: str, run: tuple[str, ...], make: object = None, **more: object
) -> tuple[object, ...]:
    steps = [lambda work: mount(work, size), *([make] if make else [])]
    return what, run, says, {"make": both(*steps), "needs": "root", "exits": ENV, **more}


_PLACES = [
    *cases(
        "compile/disk",
        [
            _full("output", "8k", r"space", ("compile", "{assets}/relu.onnx", "--target", "host", "-o", "mounted/p")),
            _full("output-tiny", "4k", r"space", ("compile", "{assets}/relu.onnx", "--target", "host", "-o", "mounted/p")),
            _full("output-arm", "16k", r"space", ("compile", "{assets}/mlp.onnx", "-o", "mounted/p")),
            _full("over-old-package", "72k", r"space", ("compile", "{assets}/mlp.onnx", "--target", "host", "-o", "mounted/p"), lambda work: copy("host.armpkg", "mounted/p")(work), exits=frozenset({0, 3}), writes=()),
            _full("dump", "4k", r"space", (*_COMPILE, "--dump-phases", "mounted/d"), writes=(*_P, "mounted/*")),
            _full("save-node", "0", r"space", ("compile", "{assets}/mlp.onnx", "--save-node", "fc1", "-o", "mounted/n.onnx"), exits=frozenset({0, 3}), writes=("mounted/n.onnx",)),
            _full("run-output", "4k", r"space", ("run", "{assets}/arm.armpkg", "--output", "mounted/o"), lambda work: fill(work / "mounted"), writes=()),
            _full("tune", "4k", r"space", ("tune", "{assets}/mlp.onnx", "--db", "mounted/d", "--trials", "2"), lambda work: fill(work / "mounted"), seconds=240, writes=("mounted/d", "mounted/d/*"), check=lambda work: "half a record" if any(f.stat().st_size for f in (work / "mounted/d").glob("*.jsonl")) else None),
            _full("prune", "16k", r"space|", ("db", "prune", "mounted/d", "--keep", "1"), both(copy("db", "mounted/d"), lambda work: fill(work / "mounted")), exits=frozenset({0, 3}), writes=("mounted/d/*",), check=lambda work: _records(work / "mounted/d")),
            ("read-only-mount", ("compile", "{assets}/relu.onnx", "--target", "host", "-o", "mounted/p"), r"read-only|Read-only|mounted", {"make": lambda work: _read_only(work), "needs": "root", "exits": BAD}),
            ("working-folder-gone", _COMPILE, r"folder|directory", {"make": folder("gone"), "cwd": "gone", "env": {"CWD_GONE": "1"}, "exits": BAD, "fresh": True, "writes": ("gone",)}),
            ("working-folder-gone-targets", ("targets",), r"folder|directory", {"make": folder("gone"), "cwd": "gone", "env": {"CWD_GONE": "1"}, "exits": frozenset({0, 3}), "fresh": True, "writes": ("gone",)}),
            ("working-folder-read-only", ("compile", "{assets}/relu.onnx", "--target", "host"), r"relu\.armpkg|folder", {"make": read_only("d"), "cwd": "d", "exits": BAD}),
            ("model-of-1970", ("compile", "m.onnx", "--target", "host", "-o", "p"), "", {"make": both(saved(relu()), lambda work: os.utime(work / "m.onnx", (0, 0))), "exits": OK, "writes": _P}),
            ("umask-077", _COMPILE, "", {"umask": 0o077, "exits": OK, "writes": _P, "check": lambda work: _modes(work, 0o700)}),
            ("umask-000", _COMPILE, "", {"umask": 0, "exits": OK, "writes": _P}),
            ("umask-777", _COMPILE, r"umask 777", {"umask": 0o777, "exits": frozenset({3})}),
        ],
        seconds=90,
    ),
]  # fmt: skip


def fill(place: Path) -> None:
    """Leave no space on a file system."""
    with (place / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            pass


def _records(database: Path) -> str | None:
    if any(path.stat().st_size for path in database.glob("*.jsonl")):
        return None
    return "the records are lost"


def _read_only(work: Path) -> None:
    mount(work, "64k")
    os.system(f"mount -o remount,ro '{work}/mounted'")


def _modes(work: Path, mode: int) -> str | None:
    got = (work / "p").stat().st_mode & 0o777
    return None if got == mode else f"the package's folder has mode {got:o}"


def _signal(
    what: str, at: float, number: int, run: tuple[str, ...] = _MLP, **more: object
) -> tuple[object, ...]:
    return (
        what,
        run,
        "",
        {
            "signals": ((at, number),),
            "exits": frozenset({0, 128 + number}),
            "writes": _P,
            "terse": True,
            **more,
        },
    )


SIGNALS = cases(
    "compile/signals",
    [
        *(_signal(f"{name}-{at}", at, getattr(signal, f"SIG{name}")) for name in ("INT", "TERM", "HUP") for at in (0.3, 1.0, 2.0)),
        _signal("QUIT", 1.0, signal.SIGQUIT),
        _signal("PIPE", 1.0, signal.SIGPIPE, exits=frozenset({0, 3, 141})),
        _signal("USR1", 1.0, signal.SIGUSR1),
        _signal("WINCH", 1.0, signal.SIGWINCH, exits=OK),
        _signal("CHLD", 1.0, signal.SIGCHLD, exits=OK),
        _signal("int-twice", 1.0, signal.SIGINT, signals=((1.0, 2), (1.05, 2))),
        _signal("int-at-start", 0.15, signal.SIGINT, fresh=True, exits=frozenset({0, 130})),
        _signal("term-at-start", 0.3, signal.SIGTERM, fresh=True),
        _signal("explain-int", 1.0, signal.SIGINT, ("explain", "{assets}/mlp.onnx")),
        _signal("run-int", 2.5, signal.SIGINT, _RUN),
        _signal("run-term", 2.5, signal.SIGTERM, _RUN),
        _signal("run-kill", 2.5, signal.SIGKILL, _RUN, writes=_TMP),
        _signal("over-package-term", 2.0, signal.SIGTERM, make=copy("host.armpkg", "p"), check=lambda work: _whole(work / "p")),
        _signal("over-package-kill", 2.0, signal.SIGKILL, make=copy("host.armpkg", "p"), check=lambda work: _whole(work / "p"), writes=(*_P, ".arm-ext-*", ".arm-ext-*/*", *_TMP)),
    ],
    seconds=60,
)  # fmt: skip

CONCURRENT = [
    *cases(
        "compile/concurrent",
        [
            ("one-output", _COMPILE, r"", {"times": 3, "exits": frozenset({0, 2, 3}), "writes": _P, "check": lambda work: _whole(work / "p")}),
            ("one-output-over-old", _COMPILE, r"", {"times": 3, "make": copy("host.armpkg", "p"), "exits": frozenset({0, 2, 3}), "writes": _P, "check": lambda work: _whole(work / "p")}),
            ("one-dump", (*_COMPILE, "--dump-phases", "d"), r"", {"times": 2, "exits": frozenset({0, 2, 3}), "writes": (*_P, "d", "d/*")}),
            ("save-node", _SAVE, r"", {"times": 3, "exits": frozenset({0, 2}), "writes": ("n.onnx",), "check": lambda work: _loads(work / "n.onnx")}),
            ("fresh-cache", _COMPILE, r"", {"times": 3, "env": {"ARM_EXT_CACHE": "{work}/c"}, "exits": frozenset({0, 2, 3}), "writes": (*_P, "c", "c/*"), "seconds": 300, "check": lambda work: _whole(work / "p")}),
            ("export", ("export-payload", "{assets}/npu.armpkg", "-o", "o"), r"", {"times": 3, "exits": frozenset({0, 2, 3}), "writes": ("o", "o/*")}),
            ("run", _RUN, r"", {"times": 3, "exits": OK}),
            ("run-output", ("run", "{assets}/arm.armpkg", "--output", "o"), r"", {"times": 3, "exits": frozenset({0, 2}), "writes": ("o", "o/*")}),
            ("tune", ("tune", "{assets}/mlp.onnx", "--db", "d", "--trials", "2"), r"", {"times": 2, "exits": frozenset({0, 2, 3}), "writes": ("d", "d/*"), "seconds": 300}),
        ],
        seconds=120,
    ),
]  # fmt: skip


def _loads(path: Path) -> str | None:
    import onnx

    onnx.checker.check_model(onnx.load(path))
    return None


# A program that prints what was raised, and whether it is an error of arm_ext with a message.
_TRY = """
import arm_ext, sys, numpy as np
from arm_ext.common.errors import ArmExtError
try:
    result = {}
except ArmExtError as err:
    print(type(err).__name__, err, file=sys.stderr); sys.exit(err.exit_code)
except (TypeError, ValueError) as err:
    print(type(err).__name__, err, file=sys.stderr); sys.exit(2)
"""
_API_FAULTS = frozenset({1, 2, 3})


def _api(what: str, expression: str, says: str = "", **more: object) -> tuple[object, ...]:
    return what, _TRY.replace("{}", expression), says, {"exits": _API_FAULTS, **more}


API = cases(
    "api/python",
    [
        _api("compile-none", "arm_ext.compile(None, target=None)", "target|model"),
        _api("compile-int", "arm_ext.compile(3)", "int|model|3"),
        _api("compile-missing", "arm_ext.compile('nope.onnx', target='host')", r"nope\.onnx"),
        _api("compile-bytes", "arm_ext.compile(b'\\x08\\x09', target='host')", "bytes|model"),
        _api("compile-module-no-inputs", "arm_ext.compile(__import__('torch').nn.ReLU().eval(), target='host')", "example_inputs"),
        _api("compile-module-training", "arm_ext.compile(__import__('torch').nn.Dropout(), example_inputs=(__import__('torch').ones(2),), target='host')", "eval"),
        _api("compile-module-wrong-inputs", "arm_ext.compile(__import__('torch').nn.Linear(3, 4).eval(), example_inputs=(__import__('torch').ones(2),), target='host')", "input|shape|mat|Linear", lines=60),
        _api("compile-module-string-input", "arm_ext.compile(__import__('torch').nn.ReLU().eval(), example_inputs=('a',), target='host')", "input|example", lines=60),
        _api("compile-proto", "arm_ext.compile(__import__('onnx').load('{assets}/relu.onnx'), target='host', output='p')", "ModelProto|model", exits=frozenset({0, 1, 2}), writes=_P),
        _api("compile-target-none", "arm_ext.compile('{assets}/relu.onnx', target=None)", "target"),
        _api("compile-target-int", "arm_ext.compile('{assets}/relu.onnx', target=5)", "target|5"),
        _api("compile-output-int", "arm_ext.compile('{assets}/relu.onnx', target='host', output=5)", "output|str, bytes or os.PathLike"),
        _api("compile-output-bytes", "arm_ext.compile('{assets}/relu.onnx', target='host', output=b'p')", "output|bytes", exits=frozenset({0, 1, 2}), writes=_P),
        _api("compile-shapes-string", "arm_ext.compile('{assets}/dynamic.onnx', target='host', shapes='x=1,31')", "shape"),
        _api("compile-shapes-none-size", "arm_ext.compile('{assets}/dynamic.onnx', target='host', shapes={'x': (None, 31)})", "shape|x"),
        _api("compile-shapes-float", "arm_ext.compile('{assets}/dynamic.onnx', target='host', shapes={'x': (1.5, 31)})", "shape|x|1.5"),
        _api("compile-shapes-bool", "arm_ext.compile('{assets}/dynamic.onnx', target='host', shapes={'x': (True, 31)})", "shape|x|True"),
        _api("compile-state-list", "arm_ext.compile('{assets}/sum.onnx', target='host', state=['sum'])", "state"),
        _api("compile-precision", "arm_ext.compile('{assets}/relu.onnx', target='host', precision='fp8')", "fp8"),
        _api("compile-keyword", "arm_ext.compile('{assets}/relu.onnx', taget='host')", "taget"),
        _api("compile-budget-string", "arm_ext.compile('{assets}/relu.onnx', target='host', memory_budget='4k')", "memory_budget|4k|str"),
        _api("compile-preprocess-string", "arm_ext.compile('{assets}/image.onnx', target='host', preprocess='nope.yaml')", "preprocess|nope"),
        _api("compile-npu-string", "arm_ext.compile('{assets}/int8.onnx', target='arm', npu='ethos-u65-256')", "npu|NpuOptions", exits=frozenset({0, 1, 2}), seconds=90, writes=("*.armpkg", "*.armpkg/*")),
        _api("preprocess-negative", "arm_ext.Preprocess(inputs={'image': {'frame': [-1, 8, 3]}})", "frame|-1"),
        _api("preprocess-garbage", "arm_ext.Preprocess(inputs=5)", "inputs|5"),
        _api("run-missing", "arm_ext.run('nope')", "nope"),
        _api("run-none", "arm_ext.run(None)", "None|package"),
        _api("run-inputs-list", "arm_ext.run('{assets}/arm.armpkg', inputs=[1, 2])", "inputs|x"),
        _api("run-inputs-unknown", "arm_ext.run('{assets}/arm.armpkg', inputs={'z': np.ones((1, 8), 'f')})", "z"),
        _api("run-inputs-nested-lists", "arm_ext.run('{assets}/arm.armpkg', inputs={'x': [[1.0] * 8]})", "x", exits=frozenset({0, 1, 2})),
        _api("run-inputs-object", "arm_ext.run('{assets}/arm.armpkg', inputs={'x': np.full((1, 8), None)})", "x"),
        _api("run-inputs-not-contiguous", "arm_ext.run('{assets}/arm.armpkg', inputs={'x': np.ones((1, 16), 'f')[:, ::2]})", "", exits=frozenset({0})),
        _api("run-board-none", "arm_ext.run('{assets}/arm.armpkg', board=None)", "board|string", exits=frozenset({0, 1, 2})),
        _api("run-board-int", "arm_ext.run('{assets}/arm.armpkg', board=5)", "board|5|string"),
        _api("run-of-compile", "arm_ext.run(arm_ext.compile('{assets}/relu.onnx', output='p'))", "", exits=frozenset({0}), writes=_P),
        _api("load-package-missing", "arm_ext.load_package('nope')", "nope"),
        _api("load-package-int", "arm_ext.load_package(7)", "7|int|package"),
        _api("explain-missing", "arm_ext.explain('nope.onnx')", r"nope\.onnx"),
        _api("verify-missing", "arm_ext.verify('nope')", "nope"),
        _api("export-missing", "arm_ext.export_payload('nope', 'o')", "nope"),
        _api("bench-missing", "arm_ext.bench('nope')", "nope"),
        _api("tune-missing", "arm_ext.tune_model('nope.onnx', db='d')", "nope"),
        _api("open-board-nonsense", "arm_ext.open_board('nope').__enter__()", "nope"),
        _api("dir", "[] if set(arm_ext.__all__) <= set(dir(arm_ext)) else sys.exit('dir() lacks ' + str(set(arm_ext.__all__) - set(dir(arm_ext))))", "", exits=frozenset({0})),
        _api("attribute-unknown", "getattr(arm_ext, 'complie', None) and 1 or sys.exit(2)", ""),
        ("in-a-thread", "import threading, arm_ext\nerrors = []\ndef work():\n    try:\n        arm_ext.compile('{assets}/relu.onnx', target='host', output='p')\n    except BaseException as err:\n        errors.append(err)\nt = threading.Thread(target=work); t.start(); t.join()\nif errors: raise errors[0]", "", {"exits": OK, "writes": _P}),
        ("two-threads", "import threading, arm_ext\nerrors = []\ndef work(n):\n    try:\n        arm_ext.compile('{assets}/relu.onnx', target='host', output=f'p{n}')\n    except BaseException as err:\n        errors.append(err)\nts = [threading.Thread(target=work, args=(n,)) for n in range(2)]\n[t.start() for t in ts]; [t.join() for t in ts]\nif errors: raise errors[0]", "", {"exits": OK, "writes": ("p?", "p?/*"), "seconds": 90}),
        ("quiet", "import arm_ext\narm_ext.compile('{assets}/relu.onnx', target='host', output='p')", "", {"exits": OK, "writes": _P, "check": lambda work: "prints to stdout" if (work.parent / "stdout0").read_text() else None}),
        ("handlers-kept", "import signal, arm_ext\nbefore = [signal.getsignal(s) for s in (2, 15, 1)]\narm_ext.compile('{assets}/relu.onnx', target='host', output='p')\nassert before == [signal.getsignal(s) for s in (2, 15, 1)]", "", {"exits": OK, "writes": _P}),
        ("cwd-and-environment-kept", "import os, arm_ext\nbefore = os.getcwd(), dict(os.environ), os.umask(0)\nos.umask(before[2])\narm_ext.compile('{assets}/relu.onnx', target='host', output='p')\nafter = os.getcwd(), dict(os.environ), os.umask(0)\nassert before == after, [k for k in after[1] if before[1].get(k) != after[1][k]]", "", {"exits": OK, "writes": _P}),
        ("deep-recursion-limit", "import sys, arm_ext\nbefore = sys.getrecursionlimit()\narm_ext.compile('{assets}/relu.onnx', target='host', output='p')\nassert sys.getrecursionlimit() == before", "", {"exits": OK, "writes": _P}),
        ("forked-workers", "import multiprocessing as m, arm_ext\ndef work(n): arm_ext.compile('{assets}/relu.onnx', target='host', output=f'p{n}')\nps = [m.get_context('fork').Process(target=work, args=(n,)) for n in range(2)]\n[p.start() for p in ps]; [p.join() for p in ps]\nassert not any(p.exitcode for p in ps)", "", {"exits": OK, "writes": ("p?", "p?/*"), "seconds": 90}),
        ("torch-leaves-nothing", "import arm_ext\narm_ext.compile('{assets}/relu.pt2', target='host', output='p')", "", {"exits": OK, "writes": _P, "fresh": True}),
    ],
    seconds=60,
)  # fmt: skip

CASES: list[Case] = [*STREAMS, *VARIABLES, *LIMITS, *_PLACES, *SIGNALS, *CONCURRENT, *API]
