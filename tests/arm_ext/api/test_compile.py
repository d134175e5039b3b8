# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import arm_ext
from arm_ext.api import digits, packing
from arm_ext.api.options import Emit
from arm_ext.common.distance import distance
from arm_ext.common.errors import UsageError
from arm_ext.package import MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST, SO, Selftest
from arm_ext.package.manifest import Precision
from arm_ext.pipeline.machine_code import CompiledProgram
from arm_ext.pipeline.phases import PHASES
from arm_ext.target.toolchain import LinkerRecord
from relay_passes import Rule
from schedules.kernels.gemm import gemm_f32
from tests.arm_ext.models import mlp, residual_cnn
from tests.arm_ext.models import model as onnx_model


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.long), "int8"])
def test_two_compiles_are_byte_identical(tmp_path: Path, precision: str):
    model = digits.model_path(precision)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        arm_ext.compile(model, output=tmp_path / name / "p.armpkg")
    first, second = (contents(tmp_path / name / "p.armpkg") for name in ("a", "b"))
    assert set(first) == {SO, MANIFEST, REPORT_JSON, REPORT_TEXT, SELFTEST}
    assert first == second


def test_resolved_features_are_stored(tmp_path: Path):
    manifest = arm_ext.compile(mlp(), "arm", tmp_path / "p", mattr="+i8mm,-fullfp16").package.manifest
    assert "i8mm" in manifest.target.features
    assert "fullfp16" not in manifest.target.features


def test_manifest_lists_inputs_and_outputs_in_order(tmp_path: Path):
    manifest = arm_ext.compile(residual_cnn(), output=tmp_path / "p").package.manifest
    assert [(t.name, t.shape, t.dtype) for t in manifest.inputs] == [("x", [1, 3, 9, 7], "float32")]
    assert [t.name for t in manifest.outputs] == ["y", "z"]


def test_each_phase_is_dumped(tmp_path: Path):
    arm_ext.compile(mlp(), output=tmp_path / "p", dump_phases=tmp_path / "dump")
    names = sorted(path.name for path in (tmp_path / "dump").glob("*.py"))
    phases = ("import", *(phase.name for phase in PHASES))
    assert names == [f"{number:02d}-{phase}.py" for number, phase in enumerate(phases)]
    assert "R.matmul" in (tmp_path / "dump" / names[0]).read_text()
    assert "R.memory.alloc_storage" in (tmp_path / "dump" / names[-1]).read_text()


def test_expected_is_close_to_the_sources_runtime(tmp_path: Path):
    arm_ext.compile(residual_cnn(), output=tmp_path / "p")
    selftest = Selftest.load(tmp_path / "p" / SELFTEST)
    for expected, source in zip(selftest.expected, selftest.source, strict=True):
        # Sums of at most 72 products; 1e-5 relative to the largest output is 80 roundings of binary32.
        np.testing.assert_allclose(expected, source, rtol=0, atol=1e-5 * np.abs(source).max())


def test_report_has_every_source_node(tmp_path: Path):
    model = residual_cnn()
    result = arm_ext.compile(model, output=tmp_path / "p")
    assert [row.source for row in result.report.nodes] == [node.name for node in model.graph.node]
    assert sum(row.mac_share for row in result.report.nodes) == pytest.approx(1)
    document = json.loads((tmp_path / "p" / REPORT_JSON).read_text())
    assert document == result.report.model_dump(mode="json")
    text = (tmp_path / "p" / REPORT_TEXT).read_text()
    assert all(call.anchor in text for call in result.report.calls)
    computed = {source for call in result.report.calls for source in call.sources}
    assert computed >= {row.source for row in result.report.nodes if row.mac_share}


def test_matmul_runs_on_the_hand_written_kernel(tmp_path: Path):
    report = arm_ext.compile(mlp(), output=tmp_path / "p").report
    rows = {row.source: row for row in report.nodes}
    assert {rows[name].kernel for name in ("fc1", "fc1/bias", "fc1/relu", "fc2")} == {"gemm_f32"}
    assert rows["fc1"].symbols == rows["fc1/relu"].symbols != rows["fc2"].symbols


def test_convolutions_run_on_hand_written_kernels_and_what_has_none_says_so(tmp_path: Path):
    rows = {row.source: row for row in arm_ext.compile(residual_cnn(), output=tmp_path / "p").report.nodes}
    assert {rows[name].kernel for name in ("conv", "relu")} == {"gemm_f32"}
    assert {rows[name].kernel for name in ("depthwise", "residual")} == {"depthwise_f32"}
    assert (rows["pool"].where, rows["pool"].kernel) == ("cpu", "pool")


def test_model_in_memory_is_left_as_it_was(tmp_path: Path):
    model = mlp("n")
    before = model.SerializeToString()
    arm_ext.compile(model, output=tmp_path / "p", shapes={"x": (9, 31)})
    assert model.SerializeToString() == before


@pytest.mark.parametrize("emit", ["package", "c-library"])
def test_the_source_s_runtime_runs_when_our_weights_are_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emit: Emit
):
    models: list[packing.Packing] = []
    held = []
    made, with_source = packing._made, packing.with_source

    def seen(packings: Sequence[packing.Packing], *args: Any) -> Any:
        models.extend(packings)
        return made(packings, *args)

    def completed(*args: Any) -> Selftest:
        for each in models:
            (variant,) = each.merged.variants
            modules = (each.merged.result.mod, variant.result.mod, variant.model.mod)
            held.append((sum(len(mod.functions) for mod in modules), variant.prepared))
        return with_source(*args)

    monkeypatch.setattr(packing, "_made", seen)
    monkeypatch.setattr(packing, "with_source", completed)
    result = arm_ext.compile(mlp(), output=tmp_path / "p", target="cortex-a76", emit=emit)
    assert held == [(0, None)]
    assert result.report.macs


def test_the_source_s_runtime_runs_when_the_program_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done = []
    export = CompiledProgram.export

    def exported(program: CompiledProgram, *args: Any) -> LinkerRecord:
        record = export(program, *args)
        done.append("export")
        return record

    monkeypatch.setattr(CompiledProgram, "export", exported)

    def noted(name: str) -> None:
        function = getattr(packing, name)

        def called(*args: Any, **named: Any) -> Any:
            result = function(*args, **named)
            done.append(name)
            return result

        monkeypatch.setattr(packing, name, called)

    for name in ("make_program", "make_selftest", "free_memory", "with_source"):
        noted(name)
    arm_ext.compile(mlp(), output=tmp_path / "p", target="cortex-a76")
    assert sorted(done[:3]) == ["export", "make_program", "make_selftest"]
    assert done[3:] == ["free_memory", "with_source"]


@pytest.mark.parametrize(
    ("precision", "mattr", "dtype", "step"),
    [("fp16", None, "float16", 2.0**-10), ("bf16", "+bf16", "bfloat16", 2.0**-7)],
)
def test_half_precision_computes_in_it_and_stays_in_bounds(
    tmp_path: Path, precision: Precision, mattr: str | None, dtype: str, step: float
):
    image = digits.held_out()[0][:1]
    package = arm_ext.compile(
        digits.model_path("fp32"),
        output=tmp_path / "p",
        mattr=mattr,
        precision=precision,
        inputs=[image],
        dump_phases=tmp_path,
    ).package
    assert f'dtype="{dtype}"' in next(tmp_path.glob("*-precision.py")).read_text()
    assert package.manifest.precision == precision
    assert {t.dtype for t in (*package.manifest.inputs, *package.manifest.outputs)} == {"float32"}
    (check,) = arm_ext.run(package, check=True).checks
    # Five layers with weights; no less than what the format costs on this machine.
    selftest = package.selftest()
    own = distance(selftest.expected[0], selftest.source[0]).relative
    assert check.bound == pytest.approx(max(step * 5**0.5, 2 * own))
    assert check.passed
    # Against binary32 it errs, though less than the bound, too.
    assert check.source is not None
    assert step / 2**10 < check.source.relative < check.bound


@pytest.mark.parametrize(
    ("model", "precision", "target", "mattr", "says"),
    [
        ("fp32", "fp16", "cortex-a72", None, "needs fullfp16, which cortex-a72 lacks"),
        ("fp32", "fp16", "arm", "-fullfp16", "needs fullfp16, which arm lacks"),
        ("fp32", "bf16", "cortex-a76", None, r"needs bf16, which cortex-a76 lacks; .*mattr=\+bf16"),
        ("int8", "fp16", "arm", None, "digits_int8 is quantised"),
    ],
)
def test_half_precision_is_refused(
    tmp_path: Path, model: digits.Precision, precision: Precision, target: str, mattr: str | None, says: str
):
    source, output = digits.model_path(model), tmp_path / "p"
    with pytest.raises(UsageError, match=says):
        arm_ext.compile(source, target, output, mattr=mattr, precision=precision)
    assert not (tmp_path / "p").exists()


def test_host_target_goes_the_same_way(tmp_path: Path):
    package = arm_ext.compile(mlp(), "host", tmp_path / "p").package
    assert package.manifest.target.qemu_cpu is None


# Forms that differ from opset to opset are imported in tests/arm_ext/frontends/onnx/test_opsets.py.
@pytest.mark.parametrize("opset", [9, 21, *(pytest.param(n, marks=pytest.mark.long) for n in (11, 13, 17))])
def test_opsets(tmp_path: Path, opset: int):
    model = mlp()  # its operators mean the same in all of them
    model.opset_import[0].version = opset
    assert arm_ext.compile(model, output=tmp_path / "p").package.manifest.macs == 2 * (31 * 9 + 9 * 7)


def test_int8_weights_of_a_float_product_stay_int8(tmp_path: Path):
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.integers(-127, 128, (31, 9)).astype(np.int8),
        "s": rng.uniform(0.01, 0.1, 9).astype(np.float32),
        "z": np.zeros(9, np.int8),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], name="weight", axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="product"),
    ]
    result = arm_ext.compile(onnx_model(nodes, {"x": [7, 31]}, ["y"], weights), output=tmp_path / "p")
    assert {row.kernel for row in result.report.nodes if row.source == "product"} == {"gemm_w8"}
    (check,) = arm_ext.run(result.package, check=True).checks
    assert check.passed
    # onnxruntime quantises the data of such a product, and is 0.7 % off.
    selftest = result.package.selftest()
    exact = selftest.inputs[0].astype(np.float64) @ (weights["w"] * weights["s"].astype(np.float64))
    assert np.abs(selftest.expected[0] - exact).max() < 1e-6 * np.abs(exact).max()
    # 279 weights and 9 scales, padded to tiles: as floats they would be 1116 bytes.
    assert result.package.manifest.memory.weight_bytes < 700


def test_what_compile_returns_stands_for_the_package(tmp_path: Path):
    result = arm_ext.compile(mlp(), output=tmp_path / "p")
    (found,) = arm_ext.run(result).outputs.values()
    (same,) = arm_ext.run(result.package).outputs.values()
    np.testing.assert_array_equal(found, same)
    for verb in (arm_ext.verify, lambda package: arm_ext.export_payload(package, tmp_path / "c")):
        with pytest.raises(UsageError, match="without npu"):
            verb(result)
    counts = arm_ext.bench(result)
    assert isinstance(counts, arm_ext.CountReport)
    assert counts.macs == result.report.macs
    assert arm_ext.compare(result, "onnxruntime").rows[0].instructions == counts.instructions


def test_a_wrong_rule_from_outside_is_found_by_the_self_test(tmp_path: Path):
    x = wildcard()
    wrong = Rule(
        name="half_a_root",
        pattern=is_op("relax.sqrt")(x),
        parts={"x": x},
        check=lambda match: match,
        rewrite=lambda match: relax.op.multiply(match.operands["x"], relax.const(0.5)),
    )
    root = onnx_model([helper.make_node("Sqrt", ["x"], ["y"])], {"x": [3, 8]}, ["y"])
    positive = np.full((3, 8), 2, np.float32)
    for rules in ([], [wrong]):
        package = tmp_path / f"p{len(rules)}"
        result = arm_ext.compile(root, output=package, rules=rules, inputs=[positive])
        (check,) = arm_ext.run(result, check=True).checks
        assert check.passed == (not rules)


def test_a_kernel_from_outside_has_a_name_of_its_own(tmp_path: Path):
    with pytest.raises(
        UsageError, match="gemm_f32 is already the name of a kernel of arm-ext; choose another NAME"
    ):
        arm_ext.compile(mlp(), output=tmp_path / "p", kernels=[gemm_f32])


def test_a_result_is_told_in_a_line(tmp_path: Path):
    said = repr(arm_ext.compile(mlp(), output=tmp_path / "p"))
    assert said.startswith(f"CompileResult('{tmp_path / 'p'}': ")
    assert "for arm, " in said
    assert len(said) < 300
    assert "\n" not in said


def test_a_package_is_no_model(digits_package: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="a package, which is compiled; run it by"):
        arm_ext.compile(digits_package, output=tmp_path / "p")
