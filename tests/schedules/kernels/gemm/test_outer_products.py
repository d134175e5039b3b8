# SPDX-License-Identifier: Apache-2.0
"""The GEMM kernels on SME, run with vectors of each length."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board, open_board
from arm_ext.board.virtual import emulator
from arm_ext.target.profiles import SME_BITS, resolve, sme_cpu
from arm_ext.target.toolchain import zig_target
from schedules.composites.workload import Workload
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sme
from schedules.kernels.common.contract import Kernel, KernelMatch, missing_feature
from schedules.kernels.gemm import gemm_f32_sme, gemm_s8_mmla, gemm_s8_sme
from schedules.kernels.gemm.outer_products import Params
from schedules.select import Choice, select
from tests.schedules import float_cases
from tests.schedules.float_cases import conv2d
from tests.schedules.kernels.epilogues import test_residual_s8
from tests.schedules.products import (
    CONVOLUTIONS,
    LINEAR,
    MIXED,
    QUANTS,
    RESCALED,
    SYMMETRIC16,
    UNSIGNED,
    Case,
    conv,
)
from tests.schedules.products import linear as linear_s8
from tests.schedules.programs import BASELINE, TRIPLE, linear, model_so
from tests.sme import require_sme

TARGET = {**BASELINE, "mattr": ["+sme", "+dotprod"]}
# Two vector pipes, so that SMMLA is slower than SMOPA, and a unit whose rates are assumed.
PROFILE = resolve("c1-pro", "+sme")
CORE = PROFILE.core
STEPS = ("bias", "residual", "relu", "clip")


@pytest.fixture(scope="module", params=SME_BITS)
def sme_board(request: pytest.FixtureRequest) -> Iterator[Board]:
    """An emulated board with vectors of one length in streaming mode, and without SVE outside it, as Apple's M4."""
    require_sme()
    with open_board(f"virtual:max,sve=off,{sme_cpu(request.param)}") as board:
        assert "sme" in board.info.features
        assert "sve" not in board.info.features
        yield board


def emulated(program: Path, bits: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a C program with vectors of a length in streaming mode."""
    qemu, root = emulator(sme=True)
    line = [qemu, "-L", str(root), "-cpu", f"max,{sme_cpu(bits)}", str(program), *arguments]
    return subprocess.run(line, capture_output=True, text=True)


def taken(kernel: Kernel, cases: Sequence[Any]) -> list[Any]:
    return [case for case in cases if isinstance(kernel.matches(case.workload, CORE), KernelMatch)]


def int8_cases() -> list[Case]:
    cases = [case for case in (*LINEAR, *CONVOLUTIONS) if "groups" not in reason(gemm_s8_sme, case.workload)]
    assert taken(gemm_s8_sme, cases) == cases
    # Each kind of data and result, with limits and without, on both sides of what int16 holds.
    for index, quant in enumerate((*QUANTS, replace(UNSIGNED, bounds=None), replace(MIXED, scale=900.0))):
        cases.append(linear_s8((33 + index,), 31, 41, quant=quant))
    # Residual additions with results that are no whole vectors; the fourth, of another dtype, is declined.
    residuals = taken(gemm_s8_sme, test_residual_s8.cases()[:4])
    assert len(residuals) == 3
    return [*cases, *residuals]


def float_cases_with_tails() -> list[float_cases.Case]:
    workloads = [
        *(linear(m, n, k, ("bias",)) for m, n, k in ((1, 1, 1), (7, 8, 31), (33, 41, 9), (65, 16, 67))),
        linear(17, 33, 5, ("bias", "relu")),
        linear(9, 31, 64, ("clip",)),
        linear(9, 31, 37, STEPS),
        conv2d((2, 9, 8, 3), 17, (3, 3), STEPS, strides=(2, 2), padding=(0, 1, 1, 0)),
        conv2d((1, 11, 9, 17), 9, (3, 2), ("bias", "leaky_relu"), dilation=(2, 3), padding=(2, 1, 0, 1)),
    ]
    cases = [float_cases.Case(workload) for workload in workloads]
    assert taken(gemm_f32_sme, cases) == cases
    return cases


Built = tuple[Path, list[Any], list[Case], list[float_cases.Case]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A model.so of all cases for vectors of any length, its arguments, and the cases."""
    integers, floats = int8_cases(), float_cases_with_tails()
    calls = []
    for index, case in enumerate(integers):
        params = Params(1 + index % 2)
        shape, dtype = case.workload.output_shape, case.workload.output_dtype
        func = gemm_s8_sme.build(case.workload, params)
        calls.append((func, case.arguments(gemm_s8_sme, params), shape, dtype))
    calls += [case.call(gemm_f32_sme, Params(1 + index % 2)) for index, case in enumerate(floats)]
    so = model_so(tmp_path_factory.mktemp("sme") / "model.so", calls, TARGET)
    return so, [array for _, arguments, _, _ in calls for array in arguments], integers, floats


@pytest.fixture(scope="module")
def first() -> list[Any]:
    """The outputs with vectors of the first length that is run."""
    return []


def test_every_value_with_vectors_of_any_length(sme_board: Board, built: Built, first: list[Any]):
    so, arguments, integers, floats = built
    outputs = sme_board.load(so).run(arguments)
    first.extend([] if first else outputs)
    assert [a.tobytes() for a in outputs] == [b.tobytes() for b in first]
    for case, actual in zip(integers, outputs, strict=False):
        np.testing.assert_array_equal(actual, case.expected, err_msg=str(case.workload))
    for floating, actual in zip(floats, outputs[len(integers) :], strict=True):
        floating.check(actual)


def reason(kernel: Kernel, workload: Workload) -> str:
    answer = kernel.matches(workload, CORE)
    return answer.reason


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (conv((1, 7, 7, 16), 24, (3, 3), groups=2), "convolution has groups"),
        (linear_s8((7,), 8, 9, quant=RESCALED[0]), "numerics are not supported"),
        (linear_s8((7,), 8, 9, quant=SYMMETRIC16), "operands are not of 8 bits"),
        (linear_s8((7,), 8, 9, quant=replace(MIXED, nine_bits=True)), "operands are not of 8 bits"),
    ],
)
def test_what_it_declines(case: Case, why: str):
    answer = gemm_s8_sme.matches(case.workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == why


def test_a_core_without_sme_declines():
    core = CORES["c1-pro"]
    for kernel, case in ((gemm_s8_sme, LINEAR[0]), (gemm_f32_sme, float_cases.Case(linear(7, 8, 9)))):
        assert kernel.matches(case.workload, core) == missing_feature(kernel.NAME, "sme", core)


def test_select_weighs_the_unit_against_the_pipes():
    large, small = linear_s8((256,), 256, 256).workload, linear_s8((1,), 1280, 1000).workload
    chosen = [select(workload, CORE) for workload in (large, small)]
    assert [choice.kernel for choice in chosen if isinstance(choice, Choice)] == [
        gemm_s8_sme.NAME,
        "gemm_s8_sdot",
    ]
    # Apple's unit is slow in requantising, which four pipes do beside SMMLA: products of few k stay there.
    apple = resolve("apple-m4", "+sme").core
    thin = select(conv((1, 56, 56, 24), 144, (1, 1)).workload, apple)
    assert isinstance(thin, Choice)
    assert thin.kernel == gemm_s8_mmla.NAME


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_a_loop_loads_four_vectors_for_four_outer_products(dtype: str):
    """The code between two labels that has most outer products."""
    variant = sme.Variant(dtype, "float32" if dtype == "float32" else "int8")
    blocks = re.split(r"^\.L\w+:", variant.assembly, flags=re.MULTILINE)
    with_products = max(blocks, key=lambda block: block.count("mopa za"))
    lines = with_products.split("b.ne")[0].strip().splitlines()
    assert sum("mopa za" in line for line in lines) == sum("{z" in line for line in lines) == 16
    assert len(lines) == 36


# Fills ZA, tells by TPIDR2_EL0 where it is to be stored, calls the function with the nine numbers at x0, eight operands
# and its address, and stores D8 to D15 and TPIDR2_EL0 behind them.
CALLER = """
.arch armv9-a+sme
.globl call
call:
stp x29, x30, [sp, #-96]!
stp x19, x20, [sp, #16]
stp d8, d9, [sp, #32]
stp d10, d11, [sp, #48]
stp d12, d13, [sp, #64]
stp d14, d15, [sp, #80]
mov x19, x0
smstart za
mov w12, #0
ldrh w10, [x1, #8]
1: ldr za[w12, 0], [x2]
add x2, x2, x10
add w12, w12, #1
cmp w12, w10
b.lo 1b
msr TPIDR2_EL0, x1
fmov d8, #1.0
fmov d9, #2.0
fmov d10, #3.0
fmov d11, #4.0
fmov d12, #5.0
fmov d13, #6.0
fmov d14, #7.0
fmov d15, #8.0
ldr x9, [x19, #64]
ldp x0, x1, [x19]
ldp x2, x3, [x19, #16]
ldp x4, x5, [x19, #32]
ldp x6, x7, [x19, #48]
blr x9
stp d8, d9, [x19, #72]
stp d10, d11, [x19, #88]
stp d12, d13, [x19, #104]
stp d14, d15, [x19, #120]
mrs x9, TPIDR2_EL0
str x9, [x19, #136]
ldp x19, x20, [sp, #16]
ldp d8, d9, [sp, #32]
ldp d10, d11, [sp, #48]
ldp d12, d13, [sp, #64]
ldp d14, d15, [sp, #80]
ldp x29, x30, [sp], #96
ret
"""

PROGRAM = r"""
#include <stdio.h>
#include <string.h>
static signed char x[4] = {1, 2, 3, 4}, weights[128], y[1], panel[128];
static int constants[64];
static long shape[] = {SHAPE};
static unsigned char kept[BYTES * BYTES], stored[BYTES * BYTES];
static struct { void *to; unsigned short slices; unsigned short none[3]; } block = {stored, BYTES, {0}};
void call(long *numbers, void *block, void *kept);
void FUNCTION(void);
int main(void)
{
    float one = 1;
    for (int i = 0; i < 4; i++) weights[i] = 5;
    for (int i = 0; i < BYTES * BYTES; i++) kept[i] = i * 7 + i / 251;
    memcpy(constants + 32, &one, 4);
    union { long n[18]; double d[18]; } v = {{(long)x, (long)weights, (long)constants, (long)y, (long)shape,
                                              (long)panel, 0, 1, (long)FUNCTION}};
    call(v.n, &block, kept);
    for (int i = 0; i < 8; i++) if (v.d[9 + i] != i + 1) printf("d%d is %g\n", 8 + i, v.d[9 + i]);
    if (v.n[17]) printf("TPIDR2_EL0 is not 0\n");
    if (memcmp(kept, stored, sizeof kept)) printf("ZA is not stored\n");
    printf("%d\n", y[0]);
    return 0;
}
"""


def test_a_callers_registers_and_array_survive(tmp_path: Path):
    require_sme()
    variant = sme.Variant("int8", "int8")
    shape = sme.Shape(1, 0, -128, 127, (1, 1, 1), (0, 0, 4), 0, ((0, 4),), 1).array(variant)
    (tmp_path / "function.s").write_text(variant.assembly)
    (tmp_path / "caller.s").write_text(CALLER)
    text = PROGRAM.replace("SHAPE", ", ".join(map(str, shape))).replace("FUNCTION", variant.name)
    (tmp_path / "main.c").write_text(text.replace("BYTES", "32"))
    sources = [str(tmp_path / name) for name in ("main.c", "caller.s", "function.s")]
    cc = [sys.executable, "-m", "ziglang", "cc", "-target", zig_target(TRIPLE), "-o"]
    subprocess.run([*cc, str(tmp_path / "program"), *sources], check=True)
    assert emulated(tmp_path / "program", 256).stdout == "50\n"


VARIANTS = [
    sme.Variant(data, to, wide, odd, limited)
    for data in ("int8", "uint8")
    for to in ("int8", "uint8")
    for wide in (False, True)
    for odd in (False, True)
    for limited in (False, True)
] + [sme.Variant("float32", "float32", limited=limited) for limited in (False, True)]


@pytest.mark.parametrize("shapes", [510, pytest.param(5000, marks=pytest.mark.long)])
def test_shapes_that_are_drawn(shapes: int, tmp_path: Path):
    require_sme()
    functions = {variant.name: variant.assembly for variant in VARIANTS}
    (tmp_path / "functions.s").write_text("\n".join(functions.values()))
    rows = (
        (v.floats, v.dtype == "uint8", v.to == "uint8", v.wide, v.odd, v.limited, v.name) for v in VARIANTS
    )
    lines = [f"enum {{ {', '.join(f'PLACE_{name}' for name in sme.FIELDS)} }};"]
    lines += [f"function {name};" for name in functions]
    lines += ["static const variant variants[] = {"]
    lines += [f"    {{{name}, {', '.join(f'{flag:d}' for flag in flags)}}}," for *flags, name in rows]
    (tmp_path / "variants.h").write_text("\n".join([*lines, "};", ""]))
    source = Path(__file__).with_name("outer_products_fuzz.c")
    cc = [sys.executable, "-m", "ziglang", "cc", "-target", zig_target(TRIPLE), "-O2"]
    cc += ["-ffp-contract=off", "-fno-sanitize=all", f"-I{tmp_path}", "-o", str(tmp_path / "program")]
    subprocess.run([*cc, str(source), str(tmp_path / "functions.s"), "-lm"], check=True)
    for seed, bits in enumerate(SME_BITS):
        done = emulated(tmp_path / "program", bits, str(seed), str(shapes))
        print(f"{bits} bits: {done.stdout}")  # noqa: T201 (what was covered)
        assert done.returncode == 0, done.stdout


def test_packed_columns_begin_a_word_with_each_segment():
    weights = np.arange(1, 11, dtype=np.int8).reshape(2, 5)
    packed = sme.pack_columns(weights, ((0, 3), (7, 2))).reshape(1, 2, sme.PANEL, sme.WORD)
    assert packed[0, :, :2].tolist() == [[[1, 2, 3, 0], [6, 7, 8, 0]], [[4, 5, 0, 0], [9, 10, 0, 0]]]
    assert not packed[0, :, 2:].any()
