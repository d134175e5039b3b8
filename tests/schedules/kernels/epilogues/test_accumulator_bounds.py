# SPDX-License-Identifier: Apache-2.0
import dataclasses
import itertools

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from schedules.composites.transposed_convolution import Geometry
from schedules.composites.workload import Operand, Step
from schedules.kernels.epilogues.accumulator_bounds import (
    DATA_RANGES,
    RANGES,
    magnitude,
    magnitude_of,
    magnitude_of_transposed,
)
from schedules.numerics.qdq.conv2d_transpose import accumulators
from tests.schedules.composite_functions import constant, tensor


def _brute_force(w: np.ndarray, dtype: str, offset: np.ndarray, m: np.ndarray) -> tuple[float, float]:
    """Greatest |acc| and |acc * m| over every corner of the data's range; sums are greatest in corners."""
    corners = np.array(list(itertools.product(DATA_RANGES[dtype], repeat=w.shape[1])))
    acc = np.abs(corners @ w.T.astype(int) + offset)
    return acc.max(), (acc * m.astype(float)).max()


@pytest.mark.parametrize("dtype", DATA_RANGES)
@pytest.mark.parametrize("columns", [1, 3])
def test_bounds_are_the_powers_of_two_above_the_greatest_sum(columns: int, dtype: str):
    rng = np.random.default_rng(2)
    for _ in range(20):
        w = rng.integers(-128, 128, (columns, 5)).astype(np.int8)
        offset, m = rng.integers(-3000, 3000, columns), rng.uniform(1e-3, 4, columns).astype(np.float32)
        found = magnitude(w, 0, dtype, offset, m)
        for power, greatest in zip(
            (found.accumulator, found.scaled), _brute_force(w, dtype, offset, m), strict=True
        ):
            assert greatest < 2**power <= 2 * greatest


def test_a_bound_that_is_a_power_of_two_is_below_the_next():
    one = np.ones(1, np.float32)
    assert (
        magnitude(np.array([[-128]], np.int8), 0, "int8", None, one).accumulator == 15
    )  # |acc| reaches 2**14
    assert magnitude(np.array([[127]], np.int8), 0, "int8", None, one).accumulator == 14
    assert magnitude(np.zeros((1, 3), np.int8), 0, "int8", None, one).accumulator == 0


def test_one_offset_and_multiplier_serve_all_columns():
    w = np.array([[1, 2], [3, -4]], np.int8)
    each = magnitude(w, 1, "int8", np.array([100, 100]), np.array([2, 2], np.float32))
    assert magnitude(w, 1, "int8", np.array([100]), np.array([2], np.float32)) == each


W = Operand((3, 1, 1, 2), "int8", "constant", 0)
X = Operand((1, 4, 4, 2), "int8", "input", 0)


def _steps(multipliers: tuple[int, ...]) -> tuple[Step, ...]:
    return (
        Step("offset", Operand((1, 1, 1, 3), "int32", "constant", 1)),
        Step(
            "requantize",
            Operand(multipliers, "float32", "constant", 2),
            parameters=(("high", 127), ("low", -128), ("zero_point", 3)),
        ),
    )


def _conv(layout: str) -> relax.Expr:
    data = relax.Var("x", tensor(X.shape, "int8"))
    return op.nn.conv2d(data, constant(W.shape), data_layout="NHWC", kernel_layout=layout)


CONSTANTS = (
    np.arange(6, dtype=np.int8).reshape(W.shape),
    np.array([[[[5, 6, 7]]]], np.int32),
    np.array([[[[0.25, 0.5, 1]]]], np.float32),
)


def test_columns_of_a_convolution_are_where_its_layout_says():
    found = magnitude_of(_conv("OHWI"), (X, W), _steps((1, 1, 1, 3)), CONSTANTS)
    bounds = magnitude(CONSTANTS[0], 0, "int8", CONSTANTS[1], CONSTANTS[2])
    assert found == dataclasses.replace(bounds, fused=True)
    turned = Operand((2, 1, 1, 3), "int8", "constant", 0)
    weights = (CONSTANTS[0].reshape(turned.shape), *CONSTANTS[1:])
    found = magnitude_of(_conv("IHWO"), (X, turned), _steps((1, 1, 1, 3)), weights)
    bounds = magnitude(weights[0], 3, "int8", CONSTANTS[1], CONSTANTS[2])
    assert found == dataclasses.replace(bounds, fused=True)


def test_integer_multipliers_are_parts_of_a_power_of_two():
    offset, last = _steps((1, 1, 1, 3))
    rescaled = dataclasses.replace(last, parameters=(("shift", 33),))
    integers = (CONSTANTS[2] * 2.0**30).astype(np.int32)
    found = magnitude_of(_conv("OHWI"), (X, W), (offset, rescaled), (*CONSTANTS[:2], integers))
    assert found == magnitude(CONSTANTS[0], 0, "int8", CONSTANTS[1], CONSTANTS[2] / 8)


@pytest.mark.parametrize(
    ("x", "w", "steps"),
    [
        (X, Operand(W.shape, "int8", "input", 1), _steps((1, 1, 1, 3))),
        (Operand(X.shape, "int32", "input", 0), W, _steps((1, 1, 1, 3))),
        (X, W, _steps((1, 4, 4, 3))),
        (X, W, _steps((1, 1, 1, 3))[:1]),
    ],
    ids=["weights of run time", "int32 data", "a multiplier a pixel", "not requantised"],
)
def test_what_has_no_bound(x: Operand, w: Operand, steps: tuple[Step, ...]):
    assert magnitude_of(_conv("OHWI"), (x, w), steps, CONSTANTS) is None


@pytest.mark.parametrize(("dtype", "zero"), [("int8", -128), ("int8", 5), ("uint8", 131)])
def test_a_transposed_convolution_has_the_bound_of_its_greatest_phase(dtype: str, zero: int):
    # Output 0 meets tap 1, output 1 taps 2 and 0.
    geometry = Geometry((1, 1, 4, 1), (1, 1, 3, 1), (1, 2), (0, 1, 0, 1), (0, 1), (1, 1), 1)
    w = np.array([100, -127, 90], np.int8).reshape(geometry.weights)
    low, high = RANGES[dtype]
    corners = (np.array(c).reshape(geometry.data) for c in itertools.product((low, high), repeat=4))
    greatest = max(np.abs(accumulators(x, w, zero, geometry) + 77).max() for x in corners)
    m = np.array([0.37], np.float32)
    operands = (
        Operand(geometry.data, dtype, "input", 0),
        Operand(geometry.weights, "int8", "constant", 0),
    )
    steps = (
        Step("offset", Operand((1,), "int32", "constant", 1)),
        Step("requantize", Operand((1,), "float32", "constant", 2)),
    )
    attributes = {name: str(value) for name, value in geometry.attributes.items()} | {"x_zero": str(zero)}
    found = magnitude_of_transposed(operands, attributes, steps, [w, np.array([77]), m])
    assert found is not None
    assert greatest < 2**found.accumulator <= 2 * greatest
    assert greatest * 0.37 < 2**found.scaled <= 2 * greatest * 0.38


@pytest.mark.parametrize(("offset", "gains"), [(0, True), (1 << 22, False)])
def test_a_branch_for_proven_columns_gains_where_most_are(offset: int, gains: bool):
    """A multiplier that is a power of two has a fused form, for accumulators below 2**22."""
    constants = [
        np.ones((3, 1, 1, 2), np.int8),
        np.full((1, 1, 1, 3), offset, np.int32),
        np.full((1, 1, 1, 3), 2.0**-9, np.float32),
    ]
    found = magnitude_of(_conv("OHWI"), (X, W), _steps((1, 1, 1, 3)), constants)
    assert found is not None
    assert found.fused is gains
