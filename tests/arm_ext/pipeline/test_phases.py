# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from tvm.ir import Call, Op

from arm_ext.api import digits
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.memory import memory_of
from arm_ext.pipeline.phases import PHASES, PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import resolve
from relay_passes.ir.sources import bindings_of, unnamed_calls
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.winograd import winograd_f32
from schedules.numerics import qdq, tosa
from tests.arm_ext.models import mlp, model, residual_cnn

MODELS = {
    "mlp": mlp,
    "residual_cnn": residual_cnn,
    "digits_fp32": lambda: digits.model_path("fp32"),
    "digits_int8": lambda: digits.model_path("int8"),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_call_without_a_source_in_any_phase(name: str):
    imported = import_onnx(MODELS[name]())
    results = dict(run_phases(PhaseResult(imported.mod), PhaseOptions(resolve("arm"))))
    unnamed = {phase: unnamed_calls(result.mod) for phase, result in results.items()}
    assert unnamed == {phase.name: [] for phase in PHASES}
    # Each kernel says which nodes it came from, and they exist.
    kernels = results["plan"].kernels
    assert all(kernel.sources and set(kernel.sources) <= set(imported.nodes) for kernel in kernels)


def test_macs_by_node():
    # 5x4 outputs (9x7, stride 2): conv 8 * 3*3*3 each, depthwise 8 * 3*3; classifier 8 * 5.
    macs = count_macs(import_onnx(residual_cnn()).mod)
    assert macs == {"conv": 5 * 4 * 8 * 27, "depthwise": 5 * 4 * 8 * 9, "classifier": 8 * 5}


def test_memory_of_a_known_model():
    results = dict(run_phases(PhaseResult(import_onnx(mlp()).mod), PhaseOptions(resolve("arm"))))
    memory = memory_of(results["lower"].mod, results["plan"].mod)
    hidden, out = 2 * 9 * 4, 2 * 7 * 4
    # The planner rounds nothing here: one activation between the layers, and the output.
    assert memory.peak_activation_bytes - memory.workspace_bytes == hidden + out
    assert memory.widest[0].live_bytes == hidden + out
    # Packing may pad panels of B; it never drops weights.
    assert memory.weight_bytes >= 4 * (31 * 9 + 9 + 9 * 7)


def test_both_numerics_of_integers_have_the_same_kernels():
    kernels = {}
    for numerics in (qdq.NUMERICS, tosa.NUMERICS):
        options = PhaseOptions(resolve("neoverse-n2"), numerics=numerics)
        planned = last(run_phases(PhaseResult(import_onnx(digits.model_path("int8")).mod), options))
        kernels[numerics.name] = {kernel.sources: kernel.kernel for kernel in planned.kernels}
    heavy = {sources: name for sources, name in kernels["qdq"].items() if name.endswith(("_mmla", "_s8"))}
    assert len(heavy) > 2
    assert heavy.items() <= kernels["tosa"].items()


@pytest.mark.parametrize("name", ["digits_fp32", "digits_int8"])
def test_layout_is_settled_before_integers_are(name: str):
    results = dict(run_phases(PhaseResult(import_onnx(MODELS[name]()).mod), PhaseOptions(resolve("arm"))))
    phases = list(results)
    assert phases.index("canonicalize") < phases.index("layout") < phases.index("integerize")
    for phase in ("layout", "integerize"):
        calls = [b.value for b in bindings_of(results[phase].mod["main"]) if isinstance(b.value, Call)]
        convolutions = [call for call in calls if call.op == Op.get("relax.nn.conv2d")]
        assert {str(call.attrs.data_layout) for call in convolutions} == {"NHWC"}
        assert not any(call.op == Op.get("relax.permute_dims") for call in calls)
    assert results["plan"].kept_layout == ()


@pytest.mark.parametrize(
    ("without", "kernel"), [((), winograd_f32.NAME), ((winograd_f32.NAME,), gemm_f32.NAME)]
)
def test_a_kernel_can_be_switched_off(without: tuple[str, ...], kernel: str):
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    weights = {"w": np.ones((32, 32, 3, 3), np.float32)}
    options = PhaseOptions(resolve("arm"), without=without)
    imported = import_onnx(model([node], {"x": [1, 32, 16, 16]}, ["y"], weights))
    planned = last(run_phases(PhaseResult(imported.mod), options))
    (record,) = (
        record for record in planned.kernels if "conv" in record.sources and record.symbol.startswith("arm")
    )
    assert record.kernel == kernel
    assert any("switched off" in other.reason for other in record.rejected) == bool(without)


def test_products_of_a_model_of_halves_have_kernels():
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float16[9,31] x) => (float16[9,7] y) {y = MatMul(x, w)}'
    )
    proto = parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((31, 7), np.float16), "w"))
    planned = last(run_phases(PhaseResult(import_onnx(proto).mod), PhaseOptions(resolve("cortex-a76"))))
    assert [kernel.kernel for kernel in planned.kernels] == ["gemm_f16"]


def test_one_hot_rows_are_gathered_in_16_bits_too():
    nodes = [
        helper.make_node("Equal", ["x", "classes"], ["equal"]),
        helper.make_node("Cast", ["equal"], ["hot"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["hot", "table"], ["y"]),
    ]
    table = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    weights = {"classes": np.arange(16, dtype=np.int32), "table": table}
    proto = model(nodes, {"x": [31, 1]}, ["y"], weights)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    options = PhaseOptions(resolve("cortex-a76"), "fp16")
    planned = last(run_phases(PhaseResult(import_onnx(proto).mod), options))
    assert not [kernel.kernel for kernel in planned.kernels if "gemm" in kernel.kernel]
