# SPDX-License-Identifier: Apache-2.0
"""The model against the TOSA reference model, operator by operator, and against LiteRT on whole networks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tosa_reference_model

from arm_ext.ethosu.model import StreamError, run
from arm_ext.ethosu.model.stream import steps, unwrap
from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela.compiler import VelaOptions, compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.model.litert import run_reference_kernels
from tests.arm_ext.ethosu.tosa.cases import CASES
from tests.arm_ext.ethosu.tosa.graphs import Array, Graph

MODELS = Path(__file__).parents[4].parent / "shared" / "models"
NPUS = ("ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-512")


def graph_of(name: str) -> Graph:
    graph = Graph(seed=1)
    CASES[name].build(graph)
    return graph


def inputs_of(graph: Graph, name: str) -> list[Array]:
    """Values over the whole range of each input, or as far as the operator is defined."""
    rng = np.random.default_rng(5)
    values = []
    for io in graph.inputs:
        limits = (0, 1) if io.dtype == "bool" else (np.iinfo(io.dtype).min, np.iinfo(io.dtype).max)
        values.append(rng.integers(*limits, io.shape, endpoint=True).astype(io.dtype))
    if name == "gather":
        values[1] = values[1] % 20
    elif "shift" in name:
        values[1] = values[1] & 31
    elif name == "intdiv":
        values[1] = values[1] // 65536 | 1
    elif name == "equal":
        values = [v & 3 for v in values]
    elif "reduce_sum" in name:
        values = [v // 64 for v in values]
    return values


def payload_of(graph: Graph, npu: str, options: VelaOptions | None = None) -> Payload:
    network, io = graph.serialize(), {"inputs": graph.inputs, "outputs": graph.outputs}
    return compile_network(network, "TOSA", ACCELERATORS[npu], options, **io).payload


def assert_exact(graph: Graph, payload: Payload, values: list[Array]) -> None:
    expected, _ = tosa_reference_model.run(graph.serialize(), values)
    assert len(expected) == len(payload.outputs)
    for wanted, found in zip(expected, run(payload, values), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "npu"),
    [(n, a) for n, case in CASES.items() for a in NPUS if ACCELERATORS[a].family in case.families],
)
def test_operator_equals_the_tosa_reference_model(name: str, npu: str) -> None:
    graph = graph_of(name)
    assert_exact(graph, payload_of(graph, npu), inputs_of(graph, name))


@pytest.mark.parametrize("npu", sorted(set(ACCELERATORS) - set(NPUS)))
@pytest.mark.parametrize(
    "name", ["conv_3x3_deep", "conv_2_of_4", "conv_int16", "depthwise", "residual", "table_int8"]
)
def test_other_configurations_order_weights_as_vela_does(name: str, npu: str) -> None:
    graph = graph_of(name)
    assert_exact(graph, payload_of(graph, npu), inputs_of(graph, name))


@pytest.mark.parametrize(
    ("npu", "options"),
    [
        ("ethos-u55-128", VelaOptions(optimise="Size")),
        ("ethos-u65-512", VelaOptions(arena_cache_size=30000)),
        ("ethos-u85-512", VelaOptions(optimise="Size")),
    ],
)
def test_rolling_buffers_of_a_cascade(npu: str, options: VelaOptions) -> None:
    graph = graph_of("cascade")
    payload = payload_of(graph, npu, options)
    commands = steps(unwrap(payload.commands), ACCELERATORS[npu].family)
    assert any(c.name.endswith("_base2") and c.value for c in commands), "Vela made no rolling buffer"
    assert_exact(graph, payload, inputs_of(graph, "cascade"))


@pytest.mark.parametrize("npu", NPUS)
def test_separate_input_and_output_regions(npu: str) -> None:
    graph = graph_of("residual")
    assert_exact(graph, payload_of(graph, npu, VelaOptions(separate_io=True)), inputs_of(graph, "residual"))


@pytest.mark.parametrize("npu", [*NPUS, "ethos-u55-32", "ethos-u85-2048"])
@pytest.mark.parametrize("model", ["kws_ref_model", "pretrainedResnet_quant"])
def test_network_equals_litert(model: str, npu: str) -> None:
    path = MODELS / f"{model}.tflite"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    network = path.read_bytes()
    payload = compile_network(network, "TFLITE", ACCELERATORS[npu]).payload
    rng = np.random.default_rng(2)
    for _ in range(3):
        values = rng.integers(-128, 128, payload.inputs[0].shape).astype(np.int8)
        (found,) = run(payload, [values])
        np.testing.assert_array_equal(found.reshape(-1), run_reference_kernels(network, [values]).reshape(-1))


def test_inputs_are_checked() -> None:
    payload = payload_of(graph_of("concat"), "ethos-u55-128")
    with pytest.raises(ValueError, match="has 2 inputs, 0 were given"):
        run(payload, [])
    with pytest.raises(ValueError, match=r"is int16\[1, 4, 5, 7\], the payload wants int8\[1, 4, 5, 7\]"):
        run(payload, [np.zeros((1, 4, 5, 7), np.int16), np.zeros((1, 4, 5, 12), np.int8)])


def test_nothing_but_the_payload_is_read() -> None:
    graph = graph_of("residual")
    payload = Payload.from_bytes(payload_of(graph, "ethos-u65-512").to_bytes())
    assert_exact(graph, payload, inputs_of(graph, "residual"))


def test_a_stream_for_another_configuration_is_refused() -> None:
    payload = payload_of(graph_of("concat"), "ethos-u65-256")
    other = replace(payload, config=payload.config ^ 0x100)
    with pytest.raises(StreamError, match="the commands are for configuration"):
        run(other, inputs_of(graph_of("concat"), "concat"))


def test_an_error_names_the_command() -> None:
    payload = payload_of(graph_of("conv_1x1"), "ethos-u55-128")
    short = replace(payload, weights=payload.weights[:-16] + bytes(16))
    with pytest.raises(StreamError, match=r"op_conv at word \d+: a weight stream"):
        run(short, inputs_of(graph_of("conv_1x1"), "conv_1x1"))
