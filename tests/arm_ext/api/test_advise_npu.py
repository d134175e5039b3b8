# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import onnx
import pytest

import arm_ext
from arm_ext.api import digits
from arm_ext.api.advise_npu import BESIDE_CORTEX_M, advise_npu, configurations
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.ethosu.partition.divider import Divider
from arm_ext.report.npu import NpuReport
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext import npu_models

U55 = "ethos-u55-128"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("npu") / "whole.onnx"
    onnx.save(npu_models.whole(), path)
    return path


def test_every_accelerator_has_its_configurations() -> None:
    assert {each.npu.name for each in configurations()} == set(ACCELERATORS)
    assert len({each.name for each in configurations()}) == len(configurations())


def test_a_price_is_what_compile_divides_by(whole: Path, tmp_path: Path) -> None:
    advice = advise_npu(whole, "cortex-a55", [U55], handover_us=1)
    found = next(
        each
        for each in advice.prices
        if (each.system_config, each.memory_mode) == ("Ethos_U55_High_End_Embedded", "Sram_Only")
    )
    options = arm_ext.NpuOptions(U55, memory_mode="Sram_Only", handover_us=1)
    report = arm_ext.compile(whole, "cortex-a55", tmp_path / "m.armpkg", npu=options).report.npu
    assert report is not None
    assert found.price is not None
    assert found.price.npu_cycles == sum(region.cycles for region in report.regions) > 0
    assert found.price.memories == {memory.name: memory.peak_bytes for memory in report.regions[0].memories}
    assert found.price.npu_us + found.price.handover_us == pytest.approx(report.regions[0].npu_us, abs=0.01)
    assert (found.price.regions, found.price.mac_share, found.price.cpu_us) == (1, 1.0, 0.0)
    alone_us = advice.cpu_cycles / found.cpu_mhz
    assert found.price.gain == pytest.approx(1 - found.price.us / alone_us, abs=0.001)


def test_where_nothing_gains_the_cpu_alone_is_the_price(whole: Path) -> None:
    advice = advise_npu(whole, "cortex-a55", [U55], handover_us=1e6)
    for each in advice.prices:
        assert each.price is not None
        assert (each.price.regions, each.price.cpu_cycles, each.price.gain) == (0, advice.cpu_cycles, 0)
    assert advice.fastest() == []
    assert BESIDE_CORTEX_M in advice.note
    assert BESIDE_CORTEX_M not in advise_npu(whole, "cortex-a55", ["ethos-u65-256"]).note


def interrupted_at(monkeypatch: pytest.MonkeyPatch, call: int, error: BaseException) -> None:
    real, calls = Divider.divide, []

    def divide(self: Divider, *arguments: object) -> NpuReport:
        calls.append(arguments)
        if len(calls) == call:
            raise error
        return real(self, *arguments)  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(Divider, "divide", divide)


def test_an_interrupt_keeps_what_was_found(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(monkeypatch, 3, KeyboardInterrupt())
    advice = advise_npu(whole, npus=[U55])
    assert advice.stopped == "interrupted"
    assert [each.price is not None for each in advice.prices] == [True, True, False, False]
    assert {each.note for each in advice.prices[2:]} == {"interrupted"}
    assert advice.failures() == set()


def test_a_budget_that_is_used_up_is_told_in_the_rows(whole: Path) -> None:
    advice = advise_npu(whole, npus=[U55], budget=1e-9)
    assert advice.stopped == "budget"
    assert {each.note for each in advice.prices} == {"the budget was used up"}


def test_what_fails_is_told_in_its_row(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(monkeypatch, 2, EnvError("Vela is gone"))
    advice = advise_npu(whole, npus=[U55])
    assert advice.failures() == {"environment"}
    assert [each.note for each in advice.prices] == ["", "Vela is gone", "", ""]


def test_a_float_model_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a quantised model"):
        advise_npu(digits.model_path("fp32"), npus=[U55])


def test_an_unknown_accelerator_is_refused() -> None:
    with pytest.raises(UsageError, match="ethos-u55-128"):
        advise_npu(digits.model_path(), npus=["ethos-u55-129"])
