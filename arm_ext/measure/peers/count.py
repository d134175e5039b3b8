# SPDX-License-Identifier: Apache-2.0
"""Instruction counts of one inference of another runtime on the emulator."""

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from arm_ext.board.info import PARTS
from arm_ext.board.virtual import counting_to, emulator
from arm_ext.common.errors import ModelError
from arm_ext.common.trace import Images, TraceDump, TranslationBlock
from arm_ext.measure.peers import guest
from arm_ext.measure.peers.catalog import Peer
from arm_ext.measure.peers.downloads import debian_root, python_version, wheels
from arm_ext.native.build import qemu_plugin

# numpy's libraries start no threads: the plugin's counters of one thread are not atomic. Written bytecode would count
# as damage of the cached folder, which would then be downloaded again.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}

_CPUINFO = """\
processor\t: {processor}
Features\t: fp asimd
CPU implementer\t: {implementer:#x}
CPU architecture: 8
CPU variant\t: {variant:#x}
CPU part\t: {part:#x}
CPU revision\t: 0
"""
# XNNPACK's cpuinfo treats revision r0 of the Cortex-A55 as a core without dotprod; r2 is in the boards sold.
_VARIANTS = {"cortex-a55": 2}
# The core that QEMU emulates for the family "generic-dotprod", and Apple's newest core with a known part number.
_STAND_INS = {"generic-dotprod": "cortex-a76", "apple-m3": "apple-m2", "apple-m4": "apple-m2"}

Part = Literal["inference", "start"]
"""Part of a peer's work that is counted: one warm inference, or all from opening the model to its first outputs."""


@dataclass(frozen=True)
class PeerRun:
    """The counts and outputs of an inference.

    Attributes:
        blocks: All executed blocks, each named by its library.
        misses: Lines that L1 and L2 had to fetch; None if no caches were modelled.
        outputs: Outputs in the model's order.
        library_bytes: Size of the files of the peer's wheel that were loaded.
        elapsed: As of a `Trace`, on several threads.
    """

    blocks: tuple[TranslationBlock, ...]
    misses: tuple[int, int] | None
    outputs: list[npt.NDArray[Any]]
    library_bytes: int
    elapsed: int | None = None


@dataclass(frozen=True)
class Guest:
    """An arm64 Python with one peer's wheels."""

    peer: Peer
    root: Path
    site: Path

    def count(
        self,
        model: Path,
        inputs: Sequence[npt.NDArray[Any]],
        *,
        cpu: str,
        core: str,
        part: Part = "inference",
        caches: tuple[int, int] | None = None,
        threads: int = 1,
    ) -> PeerRun:
        """Count the instructions of an inference in a peer.

        Args:
            model: File of the peer's format.
            inputs: Inputs in the model's order.
            cpu: QEMU's -cpu.
            core: Core of `schedules.cores.CORES`, which the peer takes the machine for.
            part: Part of the work that is counted.
            caches: Bytes of an L1 and L2 whose misses in an inference are counted, too, on one thread.
            threads: Threads of the peer, as many as the machine has processors.

        Raises:
            ModelError: The peer refuses the model, or crashes.
            EnvError: QEMU is missing or has no plugins.
        """
        with tempfile.TemporaryDirectory(prefix="arm-ext-peer-") as scratch:
            work = Path(scratch)
            arrays: dict[str, Any] = {str(k): value for k, value in enumerate(inputs)}
            np.savez(work / "inputs.npz", **arrays)
            view = guest_view(self.root, work, core, threads)
            plugin = counting_to(qemu_plugin(), work / "dump", caches, by_thread=threads > 1)
            emulated = ["-cpu", cpu, "-L", str(view), "-plugin", plugin]
            self._run(emulated, [str(model.absolute()), str(work), part, str(threads)])
            with np.load(work / "outputs.npz") as held:
                outputs = [held[str(k)] for k in range(len(held))]
            maps = (work / "maps").read_text(encoding="utf-8")
            dump = TraceDump.read(work / "dump")
            return PeerRun(_blocks(dump, maps), dump.misses, outputs, self._library_bytes(maps), dump.elapsed)

    def _run(self, emulated: Sequence[str], arguments: Sequence[str]) -> None:
        qemu, _ = emulator()
        python = self.root / "usr/bin" / f"python{python_version(self.root)}"
        command = [qemu, *emulated, str(python), "-sP", guest.__file__, self.peer.name, *arguments]
        env = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": str(self.site)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
            raise ModelError(f"{self.peer.name} {self.peer.version} cannot run it: {last}")

    def _library_bytes(self, maps: str) -> int:
        package = self.site / self.peer.package
        files = {
            Path(fields[5].strip())
            for line in maps.splitlines()
            if len(fields := line.split(maxsplit=5)) == 6
        }
        return sum(file.stat().st_size for file in files if file.is_relative_to(package))


def guest_view(root: Path, work: Path, core: str, processors: int) -> Path:
    """Create the folder in which the emulator first looks up the guest's paths, with a /proc/cpuinfo."""
    view = work / "root"
    (view / "proc").mkdir(parents=True)
    cores = "\n".join(_cpuinfo(core, processor) for processor in range(processors))
    (view / "proc/cpuinfo").write_text(cores, encoding="utf-8")
    for part in ("lib", "usr", "etc"):
        (view / part).symlink_to(root / part)
    return view


def _cpuinfo(core: str, processor: int) -> str:
    """Return an entry of /proc/cpuinfo for a core of `schedules.cores.CORES`, by which a peer selects its kernels.

    qemu-user shows the host's. onnxruntime crashes at import on one without Arm's fields, and XNNPACK has kernels of
    its own for single cores. What instructions there are both ask the emulator (AT_HWCAP).
    """
    name = _STAND_INS.get(core, core)
    implementer, part = next(number for number, known in PARTS.items() if known == name)
    variant = _VARIANTS.get(name, 0)
    return _CPUINFO.format(processor=processor, implementer=implementer, variant=variant, part=part)


def fetch(peer: Peer) -> Guest:
    """Prepare a runtime for counting; the first time, its wheel and Python are downloaded.

    Raises:
        EnvError: The wheel or Python cannot be downloaded.
    """
    root = debian_root()
    return Guest(peer, root, wheels(peer, python_version(root)))


def _blocks(dump: TraceDump, maps: str) -> tuple[TranslationBlock, ...]:
    images = Images(maps)
    counts: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for line in dump.blocks:
        counts[line.vaddr, line.words] += line.count
    return tuple(
        TranslationBlock(vaddr, count, words, image := images.at(vaddr), image)
        for (vaddr, words), count in counts.items()
    )
