# SPDX-License-Identifier: Apache-2.0
"""The last stage of an operation: rescaling, zero point, clamp, look-up table, transpose, store."""

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.memory import FeatureMap, Integers, PayloadMemory, element
from arm_ext.ethosu.model.registers import Registers, signed
from arm_ext.ethosu.model.scaling import U55_ROUNDING, U85_OFM_ROUNDING, Rounding, rescale
from arm_ext.ethosu.model.weights import Scales

_TABLE_BYTES = 2048  # size of the tables at the end of a core's shared RAM
_SLOT_BYTES = 256
_CHAINED, _DISCARDED = 2, 3  # U85's storage modes of a feature map that is not written to memory

_U55_TABLE = 16  # code of TABLE_0; seven more follow
_U55_PRECISION, _U55_INT8 = 0, 3  # clip ranges: that of the output's dtype, or of 8 bits
_WIDE = 4  # bytes of an element above which there is no 16-bit clamp

# U85's table functions → bytes of an index, bytes of an entry.
_U85_TABLES = {1: (1, 1), 4: (1, 1), 5: (1, 2), 7: (1, 4), 8: (2, 2), 9: (2, 4)}

# U85's code of a transpose → for each axis of the result, the operation's axis (height, width, channels).
_TRANSPOSES = {0: (0, 1, 2), 1: (1, 0, 2), 2: (0, 2, 1), 3: (1, 2, 0), 6: (2, 0, 1), 7: (2, 1, 0)}


def ofm_shape(registers: Registers) -> tuple[int, int, int]:
    """Return height, width and channels of an operation's output, before any transpose."""
    return registers.size("ofm_height"), registers.size("ofm_width"), registers.size("ofm_depth")


def ofm_rounding(registers: Registers) -> Rounding:
    """Return the rounding mode of the output.

    Raises:
        StreamError: The field holds no known value.
    """
    u85 = registers.family == "u85"
    code = registers.get("ofm_scale", "round") if u85 else registers.get("ofm_precision", "round")
    modes = U85_OFM_ROUNDING if u85 else U55_ROUNDING
    if code >= len(modes):
        raise StreamError(f"rounding mode {code} of the output is unknown")
    return modes[code]


def per_channel(registers: Registers) -> bool:
    """Whether bias and scale are per output channel."""
    return not registers.get("ofm_precision", "global_scale")


def scale_output(registers: Registers, accumulators: Integers, scales: Scales | None) -> Integers:
    """Rescale accumulators, by per-channel scales or by the scale in NPU_SET_OFM_SCALE."""
    rounding = ofm_rounding(registers)
    if scales is not None:
        return rescale(accumulators + scales.bias, scales.multiplier, scales.shift, rounding)
    return rescale(
        accumulators, registers.get("ofm_scale", "scale"), registers.get("ofm_scale", "shift"), rounding
    )


def store(machine: Machine, values: Integers) -> None:
    """Add the zero point, clamp, look up and write an operation's output.

    Args:
        machine: Registers, memory and chain buffers.
        values: Rescaled; height x width x channels.
    """
    registers = machine.registers
    dtype, zero_point = element(registers, "ofm")
    values = _clamp(registers, values + zero_point, dtype)
    values = _look_up(machine.memory, registers, values, dtype)
    if registers.family == "u85":
        storage = registers.get("ofm_precision", "storage")
        if storage == _CHAINED:
            machine.chained[registers.get("ofm_region")] = values.astype(dtype).astype(np.int64)
            return
        if storage == _DISCARDED:
            return
        values = _rearranged(registers, values)
    FeatureMap.of(registers, "ofm", values.shape).write(machine.memory, values)


def _clamp(registers: Registers, values: Integers, dtype: np.dtype[np.generic]) -> Integers:
    """Clamp to NPU_SET_ACTIVATION_MIN and _MAX, where the output's range asks for it."""
    clip = registers.get("activation", "range")
    if registers.family == "u85":
        if clip:
            return values
    elif clip == _U55_PRECISION and dtype.itemsize >= _WIDE:
        return values
    low, high = registers.get("activation_min"), registers.get("activation_max")
    if dtype.kind == "i":
        low, high = signed(low, 16), signed(high, 16)
    range_ = np.iinfo(dtype)  # type: ignore[type-var]
    if not range_.min <= low <= high <= range_.max:
        raise StreamError(f"an output of {dtype} is clamped to {low}-{high}")
    return np.clip(values, low, high)


def _look_up(
    memory: PayloadMemory, registers: Registers, values: Integers, dtype: np.dtype[np.generic]
) -> Integers:
    function = registers.get("activation", "function")
    if function == 0:
        return values
    if registers.family == "u85":
        if function not in _U85_TABLES:
            raise StreamError(f"activation function {function} is not modelled")
        index_bytes, entry_bytes = _U85_TABLES[function]
        slot = registers.get("activation", "table") * (
            256 * entry_bytes if index_bytes == 1 else _TABLE_BYTES
        )
        is_signed = function != 1
    else:
        if not _U55_TABLE <= function < _U55_TABLE + _TABLE_BYTES // _SLOT_BYTES:
            raise StreamError(f"activation function {function} is not modelled")
        slot, entry_bytes = (function - _U55_TABLE) * _SLOT_BYTES, dtype.itemsize
        index_bytes = 1 if entry_bytes == 1 or registers.get("activation", "range") == _U55_INT8 else 2
        is_signed = dtype.kind == "i"
    tables = memory.tables[-_TABLE_BYTES:]
    if index_bytes == 1:
        kind = f"<{'i' if is_signed else 'u'}{entry_bytes}"
        entries = _entries(tables, slot, 256, kind)
        return np.take(entries, (values + 128 if is_signed else values) & 0xFF)
    return _interpolated(_entries(tables, slot, 512, "<u4"), values, wide=entry_bytes == _WIDE)


def _entries(tables: NDArray[np.uint8], slot: int, count: int, kind: str) -> Integers:
    size = count * np.dtype(kind).itemsize
    if slot + size > len(tables):
        raise StreamError(f"a table of {size} bytes at {slot} exceeds the table memory")
    return np.frombuffer(tables[slot : slot + size].tobytes(), kind).astype(np.int64)


def _interpolated(table: Integers, values: Integers, *, wide: bool) -> Integers:
    """Look up 16-bit values: bits 7-15 select base and slope, bits 0-6 are the position between entries."""
    entry = table[(values >> 7) + 256 & 0x1FF]
    base, slope, fraction = (
        (entry & 0xFFFF ^ 0x8000) - 0x8000,
        ((entry >> 16) ^ 0x8000) - 0x8000,
        values & 0x7F,
    )
    out: Integers = (base << 7) + slope * fraction if wide else base + (slope * fraction + 64 >> 7)
    return out


def _rearranged(registers: Registers, values: Integers) -> Integers:
    """Return the result, transposed and reversed as the U85 command says."""
    code = registers.get("ofm_precision", "transpose")
    if code not in _TRANSPOSES:
        raise StreamError(f"transpose {code} of the output is unknown")
    reverse = registers.get("ofm_precision", "reverse")
    values = values.transpose(_TRANSPOSES[code])
    return np.flip(values, reverse - 1) if reverse else values
