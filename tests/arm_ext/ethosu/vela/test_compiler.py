# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from arm_ext.common.errors import UsageError
from arm_ext.ethosu.model.stream import unwrap
from arm_ext.ethosu.vela.compiler import (
    CompiledPayload,
    VelaError,
    VelaOptions,
    compile_network,
    vela_version,
)
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.tosa.cases import CASES
from tests.arm_ext.ethosu.tosa.graphs import Graph


def compiled(case: str = "residual", npu: str = "ethos-u55-128", **options: object) -> CompiledPayload:
    graph = Graph()
    CASES[case].build(graph)
    return compile_network(
        graph.serialize(),
        "TOSA",
        ACCELERATORS[npu],
        VelaOptions(**options),  # type: ignore[arg-type]
        inputs=graph.inputs,
        outputs=graph.outputs,
    )


@pytest.mark.parametrize("npu", ACCELERATORS)
def test_each_accelerator_compiles_to_its_own_configuration(npu: str) -> None:
    out = compiled(npu=npu)
    assert out.payload.accelerator == npu
    assert ACCELERATORS[npu].matches_config(unwrap(out.payload.commands).config)
    assert (out.system_config, out.memory_mode) == (
        ACCELERATORS[npu].system_config,
        ACCELERATORS[npu].memory_mode,
    )


def test_estimates_come_with_the_payload() -> None:
    out = compiled()
    assert out.version == vela_version()
    assert out.cycles >= out.npu_cycles > 0
    assert out.macs == 18 * 20 * 24 * (16 * 9 + 9 + 24)
    assert sum(layer.macs for layer in out.layers) == out.macs
    assert {"Conv2D", "DepthwiseConv2D", "Add"} <= {layer.operator for layer in out.layers}
    assert next(m for m in out.memories if m.name == "Sram").peak_bytes == out.payload.region_size("scratch")


def test_the_same_network_gives_the_same_bytes() -> None:
    assert compiled().payload.to_bytes() == compiled().payload.to_bytes()


def test_a_memory_mode_moves_the_arena() -> None:
    assert compiled(npu="ethos-u65-256").payload.region_size("fast") > 0
    assert compiled(npu="ethos-u65-256", memory_mode="Shared_Sram").payload.region_size("fast") == 0


def test_size_takes_less_memory_than_performance() -> None:
    assert compiled(optimise="Size").payload.region_size("scratch") < compiled().payload.region_size(
        "scratch"
    )


def test_inputs_and_outputs_can_have_regions_of_their_own() -> None:
    payload = compiled(separate_io=True).payload
    assert payload.commands[:4] == b"COP2"
    assert [r.kind for r in payload.regions] == ["weights", "scratch", "input", "output"]
    assert (payload.inputs[0].region, payload.outputs[0].region) == (3, 4)


def test_vela_says_which_operator_it_refuses() -> None:
    with pytest.raises(VelaError, match=r"Vela 5\.2\.0 for ethos-u55-128: .*\(Gather\) could not run on NPU"):
        compiled("gather")


def test_a_broken_network_is_velas_error() -> None:
    with pytest.raises(VelaError, match=r"(?s)for ethos-u85-512: .*inconsistent with generated schema"):
        compile_network(b"TOSA" * 20, "TOSA", ACCELERATORS["ethos-u85-512"])


@pytest.mark.parametrize("network", [b"", b"TFL3", b"\0\0\0\0TOSA"])
def test_bytes_that_would_crash_vela_do_not_reach_it(network: bytes) -> None:
    with pytest.raises(VelaError, match="not a TFLITE flatbuffer"):
        compile_network(network, "TFLITE", ACCELERATORS["ethos-u55-128"])


def test_what_vela_prints_stays_off_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    compiled()
    with pytest.raises(VelaError):
        compiled("gather")
    assert capfd.readouterr().out == ""


def test_a_users_configuration_is_read(tmp_path: Path) -> None:
    ini = tmp_path / "own.ini"
    ini.write_text(
        "[System_Config.Mine]\ncore_clock=100e6\naxi0_port=Sram\naxi1_port=OffChipFlash\n"
        "Sram_clock_scale=1.0\nOffChipFlash_clock_scale=0.001\n[Memory_Mode.Mine]\n"
        "const_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"
    )
    slow = compiled(config=ini, system_config="Mine", memory_mode="Mine")
    assert slow.cycles > 2 * compiled().cycles


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"system_config": "Ethos_U55_High_End"}, r"no \[System_Config.Ethos_U55_High_End\]; did you mean"),
        ({"memory_mode": "Sram"}, r"no \[Memory_Mode.Sram\]; "),
        (
            {"config": Path("/nowhere/vela.ini")},
            "/nowhere/vela.ini: Vela's configuration cannot be read: No such file",
        ),
    ],
)
def test_a_configuration_that_is_not_there_is_a_usage_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compiled(**options)


def test_names_must_be_those_of_the_network() -> None:
    graph = Graph()
    CASES["concat"].build(graph)
    npu = ACCELERATORS["ethos-u55-128"]
    with pytest.raises(ValueError, match="Vela has 2 inputs, but the caller names 1"):
        compile_network(graph.serialize(), "TOSA", npu, inputs=graph.inputs[:1])
    with pytest.raises(ValueError, match=r"Vela has \[1, 1, 1, 4, 5, 12\] of 1 bytes"):
        compile_network(graph.serialize(), "TOSA", npu, inputs=[graph.inputs[0]] * 2)
