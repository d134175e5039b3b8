# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board
from schedules.kernels.epilogues.requantize import (
    BIASED_LIMIT,
    INSTRUCTIONS,
    MAGIC_BITS,
    MAGIC_LIMIT,
    Form,
    Requantization,
    form_of,
    requantize16,
)
from schedules.numerics.qdq import requantize
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, Array, assembly, model_so

# The form "fused" has constants of its own: see test_requantize_fused.
FORMS: tuple[Form, ...] = ("biased", "magic", "convert")
OUTPUTS = [
    Requantization(-128, -128, 127, "int8"),
    Requantization(3, -128, 127, "int8"),
    Requantization(-7, -100, 99, "int8"),
    Requantization(0, 0, 255, "uint8"),
    Requantization(255, 10, 250, "uint8"),
    Requantization(131, 131, 255, "uint8"),
]


def rounding(form: Form, to: Requantization, size: int) -> tirx.PrimFunc:
    """Requantises `size` accumulators, a multiple of 16, each by its own multiplier."""
    arguments = [((size,), "int32"), ((size,), "float32"), ((size,), to.dtype)]
    with kernel_function("rounding", arguments) as function:
        acc, m, output = function.buffers
        with T.serial(i64(0), i64(size // 16)) as block:
            parts = [[load(b, block * 16 + 4 * i, 4) for i in range(4)] for b in (acc, m)]
            store(output, requantize16(form, parts[0], parts[1], to), block * 16, 16)
    return function.prim_func


def accumulators(form: Form, zero_point: int) -> tuple[Array, Array]:
    """Accumulators and multipliers up to the form's limits: ties, near ties, and the ends of both ranges."""
    rng = np.random.default_rng(9)
    largest = {"biased": BIASED_LIMIT - 1, "magic": 2**31 - 1, "convert": 2**31 - 1}[form]
    scaled = float(2**40) if form == "convert" else MAGIC_LIMIT - abs(zero_point) - 1.0
    powers = 2.0 ** -np.arange(0, 20)
    multipliers = np.concatenate([powers, np.nextafter(powers, 0), rng.uniform(1e-6, 0.4, 24)])
    found = []
    for m in multipliers.astype(np.float32):
        limit = min(largest, int(scaled / float(m)))
        spread = rng.integers(-limit, limit, 64, endpoint=True)
        # Half-way between outputs of the whole range, and beside it.
        halves = np.rint((rng.integers(-300, 300, 64) + 0.5) / float(m)) + rng.integers(-1, 2, 64)
        ends = [limit, -limit, limit - 1, 1 - limit, 0, 1, -1]
        found.append((np.clip(np.concatenate([spread, halves, ends]), -limit, limit), m))
    acc = np.concatenate([values for values, _ in found])
    m = np.concatenate([np.full(len(values), m, np.float32) for values, m in found])
    size = len(acc) // 16 * 16
    return acc[:size].astype(np.int32), m[:size]


def test_every_form_is_the_definition_up_to_its_limits(tmp_path: Path, board: Board):
    cases = [(form, to, *accumulators(form, to.zero_point)) for form in FORMS for to in OUTPUTS]
    calls = []
    for form, to, acc, m in cases:
        start = acc + np.int32(MAGIC_BITS) if form == "biased" else acc
        calls.append((rounding(form, to, acc.size), [start, m], acc.shape, to.dtype))
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for (form, to, acc, m), actual in zip(cases, outputs, strict=True):
        expected = requantize(acc, m, to.zero_point, to.dtype, (to.low, to.high))
        np.testing.assert_array_equal(actual, expected, err_msg=f"{form} {to}")


@pytest.mark.parametrize("form", FORMS)
def test_vector_instructions_are_as_many_as_estimated(form: Form):
    to = Requantization(-128, -128, 127, "int8")
    body = assembly(rounding(form, to, 16), BASELINE)
    names = (
        "scvtf",
        "fmul",
        "fmulx",
        "fadd",
        "fsub",
        "fcvtns",
        "uzp1",
        "sqxtn",
        "sqxtn2",
        "sqadd",
        "xtn",
        "xtn2",
    )
    count = sum(line.split()[0] in names for line in body.splitlines() if line.strip())
    assert count == 16 * INSTRUCTIONS[form]


def test_the_cheapest_exact_form_is_taken_at_the_limits():
    assert form_of(BIASED_LIMIT - 1, 1.0, 0) == "biased"
    assert form_of(BIASED_LIMIT, 1.0, 0) == "magic"
    assert form_of(1.0, MAGIC_LIMIT - 130, -128) == "biased"
    assert form_of(1.0, MAGIC_LIMIT - 129, -128) == "convert"
