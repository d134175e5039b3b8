# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a payload is said at the first call, and nothing of it runs, whether on NPU or CPU."""

import contextlib
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arm_ext.ethosu.payload import MemoryArea, Payload
from tests.arm_ext.native.npu_regions import Case, Module


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    monkeypatch.setenv("ARM_EXT_NPU", "cpu")
    return Module(tmp_path)


def refused(module: Module, case: Case, payload: bytes, reason: str) -> None:
    with pytest.raises(RuntimeError, match=f"NPU payload of region 0: {reason}"):
        module.run(case, payload=payload)


def patched(payload: Payload, at: int, value: int, size: int = 4) -> bytes:
    """The payload's bytes with a number changed, and a hash that is right again."""
    data = bytearray(payload.to_bytes())
    data[at : at + size] = value.to_bytes(size, "little")
    data[16:48] = hashlib.sha256(data[48:]).digest()
    return bytes(data)


@pytest.mark.parametrize("size", [0, 7, 47, 100, 300])
def test_a_truncated_payload(size: int, module: Module, npu_case: Case):
    refused(module, npu_case, npu_case.payload.to_bytes()[:size], "it has .* it is truncated")


def test_an_extended_payload(module: Module, npu_case: Case):
    refused(module, npu_case, npu_case.payload.to_bytes() + b"\0", "it has .* truncated or extended")


def test_each_altered_bit(module: Module, npu_case: Case):
    data = npu_case.payload.to_bytes()
    for bit in range(0, len(data) * 8, 131):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        refused(module, npu_case, bytes(altered), "it ")


def test_another_format(module: Module, npu_case: Case):
    data = bytearray(npu_case.payload.to_bytes())
    data[8] = 2
    refused(module, npu_case, bytes(data), "its format is 2, not 1; compile the model again")


HUGE = 0xFFFF_FFF0  # a multiple of 16
REGIONS, TENSORS = 116, 116 + 3 * 16  # the payload has three regions


@pytest.mark.parametrize(
    ("at", "value", "size", "reason"),
    [
        (64, 0x20003008, 4, r"the accelerator that it names is not that of configuration 0x20003008"),
        (68, 0x10066002, 4, r"its commands are for configuration 0x10003008, architecture 0x10066001"),
        (72, 9, 4, r"it has 9 regions"),
        (76, 0xFFFFFFFF, 4, r"it has 3 regions, 4294967295 inputs"),
        (80, 0, 4, r"it has 3 regions, 1 inputs and 0 outputs"),
        (84, 116, 4, r"its commands or weights reach beyond"),
        (84, HUGE, 4, r"its commands or weights reach beyond"),
        (88, HUGE, 4, r"its commands or weights reach beyond"),
        (88, 16, 4, r"its 16 bytes of commands are neither COP1 nor COP2"),
        (92, HUGE, 4, r"its commands or weights reach beyond"),
        (96, 64, 4, r"its region 0 is not of the 64 bytes of its weights"),
        (REGIONS, 8, 4, r"its region 8 of kind 0"),
        (REGIONS + 16, 0, 4, r"its region 0 of kind 1 .* or stands twice"),
        (REGIONS + 4, 5, 4, r"its region 0 of kind 5"),
        (TENSORS + 8, 8, 4, r"its tensor 0 has dtype 1, rank 4, region 8"),
        (TENSORS + 8, 2, 4, r"its tensor 0 lies in region 2"),
        (TENSORS + 12, 8, 4, r"its tensor 0 has dtype 8"),
        (TENSORS + 44, 7, 4, r"its tensor 0 has dtype 1, rank 7"),
        (TENSORS + 16, 2688, 8, r"its tensor 0 of 1344 bytes does not fit region 1"),
        (TENSORS + 16, (1 << 64) - 1344, 8, r"its tensor 0 of 1344 bytes does not fit region 1"),
        (TENSORS + 24, 1343, 8, r"its tensor 0 of 1343 bytes does not fit"),
        (TENSORS + 48, 0xFFFFFFFF, 4, r"its tensor 0 of 1344 bytes does not fit"),
    ],
)
def test_tables_that_lie(at: int, value: int, size: int, reason: str, module: Module, npu_case: Case):
    refused(module, npu_case, patched(npu_case.payload, at, value, size), reason)


def test_commands_of_another_configuration(module: Module, npu_case: Case):
    payload = npu_case.payload
    data = payload.to_bytes()
    at = data.index(struct.pack("<I", payload.config), data.index(b"COP1"))
    lie = patched(payload, at, payload.config + 1)
    refused(
        module, npu_case, lie, "its commands are for configuration 0x10003009, architecture 0x10066001, its"
    )


def test_a_shape_whose_product_overflows(module: Module, npu_case: Case):
    data = bytearray(npu_case.payload.to_bytes())
    data[TENSORS + 24 : TENSORS + 32] = bytes(8)  # the product modulo 2^64
    data[TENSORS + 48 : TENSORS + 64] = struct.pack("<4I", *[1 << 16] * 4)
    data[16:48] = hashlib.sha256(data[48:]).digest()
    refused(module, npu_case, bytes(data), "its tensor 0 of 0 bytes does not fit")


def test_any_number_of_the_tables_may_be_wrong(module: Module, npu_case: Case):
    # It is refused or it is not; that nothing is read beyond it, the sanitizers see.
    for data in mutants(npu_case.payload):
        with contextlib.suppress(RuntimeError):
            assert module.run(npu_case, payload=data)[0] is False


def mutants(payload: Payload) -> list[bytes]:
    """Payloads with a wrong number each in header, tables or container, and a right hash."""
    rng = np.random.default_rng(7)
    (commands_at,) = struct.unpack_from("<I", payload.to_bytes(), 84)
    places = [*range(48, TENSORS + 2 * 72, 4), *range(commands_at, commands_at + 32, 4)]
    return [
        patched(payload, at, int(rng.choice([0, 1, 1 << 31, HUGE, rng.integers(1 << 32)]))) for at in places
    ]


def test_the_hash_is_right_for_any_length(npu_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ARM_EXT_NPU", "cpu")
    module = Module(tmp_path)
    for length in range(130):  # two blocks and more
        weights = npu_case.payload.weights[:length]
        regions = (MemoryArea(0, "weights", length), *npu_case.payload.regions[1:])
        payload = replace(npu_case.payload, weights=weights, regions=regions)
        assert (
            module.call(length, 0, np.frombuffer(payload.to_bytes(), np.uint8).copy(), *tensors(npu_case))
            is False
        )


def tensors(case: Case) -> list[np.ndarray]:
    return [*case.inputs, *map(np.zeros_like, case.outputs)]


def test_another_payload_for_a_region(module: Module, npu_case: Case, larger_npu_case: Case):
    module.run(npu_case)
    refused(
        module, npu_case, larger_npu_case.payload.to_bytes(), "it is not the one that the region had before"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, y: [x],
        lambda x, y: [x, y, y],
        lambda x, y: [x.astype(np.uint8), y],
        lambda x, y: [x.reshape(-1), y],
        lambda x, y: [x[:, :-1], y],
        lambda x, y: [np.zeros((*x.shape[:-1], 2 * x.shape[-1]), np.int8)[..., ::2], y],
        lambda x, y: [x, y[..., :-1].copy()],
    ],
)
def test_tensors_that_are_not_the_payloads(wrong: object, module: Module, npu_case: Case):
    data = np.frombuffer(npu_case.payload.to_bytes(), np.uint8).copy()
    with pytest.raises(
        RuntimeError, match=r"it has 2 tensors|tensor \d of the call is not of the type and shape"
    ):
        module.call(0, 0, data, *wrong(*tensors(npu_case)))  # type: ignore[operator]


@pytest.mark.parametrize(
    "arguments", [(), (0, 0), ("0", 0, np.zeros(200, np.uint8)), (0, 0, np.zeros(200, np.int8)), (0, 0, 1)]
)
def test_arguments_of_other_types(arguments: tuple[object, ...], module: Module):
    with pytest.raises(TypeError, match="arm_ext_npu_run takes region, on_error, payload, and tensors"):
        module.call(*arguments)
