# SPDX-License-Identifier: Apache-2.0
"""Functional model of NPU_OP_ELEMENTWISE."""

from collections.abc import Callable

import numpy as np

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.memory import Integers, element
from arm_ext.ethosu.model.output import ofm_rounding, ofm_shape, scale_output, store
from arm_ext.ethosu.model.registers import Input, Registers, signed
from arm_ext.ethosu.model.scaling import U55_ROUNDING, U85_IFM_ROUNDING, Rounding, rescale
from arm_ext.ethosu.model.window import read_input

_MUL, _ADD, _SUB, _MIN, _MAX, _LRELU, _ABS, _CLZ, _SHR, _SHL, _LSR, _DIV = range(12)
_CMP_EQ, _CMP_NE, _CMP_GE, _CMP_GT = range(16, 20)
_AND, _OR, _XOR, _NOT, _AND_NOT = 33, 34, 35, 36, 42
_U55_LAST = _SHL

_UNARY = frozenset({_LRELU, _ABS, _CLZ, _NOT})
_U55_SCALED = frozenset({_MUL, _ADD, _SUB, _ABS})  # other operations ignore the output scale

_WORD = 32
_WIDE = 4  # bytes of a 32-bit element
_SCALAR = 8  # U85's broadcast mode; smaller values are sets of bits for H, W, C
# U55 and U65 shift an operand that is not rescaled left by one bit less than this: bytes of an element → bits.
_HEADROOM = {1: 20, 2: 15}
_OPERANDS_16, _OPERAND_A_32, _OPERAND_B_32 = range(3)

# A comparison gives -1 (all bits set) or 0.
_BINARY: dict[int, Callable[[Integers, Integers], Integers]] = {
    _MUL: np.multiply,
    _ADD: np.add,
    _SUB: np.subtract,
    _MIN: np.minimum,
    _MAX: np.maximum,
    _CMP_EQ: lambda a, b: -(a == b).astype(np.int64),
    _CMP_NE: lambda a, b: -(a != b).astype(np.int64),
    _CMP_GE: lambda a, b: -(a >= b).astype(np.int64),
    _CMP_GT: lambda a, b: -(a > b).astype(np.int64),
    _AND: np.bitwise_and,
    _OR: np.bitwise_or,
    _XOR: np.bitwise_xor,
    _AND_NOT: lambda a, b: a & ~b,
}


def elementwise(machine: Machine) -> None:
    """Run an elementwise operation on one or two feature maps."""
    registers, mode = machine.registers, machine.running.operand
    if registers.family != "u85" and mode > _U55_LAST:
        raise StreamError(f"elementwise mode {mode} is not one of Ethos-{registers.family.upper()}")
    first, second = _operands(machine, mode)
    if mode == _LRELU:
        values = _leaky_relu(registers, first)
    else:
        values = _compute(registers, mode, *_scaled(registers, mode, first, second))
    if mode == _MUL and element(registers, "ifm")[0].itemsize == _WIDE:
        # A 64-bit product leaves no room for a multiplier; the shift alone applies.
        values = rescale(values, 1, registers.get("ofm_scale", "shift"), ofm_rounding(registers))
    elif mode in _U55_SCALED or (registers.family == "u85" and mode not in (_SHR, _DIV, _LRELU)):
        values = scale_output(registers, values, None)
    store(machine, np.broadcast_to(values, ofm_shape(registers)))


def _compute(registers: Registers, mode: int, a: Integers, b: Integers) -> Integers:
    if mode in _BINARY:
        return _BINARY[mode](a, b)
    if mode == _ABS:
        return np.abs(a)
    if mode == _NOT:
        return ~a
    if mode == _CLZ:
        return _leading_zeros(a)
    if mode == _SHR:
        return _shifted_right(registers, a, b)
    if mode == _SHL:
        return a << (b & 63)
    if mode == _LSR:
        width = element(registers, "ifm")[0].itemsize * 8
        return (a & (1 << width) - 1) >> (b & 63)
    if mode == _DIV:
        return _quotient(a, b)
    raise StreamError(f"elementwise mode {mode} is unknown")


def _operands(machine: Machine, mode: int) -> tuple[Integers, Integers]:
    """Return both operands minus zero points, in the operation's order; the second of a unary operation is 0."""
    shape = ofm_shape(machine.registers)
    if machine.registers.family == "u85":
        first = _u85_operand(machine, "ifm", shape)
        return first, np.zeros((1, 1, 1), np.int64) if mode in _UNARY else _u85_operand(
            machine, "ifm2", shape
        )
    first = read_input(machine, "ifm", shape)
    if mode in _UNARY:
        return first, np.zeros((1, 1, 1), np.int64)
    second = _u55_second(machine, shape)
    return (second, first) if machine.registers.get("ifm2_broadcast", "reversed") else (first, second)


def _u55_second(machine: Machine, shape: tuple[int, int, int]) -> Integers:
    registers = machine.registers
    if registers.get("ifm2_broadcast", "scalar"):
        dtype, zero_point = element(registers, "ifm2")
        scalar = registers.get("ifm2_scalar")
        return np.full(
            (1, 1, 1), (signed(scalar, 16) if dtype.kind == "i" else scalar) - zero_point, np.int64
        )
    narrowed = [
        1 if registers.get("ifm2_broadcast", axis) else n for axis, n in zip("hwc", shape, strict=True)
    ]
    return read_input(machine, "ifm2", (narrowed[0], narrowed[1], narrowed[2]))


def _u85_operand(machine: Machine, name: Input, shape: tuple[int, int, int]) -> Integers:
    registers = machine.registers
    broadcast = registers.get(f"{name}_broadcast")
    if broadcast >= _SCALAR:
        dtype, zero_point = element(registers, name)
        scalar = registers.get("op_scalar")
        return np.full(
            (1, 1, 1), (signed(scalar, _WORD) if dtype.kind == "i" else scalar) - zero_point, np.int64
        )
    narrowed = [1 if broadcast >> axis & 1 else n for axis, n in enumerate(shape)]
    return read_input(machine, name, (narrowed[0], narrowed[1], narrowed[2]))


def _scaled(registers: Registers, mode: int, a: Integers, b: Integers) -> tuple[Integers, Integers]:
    """Return both operands, rescaled as the operation prescribes for its inputs."""
    if registers.family == "u85":
        return _u85_scaled(registers, "ifm", a), b if mode in _UNARY else _u85_scaled(registers, "ifm2", b)
    if mode not in (_ADD, _SUB):
        return a, b
    choice = registers.get("ifm_precision", "scale_mode")
    if choice == _OPERANDS_16:
        return a * registers.get("opa_scale", "scale"), b * registers.get("opb_scale")
    if choice not in (_OPERAND_A_32, _OPERAND_B_32):
        raise StreamError(f"input scaling mode {choice} is unknown")
    size = element(registers, "ifm")[0].itemsize
    if size not in _HEADROOM:
        raise StreamError(f"inputs with {size} bytes per element are rescaled; only 8 and 16 bits can be")
    headroom = _HEADROOM[size]
    multiplier, shift = registers.get("opa_scale", "scale"), registers.get("opa_scale", "shift")
    code = registers.get("ifm_precision", "round")
    if code >= len(U55_ROUNDING):
        raise StreamError(f"rounding mode {code} of the input is unknown")
    rounding = U55_ROUNDING[code]
    if choice == _OPERAND_A_32:
        return rescale(a, multiplier, shift, rounding, headroom), b << headroom - 1
    return a << headroom - 1, rescale(b, multiplier, shift, rounding, headroom)


def _u85_scaled(registers: Registers, name: Input, values: Integers) -> Integers:
    def get(field: str) -> int:
        return registers.get(f"{name}_scale", field)

    rounding = U85_IFM_ROUNDING[get("round")]
    return rescale(values, get("scale"), get("shift"), rounding, get("double_round"))


def _leaky_relu(registers: Registers, values: Integers) -> Integers:
    if registers.family == "u85":
        return np.where(
            values < 0, _u85_scaled(registers, "ifm2", values), _u85_scaled(registers, "ifm", values)
        )
    return np.where(values < 0, scale_output(registers, values, None), values)


def _leading_zeros(values: Integers) -> Integers:
    low = values & (1 << _WORD) - 1
    # The exponent of a number below 2^32 is exact in binary64.
    return _WORD - np.frexp(low.astype(np.float64))[1].astype(np.int64)


def _shifted_right(registers: Registers, a: Integers, b: Integers) -> Integers:
    """Return an arithmetic shift; "natural" rounding adds half first."""
    rounding: Rounding = ofm_rounding(registers)
    shift = b & 63
    return a + (np.int64(1) << shift >> 1) >> shift if rounding == "natural" else a >> shift


def _quotient(a: Integers, b: Integers) -> Integers:
    """Return the quotient rounded towards zero; 0 for a division by zero."""
    magnitude = np.abs(a) // np.maximum(np.abs(b), 1)
    return np.where(b == 0, 0, np.where((a < 0) != (b < 0), -magnitude, magnitude))
