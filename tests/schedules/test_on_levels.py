# SPDX-License-Identifier: Apache-2.0
"""Each kernel at each instruction-set level of `certify`, as LLVM compiles it there, on a CPU with just that level.

The grids of shapes run at one level; here each kernel has one of its cases with tails once more, and a few with
`-m long`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from arm_ext.board import open_board
from arm_ext.board.virtual import needs_sme
from arm_ext.target.levels import levels
from schedules.kernels.common.contract import KernelMatch
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.values import dequantize
from schedules.select import KERNELS, SME_KERNELS, kernel_named
from tests.schedules import block_cases, float_cases, grouped_cases, half_cases, products
from tests.schedules.float_cases import conv2d
from tests.schedules.half_cases import halved, weight_only
from tests.schedules.kernels.attention import test_attention_f32
from tests.schedules.kernels.elementwise import test_broadcast_s8, test_elementwise_s8
from tests.schedules.kernels.elementwise.test_binary_forms import A, B, Y
from tests.schedules.kernels.gemm import test_matmul_f32, test_matmul_s8
from tests.schedules.kernels.normalization import test_norm_f32, test_norm_s8
from tests.schedules.kernels.recurrent import test_lstm_s8, test_recurrent_f32, test_recurrent_s8
from tests.schedules.kernels.softmax import test_quotient_s8, test_softmax_f32, test_softmax_s8
from tests.schedules.kernels.trees import test_tree_ensemble
from tests.schedules.kernels.winograd import test_winograd_f32 as winograd
from tests.schedules.products import MIXED, UNSIGNED, WIDE, conv
from tests.schedules.programs import linear, model_so
from tests.sme import require_sme

STEPS = ("bias", "residual", "relu", "clip")
AROUND = (1, 1, 1, 1)


def _products() -> list[products.Case]:
    return [
        products.linear((13,), 65, 31, quant=UNSIGNED),
        conv((1, 9, 8, 3), 17, (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), quant=WIDE),
        conv((1, 7, 7, 16), 24, (3, 3), groups=2, pads=AROUND, quant=MIXED),
    ]


def _depthwise() -> list[products.Case]:
    return [
        conv((2, 7, 9, 17), 17, (3, 3), groups=17, pads=AROUND, quant=UNSIGNED),
        conv((1, 9, 13, 8), 8, (5, 5), groups=8, strides=(2, 2), pads=(1, 2, 2, 1), quant=MIXED),
    ]


def _floats() -> list[float_cases.Case]:
    images = conv2d((1, 9, 8, 3), 17, (3, 3), STEPS, strides=(2, 2), padding=(0, 1, 1, 0))
    return [float_cases.Case(workload) for workload in (linear(9, 31, 37, STEPS), images)]


def _halves(dtype: str) -> list[half_cases.Case]:
    images = conv2d((1, 7, 9, 16), 24, (3, 3), ("bias", "relu"), padding=AROUND)
    return [half_cases.Case(halved(workload, dtype)) for workload in (linear(15, 57, 300, STEPS), images)]


def _elementwise() -> list[products.Case]:
    shape = (3, 11, 5)
    add = test_elementwise_s8.workload("add", (A, B, Y), shape)
    table = test_elementwise_s8.table(shape, "int8", "uint8")
    a, b = (test_elementwise_s8.drawn(shape, of.dtype) for of in (A, B))
    entries = test_elementwise_s8.drawn((256,), "uint8")
    return [
        products.Case(add, (a, b), (), binary("add", dequantize(a, A), dequantize(b, B), Y)),
        products.Case(table, (a,), (entries,), entries[a.astype(int) + 128]),
    ]


def _depthwise_floats() -> list[float_cases.Case]:
    return [
        float_cases.Case(conv2d((2, 9, 7, 17), 17, (3, 3), STEPS, padding=AROUND, groups=17)),
        float_cases.Case(conv2d((1, 8, 31, 5), 5, (5, 5), strides=(2, 2), groups=5)),
    ]


def _rows(case: Any, constants: Sequence[Any]) -> SimpleNamespace:
    return SimpleNamespace(**vars(case) | {"inputs": [case.x], "constants": constants})


CASES: dict[str, Callable[[], Sequence[Any]]] = {
    "gemm_f32": _floats,
    "gemm_f16": lambda: _halves("float16"),
    "gemm_bf16": lambda: _halves("bfloat16"),
    "gemm_w8": lambda: [half_cases.Case(weight_only(linear(13, 35, 31, STEPS), "float32"))],
    "gemm_blocks_f32": lambda: [grouped_cases.Case(13, grouped_cases.weights_of(35, 31, 8), STEPS)],
    "gemm_blocks": lambda: [block_cases.Case(13, 35, 70, offsets=True, steps=("bias", "residual"), shift=8)],
    "gemm_blocks_mmla": lambda: [
        block_cases.Case(13, 35, 70, offsets=True, steps=("bias", "residual"), shift=8)
    ],
    "gather_blocks": lambda: [block_cases.Gather(block_cases.Case(1, 35, 96, offsets=True, shift=8))],
    "sparse_f32": lambda: [float_cases.Case(linear(40, 24, 64, STEPS), 0.8)],
    "winograd_f32": lambda: [float_cases.Case(workload) for workload, _ in winograd.CASES[:2]],
    "depthwise_f32": _depthwise_floats,
    "elementwise_s8": _elementwise,
    "broadcast_s8": lambda: [
        test_broadcast_s8.Case("multiply", ((1, 7, 7, 24), (1, 1, 1, 24)), test_broadcast_s8.WIDE),
        test_broadcast_s8.Case("add", ((7, 33), (33,)), (A, None, Y)),
    ],
    "depthwise_s8": _depthwise,
    "gemm_s8_mmla": _products,
    "gemm_s8_sdot": _products,
    "depthwise_s8_mlal": _depthwise,
    "gemm_s8_mlal": _products,
    "matmul_s8": lambda: test_matmul_s8.CASES[2:4],
    "matmul_f32": lambda: test_matmul_f32.CASES[2:6:2],
    "attention_f32": lambda: [test_attention_f32.CASES["causal"]],
    "softmax_s8": lambda: [test_softmax_s8.CASES[4], test_quotient_s8.CASES[4]],
    "depthwise_s8_patch": _depthwise,
    "norm_s8": lambda: test_norm_s8.CASES[5:7],
    "norm_f32": lambda: [_rows(case, case.constants) for case in test_norm_f32.CASES[5:7]],
    "softmax_f32": lambda: [_rows(case, ()) for case in test_softmax_f32.CASES[3:5]],
    "recurrent_f32": lambda: test_recurrent_f32.CASES[1:5:2],
    "recurrent_s8": lambda: test_recurrent_s8.CASES[1:5:2],
    "lstm_s8": lambda: test_lstm_s8.TAKEN[1:3],
    "gemm_s8_sme": _products,
    "gemm_f32_sme": _floats,
    "tree_ensemble": lambda: test_tree_ensemble.CASES[1:6:2],
}


LEVELS = {level.name: level for level in levels()}

SINCE = {
    "gemm_f16": "dotprod",  # fp16 comes with it
    "gemm_s8_sdot": "dotprod",
    "depthwise_s8": "dotprod",
    "gemm_bf16": "i8mm",  # as does bf16 here
    "gemm_s8_mmla": "i8mm",
    "gemm_blocks_mmla": "i8mm",
    "gemm_s8_sme": "sme-128",
    "gemm_f32_sme": "sme-128",
}
"""Kernel → the first level at which it runs; the others run at all levels."""


def test_every_kernel_is_here() -> None:
    assert set(CASES) == {kernel.NAME for kernel in (*KERNELS, *SME_KERNELS)}


@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", LEVELS)
def test_values(name: str, each: bool, tmp_path: Path) -> None:
    level = LEVELS[name]
    if needs_sme(level.cpu):
        require_sme()
    core, calls, run = level.profile.core, [], []
    for kernel_name, make in CASES.items():
        kernel = kernel_named(kernel_name)
        cases = [case for case in make() if isinstance(kernel.matches(case.workload, core), KernelMatch)]
        since = list(LEVELS).index(SINCE.get(kernel_name, next(iter(LEVELS))))
        assert bool(cases) == (list(LEVELS).index(name) >= since), kernel_name
        for case in cases[: None if each else 1]:
            params = kernel.default(case.workload, core)
            arguments = [*case.inputs, *kernel.pack(case.workload, params, case.constants)]
            func = kernel.build(case.workload, params)
            calls.append((func, arguments, case.workload.output_shape, case.workload.output_dtype))
            run.append((kernel_name, case))
    so = model_so(tmp_path / "model.so", calls, level.profile.tvm_target())
    with open_board(f"virtual:{level.cpu}") as board:
        outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for (kernel_name, case), actual in zip(run, outputs, strict=True):
        # A kernel of integers has no bound: it is exact.
        error = np.abs(actual.astype(np.float64) - case.expected.astype(np.float64))
        assert (error <= getattr(case, "bound", 0)).all(), kernel_name
