# SPDX-License-Identifier: Apache-2.0
"""All that decides what a run of a payload computes, watched while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from arm_ext.ethosu.model import convolution, interpreter, machine, output, run
from arm_ext.ethosu.model.dma import dma
from arm_ext.ethosu.model.machine import Executed
from arm_ext.ethosu.model.memory import Bytes, Integers, PayloadMemory
from arm_ext.ethosu.payload import Payload
from tests.arm_ext.ethosu.tosa.graphs import Array


@dataclass
class Told:
    """All that decided a run: its operations, the feature maps that they read, and the tables.

    Attributes:
        operations: In order, with the fields, weights and scales that they read.
        data: Bytes of feature maps, in the order in which they are read, each with the operation's number.
        tables: Entries of the tables that outputs are looked up in, likewise.
    """

    operations: list[Executed] = field(default_factory=list)
    data: list[tuple[int, bytes]] = field(default_factory=list)
    tables: list[tuple[int, Integers]] = field(default_factory=list)


def told(payload: Payload, values: list[Array]) -> Told:
    """Run a payload and note what decides."""
    found = Told()
    with _watched(found):
        run(payload, values, found.operations)
    return found


@contextmanager
def _watched(told: Told) -> Iterator[None]:
    """Note what operations read, but for copies, and what weights and scales are decoded from; and tables."""
    apart: list[object] = []

    def unwatched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            apart.append(real)
            try:
                return real(*args)
            finally:
                apart.pop()

        return call

    class Watched(PayloadMemory):
        def area(self, region: int, offset: int, size: int) -> Bytes:
            found = super().area(region, offset, size)
            if not apart:
                told.data.append((len(told.operations), found.tobytes()))
            return found

        writable = unwatched(PayloadMemory.writable)

    def entries(*args: Any) -> Integers:
        found = look_up(*args)
        told.tables.append((len(told.operations), found))
        return found

    look_up = output._entries
    with (
        patch.object(machine, "PayloadMemory", Watched),
        patch.object(convolution, "read_weights", unwatched(convolution.read_weights)),
        patch.object(convolution, "read_scales", unwatched(convolution.read_scales)),
        patch.object(output, "_entries", entries),
        patch.dict(interpreter._OPERATIONS, op_dma_start=unwatched(dma)),
    ):
        yield
