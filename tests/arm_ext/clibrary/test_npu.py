# SPDX-License-Identifier: Apache-2.0
"""Regions of a C library on an NPU: behind a function of the caller, behind Linux's driver, and on the CPU instead."""

import ctypes
import json
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import arm_ext
from arm_ext import LibraryResult, NpuOptions
from arm_ext.clibrary.library import selftest_file
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.model import run as run_on_model
from arm_ext.ethosu.payload import Payload
from arm_ext.native.build import npu_linux
from tests.arm_ext import models, npu_models
from tests.arm_ext.clibrary.programs import HERE, MIXED, STRICT, Library, cc, cross, run
from tests.arm_ext.clibrary.test_several_models import saved, selftest
from tests.arm_ext.native.npu_device import Device
from tests.arm_ext.native.npu_regions import SYSTEM

SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
ERROR_NPU = 12
HOST = f"{platform.machine()}-linux-gnu"


class Memory(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("bytes", ctypes.c_size_t)]


class Tensor(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("memory", "offset", "bytes")]


class Region(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_size_t),
        ("accelerator", ctypes.c_char_p),
        ("insists", ctypes.c_int),
        *((name, ctypes.c_size_t) for name in ("payload_bytes", "commands", "command_bytes")),
        *((name, ctypes.c_size_t) for name in ("weights", "weight_bytes")),
        ("memories", Memory * 8),
        *((name, ctypes.c_size_t) for name in ("inputs", "outputs")),
        ("tensors", ctypes.POINTER(Tensor)),
    ]


_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(Region),
    ctypes.c_void_p,
    ctypes.c_void_p,
    _POINTERS,
    _POINTERS,
)


class Npu(ctypes.Structure):
    _fields_ = [("state", ctypes.c_void_p), ("run", _RUN)]


class Given(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


Answer = Callable[[Region, bytes, list[bytes], list[Any]], int]


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The same with a pool of threads, and its weights and payloads in a file."""
    folder = tmp_path_factory.mktemp("npu") / "pooled"
    options: dict[str, Any] = {"threads": 2, "weights": "file", "npu": MIXED}
    return Library.of(npu_models.mixed(), folder, "host", name="pooled", **options)


def regions_of(library: Library) -> int:
    assert library.package.manifest.npu is not None
    return len(library.package.manifest.npu.regions)


class Caller:
    """The library in this process, run on the inputs of its self-test with what answers its offers."""

    def __init__(self, library: Library, folder: Path) -> None:
        whole = ["-shared", "-Wl,--whole-archive", library.archive, "-Wl,--no-whole-archive", "-lm"]
        self._functions = ctypes.CDLL(str(cc(whole, folder / f"lib{library.name}.so")))
        self._library = library

    def run(self, answer: Answer) -> tuple[int, list[np.ndarray]]:
        """Return the status and the outputs."""
        info, name = self._library.info, self._library.name
        inputs, expected = _values(self._library)
        outputs = [np.full_like(value, 85) for value in expected]

        def offered(_: Any, region: Any, payload: int, scratch: Any, given: Any, wanted: Any) -> int:
            assert scratch is None  # but on a Cortex-M, it is not in the arena
            held = region.contents
            tensors = held.tensors[: held.inputs + held.outputs]
            read = [
                ctypes.string_at(given[i], tensor.bytes) for i, tensor in enumerate(tensors[: held.inputs])
            ]
            write = [
                (ctypes.c_char * tensor.bytes).from_address(wanted[i])
                for i, tensor in enumerate(tensors[held.inputs :])
            ]
            return answer(held, ctypes.string_at(payload, held.payload_bytes), read, write)

        npu = Npu(None, _RUN(offered))
        instance, arena = (ctypes.create_string_buffer(size + 64) for size in (1024, info.arena_bytes))
        self._instance = instance
        begin = -(-ctypes.addressof(arena) // 64) * 64
        status: int = self._functions[f"{name}_init"](
            instance, ctypes.c_void_p(begin), ctypes.c_size_t(info.arena_bytes), ctypes.byref(npu)
        )
        assert status == 0
        status = self._functions[f"{name}_run"](instance, _buffers(inputs), _buffers(outputs))
        return status, outputs

    def failure(self) -> str:
        """Return why the last run ended."""
        function = self._functions[f"{self._library.name}_failure"]
        function.restype = ctypes.c_char_p
        text = function(self._instance)
        assert isinstance(text, bytes)
        return text.decode()


def _values(library: Library) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the inputs and outputs of the self-test."""
    package = library.package
    data, at, found = (package.path / selftest_file(library.info)).read_bytes(), 0, []
    for tensors in (package.manifest.inputs, package.manifest.outputs):
        arrays = []
        for tensor in tensors:
            size = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
            arrays.append(np.frombuffer(data[at : at + size], tensor.dtype).reshape(tensor.shape).copy())
            at += -(-size // 64) * 64
        found.append(arrays)
    return found[0], found[1]


def _buffers(arrays: list[np.ndarray]) -> Any:
    return (Given * len(arrays))(*[Given(value.ctypes.data, value.nbytes) for value in arrays])


def on_the_model(_: Region, payload: bytes, inputs: list[bytes], outputs: list[Any]) -> int:
    """Compute a region by the functional model of the NPU."""
    region = Payload.from_bytes(payload)
    arrays = [
        np.frombuffer(data, tensor.dtype).reshape(tensor.shape)
        for data, tensor in zip(inputs, region.inputs, strict=True)
    ]
    for place, value in zip(outputs, run_on_model(region, arrays), strict=True):
        place[:] = value.tobytes()
    return 1


@pytest.mark.parametrize("refused", [(), (1, 3), (0, 1, 2, 3, 4)])
def test_the_outputs_are_the_same_whoever_computes_a_region(
    mixed: Library, tmp_path: Path, refused: tuple[int, ...]
) -> None:
    asked = []

    def answer(region: Region, *rest: Any) -> int:
        asked.append(region.number)
        return 0 if region.number in refused else on_the_model(region, *rest)

    status, outputs = Caller(mixed, tmp_path).run(answer)
    assert status == 0
    assert sorted(asked) == list(range(5)) == list(range(regions_of(mixed)))
    for found, expected in zip(outputs, _values(mixed)[1], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_the_npu_wrote_is_taken(mixed: Library, tmp_path: Path) -> None:
    def answer(_: Region, payload: bytes, inputs: list[bytes], outputs: list[Any]) -> int:
        for place in outputs:
            place[:] = bytes(len(place))
        return 1

    status, outputs = Caller(mixed, tmp_path).run(answer)
    assert status == 0
    pairs = zip(outputs, _values(mixed)[1], strict=True)
    assert any((found != expected).any() for found, expected in pairs)


def test_an_error_of_the_npu_ends_the_run(mixed: Library, tmp_path: Path) -> None:
    numbers = []

    def answer(region: Region, *_: Any) -> int:
        numbers.append(region.number)
        return -1

    caller = Caller(mixed, tmp_path)
    status, _ = caller.run(answer)
    assert status == ERROR_NPU
    assert len(numbers) == 1
    nodes, _, why = caller.failure().rpartition(": ")
    assert why == "a region failed on the NPU"
    assert nodes.split(", ")[0] in {node.name for node in npu_models.mixed().graph.node}


def test_the_description_of_a_region_is_that_of_its_payload(mixed: Library, tmp_path: Path) -> None:
    kinds = ("none", "weights", "scratch", "fast", "input", "output")

    def answer(region: Region, data: bytes, *_: Any) -> int:
        payload = Payload.from_bytes(data)
        assert (mixed.folder / "npu" / f"region-{region.number}.payload").read_bytes() == data
        assert region.accelerator.decode() == payload.accelerator
        assert data[region.commands :][: region.command_bytes] == payload.commands
        assert data[region.weights :][: region.weight_bytes] == payload.weights
        memories = {number: m for number, m in enumerate(region.memories) if kinds[m.kind] != "none"}
        assert {n: (kinds[m.kind], m.bytes) for n, m in memories.items()} == {
            memory.number: (memory.kind, memory.size) for memory in payload.regions
        }
        tensors = [(t.memory, t.offset, t.bytes) for t in region.tensors[: region.inputs + region.outputs]]
        stated = [(t.region, t.offset, t.size) for t in (*payload.inputs, *payload.outputs)]
        assert tensors == stated
        seen.append(region.number)
        return 0

    seen: list[int] = []
    assert Caller(mixed, tmp_path).run(answer)[0] == 0
    assert len(seen) == regions_of(mixed)


@pytest.mark.parametrize("library", ["mixed", "pooled"])
def test_the_c_is_clean_without_an_npu(request: pytest.FixtureRequest, tmp_path: Path, library: str) -> None:
    built: Library = request.getfixturevalue(library)
    assert "all outputs agree" in run(cc([*SANITIZED, *STRICT, *built.selftest], tmp_path / "selftest"))


def on_linux(library: Library, program: Path | None = None) -> list[str | Path]:
    """Return what a compiler takes to build the self-test, or another program, with Linux's driver."""
    archive = library.folder / f"lib{library.name}_npu_linux.a"
    example, main, *others = library.selftest
    on_npu = f"-D{library.name.upper()}_ON_NPU"
    return [*STRICT, on_npu, example, program or main, archive, *others]


@pytest.fixture
def device(mixed: Library, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    payload = Payload.from_bytes((mixed.folder / "npu" / "region-0.payload").read_bytes())
    with Device.for_payload(payload) as device:
        monkeypatch.setenv("ARM_EXT_NPU_TEST_DEVICE", str(device.folder))
        yield device
        assert device.held == (0, 0)


@pytest.mark.parametrize("library", ["mixed", "pooled"])
def test_regions_run_behind_linux_driver(
    request: pytest.FixtureRequest, device: Device, tmp_path: Path, library: str
) -> None:
    built: Library = request.getfixturevalue(library)
    # Before the archive: its object of the driver is left out, and that of another device taken.
    words = [npu_linux(HOST, SYSTEM), *on_linux(built)]
    assert "all outputs agree" in run(cc(words, tmp_path / "selftest"))
    assert device.asked["submit"] == regions_of(built)


def test_a_device_that_fails_leaves_a_region_to_the_cpu(
    mixed: Library, device: Device, tmp_path: Path
) -> None:
    device.crash = True
    program = cc([npu_linux(HOST, SYSTEM), *on_linux(mixed)], tmp_path / "selftest")
    assert "all outputs agree" in run(program)
    assert device.asked["submit"] == 1  # the device has failed for all


def test_without_a_device_the_cpu_computes_all(mixed: Library, tmp_path: Path) -> None:
    assert "all outputs agree" in run(cc(on_linux(mixed), tmp_path / "selftest"))


@pytest.mark.parametrize(
    ("mode", "why"),
    [("npu", "region 0 does not run on the NPU: no NPU"), ("no", "ARM_EXT_NPU is neither auto, npu nor cpu")],
)
def test_an_error_tells_its_reason(
    mixed: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, why: str
) -> None:
    program = cc(on_linux(mixed, HERE / "npu_status.c"), tmp_path / "status")
    monkeypatch.setenv("ARM_EXT_NPU", mode)
    assert why in json.loads(run(program))["error"]


def test_it_links_for_aarch64(tmp_path: Path) -> None:
    options = NpuOptions("ethos-u85-512", npu_ops=CONVOLUTIONS, on_npu_error="fail")
    library = Library.of(npu_models.whole(), tmp_path / "arm", "cortex-a55", name="whole", npu=options)
    # The archive itself asks for nothing more than without regions.
    assert library.package.manifest.library is not None
    assert set(library.package.manifest.library.requires) <= {"memcpy", "memset"}
    assert "all outputs agree" in run(cross(on_linux(library), tmp_path / "selftest"), "max")


def test_of_an_npu_without_linux_driver_there_is_none(tmp_path: Path) -> None:
    options = NpuOptions("ethos-u55-128", npu_ops=CONVOLUTIONS)
    library = Library.of(npu_models.whole(), tmp_path / "u55", "host", name="whole", npu=options)
    assert regions_of(library) == 1
    assert not [*library.folder.rglob("*npu_linux*")]
    assert "all outputs agree" in run(cc([*STRICT, *library.selftest], tmp_path / "selftest"))


def test_cmake_runs_the_selftest_on_the_npu(mixed: Library, tmp_path: Path) -> None:
    build = tmp_path / "build"
    for words in (["-S", mixed.folder / "example", "-B", build, "-D", "ON_NPU=ON"], ["--build", build]):
        subprocess.run(["cmake", *words], check=True, capture_output=True)
    assert "all outputs agree" in run(build / "selftest")
    assert (mixed.folder / "mixedConfig.cmake").read_text().count("add_library") == 2


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> LibraryResult:
    """Two models with the same regions, and another float head each."""
    folder = tmp_path_factory.mktemp("npu")
    other = npu_models.mixed()
    head = next(each for each in other.graph.initializer if each.name == "head_w")
    head.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(head)[::-1].copy(), head.name))
    paths = saved(folder, first=npu_models.mixed(), second=other)
    return arm_ext.compile_library(paths, "host", folder / "heads", npu=MIXED)


@pytest.mark.each_once
@pytest.mark.parametrize("refused", [(), (1, 3)])
@pytest.mark.parametrize("number", [0, 1])
def test_each_of_several_models_has_regions_of_its_own(
    heads: LibraryResult, tmp_path: Path, number: int, refused: tuple[int, ...]
) -> None:
    library = Library(heads.models[number].package)
    asked = []

    def answer(region: Region, payload: bytes, *rest: Any) -> int:
        asked.append(region.number)
        file = heads.path / "models" / library.name / "npu" / f"region-{region.number}.payload"
        assert file.read_bytes() == payload
        return 0 if region.number in refused else on_the_model(region, payload, *rest)

    status, outputs = Caller(library, tmp_path).run(answer)
    assert status == 0
    assert sorted(asked) == list(range(5)) == list(range(regions_of(library)))
    for found, expected in zip(outputs, _values(library)[1], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_equal_payloads_of_several_models_are_stored_once(heads: LibraryResult) -> None:
    archive = (heads.path / "libheads.a").read_bytes()
    payloads = [file.read_bytes() for file in (heads.path / "models" / "first" / "npu").glob("*.payload")]
    assert [archive.count(payload) for payload in payloads] == [1] * 5


def test_several_models_run_behind_linux_driver(heads: LibraryResult, device: Device, tmp_path: Path) -> None:
    flags, driver = ["-DFIRST_ON_NPU", "-DSECOND_ON_NPU"], heads.path / "libheads_npu_linux.a"
    words = [npu_linux(HOST, SYSTEM), *STRICT, *flags, *selftest(heads), driver, "-lpthread"]
    program = cc(words, tmp_path / "selftest")
    assert run(program).count("all outputs agree") == 2
    assert device.asked["submit"] == 10


def test_cmake_runs_the_selftests_of_several_models_on_the_npu(heads: LibraryResult, tmp_path: Path) -> None:
    build = tmp_path / "build"
    for words in (["-S", heads.path / "example", "-B", build, "-D", "ON_NPU=ON"], ["--build", build]):
        subprocess.run(["cmake", *words], check=True, capture_output=True)
    assert run(build / "selftest").count("all outputs agree") == 2  # on the CPU, without a device


def test_a_float_model_among_several_is_named(tmp_path: Path) -> None:
    paths = saved(tmp_path, first=npu_models.whole(), second=models.mlp())
    with pytest.raises(UsageError, match="npu needs a quantised model, and second has no quantised tensor"):
        arm_ext.compile_library(paths, "host", tmp_path / "out", npu="ethos-u65-256")
    assert not (tmp_path / "out").exists()
