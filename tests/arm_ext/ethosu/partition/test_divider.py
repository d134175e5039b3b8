# SPDX-License-Identifier: Apache-2.0
"""Division of a model with unsupported operators, attention and a float head, and of a fully supported one."""

import json
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api import digits
from arm_ext.api.compile import STEPS
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.ethosu.partition.divider import Divider, Offloaded
from arm_ext.ethosu.payload import Payload
from arm_ext.package import RegionValues
from arm_ext.report.page import render_all as render
from arm_ext.report.report import CompileReport, build_report
from tests.arm_ext import npu_models
from tests.arm_ext.ethosu.ops.resize_models import resized
from tests.arm_ext.ethosu.partition.divided import prepare, prepared
from tests.arm_ext.models import mlp


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> arm_ext.CompileResult:
    # Compared with so slow a CPU, the convolutions are four times as fast, and attention is three times as slow.
    options = NpuOptions("ethos-u55-128", cpu_mhz=200)
    output = tmp_path_factory.mktemp("mixed") / "p"
    steps: list[str] = []
    result = arm_ext.compile(npu_models.mixed(), "cortex-a55", output, npu=options, progress=steps.append)
    assert tuple(steps) == STEPS
    return result


def test_every_node_of_the_model_is_in_the_report(mixed: arm_ext.CompileResult):
    nodes = {node.name for node in npu_models.mixed().graph.node}
    assert {row.source for row in mixed.report.nodes} == nodes
    rows = {source for call in mixed.report.calls for source in call.sources}
    assert rows <= nodes
    text = render(mixed.package.report(CompileReport))
    on_cpu = [call for call in mixed.report.calls if mixed.report.region_of(call) is None]
    assert all(f"\n{call.anchor} " in text for call in on_cpu)
    assert mixed.report.npu is not None
    assert text.count("\nNPU region ") == len(mixed.report.npu.regions)


def test_each_node_says_where_it_runs_or_why_not_on_the_npu(mixed: arm_ext.CompileResult):
    rows = {row.source: row for row in mixed.report.nodes}
    assert rows["conv"].where == "npu"
    assert rows["conv"].reason.startswith("NPU region 0; ")
    assert rows["conv"].kernel == "gemm_s8_sdot"  # model.so contains it nevertheless
    expected = {
        "norm": "we have no TOSA form of this operator (expected one of those listed in docs, Ethos-U limits, found ",
        "query": "the hand-over costs more than its region saves (expected ",
        "softmax": "it takes longer on the NPU, where its region does not gain (expected ",
        "head": "an operand is not quantised (expected integers, found float); quantise it, or what it reads",
    }
    for node, reason in expected.items():
        assert rows[node].where == "cpu"
        assert rows[node].reason.startswith(f"not ethos-u55-128: {reason}")


def test_every_rejection_has_a_limit_a_value_and_what_would_make_it_fit(mixed: arm_ext.CompileResult):
    npu = mixed.report.npu
    assert npu is not None
    assert {f.operator for f in npu.rejections} >= {
        "layer_norm",
        "softmax",
        "linear",
        "matmul",
        "quantize",
        "dequantize",
    }
    assert [f for f in npu.rejections if not (f.nodes and f.reason and f.limit and f.actual and f.hint)] == []
    text = " ".join(render(mixed.package.report(CompileReport)).split())
    assert all(
        f"{f.operator}: {f.reason} (expected " in text for f in npu.rejections if f.operator == "layer_norm"
    )
    assert all(f.reason in text for f in npu.rejections if not f.unfit)


def test_nodes_on_the_cpu_are_counted_by_reason_with_their_share_of_macs(mixed: arm_ext.CompileResult):
    npu = mixed.report.npu
    assert npu is not None
    inside = {node for region in npu.regions for node in region.sources}
    share = {row.source: row.mac_share for row in mixed.report.nodes}
    kept = sum(reason.mac_share for reason in npu.reasons)
    assert kept == pytest.approx(sum(share[node] for node in share if node not in inside))
    (head,) = [reason for reason in npu.reasons if reason.reason == "an operand is not quantised"]
    assert (head.nodes, head.mac_share) == (1, pytest.approx(share["head"]))


def test_velas_estimates_stand_beside_source_nodes(mixed: arm_ext.CompileResult):
    npu = mixed.report.npu
    assert npu is not None
    for region in npu.regions:
        assert sum(layer.cycles for layer in region.layers) == region.cycles
        for layer in region.layers:
            assert layer.sources
            assert set(layer.sources) <= set(region.sources)


def test_manifest_and_files_agree(mixed: arm_ext.CompileResult):
    package = arm_ext.load_package(mixed.package.path)
    npu = package.manifest.npu
    assert npu is not None
    assert package.manifest.numerics == "tosa"
    assert (npu.accelerator, npu.system_config) == ("ethos-u55-128", "Ethos_U55_High_End_Embedded")
    for region in npu.regions:
        payload = Payload.from_bytes(package.read(region.payload.path))
        assert [(t.name, list(t.shape), t.dtype) for t in payload.inputs] == [
            (t.name, t.shape, t.dtype) for t in region.inputs
        ]
        values = RegionValues.from_bytes(package.read(region.values.path))
        assert [value.shape for value in values.outputs] == [t.shape for t in payload.outputs]
        assert region.memory.scratch_bytes == payload.region_size("scratch") > 0
    written = sorted(path.name for path in (package.path / "npu").iterdir())
    assert written == sorted(
        f"region-{i}.{kind}" for i in range(len(npu.regions)) for kind in ("npz", "payload", "tosa")
    )


def test_the_package_computes_what_its_regions_do(mixed: arm_ext.CompileResult):
    selftest = mixed.package.selftest()
    npu = mixed.package.manifest.npu
    assert npu is not None
    values = RegionValues.from_bytes(mixed.package.read(npu.regions[0].values.path))
    scale, zero_point = npu_models.ACTIVATION
    image = np.clip(np.rint(selftest.inputs[0] / np.float32(scale)) + zero_point, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(np.sort(values.inputs[0].ravel()), np.sort(image.ravel()))


def test_two_compiles_give_the_same_bytes(tmp_path: Path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        options = NpuOptions("ethos-u65-256", fail_on_fallback=True)
        arm_ext.compile(npu_models.whole(), "cortex-a55", folder, npu=options)
    files = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders]
    assert len(files[0]) == 8
    assert files[0] == files[1]


def test_a_float_model_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"^npu needs a quantised model, .*; quantize FILE\.npz"):
        arm_ext.compile(mlp(), output=tmp_path / "p", npu="ethos-u55-128")
    assert not list(tmp_path.iterdir())


def test_only_what_is_wished_for_goes_to_the_npu():
    model = prepared("mixed")
    divided = model.divide(Divider(NpuOptions("ethos-u85-512", npu_ops=("Softmax", "query"))))
    assert [set(region.operators) for region in divided.report.regions] == [{"linear"}, {"softmax"}]
    kept = {f.operator: f.why() for f in divided.report.rejections}
    assert kept["conv2d"] == "--npu-ops does not name it (expected a name in --npu-ops, found conv2d); add it"
    sent = model.divide(Divider(NpuOptions("ethos-u85-512", cpu_mhz=25, cpu_ops=("conv",))))
    kept = {f.operator: f.why() for f in sent.report.rejections}
    assert kept["conv2d"].startswith("--cpu-ops keeps it on the CPU (expected none of --cpu-ops, found conv)")


def test_a_larger_hand_over_keeps_a_small_region_on_the_cpu():
    # Compared with so slow a CPU, the convolutions save 1,100 us and attention 470 us.
    left, kept = [], []
    for handover in (100, 700, 1500):
        options = NpuOptions("ethos-u55-128", cpu_mhz=25, handover_us=handover)
        report = prepared("mixed").divide(Divider(options)).report
        assert report.handover_us == handover
        assert all(handover < region.npu_us < region.cpu_us for region in report.regions)
        left.append([region.operators[1] for region in report.regions])
        kept.append(
            {f.operator for f in report.rejections if f.reason.startswith("the hand-over costs more")}
        )
    assert left == [["conv2d", "linear"], ["conv2d"], []]
    assert not kept[0]
    assert kept[1] >= {"linear", "softmax"}
    assert kept[2] - kept[1] == {"conv2d"}


def test_fail_on_fallback_tells_why_and_weighs_nothing():
    model = prepared("mixed")
    with pytest.raises(ModelError) as error:
        model.divide(Divider(NpuOptions("ethos-u55-128", fail_on_fallback=True)))
    text = str(error.value)
    assert "2 operators would run on the CPU" in text
    assert "layer_norm" in text
    assert "hand-over" not in text
    watched = NpuOptions("ethos-u55-128", fail_on_fallback=True, fallback_ops=("Softmax", "MatMul"))
    with pytest.raises(ModelError, match="1 operator would run"):
        model.divide(Divider(watched))
    prepared("whole").divide(Divider(NpuOptions("ethos-u55-128", fail_on_fallback=True)))


def test_a_budget_of_sram_is_aimed_at_and_held():
    model = prepared("whole")
    free = model.divide(Divider(NpuOptions("ethos-u55-128", fail_on_fallback=True)))
    peak = _sram(free)
    for budget in (peak, peak - 1):
        held = model.divide(Divider(NpuOptions("ethos-u55-128", fail_on_fallback=True, sram_budget=budget)))
        assert _sram(held) <= budget
    with pytest.raises(ModelError, match="exceeds --sram-budget 16 ") as error:
        model.divide(Divider(NpuOptions("ethos-u55-128", fail_on_fallback=True, sram_budget=16)))
    _, *layers = str(error.value).splitlines()
    assert any(node in layer for layer in layers for node in model.model.nodes)


def _sram(divided: Offloaded) -> int:
    (peak,) = [m.peak_bytes for m in divided.report.regions[0].memories if m.name == "Sram"]
    return peak


def test_what_linux_does_not_take_is_in_the_report():
    model = prepare(resized((1, 8, 6, 6), (12, 12), "half_pixel"))
    said = "Linux's driver does not take RESIZE: there the CPU computes region 0."
    for npu, refused in (("ethos-u85-512", "RESIZE"), ("ethos-u65-256", "")):
        report = model.divide(Divider(NpuOptions(npu, cpu_mhz=1))).report
        assert {region.refused_by_linux for region in report.regions} == {refused}
        page = render(
            build_report("m", "cortex-a55", model.model.nodes, {}, [], model.options.profile.core, npu=report)
        )
        assert (said in page) == bool(refused)


def test_the_npus_clock_is_that_of_the_system_configuration():
    model = prepared("whole")
    for options, mhz in (
        (NpuOptions("ethos-u55-128"), 500),
        (NpuOptions("ethos-u55-128", system_config="Ethos_U55_Deep_Embedded"), 200),
        (NpuOptions("ethos-u55-128", npu_mhz=123), 123),
    ):
        assert model.divide(Divider(options)).report.npu_mhz == mhz


def test_report_survives_a_round_trip(mixed: arm_ext.CompileResult):
    written = json.loads((mixed.package.path / "report.json").read_text())
    assert type(mixed.report).model_validate(written) == mixed.report


def test_a_package_without_regions_has_no_folder_for_them(tmp_path: Path) -> None:
    folder = tmp_path / "digits.armpkg"
    for npu_ops in ((), ("conv2d",)):  # the second package replaces the first
        options = NpuOptions("ethos-u55-128", npu_ops=npu_ops)
        package = arm_ext.compile(digits.model_path(), "cortex-a55", folder, npu=options).package
        assert package.manifest.npu is not None
        assert (folder / "npu").exists() == bool(package.manifest.npu.regions) == bool(npu_ops)
