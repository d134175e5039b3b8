# SPDX-License-Identifier: Apache-2.0
"""Run hostile cases, several at once, and judge each by what a user would see and find afterwards.

A case runs in a fork of this process, which has imported the compiler: an interpreter's start takes longer than most
cases. `fresh` cases, and those that close or replace what an interpreter opens at its start, get one of their own.
"""

import atexit
import contextlib
import ctypes
import fnmatch
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from tests.hostile.case import DONE, Case

ROOT = Path(__file__).resolve().parents[2]
# Words that a message for users has no place for.
_INTERNALS = re.compile(
    r"Traceback \(most recent|Fatal Python error|terminate called|Exception ignored in|Segmentation fault"
    r"|InternalError: Check failed|\bTVMError\b|\[TVM_|UnicodeEncodeError|RecursionError|resource_tracker"
)
_MARK = "HOSTILE_CASE"
_POLL = 0.02


@dataclass
class Outcome:
    """What came of a case."""

    case: Case
    wrong: list[str] = field(default_factory=list)
    skipped: str = ""
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0


@dataclass
class _Running:
    case: Case
    folder: Path
    stack: ExitStack
    pids: list[int]
    before: dict[str, str]
    started: float
    codes: dict[int, int] = field(default_factory=dict)
    sent: int = 0
    late: bool = False


def prepare(assets: Path, light: bool = False) -> None:
    """Make the shared inputs, in a process of its own, and tell cases where they and the cache are."""
    command = [sys.executable, "-m", "tests.hostile.assets", str(assets), *(["--light"] if light else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    os.environ["HOSTILE_ASSETS"] = str(assets)
    own = os.environ.get("ARM_EXT_CACHE") or platformdirs.user_cache_dir("tvm-arm-ext")
    os.environ["HOSTILE_CACHE"] = own


def run(selected: list[Case], jobs: int) -> Iterator[Outcome]:
    """Yield an outcome a case, as they end."""
    _preload()
    waiting = list(reversed(selected))
    running: list[_Running] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            case = waiting.pop()
            lacks = _lacks(case)
            if lacks:
                yield Outcome(case, skipped=lacks)
                continue
            try:
                running.append(_start(case))
            except Exception:
                yield Outcome(case, [f"cannot be set up: {traceback.format_exc(limit=-1)}"])
        time.sleep(_POLL)
        for one in list(running):
            if _ended(one):
                running.remove(one)
                yield _judge(one)


def _preload() -> None:
    sys.path.insert(0, str(ROOT))
    import onnxruntime
    import tvm.relax

    import arm_ext
    from arm_ext import cli

    for verb in cli.group.list_commands(None):
        importlib.import_module(f"arm_ext.cli.{verb.replace('-', '_')}")
    for name in arm_ext.__all__:
        getattr(arm_ext, name)
    assert onnxruntime
    assert tvm.relax


def _lacks(case: Case) -> str:
    if case.needs == "root" and os.geteuid() != 0:
        return "only root may mount"
    return ""


def _start(case: Case) -> _Running:
    stack = ExitStack()
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    stack.callback(_remove, folder)
    for name in ("work", "tmp", "home"):
        (folder / name).mkdir()
    port = stack.enter_context(case.server()) if case.server else 0
    here = Path.cwd()
    try:
        os.chdir(folder / "work")  # a socket's path may be 108 bytes at most
        if case.make:
            case.make(folder / "work")
    except BaseException:
        stack.close()
        raise
    finally:
        os.chdir(here)
    before = _listing(folder)
    started = time.monotonic()
    pids = [_fork(case, folder, port, number) for number in range(case.times)]
    return _Running(case, folder, stack, pids, before, started)


def _remove(folder: Path) -> None:
    mounted = folder / "work/mounted"
    if mounted.is_mount():
        subprocess.run(["umount", "-l", mounted], check=False)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _fork(case: Case, folder: Path, port: int, number: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 120  # what an interpreter exits with that cannot flush
    try:
        code = _child(case, folder, port, number)
    except BaseException:
        os.write(2, traceback.format_exc().encode())  # sys.stderr is the progress display's
        code = 1
    finally:
        os._exit(code)


def _child(case: Case, folder: Path, port: int, number: int) -> int:
    os.setsid()
    # A shell has these ignored for what it runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def filled(text: str) -> str:
        for name, value in (
            ("{assets}", os.environ["HOSTILE_ASSETS"]),
            ("{work}", str(folder / "work")),
            ("{port}", str(port)),
        ):
            text = text.replace(name, value)
        return text

    argv = [filled(argument) for argument in case.argv]
    code = filled(case.code)
    environment = _environment(case, folder, filled)
    os.chdir(folder / "work" / case.cwd)
    os.umask(case.umask)
    _redirect(case, folder, number)
    if case.env.get("CWD_GONE"):
        Path.cwd().rmdir()
    for what, limit in {resource.RLIMIT_AS: case.memory, resource.RLIMIT_CORE: 0, **case.limits}.items():
        resource.setrlimit(what, (limit, limit))
    _become_plain_user()
    if case.fresh or case.stdio:
        program = code or "from arm_ext.cli import main; main()"
        os.execve(sys.executable, [sys.executable, "-P", "-c", program, *argv], environment)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    return _in_this_process(argv, code)


def _environment(case: Case, folder: Path, filled: object) -> dict[str, str]:
    assert callable(filled)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOSTILE", "PYTEST"))}
    own: dict[str, str | None] = {
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "ARM_EXT_CACHE": os.environ["HOSTILE_CACHE"],
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        _MARK: str(folder),
    }
    merged = {**kept, **own, **case.env}
    return {name: filled(value) for name, value in merged.items() if value is not None}


def _redirect(case: Case, folder: Path, number: int) -> None:
    files = {0: "/dev/null", 1: folder / f"stdout{number}", 2: folder / f"stderr{number}"}
    for fd, path in files.items():
        how = case.stdio.get(fd, "")
        if how == "closed":
            os.close(fd)
            continue
        if how == "broken":
            reader, opened = os.pipe()
            os.close(reader)
        else:
            opened = os.open(
                "/dev/full" if how == "full" else path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600
            )
        if opened != fd:
            os.dup2(opened, fd)
            os.close(opened)
    os.closerange(3, 256)


def _become_plain_user() -> None:
    """Give up what lets root read and write whatever a file's mode says."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    drop = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    for capability in drop:
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
    sets = (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    for index in range(3):  # effective, permitted, inheritable
        sets[index] &= ~sum(1 << capability for capability in drop)
    libc.capset(header, sets)


def _in_this_process(argv: list[str], code: str) -> int:
    """Run a command or a program as an interpreter would, from its start to its atexit functions."""
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # the parent's temporary folders are not ours
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.argv = ["arm-ext", *argv]
    try:
        if code:
            exec(compile(code, "<case>", "exec"), {"__name__": "__main__"})
        else:
            from arm_ext.cli import main

            main(argv)
        status: object = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    atexit._run_exitfuncs()
    if isinstance(status, str):
        os.write(2, status.encode())
        return 1
    return int(status or 0) & 255  # type: ignore[call-overload]


def _ended(one: _Running) -> bool:
    for pid in one.pids:
        if pid not in one.codes:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                one.codes[pid] = os.waitstatus_to_exitcode(status)
    if len(one.codes) == len(one.pids):
        return True
    elapsed = time.monotonic() - one.started
    left = [pid for pid in one.pids if pid not in one.codes]
    for at, number in one.case.signals[one.sent :]:
        if elapsed >= at:
            one.sent += 1
            for pid in left:
                os.kill(pid, number)
    if elapsed > one.case.seconds and not one.late:
        one.late = True
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
    return False


def _judge(one: _Running) -> Outcome:
    case, outcome = one.case, Outcome(one.case, seconds=time.monotonic() - one.started)
    wrong = outcome.wrong
    if one.late:
        wrong.append(f"took more than {case.seconds:g} s")
    wrong += _leftovers(one)
    texts = [[_text(one.folder / f"{name}{n}") for n in range(case.times)] for name in ("stdout", "stderr")]
    outcome.stdout, outcome.stderr = ("\n".join(parts) for parts in texts)
    if not one.late:
        for pid, out, err in zip(one.pids, *texts, strict=True):
            wrong += _judge_process(case, one.codes[pid], out, err)
    failed = case.exits == {DONE} or any(one.codes.values())
    if failed and case.says and not re.search(case.says, outcome.stderr) and 2 not in case.stdio:
        wrong.append(f"stderr says nothing of /{case.says}/")
    if case.prints and not re.search(case.prints, outcome.stdout):
        wrong.append(f"stdout says nothing of /{case.prints}/")
    wrong += _changes(case, one.before, _listing(one.folder))
    if case.check:
        found = case.check(one.folder / "work")
        wrong += [found] if found else []
    one.stack.close()
    return outcome


def _judge_process(case: Case, code: int, out: str, err: str) -> list[str]:
    wrong = []
    if code < 0 and 128 - code not in case.exits:
        wrong.append(f"killed by {signal.Signals(-code).name}")
    elif code not in case.exits and 128 - code not in case.exits:
        wrong.append(f"exit {code}, not {' or '.join(map(str, sorted(case.exits)))}")
    text = out + err
    internals = _INTERNALS.search(text)
    if internals:
        wrong.append(f"shows internals: {internals.group()}")
    if case.never and (found := re.search(case.never, text)):
        wrong.append(f"says {found.group()!r}")
    if err.count("\n") > case.lines:
        wrong.append(f"{err.count(chr(10))} lines of stderr")
    explains = not case.code and not case.terse and 2 not in case.stdio
    if explains and DONE < code < 128 and not re.search(r"^(error|Error|aborted)\b", err, re.MULTILINE):
        wrong.append("no line of stderr begins with 'error:'")
    if "--json" in case.argv and out.strip() and 1 not in case.stdio:
        try:
            json.loads(out, parse_constant=_refuse)
        except ValueError as problem:
            wrong.append(f"stdout is no JSON document: {problem}")
    return wrong


def _refuse(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads and others do not."""
    raise ValueError(f"{name} is no JSON")


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _leftovers(one: _Running) -> list[str]:
    """Return processes of the case that did not end with it; end them."""
    deadline = time.monotonic() + (0 if one.late else 3)
    while True:
        left = _processes(one)
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [] if one.late or not left else [f"left {len(left)} processes: {', '.join(left.values())}"]


def _processes(one: _Running) -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            name, rest = re.search(rb"\((.*)\) (.*)", (entry / "stat").read_bytes(), re.DOTALL).groups()  # type: ignore[union-attr]
            fields = rest.split()
            if fields[0] == b"Z":
                continue
            mark = f"{_MARK}={one.folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(fields[3]) in one.pids or mark:
            found[int(entry.name)] = name.decode(errors="replace")
    return found


def _listing(folder: Path) -> dict[str, str]:
    """Return what lies in the folder of a case: path → type, mode and a hash of the content."""
    result = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(top, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            text = f"{stat.S_IFMT(status.st_mode):o} {stat.S_IMODE(status.st_mode):o}"
            if stat.S_ISLNK(status.st_mode):
                text += f" to {os.readlink(path)!r}"  # noqa: PTH115
            elif stat.S_ISREG(status.st_mode) and status.st_size < 1 << 28:
                with contextlib.suppress(OSError):
                    text += f" {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
            result[os.fsencode(path.relative_to(folder)).decode(errors="backslashreplace")] = text
    return {key: text for key, text in result.items() if not re.fullmatch(r"std(out|err)\d+", key)}


def _changes(case: Case, before: dict[str, str], after: dict[str, str]) -> list[str]:
    allowed = [os.path.normpath(f"work/{pattern}") for pattern in case.writes]
    wrong = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path) or any(fnmatch.fnmatchcase(path, glob) for glob in allowed):
            continue
        what = "lost" if path not in after else "changed" if path in before else "left"
        wrong.append(f"{what} {path!r}")
    return wrong if len(wrong) < 6 else [*wrong[:5], f"… and {len(wrong) - 5} more"]
