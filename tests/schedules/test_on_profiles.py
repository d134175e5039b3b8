# SPDX-License-Identifier: Apache-2.0
"""What is chosen for one grid of shapes on four profiles: cores with NEON alone, dotprod, i8mm, and SVE of 128 bits."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import open_board
from arm_ext.target.profiles import resolve
from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.select import Choice, kernel_named, select
from tests.schedules import float_cases, half_cases, products
from tests.schedules.float_cases import conv2d
from tests.schedules.half_cases import halved, weight_only
from tests.schedules.products import MIXED, UNSIGNED, conv
from tests.schedules.programs import SVE_PROFILE, linear, model_so
from tests.schedules.test_on_levels import CASES

# By the kernel of products of bytes that those before have not.
PROFILES = {
    "gemm_s8_mlal": resolve("cortex-a72"),
    "gemm_s8_sdot": resolve("cortex-a76"),
    "gemm_s8_mmla": resolve("neoverse-n2", "-sve,-sve2"),
    "gemm_s8_mmla, sve": SVE_PROFILE,
}

# Whose shapes are rows, or whatever tensors have.
OF_ROWS = (
    "elementwise_s8",
    "broadcast_s8",
    "matmul_s8",
    "matmul_f32",
    "attention_f32",
    "softmax_s8",
    "norm_s8",
    "norm_f32",
)

STEPS = ("bias", "relu")


@functools.cache
def _integers() -> tuple[products.Case, ...]:
    """With 1, 3, 5 and 17 channels, strides, dilation, groups, of one and of several channels."""
    return (
        *products.CONVOLUTIONS,
        *products.LINEAR[4:8],
        conv((2, 7, 9, 17), 17, (3, 3), groups=17, pads=(1, 1, 1, 1), quant=UNSIGNED),
        conv((1, 9, 13, 5), 5, (5, 5), groups=5, strides=(2, 2), pads=(1, 2, 2, 1), quant=MIXED),
        conv((1, 7, 7, 10), 34, (3, 3), groups=2, dilation=(1, 2), pads=(1, 2, 1, 2)),
    )


def _float(of: Workload) -> Workload:
    """The same in float32."""
    x, w = (operand.shape for operand in of.operands)
    if of.composite == "arm.linear_s8":
        return linear(x[-2], w[1], w[0], STEPS, lead=x[:-2])
    (_, height, width, _) = of.pad.widths if of.pad else [(0, 0)] * 4
    window = {name: getattr(ConvolutionAttributes.of(of), name) for name in ("strides", "dilation")}
    padding = (height[0], width[0], height[1], width[1])
    groups = int(dict(of.attributes)["groups"])
    return conv2d(x, w[0], w[1:3], STEPS, **window, padding=padding, groups=groups)


@functools.cache
def _floats() -> tuple[float_cases.Case, ...]:
    winograd = conv2d((1, 9, 7, 12), 20, (3, 3), STEPS, padding=(1, 1, 1, 1))
    return tuple(float_cases.Case(each) for each in (*(_float(c.workload) for c in _integers()), winograd))


@functools.cache
def _others(features: frozenset[str]) -> tuple[Any, ...]:
    """Of 16 bits, of integer weights, and of rows."""
    halves = [
        dtype for dtype, feature in (("float16", "fullfp16"), ("bfloat16", "bf16")) if feature in features
    ]
    full = [_float(case.workload) for case in _integers()[:6:2]]
    return (
        *(half_cases.Case(halved(each, dtype, cast=dtype == "float16")) for each in full for dtype in halves),
        half_cases.Case(weight_only(linear(13, 35, 17, STEPS), "float32")),
        *(case for name in OF_ROWS for case in CASES[name]()),
    )


@pytest.mark.long  # the kernels' own tests, and test_on_levels, have such shapes; here is what `select` takes of them
@pytest.mark.parametrize("name", PROFILES)
def test_values(name: str, tmp_path: Path, request: pytest.FixtureRequest):
    profile = PROFILES[name]
    cases: Sequence[Any] = (*_integers(), *_floats(), *_others(frozenset(profile.features)))
    calls, chosen = [], set()
    for case in cases:
        choice = select(case.workload, profile.core)
        assert isinstance(choice, Choice), (case.workload, choice)
        kernel = kernel_named(choice.kernel)
        chosen.add(choice.kernel)
        arguments = [*case.inputs, *kernel.pack(case.workload, choice.params, case.constants)]
        func = kernel.build(case.workload, choice.params)
        calls.append((func, arguments, case.workload.output_shape, case.workload.output_dtype))
    assert name.partition(",")[0] in chosen
    with open_board(request.config.getoption("--board"), profile_cpu=profile.qemu_cpu) as board:
        if missing := set(profile.features) - board.info.features:
            pytest.skip(f"board {board.name} lacks {', '.join(sorted(missing))}")
        so = model_so(tmp_path / "model.so", calls, profile.tvm_target())
        outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        # A kernel of integers has no bound: it is exact.
        error = np.abs(actual.astype(np.float64) - case.expected.astype(np.float64))
        assert (error <= getattr(case, "bound", 0)).all(), case.workload
