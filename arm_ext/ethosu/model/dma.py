# SPDX-License-Identifier: Apache-2.0
"""NPU_OP_DMA_START: copies of one run of bytes, of rows at strides, and by indices (U85)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.memory import PayloadMemory
from arm_ext.ethosu.model.registers import Registers

_UNIT = 16  # granularity in bytes of writes by U55, and of writes to the NPU's own memory


def dma(machine: Machine) -> None:
    """Run NPU_OP_DMA_START: copy bytes between regions, or into the table memory."""
    memory, registers = machine.memory, machine.registers
    source = registers.get("dma0_src_region")
    destination = registers.get("dma0_dst_region")
    length = registers.address("dma0_len")
    if registers.get("dma0_src_region", "internal"):
        raise StreamError("a DMA reads the NPU's own memory, which contains no data of the model")
    internal = registers.get("dma0_dst_region", "internal")
    if length % _UNIT and (internal or registers.family == "u55"):
        raise StreamError(f"a DMA's {length} bytes are not a multiple of {_UNIT}")
    start, stop = registers.address("dma0_src"), registers.address("dma0_dst")
    if internal:
        if stop + length > len(memory.tables):
            raise StreamError(
                f"a DMA of {length} bytes to {stop:#x} exceeds the NPU's memory of {len(memory.tables)} bytes"
            )
        memory.tables[stop : stop + length] = memory.area(source, start, length)
        return
    for from_, to in _rows(memory, registers, start, stop, length):
        memory.writable(destination, to, length)[...] = memory.area(source, from_, length).copy()


def _rows(
    memory: PayloadMemory, registers: Registers, start: int, stop: int, length: int
) -> Iterator[tuple[int, int]]:
    """Yield the source and destination of each run of `length` bytes."""
    u85 = registers.family == "u85"
    dimensions = registers.get("dma0_src_region" if u85 else "dma0_dst_region", "dimensions")
    gathers = u85 and registers.get("dma0_src_region", "indexed")
    scatters = u85 and registers.get("dma0_dst_region", "indexed")
    if dimensions == 0 and not (gathers or scatters):
        yield start, stop
        return
    size0 = registers.get("dma0_size0") if dimensions or gathers or scatters else 1
    size1 = registers.get("dma0_size1") if dimensions == 2 else 1
    strides = _dma_strides(registers, dimensions, length, size0, bool(gathers), bool(scatters))
    (from0, from1), (to0, to1) = strides
    for j in range(size1):
        indices = _dma_indices(memory, registers, size0, j) if gathers or scatters else None
        for i in range(size0):
            at = i if indices is None else int(indices[i])
            yield (
                start + j * from1 + (at if gathers else i) * from0,
                stop + j * to1 + (at if scatters else i) * to0,
            )


def _dma_strides(
    registers: Registers, dimensions: int, length: int, size0: int, gathers: bool, scatters: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the bytes between runs, inner and outer, of the source and of the destination."""
    if registers.family != "u85":
        # The source's runs are contiguous; the destination has gaps between them.
        to0 = length + registers.stride("dma0_skip0")
        to1 = size0 * to0 if dimensions < 2 else registers.stride("dma0_skip1") + length * size0
        return (length, length * size0), (to0, to1)
    from0 = registers.stride("dma0_src_stride0") if dimensions or gathers else length
    to0 = registers.stride("dma0_dst_stride0") if dimensions or scatters else length
    if dimensions < 2:
        return (from0, 0), (to0, 0)
    return (from0, registers.stride("dma0_src_stride1")), (to0, registers.stride("dma0_dst_stride1"))


def _dma_indices(memory: PayloadMemory, registers: Registers, count: int, row: int) -> NDArray[np.int32]:
    """Return one row of the indices that a gather or scatter follows.

    Raises:
        StreamError: An index exceeds the greatest that the stream allows.
    """
    region, base = registers.get("dma0_idx_region"), registers.address("dma0_idx")
    skip = registers.stride("dma0_idx_skip1") if row else 0
    raw = memory.area(region, base + row * (count * 4 + skip), count * 4)
    indices = raw.view("<i4") if raw.ctypes.data % 4 == 0 else np.frombuffer(raw.tobytes(), "<i4")
    most = registers.get("dma0_idx_max")
    if count and (indices.min() < 0 or indices.max() > most):
        raise StreamError(f"a DMA's index {indices.max()} is not within 0-{most}")
    return indices
