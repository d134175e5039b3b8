# SPDX-License-Identifier: Apache-2.0
"""Packages for a family of cores: one model.so, of which each emulated CPU runs the level that it has."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import arm_ext
from arm_ext import cli
from arm_ext.api import digits
from arm_ext.package import REPORT_JSON, Package
from arm_ext.pipeline import machine_code
from arm_ext.report.report import CompileReport
from arm_ext.target.family import family_levels
from arm_ext.target.isa import check_isa, check_object
from arm_ext.target.profiles import FAMILY
from tests.arm_ext import sequence_models, state_models
from tests.arm_ext.frontends.onnx import control_models
from tests.arm_ext.models import mlp, model

CPUS = {"armv8-a": "cortex-a72", "dotprod": "cortex-a76", "i8mm": "max,sve=off,sme=off"}
"""Level → a CPU of QEMU's that has it, and not the next one."""


def wide() -> onnx.ModelProto:
    """A float product of 64 rows, whose kernels pack weights alike on all levels."""
    w = np.random.default_rng(0).standard_normal((256, 256), dtype=np.float32)
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")], {"x": [64, 256]}, ["y"], {"w": w}
    )


HALF = np.full((1, 1, state_models.HIDDEN), 0.5, np.float32)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return arm_ext.compile(digits.model_path(), FAMILY, tmp_path_factory.mktemp("family") / "p").package


@pytest.mark.parametrize(("level", "cpu"), CPUS.items())
def test_each_cpu_runs_its_own_level(package: Package, level: str, cpu: str):
    assert all(each.passed for each in arm_ext.run(package, f"virtual:{cpu}", check=True).checks)
    profile = arm_ext.profile(package, f"virtual:{cpu}")
    folder = package.path if level == "i8mm" else package.path / "levels" / level
    report = CompileReport.model_validate_json((folder / REPORT_JSON).read_bytes())
    assert report.package is not None
    assert report.package.level == level
    ran = [call.symbol for call in profile.calls if not call.symbol.startswith("has_level_")]
    assert ran == [call.symbol for call in report.calls if call.kernel != "view"]
    (wanted,) = (each.profile.core.name for each in family_levels() if each.name == level)
    assert profile.core == wanted
    mnemonic = {"armv8-a": "mlal", "dotprod": "sdot", "i8mm": "mmla"}[level]
    assert any(call.kernel.endswith(f"s8_{mnemonic}") for call in profile.calls)


def test_levels_use_no_more_than_their_flags_say(package: Package):
    newest = family_levels()[-1].profile.features
    used = check_isa(package.so, newest)
    assert used is not None
    assert {"dotprod", "i8mm"} <= used.features_used
    assert package.manifest.target.features == []
    assert [level.name for level in package.manifest.levels] == list(CPUS)


def test_each_object_is_checked_against_its_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    checked: dict[str, frozenset[str]] = {}

    def check(data: bytes, name: str, features: Iterable[str]) -> None:
        checked[name] = frozenset(features)
        check_object(data, name, features)

    monkeypatch.setattr(machine_code, "check_object", check)
    package = arm_ext.compile(digits.model_path(), FAMILY, tmp_path / "p").package
    for level in family_levels():
        kernels = package.on(level.profile.features).report(CompileReport).kernels
        own = [kernel.symbol for kernel in kernels if kernel.kernel != "view"]
        assert own
        assert {checked[symbol] for symbol in own} == {frozenset(level.profile.features)}
    # What calls the kernels.
    assert checked["lib0.o"] == frozenset()


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (state_models.lstm({"c": HALF}), {"state": {"h": "hn", "c": "cn"}, "state_init": {"h": HALF}}),
        (control_models.early_exit(), {}),
        (mlp("n"), {"shapes": {"x": ("n", 31)}}),
        (sequence_models.transformer(), {"shapes": {"x": (1, (1, 7), 16)}}),
        (sequence_models.transformer(), {"shapes": {"x": (1, "n<=33", 16)}}),
    ],
    ids=["states", "branches", "any number of samples", "several shapes", "bounded length"],
)
def test_programs_of_every_kind_dispatch(source: onnx.ModelProto, options: dict[str, Any], tmp_path: Path):
    package = arm_ext.compile(source, FAMILY, tmp_path / "p", **options).package
    for cpu in ("cortex-a72", "cortex-a76"):
        assert all(each.passed for each in arm_ext.run(package, f"virtual:{cpu}", check=True).checks)


def test_weights_that_levels_pack_alike_are_stored_once(tmp_path: Path):
    (weights,) = (each.nbytes for each in map(onnx.numpy_helper.to_array, wide().graph.initializer))
    package = arm_ext.compile(wide(), FAMILY, tmp_path / "p").package
    assert weights <= package.manifest.memory.weight_bytes < 2 * weights


@pytest.mark.parametrize(
    "options",
    [
        ["--emit", "c-library"],
        ["--npu", "ethos-u65-256"],
        ["--precision", "fp16"],
        ["--mattr=+sve"],
        ["--dump-phases", "phases"],
    ],
)
def test_what_a_family_does_not_take_is_refused(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert cli.invoke(["compile", str(digits.model_path()), "--target", FAMILY, "-o", "p", *options]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"--target {FAMILY} does not go with {options[0].partition('=')[0]}" in said
    assert not list(tmp_path.iterdir())


def test_other_verbs_want_one_core(capsys: pytest.CaptureFixture[str]):
    assert cli.invoke(["advise", str(digits.model_path()), "--target", FAMILY]) == 2
    assert f"target {FAMILY} is a family" in " ".join(capsys.readouterr().err.split())
