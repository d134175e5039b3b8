# SPDX-License-Identifier: Apache-2.0
"""Every kind of operator, each a region of one model, on a device that looks streams over as Linux's driver does."""

import itertools
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import arm_ext.native
from arm_ext import NpuOptions
from arm_ext.ethosu.model import run
from arm_ext.ethosu.model.linux_driver import refused_by_linux
from arm_ext.ethosu.model.stream import unwrap
from arm_ext.ethosu.partition.divider import Divider
from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela.compiler import VelaError
from tests.arm_ext.ethosu.model.test_machine import graph_of, inputs_of, payload_of
from tests.arm_ext.ethosu.ops.integer_cases import take
from tests.arm_ext.ethosu.partition.divided import prepare
from tests.arm_ext.ethosu.tosa.cases import CASES
from tests.arm_ext.native.npu_device import Device
from tests.arm_ext.native.npu_driver_check import RefusedError, check
from tests.arm_ext.native.npu_regions import Case, Module
from tests.arm_ext.native.test_npu_runtime import assert_ran, assert_untouched

HERE, NATIVE = Path(__file__).parent, Path(arm_ext.native.__file__).parent

REVERSE = "Linux's driver takes its commands to reach far beyond region 1 (negative strides?)"
RESIZE = "Linux's driver does not know RESIZE, which its commands have"
REFUSED = {
    "ethos-u65-256": {"reverse_height": REVERSE, "reverse_width": REVERSE},
    "ethos-u85-512": dict.fromkeys(sorted(name for name in CASES if name.startswith("resize")), RESIZE),
}


@cache
def cases(npu: str) -> dict[str, Case]:
    found = {}
    for name in CASES:
        graph = graph_of(name)
        try:
            payload = payload_of(graph, npu)
        except VelaError:
            continue  # what it does not compile, it says elsewhere
        values = inputs_of(graph, name)
        found[name] = Case(payload, values, run(payload, values))
    return found


@pytest.mark.parametrize("npu", REFUSED)
def test_runs_unless_the_driver_cannot(npu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    of_npu = cases(npu)
    with Device.for_payload(next(iter(of_npu.values())).payload) as device:
        monkeypatch.setenv("ARM_EXT_NPU_TEST_DEVICE", str(device.folder))
        module = Module(tmp_path)
        refused = {}
        for region, (name, case) in enumerate(of_npu.items()):
            result = module.run(case, region=region)
            if reason := module.status["regions"][region]["reason"]:  # type: ignore[index]
                assert_untouched(result)
                refused[name] = reason
            else:
                assert_ran(case, result)
        module.close()
        assert refused == REFUSED[npu]
        # As the report says before.
        assert {name for name, case in of_npu.items() if refused_by_linux(case.payload)} == refused.keys()
        assert not device.warned
        assert device.held == (0, 0)


def test_indices_that_the_driver_does_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A gather by itself: its indices are all that the region of the weights holds."""
    model = prepare(take([3, 0, 5, 1, 7, 2, 6, 4, 9, 8, 11, 15])())
    divided = model.divide(Divider(NpuOptions("ethos-u85-512", fail_on_fallback=True)))
    payload = divided.offload.regions[0].compiled.payload
    rng = np.random.default_rng(0)
    values = [rng.integers(-128, 128, tensor.shape).astype(tensor.dtype) for tensor in payload.inputs]
    case = Case(payload, values, run(payload, values))
    with Device.for_payload(payload) as device:
        monkeypatch.setenv("ARM_EXT_NPU_TEST_DEVICE", str(device.folder))
        module = Module(tmp_path)
        assert_untouched(module.run(case))
        reason = module.status["regions"][0]["reason"]  # type: ignore[index]
        assert reason == "Linux's driver does not see that its commands read indices in region 0"
        module.close()
    assert refused_by_linux(payload) == "a gather or scatter whose indices lie in a region of their own"


def rare_streams() -> Iterator[list[int]]:
    """Elementwise operations with scalars and without, and DMA of up to two more dimensions with negative strides."""
    far = [5 << 16 | 0x18F, 0x4080, 50_000, 0 << 16 | 0x114]
    for broadcast, operand in itertools.product((0, 8, 0x80), (0, 4, 5, 6, 7, 8, 0x24, 0x25)):
        yield [*far, broadcast << 16 | 0x180, operand << 16 | 6]
        yield [*far, broadcast << 16 | 0x108, operand << 16 | 6]
    sizes = [3 << 16 | 0x132, 2 << 16 | 0x133]
    places = [0x4030, 100_000, 0x4031, 200_000, 0x4032, 64]
    strides = [word for i in range(4) for word in (0xFF << 16 | 0x4033 + i, (-16 - i) & 0xFFFFFFFF)]
    for mode in range(4):
        yield [mode << 25 | 3 << 16 | 0x130, 4 << 16 | 0x131, *sizes, *places, *strides, 16]


def streams() -> Iterator[list[int]]:
    """The streams of all operators, the same with an operand or data wrong here and there, and what is rare."""
    yield from rare_streams()
    rng = np.random.default_rng(3)
    for npu in REFUSED:
        for case in cases(npu).values():
            words = unwrap(case.payload.commands).words
            yield words.tolist()
            for _ in range(8):
                wrong = words.copy()
                at = rng.integers(len(words), size=1 + len(words) // 16)
                wrong[at] ^= rng.integers(1 << 16, size=len(at)).astype(np.uint32) << 16
                yield wrong.tolist()


def test_the_runtime_sees_a_stream_as_the_driver_does(tmp_path: Path):
    given = list(streams())
    (tmp_path / "in").write_bytes(b"".join(struct.pack(f"<{1 + len(s)}I", len(s), *s) for s in given))
    sources = [HERE / "npu_view_main.cc", NATIVE / "npu_driver_view.cc", NATIVE / "npu_stream.cc"]
    subprocess.run(["g++", "-std=c++17", "-O1", f"-I{NATIVE}", *sources, "-o", tmp_path / "view"], check=True)
    told = subprocess.run([tmp_path / "view", tmp_path / "in"], capture_output=True, text=True, check=True)
    preamble, *rows = [list(map(int, line.split())) for line in told.stdout.splitlines()]
    assert len(rows) == len(given)
    accepted = 0
    for stream, (written, resizes, *sizes) in zip(given, rows, strict=True):
        try:
            found = check([*preamble, *stream])
        except (RefusedError, StopIteration):
            continue
        accepted += 1
        assert sizes == found.sizes
        assert (written, resizes) == (sum(1 << region for region in found.written), found.resizes)
    assert accepted > len(given) // 2


def in_front(payload: Payload, words: list[int]) -> Payload:
    """The payload with words in front of its stream."""
    stream = unwrap(payload.commands).words
    count = len(stream) + len(words)
    action = 2 | (count >> 16) << 8 | (count & 0xFFFF) << 16  # of COP1: a stream of so many words follows
    head = payload.commands[: -4 * len(stream) - 4]
    return replace(
        payload, commands=head + struct.pack(f"<{1 + len(words)}I", action, *words) + stream.tobytes()
    )


@pytest.mark.parametrize(("region", "base"), [(1, 100_000), (5, 0)])
def test_buffers_are_as_the_driver_believes(
    region: int, base: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # The second input is a scalar, for which the NPU looks at no address; the driver does.
    graph = graph_of("sub_unfused")
    payload = payload_of(graph, "ethos-u65-256")
    payload = in_front(payload, [region << 16 | 0x18F, 0x4080, base])
    values = inputs_of(graph, "sub_unfused")
    case = Case(payload, values, run(payload, values))
    with Device.for_payload(payload) as device:
        monkeypatch.setenv("ARM_EXT_NPU_TEST_DEVICE", str(device.folder))
        module = Module(tmp_path)
        assert_ran(case, module.run(case, fail=True))
        module.close()


def test_the_driver_would_refuse_without_a_preamble():
    # Why there is one: were Vela or the driver to change, this would tell.
    for name, npu in (("sub_unfused", "ethos-u65-256"), ("residual", "ethos-u85-512")):
        with pytest.raises(RefusedError, match="is not set"):
            check(unwrap(payload_of(graph_of(name), npu).commands).words.tolist())
