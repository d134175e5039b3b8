# SPDX-License-Identifier: Apache-2.0
"""llvm-mca: finds an installed version that is new enough, and gets cycles of blocks from it, with a cache."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import EnvError

# The first release for whose Arm models the corrections in mca_text were checked.
OLDEST_LLVM = 19
_ANSWER_SECONDS = 10  # a generous limit: llvm-mca answers `--version` in milliseconds
INSTALL_COMMAND = f"apt-get install llvm-{OLDEST_LLVM}"
# Enough for a steady state: filling and draining the pipeline, about 7 cycles, adds 0.07 per execution.
ITERATIONS = 100
# Debian and Ubuntu have versioned names on PATH, and the tools of each release in llvm-N below this folder.
_LLVM_ROOT = Path("/usr/lib")
# Blocks per llvm-mca process: few enough for small JSON, and enough to make the start-up negligible.
_BLOCKS_PER_RUN = 500


@dataclass(frozen=True)
class BlockCycles:
    """llvm-mca's estimate for a block that repeats.

    Attributes:
        cycles: Cycles per execution of the block.
        unmodelled: Lines that the model has no data for and that were left out.
    """

    cycles: float
    unmodelled: int


@dataclass(frozen=True)
class Mca:
    """An installed llvm-mca.

    Attributes:
        path: Path of the program.
        version: Version of its LLVM, such as "19.1.7".
        keep: Whether answers are kept in the cache folder. Not for thousands of kernels that are asked about once:
            reading so many kept answers takes longer than asking.
    """

    path: Path
    version: str
    keep: bool = True

    def estimate(self, blocks: Sequence[tuple[str, ...]], cpu: str) -> list[BlockCycles]:
        """Return the cycles of each block, as if it repeated and all loads hit L1.

        Args:
            blocks: Each block as lines of assembly.
            cpu: The scheduling model (-mcpu).

        Raises:
            EnvError: llvm-mca failed, as for a cpu it does not know.
        """
        keys = [hashlib.sha256("\n".join(block).encode()).hexdigest() for block in blocks]
        # The key includes the corrected text, so that a changed correction does not find old results.
        store = cache_folder() / "mca" / f"{self.version}-{cpu}-{ITERATIONS}.json"
        known = _read(store) if self.keep else {}
        missing = {key: block for key, block in zip(keys, blocks, strict=True) if key not in known}
        for batch in _batches(missing):
            known.update(self._run(batch, cpu))
        if missing and self.keep:
            _write(store, known)
        return [BlockCycles(*known[key]) for key in keys]

    def _run(self, blocks: Mapping[str, tuple[str, ...]], cpu: str) -> dict[str, tuple[float, int]]:
        lines: list[str] = []
        for key, block in blocks.items():
            lines += [f"# LLVM-MCA-BEGIN {key}", *block, f"# LLVM-MCA-END {key}"]
        command = [str(self.path), "-mtriple=aarch64", f"-mcpu={cpu}", "-mattr=+all", "-json"]
        # llvm-mca skips an unmodelled instruction (casal, dmb) in a block; such instructions are counted here.
        command += [
            f"-iterations={ITERATIONS}",
            "-skip-unsupported-instructions=any",
            "-resource-pressure=false",
        ]
        command += ["-instruction-info=false"]
        done = subprocess.run(
            command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
        )
        if done.returncode or "not a recognized processor" in done.stderr:
            first = (done.stderr.strip() or "no message").splitlines()[0]
            raise EnvError(f"{self.path} -mcpu={cpu} failed: {first}; install another: {INSTALL_COMMAND}")
        # A block without any modelled instruction has no region in the answer.
        found = {key: (0.0, len(block)) for key, block in blocks.items()}
        for region in json.loads(done.stdout)["CodeRegions"]:
            cycles = region["SummaryView"]["TotalCycles"] / region["SummaryView"]["Iterations"]
            key = region["Name"]
            found[key] = (cycles, len(blocks[key]) - len(region["Instructions"]))
        return found


def find_mca() -> Mca:
    """Return the oldest installed llvm-mca that is new enough, so that estimates stay comparable.

    Raises:
        EnvError: No llvm-mca of LLVM 19 or newer is installed.
    """
    found = [mca for path in sorted(set(_candidates())) if (mca := _identify(path))]
    usable = [mca for mca in found if _major(mca) >= OLDEST_LLVM]
    if not usable:
        seen = f"only {', '.join(f'{mca.path} {mca.version}' for mca in found)}" if found else "none"
        raise EnvError(
            f"cycle estimates need llvm-mca {OLDEST_LLVM} or newer ({seen} found): {INSTALL_COMMAND}"
        )
    return min(usable, key=_major)


def _major(mca: Mca) -> int:
    return int(mca.version.partition(".")[0])


def _candidates() -> Iterator[Path]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield from Path(folder).glob("llvm-mca*")
    yield from _LLVM_ROOT.glob("llvm-*/bin/llvm-mca")


def _identify(path: Path) -> Mca | None:
    if not shutil.which(path):
        return None
    try:
        version = re.search(r"LLVM version (\d+\.\d+\.\d+)", output_of(path, "--version"))
    except OSError:
        return None
    return Mca(path.resolve(), version[1]) if version else None


def output_of(*command: str | Path) -> str:
    """Return the output of a command such as `--version`.

    Raises:
        OSError: The command cannot be started, or does not end in time (TimeoutError).
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"no answer within {_ANSWER_SECONDS} s") from error
    return done.stdout


def _batches(blocks: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, tuple[str, ...]]]:
    items = list(blocks.items())
    for start in range(0, len(items), _BLOCKS_PER_RUN):
        yield dict(items[start : start + _BLOCKS_PER_RUN])


def _read(store: Path) -> dict[str, tuple[float, int]]:
    try:
        entries = json.loads(store.read_text(encoding="utf-8"))
        return {key: (float(cycles), int(unmodelled)) for key, (cycles, unmodelled) in entries.items()}
    except (
        OSError,
        ValueError,
        TypeError,
        AttributeError,
    ):  # missing or damaged: the entry is computed again
        return {}


def _write(store: Path, entries: Mapping[str, tuple[float, int]]) -> None:
    # Write and rename: a concurrent reader sees either the old or the new file, never a part of one.
    store.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=store.parent, delete=False) as file:
        json.dump(entries, file)
    Path(file.name).replace(store)
