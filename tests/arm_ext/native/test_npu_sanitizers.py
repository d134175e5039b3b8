# SPDX-License-Identifier: Apache-2.0
"""The runtime under address, undefined-behaviour and thread sanitizers: models, threads, regions and faults."""

import errno
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import arm_ext.native
from arm_ext.native import build
from tests.arm_ext.native.npu_device import Device, Fault
from tests.arm_ext.native.npu_regions import SYSTEM, Case
from tests.arm_ext.native.test_npu_payload import mutants

NATIVE = Path(arm_ext.native.__file__).parent
HARNESS = Path(__file__).with_name("npu_harness.cc")
THREADS, ROUNDS = 4, 6
CODES = {"i": 0, "u": 1, "b": 6}  # of DLPack

Run = Callable[..., tuple[int, int, int]]


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the harness and two models, all built with a sanitizer."""
    assert shutil.which("g++"), "g++ is missing; scripts/setup.sh test installs it"
    folder = tmp_path_factory.mktemp("sanitized")
    flags = ["-std=c++17", "-O1", "-g", f"-fsanitize={request.param}", "-fno-sanitize-recover=all"]
    flags += [*build.ffi_includes(), f"-I{NATIVE}"]
    sources = [p for p in sorted(NATIVE.glob("npu_*.cc")) if p.name != "npu_system.cc"]
    model = ["-shared", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", *map(str, sources)]
    subprocess.run(["g++", *flags, *model, SYSTEM, "-o", folder / "first.so"], check=True)
    subprocess.run(
        ["g++", *flags, "-rdynamic", HARNESS, "-o", folder / "harness", "-ldl", "-lpthread"], check=True
    )
    shutil.copy(folder / "first.so", folder / "second.so")
    return folder


@pytest.fixture
def run(built: Path, npu_device: Device, tmp_path: Path) -> Run:
    """Calls of the harness, which returns how many regions ran on the NPU, on the CPU, and raised."""

    def call(*cases: Case | tuple[Case, bytes], rounds: int = ROUNDS) -> tuple[int, int, int]:
        files = [tmp_path / str(i) for i in range(len(cases))]
        for file, case in zip(files, cases, strict=True):
            file.write_bytes(
                _case(*case) if isinstance(case, tuple) else _case(case, case.payload.to_bytes())
            )
        harness = [built / "harness", THREADS, rounds, built / "first.so", built / "second.so", "--", *files]
        done = _run([str(word) for word in harness])
        if (
            "unexpected memory mapping" in done.stderr
        ):  # GCC before 14 on a kernel that scatters addresses widely
            done = _run(["setarch", "-R", *map(str, harness)])
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        found = re.fullmatch(r"npu (\d+) cpu (\d+) errors (\d+)\n", done.stdout)
        assert found, done.stdout
        npu, cpu, errors = map(int, found.groups())
        assert npu + cpu + errors == THREADS * rounds * len(cases)
        return npu, cpu, errors

    return call


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


def _case(case: Case, payload: bytes) -> bytes:
    data = struct.pack("<III", len(payload), len(case.inputs), len(case.outputs)) + payload
    for value in (*case.inputs, *case.outputs):
        shape = (*value.shape, *[0] * (6 - value.ndim))
        kind = (CODES[value.dtype.kind], 8 * value.itemsize, value.ndim, 0)
        data += struct.pack("<4I6qQ", *kind, *shape, value.nbytes) + np.ascontiguousarray(value).tobytes()
    return data


def test_models_and_threads_share_a_device(
    run: Run, npu_device: Device, npu_case: Case, larger_npu_case: Case
):
    assert run(npu_case, larger_npu_case) == (2 * THREADS * ROUNDS, 0, 0)
    assert npu_device.asked["open"] == 2


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ("bo_create", Fault(errno.ENOMEM, after=3, times=5)),
        ("submit", Fault(errno.EBUSY, after=4, times=9)),
        ("export_sync", Fault(errno.EMFILE, after=4, times=9)),
        ("submit", Fault(errno.ENODEV, after=7)),
        ("commands_create", Fault(errno.EINVAL, after=2)),
    ],
)
def test_faults_while_others_run(
    request_: str, fault: Fault, run: Run, npu_device: Device, npu_case: Case, larger_npu_case: Case
):
    npu_device.faults[request_] = replace(fault)
    npu, cpu, errors = run(npu_case, larger_npu_case)
    # Threads 1 and 3 want errors, 0 and 2 the CPU.
    assert npu > 0
    assert cpu + errors > 0


def test_payloads_that_lie(run: Run, npu_case: Case):
    lies = [(npu_case, data) for data in mutants(npu_case.payload)]
    npu, cpu, errors = run(*lies, rounds=1)
    assert errors > cpu
    assert npu >= 0
