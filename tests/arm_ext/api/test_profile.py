# SPDX-License-Identifier: Apache-2.0
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import arm_ext
from arm_ext.api import digits
from arm_ext.api.bench import bench
from arm_ext.api.profile import profile
from arm_ext.board.model import LoadedModel
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.measure.profile import CountReport
from arm_ext.package import Package
from arm_ext.report.profile.record import ProfileReport
from arm_ext.report.profile.views import text
from tests.arm_ext.board.processes import processes_of


@pytest.fixture(scope="module")
def counted(digits_package: Path) -> ProfileReport:
    return profile(digits_package)


@pytest.fixture(scope="module")
def for_host(tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("host") / "digits.armpkg"
    return arm_ext.compile(digits.model_path(), "host", folder).package


@pytest.fixture(scope="module")
def timed(for_host: Package) -> ProfileReport:
    return profile(for_host, "local")


def test_calls_sum_up_to_the_whole(counted: ProfileReport, digits_package: Path) -> None:
    whole = bench(digits_package)
    assert isinstance(whole, CountReport)
    costs = [call.counts for call in counted.calls if call.counts is not None]
    assert counted.instructions == pytest.approx(whole.instructions, rel=0.001)
    assert counted.around.instructions is not None
    assert sum(cost.instructions for cost in costs) + counted.around.instructions == counted.instructions
    # What is glued to one block may differ where blocks of several calls are no longer counted together.
    assert counted.around.cycles_with_caches is not None
    core = sum(cost.estimated_cycles for cost in costs) + counted.around.cycles_with_caches
    assert core == pytest.approx(whole.estimated_cycles, rel=0.05)
    assert sum(call.share for call in counted.calls) + counted.around.share == pytest.approx(1)


def test_calls_name_the_layers_in_order(counted: ProfileReport) -> None:
    layers = [call.anchor for call in counted.calls]
    wanted = ["conv1", "conv2/depthwise", "conv2/pointwise", "conv3", "logits"]
    assert [layer for layer in layers if layer in wanted] == wanted
    assert counted.costliest()[0].anchor == "conv3"
    by_name = {call.anchor: call for call in counted.calls}
    assert by_name["conv3"].macs == 294_912
    assert by_name["conv3"].reads == (by_name["conv2/pointwise"].index,)


def test_a_call_tells_its_hot_loop(counted: ProfileReport) -> None:
    hot = next(call.counts.hot for call in counted.calls if call.anchor == "conv3" and call.counts)
    assert hot is not None
    assert any(line.startswith("sdot") for line in hot.instructions)
    assert counted.limits is not None
    assert {roof.name for roof in counted.limits.roofs} >= {"sdot"}


def test_a_call_tells_what_else_would_compute_it(counted: ProfileReport) -> None:
    call = next(call for call in counted.calls if call.anchor == "conv3")
    (other,) = call.alternatives
    assert other.kernel != call.kernel or other.params
    assert other.selection_cost > 0
    assert other.ratio > 0.9
    assert any(name.endswith(" declined") for name, _ in call.why)


def test_layers_are_bound_by_what_they_were_made_for(tmp_path: Path) -> None:
    """A product whose tiles stay in registers, one with a vector whose weights come from memory, and a copy."""
    inputs = {"a": [64, 64], "v": [1, 1024], "c": [512, 512], "d": [512, 512]}
    weights = {"w": (64, 64), "wide": (1024, 1024)}
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["gemm_y"], "gemm"),
        helper.make_node("MatMul", ["v", "wide"], ["gemv_y"], "gemv"),
        helper.make_node("Concat", ["c", "d"], ["copy_y"], "copy", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None) for node in nodes],
        [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    found = profile(tmp_path / "m.onnx", target="neoverse-n2")
    assert {call.anchor: call.counts.bound for call in found.calls if call.counts is not None} == {
        "gemm": "vector pipes",
        "gemv": "memory",
        "copy": "memory",
    }


def test_the_critical_path_is_of_each_calls_busiest_thread(tmp_path: Path) -> None:
    """A product that is divided among threads, and one that is too small to be."""
    shapes = {"w": (128, 64), "v": (64, 4)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], "large"),
            helper.make_node("MatMul", ["a", "v"], ["y"], "small"),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [64, 128])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [64, 4])],
        [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    built = arm_ext.compile(tmp_path / "m.onnx", "cortex-a76", tmp_path / "m.armpkg").package
    alone, found = profile(built), profile(built, threads=3)
    costs = {call.anchor: call.counts for call in found.calls if call.counts is not None}
    large, small = costs["large"], costs["small"]
    assert large.busiest is not None
    assert 1 / 3 <= large.busiest < 0.45
    assert small.busiest == 1
    between = found.around.cycles_with_caches or 0
    assert found.critical_cycles == large.critical_cycles + small.cycles_with_caches + between
    assert (alone.threads, alone.critical_cycles, found.threads) == (1, None, 3)
    assert alone.cycles_with_caches == found.cycles_with_caches
    lines = text(found).splitlines()
    assert any(f"{found.critical_cycles:,} cycles on the critical path" in line for line in lines)
    assert any("large" in line and f"  {large.critical_cycles:,}  " in line for line in lines)
    assert "on 3 threads" not in text(alone)


def test_a_real_board_gives_times(timed: ProfileReport) -> None:
    assert timed.kind == "times"
    assert timed.median_us is not None
    assert timed.around.us is not None
    times = [call.times for call in timed.calls if call.times is not None]
    assert len(times) == len(timed.calls) > 5
    assert all(time.median_us >= 0 for time in times)
    parts = sum(time.median_us for time in times) + timed.around.us
    assert parts == pytest.approx(max(parts, timed.median_us))
    conditions = timed.conditions
    assert {"threads", "counters", "reading the clock"} <= set(conditions)
    assert conditions["cores"] == "not pinned"
    # Containers and virtual machines have few of them; none is passed over.
    absent = conditions.get("absent in sysfs", "").split(", ")
    told = [name for name in ("core types", "governor", "clock", "temperature") if name in conditions]
    assert sorted([*told, *filter(None, absent)]) == ["clock", "core types", "governor", "temperature"]


def test_an_inference_is_pinned_to_a_core(for_host: Package) -> None:
    core = max(os.sched_getaffinity(0))
    found = profile(for_host, "local", cores=[core])
    assert found.conditions["cores"] == f"pinned to {core}"
    assert found.conditions["threads"] == "1"


def test_a_board_that_goes_away_in_the_middle_is_told(digits_package: Path) -> None:
    def end_board(step: str) -> None:
        if step == "measure":
            os.killpg(processes_of(os.getpid())[-1], signal.SIGKILL)

    kept: list[ProfileReport] = []
    with pytest.raises(EnvError, match="went away in the middle"):
        profile(digits_package, progress=end_board, keep=kept.append)
    assert not kept


def test_times_taken_before_a_board_goes_away_are_kept(
    for_host: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_calls, batches = LoadedModel.time_calls, []

    def end_board_after_two(model: LoadedModel, *args: Any, **options: Any) -> Any:
        if len(batches) == 2:
            os.killpg(processes_of(os.getpid())[-1], signal.SIGKILL)
        batches.append(None)
        return time_calls(model, *args, **options)

    monkeypatch.setattr(LoadedModel, "time_calls", end_board_after_two)
    kept: list[ProfileReport] = []
    with pytest.raises(EnvError, match="went away in the middle"):
        profile(for_host, "local", keep=kept.append)
    (report,) = kept
    assert report.broken_off is not None
    assert report.broken_off.text().startswith("50 of 100 inferences measured: board local went away")
    assert all(call.times is not None for call in report.calls)


def test_a_virtual_board_has_no_cores(digits_package: Path) -> None:
    with pytest.raises(UsageError, match="--cores: a virtual board"):
        profile(digits_package, cores=[0])


def test_times_are_of_as_many_threads_as_asked_for(for_host: Package) -> None:
    assert profile(for_host, "local", threads=2).conditions["threads"] == "2"
    with pytest.raises(UsageError, match="start it with TVM_NUM_THREADS=2"):
        profile(for_host, "127.0.0.1:1", threads=2)


def test_a_model_file_is_compiled_first(counted: ProfileReport) -> None:
    found = profile(digits.model_path())
    assert found.target == "arm"
    assert [call.symbol for call in found.calls] == [call.symbol for call in counted.calls]


def test_a_package_takes_no_target(digits_package: Path) -> None:
    with pytest.raises(UsageError, match="--target: a package is already compiled"):
        profile(digits_package, target="neoverse-n2")
