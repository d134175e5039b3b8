# SPDX-License-Identifier: Apache-2.0
"""Regions of a model that an NPU may compute, as a C library describes them to the code that drives the NPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MEMORIES = 8  # number of memories that a command stream can address


@dataclass(frozen=True)
class NpuTensor:
    """An input or output of a region: the number of its memory, its offset in it, and its size in bytes."""

    memory: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class NpuRegion:
    """An NPU region, with the offsets of its payload's parts.

    Attributes:
        accelerator: Such as "ethos-u65-256".
        insists: Whether a failure on the NPU is an error, in place of the CPU's work.
        payload_bytes: Size of the payload.
        commands: Offset and size of the commands in it.
        weights: Offset and size of the weights.
        memories: Number → kind and size, for each memory that the commands address.
        inputs: In the order of the call.
        outputs: Likewise.
        plans_scratch: Whether the region's scratch is a part of the arena; else who runs it provides that.
        has_fallback: Whether the library holds the CPU's code and weights for the region.
    """

    accelerator: str
    insists: bool
    payload_bytes: int
    commands: tuple[int, int]
    weights: tuple[int, int]
    memories: Mapping[int, tuple[str, int]]
    inputs: Sequence[NpuTensor]
    outputs: Sequence[NpuTensor]
    plans_scratch: bool = False
    has_fallback: bool = True

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch in the arena; 0 if it is not there."""
        return sum(size for kind, size in self.memories.values() if kind == "scratch" and self.plans_scratch)

    @property
    def tensors(self) -> list[NpuTensor]:
        """The region's inputs, followed by its outputs."""
        return [*self.inputs, *self.outputs]

    @property
    def numbered_memories(self) -> list[tuple[str, int]]:
        """Kind and size of each memory, by its number."""
        return [self.memories.get(number, ("none", 0)) for number in range(_MEMORIES)]
