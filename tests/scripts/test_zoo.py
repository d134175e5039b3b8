# SPDX-License-Identifier: Apache-2.0
"""The zoo through the compiler, on this machine; the members that take longer with -m long."""

import functools
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import relax
from tvm.relax.analysis import free_vars

from arm_ext.common.distance import distance
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import check_of, module_runner, run_on_host
from arm_ext.target.profiles import resolve
from relay_passes.ir.sources import bindings_of, sources_of
from tests.fuzz.oracle import check_quantized

pytest.importorskip("torch", reason="the zoo is made with torch; pip install -e .[torch]")
import zoo

QUICK = ("dscnn", "conformer")
MEMBERS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in zoo.ZOO]

float_model = functools.cache(zoo.float_model)


@functools.cache
def quantized_model(name: str) -> onnx.ModelProto:
    return zoo.quantized_model(name, float_model(name))


def inputs_of(name: str) -> list[np.ndarray]:
    """One sample, none of those that it was calibrated with."""
    return [array[0] for array in zoo.ZOO[name].samples(1, zoo.SEED + 1).values()]


@pytest.mark.parametrize("name", MEMBERS)
def test_float_members_are_near_onnxruntime(name: str):
    proto, inputs = float_model(name), inputs_of(name)
    imported = import_onnx(proto)
    outputs = run_on_host(imported.mod, inputs)
    expected = run_onnxruntime(proto.SerializeToString(), inputs, integers=False)
    for actual, reference in zip(outputs, expected, strict=True):
        # onnxruntime is one more machine that adds up in an order of its own.
        assert distance(actual, reference).relative <= check_of(imported).relative_bound


# The definition in numpy knows convolutions of images alone, and conformer's are of sequences.
OF_IMAGES = [member for member in MEMBERS if member.values != ("conformer",)]


@pytest.mark.parametrize("name", OF_IMAGES)
def test_every_integer_is_as_defined(name: str):
    model = with_every_integer_as_output(quantized_model(name))
    inputs = inputs_of(name)
    outputs = run_on_host(import_onnx(model).mod, inputs)
    fault, forms = check_quantized(model, inputs, outputs)
    assert fault is None
    assert forms.total() >= len(outputs)


def with_every_integer_as_output(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose outputs are the results of all QuantizeLinear nodes of run-time values."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = {
        node.output[0]: next(i for i in model.graph.initializer if i.name == node.input[2]).data_type
        for node in model.graph.node
        if node.op_type == "QuantizeLinear"
    }
    probe.graph.ClearField("output")
    probe.graph.output.extend(helper.make_tensor_value_info(n, t, None) for n, t in names.items())
    return onnx.shape_inference.infer_shapes(probe)


# With nothing in them that onnxruntime computes by another definition.
EQUAL = [pytest.param("dscnn"), pytest.param("mobilenet_v2", marks=pytest.mark.long)]


@pytest.mark.parametrize("name", EQUAL)
def test_integers_equal_onnxruntimes(name: str):
    proto = quantized_model(name)
    run = module_runner(import_onnx(proto).mod)
    for array in zoo.ZOO[name].samples(4, zoo.SEED + 2).values():
        for sample in array:
            (output,) = run([sample])
            (expected,) = run_onnxruntime(proto.SerializeToString(), [sample], integers=True)
            np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("name", MEMBERS)
def test_no_quantisation_is_left_unexplained(name: str):
    imported = import_onnx(quantized_model(name))
    options = PhaseOptions(resolve("arm"))
    result = last(run_phases(PhaseResult(imported.mod), options, until="integerize"))
    reported = {source for call in result.left_float for source in call.nodes}
    assert unexplained(result.mod["main"], reported) == []


def unexplained(main: relax.Function, reported: set[str]) -> list[str]:
    """Quantisations that neither begin or end the model nor stand beside a call that is reported as float."""
    bindings = bindings_of(main)
    values = {b.var: b.value for b in bindings}
    left = []
    for b in bindings:
        # On the float side of a quantize stands what it reads, and of a dequantize what reads it.
        if operator(b.value) == "quantize":
            beside = [values[v] for v in free_vars(b.value) if v in values]
        elif operator(b.value) == "dequantize":
            beside = [other.value for other in bindings if b.var in free_vars(other.value)]
        else:
            continue
        calls = [value for value in beside if isinstance(value, relax.Call)]
        left += [f"{b.var.name} at {c.op}" for c in calls if not reported.intersection(sources_of(c))]
    return left


def operator(expr: relax.Expr) -> str:
    return str(getattr(getattr(expr, "op", None), "name", "")).removeprefix("relax.")


def test_models_are_made_the_same_each_time():
    assert zoo.float_model("dscnn").SerializeToString() == float_model("dscnn").SerializeToString()


def test_rules_see_the_batch_norms():
    operators = [node.op_type for node in float_model("dscnn").graph.node]
    assert operators.count("BatchNormalization") == operators.count("Conv") == 9


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["zoo.py", str(tmp_path / "zoo"), "dscnn"])
    zoo.main()
    assert {path.name for path in (tmp_path / "zoo").iterdir()} == {
        "dscnn_fp32.onnx",
        "dscnn_int8.onnx",
        "dscnn_samples.npz",
    }
    assert import_onnx(tmp_path / "zoo" / "dscnn_int8.onnx").quantized
