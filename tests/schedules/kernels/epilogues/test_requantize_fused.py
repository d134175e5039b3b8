# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board
from schedules.kernels.epilogues import requantize_fused
from schedules.kernels.epilogues.requantize import MAGIC_LIMIT, Requantization, requantize16
from schedules.kernels.epilogues.requantize_fused import FusedRequantization, fused_constants
from schedules.numerics.binary32 import MAGIC_BITS
from schedules.numerics.qdq.requantize import requantize
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, NEON, Array, assembly, loops, model_so

BASE_BITS = 0x4B000000  # of 2**23
LEAST_BASE = 2**23

# Zero points even, odd and at an end; limits of the dtype and of a clamp.
OUTPUTS = [
    Requantization(0, -128, 127, "int8"),
    Requantization(-128, -128, 127, "int8"),
    Requantization(3, -128, 127, "int8"),
    Requantization(-7, -100, 90, "int8"),
    Requantization(131, 0, 255, "uint8"),
]
DYADIC = np.float32([2.0**-1, 2.0**-4, 2.0**-10, 2.0**-15, 3 * 2.0**-9, 5 * 2.0**-12, 7 * 2.0**-14])
DECIMAL = np.float32([0.1, 0.05, 0.01, 0.003, 0.0021, 0.001])
BELOW_DYADIC = np.nextafter(DYADIC, np.float32(0))


def everything(bound: int, m: np.float32) -> Array:
    """Accumulators whose products fit the 16 bits that are kept."""
    bound = min(bound, int((MAGIC_LIMIT - 255) / float(m)))
    return np.arange(1 - bound, bound, dtype=np.int64)


def from_first_principles(fused: FusedRequantization, channel: int, acc: Array, to: Requantization) -> Array:
    """What the fused form gives, in integers: the exact sum in units of 2**-e, rounded half to even once."""
    numerator, denominator = float(fused.m[channel]).as_integer_ratio()
    base = int(fused.base[channel]) - BASE_BITS + LEAST_BASE
    assert (base + acc >= LEAST_BASE).all()
    assert (base + acc < 2 * LEAST_BASE).all()
    return narrowed(acc * numerator, (base * numerator, denominator), int(fused.addend[channel]), to)


def narrowed(products: Array, start: tuple[int, int], addend: int, to: Requantization) -> Array:
    """(products + start[0]) / start[1] + addend, rounded half to even, and what is kept of its bits."""
    numerator, denominator = start
    total = products + numerator % denominator
    whole, rest = total // denominator + (numerator // denominator + addend), total % denominator
    up = (2 * rest > denominator) | ((2 * rest == denominator) & (whole % 2 == 1))
    bits = whole + up - LEAST_BASE + BASE_BITS
    kept = bits + (bits >> 16) if to.zero_point % 2 else bits
    return np.clip(kept.astype(np.int16), to.low, to.high)


@pytest.mark.each_once
@pytest.mark.parametrize("to", OUTPUTS, ids=str)
@pytest.mark.parametrize("bound", [1, 7, 2**10, 2**18])
def test_what_is_proven_equals_the_definition_everywhere(to: Requantization, bound: int):
    rng = np.random.default_rng(bound)
    m = np.concatenate([DYADIC, BELOW_DYADIC, DECIMAL, rng.uniform(3e-4, 5e-2, 9).astype(np.float32)])
    fused = fused_constants(m, bound, to.zero_point, to.low, to.high)
    for channel in np.flatnonzero(fused.proven):
        acc = everything(bound, m[channel])
        expected = requantize(acc, m[channel], to.zero_point, to.dtype, (to.low, to.high))
        np.testing.assert_array_equal(from_first_principles(fused, channel, acc, to), expected)
    # Dyadic ones always are; those next to them meet many near ties.
    assert fused.proven[: len(DYADIC)].all()
    assert fused.proven[-9:].mean() > 0.5


@pytest.mark.parametrize("bound", [2**20, 2**22])
def test_wide_accumulators_with_ties(bound: int):
    m = np.float32([2.0**-14, 3 * 2.0**-15])
    to = OUTPUTS[2]
    fused = fused_constants(m, bound, to.zero_point, to.low, to.high)
    # With the whole range of a base taken there is one base: 1.5 * 2**23 times 3 * 2**-15 is an integer, too.
    assert fused.proven.all()
    for channel in range(2):
        acc = everything(bound, m[channel])[:: 2**3]
        expected = requantize(acc, m[channel], to.zero_point, to.dtype, (to.low, to.high))
        np.testing.assert_array_equal(from_first_principles(fused, channel, acc, to), expected)


def test_channels_of_a_network_layer_are_mostly_proven():
    m = np.random.default_rng(0).uniform(2e-3, 1.4e-2, 1000).astype(np.float32)
    proven = fused_constants(m, 2**18, -128, -128, 127).proven
    assert 0.95 < proven.mean() < 1


def test_what_is_not_proven_has_the_base_of_the_biased_form():
    # Near ties on both sides of a million accumulators, in steps that no base can part.
    m = np.float32([1e-4, np.nan, np.inf, 0.0, -0.5, 1e-30, 1e30, 0.5])
    fused = fused_constants(m, 2**21, 0, -128, 127)
    assert fused.proven.tolist() == [False] * 7 + [True]
    assert (fused.base[:7] == MAGIC_BITS).all()


def test_one_ulp_from_the_multiplier_proves_more(monkeypatch: pytest.MonkeyPatch):
    m = np.random.default_rng(0).uniform(1e-3, 2e-3, 200).astype(np.float32)
    near = fused_constants(m, 2**20, 0, -128, 127).proven
    monkeypatch.setattr(requantize_fused, "NEIGHBOURS", (0,))
    # What was found for these multipliers is kept.
    assert near.sum() > fused_constants(m[:-1], 2**20, 0, -128, 127).proven.sum() + 1


def test_bound_beyond_binary32_is_refused():
    with pytest.raises(ValueError, match=r"below 4194305 .* limit 2"):
        fused_constants(DECIMAL, 2**22 + 1, 0, -128, 127)


def _kernel(rows: int, to: Requantization) -> tirx.PrimFunc:
    """Rows of 16 channels: start + acc, fused."""
    arguments = [((rows * 16,), "int32"), ((16,), "int32"), ((16,), "float32"), ((16,), "float32")]
    with kernel_function("fused", [*arguments, ((rows, 16), to.dtype)]) as function:
        acc, base, m, addend, out = function.buffers
        bases, factors, addends = (
            [load(buffer, i64(4 * v), 4) for v in range(4)] for buffer in (base, m, addend)
        )
        with T.serial(i64(0), i64(rows)) as row:
            values = [load(acc, row * 16 + 4 * v, 4) + bases[v] for v in range(4)]
            store(out, requantize16("fused", values, factors, to, addends), row * 16, 16)
    return function.prim_func


def test_emitted_form_on_a_board(tmp_path: Path, board: Board):
    calls, expected = [], []
    rng = np.random.default_rng(5)
    for to in OUTPUTS:
        any_m = np.concatenate([DYADIC, BELOW_DYADIC, DECIMAL, rng.uniform(3e-3, 5e-2, 9).astype(np.float32)])
        proven = fused_constants(any_m, 2**16, to.zero_point, to.low, to.high).proven
        m = any_m[proven][-16:]
        fused = fused_constants(m, 2**16, to.zero_point, to.low, to.high)
        acc = rng.integers(1 - 2**16, 2**16, (257, 16)).astype(np.int32)
        acc[:64] //= 256
        expected.append(requantize(acc, m, to.zero_point, to.dtype, (to.low, to.high)))
        constants = [fused.base.astype(np.int32), fused.m, fused.addend]
        calls.append((_kernel(len(acc), to), [acc.ravel(), *constants], acc.shape, to.dtype))
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_sixteen_outputs_are_twelve_vector_instructions():
    (loop,) = loops(assembly(_kernel(64, OUTPUTS[0]), NEON))
    names = [line.split()[0] for line in loop]
    rows = names.count("fmla") // 4
    counted = {name: names.count(name) // rows for name in set(names)}
    # Beside them: four additions of the base, loads and the store.
    assert {name: counted[name] for name in ("mov", "fmla", "uzp1", "sqxtn", "sqxtn2")} == {
        "mov": 4,
        "fmla": 4,
        "uzp1": 2,
        "sqxtn": 1,
        "sqxtn2": 1,
    }
    assert not {"fmul", "fmulx", "fadd", "fsub", "scvtf"} & counted.keys()
