# SPDX-License-Identifier: Apache-2.0
import struct

import pytest

from arm_ext.ethosu.model import StreamError
from arm_ext.ethosu.model.commands import commands
from arm_ext.ethosu.model.registers import Registers, signed
from arm_ext.ethosu.model.stream import ParsedCommand, steps, unwrap

STOP = 0xFFFF0000
NOP, CONFIG = 5, 1


def cop1(*words: int) -> bytes:
    header = [CONFIG, 0x10000008, 0x10060001, NOP, NOP, NOP, 2 | len(words) << 16]
    return b"COP1" + struct.pack(f"<{7 + len(words)}I", *header, *words)


def cop2(*words: int) -> bytes:
    metadata = struct.pack("<4sIIIIIQ", b"VEUM", 1, 20, 0x10000008, 0x10060001, 2, 64) + b"\xff" * 12
    data = struct.pack("<I", len(metadata)) + metadata + struct.pack(f"<{len(words)}I", *words)
    entry = struct.pack("<II", 1, len(data)) + data
    return struct.pack("<4sIQ", b"COP2", 1, len(entry)) + entry


@pytest.mark.parametrize("container", [cop1, cop2])
def test_unwraps_both_containers(container: object) -> None:
    stream = unwrap(container(0x4001, 7, STOP))  # type: ignore[operator]
    assert stream.words.tolist() == [0x4001, 7, STOP]
    assert (stream.config, stream.arch) == (0x10000008, 0x10060001)
    assert list(steps(stream, "u65")) == [
        ParsedCommand(0, "ifm_base1", 7 << 16),
        ParsedCommand(2, "op_stop", 0xFFFF),
    ]


@pytest.mark.parametrize("container", [cop1(STOP), cop2(STOP)])
def test_a_truncated_container_raises(container: bytes) -> None:
    for size in range(len(container)):
        with pytest.raises(StreamError):
            list(steps(unwrap(container[:size]), "u65"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((0x0004, STOP), r"word 0 .*0x00000004\) is not a command of Ethos-U65"),
        ((0x8000, STOP), "is not a command"),
        ((0x0402, STOP), "is not a command"),
        ((0x010F | 8 << 16, STOP), "ifm_region at word 0 is 0x8, whose bits 0x8 are reserved"),
        ((0x4000,), "ends within ifm_base0 at word 0"),
        ((0x0002,), "does not end in op_stop"),
        ((STOP, STOP), "op_stop at word 0 is not the command stream's last"),
        ((), "does not end in op_stop"),
    ],
)
def test_a_malformed_stream_raises(words: tuple[int, ...], message: str) -> None:
    with pytest.raises(StreamError, match=message):
        list(steps(unwrap(cop1(*words)), "u65"))


def test_unknown_containers_and_actions_raise() -> None:
    with pytest.raises(StreamError, match="neither COP1 nor COP2"):
        unwrap(b"COP3" + bytes(40))
    with pytest.raises(StreamError, match="driver action 9 of COP1"):
        unwrap(b"COP1" + struct.pack("<I", 9))
    with pytest.raises(StreamError, match="states 2 words, there are 1"):
        unwrap(b"COP1" + struct.pack("<II", 2 | 2 << 16, STOP))


def test_no_number_has_two_commands_and_fields_do_not_overlap() -> None:
    for family in ("u55", "u65", "u85"):
        names = [c.name for table in commands(family) for c in table.values()]
        assert len(names) == len(set(names))
        for command in (c for table in commands(family) for c in table.values()):
            bits = [first + i for first, width in command.fields.values() for i in range(width)]
            assert len(bits) == len(set(bits))


def test_registers_give_fields_and_say_what_is_not_set() -> None:
    registers = Registers(
        "u65", {"kernel_stride": 0b1000000101, "ifm_stride_y": 0xFFFFFFF0_00FF, "ofm_width_m1": 6}
    )
    assert registers.get("kernel_stride", "y_high") == registers.get("kernel_stride", "part_kernel") == 1
    assert registers.stride("ifm_stride_y") == -16
    assert registers.size("ofm_width") == 7
    with pytest.raises(StreamError, match="NPU_SET_OFM_DEPTH_M1, which no command has set"):
        registers.size("ofm_depth")
    assert "ofm_width_m1.value" in registers.read


def test_signed() -> None:
    assert [signed(v, 4) for v in (0, 7, 8, 15)] == [0, 7, -8, -1]
