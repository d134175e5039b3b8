# SPDX-License-Identifier: Apache-2.0
"""An Ethos-U beside an emulated Cortex-M: a functional model that answers the driver's function of `bare_npu.c`."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model import run as run_on_model
from arm_ext.ethosu.payload import Payload

REQUEST, ANSWER = "npu-request", "npu-answer"
"""Names of the pipes."""

NpuEvent: TypeAlias = tuple[Literal["clean", "invalidate", "run", "fault"], int]
"""What happened, and bytes of the memory, or the number of the region."""

_END, _CLEAN, _INVALIDATE, _INVOKE = range(4)  # of bare_npu.c, and the end
_OVERWRITTEN = 0x5A  # what the NPU leaves in memory that holds no output


class ModelledNpu:
    """Answers the program's invocations while it is entered."""

    def __init__(self, folder: Path, payloads: Sequence[Payload], faults: Collection[int] = ()) -> None:
        """Create the pipes.

        Args:
            folder: Folder of the pipes.
            payloads: The payload of each region.
            faults: Numbers of invocations, from 0 on, that fail after the memory was overwritten.
        """
        self._payloads, self._faults = payloads, faults
        for name in (REQUEST, ANSWER):
            os.mkfifo(folder / name)
        # Open for both directions, so that no end waits for the other to be opened.
        self._request, self._answer = (os.open(folder / name, os.O_RDWR) for name in (REQUEST, ANSWER))
        self._thread = Thread(target=self._serve)
        self.trace: list[NpuEvent] = []
        self._error: BaseException | None = None
        self._invocations = 0

    def __enter__(self) -> "ModelledNpu":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._request, bytes(4))
        self._thread.join()
        os.close(self._request)
        os.close(self._answer)
        if self._error is not None:
            raise self._error

    def _serve(self) -> None:
        while kind := self._words(1)[0]:
            if kind in (_CLEAN, _INVALIDATE):
                _, size = self._words(2)
                self.trace.append(("clean" if kind == _CLEAN else "invalidate", size))
            else:
                self._invoked()

    def _invoked(self) -> None:
        """Answer an invocation; one that the model cannot compute fails, and is told when the program has ended."""
        command_bytes, count = self._words(2)
        memories = [self._words(2) for _ in range(count)]
        commands = self._bytes(command_bytes)
        held = {number: self._bytes(size) for number, (base, size) in enumerate(memories) if base}
        region = next((n for n, each in enumerate(self._payloads) if _is(each, commands, held)), -1)
        payload = self._payloads[region]
        number = next((each.number for each in payload.regions if each.kind == "scratch"), 0)
        scratch = np.full(len(held.get(number, b"")), _OVERWRITTEN, np.uint8)
        fails = self._invocations in self._faults
        self._invocations += 1
        if region < 0:
            self._error, fails = ValueError("the driver was given no payload's commands and weights"), True
        if not fails:
            try:
                _compute(payload, held[number], scratch)
            except Exception as error:
                self._error, fails = error, True
        self.trace.append(("fault" if fails else "run", region))
        answer = np.array([-1 if fails else 0, number], "<i4")
        self._write(answer.tobytes() + scratch.tobytes())

    def _words(self, count: int) -> list[int]:
        return [int(word) for word in np.frombuffer(self._bytes(4 * count), "<u4")]

    def _bytes(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            found += os.read(self._request, count - len(found))
        return found

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._answer, data) :]


def _is(payload: Payload, commands: bytes, held: Mapping[int, bytes]) -> bool:
    """Whether a payload has these commands, and the weights that are held at its number of their memory."""
    numbers = [area.number for area in payload.regions if area.kind == "weights" and area.size]
    return payload.commands == commands and all(held.get(each) == payload.weights for each in numbers)


def _compute(payload: Payload, held: bytes, scratch: NDArray[np.uint8]) -> None:
    """Compute a region's inputs in memory that is held; write its outputs to the scratch, which else stays as it is."""
    inputs = [
        np.frombuffer(held[each.offset :][: each.size], each.dtype).reshape(each.shape)
        for each in payload.inputs
    ]
    for tensor, value in zip(payload.outputs, run_on_model(payload, inputs), strict=True):
        scratch[tensor.offset : tensor.offset + tensor.size] = np.frombuffer(value.tobytes(), np.uint8)
