# SPDX-License-Identifier: Apache-2.0
import re
import shutil
import subprocess

import numpy as np
import pytest
import tvm
from tvm import te

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.target import profiles
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import AARCH64, ISA_FEATURES, PROFILES, baseline_host, host_profile, resolve
from arm_ext.target.toolchain import LibraryLinker
from schedules.cores import CORES, MICROCONTROLLERS
from tests.arm_ext.target.examples import EXAMPLES, assemble

ON_LINUX = [name for name in PROFILES if name not in MICROCONTROLLERS]


def llvm_features(cpu, *mattr):
    target = tvm.target.Target({"kind": "llvm", "mtriple": AARCH64, "mcpu": cpu, "mattr": list(mattr)})
    return {str(f) for f in tvm.get_global_func("target.llvm_get_cpu_features")(target)}


def saxpy(profile, folder):
    """y = 2 x + y over 1031 floats, which LLVM vectorises as the target allows."""
    x, y = te.placeholder((1031,), "float32", "x"), te.placeholder((1031,), "float32", "y")
    z = te.compute((1031,), lambda i: x[i] * 2.0 + y[i], "z")
    module = tvm.compile(te.create_prim_func([x, y, z]), target=profile.tvm_target())
    module.export_library(str(folder / "x.so"), fcompile=LibraryLinker(profile.triple))
    return folder / "x.so"


def test_names():
    cores = {name for name in CORES if name != "generic-dotprod"}
    boards = {"arm", "raspberry-pi-4", "raspberry-pi-5", "graviton2", "graviton3", "graviton4"}
    assert set(PROFILES) == cores | boards | set(MICROCONTROLLERS)
    assert all(name == profile.name for name, profile in PROFILES.items())


def test_boards_name_their_cores():
    cores = {name: PROFILES[name].core.name for name in ON_LINUX if name not in CORES and name != "arm"}
    assert cores == {
        "raspberry-pi-4": "cortex-a72",
        "raspberry-pi-5": "cortex-a76",
        "graviton2": "neoverse-n1",
        "graviton3": "neoverse-v1",
        "graviton4": "neoverse-v2",
    }


@pytest.mark.parametrize("name", ON_LINUX)
def test_llvm_is_told_exactly_the_features_of_the_profile(name, capfd):
    target = PROFILES[name].tvm_target()
    turned_on = llvm_features(str(target.attrs["mcpu"]), *map(str, target.attrs["mattr"]))
    assert turned_on & ISA_FEATURES == set(PROFILES[name].features)
    assert "not a recognized" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ON_LINUX)
def test_compiled_kernel_passes_the_gate(name, tmp_path):
    report = check_isa(saxpy(PROFILES[name], tmp_path), PROFILES[name].features)
    assert report.instructions


def test_removed_sve_leaves_the_code(tmp_path):
    assert "sve" in check_isa(saxpy(resolve("neoverse-v1"), tmp_path), ISA_FEATURES).features_used
    neon = resolve("neoverse-v1", "-sve")
    assert check_isa(saxpy(neon, tmp_path), neon.features).features_used == frozenset()


def test_removing_a_feature_removes_what_implies_it():
    before, after = resolve("neoverse-n2"), resolve("neoverse-n2", "-fullfp16")
    assert set(before.features) - set(after.features) == {"fullfp16", "fp16fml", "sve", "sve2"}
    assert resolve("neoverse-v1", "-sve,-sve2").core.vector_bits == 128
    assert resolve("neoverse-v1").core.vector_bits == 256


def test_adding_a_feature_adds_what_it_implies():
    added = set(resolve("cortex-a53", "+sve2").features) - set(PROFILES["cortex-a53"].features)
    assert added == {"sve2", "sve", "fullfp16"}


def test_changes_apply_from_left_to_right_and_reach_the_core():
    profile = resolve("cortex-a76", "-dotprod,+dotprod,+i8mm,-i8mm,+bf16")
    assert set(profile.features) == set(PROFILES["cortex-a76"].features) | {"bf16"}
    assert profile.core.features == profile.features == tuple(sorted(profile.features))


def test_unknown_names_list_near_ones():
    with pytest.raises(UsageError, match=r"'cortex-a77'; did you mean .*cortex-a78"):
        resolve("cortex-a77")
    with pytest.raises(UsageError, match=r"'quantum'; the nearest of \d+ are: arm,"):
        resolve("quantum")
    with pytest.raises(UsageError, match=r"'dotprd'; did you mean dotprod\?"):
        resolve("arm", "+dotprd")


@pytest.mark.parametrize("mattr", ["dotprod", "+i8mm,", "+", "+i8mm -sve", "=i8mm"])
def test_malformed_mattr_is_a_usage_error(mattr):
    with pytest.raises(UsageError, match="--mattr"):
        resolve("arm", mattr)


@pytest.mark.parametrize(
    ("name", "mattr", "cpu"),
    [
        ("raspberry-pi-4", None, "cortex-a72"),
        ("arm", None, "cortex-a76"),
        ("cortex-a76", "+i8mm", "max,sve=off,sme=off"),
        ("cortex-a710", "-sve", "max,sve=off,sme=off"),
        ("cortex-a710", None, "max,sve128=on,sve256=off,sve512=off,sme=off"),
        ("neoverse-v1", None, "max,sve256=on,sve512=off,sme=off"),
        ("arm", "+sme", "max,sve=off,sme128=off,sme256=off,sme512=on"),
    ],
)
def test_emulated_cpu_has_no_more_than_is_needed(name, mattr, cpu):
    assert resolve(name, mattr).qemu_cpu == cpu


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is not installed")
@pytest.mark.parametrize("name", ["cortex-a53", "arm", "cortex-a78", "neoverse-n2", "neoverse-v1"])
@pytest.mark.parametrize("mattr", [None, "-sve"])
def test_emulated_cpu_runs_every_feature_of_the_profile(name, mattr, tmp_path):
    profile = resolve(name, mattr)
    runnable = [
        i
        for needed, instructions in EXAMPLES.items()
        if set(needed) <= set(profile.features)
        for i in instructions
    ]
    leave = ["mov x0, #0", "mov x8, #93", "svc #0"]  # exit(0)
    program = assemble(tmp_path, {"_start": ["sub sp, sp, #16", *runnable, *leave]}, "-static")
    done = subprocess.run(
        ["qemu-aarch64", "-cpu", profile.qemu_cpu, program], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is not installed")
@pytest.mark.parametrize(("name", "bits"), [("neoverse-n2", 128), ("neoverse-v1", 256)])
def test_emulated_cpu_has_the_vector_length_of_the_core(name, bits, tmp_path):
    leave = ["cntb x0", "mov x8, #93", "svc #0"]  # exit(bytes of a vector)
    program = assemble(tmp_path, {"_start": leave}, "-static")
    done = subprocess.run(["qemu-aarch64", "-cpu", resolve(name).qemu_cpu, program], check=False)
    assert done.returncode * 8 == bits == resolve(name).core.vector_bits


@pytest.mark.parametrize("make", [lambda: resolve("host"), baseline_host])
def test_host_code_runs_here(make, tmp_path):
    profile = make()
    assert profile.qemu_cpu is None
    module = tvm.runtime.load_module(str(saxpy(profile, tmp_path)))
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(1031, np.float32) for _ in range(2))
    z = tvm.runtime.tensor(np.zeros(1031, np.float32))
    module["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y), z)
    np.testing.assert_allclose(z.numpy(), 2 * x + y, rtol=0, atol=1e-6)  # one rounding of values below 16


def test_baseline_host_is_the_same_on_every_machine_of_a_kind():
    machine = baseline_host().triple.split("-")[0]
    assert baseline_host().core.llvm_cpu == {"x86_64": "x86-64", "aarch64": "generic"}[machine]
    assert not {"avx", "avx2", "fma", *ISA_FEATURES} & set(baseline_host().features)


def test_arm_host_is_its_core_with_the_features_detected():
    profile = host_profile("aarch64", "neoverse-v1", ["neon", "fp-armv8", "fullfp16", "dotprod"])
    assert profile.triple == AARCH64
    assert profile.features == ("dotprod", "fullfp16")
    assert profile.core.l2 == CORES["neoverse-v1"].l2
    assert profile.core.vector_bits == 128
    assert profile.qemu_cpu is None


def test_unknown_arm_host_takes_the_generic_figures():
    profile = host_profile("aarch64", "apple-m9", ["dotprod", "i8mm"])
    assert profile.core.llvm_cpu == "apple-m9"
    assert profile.core.issue_width == CORES["generic-dotprod"].issue_width
    assert "generic-dotprod" in profile.core.source
    assert re.search(r"\bdotprod\b.*\bi8mm\b", " ".join(profile.features))


def test_host_of_another_system_names_a_way_out(monkeypatch):
    monkeypatch.setattr(profiles.sys, "platform", "darwin")
    profiles.host.cache_clear()
    with pytest.raises(EnvError, match="name another target"):
        resolve("host")


def test_code_for_c1_copies_memory_without_mops():
    """LLVM's CPUs of C1 have MOPS, which no profile lists: a call of memset became SETP in kernels."""
    for name in ("c1-nano", "c1-pro", "c1-premium", "c1-ultra"):
        assert "-mops" in resolve(name).tvm_target().attrs["mattr"]
    assert "-mops" not in resolve("neoverse-v2").tvm_target().attrs["mattr"]
