# SPDX-License-Identifier: Apache-2.0
"""`certify`: every level and number of threads, on emulated boards."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import arm_ext
from arm_ext import cli
from arm_ext.api import digits
from arm_ext.api.certify import Computed, Matrix, Program
from arm_ext.api.verify import certified
from arm_ext.common.errors import UsageError
from arm_ext.report.certificate import Certificate
from arm_ext.target.levels import chosen, levels
from tests.arm_ext import npu_models
from tests.arm_ext.frontends.onnx import control_models
from tests.sme import has_sme

# Negates the weights of linear layers where vectors have 256 bits.
BROKEN = """
from schedules.kernels.common.contract import declined
from schedules.kernels.gemm import gemm_s8_mmla as right

class Broken:
    NAME, Params = "broken", right.Params
    default, candidates, build = map(staticmethod, (right.default, right.candidates, right.build))

    def matches(self, workload, core):
        if core.vector_bits != 256 or workload.composite != "arm.linear_s8":
            return declined(self.NAME, "is for other workloads", "linear, 256 bits", workload.composite)
        return right.matches(workload, core)

    def estimate(self, workload, params, core):
        return 1.0

    def pack(self, workload, params, constants):
        weights, *others = right.pack(workload, params, constants)
        return (-weights, *others)

KERNELS = [Broken()]
"""


# The levels that can be emulated here: those of SME by a newer QEMU, where one is installed.
EMULATED = [level.name for level in levels() if has_sme() or "sme" not in level.profile.features]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("certified") / "p"
    arm_ext.compile(digits.model_path(), "arm", output)
    return output


@pytest.fixture(scope="module")
def certificate(package: Path) -> Certificate:
    return arm_ext.certify(package, threads=(2,))


def test_all_levels_give_the_same_bits(tmp_path: Path):
    images = digits.held_out()[0][:3]
    np.savez(tmp_path / "x.npz", image=images)
    (name,) = (value.name for value in onnx.load(digits.model_path()).graph.input)
    np.savez(tmp_path / "x.npz", **{name: images})
    found = arm_ext.certify(digits.model_path(), threads=(2,), data=tmp_path / "x.npz")
    assert [(run.level, run.threads) for run in found.runs] == [
        (level.name, number) for level in levels() for number in (1, 2)
    ]
    assert all((run.outcome == "equal") == (run.level in EMULATED) for run in found.runs)
    assert found.holds
    assert found.samples == 4
    # sve-512 runs the program of sve-128, and one is for SME of each length.
    assert len({level.so_sha256 for level in found.levels}) == len(levels()) - 3
    equal = 2 * len(EMULATED)
    assert f"Certified on 4 inputs: {equal} of {equal} runs equal to the bit" in found.text()


def test_a_kernel_that_is_broken_for_256_bits_is_named(tmp_path: Path):
    model, plugin = tmp_path / "model.onnx", tmp_path / "broken.py"
    onnx.save(npu_models.mixed(), model)
    plugin.write_text(BROKEN)
    found = arm_ext.certify(model, targets=("sve-128", "sve-256"), threads=(1,), plugins=[plugin])
    right, wrong = found.runs
    assert (right.outcome, wrong.outcome) == ("equal", "differs")
    assert wrong.layer in ("query", "key", "value")  # one product for the three
    assert not found.holds
    assert f"sve-256, 1 thread: {wrong.reason}; first at layer {wrong.layer}" in found.text()
    assert found.text().endswith("NOT certified on 1 input: sve-256")


def test_a_package_runs_where_it_can(package: Path, certificate: Certificate):
    outcomes = {run.level: run.outcome for run in certificate.runs}
    runs = {*EMULATED} - {"armv8-a"}
    assert outcomes == {level.name: "equal" if level.name in runs else "not run" for level in levels()}
    (reason,) = {run.reason for run in certificate.runs if run.level == "armv8-a"}
    assert reason.startswith("it lacks ")
    assert "dotprod" in reason
    assert cli.invoke(["certify", str(package), "--targets", "dotprod", "--threads", "1"]) == 0
    assert "armv8-a" not in certificate.certifies(arm_ext.load_package(package).manifest.so_sha256)


def test_other_bits_on_several_threads_differ(package: Path):
    """However small: on any number of threads sums have one order."""
    program = Program(chosen(["dotprod"])[0], arm_ext.load_package(package))
    matrix = Matrix([program], (1, 2), [])
    one = np.float32(1)
    for threads, value in ((1, one), (2, np.nextafter(one, 2 * one))):
        matrix.found["dotprod", threads] = Computed({"y": np.array([value])}, ())
    single, several = matrix.runs()
    assert (single.outcome, several.outcome) == ("equal", "differs")
    assert several.reason == "y is not what one thread computes"


def test_a_level_that_the_emulator_lacks_is_not_run(package: Path):
    level = replace(chosen(["dotprod"])[0], name="none", cpu="cortex-z99")
    matrix = Matrix([Program(level, arm_ext.load_package(package))], (1,), [])
    matrix.run()
    (run,) = matrix.runs()
    assert run.outcome == "not run"
    assert "has no CPU 'cortex-z99'" in run.reason
    assert not matrix.certificate((run,)).holds


def test_sme_without_an_emulator_for_it_is_not_run(package: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ARM_EXT_QEMU_SME", "/nowhere/qemu-aarch64")
    found = arm_ext.certify(package, targets=("dotprod", "sme-256"), threads=(1,))
    assert [run.outcome for run in found.runs] == ["equal", "not run"]
    assert "ARM_EXT_QEMU_SME names /nowhere/qemu-aarch64, which is no program" in found.runs[1].reason
    assert "run scripts/qemu_sme.sh" in found.runs[1].reason


def test_a_program_that_dies_fails(package: Path, tmp_path: Path):
    """Its features are not what its manifest says, so that it runs an instruction that the level lacks."""
    copy = tmp_path / "p"
    shutil.copytree(package, copy)
    file = copy / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["target"]["features"] = []
    file.write_text(json.dumps(manifest))
    (run,) = arm_ext.certify(copy, targets=("armv8-a",), threads=(1,)).runs
    assert run.outcome == "fails"


def test_certificates_are_of_a_program(package: Path, certificate: Certificate, tmp_path: Path):
    file = tmp_path / "c.json"
    file.write_text(certificate.model_dump_json())
    names = tuple(name for name in EMULATED if name != "armv8-a")
    assert certified(package, file) == names
    assert cli.invoke(["verify", str(package), "--certificate", str(file)]) == 0
    arm_ext.compile(digits.model_path(), "cortex-a55", tmp_path / "other")
    with pytest.raises(UsageError, match=r"does not certify .*other, whose model.so has the SHA-256"):
        certified(tmp_path / "other", file)
    file.write_text(certificate.model_dump_json().replace('"not run"', '"equal"'))
    with pytest.raises(UsageError, match="was changed after it was written"):
        certified(package, file)
    file.write_text("{}")
    with pytest.raises(UsageError, match="it is no certificate"):
        certified(package, file)


def test_a_package_keeps_its_certificate(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(package, "p")
    assert cli.invoke(["verify", "p"]) == 2
    assert (
        "p has no certificate.json, which `arm-ext certify p --record` leaves there"
        in capsys.readouterr().err
    )
    assert cli.invoke(["certify", "p", "--targets", "dotprod", "--threads", "1", "--record"]) == 0
    assert cli.invoke(["verify", "p"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "p: certified for dotprod"
    assert certified("p") == ("dotprod",)
    # A package with a certificate is a package as before, and runs.
    assert cli.invoke(["run", "p", "--check"]) == 0
    kept = Path("p/certificate.json")
    kept.write_text(kept.read_text().replace('"threads": 1', '"threads": 4'))
    assert cli.invoke(["verify", "p"]) == 2
    assert "was changed after it was written" in capsys.readouterr().err
    # A level that is not certified leaves nothing.
    kept.unlink()
    assert cli.invoke(["certify", "p", "--targets", "armv8-a", "--threads", "1", "--record"]) != 0
    assert not kept.exists()
    assert cli.invoke(["certify", str(digits.model_path()), "--record"]) == 2
    assert "is no package" in capsys.readouterr().err


WRONG = {
    "level": (["--targets", "sve-2048"], "there is no level or profile 'sve-2048'"),
    "core": (["--targets", "cortex-m4"], "microcontroller"),
    "no threads": (["--threads", "0"], "--threads 0: expected numbers from 1 to 64"),
    "many threads": (["--threads", "1000"], "--threads 1000: expected numbers from 1 to 64"),
    "words": (["--threads", "all"], "--threads all: expected numbers such as 1,2,4"),
    "shape": (["--shape", "x=1,2"], "--shape: a package is already compiled"),
    "precision": (["--precision", "fp16"], "--precision: a package is already compiled"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input(case: str, package: Path, capsys: pytest.CaptureFixture[str]):
    options, why = WRONG[case]
    assert cli.invoke(["certify", str(package), *options]) == 2
    assert why in capsys.readouterr().err


def test_a_level_without_binary16_is_not_run(tmp_path: Path):
    model = tmp_path / "model.onnx"
    onnx.save(npu_models.mixed(), model)
    with pytest.raises(UsageError, match="it lacks fullfp16, which precision fp16 needs"):
        arm_ext.certify(model, targets=("armv8-a",), precision="fp16")


def test_layers_of_a_model_with_a_branch_are_not_looked_for(tmp_path: Path):
    model, plugin = tmp_path / "model.onnx", tmp_path / "broken.py"
    onnx.save(control_models.early_exit(), model)
    plugin.write_text(BROKEN.replace("arm.linear_s8", "arm.linear").replace("gemm_s8_mmla", "gemm_f32"))
    (wrong,) = arm_ext.certify(model, targets=("sve-256",), threads=(1,), plugins=[plugin]).runs
    assert (wrong.outcome, wrong.layer) == ("differs", "")
