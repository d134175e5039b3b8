# SPDX-License-Identifier: Apache-2.0
"""Parsing of the container that Vela writes into single commands.

COP1: "COP1", then driver actions of one word (bits 0-7 kind, 8-15 and 16-31 parameters): 1 configuration, followed by
the words CONFIG and architecture version; 5 nothing; 2 the stream's words follow, as many as bits 8-15 (high) and 16-31
say. COP2: "COP2", version, length; then entries of kind, bytes, data. Data of kind 1 begins with how many bytes of
metadata follow: "VEUM", version, length, CONFIG, architecture version, features, SRAM used (64 bits), padding to 16;
then the stream's words.
Source: Vela 5.2, regor/tflite/custom_operator_ethosu.hpp.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.commands import commands
from arm_ext.ethosu.model.errors import StreamError
from arm_ext.target.npu import Family

_CONFIG, _STREAM, _NOP = 1, 2, 5  # driver actions of COP1
_COMMAND_STREAM = 1  # entry of COP2
_COP2_HEADER = struct.Struct("<4sII")
_COP2_ENTRY = struct.Struct("<II")
# Length, the fourcc, and the following fields up to the last one used here.
_COP2_METADATA = struct.Struct("<I4sIIII")
_NUMBER_MASK, _KIND_SHIFT, _RESERVED_MASK = 0x3FF, 14, 0x3C00


@dataclass(frozen=True)
class CommandStream:
    """A command stream without its container.

    Attributes:
        words: The commands, uint32.
        config: CONFIG register that they were made for.
        arch: Architecture version that they were made for.
    """

    words: NDArray[np.uint32]
    config: int
    arch: int


@dataclass(frozen=True)
class ParsedCommand:
    """A command with its parameters.

    Attributes:
        index: Index of its first word.
        name: Name of the register that it sets, or "op_…".
        value: Parameter (bits 0-15) and data (from bit 16 on).
    """

    index: int
    name: str
    value: int


def unwrap(container: bytes) -> CommandStream:
    """Return the command stream in a container.

    Raises:
        StreamError: The container is neither COP1 nor COP2, or ends early.
    """
    try:
        if container[:4] == b"COP1":
            return _unwrap1(container)
        if container[:4] == b"COP2":
            return _unwrap2(container)
    except (struct.error, IndexError):
        raise StreamError(f"the command container of {len(container)} bytes ends within its header") from None
    raise StreamError(f"the command container begins with {container[:4]!r}, neither COP1 nor COP2")


def _unwrap1(container: bytes) -> CommandStream:
    words = _words(container)
    config = arch = 0
    at = 1
    while True:
        action = int(words[at])
        kind = action & 0xFF
        if kind == _CONFIG:
            config, arch = int(words[at + 1]), int(words[at + 2])
            at += 3
        elif kind == _NOP:
            at += 1
        elif kind == _STREAM:
            return CommandStream(
                _exactly(words[at + 1 :], (action & 0xFF00) << 8 | action >> 16), config, arch
            )
        else:
            raise StreamError(f"driver action {kind} of COP1 is unknown")


def _unwrap2(container: bytes) -> CommandStream:
    _, version, length = _COP2_HEADER.unpack_from(container)
    if length != len(container) - 16:
        raise StreamError(f"COP2 states {length} bytes after its header, there are {len(container) - 16}")
    kind, size = _COP2_ENTRY.unpack_from(container, 16)
    if kind != _COMMAND_STREAM:
        raise StreamError(f"entry {kind} of COP2 is unknown")
    metadata, magic, _, _, config, arch = _COP2_METADATA.unpack_from(container, 24)
    if magic != b"VEUM" or version != 1:
        raise StreamError(f"COP2 version {version:#x} with metadata {magic!r} is unknown")
    words = _words(container[28 + metadata :])
    return CommandStream(_exactly(words, (size - 4 - metadata) // 4), config, arch)


def _words(data: bytes) -> NDArray[np.uint32]:
    if len(data) % 4:
        raise StreamError(f"{len(data)} bytes of commands are not a whole number of words")
    return np.frombuffer(data, "<u4")


def _exactly(words: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    if len(words) != count:
        raise StreamError(f"the command stream states {count} words, there are {len(words)}")
    return words


def steps(stream: CommandStream, family: Family) -> Iterator[ParsedCommand]:
    """Yield the commands in order, op_stop included.

    Raises:
        StreamError: A command or a bit of it that the family does not know, or no op_stop at the end.
    """
    words, pairs = commands(family)
    code = stream.words.tolist()
    at = 0
    while at < len(code):
        word = code[at]
        kind = word >> _KIND_SHIFT & 3
        command = (words, pairs)[kind].get(word & _NUMBER_MASK) if kind < 2 else None
        if command is None or word & _RESERVED_MASK:
            raise StreamError(
                f"word {at} of the command stream ({word:#010x}) is not a command of Ethos-{family.upper()}"
            )
        value = word >> 16
        if kind:
            if at + 1 == len(code):
                raise StreamError(f"the command stream ends within {command.name} at word {at}")
            value |= code[at + 1] << 16
        if value & ~command.used:
            reserved = value & ~command.used
            raise StreamError(
                f"{command.name} at word {at} is {value:#x}, whose bits {reserved:#x} are reserved"
            )
        yield ParsedCommand(at, command.name, value)
        at += 1 + kind
        if command.name == "op_stop":
            if at != len(code):
                raise StreamError(f"op_stop at word {at - 1} is not the command stream's last command")
            return
    raise StreamError("the command stream does not end in op_stop")
