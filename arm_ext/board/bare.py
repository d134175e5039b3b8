# SPDX-License-Identifier: Apache-2.0
"""Emulated microcontroller boards: C libraries of Cortex-M under qemu-system-arm.

A program of start-up code, the library and a loop over inputs is linked for the board. It reads the inputs from a file
and writes the outputs to another, by Arm's semihosting calls. The emulator is confined to a folder of its own, since
these calls reach files of the machine that it runs on.
"""

import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from arm_ext.board.bare_npu import ModelledNpu, ModelledRegion, NpuEvent
from arm_ext.board.confine import confined
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.scratch import temporary
from arm_ext.native.build import NATIVE, bare_count_plugin
from arm_ext.target.profiles import Profile
from arm_ext.target.toolchain import Driver

Array = npt.NDArray[Any]

QEMU = "qemu-system-arm"
APT = "sudo apt-get install qemu-system-arm"
_SECONDS = 600
_ALIGNED = 16  # bytes; kAligned of bare_run.c
_MARK = "counting_mark"
_SYSTEM = ("/etc", "/lib", "/lib64", "/proc", "/sys", "/usr", "/dev/null", "/dev/urandom")


@dataclass(frozen=True)
class Machine:
    """A board that QEMU emulates.

    Attributes:
        name: QEMU's name for -machine.
        core: The core of the board.
        code: Start and size in bytes of the memory of code and constants.
        data: The same of the memory of the arena, inputs, outputs and stack.
    """

    name: str
    core: str
    code: tuple[int, int]
    data: tuple[int, int]


_MATH_NAMES = "ceil cos exp exp2 floor fmax fmin fmod log log10 log2 round sin sqrt tan trunc"
MATH = frozenset(f"{name}{suffix}" for name in _MATH_NAMES.split() for suffix in ("", "f")) | {"fmaf"}
"""The functions of libm that the pinned compiler's routines have. fmaf is called where there is no FPU alone."""

_MIB = 1 << 20
# Memories of hw/arm/mps2.c and hw/arm/mps2-tz.c of QEMU 7.2 (Application Notes 385, 386, 500, 505 and 547).
MACHINES = {
    each.name: each
    for each in (
        Machine("mps2-an385", "cortex-m3", (0x0, 4 * _MIB), (0x21000000, 16 * _MIB)),
        Machine("mps2-an386", "cortex-m4", (0x0, 4 * _MIB), (0x21000000, 16 * _MIB)),
        Machine("mps2-an500", "cortex-m7", (0x0, 4 * _MIB), (0x60000000, 16 * _MIB)),
        Machine("mps2-an505", "cortex-m33", (0x10000000, 4 * _MIB), (0x80000000, 16 * _MIB)),
        Machine("mps3-an547", "cortex-m55", (0x0, 512 << 10), (0x60000000, 64 * _MIB)),
    )
}
# The machines that run code for a core which QEMU 7.2 does not have, and why they can.
_STAND_INS = {
    "cortex-m0plus": ("mps2-an385", "a Cortex-M3 that traps unaligned accesses"),
    "cortex-m85": ("mps3-an547", "a Cortex-M55, which has the same instructions"),
}


def machine_for(core: str) -> tuple[Machine, str]:
    """Return the machine that runs code for a core, and what stands in for that core, or "".

    Args:
        core: Name of a Cortex-M of `schedules.cores.MICROCONTROLLERS`.
    """
    if core in _STAND_INS:
        name, reason = _STAND_INS[core]
        return MACHINES[name], reason
    return next(each for each in MACHINES.values() if each.core == core), ""


@dataclass(frozen=True)
class BareModel:
    """A model in a C library.

    Attributes:
        folder: The library's folder.
        archive: Name of the library, whose file is lib….a.
        prefix: What the names of the model's functions begin with.
        profile: The target that it was compiled for.
        inputs: Shape and dtype of each input, without the states if `steps`.
        outputs: The same of each output.
        steps: Whether runs are steps of a model with states.
        npu: The library's regions for an NPU.
        on_cpu: Whether there is no NPU.
        math: The functions of libm that the library calls.
    """

    folder: Path
    archive: str
    prefix: str
    profile: Profile
    inputs: Sequence[tuple[tuple[int, ...], str]]
    outputs: Sequence[tuple[tuple[int, ...], str]]
    steps: bool = False
    npu: Sequence[ModelledRegion] = ()
    on_cpu: bool = False
    math: Sequence[str] = ()


@dataclass(frozen=True)
class BareResult:
    """The outcome of runs on an emulated microcontroller.

    Attributes:
        outputs: The outputs of each run.
        statuses: What the library's function returned for each run.
        stack_bytes: Largest stack that a run took, found by painting.
        counts: If they were counted: function → retired instructions in each run.
        npu: What the NPU was asked for, in that order.
    """

    outputs: list[list[Array]]
    statuses: list[int]
    stack_bytes: int
    counts: list[dict[str, int]]
    npu: Sequence[NpuEvent] = ()

    @property
    def instructions(self) -> list[int]:
        """Retired instructions of each run."""
        return [sum(each.values()) for each in self.counts]


class BareBoard:
    """An emulated microcontroller with one model. Each run is a process of QEMU, which ends with the run."""

    def __init__(self, model: BareModel) -> None:
        """Link the program.

        Raises:
            EnvError: QEMU is missing, or the program cannot be linked.
            UsageError: The model does not fit the board's memory.
        """
        self.model = model
        self.machine, self.stands_in = machine_for(model.profile.core.name)
        self._qemu = shutil.which(QEMU)
        if self._qemu is None:
            raise EnvError(f"boards with a Cortex-M are emulated by {QEMU}, which is not on PATH; run: {APT}")
        with temporary() as folder:
            self._program = _linked(model, self.machine, folder).read_bytes()

    def run(
        self, inputs: Sequence[Sequence[Array]], *, count: bool = False, faults: Collection[int] = ()
    ) -> BareResult:
        """Run the model on some inputs, one set after the other.

        Args:
            inputs: For each run, the inputs in the model's order.
            count: Whether instructions are counted.
            faults: Numbers of invocations of the NPU, from 0 on, that fail.

        Raises:
            EnvError: The emulator failed, or did not end in time.
        """
        with temporary() as folder:
            program = folder / "program.elf"
            program.write_bytes(self._program)
            (folder / "inputs").write_bytes(b"".join(map(_request, inputs)))
            dump = folder / "counts"
            with ModelledNpu(folder, self.model.npu, faults) as npu:
                self._emulate(folder, program, dump if count else None)
            counts = _read_counts(dump.read_text(encoding="ascii"), program) if count else []
            return self._result(folder, len(inputs), counts, npu.trace)

    def _emulate(self, folder: Path, program: Path, dump: Path | None) -> None:
        line = [str(self._qemu), "-M", self.machine.name, "-nographic", "-monitor", "none", "-serial", "none"]
        line += ["-semihosting-config", "enable=on,target=native", "-kernel", str(program)]
        native = []
        if dump is not None:
            plugin = bare_count_plugin()
            native = [plugin.parent]
            line += ["-plugin", f"{plugin},mark={_symbols(program)[_MARK]:#x},out={dump}"]
        real = Path(str(self._qemu)).resolve()
        read = [*map(Path, _SYSTEM), real, *native]
        command = confined(line, read=read, write=[folder, Path("/dev/null")], tracker_port=0)
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EnvError(
                f"the model did not end in {_SECONDS} s on the emulated {self.machine.name}"
            ) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise EnvError(
                f"the program of {self.model.prefix} failed on the emulated {self.machine.name}: "
                f"{said or f'exit status {done.returncode}'}"
            )

    def _result(
        self, folder: Path, runs: int, counts: list[dict[str, int]], npu: Sequence[NpuEvent]
    ) -> BareResult:
        data = (folder / "outputs").read_bytes()
        outputs, statuses, at = [], [], 0
        for _ in range(runs):
            statuses.append(int(np.frombuffer(data, "<i4", 1, at)[0]))
            at, arrays = at + 4, []
            for shape, dtype in self.model.outputs:
                array = np.frombuffer(data, dtype, int(np.prod(shape, dtype=np.int64)), at)
                arrays.append(array.reshape(shape))
                at += array.nbytes
            outputs.append(arrays)
        return BareResult(outputs, statuses, int(np.frombuffer(data, "<u4", 1, at)[0]), counts, npu)


def _request(arrays: Sequence[Array]) -> bytes:
    return b"\1\0\0\0" + b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def _linked(model: BareModel, machine: Machine, folder: Path) -> Path:
    """Link the program that runs a model on a machine."""
    (code, code_bytes), (data, data_bytes) = machine.code, machine.data
    script = (NATIVE / "bare_link.ld").read_text(encoding="utf-8")
    memory = (
        f"MEMORY {{ CODE (rx) : ORIGIN = {code:#x}, LENGTH = {code_bytes:#x}\n"
        f"DATA (rw) : ORIGIN = {data:#x}, LENGTH = {data_bytes:#x} }}\n"
    )
    (folder / "link.ld").write_text(memory + script, encoding="utf-8")
    sizes = {"INPUT_BYTES": _padded_bytes(model.inputs), "OUTPUT_BYTES": _padded_bytes(model.outputs)}
    known = {
        **sizes,
        "HEADER": f'"{model.prefix}.h"',
        "PREFIX": model.prefix,
        "UPPER": model.prefix.upper(),
        "STEPS": int(model.steps),
        "NPU": (2 if model.on_cpu else 1) if model.npu else 0,
        "NPU_HEADER": f'"{model.prefix}_npu_ethosu.h"',
    }
    has_wraps = model.profile.core.isa.has_fpu and bool(model.math)
    parts = ["start", "run", *(["npu"] if model.npu else []), *(["math"] if has_wraps else [])]
    wraps = [f"-Wl,--wrap={name}" for name in model.math if has_wraps]
    more = ["-DBARE_TRAPS_UNALIGNED"] if model.profile.core.name == "cortex-m0plus" else []
    driver = Driver.of(model.profile)
    try:
        driver.run(
            [
                *(
                    "-std=gnu11",
                    "-O2",
                    "-g0",
                    "-ffreestanding",
                    "-nostdlib",
                    "-fno-pic",
                    "-ffunction-sections",
                    f"-I{NATIVE}",
                ),
                *(f"-DBARE_{name}={value}" for name, value in known.items()),
                *more,
                f"-I{model.folder / 'include'}",
                *(NATIVE / f"bare_{name}.c" for name in parts),
                model.folder / f"lib{model.archive}.a",
                "-lcompiler_rt",
                *wraps,
                *("-Wl,--gc-sections", "-Wl,-T,link.ld", "-o", "program.elf"),
            ],
            folder,
        )
    except EnvError as error:
        if "does not fit" in str(error) or "will not fit" in str(error):
            raise UsageError(
                f"{model.folder}: the model does not fit the memory of the emulated {machine.name}: "
                f"{code_bytes >> 10:,} KiB of code and constants, {data_bytes >> 10:,} KiB of data"
            ) from error
        raise
    return folder / "program.elf"


def _padded_bytes(tensors: Sequence[tuple[tuple[int, ...], str]]) -> int:
    sizes = [int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize for shape, dtype in tensors]
    return sum(-(-size // _ALIGNED) * _ALIGNED for size in sizes)


def _symbols(program: Path) -> dict[str, int]:
    with program.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
        return {str(s.name): s.entry.st_value & ~1 for s in symbols if s.entry.st_info.type == "STT_FUNC"}


def _read_counts(text: str, program: Path) -> list[dict[str, int]]:
    """Return, for each section of the plugin's file, function → instructions."""
    starts = sorted((address, name) for name, address in _symbols(program).items())
    addresses = np.array([address for address, _ in starts])
    sections: list[dict[str, int]] = []
    current: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            sections.append(current)
            current = {}
            continue
        address, size, count = line.split()
        at = int(np.searchsorted(addresses, int(address, 16), "right")) - 1
        name = starts[at][1] if at >= 0 else "no function"
        current[name] = current.get(name, 0) + int(size) * int(count)
    return sections
