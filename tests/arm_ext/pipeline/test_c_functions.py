# SPDX-License-Identifier: Apache-2.0
"""Machine code of the kernels of C libraries: their loops leave the stack alone, as those of packages do."""

import re
from collections.abc import Callable

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has)

from arm_ext.pipeline import codegen
from relay_passes import hoist_all, serial_loops
from schedules.composites.workload import Workload
from tests.schedules.kernels.hot import AROUND, HOT, RELU6, TARGETS, Hot
from tests.schedules.kernels.test_hot import on_the_stack
from tests.schedules.products import conv
from tests.schedules.programs import as_lowered, loops


def compiled(func: tirx.PrimFunc, target: tvm.target.Target) -> tvm.runtime.Module:
    """Compile a kernel as a C library has it, on one thread."""
    symbol = func.attrs["global_symbol"]
    lowered = serial_loops(codegen.allocations(tvm.IRModule({symbol: as_lowered(func)})))
    return codegen.build_c_function(hoist_all(lowered[symbol])[0], target)


def c_loops(hot: Hot, core: str) -> list[list[str]]:
    module = compiled(hot.function(core), tvm.target.Target(TARGETS[core]))
    return loops(str(module.inspect_source("asm")))


ON_A76 = [hot for hot in HOT if "cortex-a76" in hot.cores]


@pytest.mark.parametrize(
    "hot",
    [pytest.param(hot, marks=[pytest.mark.long] * (place % 3 > 0)) for place, hot in enumerate(ON_A76)],
    ids=lambda hot: hot.name,
)
def test_no_vector_of_the_hottest_loop_goes_to_the_stack(hot: Hot) -> None:
    hottest = max(c_loops(hot, "cortex-a76"), key=lambda loop: hot.share(loop) * len(loop))
    assert not on_the_stack(hottest)


@pytest.mark.parametrize(
    "make",
    [
        lambda: conv((1, 32, 32, 16), 16, (3, 3), pads=AROUND, quant=RELU6).workload,
        lambda: conv((1, 32, 32, 16), 32, (3, 3), strides=(2, 2), pads=(0, 0, 1, 1), quant=RELU6).workload,
    ],
    ids=["first", "downsampling"],
)
def test_no_vector_of_resnet_8_goes_to_the_stack(make: Callable[[], Workload]) -> None:
    """Convolutions of nine short segments: with indices of 32 bits a loop had 120 to 140 vectors on the stack."""
    spilled = [on_the_stack(loop) for loop in c_loops(Hot("gemm_s8_sdot", make, 0.8), "neoverse-n2")]
    assert spilled
    assert not any(spilled)


@T.prim_func(s_tir=True)
def halved(x: T.Buffer((T.int64(4096),), "float32"), y: T.Buffer((T.int64(4096),), "float32")) -> None:
    for i in T.serial(T.int64(4096)):
        y[i] = x[i] * T.float32(0.5)


@pytest.mark.parametrize(("triple", "bits"), [("aarch64-linux-gnu", 64), ("armv7a-linux-gnueabihf", 32)])
def test_indices_are_as_wide_as_addresses(triple: str, bits: int) -> None:
    code = str(compiled(halved, tvm.target.Target({"kind": "llvm", "mtriple": triple})).inspect_source("ll"))
    kernel = next(part for part in code.split("define ") if "@halved(" in part.splitlines()[0])
    assert set(re.findall(r"= phi i(\d+)", kernel)) == {str(bits)}
