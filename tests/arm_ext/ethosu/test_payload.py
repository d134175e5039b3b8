# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from arm_ext.ethosu.payload import MemoryArea, Payload, PayloadError, PayloadTensor

U65_256 = 0x10000008  # CONFIG: product 1, 2^8 MACs a cycle


def payload(**changes: object) -> Payload:
    whole = Payload(
        accelerator="ethos-u65-256",
        config=U65_256,
        arch=0x10060001,
        regions=(MemoryArea(0, "weights", 37), MemoryArea(1, "scratch", 4096), MemoryArea(2, "fast", 64)),
        inputs=(
            PayloadTensor("in·1", 1, 16, "int8", (1, 7, 9, 3), 0.125, -7),
            PayloadTensor("b", 1, 256, "bool", ()),
        ),
        outputs=(PayloadTensor("y", 1, 1024, "int32", (1, 31)),),
        commands=b"COP1" + bytes(range(40)),
        weights=bytes(range(37)),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_reads_what_it_wrote() -> None:
    assert Payload.from_bytes(payload().to_bytes()) == payload()


def test_weights_and_commands_are_aligned_where_the_header_says() -> None:
    data = payload().to_bytes()
    commands_at, commands, weights_at, weights = (
        int.from_bytes(data[i : i + 4], "little") for i in (84, 88, 92, 96)
    )
    assert commands_at % 16 == weights_at % 16 == 0
    assert data[commands_at : commands_at + commands] == payload().commands
    assert data[weights_at : weights_at + weights] == payload().weights


@pytest.mark.parametrize("size", [0, 7, 47, 100, 300])
def test_a_truncated_file_is_refused(size: int) -> None:
    with pytest.raises(PayloadError, match="truncated"):
        Payload.from_bytes(payload().to_bytes()[:size])


def test_an_extended_file_is_refused() -> None:
    with pytest.raises(PayloadError, match="truncated or extended"):
        Payload.from_bytes(payload().to_bytes() + b"\0")


def test_each_altered_bit_is_noticed() -> None:
    data = payload().to_bytes()
    for bit in range(0, len(data) * 8, 7):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(PayloadError):
            Payload.from_bytes(bytes(altered))


def test_another_version_says_so() -> None:
    data = bytearray(payload().to_bytes())
    data[8] = 2
    with pytest.raises(PayloadError, match="format 2 is not 1; compile"):
        Payload.from_bytes(bytes(data))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accelerator": "ethos-u65-999"}, "is for the unknown accelerator"),
        ({"config": U65_256 + 1}, "configuration 0x10000009 is not"),
        ({"outputs": (PayloadTensor("y", 1, 4093, "int32", (1,)),)}, "does not fit region 1 of 4096"),
        ({"outputs": (PayloadTensor("y", 5, 0, "int32", (1,)),)}, "does not fit region 5 of 0"),
        ({"weights": b""}, "region 0 is 37 bytes, the weights are 0"),
    ],
)
def test_a_payload_that_contradicts_itself_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        payload(**changes)


def test_a_tensor_names_its_type_and_rank() -> None:
    with pytest.raises(ValueError, match="dtype 'float32' is unknown"):
        PayloadTensor("x", 1, 0, "float32", (1,))
    with pytest.raises(ValueError, match="rank 7 exceeds 6"):
        PayloadTensor("x", 1, 0, "int8", (1,) * 7)
