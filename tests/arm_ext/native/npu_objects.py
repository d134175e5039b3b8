# SPDX-License-Identifier: Apache-2.0
"""What the device of a test has to do with: descriptors, buffers and jobs."""

import errno
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from arm_ext.ethosu.model.interpreter import step
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.stream import CommandStream, steps
from arm_ext.ethosu.payload import MemoryArea, Payload
from arm_ext.target.npu import Accelerator
from tests.arm_ext.native.npu_driver_check import Check

SRAM = 2  # the region that is the device's own memory


@dataclass
class Fault:
    """An error that a request gives, from its `after`-th call on, `times` times."""

    error: int
    after: int = 0
    times: int = 1 << 30


@dataclass
class Buffer:
    size: int
    path: Path | None = None  # none: a command stream
    stream: CommandStream | None = None
    check: Check | None = None
    job: "Job | None" = None  # the last one that writes it

    def free(self) -> None:
        if self.path is not None:
            self.path.unlink()


@dataclass
class Job:
    done: threading.Event = field(default_factory=threading.Event)
    error: int = 0


@dataclass
class Connection:
    """A descriptor: of the device with its handles, or of a buffer (prime) or job (sync file)."""

    handles: dict[int, Buffer] = field(default_factory=dict)
    shared: Buffer | None = None
    job: Job | None = None


def misplaced(sizes: list[int], handles: list[int], buffers: dict[int, Buffer], sram: int) -> int:
    """What is wrong with a job's buffers: there must be one for each region that is used, and for no other."""
    for region, size in enumerate(sizes):
        if not handles[region]:
            if size and region == SRAM and size > sram:
                return errno.EINVAL
            if size and region != SRAM:
                return errno.ENOENT
        elif not size:
            return errno.EINVAL
        elif region not in buffers:
            return errno.ENOENT
        elif buffers[region].stream is not None:
            return errno.EINVAL
        elif size > buffers[region].size:
            return errno.EOVERFLOW
    return 0


def execute(npu: Accelerator, stream: CommandStream, sram: int, buffers: dict[int, Buffer]) -> None:
    """Runs a job on the functional model."""
    regions = [MemoryArea(i, "scratch", b.size) for i, b in buffers.items()]
    regions += [MemoryArea(SRAM, "fast", sram)] if sram else []
    machine = Machine(Payload(npu.name, stream.config, stream.arch, tuple(regions), (), (), b"", b""))
    for i, buffer in buffers.items():
        assert buffer.path is not None
        machine.memory.writable(i, 0, buffer.size)[...] = np.fromfile(buffer.path, np.uint8)
    for command in steps(stream, npu.family):
        step(machine, command)
    for i, buffer in buffers.items():
        assert buffer.path is not None
        with buffer.path.open("r+b") as file:
            file.write(machine.memory.area(i, 0, buffer.size).tobytes())
