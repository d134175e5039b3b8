# SPDX-License-Identifier: Apache-2.0
"""TFLite operators and models, imported and run on this machine, against LiteRT."""

from pathlib import Path

import numpy as np
import pytest
import tflite

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.tflite.cases import EXACT, SCALES, WITHIN_ONE, Case, Scales

Arrays = list[np.ndarray]


def load(folder: Path, model: bytes) -> ImportedModel:
    path = folder / "model.tflite"
    path.write_bytes(model)
    return import_tflite(path)


def values(imported: ImportedModel) -> Arrays:
    rng = np.random.default_rng(3)
    return [_values(rng, spec) for spec in imported.inputs]


def _values(rng: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    if spec.dtype == "float32":
        return 4 * rng.standard_normal(spec.shape, dtype=np.float32)
    limits = np.iinfo(spec.dtype)
    return rng.integers(limits.min, limits.max, spec.shape, endpoint=True).astype(spec.dtype)


def run_both(folder: Path, model: bytes) -> tuple[Arrays, Arrays]:
    """Return our outputs and LiteRT's."""
    imported = load(folder, model)
    assert unnamed_calls(imported.mod) == []
    inputs = values(imported)
    found, expected = run_on_host(imported.mod, inputs), run_litert(model, inputs)
    assert [
        TensorSpec(o.name, f.shape, f.dtype.name) for o, f in zip(imported.outputs, found, strict=True)
    ] == list(imported.outputs)
    return found, expected


@pytest.mark.each_once
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("case", EXACT.values(), ids=EXACT.keys())
def test_operator_is_exact(tmp_path: Path, case: Case, scales: Scales):
    for found, expected in zip(*run_both(tmp_path, case(scales)), strict=True):
        assert len(np.unique(expected)) > 2
        np.testing.assert_array_equal(found, expected)


@pytest.mark.each_once
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("case", WITHIN_ONE.values(), ids=WITHIN_ONE.keys())
def test_operator_is_within_a_step(tmp_path: Path, case: Case, scales: Scales):
    (found,), (expected,) = run_both(tmp_path, case(scales))
    assert len(np.unique(expected)) > 2
    steps = np.abs(found.astype(int) - expected)
    assert steps.max() <= 1


def network() -> TfliteBuilder:
    """Return a dense layer with a fused name, and two operators whose outputs share one."""
    m = TfliteBuilder()
    x = m.take("int8", 2, 31, scale=0.1, zero=-7)
    h = m.tensor("int8", 2, 9, scale=2.0, zero=5, name="fc/relu;fc/matmul")
    a, b = (m.tensor("int8", 2, 9, scale=0.1, zero=3, name="same") for _ in range(2))
    m.op("FULLY_CONNECTED", [x, m.weight(9, 31, scale=0.1), m.bias(9)], [h])
    m.op("RELU6", [h], [a])
    m.op("ADD", [a, h], [b])
    return m


def test_operators_are_known_by_their_outputs(tmp_path: Path):
    m = network()
    imported = load(tmp_path, m.build(*m.operators[0].outputs, *m.operators[-1].outputs))
    assert imported.nodes == {"fc/relu": "FULLY_CONNECTED", "same": "RELU6", "same:2": "ADD"}
    named = {name for b in bindings_of(imported.mod["main"]) for name in sources_of(b.value)}
    assert named == set(imported.nodes)
    assert [spec.describe() for spec in imported.inputs] == ["t0 int8[2, 31]"]
    assert [spec.describe() for spec in imported.outputs] == [
        "fc/relu;fc/matmul int8[2, 9]",
        "same int8[2, 9]",
    ]
    assert imported.quantized
    assert imported.format == "tflite"


def test_tensors_of_one_name_stay_apart(tmp_path: Path):
    found, expected = run_both(tmp_path, network().build())
    assert np.abs(found[0].astype(int) - expected[0]).max() <= 1


def test_result_used_twice_is_computed_once(tmp_path: Path):
    imported = load(tmp_path, network().build())
    assert str(imported.mod).count("R.matmul") == 1


def operators(imported: ImportedModel) -> list[str]:
    calls = [b.value for b in bindings_of(imported.mod["main"]) if sources_of(b.value)]
    return [str(call.op.name).removeprefix("relax.") for call in calls]


def test_activation_stands_before_quantize(tmp_path: Path):
    found = operators(load(tmp_path, EXACT["conv"](SCALES["pow2"])))
    assert found[-4:] == ["nn.conv2d", "add", "clip", "quantize"]


def test_bias_is_in_units_of_the_accumulator(tmp_path: Path):
    # What the file says is off by a third; LiteRT does not look at it either.
    m = TfliteBuilder()
    x = m.take("int8", 7, 31, scale=0.1, zero=-7)
    bias = m.hold(np.full(9, 9000), scale=0.1 * 0.013 * 1.3)
    m.op("FULLY_CONNECTED", [x, m.weight(9, 31, scale=0.013), bias], [m.tensor("int8", 7, 9, scale=2.3)])
    found, expected = run_both(tmp_path, m.build())
    np.testing.assert_array_equal(found[0], expected[0])


def test_weights_of_4_bits(tmp_path: Path):
    # An odd number of them: the last byte holds one.
    m, s = TfliteBuilder(), 0.05 * (1 + np.arange(7) % 3)
    weights = m.rng.integers(-8, 8, (7, 3, 1, 5))
    x, w = m.take("int8", 1, 9, 8, 5, scale=0.1, zero=-7), m.hold(weights, "int8", scale=s)
    y = m.tensor("int8", 1, 7, 8, 7, scale=0.3, zero=5)
    options = {"strideH": 1, "strideW": 1, "padding": tflite.Padding.VALID}
    m.op("CONV_2D", [x, w, m.bias(7, np.float32(0.1) * np.float32(s))], [y], **options)
    (wide,), _ = run_both(tmp_path, m.build())
    low, high = np.append(weights.reshape(-1) & 15, 0).reshape(-1, 2).T
    m.tensors[w].type = tflite.TensorType.INT4
    m.buffers[m.tensors[w].buffer].data = list(low | high << 4)
    (found,), (expected,) = run_both(tmp_path, m.build())
    np.testing.assert_array_equal(found, wide)
    # LiteRT rounds sums of 4-bit weights in fixed point.
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_all_unsupported_operators_at_once(tmp_path: Path):
    m = TfliteBuilder()
    x = m.take("float32", 2, 3)
    for k in range(2):
        m.op("SKIP_GRAM", [x], [m.tensor("float32", 2, 3, name=f"skip{k}")])
    m.op("RNN", [x], [m.tensor("float32", 2, 3, name="loop")])
    with pytest.raises(ModelError) as error:
        load(tmp_path, m.build())
    assert "SKIP_GRAM (2x): skip0, skip1" in str(error.value)
    assert "RNN (1x): loop" in str(error.value)


def test_indices_of_true_elements_are_refused(tmp_path: Path):
    m = TfliteBuilder()
    m.op("WHERE", [m.take("bool", 1, 4)], [m.tensor("int64", 1, 2, name="indices")])
    with pytest.raises(ModelError, match=r"WHERE node 'indices' .*size of its result depends on the data"):
        load(tmp_path, m.build())


def test_weights_with_a_scale_for_each_block_are_refused(tmp_path: Path):
    m = TfliteBuilder()
    w = m.hold(m.rng.integers(-8, 8, (4, 8)), "int8")
    m.op("FULLY_CONNECTED", [m.take("float32", 1, 8), w], [m.tensor("float32", 1, 4, name="y")])
    m.tensors[w].type = tflite.TensorType.INT4
    m.buffers[m.tensors[w].buffer].data = list(range(16))
    with pytest.raises(ModelError, match=r"FULLY_CONNECTED node 'y' .*one scale for each block of a row"):
        load(tmp_path, m.build())


def test_operator_that_is_not_what_the_model_declares_is_named(tmp_path: Path):
    m = TfliteBuilder()
    m.op(
        "TRANSPOSE",
        [m.take("int8", 2, 3, scale=0.1), m.hold([1, 0])],
        [m.tensor("int8", 2, 3, scale=0.1, name="t")],
    )
    with pytest.raises(ModelError, match=r"TRANSPOSE node 't'.*int8\[3, 2\].*declares int8\[2, 3\]"):
        load(tmp_path, m.build())


def test_bias_beyond_32_bits_is_refused(tmp_path: Path):
    m = TfliteBuilder()
    bias = m.hold([2**31], "int64")
    m.op(
        "FULLY_CONNECTED",
        [m.take("int16", 1, 3, scale=0.1), m.weight(1, 3, scale=0.1), bias],
        [m.tensor("int16", 1, 1, scale=0.1)],
    )
    with pytest.raises(ModelError, match="its bias reaches 2147483648"):
        load(tmp_path, m.build())


def test_only_the_models_own_shapes_are_taken(tmp_path: Path):
    path = tmp_path / "model.tflite"
    path.write_bytes(network().build())
    assert import_tflite(path, {"t0": (2, 31)}).inputs[0].shape == (2, 31)
    with pytest.raises(UsageError, match=r"\[3, 31\] is not the model's \[2, 31\]"):
        import_tflite(path, {"t0": (3, 31)})
    with pytest.raises(UsageError, match=r"--shape names no input: x. The inputs are: t0"):
        import_tflite(path, {"x": (2, 31)})


@pytest.mark.parametrize("keep", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_damaged_file_is_refused(tmp_path: Path, keep: float):
    data = network().build()
    with pytest.raises(UsageError, match="damaged or truncated"):
        load(tmp_path, data[: int(len(data) * keep)])
