# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
import tvm

import arm_ext
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.package import read_report
from arm_ext.report.calls import KernelCall
from arm_ext.report.page import render_all
from arm_ext.report.report import CompileReport
from arm_ext.target.profiles import Profile, resolve
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.database import Database
from arm_ext.tune.record import Record
from arm_ext.tune.space import space
from arm_ext.tune.task import Task
from arm_ext.tune.tuned import Tuned
from tests.arm_ext import models
from tests.arm_ext.tune import standins
from tests.arm_ext.tune.standins import A72, A76, tasks


def record(
    task: Task, candidate: Candidate | None = None, cost: float | None = 100.0, **fields: object
) -> Record:
    failure = "" if cost else "run"
    return standins.record(task, candidate, tvm=tvm.__version__, cost=cost, failure=failure, **fields)


def database(folder: Path, *records: Record) -> Path:
    Database(folder, create=True).append(records)
    return folder


def answer(folder: Path, task: Task, profile: Profile, without: tuple[str, ...] = ()) -> object:
    known = Tuned(folder, profile, without)(task.workload, profile.core)
    return known and known.params


def test_fastest_record_that_was_right_is_taken(tmp_path: Path):
    task = tasks()[0]
    one, two, wrong = space(task)[1:4]
    folder = database(
        tmp_path, record(task), record(task, one, 80.0), record(task, two, 90.0), record(task, wrong, None)
    )
    assert answer(folder, task, A76) == one.params
    assert answer(folder, task, A76, ("gemm_f32",)) is None
    assert answer(folder, tasks()[1], A76) is None


def test_records_with_dotprod_are_not_used_without(tmp_path: Path):
    with_dotprod, without = tasks(A76)[0], tasks(A72)[0]
    fast, slow = space(with_dotprod)[1], space(without)[2]
    assert with_dotprod.key == without.key
    assert "dotprod" in A76.features
    assert "dotprod" not in A72.features
    database(tmp_path / "one", record(with_dotprod, fast))
    with pytest.raises(UsageError, match=r"no record for cortex-a72 .* it has records for: cortex-a76"):
        Tuned(tmp_path / "one", A72)
    both = database(tmp_path / "both", record(with_dotprod, fast, 1.0), record(without, slow, 99.0))
    assert answer(both, with_dotprod, A76) == fast.params
    assert answer(both, without, A72) == slow.params
    # Nor where dotprod is taken off the same core.
    with pytest.raises(UsageError, match="no record for cortex-a76 with"):
        Tuned(both, resolve("cortex-a76", "-dotprod"))


def test_record_of_another_version_of_a_kernel_is_passed_over(tmp_path: Path):
    task = tasks()[0]
    stale = {"kernel": "gemm_f32", "params": {"rows": 7, "gone": 1}}
    folder = database(
        tmp_path,
        record(task, space(task)[1], 50.0),
        record(task, cost=1.0).model_copy(update={"candidate": stale}),
    )
    assert answer(folder, task, A76) == space(task)[1].params


def test_compile_takes_reports_and_pins_records(tmp_path: Path):
    first, second = tasks()
    point = space(first)[1]
    folder = database(tmp_path / "db", record(first), record(first, point, 80.0), record(second))
    result = arm_ext.compile(models.mlp(), "cortex-a76", tmp_path / "p", tuned=folder)
    pinned = {kernel.task: kernel for kernel in result.package.manifest.tuned}
    assert Candidate.decode(pinned[first.key].candidate) == point
    assert Candidate.decode(pinned[second.key].candidate) == second.default
    ids = {r.id for r in Database(folder).all()}
    assert {kernel.record for kernel in pinned.values()} < ids
    text = render_all(read_report(tmp_path / "p", CompileReport))
    assert f"record {pinned[first.key].record}: 80 cycles, by default 100 cycles" in text
    assert f"record {pinned[second.key].record}: 100 cycles, which is the default" in text


def test_records_that_decided_no_kernel_are_not_pinned(tmp_path: Path):
    first, second = tasks()
    known = Tuned(database(tmp_path, record(first), record(second)), A76)
    sources = [found.source for task in (first, second) if (found := known(task.workload, A76.core))]
    kernel = KernelCall(
        symbol="k", sources=("n",), kernel="gemm_f32", numerics="float", reason="", tuned=sources[1]
    )
    other = kernel.model_copy(update={"tuned": ""})
    assert [each.task for each in known.records("m", [other, kernel, kernel])] == [second.key]
    with pytest.raises(UsageError, match="none for m: tune that model first"):
        known.records("m", [other])


def test_command_says_how_many_kernels_are_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = database(tmp_path / "db", record(tasks()[0], space(tasks()[0])[1], 80.0))
    model = standins.model_file(tmp_path)
    arguments = ["--target", "cortex-a76", "--tuned", str(folder), "-o", str(tmp_path / "p")]
    assert invoke(["compile", str(model), *arguments]) == 0
    assert "1 of 2 kernels by records of the database" in capsys.readouterr().out


def test_compile_for_a_model_that_was_not_tuned_is_refused(tmp_path: Path):
    folder = database(tmp_path / "db", record(tasks()[0]))
    with pytest.raises(UsageError, match="none for test: tune that model first"):
        arm_ext.compile(models.residual_cnn(), "cortex-a76", tmp_path / "p", tuned=folder)
    assert not (tmp_path / "p").exists()
