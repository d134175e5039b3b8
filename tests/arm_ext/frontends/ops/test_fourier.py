# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms in one and in two factors against numpy's, and the rule that chooses between them."""

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from arm_ext.frontends.graph import Graph
from arm_ext.frontends.ops.fourier import Fourier, factor_of, fourier
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import bindings_of

# No factors, and two: one odd and one even, both odd, and equal ones; the others with `-m long`.
LENGTHS = (1, 2, 7, 8, 60, 400)
LONG = [
    pytest.param(length, marks=pytest.mark.long) for length in (9, 12, 31, 75, 256, 512, 1000, 1024, 2048)
]

# Relative to the greatest: rounding errors of a sum of 64 terms, the most that these factors give, grow like a random
# walk to about 8 units in the last place, and there are two products.
BOUND = 16 * 2.0**-24

Part = tuple[Fourier, np.ndarray]


def module(cases: Sequence[Part]) -> tvm.IRModule:
    """A function of all data that returns all transforms."""
    builder = relax.BlockBuilder()
    data = [relax.Var(f"x{k}", relax.TensorType(x.shape, str(x.dtype))) for k, (_, x) in enumerate(cases)]
    with builder.function("main", data):
        with builder.dataflow():
            graph = Graph(builder)
            results = [fourier(graph.hold(x), t).full for x, (t, _) in zip(data, cases, strict=True)]
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    return builder.get()


def numpys(transform: Fourier, x: np.ndarray) -> np.ndarray:
    """The same in binary64."""
    z = x[..., 0, :].astype(complex)
    if x.shape[-2] > 1:
        z += 1j * x[..., 1, :]
    if transform.half:
        return np.fft.irfft(z, transform.length)[..., None, :]
    whole = (np.fft.ifft if transform.inverse else np.fft.fft)(z, transform.length)[..., : transform.bins]
    return np.stack([whole.real, whole.imag], axis=-2)


def check(cases: Sequence[Part]) -> None:
    found = run_on_host(module(cases), [x for _, x in cases])
    for (transform, x), ours in zip(cases, found, strict=True):
        wanted = numpys(transform, x)
        assert ours.shape == wanted.shape, transform
        np.testing.assert_allclose(
            ours, wanted, rtol=0, atol=BOUND * np.abs(wanted).max(), err_msg=str(transform)
        )


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("length", [*LENGTHS, *LONG])
def test_all_kinds_are_numpys(length: int) -> None:
    side = length // 2 + 1
    check(
        [
            (Fourier(length, side), floats(3, 2, 1, length)),
            (Fourier(length, length), floats(2, 1, length)),
            (Fourier(length, length), floats(3, 2, length)),
            (Fourier(length, side), floats(2, length)),
            (Fourier(length, length, inverse=True), floats(2, 2, length)),
            (Fourier(length, length, inverse=True, half=True), floats(3, 2, side)),
        ]
    )


@pytest.mark.each_once
@pytest.mark.parametrize("length", [9, 60])
@pytest.mark.parametrize("share", [0.3, 0.78, 1.5])
def test_data_are_cut_or_padded(length: int, share: float) -> None:
    given, side = int(share * length), int(share * (length // 2 + 1))
    check(
        [
            (Fourier(length, length // 2 + 1), floats(3, 1, given)),
            (Fourier(length, length), floats(2, 2, given)),
            (Fourier(length, length, inverse=True, half=True), floats(2, 2, side)),
            (Fourier(length, length, inverse=True, half=True), floats(2, 1, side)),
        ]
    )


@pytest.mark.parametrize("length", [7, 8, 12, 31, 509, 1021])
def test_short_and_prime_lengths_have_one_factor(length: int) -> None:
    assert factor_of(Fourier(length, length // 2 + 1), 1, length) == 1


@pytest.mark.parametrize("length", [256, 400, 512, 1000, 1024, 2048, 729, 1001])
@pytest.mark.parametrize("kind", ["real", "complex", "half"])
def test_two_factors_take_fewer_multiply_accumulates(length: int, kind: str) -> None:
    half, parts = kind == "half", 1 if kind == "real" else 2
    transform = Fourier(length, length // 2 + 1 if kind == "real" else length, half, half)
    x = floats(2, parts, transform.longest)
    dense = 2 * parts * transform.longest * transform.results * transform.bins
    assert 1 < factor_of(transform, parts, transform.longest) < length
    assert macs(module([(transform, x)])) < dense * (16 / length**0.5)


def test_multiply_accumulates_of_2048_real_elements() -> None:
    # 2,048 elements · 64 rows, then 17 k2 of 2 parts · 32 n2 of 2 parts · 64 k1.
    assert macs(module([(Fourier(2048, 1025), floats(1, 2048))])) == 2048 * 64 + 17 * 2 * 32 * 2 * 64


def macs(mod: tvm.IRModule) -> int:
    """Multiply-accumulates of the matrix products."""
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    products = [call for call in calls if call.op.name == "relax.matmul"]
    return sum(int(np.prod([*call.ty.shape, call.args[0].ty.shape[-1]])) for call in products)
