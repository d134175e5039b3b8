# SPDX-License-Identifier: Apache-2.0
"""An NPU beside an emulated Cortex-M: a functional model that answers the driver's function of `bare_npu.c`."""

import os
import select
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Literal, TypeAlias

import numpy as np

REQUEST, ANSWER = "npu-request", "npu-answer"
"""Names of the pipes."""

NpuEvent: TypeAlias = tuple[Literal["clean", "invalidate", "run", "fault"], int]
"""What happened, and bytes of the memory, or the number of the region."""


@dataclass(frozen=True)
class ModelledRegion:
    """A region of a library, and the model that computes it.

    Attributes:
        commands: The commands that the driver is given.
        weights: Number of a memory → what it holds from the start.
        scratch: Number of the memory with inputs and outputs.
        compute: Returns the offset in the scratch and the bytes of each output, given the scratch.
    """

    commands: bytes
    weights: Mapping[int, bytes]
    scratch: int
    compute: Callable[[bytes], Sequence[tuple[int, bytes]]]

    def matches(self, commands: bytes, held: Mapping[int, bytes]) -> bool:
        """Whether the driver was given the region's commands, and its weights in their memories."""
        return self.commands == commands and all(held.get(n) == data for n, data in self.weights.items())


_END, _CLEAN, _INVALIDATE, _INVOKE = range(4)  # of bare_npu.c, and the end
_SECONDS = 0.2  # after which it is asked whether the program has ended
_OVERWRITTEN = 0x5A  # what the NPU leaves in memory that holds no output


class ModelledNpu:
    """Answers the program's invocations of the NPU; a context manager around a run of the program."""

    def __init__(self, folder: Path, regions: Sequence[ModelledRegion], faults: Collection[int] = ()) -> None:
        """Create the pipes.

        Args:
            folder: Folder of the pipes.
            regions: The regions by their numbers.
            faults: Numbers of invocations, from 0 on, that fail after the memory was overwritten.
        """
        self._regions, self._faults = regions, faults
        for name in (REQUEST, ANSWER):
            os.mkfifo(folder / name)
        # Open for both directions, so that no end waits for the other to be opened.
        self._request, self._answer = (os.open(folder / name, os.O_RDWR) for name in (REQUEST, ANSWER))
        self._thread = Thread(target=self._serve)
        self.trace: list[NpuEvent] = []
        self._error: BaseException | None = None
        self._invocations, self._ended = 0, False

    def __enter__(self) -> "ModelledNpu":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        os.write(self._request, bytes(4))
        self._thread.join()
        os.close(self._request)
        os.close(self._answer)
        if self._error is not None:
            raise self._error

    def _serve(self) -> None:
        with suppress(EOFError):
            while kind := self._words(1)[0]:
                if kind in (_CLEAN, _INVALIDATE):
                    _, size = self._words(2)
                    self.trace.append(("clean" if kind == _CLEAN else "invalidate", size))
                else:
                    self._invoked()

    def _invoked(self) -> None:
        """Answer an invocation; if the model cannot compute it, it fails, and the error is raised by `__exit__`."""
        command_bytes, count = self._words(2)
        memories = [self._words(2) for _ in range(count)]
        commands = self._bytes(command_bytes)
        held = {number: self._bytes(size) for number, (base, size) in enumerate(memories) if base}
        number = next((n for n, each in enumerate(self._regions) if each.matches(commands, held)), -1)
        region = self._regions[number]
        scratch = np.full(len(held.get(region.scratch, b"")), _OVERWRITTEN, np.uint8)
        fails = self._invocations in self._faults
        self._invocations += 1
        if number < 0:
            self._error, fails = ValueError("the driver was given no region's commands and weights"), True
        if not fails:
            try:
                for offset, data in region.compute(held[region.scratch]):
                    scratch[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
            except Exception as error:
                self._error, fails = error, True
        self.trace.append(("fault" if fails else "run", number))
        answer = np.array([-1 if fails else 0, region.scratch], "<i4")
        self._write(answer.tobytes() + scratch.tobytes())

    def _words(self, count: int) -> list[int]:
        return [int(word) for word in np.frombuffer(self._bytes(4 * count), "<u4")]

    def _bytes(self, count: int) -> bytes:
        """Read bytes of the program; EOFError if it ended before it wrote them."""
        found = b""
        while len(found) < count:
            if select.select([self._request], [], [], _SECONDS)[0]:
                found += os.read(self._request, count - len(found))
            elif self._ended:
                raise EOFError
        return found

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._answer, data) :]
