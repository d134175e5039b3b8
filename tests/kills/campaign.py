# SPDX-License-Identifier: Apache-2.0
"""Commands that are killed at random moments as they write, and what must be so afterwards.

Each command runs in a world of its own: a folder with its inputs, files of the user's, and mostly what an earlier
run of it wrote. After the kill each file is as it was or as the command leaves it; after the next run nothing else is
there.
"""

import hashlib
import json
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import onnx

from arm_ext.api import digits
from arm_ext.common.cache import cache_folder
from arm_ext.tune.database import Database
from tests.arm_ext.models import mlp
from tests.arm_ext.tune.standins import record, tasks
from tests.kills.nursery import Nursery

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
_SECONDS = 300

Snapshot = dict[str, str]


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        name: What the table calls it.
        arguments: Of arm-ext.
        earlier: Those of the run before, if there was one, or what prepares the world.
        grows: Files that are only ever added to.
        varies: A JSON document whose numbers differ from run to run.
        repeats: Whether the same command leaves the same bytes, but for that document.
        cold: Whether it starts each time with an empty cache of kernels and self-tests.
        codes: Exit codes after a signal besides those of its number.
    """

    name: str
    arguments: tuple[str, ...]
    earlier: tuple[tuple[str, ...], ...] = ()
    prepare: Callable[[Path], None] = lambda _: None
    grows: str = ""
    varies: str = ""
    repeats: bool = True
    cold: bool = False
    codes: tuple[int, ...] = (0,)


_HOST = ("--target", "host")


def _databases(world: Path) -> None:
    for name, costs in (("db", (1.0, 2.0, 3.0)), ("other", (4.0, 5.0))):
        of_tasks = [record(task, cost=cost) for task in tasks() for cost in costs]
        Database(world / name, create=True).append(of_tasks)
        (world / name / "notes.jsonl").write_text('{"mine": 1}\n')


def _beside(world: Path) -> None:
    (world / "p" / "sub").mkdir()
    (world / "p" / "sub" / "notes.txt").write_text("the user's")


def _options(world: Path) -> None:
    (world / "user" / "options.yaml").write_text("target: host\n")


CASES = (
    Case("compile, nothing there", ("compile", "m.onnx", *_HOST, "-o", "p")),
    Case("compile, nothing cached", ("compile", "m.onnx", *_HOST, "-o", "p"), cold=True),
    Case(
        "compile over a package",
        ("compile", "m.onnx", *_HOST, "-o", "p"),
        (("compile", "other.onnx", *_HOST, "-o", "p"),),
    ),
    Case(
        "compile --force beside a user's file",
        ("compile", "m.onnx", *_HOST, "-o", "p", "--force"),
        (("compile", "other.onnx", *_HOST, "-o", "p"),),
        _beside,
    ),
    Case(
        "compile --dump-phases",
        ("compile", "m.onnx", *_HOST, "-o", "p", "--dump-phases", "user"),
        (("compile", "other.onnx", *_HOST, "-o", "p", "--dump-phases", "user"),),
    ),
    Case(
        "compile --save-node",
        ("compile", "m.onnx", "--save-node", "fc2", "-o", "node.onnx"),
        (("compile", "m.onnx", "--save-node", "fc1/bias", "-o", "node.onnx"),),
    ),
    Case(
        "run --output",
        ("run", "p", "--board", "local", "--input", "x=x.npy", "--output", "user"),
        (("compile", "m.onnx", *_HOST, "-o", "p"), ("run", "p", "--board", "local", "--output", "user")),
    ),
    Case(
        "export-payload",
        ("export-payload", "npu", "-o", "user"),
        (
            ("compile", "int8.onnx", "--npu", "ethos-u65-256", "--npu-ops", "conv2d", "-o", "npu"),
            ("export-payload", "npu", "-o", "user"),
        ),
    ),
    Case(
        "quantize",
        ("quantize", "m.onnx", "--data", "x.npz", "-o", "user/q.onnx"),
        (("quantize", "other.onnx", "--data", "x.npz", "-o", "user/q.onnx"),),
    ),
    Case(
        "accuracy",
        ("accuracy", "q.onnx", "--against", "m.onnx", "--data", "x.npz", "-o", "user/accuracy.json"),
        (
            ("quantize", "m.onnx", "--data", "x.npz", "-o", "q.onnx"),
            ("accuracy", "q.onnx", "--against", "other.onnx", "--data", "x.npz", "-o", "user/accuracy.json"),
        ),
        varies="user/accuracy.json",  # of the samples that it had
    ),
    Case(
        "profile",
        ("profile", "p", "--board", "local", "-o", "user/profile.json"),
        (
            ("compile", "m.onnx", *_HOST, "-o", "p"),
            ("profile", "p", "--board", "local", "-o", "user/profile.json"),
        ),
        varies="user/profile.json",
    ),
    Case(
        "advise --apply",
        ("advise", "m.onnx", *_HOST, "--board", "local", "--apply", "user/options.yaml"),
        prepare=_options,
    ),
    Case("db merge", ("db", "merge", "other", "-o", "db"), prepare=_databases, grows="db"),
    Case("db prune", ("db", "prune", "db", "--keep", "1"), prepare=_databases),
    Case(
        "tune",
        ("tune", "m.onnx", *_HOST, "--board", "local", "--db", "db", "--trials", "3", "--jobs", "1"),
        prepare=_databases,
        grows="db",
        repeats=False,
        codes=(0, 3),  # it ends its search and tells what it has, which may be nothing
    ),
)


@dataclass
class Outcome:
    """What became of a command that was killed at some moments.

    Attributes:
        case: The command.
        seconds: How long it took last, without a kill.
        kills: Signal → how often it met the command at work.
        finished: How often the command had ended before.
        faults: What must not be.
    """

    case: str
    seconds: float
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys((s.name for s in SIGNALS), 0))
    finished: int = 0
    faults: list[str] = field(default_factory=list)


class Campaign:
    """Kills commands in a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Makes what all worlds begin with."""
        self._folder, self._random = folder, random.Random(seed)
        self._start = folder / "start"
        (self._start / "user").mkdir(parents=True)
        (self._start / "user" / "notes.txt").write_text("the user's")
        (self._start / "manifest.json").write_text("{}")
        onnx.save(mlp(), self._start / "m.onnx")
        shutil.copy(digits.model_path("int8"), self._start / "int8.onnx")
        other = mlp()
        other.graph.initializer[0].CopyFrom(
            onnx.numpy_helper.from_array(
                onnx.numpy_helper.to_array(other.graph.initializer[0]) * 2, other.graph.initializer[0].name
            )
        )
        onnx.save(other, self._start / "other.onnx")
        np.save(self._start / "x.npy", np.ones((2, 31), np.float32))
        samples = np.random.default_rng(0).standard_normal((16, 2, 31), dtype=np.float32)
        np.savez(self._start / "x.npz", x=samples)

    def run(self, case: Case, moments: int, tell: Callable[[str], None] = print) -> Outcome:
        """Kill one command at some moments, by each signal in turn, and tell of each fault as it is found."""
        home = self._folder / case.name.replace(" ", "_")
        before, after, cache = home / "before", home / "after", home / "cache"
        (home / "tmp").mkdir(parents=True)
        shutil.copytree(self._start, before)
        with Nursery(home / "tmp", home / "log", cache if case.cold else cache_folder()) as nursery:
            for arguments in case.earlier:
                _finish(nursery, before, arguments)
            case.prepare(before)
            shutil.copytree(before, after)
            outcome = Outcome(case.name, _finish(nursery, after, case.arguments))
            for number in range(moments):
                if case.cold:
                    for part in ("kernels", "selftests"):
                        shutil.rmtree(cache / part)
                world = home / "world"
                shutil.copytree(before, world, symlinks=True)
                trial = _Trial(case, nursery, world, snapshot(before), snapshot(after), home / "tmp")
                kind = SIGNALS[number % len(SIGNALS)]
                faults = trial.run(kind, self._random.uniform(0, outcome.seconds), outcome)
                outcome.faults += faults
                for fault in faults:
                    tell(f"    {fault}")
                shutil.rmtree(world)
        return outcome


@dataclass(frozen=True)
class _Trial:
    case: Case
    nursery: Nursery
    world: Path
    before: Snapshot
    after: Snapshot
    tmp: Path

    def run(self, kind: signal.Signals, moment: float, outcome: Outcome) -> list[str]:
        """Kill it once, look, let it run, look again; count it, and return the faults."""
        process = self.nursery.start(self.world, self.case.arguments)
        sleep(moment)
        # A terminal sends these to all processes of a command.
        sent = process.kill(kind, group=kind in (signal.SIGINT, signal.SIGHUP))
        status = process.wait(_SECONDS)
        found = [*self._torn(), *(self._litter() if kind != signal.SIGKILL else ())]
        if sent:
            outcome.kills[kind.name] += 1
        else:
            outcome.finished += 1
        if kind != signal.SIGKILL and status not in (128 + kind, -kind, *self.case.codes):
            found.append(f"exit status {status}")
        outcome.seconds = _finish(self.nursery, self.world, self.case.arguments)
        found += [f"after the next run: {fault}" for fault in (*self._litter(), *self._left())]
        return [f"{kind.name} after {moment:.2f} s: {fault}" for fault in found]

    def _torn(self) -> Iterator[str]:
        """Files that are neither as before nor as after; those of a package all of one."""
        now = snapshot(self.world)
        for name, digest in self.before.items():
            if now.get(name) in (digest, self.after.get(name)) or self._grew(name) or self._varied(name):
                continue
            if not name.endswith(".arm-ext-files.json"):
                yield f"{name} is {'gone' if name not in now else 'torn'}"
        package = {name: digest for name, digest in now.items() if name.startswith("p/")}
        whole = [
            {name: digest for name, digest in state.items() if name.startswith("p/")}
            for state in (self.before, self.after)
        ]
        if package not in whole:
            yield "the package is neither the old nor the new one"

    def _grew(self, name: str) -> bool:
        path = self.world / name
        if not (self.case.grows and name.startswith(f"{self.case.grows}/") and path.is_file()):
            return False
        return path.read_bytes().startswith((self.world.parent / "before" / name).read_bytes())

    def _varied(self, name: str) -> bool:
        if name != self.case.varies:
            return False
        try:
            return isinstance(json.loads((self.world / name).read_bytes()), dict)
        except (OSError, ValueError):
            return False

    def _litter(self) -> Iterator[str]:
        yield from (f"{path.name} in TMPDIR" for path in self.tmp.iterdir())
        known = self.before.keys() | self.after.keys()
        yield from (f"{name} is left" for name in snapshot(self.world) if name not in known)

    def _left(self) -> Iterator[str]:
        """What differs from a run that was not killed."""
        if self.case.repeats:
            now = snapshot(self.world)
            differ = [
                name for name in now.keys() | self.after.keys() if now.get(name) != self.after.get(name)
            ]
            listed = (".arm-ext-files.json", *([".jsonl"] if self.case.grows else []))
            differ = [name for name in differ if name != self.case.varies and not name.endswith(listed)]
            yield from (f"{name} differs" for name in sorted(differ))


def _finish(nursery: Nursery, world: Path, arguments: Sequence[str]) -> float:
    """Run a command to its end, and return how long it takes."""
    began = monotonic()
    status = nursery.start(world, arguments).wait(_SECONDS)
    assert status == 0, f"{' '.join(arguments)}: exit status {status}\n{nursery.log()}"
    return monotonic() - began


def snapshot(folder: Path) -> Snapshot:
    """Return the hash of each file, and the name of each folder that is empty."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not any(path.iterdir()):
            found[name] = "a folder"
    return found
