# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess

import pytest
import tvm

from schedules.cores import CORES

MCA = (
    shutil.which("llvm-mca-19")
    or shutil.which("llvm-mca", path="/usr/lib/llvm-19/bin")
    or shutil.which("llvm-mca")
)


def llvm_features(cpu):
    target = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": cpu})
    return {str(f) for f in tvm.get_global_func("target.llvm_get_cpu_features")(target)}


@pytest.mark.parametrize("core", CORES.values(), ids=lambda core: core.name)
def test_llvm_knows_the_core_to_have_the_features(core):
    assert core.features == tuple(sorted(set(core.features)))
    assert set(core.features) <= llvm_features(core.llvm_cpu)


@pytest.mark.parametrize("core", CORES.values(), ids=lambda core: core.name)
def test_figures_are_plausible_and_have_a_source(core):
    assert core.l1d.size < core.l2.size
    for cache in (core.l1d, core.l2):
        assert cache.size % (cache.line * 16) == 0  # whole sets of 16 ways at most
        assert cache.source
    assert core.source
    assert (core.vector_bits > 128) == (core.name == "neoverse-v1")


def test_generic_core_asks_no_more_than_any_core_with_dotprod_has():
    generic = CORES["generic-dotprod"]
    with_dotprod = [core for core in CORES.values() if "dotprod" in core.features]
    assert all(set(generic.features) <= set(core.features) for core in with_dotprod)


@pytest.mark.skipif(MCA is None, reason="llvm-mca is not installed")
@pytest.mark.parametrize("cpu", sorted({core.mca_cpu for core in CORES.values()}))
def test_llvm_mca_has_the_scheduling_model(cpu):
    command = [MCA, "-mtriple=aarch64", f"-mcpu={cpu}", "-"]
    done = subprocess.run(command, input="add x0, x1, x2\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Total Cycles" in done.stdout
    assert "not a recognized processor" not in done.stderr


@pytest.mark.skipif(MCA is None, reason="llvm-mca is not installed")
@pytest.mark.parametrize("core", CORES.values(), ids=lambda core: core.name)
def test_llvm_mca_has_as_many_vector_pipes(core):
    count = 16
    code = "".join(f"add v{i}.4s, v30.4s, v31.4s\n" for i in range(count))
    command = [MCA, "-mtriple=aarch64", f"-mcpu={core.mca_cpu}", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=True)
    throughput = float(done.stdout.partition("Block RThroughput:")[2].split()[0])
    assert count / throughput == core.vector_pipes
