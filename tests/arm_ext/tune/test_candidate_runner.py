# SPDX-License-Identifier: Apache-2.0
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule, TensorIntrin
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.tune import candidate_runner
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.candidate_runner import CandidateRunner, FailedError, Job, MeasurementSite
from arm_ext.tune.reference import Sample, sample
from schedules.select import kernel_named
from tests.arm_ext.tune.standins import A72, A76, tasks

_TASK = tasks()[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chain")


@pytest.fixture(scope="module")
def measure(folder: Path) -> Iterator[CandidateRunner]:
    made = CandidateRunner(MeasurementSite(A76, "virtual", counting=True, seconds=300, folder=folder))
    yield made
    made.close()


@pytest.fixture(scope="module")
def job(folder: Path) -> Job:
    return _job(folder / "task", sample(_TASK), _TASK.default)


def _job(path: Path, of: Sample, candidate: Candidate) -> Job:
    path.write_bytes(pickle.dumps(of))
    return Job(_TASK.workload, candidate, path)


def test_a_candidate_has_cycles_and_they_are_the_same_again(measure: CandidateRunner, job: Job) -> None:
    first, again = measure(job), measure(job)
    assert not first.failure, first.detail
    assert first == again
    assert first.cost is not None
    assert first.instructions is not None
    # Two rows of 31 x 9: some hundred multiply-adds of 4 lanes, on a core that begins at most 4 a cycle.
    assert first.instructions / 4 <= first.cost < 5000


def test_nothing_is_left_of_a_candidate(measure: CandidateRunner, job: Job, folder: Path) -> None:
    measure(job)
    assert not [path for path in folder.glob("*/*") if path.is_dir()]


def test_a_kernel_that_does_not_take_the_workload_fails_to_build(measure: CandidateRunner, job: Job) -> None:
    softmax = kernel_named("softmax_f32")
    result = measure(replace(job, candidate=Candidate(softmax.NAME, softmax.Params)))
    assert (result.cost, result.failure) == (None, "build")
    assert result.detail


def test_code_above_the_target_is_found_before_it_runs(
    job: Job, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = CandidateRunner(
        MeasurementSite(replace(A76, core=replace(A76.core, features=())), "virtual", True, 300, folder)
    )
    monkeypatch.setattr(candidate_runner, "build", lambda *_: (_product(16), ()))
    monkeypatch.setattr(made, "_target", A76.tvm_target())
    result = made(job)
    made.close()
    assert (result.failure, result.cost) == ("isa", None)
    assert "sdot" in result.detail


def test_a_board_without_the_features_is_no_fault_of_the_candidate(job: Job, folder: Path) -> None:
    made = CandidateRunner(MeasurementSite(A76, f"virtual:{A72.qemu_cpu}", True, 300, folder))
    result = made(job)
    made.close()
    assert (result.failure, result.cost) == ("board", None)
    assert "lacks dotprod" in result.detail


@T.prim_func(s_tir=True)
def _four_dots(pa: T.handle, pb: T.handle, pc: T.handle) -> None:
    a = T.match_buffer(pa, (4,), "int8", offset_factor=1)
    b = T.match_buffer(pb, (4, 4), "int8", offset_factor=1)
    c = T.match_buffer(pc, (4,), "int32", offset_factor=1)
    with T.sblock("root"):
        T.reads(c[0:4], a[0:4], b[0:4, 0:4])
        T.writes(c[0:4])
        for i, k in T.grid(4, 4):
            with T.sblock("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                c[vi] = c[vi] + T.cast(a[vk], "int32") * T.cast(b[vi, vk], "int32")


@T.prim_func(s_tir=True)
def _one_sdot(pa: T.handle, pb: T.handle, pc: T.handle) -> None:
    a = T.match_buffer(pa, (4,), "int8", offset_factor=1)
    b = T.match_buffer(pb, (4, 4), "int8", offset_factor=1)
    c = T.match_buffer(pc, (4,), "int32", offset_factor=1)
    with T.sblock("root"):
        T.reads(c[0:4], a[0:4], b[0:4, 0:4])
        T.writes(c[0:4])
        word = T.reinterpret(a.vload([0], "int8x4"), dtype="int32")
        c[T.ramp(0, 1, 4)] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("llvm.aarch64.neon.sdot.v4i32.v16i8"),
            c.vload([0], "int32x4"),
            T.reinterpret(T.broadcast(word, 4), dtype="int8x16"),
            b.vload([0, 0], "int8x16"),
            dtype="int32x4",
        )


_SDOT = "test_sdot_of_any_rows"
TensorIntrin.register(_SDOT, _four_dots, _one_sdot, override=True)


def _product(depth: int) -> tvm.tirx.PrimFunc:
    """Rows of a times rows of b, with the mistake of TVM's own SDOT intrinsic: it declares no strides of b.

    So it takes the 16 bytes from b's tile on for the tile's values. They are those if rows are 4 long alone.
    """

    @T.prim_func(s_tir=True)
    def product(
        a: T.Buffer((8, depth), "int8"), b: T.Buffer((8, depth), "int8"), c: T.Buffer((8, 8), "int32")
    ) -> None:
        for i, j, k in T.grid(8, 8, depth):
            with T.sblock("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    c[vi, vj] = 0
                c[vi, vj] = c[vi, vj] + T.cast(a[vi, vk], "int32") * T.cast(b[vj, vk], "int32")

    sch = Schedule(product)
    block = sch.get_sblock("product")
    i, j, k = sch.get_loops(block)
    (jo, ji), (ko, ki) = sch.split(j, [None, 4]), sch.split(k, [None, 4])
    sch.reorder(i, jo, ko, ji, ki)
    sch.decompose_reduction(block, ko)
    sch.tensorize(ji, _SDOT)
    return sch.mod["main"].with_attr("global_symbol", "product")


@pytest.mark.parametrize(("depth", "failure"), [(4, ""), (16, "wrong values")])
def test_the_intrinsic_that_reads_other_bytes_is_caught(
    measure: CandidateRunner, folder: Path, monkeypatch: pytest.MonkeyPatch, depth: int, failure: str
) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (2, 8, depth), dtype=np.int8)
    expected = a.astype(np.int32) @ b.astype(np.int32).T
    monkeypatch.setattr(candidate_runner, "build", lambda _w, _c, constants, _t: (_product(depth), constants))
    result = measure(_job(folder / f"sdot-{depth}", Sample((a,), (b,), expected, 0.0), _TASK.default))
    assert result.failure == failure, result.detail
    assert (result.cost is None) == bool(failure)


def test_a_board_that_is_away_is_waited_for_no_longer_than_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("arm_ext.tune.candidate_runner.sleep", waits.append)
    site = MeasurementSite(
        A76, "127.0.0.1:9", counting=False, seconds=300, folder=tmp_path, until=monotonic()
    )
    made = CandidateRunner(site)
    with pytest.raises(FailedError, match="no RPC server") as failed:
        made._connect()
    made.close()
    assert (failed.value.kind, waits) == ("board", [])
